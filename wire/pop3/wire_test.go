package pop3

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want Command
		err  string
	}{
		{"stat", Command{Name: "STAT"}, ""},
		{"STAT ", Command{Name: "STAT"}, ""},
		{"STAT 1", Command{Name: "STAT"}, "has no argument"},
		{"USER alice smith", Command{Name: "USER", Text: "alice smith"}, ""},
		{"USER", Command{Name: "USER"}, "needs an argument"},
		{"PASS  two  blanks ", Command{Name: "PASS", Text: " two  blanks "}, ""},
		{"PASS \xff", Command{Name: "PASS", Text: "\xff"}, "UTF-8"},
		{"RETR 1", Command{Name: "RETR", Number: 1}, ""},
		{"RETR", Command{Name: "RETR"}, "number"},
		{"RETR 0", Command{Name: "RETR"}, "number"},
		{"RETR -1", Command{Name: "RETR"}, "number"},
		{"RETR 99999999999999999999999", Command{Name: "RETR", Number: 1<<32 - 1}, ""},
		{"LIST", Command{Name: "LIST"}, ""},
		{"LIST 7", Command{Name: "LIST", Number: 7}, ""},
		{"TOP 1 0", Command{Name: "TOP", Number: 1}, ""},
		{"TOP 1  10", Command{Name: "TOP", Number: 1, Lines: 10}, ""},
		{"TOP 1", Command{Name: "TOP", Number: 1}, "number"},
		{"AUTH plain", Command{Name: "AUTH", Text: "PLAIN"}, ""},
		{"AUTH PLAIN =", Command{Name: "AUTH", Text: "PLAIN", Initial: []byte{}}, ""},
		{"AUTH PLAIN YQ==", Command{Name: "AUTH", Text: "PLAIN", Initial: []byte("a")}, ""},
		{"AUTH PLAIN %%", Command{Name: "AUTH", Text: "PLAIN"}, "base64"},
		{"AUTH", Command{Name: "AUTH"}, "mechanism"},
		{"LANG", Command{Name: "LANG"}, ""},
		{"LANG en-GB", Command{Name: "LANG", Text: "en-GB"}, ""},
		{"APOP x y", Command{}, "unknown"},
		{"", Command{}, "unknown"},
		{"USER " + strings.Repeat("x", MaxCommand), Command{Name: "USER"}, "too long"},
	} {
		got, err := Parse([]byte(c.line))
		if c.err != "" {
			if !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.err) || got.Name != c.want.Name {
				t.Errorf("%q: %+v, %v", c.line, got, err)
			}
			continue
		}
		if err != nil || got.Name != c.want.Name || got.Text != c.want.Text || got.Number != c.want.Number ||
			got.Lines != c.want.Lines ||
			(got.Initial == nil) != (c.want.Initial == nil) || !bytes.Equal(got.Initial, c.want.Initial) {
			t.Errorf("%q: %+v, %v", c.line, got, err)
		}
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Reply{
		"+OK":                    {OK: true},
		"+OK 2 320":              {OK: true, Text: "2 320"},
		"-ERR [in-use] locked":   {Code: "IN-USE", Text: "locked"},
		"-ERR [SYS/TEMP] later":  {Code: CodeSysTemp, Text: "later"},
		"-ERR [ open":            {Text: "[ open"},
		"+ YQ==":                 {Challenge: true, Text: "YQ=="},
		"+":                      {Challenge: true},
		"-ERR":                   {},
		"-ERR nothing with code": {Text: "nothing with code"},
	} {
		if got, err := ParseReply([]byte(line)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
	}
	for _, line := range []string{"", "OK", "+OKAY", "* OK", "-ERROR"} {
		if got, err := ParseReply([]byte(line)); err == nil {
			t.Errorf("%q: %+v", line, got)
		}
	}
	if got := string(AppendErr(AppendOK(nil, ""), CodeAuth, "wrong")); got != "+OK\r\n-ERR [AUTH] wrong\r\n" {
		t.Errorf("%q", got)
	}
}

// travel converts a message to its wire format in pieces of a given size.
func travel(raw []byte, piece int) []byte {
	var s Stuffer
	var out []byte
	for len(raw) > 0 {
		n := min(piece, len(raw))
		out = s.Append(out, raw[:n])
		raw = raw[n:]
	}
	return s.AppendEnd(out)
}

