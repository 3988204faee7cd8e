package mailrule

import (
	"strings"

	"doublet/wire/mime"
	"doublet/wire/size"
)

// Rule is a compiled rule. It is immutable.
type Rule struct {
	Name         string
	do           Actions
	when, unless tests
}

// test is one condition. Tests are ordered by cost: those of the envelope before those of the content.
type test func(m *Message) bool

type tests []test

// Compile compiles a rule that Parse has checked.
func Compile(name string, f *Form) *Rule {
	return &Rule{Name: name, do: f.Do, when: f.When.compile(), unless: f.Unless.compile()}
}

// matches reports whether all conditions of when hold, and none of unless.
func (r *Rule) matches(m *Message) bool {
	for _, t := range r.when {
		if !t(m) {
			return false
		}
	}
	for _, t := range r.unless {
		if t(m) {
			return false
		}
	}
	return true
}

func (c *Conditions) compile() (out tests) {
	add := func(values []string, prepare func(string) string, holds func(m *Message, v string) bool) {
		if len(values) == 0 {
			return
		}
		prepared := make([]string, len(values))
		for i, v := range values {
			prepared[i] = prepare(v)
		}
		out = append(out, func(m *Message) bool {
			for _, v := range prepared {
				if holds(m, v) {
					return true
				}
			}
			return false
		})
	}
	same := func(v string) string { return v }
	add(c.Direction, same, func(m *Message, v string) bool { return m.direction() == v })
	add(c.Verdict, same, (*Message).verdict)
	if c.Larger != "" {
		limit, _ := size.Parse(c.Larger) // checked by Parse
		out = append(out, func(m *Message) bool { return int64(len(m.Raw)) > limit })
	}
	add(c.To, strings.ToLower, func(m *Message, v string) bool { return sideOf(m.To, v) })
	add(c.From, strings.ToLower, func(m *Message, v string) bool { return sideOf(m.senders(), v) })
	add(c.Group, same, func(m *Message, v string) bool { return m.Member != nil && m.Member(v) })
	add(c.Header, foldField, (*Message).field)
	add(c.Subject, normal, func(m *Message, v string) bool { return hasPhrase(m.subjectText(), v) })
	add(c.Attachment, strings.ToLower, (*Message).attached)
	add(c.Words, normal,
		func(m *Message, v string) bool { return hasPhrase(m.subjectText(), v) || hasPhrase(m.text(), v) })
	return out
}

// sideOf reports whether any of the addresses is the wanted one, or in the wanted "@domain". want is in lower case.
func sideOf(addresses []string, want string) bool {
	for _, a := range addresses {
		if strings.HasPrefix(want, "@") {
			a = a[max(0, strings.LastIndexByte(a, '@')):]
		}
		if strings.EqualFold(a, want) {
			return true
		}
	}
	return false
}

// normal folds a text for comparison: in one case, with single spaces.
func normal(s string) string { return strings.Join(strings.Fields(mime.Casemap(s)), " ") }

// Set is a list of rules in their order. A nil Set has no rules. It is immutable.
type Set struct{ rules []*Rule }

// NewSet returns a set of rules, nil for none.
func NewSet(rules []*Rule) *Set {
	if len(rules) == 0 {
		return nil
	}
	return &Set{rules}
}

// maxAdded limits the recipients that all rules together add to one message.
const maxAdded = 50

// Outcome holds the actions of the rules for one message.
type Outcome struct {
	// Matched lists the rules that matched, in their order. Refuse is empty unless the last of them refuses the
	// message; then the other fields are zero.
	Matched []*Rule
	Refuse  string
	Journal bool
	// Move is the folder that the first matching rule with one names.
	Move string
	// Texts are put under the message in this order.
	Texts []string
	// Recipients are the recipients that rules add. Those of the first rule that replaces recipients come in place of
	// the envelope's.
	Recipients []Change
	replaced   bool
}

// Change is a recipient that a rule adds, or one that replaces those of the envelope.
type Change struct {
	Rule     *Rule
	Address  string
	Replaces bool
}

// Run runs the rules over a message, each once. Rules do not see what earlier ones do.
func (s *Set) Run(m *Message) (out Outcome) {
	if s == nil {
		return out
	}
	for _, r := range s.rules {
		if m.Arrives && r.do.Refuse != "" || !r.matches(m) {
			continue
		}
		out.Matched = append(out.Matched, r)
		if r.do.Refuse != "" {
			return Outcome{Matched: out.Matched, Refuse: r.do.Refuse}
		}
		out.take(r)
		if r.do.Stop {
			break
		}
	}
	return out
}

// take adds the actions of a rule.
func (o *Outcome) take(r *Rule) {
	o.Journal = o.Journal || r.do.Journal
	if o.Move == "" {
		o.Move = r.do.Move
	}
	if r.do.Text != "" {
		o.Texts = append(o.Texts, r.do.Text)
	}
	list, replaces := r.do.Add, len(r.do.Replace) > 0 && !o.replaced
	if replaces {
		list, o.replaced = r.do.Replace, true
	}
	for _, a := range list[:min(len(list), maxAdded-len(o.Recipients))] {
		o.Recipients = append(o.Recipients, Change{r, a, replaces})
	}
}

// Lines describes what the rules do, one line for each action, for people who try rules.
func (o *Outcome) Lines() (lines []string) {
	add := func(word, value string) { lines = append(lines, word+value) }
	if o.Refuse != "" {
		add("refuse: ", o.Refuse)
	}
	if o.Journal {
		add("journal", "")
	}
	if o.Move != "" {
		add("move: ", o.Move)
	}
	for _, t := range o.Texts {
		add("text: ", strings.Join(strings.Fields(t), " "))
	}
	for _, c := range o.Recipients {
		word := "add recipient: "
		if c.Replaces {
			word = "replace recipients: "
		}
		add(word, c.Address)
	}
	return lines
}
