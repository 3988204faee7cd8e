package sieve

import (
	"fmt"
	"slices"
	"strings"
)

// checker checks the nodes of a script against the tables.
type checker struct {
	required map[string]bool
	// deferred is set from a test "ihave" on: mistakes fail when they are executed.
	deferred bool
	begun    bool // a command other than require was seen
	before   *Node
	regexps  int
	// instructions counts those of all regular expressions.
	instructions int
	errors       Errors
}

// Check checks a parsed script, and sets the fields of its nodes that say so. An error is of type Errors.
//
// Implements: RFC 5228 §2.10.2 scripts that are not valid are rejected as a whole
func Check(s *Script) error {
	c := &checker{required: map[string]bool{}}
	c.block(s.Commands, true)
	if len(c.errors) > 0 {
		return c.errors
	}
	return nil
}

func (c *checker) fail(n *Node, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.deferred {
		if n.Broken == "" {
			n.Broken = text
		}
		return
	}
	if len(c.errors) < maxErrors {
		c.errors = append(c.errors, Error{Line: n.Line, Text: text})
	}
}

func (c *checker) block(list []*Node, top bool) {
	outer := c.before
	c.before = nil
	for _, n := range list {
		if n.Name == "require" {
			if !top || c.begun {
				c.fail(n, "require must come before all other commands")
			}
		} else {
			c.begun = true
		}
		c.node(n, commands, "command")
		c.before = n
	}
	c.before = outer
}

// node checks one command or test, and all within it.
func (c *checker) node(n *Node, table map[string]*rule, kind string) {
	r, ok := table[n.Name]
	if !ok {
		c.fail(n, "unknown %s %.40q", kind, n.Name)
		return
	}
	if r.needs != "" && !c.required[r.needs] {
		c.fail(n, "%s needs: require %q;", n.Name, r.needs)
	}
	if c.arguments(n, r) && r.check != nil {
		r.check(c, n)
	}
	c.tests(n, r)
	switch {
	case r.block && !n.Braces:
		c.fail(n, "%s needs a block { … }", n.Name)
	case !r.block && n.Braces:
		c.fail(n, "%s takes no block", n.Name)
	}
	c.block(n.Block, false)
}

func (c *checker) tests(n *Node, r *rule) {
	switch {
	case r.tests == noTests && len(n.Tests) > 0:
		c.fail(n, "%s takes no test", n.Name)
	case r.tests == oneTest && (n.List || len(n.Tests) != 1):
		c.fail(n, "%s needs one test", n.Name)
	case r.tests == testList && (!n.List || len(n.Tests) == 0):
		c.fail(n, "%s needs a list of tests in parentheses", n.Name)
	}
	for _, t := range n.Tests {
		if t.Braces {
			c.fail(t, "test %s takes no block", t.Name)
		}
		c.node(t, testsByName, "test")
	}
}

// arguments sorts the arguments of a node. It returns false if they are wrong.
//
// Implements: RFC 5228 §2.6 arguments
func (c *checker) arguments(n *Node, r *rule) bool {
	n.Tags, n.Values = nil, nil
	groups := map[string]string{}
	args := c.decoded(n)
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a.Kind != Tag {
			n.Values = append(n.Values, a)
			continue
		}
		t, ok := r.tag(a.Text)
		switch {
		case !ok:
			c.fail(n, "%s has no tag :%.40s", n.Name, a.Text)
			return false
		case len(n.Values) > 0:
			c.fail(n, "tag :%s must come before the other arguments", a.Text)
			return false
		case n.Has(a.Text) || t.group != "" && groups[t.group] != "":
			c.fail(n, "tag :%s is repeated, or contradicts another tag", a.Text)
			return false
		case t.needs != "" && !c.required[t.needs]:
			c.fail(n, ":%s needs: require %q;", a.Text, t.needs)
			return false
		}
		if t.group != "" {
			groups[t.group] = a.Text
		}
		name := a.Text
		if t.value != 0 {
			if i++; i >= len(args) || args[i].Kind&t.value == 0 {
				c.fail(n, "tag :%s needs %s after it", name, t.value)
				return false
			}
			a = args[i]
		}
		if n.Tags == nil {
			n.Tags = map[string]Argument{}
		}
		n.Tags[name] = a
	}
	for name := range n.Tags {
		if t, _ := r.tag(name); t.more != "" && !n.Has(t.more) {
			c.fail(n, "tag :%s needs the tag :%s", name, t.more)
			return false
		}
	}
	return c.values(n, r)
}

