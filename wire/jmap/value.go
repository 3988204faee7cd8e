package jmap

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

func (k Kind) String() string { return kindNames[k] }

// Value is a JSON value. Its strings are slices of the parsed text unless they contain escapes. Methods treat a nil
// *Value, which is a missing value, as null.
type Value struct {
	kind  Kind
	text  string // of a string the decoded text, else the text as written
	items []Value
	names []string // of an object, parallel to items
}

// Bounds limits the input of Parse. Zero fields take the defaults, which are in parentheses.
type Bounds struct {
	// Depth bounds the nesting of arrays and objects (100).
	Depth int
	// Values bounds the number of values, without names (250,000). Each takes 72 octets.
	Values int
}

// ParseCost returns an upper bound of the memory in bytes that Parse and ParseRequest take for a text, including its
// copy as a string. Each value but the first follows a bracket or a comma.
func ParseCost(text []byte) int64 {
	values := 1
	for _, c := range [...][]byte{{','}, {'['}, {'{'}} {
		values += bytes.Count(text, c)
	}
	return int64(len(text)) + int64(min(values, maxValues))*valueCost
}

// maxValues is the default of Bounds.Values. valueCost is the memory of one value with its name, while its list grows.
const (
	maxValues = 250_000
	valueCost = 176
)

// The errors of Parse.
var (
	// ErrSyntax means that the text is not I-JSON (RFC 7493).
	ErrSyntax = errors.New("not I-JSON")
	// ErrBounds means that the text exceeds the Bounds.
	ErrBounds = errors.New("more than is read")
)

// Parse parses one JSON value as RFC 7493 requires: UTF-8, no lone surrogates, no duplicate names in an object.
//
// Implements: RFC 8620 §1.5 I-JSON
func Parse(text string, b Bounds) (*Value, error) {
	if b.Depth <= 0 {
		b.Depth = 100
	}
	if b.Values <= 0 {
		b.Values = maxValues
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%w: not UTF-8", ErrSyntax)
	}
	p := parser{s: text, left: b.Values, depth: b.Depth}
	v := p.value()
	p.space()
	if p.err == nil && p.i < len(p.s) {
		p.fail("more than one value")
	}
	if p.err != nil {
		return nil, p.err
	}
	return &v, nil
}

type parser struct {
	s     string
	i     int
	left  int
	depth int
	err   error
}

func (p *parser) fail(what string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s at octet %d", ErrSyntax, what, p.i)
	}
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\r', '\n':
			p.i++
		default:
			return
		}
	}
}

// next returns the first octet of the next value, or 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *parser) value() (v Value) {
	if p.left--; p.left < 0 && p.err == nil {
		p.err = fmt.Errorf("%w: too many values", ErrBounds)
	}
	if p.err != nil {
		return v
	}
	switch c := p.next(); {
	case c == '{':
		v.kind = Object
		p.object(&v)
	case c == '[':
		v.kind = Array
		p.array(&v)
	case c == '"':
		v.kind, v.text = String, p.string()
	case c == '-' || '0' <= c && c <= '9':
		v.kind, v.text = Number, p.number()
	case p.word("true"), p.word("false"):
		v.kind, v.text = Bool, map[bool]string{true: "true", false: "false"}[c == 't']
	case p.word("null"):
	default:
		p.fail("no value")
	}
	return v
}

func (p *parser) word(w string) bool {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return false
	}
	p.i += len(w)
	return true
}

// enter enters an array or object.
func (p *parser) enter() {
	p.i++
	if p.depth--; p.depth < 0 && p.err == nil {
		p.err = fmt.Errorf("%w: nested too deep", ErrBounds)
	}
}

// more reports whether another element follows, and skips the comma. end is the closing bracket.
func (p *parser) more(end byte, first bool) bool {
	if p.err != nil {
		return false
	}
	switch c := p.next(); {
	case c == end:
		p.i++
		p.depth++
		return false
	case first:
		return true
	case c == ',':
		p.i++
		return true
	}
	p.fail("neither a comma nor the end")
	return false
}

func (p *parser) array(v *Value) {
	p.enter()
	for p.more(']', len(v.items) == 0) {
		v.items = append(v.items, p.value())
	}
}

// linear is the number of names up to which duplicates are found by comparing all.
const linear = 16

func (p *parser) object(v *Value) {
	p.enter()
	var seen map[string]bool
	for p.more('}', len(v.items) == 0) {
		if p.next() != '"' {
			p.fail("no name")
			return
		}
		name := p.string()
		if p.next() != ':' {
			p.fail("no colon")
			return
		}
		p.i++
		if len(v.names) == linear {
			seen = make(map[string]bool, 4*linear)
			for _, n := range v.names {
				seen[n] = true
			}
		}
		twice := seen[name]
		if seen != nil {
			seen[name] = true
		} else {
			for _, n := range v.names {
				twice = twice || n == name
			}
		}
		if twice {
			p.fail("a name comes twice")
			return
		}
		v.names, v.items = append(v.names, name), append(v.items, p.value())
	}
}

// digits skips digits and returns their number.
func (p *parser) digits() int {
	from := p.i
	for p.i < len(p.s) && '0' <= p.s[p.i] && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - from
}

