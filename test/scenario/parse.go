// Package scenario plays conversations with a server that are written as text, so that a protocol suite is a folder of
// files, one per verb, that can be read beside the RFC.
//
//	# RFC 5321 §4.1.1.4              a comment; empty lines are ignored
//	S: 220 ${host} *                 the server's next line: * is any text, ${name} captures a word
//	C: EHLO client                   send the line with CRLF; ${name} inserts a captured word
//	S{                               these lines in any order
//	S: 250?SIZE *
//	S?: 250?PIPELINING               this one may be missing
//	}
//	S~: 250 *                        skip lines until one matches
//	C[bob]: NOOP                     another connection, opened at its first use
//	S[bob]: 250 *
//	C-: abc                          send without CRLF
//	C: <tls>                         start TLS here;  C: <close> closes,  S: <eof> expects the end
//	== big line                      a new conversation: fresh server and connections; the lines
//	                                 before the first == are played at the start of each
//
// In a pattern `*` is any text, `\*` a star and `\$` a dollar sign. A star and a space at the very beginning are IMAP's
// untagged response and stand for themselves. Elsewhere a backslash is a backslash (`\Seen`), and so is `\\`. A name
// that already has a value must match it again.
//
// Both directions support <binary:0d0aff> for bytes in hex, <repeat:1000:text>, and <base64:\0alice\0demo> (with \0 for
// NUL).
//
// With Options.Literals a line can contain IMAP literals. Their text follows in lines that begin with "| ", which are
// joined and ended by CRLF. A last line "|." removes the final CRLF, and a line "|-" separates two literals:
//
//	C: A1 APPEND INBOX {literal}     sends {length}, waits for the server's +, sends the text
//	| Subject: x
//	|
//	| body
//	S: A1 OK *
//	C: A2 APPEND INBOX {literal+}    does not wait
//	S: * 1 FETCH (BODY[] {literal})  the server's literal must match the text, which can be a pattern
package scenario

import (
	"fmt"
	"slices"
	"strings"
)

type verb uint8

const (
	send     verb = iota + 1 // C:
	sendRaw                  // C-:
	expect                   // S:
	optional                 // S?:
	skipTo                   // S~:
	block                    // S{ … }
)

type step struct {
	verb     verb
	conn     string
	text     string
	literals []string
	block    []step
	file     string
	line     int
}

func (s *step) where() string { return fmt.Sprintf("%s:%d", s.file, s.line) }

// Conversation is one part of a file: the lines between two lines that begin with ==.
type Conversation struct {
	Name  string // of the part, empty if the file has no parts
	steps []step
}

// Parse parses the text of a file; file is its name in messages.
func Parse(file, text string) ([]Conversation, error) {
	p := parser{file: file}
	for i, line := range strings.Split(text, "\n") {
		p.line = i + 1
		if err := p.take(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, p.line, err)
		}
	}
	return p.finish()
}

type parser struct {
	file  string
	line  int
	head  []step
	parts []Conversation
	open  *step // the block being read
	last  *step // the step that "|" lines belong to
	lits  []literal
}

// literal is a text being read; ended means that "|." has closed it without CRLF.
type literal struct {
	text  string
	ended bool
}

func (p *parser) steps() *[]step {
	if p.open != nil {
		return &p.open.block
	}
	if n := len(p.parts); n > 0 {
		return &p.parts[n-1].steps
	}
	return &p.head
}

func (p *parser) take(raw string) error {
	if strings.HasPrefix(raw, "|") {
		return p.literalLine(raw[1:])
	}
	if err := p.endLiterals(); err != nil {
		return err
	}
	line := strings.TrimLeft(raw, " \t")
	switch {
	case line == "" || line[0] == '#':
		return nil
	case line == "}":
		if p.open == nil {
			return fmt.Errorf("} closes no block")
		}
		done := *p.open
		p.open = nil
		if len(done.block) == 0 {
			return fmt.Errorf("empty block")
		}
		*p.steps() = append(*p.steps(), done)
		return nil
	case strings.HasPrefix(line, "=="):
		if p.open != nil {
			return fmt.Errorf("== within a block")
		}
		name := strings.TrimSpace(strings.TrimLeft(line, "="))
		if name == "" || slices.ContainsFunc(p.parts, func(c Conversation) bool { return c.Name == name }) {
			return fmt.Errorf("%q is no new name for a part", name)
		}
		p.parts = append(p.parts, Conversation{Name: name})
		return nil
	}
	return p.stepLine(line)
}

