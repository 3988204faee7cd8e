package scenario

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serve starts a server on loopback that runs talk for each connection.
func serve(t *testing.T, talk func(c net.Conn, r *bufio.Reader)) Dial {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c, bufio.NewReader(c))
			}()
		}
	}()
	return func(string) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
}

// parrot sends a greeting, answers EHLO with extensions, ends at QUIT, and repeats any other line.
func parrot(c net.Conn, r *bufio.Reader) {
	io.WriteString(c, "220 mx.example ready\r\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "EHLO"):
			io.WriteString(c, "250-mx.example\r\n250-SIZE 5\r\n250-CHUNKING\r\n250 OK\r\n")
		case line == "QUIT":
			io.WriteString(c, "221 bye\r\n")
			return
		default:
			io.WriteString(c, "got "+line+"\r\n")
		}
	}
}

// imapish repeats each line, with its literals, as an untagged line.
func imapish(c net.Conn, r *bufio.Reader) {
	for {
		all := ""
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			all += line
			at := strings.LastIndexByte(line, '{')
			if at < 0 {
				break
			}
			size := strings.Trim(line[at:], "{}\r\n")
			n, err := strconv.Atoi(strings.TrimSuffix(size, "+"))
			if err != nil {
				return
			}
			if !strings.HasSuffix(size, "+") {
				io.WriteString(c, "+ go on\r\n")
			}
			b := make([]byte, n)
			io.ReadFull(r, b)
			all += string(b)
		}
		io.WriteString(c, "* "+all)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	Run(t, "testdata/*.txt", Options{}, func(t *testing.T) Dial { return serve(t, parrot) })
}

// playText plays one conversation and returns its error.
func playText(t *testing.T, text string, o Options, dial Dial) error {
	t.Helper()
	parts, err := Parse("x.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	for _, c := range parts {
		if err := c.Play(dial, o); err != nil {
			return err
		}
	}
	return nil
}

func TestConversations(t *testing.T) {
	t.Parallel()
	const hello = "S: 220 *\n"
	for _, c := range []struct {
		name, text string
		fail       string // part of the error, empty if it must pass
	}{
		{"binary and repeat", hello + "C: a<binary:01ff>b<repeat:3:xy>\nS: got a<binary:01FF>b<repeat:3:xy>", ""},
		{"byte above 0x7f is one *", hello + "C: <binary:ff>\nS: got ${x}\nC: ${x}\nS: got <binary:ff>", ""},
		{"base64", hello + "C: AUTH PLAIN <base64:\\0alice\\0demo>\nS: got AUTH PLAIN AGFsaWNlAGRlbW8=", ""},
		{"no line end", hello + "C-: ab\nC: c\nS: got abc", ""},
		{"escaped star", hello + "C: a*\nS: got a\\*", ""},
		{"escaped star fits no other", hello + "C: ab\nS: got a\\*", "want"},
		{"backslash", hello + "C: \\Seen \\\\\nS: got \\Seen \\\\\\\\", ""},
		{"captured value must come again", hello + "C: one\nS: got ${x}\nC: two\nS: got ${x}", `"got two"`},
		{"two captures", hello + "C: one two three\nS: got ${x} ${y}\nC: ${y}/${x}\nS: got two three/one", ""},
		{"unknown name", hello + "C: ${x}", "${x} has no value"},
		{"taken twice", hello + "C: a\nS: ${x} ${x}", "taken twice"},
		{"wrong line", hello + "C: a\nS: got b", "x.txt:3: server sent"},
		{"more at the end", hello + "C: a\nS: got", "want"},
		{"optional comes", hello + "C: a\nS?: got a\nC: b\nS: got b", ""},
		{"optional does not come", hello + "C: b\nS?: got a\nS: got b", ""},
		{"optional holds for one expected line", hello + "S?: got a\nC: b\nS: got b\nC: a\nC: c\nS: got c", "want"},
		{"block with a stranger", hello + "C: EHLO x\nS{\nS: 250-SIZE 5\nS: 250 OK\n}", "want one of"},
		{"block once each", hello + "C: a\nC: a\nC: b\nS{\nS: got a\nS: got b\n}", "want one of"},
		{"two connections", "S: 220 *\nS[bob]: 220 *\nC[bob]: x\nC: y\nS: got y\nS[bob]: got x", ""},
		{"block of another connection", "S[bob]: 220 *\nC[bob]: x\nC[bob]: y\nS[bob]{\nS: got y\nS: got x\n}", ""},
		{"end too early", hello + "C: QUIT\nS: 221 bye\nS: more", "EOF"},
		{"no end", hello + "C: a\nS: <eof>", "instead of closing"},
		{"optional before the end", hello + "C: QUIT\nS?: 221 bye\nS: <eof>", ""},
		{"skip", hello + "C: EHLO x\nS~: 250 OK", ""},
		{"no TLS", hello + "C: <tls>", "no TLS"},
		{"close", hello + "C: <close>\nC: a", "closed"},
		{"bad hex", hello + "C: <binary:0g>", "invalid byte"},
		{"bad repeat", hello + "C: <repeat:-1:x>", "count"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := playText(t, c.text, Options{}, serve(t, parrot))
			switch {
			case c.fail == "" && err != nil:
				t.Error(err)
			case c.fail != "" && err == nil:
				t.Error("passes")
			case c.fail != "" && !strings.Contains(err.Error(), c.fail):
				t.Errorf("no %q in: %v", c.fail, err)
			}
		})
	}
}