func (r *rule) tag(name string) (tagRule, bool) {
	for _, set := range r.tags {
		if t, ok := set[name]; ok {
			return t, true
		}
	}
	return tagRule{}, false
}

// String names the kind in an error.
func (k Kind) String() string {
	switch k &^ optional {
	case Tag:
		return "a tag"
	case Number:
		return "a number"
	case String:
		return "a string"
	}
	return "a string or a list of strings"
}

func (c *checker) values(n *Node, r *rule) bool {
	want := r.values
	switch {
	case r.optional && len(n.Values) == len(want)-1:
		want = want[1:]
	case len(want) > 0 && want[len(want)-1]&optional != 0 && len(n.Values) == len(want)-1:
		want = want[:len(want)-1]
	}
	if len(n.Values) != len(want) {
		c.fail(n, "%s needs %d arguments, found %d", n.Name, len(want), len(n.Values))
		return false
	}
	for i, k := range want {
		if n.Values[i].Kind&k == 0 {
			c.fail(n, "argument %d of %s must be %s", i+1, n.Name, k)
			return false
		}
	}
	return true
}

// require enables capabilities.
//
// Implements: RFC 5228 §3.2 require
func (c *checker) require(n *Node) {
	for _, s := range n.Values[0].Strings() {
		if !Supported(s) {
			c.fail(n, "unsupported capability %.60q", s)
			continue
		}
		c.enable(s)
	}
}

// enable enables a capability, and the one that it contains.
func (c *checker) enable(capability string) {
	c.required[capability] = true
	if capability == "spamtestplus" {
		c.required["spamtest"] = true
	}
}

// ihave enables capabilities if all are there. From here on, what is unknown is an error only when it is executed.
//
// Implements: RFC 5463 §4 ihave
func (c *checker) ihave(n *Node) {
	for _, s := range n.Values[0].Strings() {
		if !Supported(s) {
			c.deferred = true
			return
		}
	}
	for _, s := range n.Values[0].Strings() {
		c.enable(s)
	}
}

func (c *checker) follows(n *Node) {
	if c.before == nil || c.before.Name != "if" && c.before.Name != "elsif" {
		c.fail(n, "%s must follow if or elsif", n.Name)
	}
}

// constant reports whether a string has no variable in it, so that it can be checked now.
func (c *checker) constant(s string) bool { return !c.required["variables"] || References(s) == nil }

// relations lists the relations of :count and :value.
//
// Implements: RFC 5231 §4 relations
var relations = []string{"gt", "ge", "lt", "le", "eq", "ne"}

// match checks the comparator, the relation and the regular expressions of a test.
func (c *checker) match(n *Node) {
	comparator := "i;ascii-casemap"
	if a, ok := n.Tags["comparator"]; ok {
		comparator = a.Text
		base := comparator == "i;octet" || comparator == "i;ascii-casemap"
		if !base && !c.required["comparator-"+comparator] {
			c.fail(n, "comparator %.40q needs: require %q;", comparator, "comparator-"+comparator)
			return
		}
	}
	for _, tag := range []string{"count", "value"} {
		if a, ok := n.Tags[tag]; ok && !slices.Contains(relations, strings.ToLower(a.Text)) {
			c.fail(n, "unknown relation %.20q: use gt, ge, lt, le, eq or ne", a.Text)
		}
	}
	if comparator == "i;ascii-numeric" && (n.Has("contains") || n.Has("matches") || n.Has("regex")) {
		c.fail(n, "comparator i;ascii-numeric compares only by :is, :value and :count")
	}
	if !n.Has("regex") || len(n.Values) == 0 {
		return
	}
	for _, s := range n.Values[len(n.Values)-1].Strings() {
		if c.regexps++; c.regexps > MaxRegexps {
			c.fail(n, "script has more than %d regular expressions", MaxRegexps)
			return
		}
		if !c.constant(s) {
			continue
		}
		_, size, err := Regexp(s, comparator == "i;ascii-casemap")
		if err != nil {
			c.fail(n, "%s", err)
			return
		}
		if c.instructions += size; c.instructions > MaxInstructions {
			c.fail(n, "regular expressions are too large together: use smaller repeat counts")
			return
		}
	}
}