func TestTravel(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                     ".\r\n",
		"a\r\n":                "a\r\n.\r\n",
		"a":                    "a\r\n.\r\n",
		"a\r":                  "a\r\n.\r\n",
		"a\nb\n":               "a\r\nb\r\n.\r\n",
		".\r\n":                "..\r\n.\r\n",
		"a\r\n.\r\n.b\r\n":     "a\r\n..\r\n..b\r\n.\r\n",
		"a\n.\nb":              "a\r\n..\r\nb\r\n.\r\n",
		"\n":                   "\r\n.\r\n",
		"a\rb\r\n":             "a\rb\r\n.\r\n",
		"x\x00y\r\n":           "x\x80y\r\n.\r\n",
		"\r\n\r\n":             "\r\n\r\n.\r\n",
		"a\r\r\n":              "a\r\r\n.\r\n",
		"a.\r\n..\r\n":         "a.\r\n...\r\n.\r\n",
		"\xff\xfe\r\n\x00\x00": "\xff\xfe\r\n\x80\x80\r\n.\r\n",
	} {
		for piece := 1; piece < 6; piece++ {
			if got := string(travel([]byte(raw), piece)); got != want {
				t.Errorf("%q in pieces of %d: %q, want %q", raw, piece, got, want)
			}
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw   string
		lines uint32
		want  string
	}{
		{"A: 1\r\nB: 2\r\n\r\none\r\ntwo\r\n", 0, "A: 1\r\nB: 2\r\n\r\n"},
		{"A: 1\r\n\r\none\r\ntwo\r\n", 1, "A: 1\r\n\r\none\r\n"},
		{"A: 1\r\n\r\none\r\ntwo", 2, "A: 1\r\n\r\none\r\ntwo"},
		{"A: 1\r\n\r\none\r\n", 9, "A: 1\r\n\r\none\r\n"},
		{"A: 1\n\none\ntwo\n", 1, "A: 1\n\none\n"},
		{"A: 1\r\nno end", 3, "A: 1\r\nno end"},
		{"\r\nbody\r\nmore\r\n", 1, "\r\nbody\r\n"},
		{"", 3, ""},
	} {
		for piece := 1; piece < 7; piece++ {
			top, got := Top{Lines: c.lines}, ""
			for rest := []byte(c.raw); len(rest) > 0; {
				p := rest[:min(piece, len(rest))]
				n, done := top.Take(p)
				got += string(p[:n])
				if done {
					break
				}
				if n != len(p) {
					t.Fatalf("%q: took %d of %d and is not done", c.raw, n, len(p))
				}
				rest = rest[n:]
			}
			if got != c.want {
				t.Errorf("%q %d in pieces of %d: %q", c.raw, c.lines, piece, got)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"USER a", "AUTH PLAIN YQ==", "TOP 1 2", "LANG", "RETR 4294967296", "auth x ="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := Parse(line)
		if err != nil {
			return
		}
		again, err := Parse(bytes.TrimSuffix(c.Append(nil), []byte("\r\n")))
		if err != nil || again.Name != c.Name || again.Text != c.Text || again.Number != c.Number ||
			again.Lines != c.Lines || !bytes.Equal(again.Initial, c.Initial) {
			t.Errorf("%q: %+v, then %+v, %v", line, c, again, err)
		}
	})
}

// FuzzTravel checks that a sent message is read back as lines, that its length matches Extra, and that no content ends
// it early, whatever the pieces.
func FuzzTravel(f *testing.F) {
	f.Add([]byte("a\r\n.\r\nb"), 3)
	f.Add([]byte("\n.\n\x00\r"), 1)
	f.Fuzz(func(t *testing.T, raw []byte, piece int) {
		if piece < 1 || piece > 1<<16 {
			return
		}
		wire := travel(raw, piece)
		r := bufio.NewReaderSize(bytes.NewReader(append(bytes.Clone(wire), "next"...)), 16)
		back, err := io.ReadAll(NewDataReader(r, 1<<30))
		if err != nil {
			t.Fatal(err)
		}
		if len(back) != len(raw)+Extra(raw) {
			t.Errorf("%q: %d octets travel, foretold %d", raw, len(back), len(raw)+Extra(raw))
		}
		if rest, _ := io.ReadAll(r); string(rest) != "next" {
			t.Errorf("%q: behind the end stands %q", raw, rest)
		}
		for i, b := range back {
			if b == '\n' && (i == 0 || back[i-1] != '\r') || b == 0 {
				t.Fatalf("%q travels as %q", raw, back)
			}
		}
	})
}

func TestDataReader(t *testing.T) {
	t.Parallel()
	r := NewDataReader(bufio.NewReader(strings.NewReader("a\r\n..b\r\n.\r\n")), 100)
	if b, err := io.ReadAll(r); err != nil || string(b) != "a\r\n.b\r\n" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := io.ReadAll(NewDataReader(bufio.NewReader(strings.NewReader("a\r\nb")), 100)); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if _, err := io.ReadAll(NewDataReader(bufio.NewReader(strings.NewReader(strings.Repeat("a\r\n", 50))),
		100)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
}
