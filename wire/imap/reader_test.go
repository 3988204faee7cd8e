package imap

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// session reads every command of input and returns the tags, with errors in brackets.
func session(t *testing.T, input string, limits Limits, onAppend func(*Reader, *Command) string) (string, *Reader) {
	t.Helper()
	var invited int
	r := NewReader(iotest.HalfReader(strings.NewReader(input)), limits)
	r.Continue = func() error { invited++; return nil }
	var out []string
	for range 100 {
		cmd, err := r.ReadCommand()
		var e *SyntaxError
		switch {
		case errors.As(err, &e):
			s := "[" + e.Tag
			if e.Fatal {
				s += " fatal"
			}
			out = append(out, s+"]")
			if e.Fatal {
				return strings.Join(out, " "), r
			}
		case err != nil:
			return strings.Join(append(out, err.Error()), " "), r
		case (cmd.Name == "APPEND" || cmd.Name == "REPLACE") && onAppend != nil:
			out = append(out, cmd.Tag+onAppend(r, cmd))
		default:
			out = append(out, cmd.Tag)
		}
	}
	t.Fatal("no end")
	return "", nil
}

func readMessage(r *Reader, cmd *Command) string {
	if cmd != nil {
		if a := appendOf(cmd); a.Catenate {
			return readParts(r, a)
		}
	}
	m, err := r.Message()
	if err != nil {
		return err.Error()
	}
	b, err := io.ReadAll(m)
	if err != nil {
		return err.Error()
	}
	next, err := r.EndMessage()
	if err != nil {
		return "!" + err.Error()
	}
	return "=" + string(b) + readNext(r, next)
}

func readNext(r *Reader, next *Append) string {
	switch {
	case next == nil:
		return ""
	case next.Catenate:
		return fmt.Sprint(next.Flags) + readParts(r, next)
	}
	return fmt.Sprint(next.Flags) + readMessage(r, nil)
}

