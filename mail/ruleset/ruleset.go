// Package ruleset turns Sieve scripts into rules that people edit in a form, and rules into Sieve. It is pure.
//
// A rule is an "if" of conditions with actions, after a comment "rule:[NAME]", as other editors of Sieve write it. What
// has another form is an opaque rule: only its text counts. A rule that nobody changed is written as it was read, so
// that a script of somebody else stays as it is, byte for byte.
package ruleset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"doublet/wire/sieve"
)

// Limits of one rule. The whole script has those of package sieve.
const (
	MaxConditions = 50
	MaxActions    = 20
	MaxName       = 200 // bytes
)

// Script holds the rules of a script, in the order in which they apply.
type Script struct {
	Rules []Rule
	// text is the script as it was read: head, which ends with the last "require", the rules, and tail. required lists
	// what it requires.
	text, head, tail string
	required         []string
}

// Rule applies actions to the messages that meet its conditions: to all messages, if there are none.
type Rule struct {
	Name string `json:"name"`
	// Comment holds further lines of comment before the rule.
	Comment string `json:"comment,omitempty"`
	Enabled bool   `json:"isEnabled"`
	// Match is "all" or "any" of the conditions; "" is "all".
	Match      string      `json:"match"`
	Conditions []Condition `json:"conditions"`
	Actions    []Action    `json:"actions"`
	// Stop ends the script for a message that meets the conditions.
	Stop bool `json:"stop"`
	// Opaque is set for a part of a script that has another form.
	Opaque bool `json:"isOpaque"`
	// Text is the rule in Sieve. If it is set, it counts and the other fields do not.
	Text string `json:"text,omitempty"`
}

// Condition is a test of a message.
type Condition struct {
	// Field is one of "from", "recipients" (To and Cc), "subject", "header", "list", "text", "size" and "attachment".
	Field string `json:"field"`
	// Comparison is "contains", "is", "matches" (with * and ?) or "regex"; "domain" for from and recipients, "exists"
	// for header, "over" or "under" for size, "" for attachment.
	Comparison string `json:"comparison,omitempty"`
	// Not negates the condition.
	Not bool `json:"not,omitempty"`
	// Header is the name of the field of "header".
	Header string `json:"header,omitempty"`
	// Values are the texts to compare with, of which one must match.
	Values []string `json:"values,omitempty"`
	// Size is a number of bytes.
	Size uint64 `json:"size,omitempty"`
}

// Action is done to a message.
type Action struct {
	// Type is one of "move", "copy" (to the folder in Value), "label" (the keyword in Value), "read", "star", "forward"
	// (to the address in Value, and the message is kept), "redirect" (without keeping it), "reject" (with the text in
	// Value), "delete" (into the Trash), "discard" and "keep".
	Type  string `json:"type"`
	Value string `json:"value,omitempty"`
	// Create is set if move and copy make a missing folder.
	Create bool `json:"create,omitempty"`
}

// Parse returns the rules of a script. An error is of type sieve.Errors.
func Parse(text string) (*Script, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	tree, err := sieve.Parse(text)
	if err == nil {
		err = sieve.Check(tree)
	}
	if err != nil {
		return nil, err
	}
	s := &Script{text: text}
	from := 0
	for i := 0; i < len(tree.Commands); {
		end := chain(tree.Commands, i)
		part := text[from:tree.Commands[end-1].End]
		from = tree.Commands[end-1].End
		if n := tree.Commands[i]; n.Name == "require" {
			s.head += part
			s.required = append(s.required, n.Values[0].Strings()...)
		} else {
			s.Rules = append(s.Rules, s.read(tree.Commands[i:end], part))
		}
		i = end
	}
	s.tail = text[from:]
	return s, nil
}

// chain returns the end of the command at i with the branches "elsif" and "else" that belong to it.
func chain(list []*sieve.Node, i int) int {
	for i++; i < len(list) && (list[i].Name == "elsif" || list[i].Name == "else"); i++ {
	}
	return i
}

// ErrRule is the error of a rule that cannot be written.
var ErrRule = errors.New("invalid rule")

