package rules

import (
	"strings"

	"doublet/wire/mime"
)

// flow is the way in which execution continues after a command.
type flow uint8

const (
	onward flow = iota
	leave       // the included script returns
	halt        // the script stops
)

// run is one execution of a script on one message.
type run struct {
	world   *World
	message *Message
	out     Outcome
	keep    bool // the implicit keep
	steps   int
	actions int
	flags   []string // the internal variable of imap4flags

	fields   []field
	rest     []byte // fields of the message after the first maxFields
	read     bool   // fields are read
	cache    map[string][]value
	people   map[string][]mime.Address // addresses of all fields with a name
	edited   bool
	edits    int
	editSize int
	patterns int
	texts    map[string][]value // of bodies, by transform
	parsed   *mime.Part         // the message, when a test has asked for its parts

	*frame
	globals  map[string]string
	included map[string]bool
	includes int
	nesting  int
}

// frame holds the variables of one script.
type frame struct {
	script string
	vars   map[string]string
	global map[string]bool // names that "global" has declared
	match  []string        // of the last successful :matches or :regex
}

func newFrame() *frame { return &frame{} }

// spend counts steps for work on n bytes.
func (r *run) spend(n int) error {
	if r.steps -= 1 + n/64; r.steps < 0 {
		return errSteps
	}
	return nil
}

func (r *run) block(list []command) (flow, error) {
	for i := range list {
		c := &list[i]
		if err := r.spend(0); err != nil {
			return halt, r.at(c.line, err)
		}
		f, err := c.run(r)
		if err != nil {
			return halt, r.at(c.line, err)
		}
		if f != onward {
			return f, nil
		}
	}
	return onward, nil
}

// at adds the line to an error that has none.
func (r *run) at(line int, err error) error {
	if _, has := err.(*Error); has { //nolint:errorlint // only block makes them, unwrapped
		return err
	}
	return &Error{Script: r.script, Line: line, Err: err}
}

// text is a string of a script. parts is nil if it has no variables.
type text struct {
	plain string
	parts []textPart
}

type textPart struct {
	plain, variable string
	number          int // of a match, if variable is ""; below 0 for plain text
}

// expand replaces the variables of a string. The result is bounded.
//
// Implements: RFC 5229 §3 variable substitution
func (r *run) expand(t *text) string {
	if t.parts == nil {
		return t.plain
	}
	if r.steps < 0 { // the run ends at the next command: it needs no more memory
		return ""
	}
	var b strings.Builder
	for i := range t.parts {
		p := &t.parts[i]
		s := p.plain
		switch {
		case p.variable != "":
			s = r.get(p.variable)
		case p.number >= 0 && p.number < len(r.match):
			s = r.match[p.number]
		}
		if b.Len()+len(s) > maxText {
			break
		}
		b.WriteString(s)
	}
	r.steps -= b.Len() / 64
	return b.String()
}

func (r *run) expandAll(list []text) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = r.expand(&list[i])
	}
	return out
}

// get returns the value of a variable, "" if it has none.
func (r *run) get(name string) string {
	if g, ok := strings.CutPrefix(name, "global."); ok {
		return r.globals[g]
	}
	if r.global[name] {
		return r.globals[name]
	}
	return r.vars[name]
}

// put sets a variable.
//
// Implements: RFC 6609 §3.4.2 the namespace "global"
func (r *run) put(name, value string) error {
	value = shorten(value, maxValue)
	m := &r.vars
	if g, ok := strings.CutPrefix(name, "global."); ok {
		m, name = &r.globals, g
	} else if r.global[name] {
		m = &r.globals
	}
	if _, has := (*m)[name]; !has && len(r.vars)+len(r.globals) >= maxVariables {
		return errVariables
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[name] = value
	return nil
}

// shorten cuts a text between characters.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most]
}

// act counts an action.
func (r *run) act() error {
	if r.actions++; r.actions > maxActions {
		return errActions
	}
	if r.out.Rejected {
		return errActive
	}
	return nil
}