func (c *checker) size(n *Node) {
	if !n.Has("over") && !n.Has("under") {
		c.fail(n, "size needs the tag :over or :under")
	}
}

func (c *checker) envelope(n *Node) {
	c.match(n)
	for _, s := range n.Values[0].Strings() {
		if l := strings.ToLower(s); c.constant(s) && l != "from" && l != "to" {
			c.fail(n, "unknown part of the envelope %.40q: use from or to", s)
		}
	}
}

func (c *checker) redirect(n *Node) {
	if s := n.Values[0].Text; c.constant(s) && !Address(s) {
		c.fail(n, "redirect needs an address, found %.80q", s)
	}
}

func (c *checker) fieldName(n *Node) {
	if n.Name == "deleteheader" {
		c.match(n)
	}
	if s := n.Values[0].Text; c.constant(s) && !FieldName(s) {
		c.fail(n, "invalid name of a header field %.40q", s)
	}
}

// date checks the part of a date.
//
// Implements: RFC 5260 §4.2 date parts
func (c *checker) date(n *Node) {
	c.match(n)
	part := n.Values[len(n.Values)-2].Text
	if c.constant(part) && !slices.Contains(DateParts, strings.ToLower(part)) {
		c.fail(n, "unknown part of a date %.40q", part)
	}
	if a, ok := n.Tags["zone"]; ok && c.constant(a.Text) {
		if _, ok := Zone(a.Text); !ok {
			c.fail(n, "invalid time zone %.20q: write it as +0100", a.Text)
		}
	}
}

func (c *checker) duplicate(n *Node) {
	if a, ok := n.Tags["header"]; ok && c.constant(a.Text) && !FieldName(a.Text) {
		c.fail(n, "invalid name of a header field %.40q", a.Text)
	}
}

func (c *checker) set(n *Node) {
	if name := n.Values[0].Text; !variableName(strings.TrimPrefix(strings.ToLower(name), "global.")) {
		c.fail(n, "invalid name of a variable %.40q", name)
	}
}

func (c *checker) flagVariable(n *Node) {
	if len(n.Values) < 2 {
		return
	}
	if !c.required["variables"] {
		c.fail(n, "%s of a variable needs: require %q;", n.Name, "variables")
	} else if !variableName(n.Values[0].Text) {
		c.fail(n, "invalid name of a variable %.40q", n.Values[0].Text)
	}
}

func (c *checker) include(n *Node) {
	if !c.constant(n.Values[0].Text) {
		c.fail(n, "include needs a name without variables")
	}
	if n.Has("global") {
		c.fail(n, "include :global names no script here: use :personal")
	}
}

func (c *checker) global(n *Node) {
	for _, s := range n.Values[0].Strings() {
		if !variableName(s) {
			c.fail(n, "invalid name of a variable %.40q", s)
		}
	}
}

func (c *checker) notify(n *Node) {
	if s := n.Values[0].Text; c.constant(s) {
		if _, err := ParseMailto(s); err != nil {
			c.fail(n, "%s", err)
		}
	}
	if a, ok := n.Tags["importance"]; ok && c.constant(a.Text) && !slices.Contains([]string{"1", "2", "3"}, a.Text) {
		c.fail(n, "unknown importance %.20q: use 1, 2 or 3", a.Text)
	}
}

// decoded returns the arguments of a node with their encoded characters decoded. The node keeps them as written.
//
// Implements: RFC 5228 §2.4.2.4 encoded characters
func (c *checker) decoded(n *Node) []Argument {
	if !c.required["encoded-character"] {
		return n.Args
	}
	args := slices.Clone(n.Args)
	for i := range args {
		a := &args[i]
		var err error
		switch a.Kind {
		case String:
			a.Text, err = decodeCharacters(a.Text)
		case StringList:
			a.List = slices.Clone(a.List)
			for k := 0; k < len(a.List) && err == nil; k++ {
				a.List[k], err = decodeCharacters(a.List[k])
			}
		}
		if err != nil {
			c.fail(n, "%s", err)
		}
	}
	return args
}