// Format returns the script. An error is ErrRule with the number of the rule, or of type sieve.Errors.
func (s *Script) Format() (string, error) {
	parts, needs := make([]string, len(s.Rules)), []string(nil)
	for i := range s.Rules {
		r := &s.Rules[i]
		if parts[i] = r.Text; r.Text != "" {
			continue
		}
		text, capabilities, err := s.write(r)
		if err != nil {
			return "", fmt.Errorf("%w %d: %w", ErrRule, i+1, err)
		}
		parts[i], needs = text, append(needs, capabilities...)
	}
	head := s.headWith(needs)
	out := head + strings.Join(parts, "") + s.tail
	if out != s.text {
		out = joined(append(append([]string{head}, parts...), s.tail))
	}
	_, err := Parse(out)
	return out, err
}

// joined joins parts of a script, each of which begins a line.
func joined(parts []string) string {
	var b strings.Builder
	for _, part := range parts {
		part = strings.TrimRight(part, " \t\r\n")
		if b.Len() == 0 {
			part = strings.TrimLeft(part, " \t\r\n")
		} else if part != "" && !strings.HasPrefix(strings.TrimLeft(part, " \t\r"), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(part)
	}
	return b.String() + "\n"
}

// headWith returns the head with further capabilities. A head of "require" alone becomes one command.
func (s *Script) headWith(needs []string) string {
	missing := slices.DeleteFunc(slices.Clone(needs), func(c string) bool { return slices.Contains(s.required, c) })
	slices.Sort(missing)
	missing = slices.Compact(missing)
	switch {
	case len(missing) == 0:
		return s.head
	case strings.ContainsAny(s.head, "#*"):
		return s.head + "\n" + requiring(missing)
	}
	all := append(missing, s.required...)
	slices.Sort(all)
	return requiring(slices.Compact(all))
}

func requiring(capabilities []string) string {
	return "require [" + strings.Join(quoted(capabilities), ", ") + "];"
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = sieve.Quote(s)
	}
	return out
}

// write returns a rule in Sieve, and the capabilities that it requires. It reads the text back: a rule that means
// something else in this script, since it has a variable in a text for example, is an error.
func (s *Script) write(r *Rule) (text string, needs []string, err error) {
	r = r.normal()
	if err := r.check(); err != nil {
		return "", nil, err
	}
	w := writer{}
	node := w.rule(r)
	text = "\n" + strings.TrimRight(sieve.Print(&sieve.Script{Commands: []*sieve.Node{node}}), "\n")
	back, err := Parse(s.headWith(w.needs) + text)
	if err != nil {
		return "", nil, err
	}
	if len(back.Rules) != 1 || !back.Rules[0].same(r) {
		return "", nil, errors.New("text in it has a meaning of its own in this script, such as ${name}")
	}
	return text, w.needs, nil
}

// Alone returns a script with one rule of s, to see what that rule does.
func (s *Script) Alone(r Rule) (string, error) {
	one := Script{head: s.head, required: s.required, Rules: []Rule{r}}
	return one.Format()
}

// same reports whether two rules in normal form mean the same.
func (r *Rule) same(x *Rule) bool {
	return !r.Opaque && r.Name == x.Name && r.Comment == x.Comment && r.Enabled == x.Enabled && r.Match == x.Match &&
		r.Stop == x.Stop && slices.Equal(r.Actions, x.Actions) &&
		slices.EqualFunc(r.Conditions, x.Conditions, func(a, b Condition) bool {
			return a.Field == b.Field && a.Comparison == b.Comparison && a.Not == b.Not && a.Size == b.Size &&
				strings.EqualFold(a.Header, b.Header) && slices.Equal(a.Values, b.Values)
		})
}

// rank orders the actions of a rule: labels hold only for what is filed after them.
var rank = map[string]int{"read": 0, "star": 0, "label": 0, "copy": 1, "forward": 2, "redirect": 2, "keep": 3,
	"move": 3, "delete": 3, "reject": 3, "discard": 3}

