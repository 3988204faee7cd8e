package ruleset

import (
	"strings"

	"doublet/wire/sieve"
)

// trash is the special use of the folder of deleted messages, and its name where no folder has it.
const trash, trashFolder = `\Trash`, "Trash"

// writer makes the nodes of a rule, and collects the capabilities that they need.
type writer struct{ needs []string }

func (w *writer) need(capabilities ...string) { w.needs = append(w.needs, capabilities...) }

func tag(name string) sieve.Argument   { return sieve.Argument{Kind: sieve.Tag, Text: name} }
func text(s string) sieve.Argument     { return sieve.Argument{Kind: sieve.String, Text: s} }
func number(n uint64) sieve.Argument   { return sieve.Argument{Kind: sieve.Number, Number: n} }
func texts(l ...string) sieve.Argument { return sieve.Argument{Kind: sieve.StringList, List: l} }

func node(name string, args ...sieve.Argument) *sieve.Node {
	return &sieve.Node{Name: name, Args: args}
}

func nodeOf(name string, tests ...*sieve.Node) *sieve.Node {
	return &sieve.Node{Name: name, Tests: tests, List: true}
}

// rule returns the command "if" of a rule in normal form. A rule that is off has the test allof (false, …).
func (w *writer) rule(r *Rule) *sieve.Node {
	var tests []*sieve.Node
	for i := range r.Conditions {
		tests = append(tests, w.condition(&r.Conditions[i]))
	}
	var test *sieve.Node
	switch {
	case len(tests) == 0:
		test = node("true")
	case len(tests) == 1:
		test = tests[0]
	case r.Match == "any":
		test = nodeOf("anyof", tests...)
	default:
		test = nodeOf("allof", tests...)
	}
	if !r.Enabled {
		test = nodeOf("allof", node("false"), test)
	}
	out := &sieve.Node{Name: "if", Tests: []*sieve.Node{test}, Braces: true, Comment: r.Comment}
	if r.Name != "" {
		out.Comment = strings.TrimSuffix("rule:["+r.Name+"]\n"+r.Comment, "\n")
	}
	for _, a := range r.Actions {
		out.Block = append(out.Block, w.action(&a))
	}
	if r.Stop {
		out.Block = append(out.Block, node("stop"))
	}
	return out
}

// condition returns the test of a condition.
func (w *writer) condition(c *Condition) *sieve.Node {
	t := w.plain(c)
	if c.Not {
		return &sieve.Node{Name: "not", Tests: []*sieve.Node{t}}
	}
	return t
}

func (w *writer) plain(c *Condition) *sieve.Node {
	switch {
	case c.Field == "size":
		return node("size", tag(c.Comparison), number(c.Size))
	case c.Field == "attachment":
		w.need("body")
		return nodeOf("anyof", node("header", tag("contains"), text("Content-Disposition"), text("attachment")),
			node("body", tag("raw"), tag("contains"), text("Content-Disposition: attachment")))
	case c.Comparison == "exists":
		return node("exists", text(c.Header))
	}
	if c.Comparison == "regex" {
		w.need("regex")
	}
	values := texts(c.Values...)
	if len(c.Values) == 1 {
		values = text(c.Values[0])
	}
	names := text(c.Header)
	switch c.Field {
	case "from":
		names = text("from")
	case "recipients":
		names = texts("to", "cc")
	case "subject":
		names = text("subject")
	case "list":
		names = text("list-id")
	case "text":
		w.need("body")
		return node("body", tag("text"), tag(c.Comparison), values)
	}
	switch {
	case c.Comparison == "domain":
		return node("address", tag("domain"), tag("is"), names, values)
	case c.Comparison == "is" && (c.Field == "from" || c.Field == "recipients"):
		return node("address", tag("is"), names, values)
	}
	return node("header", tag(c.Comparison), names, values)
}

// action returns the command of an action.
func (w *writer) action(a *Action) *sieve.Node {
	switch a.Type {
	case "move", "copy":
		w.need("fileinto")
		n := node("fileinto")
		if a.Type == "copy" {
			w.need("copy")
			n.Args = append(n.Args, tag("copy"))
		}
		if a.Create {
			w.need("mailbox")
			n.Args = append(n.Args, tag("create"))
		}
		n.Args = append(n.Args, text(a.Value))
		return n
	case "delete":
		w.need("fileinto", "special-use")
		return node("fileinto", tag("specialuse"), text(trash), text(trashFolder))
	case "read", "star", "label":
		w.need("imap4flags")
		return node("addflag", text(flagOf(a)))
	case "forward":
		w.need("copy")
		return node("redirect", tag("copy"), text(a.Value))
	case "redirect":
		return node("redirect", text(a.Value))
	case "reject":
		w.need("reject")
		return node("reject", text(a.Value))
	}
	return node(a.Type) // keep and discard
}

func flagOf(a *Action) string {
	switch a.Type {
	case "read":
		return `\Seen`
	case "star":
		return `\Flagged`
	}
	return a.Value
}
