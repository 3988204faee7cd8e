package sieve

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// parser reads the tree of a script. Its depth is bounded by MaxDepth.
type parser struct {
	lexer
	tok     token
	nodes   int
	strings int
}

// Parse parses a script. An error is of type Errors.
//
// Implements: RFC 5228 §8.2 grammar
func Parse(text string) (*Script, error) {
	if len(text) > MaxSize {
		return nil, Errors{{Line: 1, Text: fmt.Sprintf("script is larger than %d bytes: split it", MaxSize)}}
	}
	p := &parser{lexer: lexer{in: strings.TrimPrefix(text, "\ufeff"), line: 1}}
	if !utf8.ValidString(p.in) {
		return nil, Errors{{Line: 1 + strings.Count(p.in[:invalidAt(p.in)], "\n"), Text: "script is not UTF-8"}}
	}
	if i := strings.IndexByte(p.in, 0); i >= 0 {
		return nil, Errors{{Line: 1 + strings.Count(p.in[:i], "\n"), Text: "script contains a NUL byte"}}
	}
	if err := p.step(); err != nil {
		return nil, err
	}
	s := &Script{}
	var err error
	if s.Commands, err = p.commands(0); err != nil {
		return nil, err
	}
	if p.tok.kind != tokenEnd {
		return nil, p.unexpected("a command")
	}
	s.Comment = strings.Join(p.comment, "\n")
	return s, nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// step reads the next token. Comments before it stay in p.comment until a command takes them.
func (p *parser) step() (err error) {
	p.tok, err = p.next()
	return err
}

func (p *parser) failAt(line int, format string, args ...any) error {
	return Errors{{Line: line, Text: fmt.Sprintf(format, args...)}}
}

func (p *parser) unexpected(want string) error {
	got := "the end of the script"
	switch t := p.tok; t.kind {
	case tokenEnd:
	case tokenIdentifier:
		got = fmt.Sprintf("%.40q", t.text)
	case tokenTag:
		got = fmt.Sprintf("the tag :%.40s", t.text)
	case tokenNumber:
		got = fmt.Sprintf("the number %d", t.number)
	case tokenString:
		got = fmt.Sprintf("the string %.40q", t.text)
	default:
		got = fmt.Sprintf("%q", rune(t.kind))
	}
	return p.failAt(p.tok.line, "expected %s, found %s", want, got)
}

// commands reads commands up to a brace or the end.
func (p *parser) commands(depth int) (list []*Node, err error) {
	for p.tok.kind == tokenIdentifier {
		before := p.comment
		p.comment = nil
		n, err := p.node(depth)
		if err != nil {
			return nil, err
		}
		n.Comment = strings.Join(append(before, p.comment...), "\n") // also those within its arguments and tests
		p.comment = nil
		switch p.tok.kind {
		case ';':
			n.End = p.pos
			err = p.step()
		case '{':
			err = p.block(n, depth)
		default:
			err = p.unexpected("; or { after " + n.Name)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func (p *parser) block(n *Node, depth int) error {
	if depth >= MaxDepth {
		return p.failAt(p.tok.line, "blocks and tests are nested deeper than %d", MaxDepth)
	}
	if err := p.step(); err != nil {
		return err
	}
	var err error
	if n.Block, err = p.commands(depth + 1); err != nil {
		return err
	}
	if n.Braces = true; p.tok.kind != '}' {
		return p.unexpected("a command or }")
	}
	n.End = p.pos
	return p.step()
}

// node reads the name, the arguments and the tests of a command or a test.
func (p *parser) node(depth int) (*Node, error) {
	if p.nodes++; p.nodes > MaxNodes {
		return nil, p.failAt(p.tok.line, "script has more than %d commands and tests", MaxNodes)
	}
	if depth > MaxDepth {
		return nil, p.failAt(p.tok.line, "blocks and tests are nested deeper than %d", MaxDepth)
	}
	n := &Node{Name: p.tok.text, Line: p.tok.line}
	if err := p.step(); err != nil {
		return nil, err
	}
	for {
		a := Argument{Line: p.tok.line, Text: p.tok.text, Number: p.tok.number}
		switch p.tok.kind {
		case tokenTag:
			a.Kind = Tag
		case tokenNumber:
			a.Kind = Number
		case tokenString:
			a.Kind = String
			p.strings++
		case '[':
			if err := p.list(&a); err != nil {
				return nil, err
			}
		default:
			return n, p.tests(n, depth)
		}
		if p.strings > MaxStrings {
			return nil, p.failAt(p.tok.line, "script has more than %d strings", MaxStrings)
		}
		n.Args = append(n.Args, a)
		if err := p.step(); err != nil {
			return nil, err
		}
	}
}

// list reads a string list up to its bracket.
func (p *parser) list(a *Argument) error {
	a.Kind = StringList
	for {
		if err := p.step(); err != nil {
			return err
		}
		if p.tok.kind != tokenString {
			return p.unexpected("a string")
		}
		a.List = append(a.List, p.tok.text)
		p.strings++
		if err := p.step(); err != nil {
			return err
		}
		if p.tok.kind == ']' {
			return nil
		}
		if p.tok.kind != ',' {
			return p.unexpected(", or ]")
		}
	}
}

// tests reads the test or the test list after the arguments.
func (p *parser) tests(n *Node, depth int) error {
	switch p.tok.kind {
	case tokenIdentifier:
		t, err := p.node(depth + 1)
		n.Tests = []*Node{t}
		return err
	case '(':
	default:
		return nil
	}
	n.List = true
	for {
		if err := p.step(); err != nil {
			return err
		}
		if p.tok.kind != tokenIdentifier {
			return p.unexpected("a test")
		}
		t, err := p.node(depth + 1)
		if err != nil {
			return err
		}
		n.Tests = append(n.Tests, t)
		if p.tok.kind == ')' {
			return p.step()
		}
		if p.tok.kind != ',' {
			return p.unexpected(", or )")
		}
	}
}
