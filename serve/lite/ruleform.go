package lite

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"doublet/mail"
	"doublet/mail/ruleset"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/wire/mime"
	"doublet/wire/sieve"
)

// rulePage is the form of a rule, or of the script as text.
type rulePage struct {
	*frame
	State string
	// At is the place of the rule: "new", a number, or "script" for the script.
	At         string
	Rule       ruleset.Rule
	Conditions []conditionRow
	Actions    []ruleset.Action
	Folders    []string // for completion
	TooLarge   bool
	Text       string   // of an opaque rule, or of the script
	Mistakes   []string // in the script
	Tried      string
	Met        []string
	// The choices, with their keys.
	Fields, Comparisons, Kinds []string
}

// conditionRow is a condition with its value as the form shows it.
type conditionRow struct {
	ruleset.Condition
	Value string
	Rows  int
}

// Bounds of a rule that the form shows, which keep the page under 30 KB.
const (
	maxRuleConditions = 8
	maxRuleActions    = 6
	maxRuleText       = 3000 // bytes
	maxScriptText     = 8000
	blankRows         = 2
	maxRuleFolders    = 30
	maxRuleMet        = 5
)

var (
	ruleFields = []string{"from", "recipients", "subject", "text", "list", "header", "size", "attachment"}
	ruleKinds  = []string{"move", "copy", "label", "read", "star", "forward", "redirect", "reject", "delete", "discard",
		"keep"}
	ruleComparisons = []string{"contains", "is", "domain", "matches", "regex", "exists", "over", "under"}
)

// Key returns the key of the text of a field, a comparison or an action.
func (*rulePage) Key(name string) string { return "rule" + capital(name) }

// Nth returns the number of a row, from 1.
func (*rulePage) Nth(i int) int { return i + 1 }

// ruleForm shows the form of a rule: of a stored one, of a new one, or of one that a message suggests.
func (v *visit) ruleForm() error {
	l, x, err := v.readRules()
	if err != nil {
		return err
	}
	if x == nil {
		return v.ruleList(nil) // its text has to be corrected first
	}
	at := v.form.Get("edit")
	var try *ruleset.Script
	r := ruleset.Rule{Enabled: true, Match: "all", Actions: []ruleset.Action{{Type: "move"}}}
	switch n, err := strconv.Atoi(at); {
	case v.form.Get("m") != "":
		header, err := v.headerOf()
		if err != nil {
			return err
		}
		if c := ruleset.Suggest(header); len(c) > 0 {
			r.Name, r.Conditions = c[0].Values[0], c[:1]
		}
		at, try = "new", x
	case at == "new":
	case err != nil || n < 0 || n >= len(x.Rules):
		return errNotFound
	default:
		r = x.Rules[n]
	}
	return v.showRule(l.State(), at, &r, nil, try)
}

// headerOf returns the header of the message that the request names.
func (v *visit) headerOf() ([]byte, error) {
	id, err := unid(v.form.Get("m"))
	if err != nil {
		return nil, err
	}
	var header []byte
	err = v.box.Read(v.ctx, func(d *mailbox.Reading) error {
		m, err := d.EmailOf(id)
		if err != nil {
			return err
		}
		body, err := m.Body()
		if err == nil {
			header, err = body.AppendRange(nil, 0, min(body.Size(), maxForm))
		}
		return err
	})
	return header[:mime.HeaderEnd(header)], err
}

// showRule shows the form of a rule. why is the reason for which it was refused, or nil. try holds the rules in which
// it is run over the newest messages, or is nil.
func (v *visit) showRule(state, at string, r *ruleset.Rule, why error, try *ruleset.Script) error {
	fr, folders, err := v.framed("ruleEdit", note.UNID{})
	if err != nil {
		return err
	}
	p := &rulePage{frame: fr, State: state, At: at, Rule: *r, Fields: ruleFields, Comparisons: ruleComparisons,
		Kinds: ruleKinds}
	status := http.StatusOK
	if why != nil {
		status = v.ruleRefusal(fr, why)
	}
	if r.Opaque {
		p.Text = strings.TrimSpace(r.Text)
	}
	if p.TooLarge = tooLargeForForm(r); !p.TooLarge && !r.Opaque {
		p.fill(r)
		for i := range folders[:min(len(folders), maxRuleFolders)] {
			p.Folders = append(p.Folders, fit(folders[i].Name, 80, 120))
		}
	}
	if try != nil && !p.TooLarge {
		if err := v.tryRule(p, try, r); err != nil {
			return err
		}
	}
	v.s.show(v.w, status, "rule.html", p)
	return nil
}

