package mime

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	stdmime "mime"
	"mime/multipart"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// corpus unpacks the real messages in shared/corpus, next to the repository. It skips the test if they are absent.
func corpus(t *testing.T) (messages [][]byte, names []string) {
	t.Helper()
	archive := "../../../shared/corpus/spamassassin-easy_ham-spam.tar.xz"
	if _, err := os.Stat(archive); err != nil {
		t.Skip("skipped: the corpus is not there")
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xJf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Skipf("skipped: tar cannot unpack the corpus: %v %s", err, out)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if i := bytes.IndexByte(b, '\n'); bytes.HasPrefix(b, []byte("From ")) && i > 0 {
			b = b[i+1:]
		}
		messages, names = append(messages, AppendCRLF(nil, b)), append(names, filepath.Base(path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages, names
}

// TestCorpus parses 3,000 real messages, checks all invariants, and compares the result with the standard library if
// that can parse the message.
func TestCorpus(t *testing.T) {
	t.Parallel()
	messages, names := corpus(t)
	if len(messages) < 3000 {
		t.Fatalf("%d messages", len(messages))
	}
	var compared, lists, multiparts, dates, previews int
	for i, raw := range messages {
		root := Parse(raw, DefaultLimits)
		checkTree(t, raw, root)
		checkIndex(t, root)
		checkLeaves(t, raw, root)
		if Preview(raw, root) != "" {
			previews++
		}
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			continue
		}
		compared++
		e := root.Envelope
		if want := m.Header.Get("Subject"); strings.Join(strings.Fields(want),
			" ") != strings.Join(strings.Fields(e.Subject), " ") {
			t.Errorf("%s: subject %q, want %q", names[i], e.Subject, want)
		}
		if want, err := new(stdmime.WordDecoder).DecodeHeader(e.Subject); err == nil && ascii(want) &&
			want != DecodeWords(e.Subject) {
			t.Errorf("%s: decoded %q, want %q", names[i], DecodeWords(e.Subject), want)
		}
		if from, err := mail.ParseAddressList(m.Header.Get("From")); err == nil {
			lists++
			if len(e.From) != len(from) || e.From[0].Mailbox+"@"+e.From[0].Host != from[0].Address {
				t.Errorf("%s: from %v, want %v", names[i], e.From, from)
			}
		}
		if want, err := m.Header.Date(); err == nil {
			dates++
			if got, ok := ParseDate(e.Date); !ok || !got.Equal(want) && want.Location().String() == "" {
				t.Errorf("%s: date %q read as %v, want %v", names[i], e.Date, got, want)
			}
		}
		if n, ok := standardParts(m); ok {
			multiparts++
			if n != len(root.Children) {
				t.Errorf("%s: %d parts, want %d", names[i], len(root.Children), n)
			}
		}
	}
	t.Logf("compared %d messages, %d address lists, %d dates, %d multiparts; %d previews", compared, lists, dates,
		multiparts, previews)
	if compared < 2800 || lists < 2500 || multiparts < 100 || previews < 2900 {
		t.Error("too few messages could be compared")
	}
}

// standardParts counts the parts of a multipart with the standard library.
func standardParts(m *mail.Message) (n int, ok bool) {
	kind, params, err := stdmime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return 0, false
	}
	r := multipart.NewReader(m.Body, params["boundary"])
	for {
		_, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return n, true
		}
		if err != nil {
			return 0, false
		}
		n++
	}
}
