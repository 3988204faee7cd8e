package imap

import (
	"fmt"
	"strings"
	"unsafe"

	"doublet/wire/mime"
)

// ParseBodyStructure parses the text of BODYSTRUCTURE or BODY. Offsets are not known: a part other than a multipart
// gets BodyStart 0 and its size as BodyEnd.
func ParseBodyStructure(text []byte) (*mime.Part, error) { return parseBodyText(string(text)) }

func parseBodyText(s string) (*mime.Part, error) {
	p := parser{s: s, limits: &textLimits, response: true}
	part := p.body(0)
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("imap: body structure: %w", err)
	}
	return part, nil
}

func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return strings.ToLower(s)
		}
	}
	return s
}

func (p *parser) body(depth int) *mime.Part {
	part := &mime.Part{}
	if depth > p.limits.Depth {
		p.fail("Body structure is nested too deep")
		return part
	}
	p.expect('(')
	if p.peek() == '(' {
		p.multipart(part, depth)
	} else {
		p.singlePart(part, depth)
	}
	// Future extensions have any values.
	for p.err == nil && p.try(' ') {
		p.skipValue()
	}
	p.expect(')')
	return part
}

func (p *parser) multipart(part *mime.Part, depth int) {
	part.Type = "multipart"
	for p.err == nil && p.peek() == '(' {
		part.Children = append(part.Children, p.body(depth+1))
		if p.i+1 < len(p.s) && p.s[p.i] == ' ' && p.s[p.i+1] == '(' { // some servers send spaces there
			p.i++
		}
	}
	p.space()
	part.Subtype = lower(p.str())
	if p.try(' ') {
		part.Params = p.params()
		p.bodyExtension(part)
	}
}

func (p *parser) singlePart(part *mime.Part, depth int) {
	kind, _ := p.nstring()
	p.space()
	subtype, _ := p.nstring()
	part.Type, part.Subtype = lower(kind), lower(subtype)
	p.space()
	part.Params = p.params()
	p.space()
	part.ID, _ = p.nstring()
	p.space()
	part.Description, _ = p.nstring()
	p.space()
	encoding, _ := p.nstring()
	part.Encoding = lower(encoding)
	p.space()
	part.BodyEnd = int(p.number32())
	switch {
	case part.Type == "text":
		p.space()
		part.Lines = int(p.number32())
	case part.Type == "message" && (part.Subtype == "rfc822" || part.Subtype == "global") &&
		strings.HasPrefix(p.s[min(p.i, len(p.s)):], " ("):
		p.space()
		e := p.envelope()
		p.space()
		child := p.body(depth + 1)
		child.Envelope = e
		part.Children = []*mime.Part{child}
		p.space()
		part.Lines = int(p.number32())
	}
	if p.try(' ') {
		part.MD5, _ = p.nstring()
		p.bodyExtension(part)
	}
}

// bodyExtension parses disposition, language and location, each of which is optional.
func (p *parser) bodyExtension(part *mime.Part) {
	if !p.try(' ') {
		return
	}
	if !p.tryWord("NIL") {
		p.expect('(')
		part.Disposition = lower(p.str())
		p.space()
		part.DispositionParams = p.params()
		p.expect(')')
	}
	if !p.try(' ') {
		return
	}
	if p.peek() == '(' {
		p.list(true, func() { part.Language = append(part.Language, p.str()) })
	} else if s, ok := p.nstring(); ok {
		part.Language = []string{s}
	}
	if p.try(' ') {
		part.Location, _ = p.nstring()
	}
}

func (p *parser) params() (params []mime.Param) {
	if p.tryWord("NIL") {
		return nil
	}
	p.list(true, func() {
		name := p.str()
		p.space()
		value, _ := p.nstring()
		params = append(params, mime.Param{Name: lower(name), Value: value})
	})
	return params
}

// skipValue skips one value of any kind (list, string, atom, number) and returns its text.
func (p *parser) skipValue() string {
	start := p.i
	depth := 0
	for p.err == nil {
		switch p.peek() {
		case '(':
			p.i++
			depth++
			continue // a value or ")" follows
		case ')':
			if depth == 0 {
				p.fail("Expected a value")
				return ""
			}
			p.i++
			depth--
		case '"':
			p.skipQuoted()
		case '{', '~':
			p.literal()
		default:
			if !p.skipAtom() {
				return ""
			}
		}
		if depth == 0 {
			break
		}
		for p.try(' ') {
		}
	}
	if p.err != nil {
		return ""
	}
	return p.s[start:p.i]
}

// skipQuoted skips a quoted string without unescaping it.
func (p *parser) skipQuoted() {
	for p.i++; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '"':
			p.i++
			return
		case '\\':
			p.i++
		case '\r', '\n':
			p.fail("Invalid character in a quoted string")
		}
	}
	p.fail("Unterminated quoted string")
}

// skipAtom skips text up to a space or parenthesis. A section in brackets may contain these.
func (p *parser) skipAtom() bool {
	start := p.i
	for p.i < len(p.s) {
		c := p.s[p.i]
		if c <= ' ' || c == '(' || c == ')' || c == '"' || c == '{' {
			break
		}
		p.i++
	}
	if p.i == start {
		p.fail("Expected a value")
		return false
	}
	return true
}

// AppendBodyFromStructure prints BODY from the text of BODYSTRUCTURE, which is the same without extension data.
func AppendBodyFromStructure(dst, text []byte) ([]byte, error) {
	// Safe: the string is used only in this call, and nothing changes text meanwhile.
	p := parser{s: unsafe.String(unsafe.SliceData(text), len(text)), limits: &textLimits, response: true}
	start := len(dst)
	dst = p.copyBody(dst, 0)
	if err := p.finish(); err != nil {
		return dst[:start], fmt.Errorf("imap: body structure: %w", err)
	}
	return dst, nil
}

func (p *parser) copyBody(dst []byte, depth int) []byte {
	if depth > p.limits.Depth {
		p.fail("Body structure is nested too deep")
		return dst
	}
	p.expect('(')
	dst = append(dst, '(')
	if p.peek() == '(' {
		for p.err == nil && p.peek() == '(' {
			dst = p.copyBody(dst, depth+1)
		}
		dst = p.copyValue(dst) // subtype
	} else {
		dst = p.copySinglePart(dst, depth)
	}
	for p.err == nil && p.try(' ') {
		p.skipValue()
	}
	p.expect(')')
	return append(dst, ')')
}

func (p *parser) copySinglePart(dst []byte, depth int) []byte {
	kind := p.skipValue()
	p.space()
	subtype := p.skipValue()
	dst = append(dst, kind...)
	dst = append(dst, ' ')
	dst = append(dst, subtype...)
	for range 5 { // parameters, id, description, encoding, size
		dst = p.copyValue(dst)
	}
	switch {
	case strings.EqualFold(kind, `"text"`):
		dst = p.copyValue(dst)
	case strings.EqualFold(kind, `"message"`) &&
		(strings.EqualFold(subtype, `"rfc822"`) || strings.EqualFold(subtype, `"global"`)):
		dst = p.copyValue(dst) // envelope
		p.space()
		dst = p.copyBody(append(dst, ' '), depth+1)
		dst = p.copyValue(dst) // lines
	}
	return dst
}

// copyValue copies a space and the following value.
func (p *parser) copyValue(dst []byte) []byte {
	p.space()
	dst = append(dst, ' ')
	return append(dst, p.skipValue()...)
}