func tooLargeForForm(r *ruleset.Rule) bool {
	n := len(r.Text)
	for i := range r.Conditions {
		for _, s := range r.Conditions[i].Values {
			n += len(s)
		}
	}
	return n > maxRuleText || len(r.Conditions) > maxRuleConditions || len(r.Actions) > maxRuleActions
}

// fill sets the rows of the form, with some blank ones.
func (p *rulePage) fill(r *ruleset.Rule) {
	for _, c := range r.Conditions {
		row := conditionRow{Condition: c, Value: strings.Join(c.Values, "\n"), Rows: max(1, len(c.Values))}
		if c.Field == "size" {
			row.Value = strconv.FormatFloat(float64(c.Size)/1024, 'f', -1, 64)
		}
		p.Conditions = append(p.Conditions, row)
	}
	p.Actions = slices.Clone(r.Actions)
	for range blankRows {
		p.Conditions, p.Actions = append(p.Conditions, conditionRow{Rows: 1}), append(p.Actions, ruleset.Action{})
	}
}

// tryRule shows which of the newest messages in INBOX a rule would have met.
func (v *visit) tryRule(p *rulePage, x *ruleset.Script, r *ruleset.Rule) error {
	one := *r
	if one.Enabled = true; !one.Opaque {
		one.Text = ""
		one.Actions = []ruleset.Action{{Type: "star"}} // the messages that it meets do not depend on what it does
	}
	text, err := x.Alone(one)
	if err != nil {
		p.say("ruleUntried", true, clip(err.Error(), 300))
		return nil
	}
	person, err := v.s.dir.Names.Person(v.ctx, v.id.Who.Person)
	if err != nil {
		return err
	}
	own, err := v.own()
	if err != nil {
		return err
	}
	list, err := v.s.mail.Deposits.TryScript(v.ctx, &mail.ScriptTrial{File: own.File, Database: v.id.Database,
		Address: person.InternetAddress, Script: text, Folder: mailbox.Inbox, Limit: mail.MaxTried, Hold: v.holding})
	if err != nil {
		return err
	}
	met := 0
	for i := range list {
		if t := &list[i]; !t.Kept() {
			if met++; met <= maxRuleMet {
				p.Met = append(p.Met, fit(t.Subject+" · "+t.From, 120, 200))
			}
		}
	}
	p.Tried = v.T("ruleTried", met, len(list), v.T("inbox"))
	return nil
}

// holding reserves memory for a message while a rule is tried on it.
func (v *visit) holding(n int64) (release func(), err error) {
	if !v.form.mem.Take(n) {
		return nil, listen.ErrMemory
	}
	return func() { v.form.mem.Give(n) }, nil
}

// ruleFormSent stores the rule of a form, or tries it.
func (v *visit) ruleFormSent(try bool) error {
	_, x, err := v.readRules()
	if err != nil {
		return err
	}
	if x == nil {
		return v.ruleList(nil)
	}
	at := len(x.Rules)
	was := ruleset.Rule{Enabled: true}
	if s := v.form.Get("at"); s != "new" {
		if at, err = strconv.Atoi(s); err != nil || at < 0 || at >= len(x.Rules) {
			return v.ruleList(errRulesChanged)
		}
		was = x.Rules[at]
	}
	r, err := v.form.rule(&was)
	switch {
	case err != nil:
		return v.showRule(v.form.Get("state"), v.form.Get("at"), &r, err, nil)
	case try:
		return v.showRule(v.form.Get("state"), v.form.Get("at"), &r, nil, x)
	}
	err = v.editRules(func(x *ruleset.Script) error {
		if at < len(x.Rules) {
			x.Rules[at] = r
		} else {
			x.Rules = append(x.Rules, r)
		}
		return nil
	})
	switch {
	case errors.Is(err, errRulesChanged):
		return v.ruleList(err)
	case err != nil:
		return v.showRule(v.form.Get("state"), v.form.Get("at"), &r, err, nil)
	}
	return v.leave(pathRules, "said", "saved", "from", itoa(at))
}

