package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/imap"
	wire "doublet/wire/imap"
	"doublet/wire/mime"
)

// letters is real messages, those that lie beside the repository; without them the test is skipped.
func letters(t *testing.T, most int) (messages [][]byte) {
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
		if err != nil || d.IsDir() || len(messages) == most {
			return err
		}
		b, err := os.ReadFile(path)
		if i := bytes.IndexByte(b, '\n'); bytes.HasPrefix(b, []byte("From ")) && i > 0 {
			b = b[i+1:]
		}
		if bytes.IndexByte(b, 0) < 0 {
			messages = append(messages, mime.AppendCRLF(nil, b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// TestSortLikeDovecot: two servers with the same messages sort and thread them alike.
//
// Implements: RFC 5256 §3 SORT and THREAD, against a foreign server
func TestSortLikeDovecot(t *testing.T) {
	messages := letters(t, 400)
	port := dovecot(t)
	clients := []*imap.Client{imapClient(t, demo(t).port["imap"], "alice", "demo"), imapClient(t, port, "alice", "far")}
	for i, c := range clients {
		folder := []string{"Peer", "INBOX.Peer"}[i]
		if err := c.Create(folder); err != nil {
			t.Fatal(err)
		}
		for k, raw := range messages {
			date := time.Unix(1_000_000_000+int64(k*7919%1000), 0).UTC()
			if _, err := c.Append(folder, nil, date, bytes.NewReader(raw), int64(len(raw))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Select(&wire.Select{Mailbox: folder}, true); err != nil {
			t.Fatal(err)
		}
	}
	all := wire.Search{Charset: "UTF-8"}
	for f := wire.SortArrival; f <= wire.SortDisplayTo; f++ {
		for _, reverse := range []bool{false, true} {
			by := []wire.SortKey{{Field: f, Reverse: reverse}, {Field: wire.SortSize}}
			var got [2][]uint32
			for i, c := range clients {
				var err error
				if got[i], err = c.Sort(&wire.Sort{Search: all, By: by}, false); err != nil {
					t.Fatal(err)
				}
			}
			if n := differences(got[0], got[1]); n > 0 || len(got[0]) != len(messages) {
				t.Errorf("%+v: %d of %d stand elsewhere\n%v\n%v", by, n, len(got[0]), got[0], got[1])
			}
		}
	}
	for _, algorithm := range []string{"ORDEREDSUBJECT", "REFERENCES", "REFS"} {
		var got [2][]string
		for i, c := range clients {
			threads, err := c.Thread(&wire.Thread{Algorithm: algorithm, Search: all}, false)
			if err != nil && strings.Contains(err.Error(), "BAD") && i == 1 {
				t.Logf("Dovecot does not know %s", algorithm)
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range threads {
				got[i] = append(got[i], string(wire.AppendThread(nil, []wire.ThreadNode{n})))
			}
		}
		if got[1] == nil {
			continue
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s:\n%s", algorithm, difference(got[0], got[1]))
		}
	}
}

func differences(a, b []uint32) (n int) {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			n++
		}
	}
	return n
}

func difference(a, b []string) string {
	var out strings.Builder
	for _, s := range a {
		if !slices.Contains(b, s) {
			fmt.Fprintf(&out, "- %s", s)
		}
	}
	for _, s := range b {
		if !slices.Contains(a, s) {
			fmt.Fprintf(&out, "+ %s", s)
		}
	}
	if out.Len() == 0 {
		return "the same threads in another order"
	}
	return out.String()
}