// normal returns the rule in the form in which it is read.
func (r *Rule) normal() *Rule {
	n := *r
	if n.Match == "" || len(n.Conditions) < 2 {
		n.Match = "all"
	}
	n.Name = strings.TrimSpace(n.Name)
	n.Conditions, n.Actions = slices.Clone(n.Conditions), slices.Clone(n.Actions)
	for i := range n.Conditions {
		c := &n.Conditions[i]
		field, ok := headerFields[strings.ToLower(c.Header)]
		if ok && c.Field == "header" && c.Comparison != "exists" && (field != "from" || c.Comparison != "is") {
			c.Field, c.Header = field, ""
		}
	}
	slices.SortStableFunc(n.Actions, func(a, b Action) int { return rank[a.Type] - rank[b.Type] })
	return &n
}

// check returns the mistake in a rule.
func (r *Rule) check() error {
	switch {
	case r.Opaque:
		return errors.New("it has no text")
	case len(r.Conditions) > MaxConditions || len(r.Actions) > MaxActions:
		return fmt.Errorf("it has more than %d conditions or %d actions", MaxConditions, MaxActions)
	case len(r.Actions) == 0 && !r.Stop:
		return errors.New("it has no action")
	case len(r.Name) > MaxName || strings.ContainsFunc(r.Name, unicode.IsControl),
		strings.ContainsRune(r.Comment, '\r'):
		return fmt.Errorf("its name must be one line of at most %d bytes", MaxName)
	case r.Match != "all" && r.Match != "any":
		return fmt.Errorf("unknown match %.20q", r.Match)
	}
	for i := range r.Conditions {
		if err := r.Conditions[i].check(); err != nil {
			return err
		}
	}
	return r.checkActions()
}

// comparisons lists the comparisons that each field has.
var comparisons = map[string][]string{
	"from":       {"contains", "is", "domain", "matches", "regex"},
	"recipients": {"contains", "is", "domain", "matches", "regex"},
	"subject":    {"contains", "is", "matches", "regex"}, "list": {"contains", "is", "matches", "regex"},
	"header": {"contains", "is", "exists", "matches", "regex"}, "text": {"contains", "matches", "regex"},
	"size": {"over", "under"}, "attachment": {""},
}

func (c *Condition) check() error {
	known, ok := comparisons[c.Field]
	if !ok || !slices.Contains(known, c.Comparison) {
		return fmt.Errorf("unknown condition %.20q %.20q", c.Field, c.Comparison)
	}
	if c.Field == "header" && !sieve.FieldName(c.Header) {
		return fmt.Errorf("invalid name of a header field %.40q", c.Header)
	}
	compares := c.Field != "size" && c.Field != "attachment" && c.Comparison != "exists"
	if compares && (len(c.Values) == 0 || slices.Contains(c.Values, "")) {
		return fmt.Errorf("condition on %s needs texts to compare with", c.Field)
	}
	if !compares && len(c.Values) > 0 {
		return fmt.Errorf("condition on %s has no texts", c.Field)
	}
	return nil
}

func (r *Rule) checkActions() error {
	for _, a := range r.Actions {
		switch a.Type {
		case "move", "copy":
			if a.Value == "" {
				return fmt.Errorf("action %s names no folder", a.Type)
			}
		case "label":
			if a.Value == "" || strings.HasPrefix(a.Value, `\`) || len(strings.Fields(a.Value)) != 1 {
				return fmt.Errorf("invalid label %.40q", a.Value)
			}
		case "forward", "redirect":
			if !sieve.Address(a.Value) {
				return fmt.Errorf("invalid address %.80q", a.Value)
			}
		case "reject":
			if strings.TrimSpace(a.Value) == "" || len(r.Actions) > 1 {
				return errors.New("rejection needs a text, and is the only action")
			}
		case "read", "star", "delete", "discard", "keep":
			if a.Value != "" {
				return fmt.Errorf("action %s has no value", a.Type)
			}
		default:
			return fmt.Errorf("unknown action %.20q", a.Type)
		}
	}
	return nil
}
