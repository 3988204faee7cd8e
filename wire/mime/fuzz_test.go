package mime

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	f.Add(crlf(numberedMessage))
	f.Add(plainMessage())
	f.Add(attachmentMessage(2000))
	f.Add(nestedMessage(5, 1000))
	f.Add([]byte("Content-Type: multipart/digest; boundary=\"a b\"\n\n--a b\n\nContent-Type: text/html\n\n<p>x&amp;\n" +
		"--a b--\n"))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\na\x00b\r\n--b--\r\n"))
	f.Add([]byte("Content-Type: text/plain; charset*0*=utf-8''; charset*1=x\n" +
		"Content-Transfer-Encoding: quoted-printable\n\n=E9=\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, l := range []Limits{{}, {Depth: 2, Parts: 5, HeaderBytes: 100, HeaderFields: 3}} {
			root := Parse(raw, l)
			checkTree(t, raw, root)
			checkIndex(t, root)
			checkLeaves(t, raw, root)
			if s := Preview(raw, root); !utf8.ValidString(s) || utf8.RuneCountInString(s) > PreviewRunes {
				t.Fatalf("preview %q", s)
			}
			if s, _ := DecodeText(root, raw, 50); !utf8.ValidString(s) || len(s) > 50 {
				t.Fatalf("text %q", s)
			}
			ThreadKey(root.Envelope)
			ParseDate(root.Envelope.Date)
		}
		end := 0
		for field := range Fields(raw) {
			if field.Start != end || field.End <= field.Start {
				t.Fatalf("field %+v behind %d", field, end)
			}
			end = field.End
		}
		if n := HeaderEnd(raw); n < end {
			t.Fatalf("header ends at %d, fields at %d", n, end)
		}
		if out := AppendCRLF(nil, raw); bytes.Count(out, []byte("\n")) != bytes.Count(out, []byte("\r\n")) {
			t.Fatal("bare LF left")
		}
		if out, ok := WithoutNUL(raw); ok && (hasNUL(out) || !hasNUL(raw) && !bytes.Equal(out, raw)) {
			t.Fatalf("without NULs: %q", out)
		}
	})
}

func FuzzAddressList(f *testing.F) {
	for _, s := range []string{`"a" <b@c>, g: d@e (f);`, "<@a:b@c>", "a . b@[x] (y", "x y z@", `"\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list := ParseAddressList(b)
		total, depth := 0, 0
		for _, a := range list {
			total += len(a.Name) + len(a.Mailbox) + len(a.Host)
			switch {
			case a.Group && a.Mailbox == "" && depth > 0:
				depth--
			case a.Group:
				depth++
			}
			if depth > 1 {
				t.Fatalf("nested group in %v", list)
			}
		}
		if total > 3*len(b)+1 || len(list) > len(b)+1 {
			t.Fatalf("%d bytes of %d: %v", total, len(b), list)
		}
		if a, err := ParseMailbox(string(b)); err == nil && (a.Mailbox == "" || a.Host == "" || a.Group) {
			t.Fatalf("mailbox %+v", a)
		}
	})
}

func FuzzDecodeWords(f *testing.F) {
	for _, s := range []string{"=?utf-8?q?a=20?= =?utf-8?b?YQ==?=", "=?iso-2022-jp?B?GyRCJDMkcxsoQg==?=", "=?x*y?q??=",
		"\xff=?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := DecodeWords(s)
		if !utf8.ValidString(out) {
			t.Fatalf("%q is no UTF-8", out)
		}
		if !strings.Contains(s, "=?") && utf8.ValidString(s) && out != s {
			t.Fatalf("plain %q became %q", s, out)
		}
		BaseSubject(out)
		if !ContainsFold(out, out) {
			t.Fatalf("%q not in itself", out)
		}
		ParseDate(s)
	})
}

func FuzzIndex(f *testing.F) {
	f.Add(AppendIndex(nil, Parse(crlf(numberedMessage), Limits{})), 3, 2)
	f.Add([]byte{1, 4, 0, 0, 9, 1, 4, 0, 0, 0, 9}, 1, 1)
	f.Fuzz(func(t *testing.T, b []byte, i, j int) {
		x := Index(b)
		for _, path := range [][]int{nil, {i}, {i, j}, {1, i, j}, {i, 1, 1, j}} {
			if s, ok := x.Section(path); ok && (s.HeaderStart < 0 || s.BodyStart < s.HeaderStart ||
				s.BodyEnd < s.BodyStart || s.InnerBody > s.BodyEnd) {
				t.Fatalf("%v: %+v", path, s)
			}
		}
		n := 0
		x.Leaves(func(s SectionSpan) bool { n++; return n < 1000 })
	})
}
