package bimi

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
)

func TestLocation(t *testing.T) {
	t.Parallel()
	const good = "https://brand.example/logo.svg"
	for name, c := range map[string]struct {
		records []string
		want    string
		none    bool
	}{
		"a record":        {[]string{"v=BIMI1; l=" + good + "; a="}, good, false},
		"blanks":          {[]string{" v = BIMI1 ;l= " + good + " "}, good, false},
		"beside others":   {[]string{"v=spf1 -all", "v=BIMI1;l=" + good + ";a=https://x.example/v.pem"}, good, false},
		"no record":       {[]string{"v=spf1 -all", "l=" + good}, "", true},
		"declined":        {[]string{"v=BIMI1; l=; a="}, "", true},
		"no location":     {[]string{"v=BIMI1"}, "", true},
		"two records":     {[]string{"v=BIMI1; l=" + good, "v=BIMI1; l=" + good}, "", false},
		"two locations":   {[]string{"v=BIMI1; l=" + good + "; l=" + good}, "", false},
		"no tag":          {[]string{"v=BIMI1; logo"}, "", false},
		"http":            {[]string{"v=BIMI1; l=http://brand.example/logo.svg"}, "", false},
		"data":            {[]string{"v=BIMI1; l=data:image/svg+xml,x"}, "", false},
		"no host":         {[]string{"v=BIMI1; l=https:///logo.svg"}, "", false},
		"too long":        {[]string{"v=BIMI1; l=" + good + strings.Repeat("x", 2000)}, "", false},
		"another version": {[]string{"v=BIMI10; l=" + good}, "", true},
	} {
		got, err := Location(c.records)
		if got != c.want || errors.Is(err, ErrNone) != c.none || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

const good = `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.2" baseProfile="tiny-ps"
 viewBox="0 0 100 100"><title>Brand</title><!-- drawn by hand --><defs><linearGradient id="g"><stop offset="0"
 stop-color="#fff"/></linearGradient></defs><rect id="r" width="100" height="100" fill="url(#g)"/>
<use xlink:href="#r" x="3"/></svg>`

// TestCheck changes a good picture in one place each.
func TestCheck(t *testing.T) {
	t.Parallel()
	if err := Check([]byte(good)); err != nil {
		t.Fatal(err)
	}
	inside := func(s string) string { return strings.Replace(good, "</svg>", s+"</svg>", 1) }
	change := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, svg := range []string{inside(`<g id="curly"/>`), change("<svg", `<svg id="Layer_1"`),
		inside(`<g id="s"><g id="t"/></g><use id="u" xlink:href="#s"/><g><use xlink:href="#u"/></g>`)} {
		if err := Check([]byte(svg)); err != nil {
			t.Errorf("%v: %s", err, svg)
		}
	}
	for name, svg := range map[string]string{
		"script":             inside("<script>alert(1)</script>"),
		"style sheet":        inside("<style>*{fill:url(https://x.example/)}</style>"),
		"style attribute":    change("<rect ", `<rect style="fill:red" `),
		"handler":            change("<rect ", `<rect onclick="alert(1)" `),
		"animation":          inside(`<animate attributeName="x" to="3"/>`),
		"set":                inside(`<set attributeName="href" to="javascript:alert(1)"/>`),
		"image":              inside(`<image xlink:href="https://x.example/a.png"/>`),
		"link":               inside(`<a xlink:href="#r"><g/></a>`),
		"foreign object":     inside("<foreignObject/>"),
		"use of another":     change(`"#r" x`, `"https://x.example/a.svg#r" x`),
		"href without xlink": change(`xlink:href="#r"`, `href="#r"`),
		"paint of another":   change("url(#g)", "url(https://x.example/#g)"),
		"paint, capitals":    change("url(#g)", "URL( //x.example/#g)"),
		"paint, hidden":      change("url(#g)", `u\72l(//x.example/#g)`),
		"second paint":       change("url(#g)", "url(#g) url(//x)"),
		"document type":      change("<svg", "<!DOCTYPE svg [<!ENTITY a 'x'>]><svg"),
		"style instruction":  change("<svg", `<?xml-stylesheet href="x.css"?><svg`),
		"entity":             inside("<text>&a;</text>"),
		"another profile":    change("tiny-ps", "tiny"),
		"another version":    change("1.2", "1.1"),
		"no namespace":       change(`xmlns="http://www.w3.org/2000/svg" `, ""),
		"another namespace":  inside(`<g xmlns="http://www.w3.org/1999/xhtml"/>`),
		"a prefix":           change("<svg", `<svg xmlns:h="http://www.w3.org/1999/xhtml"`),
		"a prefixed element": inside("<svg:g/>"),
		"inner svg":          inside("<svg/>"),
		"root position":      change("<svg", `<svg x="3"`),
		"no title":           change("Brand", " "),
		"title elsewhere":    change("<title>Brand</title>", "<g><title>Brand</title></g>"),
		"two roots":          good + good[strings.Index(good, "<svg"):],
		"not closed":         change("</svg>", ""),
		"closed wrongly":     change("</defs>", "</g>"),
		"text behind":        good + "x",
		"empty":              "",
		"html":               "<html><body/></html>",
		"too large":          change("drawn by hand", strings.Repeat("x", MaxPicture)),
		"too deep":           inside(strings.Repeat("<g>", 60) + strings.Repeat("</g>", 60)),
		"too many":           inside(strings.Repeat("<g/>", maxElements)),
		"many uses":          inside(strings.Repeat(`<use xlink:href="#r"/>`, maxUses)),
		"copied use":         inside(`<g id="s"><use xlink:href="#r"/></g>`),
		"copied use, deep":   inside(`<g id="s"><g id="t"/><g><use xlink:href="#r"/></g></g>`),
	} {
		if svg == good {
			t.Errorf("%s: nothing was changed", name)
		}
		if err := Check([]byte(svg)); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

// FuzzCheck: what is accepted has no element and no attribute outside of the lists for a reader that knows namespaces,
// and names nothing outside of the picture.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.Replace(good, "</svg>", "<script/></svg>", 1)))
	f.Add([]byte(`<svg xmlns="http://www.w3.org/2000/svg" version="1.2" baseProfile="tiny-ps">` +
		`<title>&#x61;</title></svg>`))
	f.Fuzz(func(t *testing.T, svg []byte) {
		if Check(svg) != nil {
			return
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			token, err := d.Token()
			if err != nil {
				return
			}
			e, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			if e.Name.Space != svgSpace || !elements[e.Name.Local] {
				t.Fatalf("element %v", e.Name)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") || a.Name.Local == "style" ||
					a.Name.Local == "href" && !strings.HasPrefix(strings.TrimSpace(a.Value), "#") {
					t.Fatalf("attribute %v", a)
				}
			}
		}
	})
}

// FuzzLocation: a location is an https URL.
func FuzzLocation(f *testing.F) {
	f.Add("v=BIMI1; l=https://brand.example/logo.svg")
	f.Add("v=BIMI1;;l=;a=x")
	f.Fuzz(func(t *testing.T, record string) {
		if l, err := Location([]string{record}); err == nil && !strings.HasPrefix(strings.ToLower(l), "https://") {
			t.Fatalf("%q", l)
		}
	})
}
