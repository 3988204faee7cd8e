package sieve

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// tokenKind is the kind of a token. Punctuation is a token of its own character.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenIdentifier
	tokenTag
	tokenNumber
	tokenString
)

type token struct {
	kind   tokenKind // or one of ; , { } ( ) [ ]
	text   string
	number uint64
	line   int
}

// lexer splits a script into tokens.
//
// Implements: RFC 5228 §8.1 lexical tokens
type lexer struct {
	in      string
	pos     int
	line    int
	comment []string // since the last token
}

func (l *lexer) fail(format string, args ...any) error {
	return Errors{{Line: l.line, Text: fmt.Sprintf(format, args...)}}
}

// blanks skips white space and keeps comments.
//
// Implements: RFC 5228 §2.3 comments
func (l *lexer) blanks() error {
	for l.pos < len(l.in) {
		switch c := l.in[l.pos]; {
		case c == '\n':
			l.line++
			l.pos++
		case c == ' ', c == '\t', c == '\r':
			l.pos++
		case c == '#':
			line, _, _ := strings.Cut(l.in[l.pos+1:], "\n")
			l.comment = append(l.comment, strings.TrimSpace(line))
			l.pos += 1 + len(line)
		case strings.HasPrefix(l.in[l.pos:], "/*"):
			text, _, found := strings.Cut(l.in[l.pos+2:], "*/")
			if !found {
				return l.fail("comment has no end: close it with */")
			}
			for line := range strings.SplitSeq(text, "\n") {
				l.comment = append(l.comment, strings.TrimSpace(line))
			}
			l.line += strings.Count(text, "\n")
			l.pos += 4 + len(text)
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) next() (token, error) {
	if err := l.blanks(); err != nil {
		return token{}, err
	}
	t := token{line: l.line}
	if l.pos >= len(l.in) {
		return t, nil
	}
	c := l.in[l.pos]
	switch {
	case strings.IndexByte(";,{}()[]", c) >= 0:
		t.kind = tokenKind(c)
		l.pos++
		return t, nil
	case c == '"':
		return l.quoted(t)
	case c == ':':
		l.pos++
		if l.pos >= len(l.in) || !letter(l.in[l.pos]) {
			return t, l.fail("colon must be followed by the name of a tag")
		}
		t.kind, t.text = tokenTag, strings.ToLower(l.word())
		return t, nil
	case '0' <= c && c <= '9':
		return l.number(t)
	case letter(c):
		t.kind, t.text = tokenIdentifier, strings.ToLower(l.word())
		if t.text == "text" && l.pos < len(l.in) && l.in[l.pos] == ':' {
			l.pos++
			return l.multiline(t)
		}
		return t, nil
	}
	r, _ := utf8.DecodeRuneInString(l.in[l.pos:])
	return t, l.fail("unexpected character %q", r)
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }

func (l *lexer) word() string {
	start := l.pos
	for l.pos < len(l.in) && (letter(l.in[l.pos]) || '0' <= l.in[l.pos] && l.in[l.pos] <= '9') {
		l.pos++
	}
	return l.in[start:l.pos]
}

// number reads a number with its quantifier.
//
// Implements: RFC 5228 §2.4.1 numbers
func (l *lexer) number(t token) (token, error) {
	t.kind = tokenNumber
	for l.pos < len(l.in) && '0' <= l.in[l.pos] && l.in[l.pos] <= '9' {
		if t.number = t.number*10 + uint64(l.in[l.pos]-'0'); t.number > math.MaxInt32*1024 {
			return t, l.fail("number is too large")
		}
		l.pos++
	}
	if l.pos >= len(l.in) {
		return t, nil
	}
	shift := 0
	switch l.in[l.pos] | 0x20 {
	case 'k':
		shift = 10
	case 'm':
		shift = 20
	case 'g':
		shift = 30
	}
	if shift > 0 {
		l.pos++
		if t.number > math.MaxInt64>>shift {
			return t, l.fail("number is too large")
		}
		t.number <<= shift
	}
	if l.pos < len(l.in) && letter(l.in[l.pos]) {
		return t, l.fail("number has an unknown quantifier: use K, M or G")
	}
	return t, nil
}

// quoted reads a quoted string.
//
// Implements: RFC 5228 §2.4.2 strings
func (l *lexer) quoted(t token) (token, error) {
	t.kind = tokenString
	l.pos++
	rest := l.in[l.pos:]
	if i := strings.IndexAny(rest, "\"\\\n"); i >= 0 && rest[i] == '"' { // nearly all
		t.text = rest[:i]
		l.pos += i + 1
		return t, nil
	}
	var b strings.Builder
	for l.pos < len(l.in) {
		c := l.in[l.pos]
		l.pos++
		switch c {
		case '"':
			t.text = b.String()
			return t, nil
		case '\n':
			l.line++
		case '\\':
			if l.pos >= len(l.in) {
				continue
			}
			c = l.in[l.pos]
			l.pos++
		}
		b.WriteByte(c)
	}
	l.line = t.line
	return t, l.fail("string has no end: close it with a quote")
}

// multiline reads the rest of a string that starts with "text:".
func (l *lexer) multiline(t token) (token, error) {
	t.kind = tokenString
	first, rest, found := strings.Cut(l.in[l.pos:], "\n")
	if first = strings.TrimSpace(first); !found || first != "" && first[0] != '#' {
		return t, l.fail("text: must be followed by the end of the line")
	}
	l.line++
	var b strings.Builder
	for rest != "" {
		var line string
		line, rest, found = strings.Cut(rest, "\n")
		if strings.TrimSuffix(line, "\r") == "." && (found || line == ".") {
			if found {
				l.line++
			}
			t.text, l.pos = b.String(), len(l.in)-len(rest)
			return t, nil
		}
		l.line++
		b.WriteString(strings.TrimPrefix(line, "."))
		b.WriteByte('\n')
	}
	l.line = t.line
	return t, l.fail("text: has no end: close it with a line of one dot")
}
