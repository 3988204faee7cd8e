package mime

import (
	"fmt"
	"testing"
)

// numberedMessage is the example of RFC 9051 section 6.4.5.1, with an additional message that is not a multipart.
const numberedMessage = `Subject: root
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: text/plain

one
--b
Content-Type: application/octet-stream
Content-Transfer-Encoding: base64

dHdv
--b
Content-Type: message/rfc822

Subject: three
Content-Type: multipart/mixed; boundary=i

--i

three.one
--i
Content-Type: text/html
Content-Transfer-Encoding: quoted-printable

three.two
--i--
--b
Content-Type: multipart/mixed; boundary=m

--m
Content-Type: image/gif

four.one
--m
Content-Type: message/rfc822

Subject: four.two

four.two.one
--m--
--b--
`

func TestIndexSection(t *testing.T) {
	t.Parallel()
	raw := crlf(numberedMessage)
	x := Index(AppendIndex(nil, Parse(raw, Limits{})))
	for _, c := range []struct {
		path []int
		body string // "-" means that the section does not exist; "*" is not compared
		kind Kind
		enc  Encoding
	}{
		{nil, "*", KindMultipart, 0},
		{[]int{1}, "one", KindTextPlain, 0},
		{[]int{1, 1}, "-", 0, 0},
		{[]int{2}, "dHdv", KindOther, EncodingBase64},
		{[]int{3}, "*", KindMessage, 0},
		{[]int{3, 1}, "three.one", KindTextPlain, 0},
		{[]int{3, 2}, "three.two", KindTextHTML, EncodingQuotedPrintable},
		{[]int{3, 3}, "-", 0, 0},
		{[]int{4}, "*", KindMultipart, 0},
		{[]int{4, 1}, "four.one", KindOther, 0},
		{[]int{4, 2}, "Subject: four.two\r\n\r\nfour.two.one", KindMessage, 0},
		{[]int{4, 2, 1}, "four.two.one", KindTextPlain, 0},
		{[]int{4, 2, 2}, "-", 0, 0},
		{[]int{4, 2, 1, 1}, "-", 0, 0},
		{[]int{5}, "-", 0, 0},
		{[]int{0}, "-", 0, 0},
		{[]int{-1}, "-", 0, 0},
	} {
		s, ok := x.Section(c.path)
		if c.body == "-" {
			if ok {
				t.Errorf("%v: found", c.path)
			}
			continue
		}
		if !ok || s.Kind != c.kind || s.Encoding != c.enc || c.body != "*" &&
			string(raw[s.BodyStart:s.BodyEnd]) != c.body {
			t.Errorf("%v: %v %+v %q", c.path, ok, s, raw[s.BodyStart:s.BodyEnd])
		}
	}
	s, _ := x.Section([]int{4, 2})
	if string(raw[s.BodyStart:s.InnerBody]) != "Subject: four.two\r\n\r\n" {
		t.Errorf("enclosed header %q", raw[s.BodyStart:s.InnerBody])
	}
	n := 0
	if !x.Leaves(func(SectionSpan) bool { n++; return true }) || n != 6 {
		t.Errorf("%d leaves", n)
	}
	if len(x) > 12*8 {
		t.Errorf("index has %d bytes", len(x))
	}
}

func TestIndexSingle(t *testing.T) {
	t.Parallel()
	for in, paths := range map[string]map[string]string{
		"Subject: x\n\nbody": {"[]": "body", "[1]": "body", "[2]": "-", "[1 1]": "-"},
		"Content-Type: message/rfc822\n\nSubject: y\n\nbody": {"[1]": "Subject: y\n\nbody", "[1 1]": "body",
			"[1 1 1]": "-"},
	} {
		raw := []byte(in)
		x := Index(AppendIndex(nil, Parse(raw, Limits{})))
		for _, path := range [][]int{nil, {1}, {2}, {1, 1}, {1, 1, 1}} {
			want, listed := paths[fmt.Sprint(path)]
			if !listed {
				continue
			}
			got := "-"
			if s, ok := x.Section(path); ok {
				got = string(raw[s.BodyStart:s.BodyEnd])
			}
			if got != want {
				t.Errorf("%q %v: got %q, want %q", in, path, got, want)
			}
		}
	}
}

// checkIndex compares the index with the tree, with a second implementation of the numbering rules.
func checkIndex(t testing.TB, root *Part) {
	t.Helper()
	x := Index(AppendIndex(nil, root))
	check := func(p *Part, path []int) {
		s, ok := x.Section(path)
		if !ok || s.HeaderStart != p.HeaderStart || s.BodyStart != p.BodyStart || s.BodyEnd != p.BodyEnd ||
			s.Kind != KindOf(p) || s.Encoding != EncodingOf(p.Encoding) {
			t.Fatalf("%v: %v %+v, part %+v", path, ok, s, p)
		}
	}
	budget := 300
	var message, part func(p *Part, path []int)
	message = func(p *Part, path []int) {
		if KindOf(p) == KindMultipart {
			part(p, path)
			return
		}
		path = append(path[:len(path):len(path)], 1)
		check(p, path)
		part(p, path)
	}
	part = func(p *Part, path []int) {
		if budget--; budget < 0 {
			return
		}
		if p.IsMessage() {
			message(p.Children[0], path)
			return
		}
		for i, c := range p.Children {
			number := append(path[:len(path):len(path)], i+1)
			check(c, number)
			part(c, number)
		}
		if _, ok := x.Section(append(path[:len(path):len(path)], len(p.Children)+1)); ok {
			t.Fatalf("%v has one more part than the tree", path)
		}
	}
	check(root, nil)
	message(root, nil)
	leaves := 0
	var count func(p *Part)
	count = func(p *Part) {
		if len(p.Children) == 0 {
			leaves++
		}
		for _, c := range p.Children {
			count(c)
		}
	}
	count(root)
	if !x.Leaves(func(SectionSpan) bool { leaves--; return true }) || leaves != 0 {
		t.Fatalf("leaves differ by %d", leaves)
	}
}
