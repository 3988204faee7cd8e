package rules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"doublet/wire/sieve"
)

// Errors of a run.
var (
	errVariables  = fmt.Errorf("script sets more than %d variables", maxVariables)
	errActions    = fmt.Errorf("script takes more than %d actions for one message", maxActions)
	errRedirects  = fmt.Errorf("script redirects one message to more than %d addresses", MaxRedirects)
	errNotices    = fmt.Errorf("script sends more than %d notifications for one message", maxNotices)
	errPatterns   = fmt.Errorf("script compiles more than %d regular expressions for one message", maxPatterns)
	errTransforms = fmt.Errorf("script reads the body of one message in more than %d ways", maxTransforms)
	errEdits      = errors.New("script adds too many header fields to one message")
	errIncludes   = fmt.Errorf("script includes more than %d scripts, or deeper than %d", maxIncludes, maxNesting)
)

// Program is a script that is ready to run. It is immutable: several runs may use it at the same time.
type Program struct {
	name string
	body []command
	// Includes lists the scripts that it includes, and Folders says that it asks for folders.
	Includes []string
}

// command is one command. test is one test.
type (
	command struct {
		line int
		run  func(*run) (flow, error)
	}
	test func(*run) (bool, error)
)

// compiler makes the program of a checked script.
type compiler struct {
	program   *Program
	variables bool
}

// Compile parses, checks and compiles a script. name is that by which others include it. An error is of type
// sieve.Errors.
func Compile(name, script string) (*Program, error) {
	tree, err := sieve.Parse(script)
	if err != nil {
		return nil, err
	}
	if err := sieve.Check(tree); err != nil {
		return nil, err
	}
	c := &compiler{program: &Program{name: name}}
	c.program.body, err = c.block(tree.Commands)
	return c.program, err
}

// broken returns a command that fails.
func broken(why string) func(*run) (flow, error) {
	err := errors.New(why)
	return func(*run) (flow, error) { return halt, err }
}

// block compiles commands. A chain of if, elsif and else becomes one command.
func (c *compiler) block(list []*sieve.Node) ([]command, error) {
	out := make([]command, 0, len(list))
	for i := 0; i < len(list); i++ {
		n := list[i]
		if n.Name == "if" && n.Broken == "" {
			end := i + 1
			for end < len(list) && (list[end].Name == "elsif" || list[end].Name == "else") {
				end++
			}
			run, err := c.chain(list[i:end])
			if err != nil {
				return nil, err
			}
			out = append(out, command{n.Line, run})
			i = end - 1
			continue
		}
		run, err := c.command(n)
		if err != nil {
			return nil, err
		}
		if run != nil {
			out = append(out, command{n.Line, run})
		}
	}
	return out, nil
}

// branch is a test with the commands that follow if it is true.
type branch struct {
	line int
	test test
	body []command
}

// chain compiles if, elsif and else.
//
// Implements: RFC 5228 §3.1 if
func (c *compiler) chain(list []*sieve.Node) (func(*run) (flow, error), error) {
	branches := make([]branch, len(list))
	for i, n := range list {
		b := &branches[i]
		b.line, b.test = n.Line, func(*run) (bool, error) { return true, nil }
		if n.Broken != "" {
			err := errors.New(n.Broken)
			b.test = func(*run) (bool, error) { return false, err }
			continue
		}
		var err error
		if n.Name != "else" {
			if b.test, err = c.test(n.Tests[0]); err != nil {
				return nil, err
			}
		}
		if b.body, err = c.block(n.Block); err != nil {
			return nil, err
		}
	}
	return func(r *run) (flow, error) {
		for i := range branches {
			b := &branches[i]
			ok, err := b.test(r)
			if err != nil {
				return halt, r.at(b.line, err)
			}
			if ok {
				return r.block(b.body)
			}
		}
		return onward, nil
	}, nil
}

