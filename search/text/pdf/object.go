package pdf

import (
	"bytes"
	"strconv"
	"strings"
)

// object is a PDF object (ISO 32000-1 section 7.3): nil, bool, float64, name, str, array, dict, ref, *stream, or
// keyword for any other bare word.
type object any

type (
	name    string
	str     string
	keyword string
	array   []object
	dict    map[name]object
	ref     int
)

type stream struct {
	dict dict
	raw  []byte
}

// maxNested is the maximum nesting depth of arrays and dictionaries.
const maxNested = 50

// lexer reads objects from bytes that may be malformed.
type lexer struct {
	b   []byte
	pos int
	f   *file // counts the work
}

func space(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func delimiter(c byte) bool {
	switch c {
	case '(', ')', '<', '>', '[', ']', '{', '}', '/', '%':
		return true
	}
	return false
}

// skip skips blanks and comments.
func (l *lexer) skip() {
	for l.pos < len(l.b) {
		switch c := l.b[l.pos]; {
		case space(c):
			l.pos++
		case c == '%':
			for l.pos < len(l.b) && l.b[l.pos] != '\n' && l.b[l.pos] != '\r' {
				l.pos++
			}
		default:
			return
		}
	}
}

// next reads an object. ok is false at the end. If refs is set, "1 0 R" is one object.
func (l *lexer) next(refs bool, depth int) (o object, ok bool) {
	l.f.pay(1)
	l.skip()
	if l.pos >= len(l.b) {
		return nil, false
	}
	switch c := l.b[l.pos]; {
	case c == '/':
		return l.name(), true
	case c == '(':
		return l.literal(), true
	case c == '<' && l.pos+1 < len(l.b) && l.b[l.pos+1] == '<':
		l.pos += 2
		return l.dict(refs, depth), true
	case c == '<':
		return l.hex(), true
	case c == '[':
		l.pos++
		return l.array(refs, depth), true
	case c == '>' && l.pos+1 < len(l.b) && l.b[l.pos+1] == '>':
		l.pos += 2
		return keyword(">>"), true
	case delimiter(c):
		l.pos++
		return keyword(string(c)), true
	}
	return l.plain(refs), true
}

func (l *lexer) word() string {
	start := l.pos
	for l.pos < len(l.b) && !space(l.b[l.pos]) && !delimiter(l.b[l.pos]) {
		l.pos++
	}
	return string(l.b[start:l.pos])
}

func (l *lexer) plain(refs bool) object {
	w := l.word()
	switch w {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if strings.IndexByte("+-.0123456789", w[0]) < 0 {
		return keyword(w)
	}
	n, err := strconv.ParseFloat(w, 64)
	if err != nil || n != n || n > 1e15 || n < -1e15 {
		return number(w)
	}
	if refs && n >= 0 && n < maxObjects && n == float64(int(n)) {
		if l.isRef() {
			return ref(int(n))
		}
	}
	return n
}

// number parses a number, including malformed ones that some programs write, such as 12-3 or --5.
func number(w string) object {
	i := 0
	for i < len(w) && (w[i] == '-' || w[i] == '+') {
		i++
	}
	j := i
	for j < len(w) && (w[j] >= '0' && w[j] <= '9' || w[j] == '.') {
		j++
	}
	n, err := strconv.ParseFloat(w[i:j], 64)
	if err != nil {
		return keyword(w)
	}
	if i > 0 && w[0] == '-' {
		n = -n
	}
	return n
}

func (l *lexer) skipSpace(i int) int {
	for i < len(l.b) && space(l.b[i]) {
		i++
	}
	return i
}

// isRef reports whether "0 R" follows a number, and skips it.
func (l *lexer) isRef() bool {
	i := l.skipSpace(l.pos)
	from := i
	for i < len(l.b) && i-from < 6 && l.b[i] >= '0' && l.b[i] <= '9' {
		i++
	}
	if i == from {
		return false
	}
	from = i
	i = l.skipSpace(i)
	if i == from || i >= len(l.b) || l.b[i] != 'R' || i+1 < len(l.b) && !space(l.b[i+1]) && !delimiter(l.b[i+1]) {
		return false
	}
	l.pos = i + 1
	return true
}

func (l *lexer) name() name {
	l.pos++
	w := l.word()
	if !bytes.ContainsRune([]byte(w), '#') {
		return name(w)
	}
	var b []byte
	for i := 0; i < len(w); i++ {
		if w[i] == '#' && i+2 < len(w) && unhex(w[i+1]) >= 0 && unhex(w[i+2]) >= 0 {
			b = append(b, byte(unhex(w[i+1])<<4|unhex(w[i+2])))
			i += 2
			continue
		}
		b = append(b, w[i])
	}
	return name(b)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c - 'a' + 10)
	case c >= 'A' && c <= 'F':
		return int(c - 'A' + 10)
	}
	return -1
}

// literal reads a string in parentheses.
func (l *lexer) literal() str {
	l.pos++
	var b []byte
	for depth := 1; l.pos < len(l.b); l.pos++ {
		c := l.b[l.pos]
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				l.pos++
				l.f.pay(len(b) / 16)
				return str(b)
			}
		case '\\':
			if l.pos++; l.pos < len(l.b) {
				b = l.escape(b)
			}
			continue
		}
		b = append(b, c)
	}
	l.f.pay(len(b) / 16)
	return str(b)
}

// escape decodes an escape sequence. It starts after the backslash and ends at its last byte.
func (l *lexer) escape(b []byte) []byte {
	switch c := l.b[l.pos]; c {
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'b', 'f':
		return append(b, ' ')
	case '\n':
		return b
	case '\r':
		if l.pos+1 < len(l.b) && l.b[l.pos+1] == '\n' {
			l.pos++
		}
		return b
	case '0', '1', '2', '3', '4', '5', '6', '7':
		v := 0
		for i := 0; i < 3 && l.pos < len(l.b) && l.b[l.pos] >= '0' && l.b[l.pos] <= '7'; i++ {
			v = v<<3 | int(l.b[l.pos]-'0')
			l.pos++
		}
		l.pos--
		return append(b, byte(v))
	default:
		return append(b, c)
	}
}

func (l *lexer) hex() str {
	l.pos++
	var b []byte
	half, high := false, 0
	for ; l.pos < len(l.b); l.pos++ {
		c := l.b[l.pos]
		if c == '>' {
			l.pos++
			break
		}
		v := unhex(c)
		if v < 0 {
			continue
		}
		if half {
			b = append(b, byte(high<<4|v))
		}
		half, high = !half, v
	}
	if half {
		b = append(b, byte(high<<4))
	}
	l.f.pay(len(b) / 16)
	return str(b)
}

func (l *lexer) array(refs bool, depth int) array {
	var out array
	for depth < maxNested {
		o, ok := l.next(refs, depth+1)
		if !ok || o == keyword("]") {
			return out
		}
		l.f.hold(1)
		out = append(out, o)
	}
	l.f.stop(ErrBeyond)
	return nil
}

func (l *lexer) dict(refs bool, depth int) dict {
	out := dict{}
	for depth < maxNested {
		k, ok := l.next(false, depth+1)
		if !ok || k == keyword(">>") {
			return out
		}
		if k == keyword("endobj") || k == keyword("stream") {
			l.pos -= len(k.(keyword)) // the dictionary is not closed
			return out
		}
		key, ok := k.(name)
		if !ok {
			continue
		}
		v, ok := l.next(refs, depth+1)
		if !ok || v == keyword(">>") {
			return out
		}
		l.f.hold(3)
		out[key] = v
	}
	l.f.stop(ErrBeyond)
	return nil
}