func TestLiterals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"waits for +", "C: A {literal} B\n| one\n|\n| two\nS: * A {10+*\n", false},
		{"synchronising", "C: A {literal} B\n| one\n|\n| two\n" +
			"S: * A {12}<binary:0d0a>one<binary:0d0a0d0a>two<binary:0d0a> B\n", true},
		{"pattern with literal", "C: A {literal+} B\n| one\n| two\nS: * A {literal} B\n| o*\n| two\n", true},
		{"pattern that does not fit", "C: A {literal+} B\n| one\nS: * A {literal} B\n| two\n", false},
		{"without the last CRLF", "C: A {literal}\n| one\n|.\nS: * A {3}*one\n", true},
		{"two of them", "C: A {literal} {literal+}\n| one\n|.\n|-\n| two\n|.\nS: * A {3}*one {3+}*two\n", true},
		{"names", "C: A {literal+}\n| ${who}\nS: * A {literal}\n| bob\n", true},
		{"brace within a literal", "C: A {literal+}\n| {5}\nS: * A {literal}\n| {5}\n", true},
		{"star in front is itself", "C: x\nS: * x\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := Options{Literals: true, Vars: map[string]string{"who": "bob"}}
			if err := playText(t, c.text, o, serve(t, imapish)); (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestFilesWithMistakes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "# only this", "X: a", "C a", "S{\nS: a", "}", "S{\n}", "S{\nC: a\n}", "S{\nS{\n", "== a\nC: x\n== a\nC: y",
		"==\nC: x",
		"| x", "C: {literal}", "C: {literal}\n| a\n|-\n| b", "C: a\n| b", "C[: a", "C[]: a", "S{\nS[bob]: x\n}",
		"C: {literal}\n|.\n| x", "C?: a",
	} {
		if parts, err := Parse("x", text); err == nil {
			t.Errorf("%q is accepted: %+v", text, parts)
		}
	}
}

func TestDialError(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	err := playText(t, "C: a", Options{}, func(string) (net.Conn, error) { return nil, gone })
	if !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestTLSReplacesTheConnection(t *testing.T) {
	t.Parallel()
	second := serve(t, parrot)
	o := Options{TLS: func(c net.Conn) (net.Conn, error) {
		c.Close()
		return second("")
	}}
	if err := playText(t, "S: 220 *\nC: <tls>\nS: 220 *\nC: a\nS: got a", o, serve(t, parrot)); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("S: 220 ${x} *\nC: a {literal}\n| b\n|.\n== n\nS{\nS: y\n}\n")
	f.Add("C[bob]: <repeat:5:a>\nS~: <binary:00>")
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := Parse("x", text)
		if err == nil && len(parts) == 0 {
			t.Error("a file of nothing")
		}
		for _, c := range parts {
			for i := range c.steps {
				if s := &c.steps[i]; !strings.Contains(s.text, "<repeat:") && s.verb != block {
					compileStep(s, nil)
					expand(s.text, nil)
				}
			}
		}
	})
}