// readParts reads a CATENATE message.
func readParts(r *Reader, a *Append) string {
	out := "=("
	for {
		part, err := r.Part()
		switch {
		case err != nil:
			return out + "!" + err.Error()
		case part == nil:
			next, err := r.EndMessage()
			if err != nil {
				return out + ")!" + err.Error()
			}
			return out + ")" + readNext(r, next)
		case !part.Literal:
			out += "<" + part.URL + ">"
			continue
		}
		m, err := r.Message()
		if err != nil {
			return out + err.Error()
		}
		b, err := io.ReadAll(m)
		if out += string(b); err != nil || int64(len(b)) != part.Size {
			return out + fmt.Sprint(err, part.Size)
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	small := Limits{Line: 100, Literal: 20, Total: 60, Append: 30, NonSync: 25, Discard: 500, Ranges: 10,
		Depth: 5, Items: 10}
	long := strings.Repeat("x", 300)
	refuse := func(r *Reader, _ *Command) string {
		if err := r.RefuseMessage(); err != nil {
			return err.Error()
		}
		return "-"
	}
	for _, c := range []struct {
		name, in, want string
		onAppend       func(*Reader, *Command) string
	}{
		{"two messages", "a APPEND x (\\Seen) {3+}\r\nabc (\\Draft) ~{2+}\r\nde {1+}\r\nf\r\nb NOOP\r\n",
			`a=abc[\Draft]=de[]=f b EOF`, readMessage},
		{"two messages in UTF8", "a APPEND x UTF8 (~{3+}\r\nabc) UTF8 (~{2+}\r\nde)\r\nb NOOP\r\n", `a=abc[]=de b EOF`,
			readMessage},
		{"second too large", "a APPEND x {3+}\r\nabc {31+}\r\n0123456789012345678901234567890 {1+}\r\nx\r\nb NOOP\r\n",
			"a!imap: Message too large b EOF", readMessage},
		{"second malformed", "a APPEND x {3+}\r\nabc x {3+}\r\nabc\r\nb NOOP\r\n",
			"a!imap: Expected a message literal b EOF", readMessage},
		{"refused with what follows", "a APPEND x {3+}\r\nabc {3+}\r\nabc\r\nb NOOP\r\n", "a- b EOF", refuse},
		{"refused after the first", "a APPEND x {3+}\r\nabc {3+}\r\nabc {1+}\r\nx\r\nb NOOP\r\n", "a- b EOF",
			func(r *Reader, c *Command) string {
				if _, err := r.Message(); err != nil {
					return err.Error()
				}
				return refuse(r, c)
			}},
		{"REPLACE has one message", "a REPLACE 1 x {3+}\r\nabc {3+}\r\nabc\r\nb NOOP\r\n",
			"a!imap: Unexpected text behind the message b EOF", readMessage},
		{"catenate", "a APPEND x CATENATE (TEXT {3+}\r\nabc URL u1 TEXT {1}\r\nd)\r\nb NOOP\r\n", "a=(abc<u1>d) b EOF",
			readMessage},
		{"catenate of URLs", "a APPEND x (\\Seen) CATENATE (URL /a URL \"/b c\")\r\nb NOOP\r\n", "a=(</a></b c>) b EOF",
			readMessage},
		{"catenate with URLs in literals",
			"a APPEND x CATENATE (URL {2+}\r\nu1 TEXT {1+}\r\nd URL {2}\r\nu2 TEXT {1+}\r\ne url {2+}\r\nu3)\r\n" +
				"b NOOP\r\n",
			"a=(<u1>d<u2>e<u3>) b EOF", readMessage},
		{"catenate in UTF8", "a APPEND x CATENATE (UTF8 (~{2+}\r\n\xc3\xa9) URL u)\r\nb NOOP\r\n",
			"a=(\u00e9<u>) b EOF", readMessage},
		{"catenate, several",
			"a APPEND x CATENATE (URL u) CATENATE (URL v TEXT {1+}\r\nx) (\\Draft) {3+}\r\nabc CATENATE (URL w) \r\n" +
				"b NOOP\r\n",
			`a=(<u>)[]=(<v>x)[\Draft]=abc[]=(<w>) b EOF`, readMessage},
		{"catenate in REPLACE", "a REPLACE 1 x CATENATE (URL u TEXT {1+}\r\nx)\r\nb NOOP\r\n", "a=(<u>x) b EOF",
			readMessage},
		{"catenate, two in REPLACE", "a REPLACE 1 x CATENATE (TEXT {1+}\r\nx) CATENATE (URL u)\r\nb NOOP\r\n",
			"a=(x!imap: Unexpected text behind the message b EOF", readMessage},
		{"catenate cut short", "a APPEND x CATENATE (TEXT {1+}\r\nx\r\nb NOOP\r\n",
			"a=(x!imap: Unexpected text behind the message b EOF", readMessage},
		{"catenate of nonsense", "a APPEND x CATENATE (TEXT {1+}\r\nx OTHER {3+}\r\nabc URL {1+}\r\nu)\r\nb NOOP\r\n",
			"a=(x!imap: Expected URL, TEXT or UTF8 b EOF", readMessage},
		{"catenate of nothing", "a APPEND x CATENATE ()\r\nb NOOP\r\n", "[a] b EOF", readMessage},
		{"catenate, part too large",
			"a APPEND x CATENATE (URL u TEXT {31+}\r\n0123456789012345678901234567890)\r\nb NOOP\r\n", "[a] b EOF",
			readMessage},
		{"catenate, URL too long",
			"a APPEND x CATENATE (TEXT {1+}\r\nx URL {21+}\r\n012345678901234567890 TEXT {1+}\r\nx)\r\nb NOOP\r\n",
			"a=(x!imap: Literal too large b EOF", readMessage},
		{"catenate refused",
			"a APPEND x CATENATE (URL u TEXT {3+}\r\nabc URL {3+}\r\nabc TEXT {1+}\r\nx)\r\nb NOOP\r\n",
			"a- b EOF", refuse},
		{"catenate of URLs refused", "a APPEND x CATENATE (URL u)\r\nb NOOP\r\n", "a- b EOF", refuse},
		{"catenate, the mailbox is URL", "a APPEND URL {3+}\r\nabc\r\nb NOOP\r\n", "a=abc b EOF", readMessage},
		{"catenate, first part refused while it comes",
			"a APPEND x CATENATE (TEXT {3+}\r\nabc TEXT {1+}\r\nx)\r\nb NOOP\r\n", "a- b EOF",
			func(r *Reader, c *Command) string {
				if _, err := r.Part(); err != nil {
					return err.Error()
				}
				if _, err := r.Message(); err != nil {
					return err.Error()
				}
				return refuse(r, c)
			}},
		{"pipelined", "a NOOP\r\nb noop\nc LOGIN {1+}\r\nx {1}\r\ny\r\nd NOOP\r\n", "a b c d EOF", nil},
		{"cut off", "a NOOP\r\nb LOGIN {5+}\r\nx", "a unexpected EOF", nil},
		{"bad line", "a XYZ\r\nb NOOP\r\n", "[a] b EOF", nil},
		{"long line", "a " + long + "\r\nb NOOP\r\n", "[a] b EOF", nil},
		{"long line with a literal", "a " + long + "{6+}\r\nx NOOP {8+}\r\ny NOOP\r\n\r\nb NOOP\r\n", "[a] b EOF", nil},
		{"endless line", "a " + long + long + "\r\n", "too much", nil},
		{"large literal, waiting", "a LOGIN {21}\r\nb NOOP\r\n", "[a] b EOF", nil},
		{"large literal, not waiting", "a LOGIN {21+}\r\n1234567\r\nz NOOP\r\n12345 q\r\nb NOOP\r\n", "[a] b EOF", nil},
		{"huge literal, not waiting", "a LOGIN {99999999999999999999999+}\r\nb NOOP\r\n", "[a fatal]", nil},
		{"append", "a APPEND x {5}\r\nhello\r\nb NOOP\r\n", "a=hello b EOF", readMessage},
		{"append nothing", "a APPEND x {0}\r\n\r\nb NOOP\r\n", "a= b EOF", readMessage},
		{"append utf8", "a APPEND x UTF8 (~{5+}\r\nhello)\r\nb NOOP\r\n", "a=hello b EOF", readMessage},
		{"append with a tail", "a APPEND x {5+}\r\nhello tail\r\nb NOOP\r\n",
			"a!imap: Unexpected text behind the message b EOF", readMessage},
		{"multiappend", "a APPEND x {5+}\r\nhello {7+}\r\nz NOOP\n\r\nb NOOP\r\n", "a=hello[]=z NOOP\n b EOF",
			readMessage},
		{"append with mailbox literal", "a APPEND {1}\r\nx (\\Seen) {5+}\r\nhello\r\nb NOOP\r\n", "a=hello b EOF",
			readMessage},
		{"append refused, waiting", "a APPEND x {5}\r\nb NOOP\r\n", "a- b EOF", refuse},
		{"append refused, not waiting", "a APPEND x {8+}\r\nz NOOP\r\n\r\nb NOOP\r\n", "a- b EOF", refuse},
		{"append forgotten", "a APPEND x {8+}\r\nz NOOP\r\n\r\nb NOOP\r\n", "a b EOF", nil},
		{"append too big, waiting", "a APPEND x {31}\r\nb NOOP\r\n", "[a] b EOF", readMessage},
		{"append over LITERAL-", "a APPEND x {26+}\r\n" + strings.Repeat("m", 26) + "\r\nb NOOP\r\n", "[a] b EOF",
			readMessage},
		{"append bad syntax", "a APPEND x foo {8+}\r\nz NOOP\r\n\r\nb NOOP\r\n", "[a] b EOF", readMessage},
		{"append cut off", "a APPEND x {8+}\r\nz", "aunexpected EOF unexpected EOF", readMessage},
		{"nul", "a LOGIN {1+}\r\n\x00 x\r\nb NO\x00OP\r\nc NOOP\r\n", "[a] [b] c EOF", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := session(t, c.in, small, c.onAppend)
			if got != c.want && !(c.name == "endless line" && strings.Contains(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestContinue(t *testing.T) {
	t.Parallel()
	var invited int
	read := func(in string) {
		r := NewReader(strings.NewReader(in), DefaultLimits())
		r.Continue = func() error { invited++; return nil }
		cmd, err := r.ReadCommand()
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if cmd.Name == "APPEND" {
			readMessage(r, cmd)
		}
	}
	for _, c := range []struct {
		in   string
		want int
	}{
		{"a LOGIN {1}\r\nx {1}\r\ny\r\n", 2}, {"a LOGIN {1+}\r\nx {1}\r\ny\r\n", 1},
		{"a APPEND x {1}\r\ny\r\n", 1}, {"a APPEND x {1+}\r\ny\r\n", 0},
	} {
		invited = 0
		if read(c.in); invited != c.want {
			t.Errorf("%q: %d invitations, want %d", c.in, invited, c.want)
		}
	}
	r := NewReader(strings.NewReader("a LOGIN {1}\r\nx y\r\n"), DefaultLimits())
	r.Continue = func() error { return io.ErrClosedPipe }
	if _, err := r.ReadCommand(); err != io.ErrClosedPipe {
		t.Errorf("failed invitation: %v", err)
	}
}

func TestReaderHoldsNothingWhileIdle(t *testing.T) {
	t.Parallel()
	in := "a LOGIN " + strings.Repeat("x", 3000) + " y\r\nb APPEND x {5000+}\r\n" + strings.Repeat("m", 5000) + "\r\n"
	r := NewReader(iotest.OneByteReader(strings.NewReader(in)), DefaultLimits())
	for range 2 {
		cmd, err := r.ReadCommand()
		if err != nil {
			t.Fatal(err)
		}
		if cmd.Name == "APPEND" {
			readMessage(r, cmd)
		}
		if r.pool != nil || r.buf != nil {
			t.Errorf("a buffer is held behind %s", cmd.Name)
		}
	}
}

func TestResetDropsWhatWasPipelined(t *testing.T) {
	t.Parallel()
	r := NewReader(strings.NewReader("a STARTTLS\r\nb NOOP\r\n"), DefaultLimits())
	if _, err := r.ReadCommand(); err != nil || r.Buffered() == 0 {
		t.Fatal(err, r.Buffered())
	}
	r.Reset(strings.NewReader("c NOOP\r\n"))
	if cmd, err := r.ReadCommand(); err != nil || cmd.Tag != "c" {
		t.Fatal(cmd, err)
	}
}
