package drive

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// attribute returns an attribute of an element, "" if it has none.
func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// ofClass reports whether an element has a class.
func ofClass(n *html.Node, class string) bool {
	return slices.Contains(strings.Fields(attribute(n, "class")), class)
}

// find returns the first matching element below n, in document order; nil for none.
func find(n *html.Node, fits func(*html.Node) bool) *html.Node {
	if n == nil {
		return nil
	}
	for x := range n.Descendants() {
		if x.Type == html.ElementNode && fits(x) {
			return x
		}
	}
	return nil
}

// findAll returns all matching elements.
func findAll(n *html.Node, fits func(*html.Node) bool) (out []*html.Node) {
	if n == nil {
		return nil
	}
	for x := range n.Descendants() {
		if x.Type == html.ElementNode && fits(x) {
			out = append(out, x)
		}
	}
	return out
}

// is returns a test for an element, and for a class unless that is "".
func is(a atom.Atom, class string) func(*html.Node) bool {
	return func(n *html.Node) bool { return n.DataAtom == a && (class == "" || ofClass(n, class)) }
}

// words returns the text below n.
func words(n *html.Node) string {
	var b strings.Builder
	if n == nil {
		return ""
	}
	for x := range n.Descendants() {
		if x.Type == html.TextNode {
			b.WriteString(x.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// form is a form of a page, with the fields that a browser would submit unchanged.
type form struct {
	action    string
	multipart bool
	fields    []formField
	file      *formFile
}

type formField struct{ name, value string }

// formFile is a file that is submitted with a form, in its field of type file.
type formFile struct {
	field, name string
	content     []byte
}

// formWith returns the first form of a page that has a button of that name and value; nil for none.
func formWith(page *html.Node, button, value string) *form {
	for _, n := range findAll(page, is(atom.Form, "")) {
		pressed := find(n, func(x *html.Node) bool {
			return x.DataAtom == atom.Button && attribute(x, "name") == button && attribute(x, "value") == value
		})
		if pressed == nil {
			continue
		}
		f := &form{action: attribute(n, "action"), multipart: attribute(n, "enctype") == "multipart/form-data"}
		f.read(n)
		if button != "" {
			f.add(button, value)
		}
		return f
	}
	return nil
}

// read collects the fields that count, as a browser does (HTML, "constructing the entry list").
func (f *form) read(n *html.Node) {
	for x := range n.Descendants() {
		name := attribute(x, "name")
		if x.Type != html.ElementNode || name == "" || has(x, "disabled") {
			continue
		}
		switch x.DataAtom {
		case atom.Input:
			switch attribute(x, "type") {
			case "checkbox", "radio":
				if !has(x, "checked") {
					continue
				}
			case "submit", "button", "image", "reset":
				continue
			case "file":
				f.file = &formFile{field: name}
				continue
			}
			f.add(name, attribute(x, "value"))
		case atom.Textarea:
			text := ""
			if x.FirstChild != nil {
				text = x.FirstChild.Data
			}
			f.add(name, text)
		case atom.Select:
			chosen := find(x, func(o *html.Node) bool { return o.DataAtom == atom.Option && has(o, "selected") })
			if chosen == nil {
				chosen = find(x, is(atom.Option, ""))
			}
			if chosen != nil {
				f.add(name, attribute(chosen, "value"))
			}
		}
	}
}

func (f *form) add(name, value string) { f.fields = append(f.fields, formField{name, value}) }

// set sets the value of a field; it returns false if the form has no field of that name.
func (f *form) set(name, value string) bool {
	for i := range f.fields {
		if f.fields[i].name == name {
			f.fields[i].value = value
			return true
		}
	}
	return false
}

// lineEnds converts line ends to CRLF, which forms use.
var lineEnds = strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n", "\r", "\r\n")

// body returns the body of a submission of the form, and its media type.
func (f *form) body() ([]byte, string, error) {
	if !f.multipart {
		values := make(url.Values)
		for _, x := range f.fields {
			values.Add(x.name, lineEnds.Replace(x.value))
		}
		return []byte(values.Encode()), "application/x-www-form-urlencoded", nil
	}
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, x := range f.fields {
		if err := m.WriteField(x.name, lineEnds.Replace(x.value)); err != nil {
			return nil, "", err
		}
	}
	if f.file != nil {
		head := textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, f.file.field, f.file.name)},
			"Content-Type":        {"application/octet-stream"},
		}
		p, err := m.CreatePart(head)
		if err == nil {
			_, err = p.Write(f.file.content)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if err := m.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), m.FormDataContentType(), nil
}

// pageHeader returns the fields that a browser sends with a request for a page.
func pageHeader(kind string) http.Header {
	h := http.Header{"Accept": {acceptPage}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"},
		"Upgrade-Insecure-Requests": {"1"}}
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	return h
}
