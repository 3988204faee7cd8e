package mime

import (
	"fmt"
	"strings"
	"testing"
)

// crlf converts a raw string with LF lines to a message.
func crlf(s string) []byte { return AppendCRLF(nil, []byte(s)) }

// outline prints a tree: types, with quoted bodies of leaves and children in brackets.
func outline(raw []byte, p *Part) string {
	s := p.Type + "/" + p.Subtype
	if len(p.Children) == 0 {
		return s + fmt.Sprintf("%q", strings.ReplaceAll(string(p.Body(raw)), "\r\n", "\n"))
	}
	var kids []string
	for _, c := range p.Children {
		kids = append(kids, outline(raw, c))
	}
	return s + "[" + strings.Join(kids, " ") + "]"
}

func TestParseStructure(t *testing.T) {
	t.Parallel()
	mixed := "Content-Type: multipart/mixed; boundary=b\n\n"
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", `text/plain""`},
		{"header only", "Subject: x\n", `text/plain""`},
		{"no header", "\nbody\n", `text/plain"body\n"`},
		{"plain", "Subject: x\n\nbody\n", `text/plain"body\n"`},
		{"illegible type", "Content-Type: text\n\nx", `text/plain"x"`},
		{"two types", "Content-Type: text/html\nContent-Type: text/plain\n\nx", `text/html"x"`},
		{"folded type, comment", "Content-Type: (a) text/HTML (b)\n ; charset=x\n\nx", `text/html"x"`},
		{"usual", mixed + "pre\n--b\n\none\n--b\nContent-Type: text/html\n\ntwo\n\n--b--\nepilogue\n",
			`multipart/mixed[text/plain"one" text/html"two\n"]`},
		{"unterminated", mixed + "--b\n\none\n--b\n\ntwo\n", `multipart/mixed[text/plain"one" text/plain"two\n"]`},
		{"blanks behind", mixed + "--b \t\n\none\n--b--  \nx", `multipart/mixed[text/plain"one"]`},
		{"no delimiter", mixed + "text\n", `multipart/mixed"text\n"`},
		{"no boundary", "Content-Type: multipart/mixed\n\n--b\n\nx\n--b--", `multipart/mixed"--b\n\nx\n--b--"`},
		{"empty boundary", "Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nx\n----",
			`multipart/mixed"--\n\nx\n----"`},
		{"not at line start", mixed + "--b\n\nx --b\n --b\n--bb\n--b-\n--b--",
			`multipart/mixed[text/plain"x --b\n --b\n--bb\n--b-"]`},
		{"empty part", mixed + "--b\n\n--b\n--b--", `multipart/mixed[text/plain"" text/plain""]`},
		{"part without body", mixed + "--b\nContent-Type: text/html\n--b\n\nx\n--b--",
			`multipart/mixed[text/html"" text/plain"x"]`},
		{"prefix boundaries",
			mixed + "--b\nContent-Type: multipart/alternative; boundary=bb\n\n--bb\n\nx\n--bb--\n--b\n\ny\n--b--",
			`multipart/mixed[multipart/alternative[text/plain"x"] text/plain"y"]`},
		{"prefix boundaries, inner shorter",
			"Content-Type: multipart/mixed; boundary=bb\n\n--bb\nContent-Type: multipart/alternative; boundary=b\n\n" +
				"--b\n\nx\n--b--\n--bb\n\ny\n--bb--",
			`multipart/mixed[multipart/alternative[text/plain"x"] text/plain"y"]`},
		{"same boundary", mixed + "--b\nContent-Type: multipart/alternative; boundary=b\n\n--b\n\nx\n--b--\n--b\n\n" +
			"y\n--b--", `multipart/mixed[multipart/alternative[text/plain"x"] text/plain"y"]`},
		{"outer ends inner",
			mixed + "--b\nContent-Type: multipart/alternative; boundary=i\n\n--i\n\nx\n--b\n\ny\n--b--",
			`multipart/mixed[multipart/alternative[text/plain"x"] text/plain"y"]`},
		{"inner epilogue", mixed + "--b\nContent-Type: multipart/alternative; boundary=i\n\n--i\n\nx\n--i--\n--i\n" +
			"not a part\n--b--", `multipart/mixed[multipart/alternative[text/plain"x"]]`},
		{"message", "Content-Type: message/rfc822\n\nSubject: in\n\nbody", `message/rfc822[text/plain"body"]`},
		{"message in multipart",
			mixed + "--b\nContent-Type: message/rfc822\n\nContent-Type: multipart/mixed; boundary=i\n\n--i\n\nx\n" +
				"--b\n\ny\n--b--", `multipart/mixed[message/rfc822[multipart/mixed[text/plain"x"]] text/plain"y"]`},
		{"message in base64", "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nAAAA",
			`message/rfc822"AAAA"`},
		{"digest", "Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: one\n\nx\n--b\n" +
			"Content-Type: text/plain\n\ny\n--b--", `multipart/digest[message/rfc822[text/plain"x"] text/plain"y"]`},
		{"delimiter right behind inner header",
			mixed + "--b\nContent-Type: multipart/mixed; boundary=i\n\n--i\nA: b\n\n--b--",
			`multipart/mixed[multipart/mixed[text/plain""]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, raw := range [][]byte{crlf(c.in), []byte(c.in)} {
				root := Parse(raw, Limits{})
				if got := outline(raw, root); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				checkTree(t, raw, root)
			}
		})
	}
}

// checkTree fails if offsets are outside their container or overlap, or if line counts are wrong.
func checkTree(t testing.TB, raw []byte, root *Part) {
	t.Helper()
	if root.HeaderStart != 0 || root.BodyEnd != len(raw) {
		t.Errorf("root is [%d, %d) of %d", root.HeaderStart, root.BodyEnd, len(raw))
	}
	var walk func(p *Part, from, to int)
	walk = func(p *Part, from, to int) {
		if p.HeaderStart < from || p.BodyStart < p.HeaderStart || p.BodyEnd < p.BodyStart || p.BodyEnd > to {
			t.Fatalf("part %s/%s [%d %d %d] outside [%d, %d)", p.Type, p.Subtype, p.HeaderStart, p.BodyStart,
				p.BodyEnd, from, to)
		}
		if n := strings.Count(string(p.Body(raw)), "\n"); n != p.Lines {
			t.Fatalf("%d lines, counted %d", p.Lines, n)
		}
		if p.Type == "" || p.Subtype == "" || p.Encoding == "" {
			t.Fatalf("empty type or encoding: %+v", p)
		}
		from = p.BodyStart
		for _, c := range p.Children {
			walk(c, from, p.BodyEnd)
			from = c.BodyEnd
		}
		if p.IsMessage() && (p.Children[0].Envelope == nil || p.Children[0].HeaderStart != p.BodyStart ||
			p.Children[0].BodyEnd != p.BodyEnd) {
			t.Fatalf("enclosed message does not fill its part")
		}
	}
	walk(root, 0, len(raw))
}

func TestParseEnvelope(t *testing.T) {
	t.Parallel()
	raw := crlf(`Date: Tue, 3 Mar 2026 10:11:12 +0100
From: "Ann Example" <ann@example.com>
To: a@x,
	b@y
TO: c@z
Subject : Re:  a
 folded subject
Message-ID: <1@x>
In-Reply-To: <0@x> (comment)
References: <a@x> junk <b@x>
	<c@x
Subject: second
no field

body`)
	p := Parse(raw, Limits{})
	e := p.Envelope
	if e.Subject != "Re:  a folded subject" || e.Date != "Tue, 3 Mar 2026 10:11:12 +0100" || e.MessageID != "<1@x>" ||
		e.InReplyTo != "<0@x> (comment)" {
		t.Errorf("%+v", e)
	}
	if e.Has != HasDate|HasSubject|HasInReplyTo|HasMessageID {
		t.Errorf("has %b", e.Has)
	}
	if fmt.Sprint(e.References) != "[<a@x> <b@x>]" {
		t.Errorf("references %q", e.References)
	}
	if len(e.To) != 3 || e.To[2].Host != "z" || len(e.From) != 1 ||
		e.From[0] != (Address{Name: "Ann Example", Mailbox: "ann", Host: "example.com"}) {
		t.Errorf("to %+v from %+v", e.To, e.From)
	}
	if p.Param("charset") != "us-ascii" {
		t.Errorf("params %+v", p.Params)
	}
	empty := Parse(crlf("Subject:\n\n"), Limits{}).Envelope
	if empty.Has != HasSubject || empty.Subject != "" {
		t.Errorf("empty subject: %+v", empty)
	}
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	deep := nestedMessage(30, 10_000)
	p, depth := Parse(deep, Limits{Depth: 5}), 0
	checkTree(t, deep, p)
	for ; len(p.Children) > 0; p = p.Children[0] {
		depth++
	}
	if depth != 5 || p.Type != "multipart" {
		t.Errorf("depth %d, then %s", depth, p.Type)
	}
	many := []byte("Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\nx\r\n", 50) +
		"--b--\r\n")
	if p = Parse(many, Limits{Parts: 10}); len(p.Children) != 9 {
		t.Errorf("%d children", len(p.Children))
	}
	checkTree(t, many, p)
	long := []byte(strings.Repeat("X: y\r\n", 100) + "Subject: late\r\n\r\nbody")
	for _, l := range []Limits{{HeaderBytes: 100}, {HeaderFields: 10}} {
		if p = Parse(long, l); p.Envelope.Has != 0 || string(p.Body(long)) != "body" {
			t.Errorf("%+v: has %d, body %q", l, p.Envelope.Has, p.Body(long))
		}
	}
	if p = Parse(nestedMessage(200, 30_000), Limits{}); p.Envelope.Subject != "nested" {
		t.Error("deep message lost its envelope")
	}
}

func TestParseContentFields(t *testing.T) {
	t.Parallel()
	raw := crlf(`Content-Type: Application/PDF; name="a\"b.pdf" ; X = y
Content-Transfer-Encoding: BASE64 (yes)
Content-Disposition: ATTACHMENT; filename*0*=utf-8'de'Gr%C3%BC; filename*1="sse.pdf"; filename=plain
Content-ID: <id@x>
Content-Description: a
 description
Content-Language: de, en-GB
Content-Location: http://x/
Content-MD5: abc==

`)
	p := Parse(raw, Limits{})
	if p.Type != "application" || p.Subtype != "pdf" || p.Encoding != "base64" || p.Disposition != "attachment" ||
		p.ID != "<id@x>" || p.Description != "a description" || fmt.Sprint(p.Language) != "[de en-GB]" ||
		p.Location != "http://x/" || p.MD5 != "abc==" {
		t.Errorf("%+v", p)
	}
	if p.Param("name") != `a"b.pdf` || p.Param("x") != "y" || p.DispositionParam("filename") != "Grüsse.pdf" ||
		p.Filename() != "Grüsse.pdf" {
		t.Errorf("%+v %+v", p.Params, p.DispositionParams)
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                  "[]",
		";;a=b;":                            "[{a b}]",
		"a=b; A=c":                          "[{a b}]",
		"a = \"b;c\\\\d\" (x) ; e=f":        "[{a b;c\\d} {e f}]",
		"charset=us-ascii (plain)":          "[{charset us-ascii}]",
		"charset=utf-8 format=flowed":       "[{charset utf-8} {format flowed}]",
		"name=My File (1).pdf; x=y":         "[{name My File (1).pdf} {x y}]",
		"a=\"open":                          "[{a open}]",
		"=x; a=b":                           "[{a b}]",
		"flag; a=b":                         "[{a b}]",
		"f*=iso-8859-1'en'%A3%20rates":      "[{f £ rates}]",
		"f*1=b; f*0=a; f*3=d":               "[{f ab}]",
		"f*0*=utf-8''%e2%82; f*1*=%ac; f=x": "[{f €}]",
		"f*=%41%zz":                         "[{f A%zz}]",
		"f*x=1; f**=2":                      "[{f*x 1} {f** 2}]",
	} {
		if got := fmt.Sprint(parseParams([]byte(in))); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	h := []byte("A: one\r\nB :two\r\n  folded\r\nbroken\r\nC:\nA: second\r\n\r\nnot: this\r\n")
	var got []string
	end := 0
	for f := range Fields(h) {
		if f.Start != end {
			t.Errorf("gap before %q", f.Name)
		}
		end = f.End
		got = append(got, fmt.Sprintf("%s=%q", f.Name, f.Value))
	}
	want := `[A=" one" B="two\r\n  folded" ="broken" C="" A=" second"]`
	if fmt.Sprint(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v, ok := Get(h, "b"); v != "two  folded" || !ok {
		t.Errorf("Get %q %v", v, ok)
	}
	if _, ok := Get(h, "not"); ok {
		t.Error("read beyond the header")
	}
	if n := HeaderEnd(h); string(h[n:]) != "not: this\r\n" {
		t.Errorf("header end %d", n)
	}
}
