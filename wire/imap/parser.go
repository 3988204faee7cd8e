package imap

import (
	"strings"
	"unicode/utf8"
)

// parser parses one text. On the first error it moves to the end, where nothing matches. So loops end, and callers
// check err only once, at the end.
type parser struct {
	s      string
	i      int
	limits *Limits
	utf8   bool // mailbox names are UTF-8
	err    *SyntaxError
	given  string // see Command.Given
	// message is set if the literal of an APPEND follows the text.
	message bool
	// response is set to parse server responses, which is more lenient.
	response bool
	// left holds the literals that a response omits, with the positions after their CRLF, in order.
	left []leftOut
}

func (p *parser) fail(text string) {
	p.failWith(&SyntaxError{Text: text})
}

func (p *parser) failWith(e *SyntaxError) {
	if p.err == nil {
		p.err = e
	}
	p.i = len(p.s)
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *parser) end() bool { return p.i >= len(p.s) }

// try consumes c if it is next.
func (p *parser) try(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *parser) expect(c byte) {
	if !p.try(c) {
		p.fail("Expected " + string(rune(c)))
	}
}

func (p *parser) space() {
	if !p.try(' ') {
		p.fail("Expected a space")
	}
}

// tryWord consumes word, in any case, if it is next and no atom character follows.
func (p *parser) tryWord(word string) bool {
	n := p.i + len(word)
	if n > len(p.s) || !strings.EqualFold(p.s[p.i:n], word) {
		return false
	}
	if n < len(p.s) && isClass(p.s[n], atomChar) {
		return false
	}
	p.i = n
	return true
}

// tryText consumes text, in any case, if it is next.
func (p *parser) tryText(text string) bool {
	n := p.i + len(text)
	if n > len(p.s) || !strings.EqualFold(p.s[p.i:n], text) {
		return false
	}
	p.i = n
	return true
}

const (
	atomChar    uint8 = 1 << iota // ATOM-CHAR
	astringChar                   // ATOM-CHAR and "]"
	listChar                      // ASTRING-CHAR and the wildcards
	tagChar                       // ASTRING-CHAR without "+"
	quotedChar                    // valid unescaped between quotes, 8-bit included
)

var classes = func() (t [256]uint8) {
	for c := 1; c < 256; c++ {
		if c != '\r' && c != '\n' && c != '"' && c != '\\' {
			t[c] |= quotedChar
		}
		// No grammar allows 8-bit atoms, but clients send UTF-8 names and search texts so.
		if c <= 0x20 || c == 0x7f || strings.IndexByte(`(){%*"\]`, byte(c)) >= 0 && c < 0x80 {
			continue
		}
		t[c] |= atomChar | astringChar | listChar | tagChar
		if c == '+' {
			t[c] &^= tagChar
		}
		if c >= 0x80 {
			t[c] &^= tagChar
		}
	}
	t[']'] |= astringChar | listChar | tagChar
	t['%'] |= listChar
	t['*'] |= listChar
	return t
}()

func isClass(c byte, class uint8) bool { return classes[c]&class != 0 }

const maxTag = 100

func isTag(s string) bool {
	if s == "" || len(s) > maxTag {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !isClass(s[i], tagChar) {
			return false
		}
	}
	return true
}

// run consumes the longest run of characters of a class, which may be empty.
func (p *parser) run(class uint8) string {
	start := p.i
	for p.i < len(p.s) && classes[p.s[p.i]]&class != 0 {
		p.i++
	}
	return p.s[start:p.i]
}

func (p *parser) atom() string {
	s := p.run(atomChar)
	if s == "" {
		p.fail("Expected an atom")
	}
	return s
}

// word parses an atom and returns it in upper case.
func (p *parser) word() string { return upper(p.atom()) }

