package ruleset

import (
	"slices"
	"strings"

	"doublet/wire/sieve"
)

// read returns the rule of a command with its branches, whose text is part.
func (s *Script) read(commands []*sieve.Node, part string) Rule {
	r := Rule{Text: part, Enabled: true, Match: "all", Conditions: []Condition{}, Actions: []Action{}}
	known := r.comment(part)
	n := commands[0]
	known = known && len(commands) == 1 && n.Name == "if" && n.Broken == ""
	if known && r.tests(n.Tests[0]) && r.actions(n.Block) &&
		!(slices.Contains(s.required, "variables") && r.refers()) {
		return r
	}
	return Rule{Name: r.Name, Comment: r.Comment, Text: part, Enabled: true, Opaque: true, Match: "all",
		Conditions: []Condition{}, Actions: []Action{}}
}

// comment reads the comments before a rule. It returns false if there are comments within the rule, which a form does
// not show.
func (r *Rule) comment(part string) bool {
	alone, err := sieve.Parse(part)
	if err != nil {
		return false
	}
	var lines []string
	for line := range strings.SplitSeq(alone.Commands[0].Comment, "\n") {
		name, ok := strings.CutPrefix(line, "rule:[")
		if name, closed := strings.CutSuffix(name, "]"); ok && closed && r.Name == "" && len(name) <= MaxName {
			r.Name = strings.TrimSpace(name)
		} else if line != "" {
			lines = append(lines, line)
		}
	}
	r.Comment = strings.Join(lines, "\n")
	return alone.Comment == "" && len(alone.Commands) == 1 && !commented(alone.Commands[0])
}

// commented reports whether a node has comments within it.
func commented(n *sieve.Node) bool {
	within := func(x *sieve.Node) bool { return x.Comment != "" || commented(x) }
	return slices.ContainsFunc(n.Tests, within) || slices.ContainsFunc(n.Block, within)
}

// refers reports whether a text of the rule has a variable in it.
func (r *Rule) refers() bool {
	var all []string
	for i := range r.Conditions {
		all = append(append(all, r.Conditions[i].Header), r.Conditions[i].Values...)
	}
	for i := range r.Actions {
		all = append(all, r.Actions[i].Value)
	}
	return slices.ContainsFunc(all, func(s string) bool { return sieve.References(s) != nil })
}

// tests reads the test of a rule.
func (r *Rule) tests(t *sieve.Node) bool {
	if t.Name == "allof" && len(t.Tests) == 2 && t.Tests[0].Name == "false" {
		r.Enabled, t = false, t.Tests[1]
	}
	if t.Name == "true" {
		return true
	}
	if c, ok := condition(t); ok {
		r.Conditions = append(r.Conditions, c)
		return true
	}
	if t.Name != "allof" && t.Name != "anyof" {
		return false
	}
	if r.Match = "all"; t.Name == "anyof" && len(t.Tests) > 1 {
		r.Match = "any"
	}
	for _, x := range t.Tests {
		c, ok := condition(x)
		if !ok {
			return false
		}
		r.Conditions = append(r.Conditions, c)
	}
	return len(r.Conditions) <= MaxConditions
}

// condition reads a condition.
func condition(t *sieve.Node) (c Condition, ok bool) {
	if t.Broken != "" {
		return c, false
	}
	switch t.Name {
	case "not":
		c, ok = condition(t.Tests[0])
		ok = ok && !c.Not
		c.Not = true
		return c, ok
	case "size":
		c = Condition{Field: "size", Comparison: "under", Size: t.Values[0].Number}
		if t.Has("over") {
			c.Comparison = "over"
		}
		return c, true
	case "exists":
		names := t.Values[0].Strings()
		return Condition{Field: "header", Comparison: "exists", Header: names[0]}, len(names) == 1
	case "anyof":
		return Condition{Field: "attachment"}, attachment(t)
	case "header", "address", "body":
		return compared(t)
	}
	return c, false
}

// attachment reports whether a test is the one that is written for messages with attachments.
func attachment(t *sieve.Node) bool {
	if len(t.Tests) != 2 || t.Tests[0].Name != "header" || t.Tests[1].Name != "body" {
		return false
	}
	h, b := t.Tests[0], t.Tests[1]
	return only(h, "contains") && only(b, "raw", "contains") && b.Has("raw") && h.Has("contains") &&
		b.Has("contains") && isText(&h.Values[0], "content-disposition") && isText(&h.Values[1], "attachment") &&
		isText(&b.Values[0], "content-disposition: attachment")
}

func isText(a *sieve.Argument, s string) bool {
	list := a.Strings()
	return len(list) == 1 && strings.EqualFold(list[0], s)
}

