package mbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll returns the messages as sender|text, with LF for CRLF, or the errors.
func readAll(in io.Reader, opt Options) (out []string) {
	r := NewReader(in, opt)
	for {
		m, err := r.Next()
		switch {
		case err == io.EOF:
			return out
		case errors.Is(err, ErrTooLarge):
			out = append(out, "too large")
		case err != nil:
			return append(out, err.Error())
		default:
			out = append(out, m.Sender+"|"+strings.ReplaceAll(string(m.Raw), "\r\n", "\n"))
		}
	}
}

const (
	fromA = "From a@x Thu Aug 22 12:36:23 2002\n"
	fromB = "From b@y  Fri Aug 23 12:36:23 2002\n"
)

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, in string
		opt      Options
		want     []string
	}{
		{"empty", "", Options{}, nil},
		{"blank lines only", "\n\r\n\n", Options{}, nil},
		{"one", fromA + "S: x\n\nbody\n", Options{}, []string{"a@x|S: x\n\nbody\n"}},
		{"one of its own", fromA + "S: x\n\nbody\n\n", Options{}, []string{"a@x|S: x\n\nbody\n\n"}},
		{"one, strip", fromA + "S: x\n\nbody\n\n", Options{FinalBlank: FinalBlankStrip},
			[]string{"a@x|S: x\n\nbody\n"}},
		{"two", fromA + "S: x\n\n1\n\n" + fromB + "S: y\n\n2\n\n", Options{},
			[]string{"a@x|S: x\n\n1\n", "b@y|S: y\n\n2\n"}},
		{"two, keep", fromA + "\n1\n\n" + fromB + "\n2\n\n", Options{FinalBlank: FinalBlankKeep},
			[]string{"a@x|\n1\n", "b@y|\n2\n\n"}},
		{"CRLF file", strings.ReplaceAll(fromA+"S: x\n\n1\n\n"+fromB+"2", "\n", "\r\n"), Options{},
			[]string{"a@x|S: x\n\n1\n", "b@y|2"}},
		{"no blank line before", fromA + "\n1\n" + fromB + "2\n", Options{}, []string{"a@x|\n1\n" + fromB + "2\n"}},
		{"sentence", fromA + "S: x\n\n\nFrom here on\n", Options{}, []string{"a@x|S: x\n\n\nFrom here on\n"}},
		{"quoted kept", fromA + "S: x\n\n>From a\n>>From b\n", Options{}, []string{"a@x|S: x\n\n>From a\n>>From b\n"}},
		{"quoted undone", fromA + "S: x\n\n>From a\n>>From b\n> From c\n>", Options{Unquote: true},
			[]string{"a@x|S: x\n\nFrom a\n>From b\n> From c\n>"}},
		{"no From line", "S: x\n\nb\n", Options{}, []string{ErrNoFromLine.Error()}},
		{"bare", "S: x\n\nb\n\n", Options{Bare: true}, []string{"|S: x\n\nb\n\n"}},
		{"bare, short", "S", Options{Bare: true}, []string{"|S"}},
		{"From line alone", "From a", Options{}, []string{"a|"}},
		{"From line twice", fromA + fromB + "x\n", Options{}, []string{"a@x|" + fromB + "x\n"}},
		{"empty message", fromA + "\n" + fromB + "x", Options{}, []string{"a@x|", "b@y|x"}},
		{"too large", fromA + "12345678\n\n" + fromB + "123456\n", Options{MaxSize: 8},
			[]string{"too large", "b@y|123456\n"}},
		{"just large enough", fromA + "123456\n", Options{MaxSize: 8}, []string{"a@x|123456\n"}},
		{"huge line", fromA + long + "\n\n" + fromB + long, Options{}, []string{"a@x|" + long + "\n", "b@y|" + long}},
		{"huge line, too large", fromA + long + "\n\n" + fromB + "x", Options{MaxSize: 1000},
			[]string{"too large", "b@y|x"}},
		{"huge From line", "From a@x " + long + "\nx", Options{}, []string{"a@x|x"}},
		{"bare CR", fromA + "a\rb\r\n", Options{}, []string{"a@x|a\rb\n"}},
	} {
		for how, in := range map[string]io.Reader{"whole": strings.NewReader(c.in),
			"bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			if got := readAll(in, c.opt); strings.Join(got, "\x00") != strings.Join(c.want, "\x00") {
				t.Errorf("%s, %s:\ngot  %.300q\nwant %.300q", c.name, how, got, c.want)
			}
		}
	}
}