// upper returns s with ASCII letters in upper case.
func upper(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= 'a' && s[i] <= 'z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if b[i] >= 'a' && b[i] <= 'z' {
					b[i] -= 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// astring parses an atom (in which "]" is allowed) or a string.
func (p *parser) astring() string {
	if s := p.run(astringChar); s != "" {
		return s
	}
	return p.str()
}

// str parses a quoted string or a literal.
func (p *parser) str() string {
	switch p.peek() {
	case '"':
		return p.quoted()
	case '{', '~':
		s := p.literal()
		if strings.IndexByte(s, 0) >= 0 && !p.response {
			p.fail("NUL in a literal")
			return ""
		}
		return s
	}
	p.fail("Expected a string")
	return ""
}

// nstring parses a string or NIL; ok is false for NIL.
func (p *parser) nstring() (s string, ok bool) {
	switch p.peek() {
	case '"', '{', '~':
		return p.str(), true
	}
	if !p.tryWord("NIL") {
		p.fail("Expected a string or NIL")
	}
	return "", false
}

func (p *parser) quoted() string {
	p.i++
	start := p.i
	for p.i < len(p.s) && classes[p.s[p.i]]&quotedChar != 0 {
		p.i++
	}
	if p.i < len(p.s) && p.s[p.i] == '"' {
		s := p.s[start:p.i]
		p.i++
		return s
	}
	return p.quotedEscaped(start)
}

// quotedEscaped parses a quoted string that contains a backslash, which needs a copy.
func (p *parser) quotedEscaped(start int) string {
	b := append(make([]byte, 0, p.i-start+32), p.s[start:p.i]...)
	for p.i < len(p.s) {
		c := p.s[p.i]
		p.i++
		switch {
		case c == '"':
			return string(b)
		case c == '\\' && (p.peek() == '"' || p.peek() == '\\'):
			b = append(b, p.s[p.i])
			p.i++
		case c == '\\' && p.response && p.i < len(p.s): // some servers escape more characters than necessary, or none
			b = append(b, c)
		case classes[c]&quotedChar != 0:
			b = append(b, c)
		default:
			p.fail("Invalid character in a quoted string")
			return ""
		}
	}
	p.fail("Unterminated quoted string")
	return ""
}

// literal parses {n}CRLF, or ~{n}CRLF, and n bytes. The caller knows that the bytes are there.
func (p *parser) literal() string {
	p.try('~')
	p.expect('{')
	n := p.number64()
	p.try('+')
	p.expect('}')
	p.expect('\r')
	p.expect('\n')
	if p.err != nil {
		return ""
	}
	if len(p.left) > 0 && p.left[0].at == p.i {
		p.left = p.left[1:]
		return ""
	}
	if n > uint64(len(p.s)-p.i) {
		p.fail("Literal is cut off")
		return ""
	}
	s := p.s[p.i : p.i+int(n)]
	p.i += int(n)
	return s
}

// number64 parses a number below 2^63 (RFC 9051 number64, mod-sequences).
func (p *parser) number64() uint64 {
	var v uint64
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		d := uint64(p.s[p.i] - '0')
		if v > (1<<63-1-d)/10 {
			p.fail("Number too large")
			return 0
		}
		v = v*10 + d
		p.i++
	}
	if p.i == start {
		p.fail("Expected a number")
	}
	return v
}

func (p *parser) number32() uint32 {
	v := p.number64()
	if v > 1<<32-1 {
		p.fail("Number too large")
		return 0
	}
	return uint32(v)
}

func (p *parser) nzNumber32() uint32 {
	v := p.number32()
	if v == 0 {
		p.fail("Expected a number above 0")
	}
	return v
}

// set parses a sequence-set.
func (p *parser) set() Set {
	start := p.i
	for p.i < len(p.s) {
		if c := p.s[p.i]; c >= '0' && c <= '9' || c == ':' || c == ',' || c == '*' {
			p.i++
			continue
		}
		break
	}
	set, err := ParseSet(p.s[start:p.i], p.limits.Ranges)
	if err == ErrSetSize {
		p.failWith(&SyntaxError{Text: "Too many ranges in a set", Code: "LIMIT", No: true})
	} else if err != nil {
		p.fail("Invalid set of numbers")
	}
	return set
}

// target parses a sequence-set or `$`.
func (p *parser) target() Target {
	if p.try('$') {
		return Target{Saved: true}
	}
	return Target{Set: p.set()}
}

// mailbox parses a mailbox name.
func (p *parser) mailbox() string {
	s := p.astring()
	if p.err != nil {
		return ""
	}
	return p.mailboxName(s)
}

func (p *parser) mailboxName(s string) string {
	name, err := DecodeMailbox(s, p.utf8)
	if err != nil {
		p.failWith(&SyntaxError{Text: "Invalid mailbox name", Code: "CANNOT", No: true})
	} else if p.utf8 && name != s && !p.response && !isASCII(s) {
		p.given = s
	}
	return name
}

// list parses "(" item *(SP item) ")" with at most Limits.Items items. If empty is set, the list may be empty.
func (p *parser) list(empty bool, item func()) {
	p.expect('(')
	if empty && p.try(')') {
		return
	}
	for n := 1; ; n++ {
		if n > p.limits.Items {
			p.fail("Too many items in a list")
			return
		}
		item()
		if p.err != nil || p.try(')') {
			return
		}
		p.space()
	}
}

// flag parses one flag or keyword.
func (p *parser) flag() Flag {
	if p.try('\\') {
		start := p.i - 1
		if p.response && p.try('*') {
			return AnyFlag
		}
		p.atom()
		return systemFlag(p.s[start:p.i])
	}
	s := p.atom()
	if !utf8.ValidString(s) || len(s) > 255 {
		p.fail("Invalid keyword")
	}
	return s
}

// systemFlag returns a system flag in its canonical case.
func systemFlag(s string) Flag {
	for _, f := range [...]Flag{Seen, Answered, Flagged, Deleted, Draft, Recent} {
		if strings.EqualFold(f, s) {
			return f
		}
	}
	return s
}

func (p *parser) flagList() []Flag {
	flags := make([]Flag, 0, 2)
	p.list(true, func() { flags = append(flags, p.flag()) })
	return flags
}
