// Package ical reads and writes iCalendar objects (RFC 5545) and vCards (RFC 6350), whose lines have one grammar. What
// it reads it writes again: names, parameters, values and their order stay, also those that it does not know; only the
// folding of lines changes.
package ical

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Component is a component, BEGIN to END: its properties, and the components in it, each in their order.
type Component struct {
	Name       string // in capital letters
	Properties []Property
	Children   []*Component
}

// Property is a content line. A line that is none by the grammar has no name, and is the Value as it stands: programs
// write such lines, and the rest of their object can be used.
type Property struct {
	Group  string // of a vCard: what stands before the name and a dot
	Name   string // in capital letters
	Params []Param
	Value  string // as it stands, with the escapes of its type
}

// Param is a parameter of a property.
type Param struct {
	Name   string // in capital letters
	Values []string
}

// Limits bound the work of Parse.
type Limits struct {
	Size  int // of the text, in bytes
	Lines int // after unfolding
	Depth int // of components
}

// DefaultLimits suit an object that came by mail.
var DefaultLimits = Limits{Size: 5 << 20, Lines: 100_000, Depth: 8}

// ErrTooLarge is returned for a text beyond the Limits.
var ErrTooLarge = errors.New("ical: too large")

// SyntaxError is the error for a text that is no object, with the line, counted after unfolding from 1.
type SyntaxError struct {
	Line int
	Why  string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("ical: line %d: %s", e.Line, e.Why) }

// Parse reads the first object of a text, and ignores the text behind it. Lines may end with LF alone, and be folded by
// a space or a tab.
//
// Implements: RFC 5545 §3.1 content lines
// Implements: RFC 5545 §3.4 iCalendar object
// Implements: RFC 6350 §3 vCard format
func Parse(text []byte, l Limits) (*Component, error) {
	if len(text) > l.Size {
		return nil, ErrTooLarge
	}
	p := parser{text: bytes.TrimPrefix(text, []byte("\ufeff")), limits: l}
	return p.object()
}

// ParseAll reads all objects of a text, which the limits bound together. It returns none for an empty text.
func ParseAll(text []byte, l Limits) (all []*Component, err error) {
	if len(text) > l.Size {
		return nil, ErrTooLarge
	}
	for p := (parser{text: bytes.TrimPrefix(text, []byte("\ufeff")), limits: l}); len(bytes.TrimSpace(p.text)) > 0; {
		c, err := p.object()
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// parser reads objects; text is what is left, and line the number of lines before it.
type parser struct {
	text   []byte
	line   int
	limits Limits
}

// object reads the next object.
func (x *parser) object() (*Component, error) {
	var open []*Component
	for len(x.text) > 0 {
		if x.line++; x.line > x.limits.Lines {
			return nil, ErrTooLarge
		}
		n := x.line
		var line string
		line, x.text = unfold(x.text)
		if strings.TrimSpace(line) == "" {
			continue
		}
		p := property(line)
		if len(open) == 0 && p.Name != "BEGIN" {
			return nil, &SyntaxError{n, "expected BEGIN"}
		}
		switch name := strings.ToUpper(strings.TrimSpace(p.Value)); p.Name {
		case "BEGIN":
			if len(open) == x.limits.Depth {
				return nil, ErrTooLarge
			}
			if !isName(name) {
				return nil, &SyntaxError{n, "a component without a name"}
			}
			c := &Component{Name: name}
			if len(open) > 0 {
				in := open[len(open)-1]
				in.Children = append(in.Children, c)
			}
			open = append(open, c)
		case "END":
			if name != open[len(open)-1].Name {
				return nil, &SyntaxError{n, "END of another component"}
			}
			if len(open) == 1 {
				return open[0], nil
			}
			open = open[:len(open)-1]
		default:
			c := open[len(open)-1]
			c.Properties = append(c.Properties, p)
		}
	}
	return nil, &SyntaxError{0, "the text ends before the object"}
}

// unfold returns the first line, without its folds and its end, and the rest.
func unfold(text []byte) (line string, rest []byte) {
	first, rest := cut(text)
	if len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' {
		return strings.ToValidUTF8(string(first), "\ufffd"), rest
	}
	var b []byte
	b = append(b, first...)
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
		first, rest = cut(rest[1:])
		b = append(b, first...)
	}
	return strings.ToValidUTF8(string(b), "\ufffd"), rest
}

func cut(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}

