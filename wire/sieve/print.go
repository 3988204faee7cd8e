package sieve

import (
	"strconv"
	"strings"
)

// Print returns the text of a script. Parse reads it back as the same tree, with the comments before commands.
func Print(s *Script) string {
	var p printer
	p.commands(s.Commands, 0)
	p.comment(s.Comment, 0)
	return p.String()
}

type printer struct{ strings.Builder }

func (p *printer) indent(depth int) {
	for range depth {
		p.WriteString("    ")
	}
}

func (p *printer) comment(text string, depth int) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		p.indent(depth)
		p.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
}

func (p *printer) commands(list []*Node, depth int) {
	for i, n := range list {
		if n.Comment != "" && i > 0 && depth == 0 {
			p.WriteByte('\n')
		}
		p.comment(n.Comment, depth)
		p.indent(depth)
		p.node(n)
		if !n.Braces {
			p.WriteString(";\n")
			continue
		}
		p.WriteString(" {\n")
		p.commands(n.Block, depth+1)
		p.indent(depth)
		p.WriteString("}\n")
	}
}

func (p *printer) node(n *Node) {
	p.WriteString(n.Name)
	for i := range n.Args {
		p.WriteByte(' ')
		p.argument(&n.Args[i])
	}
	if len(n.Tests) == 0 {
		return
	}
	p.WriteByte(' ')
	if n.List {
		p.WriteByte('(')
	}
	for i, t := range n.Tests {
		if i > 0 {
			p.WriteString(", ")
		}
		p.node(t)
	}
	if n.List {
		p.WriteByte(')')
	}
}

func (p *printer) argument(a *Argument) {
	switch a.Kind {
	case Tag:
		p.WriteString(":" + a.Text)
	case Number:
		p.number(a.Number)
	case String:
		p.text(a.Text)
	case StringList:
		p.WriteByte('[')
		for i, s := range a.List {
			if i > 0 {
				p.WriteString(", ")
			}
			p.quoted(s)
		}
		p.WriteByte(']')
	}
}

func (p *printer) number(n uint64) {
	for _, q := range []struct {
		shift  int
		letter string
	}{{30, "G"}, {20, "M"}, {10, "K"}} {
		if n != 0 && n&(1<<q.shift-1) == 0 {
			p.WriteString(strconv.FormatUint(n>>q.shift, 10) + q.letter)
			return
		}
	}
	p.WriteString(strconv.FormatUint(n, 10))
}

// text writes a string of several lines as text: if it ends with a line end, as those do.
func (p *printer) text(s string) {
	if !strings.HasSuffix(s, "\n") || strings.Count(s, "\n") < 2 {
		p.quoted(s)
		return
	}
	p.WriteString("text:\n")
	for line := range strings.SplitAfterSeq(s, "\n") {
		if strings.HasPrefix(line, ".") {
			p.WriteByte('.')
		}
		p.WriteString(line)
	}
	p.WriteString(".\n")
}

func (p *printer) quoted(s string) { p.WriteString(Quote(s)) }

// Quote returns a quoted string.
func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