// rule reads a rule from its form. was is the rule that the form showed.
func (f *form) rule(was *ruleset.Rule) (ruleset.Rule, error) {
	if was.Opaque {
		r := *was
		r.Text = "\n" + strings.TrimSpace(f.Get("text"))
		return r, nil
	}
	r := ruleset.Rule{Name: f.line("name"), Comment: was.Comment, Enabled: f.Get("on") != "", Match: f.Get("match"),
		Stop: f.Get("stop") != ""}
	var bad error
	for i := range maxRuleConditions + blankRows {
		n := itoa(i)
		field := f.Get("field" + n)
		if field == "" {
			continue
		}
		c := ruleset.Condition{Field: field, Comparison: f.Get("how" + n), Not: f.Get("not"+n) != "",
			Header: f.line("header" + n)}
		if err := takeValue(&c, f.Get("value"+n)); err != nil {
			bad = err
		}
		r.Conditions = append(r.Conditions, c)
	}
	for i := range maxRuleActions + blankRows {
		a := ruleset.Action{Type: f.Get("action" + itoa(i)), Value: strings.TrimSpace(f.Get("to" + itoa(i)))}
		if a.Type == "" {
			continue
		}
		a.Create = slices.Contains(was.Actions, ruleset.Action{Type: a.Type, Value: a.Value, Create: true})
		r.Actions = append(r.Actions, a)
	}
	return r, bad
}

// takeValue reads the value of a condition: texts, one a line, or a size in KB.
func takeValue(c *ruleset.Condition, value string) error {
	switch {
	case c.Field == "attachment":
		c.Comparison = ""
		return nil
	case c.Field == "size":
		kb, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || kb < 0 || kb > math.MaxInt32 {
			return fmt.Errorf("%w: invalid size %.40q: write it in KB", errRuleForm, value)
		}
		c.Size = uint64(math.Round(kb * 1024))
		return nil
	case c.Comparison == "exists":
		return nil
	}
	for line := range strings.SplitSeq(value, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			c.Values = append(c.Values, line)
		}
	}
	return nil
}

// scriptForm shows the text of the script. text is what the person wrote, if mistakes were found in it.
func (v *visit) scriptForm(text string, why error) error {
	fr, _, err := v.framed("rules", note.UNID{})
	if err != nil {
		return err
	}
	own, err := v.own()
	if err != nil {
		return err
	}
	p := &rulePage{frame: fr, At: "script", Text: text, State: v.form.Get("state")}
	status := http.StatusOK
	var mistakes sieve.Errors
	switch {
	case errors.As(why, &mistakes):
		for _, m := range mistakes {
			p.Mistakes = append(p.Mistakes, v.T("ruleScriptLine", m.Line, clip(m.Text, 200)))
		}
		status = http.StatusUnprocessableEntity
	case why != nil:
		status = v.ruleRefusal(fr, why)
	default:
		err = own.Read(v.ctx, func(d *mailbox.Reading) error {
			l, err := scripts.Read(own.File, d)
			if err != nil {
				return err
			}
			p.State = l.State()
			if s := l.OfRules(); s != nil {
				p.Text, err = scripts.Text(d, s)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	if p.TooLarge = why == nil && len(p.Text) > maxScriptText; p.TooLarge {
		p.Text = ""
	}
	v.s.show(v.w, status, "rule.html", p)
	return nil
}

// scriptSent stores the text of the script. The first one of a person becomes active.
func (v *visit) scriptSent() error {
	text := v.form.Get("text")
	err := scripts.Check(text)
	if err == nil {
		var id note.UNID
		v.s.env.Fill(id[:])
		err = v.editScripts(func(e *scripts.Editor, _ *mailbox.Reading) error {
			if s := e.List().OfRules(); s != nil {
				return e.Put(s.Name, text, id)
			}
			if err := e.Put(scripts.RulesName, text, id); err != nil {
				return err
			}
			return e.Activate(scripts.RulesName)
		})
	}
	if err != nil {
		return v.scriptForm(text, err)
	}
	return v.leave(pathRules, "said", "saved")
}