// property parses a line.
func property(line string) Property {
	end := strings.IndexAny(line, ";:")
	if end < 0 {
		return Property{Value: line}
	}
	group, name, grouped := strings.Cut(line[:end], ".")
	if !grouped {
		group, name = "", group
	}
	if !isName(name) || grouped && !isName(group) {
		return Property{Value: line}
	}
	p := Property{Group: group, Name: strings.ToUpper(name)}
	rest := line[end:]
	for rest[0] == ';' {
		name, after, ok := strings.Cut(rest[1:], "=")
		if !ok || !isName(name) {
			return Property{Value: line}
		}
		param := Param{Name: strings.ToUpper(name)}
		for rest = "," + after; rest != "" && rest[0] == ','; {
			value, next, ok := paramValue(rest[1:])
			if !ok {
				return Property{Value: line}
			}
			param.Values = append(param.Values, value)
			rest = next
		}
		if rest == "" {
			return Property{Value: line}
		}
		p.Params = append(p.Params, param)
	}
	p.Value = rest[1:]
	return p
}

// paramValue parses a value of a parameter, and returns the text from the separator behind it, one of ",;:".
//
// Implements: RFC 5545 §3.2 property parameters
// Implements: RFC 6868 §3 parameter value encoding
func paramValue(s string) (value, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		value, rest, ok = strings.Cut(s[1:], `"`)
		if !ok || rest == "" || !strings.ContainsRune(",;:", rune(rest[0])) {
			return "", "", false
		}
	} else {
		end := strings.IndexAny(s, `,;:"`)
		if end < 0 || s[end] == '"' {
			return "", "", false
		}
		value, rest = s[:end], s[end:]
	}
	return uncaret.Replace(value), rest, true
}

var (
	uncaret = strings.NewReplacer("^n", "\n", "^^", "^", "^'", `"`)
	caret   = strings.NewReplacer("\n", "^n", "^", "^^", `"`, "^'")
)

// isName reports whether s is a name of a property, parameter or component.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != ""
}

// maxLine is the length of a line in bytes, from which on it is folded (RFC 5545 section 3.1).
const maxLine = 75

// Append prints a component with CRLF line ends.
func Append(dst []byte, c *Component) []byte {
	dst = append(append(append(dst, "BEGIN:"...), c.Name...), "\r\n"...)
	for i := range c.Properties {
		dst = appendProperty(dst, &c.Properties[i])
	}
	for _, child := range c.Children {
		dst = Append(dst, child)
	}
	return append(append(append(dst, "END:"...), c.Name...), "\r\n"...)
}

func appendProperty(dst []byte, p *Property) []byte {
	var line []byte
	if p.Name != "" {
		if p.Group != "" {
			line = append(append(line, p.Group...), '.')
		}
		line = append(line, p.Name...)
		for _, param := range p.Params {
			line = append(append(append(line, ';'), param.Name...), '=')
			for i, v := range param.Values {
				if i > 0 {
					line = append(line, ',')
				}
				if v = caret.Replace(v); strings.ContainsAny(v, ",;:") {
					line = append(append(append(line, '"'), v...), '"')
				} else {
					line = append(line, v...)
				}
			}
		}
		line = append(line, ':')
	}
	return appendFolded(dst, append(line, p.Value...))
}

// appendFolded prints a line in pieces that cut no character.
func appendFolded(dst, line []byte) []byte {
	for room := maxLine; len(line) > room; room = maxLine - 1 {
		n := room
		for n > 1 && !utf8.RuneStart(line[n]) {
			n--
		}
		dst = append(append(dst, line[:n]...), "\r\n "...)
		line = line[n:]
	}
	return append(append(dst, line...), "\r\n"...)
}

// Get returns the first property of a name, or nil.
func (c *Component) Get(name string) *Property {
	for i := range c.Properties {
		if c.Properties[i].Name == name {
			return &c.Properties[i]
		}
	}
	return nil
}

// Text returns the text of the first property of a name, or "".
func (c *Component) Text(name string) string {
	if p := c.Get(name); p != nil {
		return p.Text()
	}
	return ""
}

// Param returns the first value of a parameter, or "".
func (p *Property) Param(name string) string {
	for _, x := range p.Params {
		if x.Name == name && len(x.Values) > 0 {
			return x.Values[0]
		}
	}
	return ""
}

var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\N`, "\n", `\,`, ",", `\;`, ";")

// Text returns a value of type TEXT without its escapes.
//
// Implements: RFC 5545 §3.3.11 TEXT
func (p *Property) Text() string { return unescape.Replace(p.Value) }