// admit makes s a line of the block.
func (b *step) admit(s *step) error {
	if s.verb != expect && s.verb != optional {
		return fmt.Errorf("block may hold only S: and S?: lines")
	}
	if s.conn != "" && s.conn != b.conn {
		return fmt.Errorf("block must belong to one connection")
	}
	s.conn = b.conn
	return nil
}

func (p *parser) stepLine(line string) error {
	s := step{file: p.file, line: p.line}
	who, rest := line[0], line[1:]
	if strings.HasPrefix(rest, "[") {
		name, after, ok := strings.Cut(rest[1:], "]")
		if !ok || name == "" {
			return fmt.Errorf("%q names no connection", line)
		}
		s.conn, rest = name, after
	}
	if who == 'S' && strings.TrimSpace(rest) == "{" {
		if p.open != nil {
			return fmt.Errorf("nested block")
		}
		s.verb = block
		p.open = &s
		return nil
	}
	mark, text, ok := strings.Cut(rest, ":")
	verbs := map[string]verb{"C": send, "C-": sendRaw, "S": expect, "S?": optional, "S~": skipTo}
	s.verb = verbs[string(who)+mark]
	if !ok || s.verb == 0 {
		return fmt.Errorf("%q is no line of a scenario (see the package documentation)", line)
	}
	s.text = strings.TrimPrefix(text, " ")
	if p.open != nil {
		if err := p.open.admit(&s); err != nil {
			return err
		}
	}
	if n := literalMarks(s.text); n > 0 {
		p.last = &s
		p.lits = nil
		return nil // appended by endLiterals
	}
	*p.steps() = append(*p.steps(), s)
	return nil
}

func literalMarks(text string) int {
	return strings.Count(text, "{literal}") + strings.Count(text, "{literal+}")
}

func (p *parser) literalLine(line string) error {
	if p.last == nil {
		return fmt.Errorf("| line without a {literal}")
	}
	if len(p.lits) == 0 {
		p.lits = []literal{{}}
	}
	l := &p.lits[len(p.lits)-1]
	switch {
	case line == "-":
		p.lits = append(p.lits, literal{})
	case l.ended:
		return fmt.Errorf("| line after the |. that ends its text")
	case line == ".":
		l.ended = true
		l.text = strings.TrimSuffix(l.text, "\r\n")
	default:
		l.text += strings.TrimPrefix(line, " ") + "\r\n"
	}
	return nil
}

func (p *parser) endLiterals() error {
	if p.last == nil {
		return nil
	}
	s := *p.last
	p.last = nil
	for _, l := range p.lits {
		s.literals = append(s.literals, l.text)
	}
	if marks := literalMarks(s.text); marks != len(s.literals) {
		return fmt.Errorf("line %d has %d {literal}, and %d texts follow", s.line, marks, len(s.literals))
	}
	*p.steps() = append(*p.steps(), s)
	return nil
}

func (p *parser) finish() ([]Conversation, error) {
	if err := p.endLiterals(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	if p.open != nil {
		return nil, fmt.Errorf("%s: the block is not closed", p.open.where())
	}
	if len(p.parts) == 0 {
		p.parts = []Conversation{{}}
	}
	for i := range p.parts {
		p.parts[i].steps = append(slices.Clone(p.head), p.parts[i].steps...)
		if len(p.parts[i].steps) == 0 {
			return nil, fmt.Errorf("%s: %q says nothing", p.file, p.parts[i].Name)
		}
	}
	return p.parts, nil
}