func (c *compiler) command(n *sieve.Node) (func(*run) (flow, error), error) {
	if n.Broken != "" {
		return broken(n.Broken), nil
	}
	switch n.Name {
	case "require":
		for _, s := range n.Values[0].Strings() {
			c.variables = c.variables || s == "variables"
		}
		return nil, nil //nolint:nilnil // no command
	case "stop":
		return func(*run) (flow, error) { return halt, nil }, nil
	case "return":
		return func(*run) (flow, error) { return leave, nil }, nil
	case "include":
		return c.include(n), nil
	}
	make, ok := actions[n.Name]
	if !ok {
		return nil, sieve.Errors{{Line: n.Line, Text: fmt.Sprintf("%s cannot be executed", n.Name)}}
	}
	act := make(c, n)
	return func(r *run) (flow, error) { return onward, act(r) }, nil
}

// include compiles the inclusion of another script. Its scripts are found when it runs.
//
// Implements: RFC 6609 §3.2 include
// Implements: RFC 6609 §3.3 return
func (c *compiler) include(n *sieve.Node) func(*run) (flow, error) {
	name, once, optional := n.Values[0].Text, n.Has("once"), n.Has("optional")
	c.program.Includes = append(c.program.Includes, name)
	return func(r *run) (flow, error) {
		if once && r.included[name] {
			return onward, nil
		}
		r.included[name] = true
		if r.includes++; r.includes > maxIncludes || r.nesting >= maxNesting {
			return halt, errIncludes
		}
		var p *Program
		if r.world.Include != nil {
			p = r.world.Include(name)
		}
		if p == nil {
			if optional {
				return onward, nil
			}
			return halt, fmt.Errorf("included script %.60q does not exist, or has mistakes", name)
		}
		outer := r.frame
		r.frame = newFrame()
		r.script = name
		r.nesting++
		f, err := r.block(p.body)
		r.frame = outer
		r.nesting--
		if f == leave {
			f = onward
		}
		return f, err
	}
}

// text compiles a string.
func (c *compiler) text(s string) text {
	t := text{plain: s}
	if !c.variables {
		return t
	}
	for _, p := range sieve.References(s) {
		part := textPart{plain: p.Text, number: -1}
		if p.Variable != "" {
			if n, err := strconv.Atoi(p.Variable); err == nil {
				part.number = n
			} else {
				part.variable = p.Variable
			}
		}
		t.parts = append(t.parts, part)
	}
	return t
}

func (c *compiler) texts(a *sieve.Argument) []text {
	list := a.Strings()
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = c.text(s)
	}
	return out
}

// tag returns the string after a tag.
func (c *compiler) tag(n *sieve.Node, name string) (t text, ok bool) {
	a, ok := n.Tags[name]
	if !ok {
		return t, false
	}
	return c.text(a.Text), true
}

// matcher compiles the match type, the comparator and the keys of a test.
func (c *compiler) matcher(n *sieve.Node, keys *sieve.Argument) (*matcher, error) {
	m := &matcher{remembers: c.variables}
	switch n.Tags["comparator"].Text {
	case "i;octet":
		m.by = octet
	case "i;ascii-numeric":
		m.by = numeric
	}
	for tag, kind := range map[string]matchType{"contains": matchContains, "matches": matchGlob, "regex": matchRegexp,
		"count": matchCount, "value": matchValue} {
		if a, ok := n.Tags[tag]; ok {
			m.kind, m.relation = kind, strings.ToLower(a.Text)
		}
	}
	for _, t := range c.texts(keys) {
		k := key{text: t}
		if t.parts == nil {
			var err error
			if k.ready, err = m.prepare(t.plain); err != nil {
				return nil, sieve.Errors{{Line: n.Line, Text: err.Error()}}
			}
		}
		m.keys = append(m.keys, k)
	}
	return m, nil
}

// position compiles the tags of index.
func positionOf(n *sieve.Node) position {
	a, ok := n.Tags["index"]
	if !ok {
		return position{}
	}
	return position{index: int(min(max(a.Number, 1), maxFields)), last: n.Has("last")}
}

func partOf(n *sieve.Node) addressPart {
	for tag, p := range map[string]addressPart{"localpart": partLocal, "domain": partDomain, "user": partUser,
		"detail": partDetail} {
		if n.Has(tag) {
			return p
		}
	}
	return partAll
}