func (p *parser) number() string {
	start := p.i
	if p.s[p.i] == '-' {
		p.i++
	}
	first := p.i
	if n := p.digits(); n == 0 || n > 1 && p.s[first] == '0' {
		p.fail("not a number")
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		if p.i++; p.digits() == 0 {
			p.fail("not a number")
		}
	}
	if p.i < len(p.s) && p.s[p.i]|0x20 == 'e' {
		if p.i++; p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if p.digits() == 0 {
			p.fail("not a number")
		}
	}
	return p.s[start:p.i]
}

// string reads the string at the current position. The text is already known to be valid UTF-8.
func (p *parser) string() string {
	p.i++
	start := p.i
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return p.s[start : p.i-1]
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			p.fail("a control character")
			return ""
		}
		p.i++
	}
	p.fail("a string without an end")
	return ""
}

// escaped continues a string at its first escape. start is the offset of its first octet.
func (p *parser) escaped(start int) string {
	end := strings.IndexByte(p.s[p.i:], '"')
	out := make([]byte, 0, p.i-start+max(end, 0)+16)
	out = append(out, p.s[start:p.i]...)
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return string(out)
		case c == '\\':
			if out = p.escape(out); p.err != nil {
				return ""
			}
			continue
		case c < ' ':
			p.fail("a control character")
			return ""
		default:
			out = append(out, c)
		}
		p.i++
	}
	p.fail("a string without an end")
	return ""
}

const escapes = `"\/bfnrt`

var escapesMean = [...]byte{'"', '\\', '/', '\b', '\f', '\n', '\r', '\t'}

func (p *parser) escape(out []byte) []byte {
	if p.i+1 >= len(p.s) {
		p.fail("a string without an end")
		return out
	}
	if n := strings.IndexByte(escapes, p.s[p.i+1]); n >= 0 {
		p.i += 2
		return append(out, escapesMean[n])
	}
	r, ok := p.hex(p.i)
	if !ok {
		p.fail("not an escape")
		return out
	}
	p.i += 6
	if 0xd800 <= r && r < 0xe000 {
		low, ok := p.hex(p.i)
		if !ok || r >= 0xdc00 || low < 0xdc00 || low >= 0xe000 {
			p.fail("a lone surrogate")
			return out
		}
		p.i += 6
		r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
	}
	return utf8.AppendRune(out, r)
}

// hex reads \uXXXX at offset i.
func (p *parser) hex(i int) (rune, bool) {
	if i+6 > len(p.s) || p.s[i] != '\\' || p.s[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(p.s[i+2:i+6], 16, 16)
	return rune(n), err == nil && p.s[i+2] != '+'
}

// Kind returns the value's kind.
func (v *Value) Kind() Kind {
	if v == nil {
		return Null
	}
	return v.kind
}

// IsNull reports whether the value is missing or null.
func (v *Value) IsNull() bool { return v == nil || v.kind == Null }

// Get returns a member of an object, or nil if there is none.
func (v *Value) Get(name string) *Value {
	if v == nil {
		return nil
	}
	for i, n := range v.names {
		if n == name {
			return &v.items[i]
		}
	}
	return nil
}

// Len returns the number of elements or members.
func (v *Value) Len() int {
	if v == nil {
		return 0
	}
	return len(v.items)
}

// At returns the i-th element of an array, or the value of the i-th member of an object.
func (v *Value) At(i int) *Value { return &v.items[i] }

// Name returns the name of the i-th member of an object.
func (v *Value) Name(i int) string { return v.names[i] }

// Text returns the text of a string.
func (v *Value) Text() (string, bool) {
	if v == nil || v.kind != String {
		return "", false
	}
	return v.text, true
}

// Bool returns the value of a boolean.
func (v *Value) Bool() (on, ok bool) {
	if v == nil || v.kind != Bool {
		return false, false
	}
	return v.text == "true", true
}

// maxInt is the greatest Int and UnsignedInt (RFC 8620 section 1.3).
const maxInt = 1<<53 - 1

// Int returns an integer in the range of JMAP's Int.
//
// Implements: RFC 8620 §1.3 Int and UnsignedInt
func (v *Value) Int() (int64, bool) {
	if v == nil || v.kind != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > maxInt {
			return 0, false
		}
		n = int64(f)
	}
	return n, -maxInt <= n && n <= maxInt
}

// Append appends the value as JSON.
func (v *Value) Append(dst []byte) []byte {
	switch v.Kind() {
	case Null:
		return append(dst, "null"...)
	case String:
		return AppendString(dst, v.text)
	case Array:
		dst = append(dst, '[')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.items[i].Append(dst)
		}
		return append(dst, ']')
	case Object:
		dst = append(dst, '{')
		for i := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, v.names[i]), ':')
			dst = v.items[i].Append(dst)
		}
		return append(dst, '}')
	}
	return append(dst, v.text...)
}

// Text returns a string value.
func Text(s string) Value { return Value{kind: String, text: s} }

// True returns the boolean value true.
func True() Value { return Value{kind: Bool, text: "true"} }

// List returns an array value.
func List(items ...Value) Value { return Value{kind: Array, items: items} }

// MakeObject returns an object value. It takes ownership of both slices.
func MakeObject(names []string, values []Value) *Value {
	return &Value{kind: Object, names: names, items: values}
}