// only reports whether a node has no other tags.
func only(n *sieve.Node, tags ...string) bool {
	for t := range n.Tags {
		if !slices.Contains(tags, t) {
			return false
		}
	}
	return true
}

// headerFields maps names of header fields to the fields of conditions.
var headerFields = map[string]string{"from": "from", "subject": "subject", "list-id": "list"}

// compared reads a test that compares texts.
func compared(t *sieve.Node) (c Condition, ok bool) {
	c.Comparison = "is"
	for _, m := range []string{"contains", "matches", "regex"} {
		if t.Has(m) {
			c.Comparison = m
		}
	}
	c.Values = slices.Clone(t.Values[len(t.Values)-1].Strings())
	if len(c.Values) == 0 || slices.Contains(c.Values, "") {
		return c, false
	}
	switch t.Name {
	case "body":
		c.Field = "text"
		ok = t.Has("text") && c.Comparison != "is" && only(t, "text", "contains", "matches", "regex")
	case "header":
		ok = c.ofHeader(t)
	default:
		ok = c.ofAddress(t)
	}
	return c, ok
}

// ofHeader reads the fields of a test "header".
func (c *Condition) ofHeader(t *sieve.Node) bool {
	names := t.Values[0].Strings()
	c.Field = fieldOf(names)
	if c.Field == "" || c.Comparison == "is" && c.ofPeople() {
		c.Field, c.Header = "header", names[0]
	}
	return only(t, "is", "contains", "matches", "regex") && (c.Field == "recipients" || len(names) == 1)
}

// ofAddress reads the fields of a test "address".
func (c *Condition) ofAddress(t *sieve.Node) bool {
	c.Field = fieldOf(t.Values[0].Strings())
	ok := c.Comparison == "is" && c.ofPeople()
	if t.Has("domain") {
		c.Comparison = "domain"
		return ok && only(t, "domain", "is")
	}
	return ok && only(t, "is", "all")
}

// ofPeople reports whether the condition is on addresses.
func (c *Condition) ofPeople() bool { return c.Field == "from" || c.Field == "recipients" }

// fieldOf returns the field of a condition for names of header fields, or "".
func fieldOf(names []string) string {
	switch {
	case len(names) == 1:
		return headerFields[strings.ToLower(names[0])]
	case len(names) == 2 && strings.EqualFold(names[0], "to") && strings.EqualFold(names[1], "cc"):
		return "recipients"
	}
	return ""
}

// actions reads the commands of a rule.
func (r *Rule) actions(block []*sieve.Node) bool {
	for i, n := range block {
		if n.Broken != "" {
			return false
		}
		if n.Name == "stop" {
			r.Stop = true
			if i != len(block)-1 {
				return false
			}
			continue
		}
		list, ok := action(n)
		if !ok {
			return false
		}
		r.Actions = append(r.Actions, list...)
	}
	// A label after a filing is not on the message that was filed, so that the order counts.
	ordered := slices.IsSortedFunc(r.Actions, func(a, b Action) int { return rank[a.Type] - rank[b.Type] })
	return ordered && r.check() == nil
}

// action reads the actions of a command.
func action(n *sieve.Node) (list []Action, ok bool) {
	value := ""
	if len(n.Values) == 1 {
		value = n.Values[0].Text
	}
	switch n.Name {
	case "fileinto":
		return filing(n, value)
	case "addflag":
		if len(n.Values) != 1 {
			return nil, false
		}
		for _, flag := range n.Values[0].Strings() {
			list = append(list, flagging(flag))
		}
		return list, true
	case "redirect":
		if n.Has("copy") {
			return []Action{{Type: "forward", Value: value}}, true
		}
		return []Action{{Type: "redirect", Value: value}}, true
	case "reject":
		return []Action{{Type: "reject", Value: value}}, true
	case "discard", "keep":
		return []Action{{Type: n.Name}}, len(n.Tags) == 0
	}
	return nil, false
}

func filing(n *sieve.Node, folder string) ([]Action, bool) {
	if n.Has("specialuse") {
		use := n.Tags["specialuse"].Text
		known := only(n, "specialuse") && strings.EqualFold(use, trash) && folder == trashFolder
		return []Action{{Type: "delete"}}, known
	}
	a := Action{Type: "move", Value: folder, Create: n.Has("create")}
	if n.Has("copy") {
		a.Type = "copy"
	}
	return []Action{a}, only(n, "copy", "create")
}

func flagging(flag string) Action {
	switch {
	case strings.EqualFold(flag, `\Seen`):
		return Action{Type: "read"}
	case strings.EqualFold(flag, `\Flagged`):
		return Action{Type: "star"}
	}
	return Action{Type: "label", Value: flag}
}