func TestReaderMessage(t *testing.T) {
	t.Parallel()
	in := "\n" + fromA + "12345678\n\n" + fromB + "x\n"
	r := NewReader(strings.NewReader(in), Options{MaxSize: 5})
	m, err := r.Next()
	if !errors.Is(err, ErrTooLarge) || m.Size != 10 || m.Number != 1 || m.Offset != 1 || m.Raw != nil {
		t.Errorf("%+v %v", m, err)
	}
	m, err = r.Next()
	if err != nil || m.Number != 2 || m.Offset != int64(strings.Index(in, fromB)) ||
		!m.Date.Equal(time.Date(2002, 8, 23, 12, 36, 23, 0, time.UTC)) {
		t.Errorf("%+v %v", m, err)
	}
	broken := errors.New("disk")
	r = NewReader(io.MultiReader(strings.NewReader(fromA+"x\n"), iotest.ErrReader(broken)), Options{})
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestFromLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"From exmh-workers-admin@redhat.com  Thu Aug 22 12:36:23 2002\n": "exmh-workers-admin@redhat.com " +
			"2002-08-22T12:36:23Z",
		"From \"a b\"@x Thu Aug  2 12:36:23 2002\r\n":         "\"a b\"@x 2002-08-02T12:36:23Z",
		"From a@x Thu Aug 22 12:36 2002 remote from y":        "a@x 2002-08-22T12:36:00Z",
		"From MAILER-DAEMON Fri Jul  8 12:08:34 +0200 2011\n": "MAILER-DAEMON 2011-07-08T10:08:34Z",
		"From a@x\n":       "a@x 0001-01-01T00:00:00Z",
		"From a@x today\n": "a@x 0001-01-01T00:00:00Z",
		"From \n":          " 0001-01-01T00:00:00Z",
	} {
		sender, date := parseFrom([]byte(in))
		if got := sender + " " + date.UTC().Format(time.RFC3339); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func write(t testing.TB, messages ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, m := range messages {
		if err := w.Write("a b@x", time.Unix(1e9, 0), []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriter(t *testing.T) {
	t.Parallel()
	messages := []string{"stray\r\r\nCR\r\n", "S: x\r\n\r\nFrom a\r\n>From b\r\n\r\n", "",
		"S: y\r\n\r\n\r\nFrom b@y Fri Aug 23 12:36:23 2002\r\n"}
	file := write(t, messages...)
	if !bytes.HasPrefix(file, []byte("From a-b@x Sun Sep  9 01:46:40 2001\nstray\r\r\nCR\n\nFrom ")) ||
		!bytes.Contains(file, []byte("2001\nS: x\n\n>From a\n>>From b\n\n\n")) {
		t.Errorf("%q", file)
	}
	got := readAll(bytes.NewReader(file), Options{Unquote: true, FinalBlank: FinalBlankStrip})
	if len(got) != 4 {
		t.Fatalf("%q", got)
	}
	for i := range got {
		if got[i] != "a-b@x|"+strings.ReplaceAll(messages[i], "\r\n", "\n") {
			t.Errorf("got %q, want %q", got[i], messages[i])
		}
	}
	if err := NewWriter(iotestWriter{}).failing(); err == nil {
		t.Error("a failing disk went unnoticed")
	}
}

// iotestWriter returns an error for every write.
type iotestWriter struct{}

func (iotestWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func (w *Writer) failing() error {
	if err := w.Write("a", time.Time{}, []byte("x\r\n")); err != nil {
		return err
	}
	return w.Flush()
}

func FuzzMbox(f *testing.F) {
	f.Add([]byte(fromA+"S: x\n\n>From 1\n\n"+fromB+"\n2"), uint8(0))
	f.Add([]byte("S: x\r\n\r\nb"), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, mode uint8) {
		opt := Options{Unquote: mode&1 != 0, Bare: mode&2 != 0, MaxSize: 1000, FinalBlank: FinalBlank(mode >> 2 % 3)}
		whole := readAll(bytes.NewReader(b), opt)
		if pieces := readAll(iotest.HalfReader(bytes.NewReader(b)), opt); strings.Join(whole,
			"\x00") != strings.Join(pieces, "\x00") {
			t.Fatalf("%q, in pieces %q", whole, pieces)
		}
		r := NewReader(bytes.NewReader(b), opt)
		var messages []string
		for {
			m, err := r.Next()
			if err == io.EOF || errors.Is(err, ErrNoFromLine) {
				break
			}
			if err != nil {
				if !errors.Is(err, ErrTooLarge) || m.Size <= 1000 {
					t.Fatal(m.Size, err)
				}
				continue
			}
			if len(m.Raw) > 1000 || bytes.Count(m.Raw, []byte("\n")) != bytes.Count(m.Raw, []byte("\r\n")) {
				t.Fatalf("%q", m.Raw)
			}
			if n := len(m.Raw); n == 0 || m.Raw[n-1] == '\n' {
				messages = append(messages, string(m.Raw))
			}
		}
		// Messages that were read can be written and read again.
		again := readAll(bytes.NewReader(write(t, messages...)), Options{Unquote: true, FinalBlank: FinalBlankStrip})
		if len(again) != len(messages) {
			t.Fatalf("%d messages, then %d", len(messages), len(again))
		}
		for i, m := range messages {
			if got := strings.TrimPrefix(again[i], "a-b@x|"); got != strings.ReplaceAll(m, "\r\n", "\n") {
				t.Fatalf("wrote %q, read %q", m, got)
			}
		}
	})
}

// TestReserve checks that memory is reserved once for each large message, that an error of Reserve ends Next, and that
// Take returns messages that later ones do not overwrite.
func TestReserve(t *testing.T) {
	t.Parallel()
	const large = 10_000
	sizes := []int{10, large - 30, large + 1000, 20, 3 * large, 9 * large, 10}
	var file strings.Builder
	var want []string
	for i, n := range sizes {
		text := fmt.Sprintf("Subject: %d\r\n\r\n%s", i, strings.Repeat("line\r\n", n/6))
		want = append(want, text)
		file.WriteString("From a@b Thu Jan  1 00:00:00 2026\n" + text + "\r\n")
	}
	reserved := 0
	refused := errors.New("no memory")
	opt := Options{MaxSize: 8 * large, Large: large, FinalBlank: FinalBlankStrip, Reserve: func() error {
		if reserved++; reserved > 3 {
			return refused
		}
		return nil
	}}
	r := NewReader(strings.NewReader(file.String()+file.String()), opt)
	var got [][]byte
	for i := range sizes {
		_, err := r.Next()
		if tooLarge := i == 5; errors.Is(err, ErrTooLarge) != tooLarge || err != nil && !tooLarge {
			t.Fatalf("message %d: %v", i, err)
		}
		got = append(got, r.Take())
	}
	for i := range sizes {
		if i != 5 && string(got[i]) != want[i] {
			t.Errorf("message %d: %d bytes, want %d", i, len(got[i]), len(want[i]))
		}
	}
	if reserved != 3 {
		t.Errorf("reserved %d times", reserved)
	}
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(); !errors.Is(err, refused) {
		t.Errorf("a large message without memory: %v", err)
	}
}
