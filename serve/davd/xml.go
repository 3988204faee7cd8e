package davd

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// The namespaces of XML.
const (
	nsDAV     = "DAV:"
	nsCalDAV  = "urn:ietf:params:xml:ns:caldav"
	nsCardDAV = "urn:ietf:params:xml:ns:carddav"
	nsServer  = "http://calendarserver.org/ns/"
	nsApple   = "http://apple.com/ns/ical/"
)

// prefixes are those of responses.
var prefixes = map[string]string{nsDAV: "D", nsCalDAV: "C", nsCardDAV: "A", nsServer: "S", nsApple: "I"}

// Limits of an XML request.
const (
	maxDepth    = 32
	maxElements = 50_000
)

var errXML = errors.New("malformed XML")

// element is an element of a request.
type element struct {
	name     xml.Name
	attrs    []xml.Attr
	text     string
	raw      []byte // text as it grows
	children []*element
}

// parseXML parses a request; nil stands for an empty one. Entities and document types are refused: they are a way to
// make much of little.
func parseXML(body []byte) (*element, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	d := xml.NewDecoder(bytes.NewReader(body))
	var root *element
	var open []*element
	n := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errXML, err)
		}
		switch t := token.(type) {
		case xml.Directive:
			return nil, fmt.Errorf("%w: document types are refused", errXML)
		case xml.StartElement:
			if n++; n > maxElements || len(open) >= maxDepth {
				return nil, fmt.Errorf("%w: over %d elements or %d levels", errXML, maxElements, maxDepth)
			}
			e := &element{name: t.Name, attrs: t.Attr}
			switch {
			case len(open) > 0:
				parent := open[len(open)-1]
				parent.children = append(parent.children, e)
			case root != nil:
				return nil, fmt.Errorf("%w: more than one root", errXML)
			default:
				root = e
			}
			open = append(open, e)
		case xml.EndElement:
			last := open[len(open)-1]
			last.text, last.raw = string(last.raw), nil
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				last := open[len(open)-1]
				last.raw = append(last.raw, t...)
			}
		}
	}
	if root == nil {
		return nil, fmt.Errorf("%w: no element", errXML)
	}
	return root, nil
}

func (e *element) is(ns, local string) bool {
	return e != nil && e.name.Space == ns && e.name.Local == local
}

// child returns the first child of a name, or nil.
func (e *element) child(ns, local string) *element {
	if e != nil {
		for _, c := range e.children {
			if c.is(ns, local) {
				return c
			}
		}
	}
	return nil
}

// size returns the number of elements, of e and within it.
func (e *element) size() int {
	if e == nil {
		return 0
	}
	n := 1
	for _, c := range e.children {
		n += c.size()
	}
	return n
}

// attr returns an attribute without a namespace.
func (e *element) attr(name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// inner returns the content of the element as XML that carries its namespaces.
func (e *element) inner() string {
	var b strings.Builder
	b.WriteString(escape(e.text))
	for _, c := range e.children {
		c.print(&b)
	}
	return b.String()
}

// print writes the element with its attributes, but for those that belong to a namespace.
func (e *element) print(b *strings.Builder) {
	b.WriteString(strings.TrimSuffix(open(e.name), ">"))
	for _, a := range e.attrs {
		if a.Name.Space == "" && a.Name.Local != "xmlns" {
			b.WriteString(" " + a.Name.Local + `="` + escape(a.Value) + `"`)
		}
	}
	b.WriteString(">" + e.inner())
	b.WriteString(closing(e.name))
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return strings.ReplaceAll(b.String(), "&#xA;", "\n")
}

// open returns the start tag of an element.
func open(n xml.Name) string {
	if p := prefixes[n.Space]; p != "" {
		return "<" + p + ":" + n.Local + ">"
	}
	return "<" + n.Local + ` xmlns="` + escape(n.Space) + `">`
}

func closing(n xml.Name) string {
	if p := prefixes[n.Space]; p != "" {
		return "</" + p + ":" + n.Local + ">"
	}
	return "</" + n.Local + ">"
}

// head begins a document whose root declares the namespaces of responses.
func head(local string) string {
	return `<?xml version="1.0" encoding="utf-8"?>` + "\n<D:" + local + ` xmlns:D="DAV:" xmlns:C="` + nsCalDAV +
		`" xmlns:A="` + nsCardDAV + `" xmlns:S="` + nsServer + `" xmlns:I="` + nsApple + `">`
}

// href returns the element of an address.
func href(path string) string { return "<D:href>" + escape(path) + "</D:href>" }

// multistatus collects a response of status 207.
type multistatus struct{ b bytes.Buffer }

func newMultistatus() *multistatus {
	m := &multistatus{}
	m.b.WriteString(head("multistatus"))
	return m
}

// status adds a response without properties.
func (m *multistatus) status(path string, status int, more string) {
	m.b.WriteString("\n<D:response>" + href(path) + "<D:status>" + statusLine(status) + "</D:status>" + more +
		"</D:response>")
}

// props adds a response with properties: those found, as XML, and the names of the others.
func (m *multistatus) props(path, found string, missing []xml.Name) {
	m.b.WriteString("\n<D:response>" + href(path))
	if found != "" || len(missing) == 0 {
		m.propstat(found, 200, "")
	}
	if len(missing) > 0 {
		m.propstat(names(missing), 404, "")
	}
	m.b.WriteString("</D:response>")
}

func (m *multistatus) propstat(props string, status int, more string) {
	m.b.WriteString("<D:propstat><D:prop>" + props + "</D:prop><D:status>" + statusLine(status) + "</D:status>" +
		more + "</D:propstat>")
}

// end returns the document.
func (m *multistatus) end(more string) []byte {
	m.b.WriteString(more + "\n</D:multistatus>\n")
	return m.b.Bytes()
}

func names(list []xml.Name) string {
	var b strings.Builder
	for _, n := range list {
		b.WriteString(open(n) + closing(n))
	}
	return b.String()
}

func statusLine(status int) string {
	return "HTTP/1.1 " + strconv.Itoa(status) + " " + statusText(status)
}

// unescapePath returns the path of an address as it stands in XML.
func unescapePath(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return u.Path
}
