package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"doublet/directory"
	"doublet/mail"
	"doublet/mail/mailrule"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// MailRule is a mail rule of the domain.
type MailRule struct {
	Position int    `json:"position"`
	Name     string `json:"name"`
	On       bool   `json:"on" show:"always"`
	// Matches counts the messages that the rule matched on this server since its start.
	Matches uint64 `json:"matches" show:"always"`
	// Rule is the JSON text of conditions and actions.
	Rule string `json:"rule"`
	// Error is the reason for which the rule cannot be read. It is not applied then.
	Error string `json:"error,omitempty"`
}

// MailRuleAdd are the arguments of rules add.
type MailRuleAdd struct {
	Name     string `json:"name" arg:"required" help:"name of the rule"`
	Rule     string `json:"rule" arg:"required" help:"conditions and actions as JSON: {\"when\":{…},\"do\":{…}}"`
	Position int    `json:"position" help:"place in the order, from 1 (default: the end)"`
	Off      bool   `json:"off" help:"do not apply it yet"`
}

// MailRuleEdit are the arguments of rules edit. A nil field leaves the value unchanged.
type MailRuleEdit struct {
	Name   string  `json:"name" arg:"required" help:"name of the rule"`
	Rule   *string `json:"rule" help:"conditions and actions as JSON"`
	Rename *string `json:"rename" help:"new name"`
}

// MailRuleNamed are the arguments of verbs on one mail rule.
type MailRuleNamed struct {
	Name string `json:"name" arg:"required" help:"name of the rule"`
}

// MailRuleMove are the arguments of rules move.
type MailRuleMove struct {
	Name     string `json:"name" arg:"required" help:"name of the rule"`
	Position string `json:"position" arg:"required" help:"new place in the order, from 1"`
}

// MailRuleTest are the arguments of rules test.
type MailRuleTest struct {
	File string   `json:"file" arg:"required" file:"true" help:"file with one message"`
	From string   `json:"from" help:"sender of the envelope (default: the author)"`
	To   []string `json:"to" help:"recipient of the envelope; may be repeated (default: To and Cc of the header)"`
	As   string   `json:"as" help:"person who sends the message (default: it comes from outside)"`
	Junk bool     `json:"junk" help:"a filter takes the message as junk"`
	Rule string   `json:"rule" help:"a rule that is not stored, instead of the domain's"`
}

// MailRuleTried holds what the mail rules would do with a message.
type MailRuleTried struct {
	Matched []string `json:"matched"`
	Actions []string `json:"actions"`
}

func mailRules() []*Verb {
	onOff := func(name, help string, off bool) *Verb {
		return define(name, help, func(ctx context.Context, c *Call, a *MailRuleNamed) (MailRule, error) {
			return changeRule(ctx, c, a.Name, func(f *directory.MailRuleFields) error { f.Off = off; return nil })
		}, changes)
	}
	verbs := []*Verb{
		define("rules list", "list the mail rules of the domain in their order",
			func(ctx context.Context, c *Call, _ *struct{}) ([]MailRule, error) { return listMailRules(ctx, c) }),
		define("rules show", "show a mail rule", mailRuleShow),
		define("rules add", "add a mail rule", mailRuleAdd, changes,
			long("All servers of the domain apply it to messages that they accept from then on. doc/mailrules.md has "+
				"the conditions and actions.")),
		define("rules edit", "change a mail rule", mailRuleEdit, changes),
		define("rules remove", "remove a mail rule", mailRuleRemove, changes),
		onOff("rules on", "apply a mail rule", false),
		onOff("rules off", "do not apply a mail rule", true),
		define("rules move", "move a mail rule to another place in the order",
			func(ctx context.Context, c *Call, a *MailRuleMove) (MailRule, error) {
				to, err := strconv.Atoi(a.Position)
				if err != nil || to < 1 {
					return MailRule{}, fmt.Errorf("%w: position %.20q is no number from 1", ErrUsage, a.Position)
				}
				return changeRule(ctx, c, a.Name,
					func(f *directory.MailRuleFields) error { f.Position = to; return nil })
			}, changes),
	}
	return append(verbs, onMachine([]*Verb{
		define("rules test", "show what the mail rules would do with a message, without doing it", mailRuleTest),
	})...)
}

// listMailRules returns all mail rules with their states.
func listMailRules(ctx context.Context, c *Call) ([]MailRule, error) {
	list, _, err := c.Directory.MailRules.List(ctx)
	if err != nil {
		return nil, err
	}
	states, err := c.Mail.Rules.State(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]MailRule, len(list))
	for i := range list {
		out[i] = mailRuleOf(&list[i], i+1, states)
	}
	return out, nil
}

func mailRuleOf(r *directory.MailRule, position int, states map[note.UNID]mail.RuleState) MailRule {
	out := MailRule{Position: position, Name: r.Name, On: !r.Off, Rule: r.Text, Matches: states[r.ID].Matches}
	if err := states[r.ID].Err; err != nil {
		out.Error = err.Error()
	}
	return out
}

// mailRule returns one mail rule by its ID.
func mailRule(ctx context.Context, c *Call, id note.UNID) (MailRule, error) {
	list, _, err := c.Directory.MailRules.List(ctx)
	if err != nil {
		return MailRule{}, err
	}
	states, err := c.Mail.Rules.State(ctx)
	if err != nil {
		return MailRule{}, err
	}
	i := slices.IndexFunc(list, func(r directory.MailRule) bool { return r.ID == id })
	if i < 0 {
		return MailRule{}, fmt.Errorf("mail rule %s: %w", id, directory.ErrNotFound)
	}
	return mailRuleOf(&list[i], i+1, states), nil
}

func mailRuleShow(ctx context.Context, c *Call, a *MailRuleNamed) (MailRule, error) {
	r, err := c.Directory.MailRules.Named(ctx, a.Name)
	if err != nil {
		return MailRule{}, err
	}
	return mailRule(ctx, c, r.ID)
}

func mailRuleRemove(ctx context.Context, c *Call, a *MailRuleNamed) (Done, error) {
	r, err := c.Directory.MailRules.Named(ctx, a.Name)
	if err != nil {
		return Done{}, err
	}
	return Done{"removed the mail rule " + r.Name}, c.Directory.MailRules.Remove(ctx, c.Who, r.ID)
}

// ruleText checks a rule, and returns its text as it is stored.
func ruleText(text string) (string, error) {
	f, err := mailrule.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return string(f.Bytes()), nil
}

func mailRuleAdd(ctx context.Context, c *Call, a *MailRuleAdd) (MailRule, error) {
	text, err := ruleText(a.Rule)
	if err != nil {
		return MailRule{}, err
	}
	r, err := c.Directory.MailRules.Add(ctx, c.Who,
		directory.MailRuleFields{Name: a.Name, Position: a.Position, Off: a.Off, Text: text})
	if err != nil {
		return MailRule{}, err
	}
	return mailRule(ctx, c, r.ID)
}

func mailRuleEdit(ctx context.Context, c *Call, a *MailRuleEdit) (MailRule, error) {
	if a.Rule != nil {
		text, err := ruleText(*a.Rule)
		if err != nil {
			return MailRule{}, err
		}
		a.Rule = &text
	}
	return changeRule(ctx, c, a.Name, func(f *directory.MailRuleFields) error {
		assign(&f.Text, a.Rule)
		assign(&f.Name, a.Rename)
		return nil
	})
}

// changeRule changes a mail rule.
func changeRule(ctx context.Context, c *Call, name string,
	fn func(*directory.MailRuleFields) error) (MailRule, error) {
	r, err := c.Directory.MailRules.Named(ctx, name)
	if err != nil {
		return MailRule{}, err
	}
	if _, err = c.Directory.MailRules.Set(ctx, c.Who, r.ID, fn); err != nil {
		return MailRule{}, err
	}
	return mailRule(ctx, c, r.ID)
}

// maxTested is the maximum size of a message for rules test, in bytes.
const maxTested = 100 << 20

func mailRuleTest(ctx context.Context, c *Call, a *MailRuleTest) (out MailRuleTried, err error) {
	var only *mailrule.Form
	if a.Rule != "" {
		if only, err = mailrule.Parse(a.Rule); err != nil {
			return out, fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	sub, err := testedMessage(ctx, c, a)
	if err != nil {
		return out, err
	}
	o, err := c.Mail.Rules.Try(ctx, sub, only)
	if err != nil {
		return out, err
	}
	out.Matched, out.Actions = []string{}, []string{}
	for _, r := range o.Matched {
		out.Matched = append(out.Matched, r.Name)
	}
	out.Actions = append(out.Actions, o.Lines()...)
	return out, nil
}

// testedMessage reads the message of rules test, and makes its envelope.
func testedMessage(ctx context.Context, c *Call, a *MailRuleTest) (*mail.Submission, error) {
	raw, err := messageFile(c, a.File)
	if err != nil {
		return nil, err
	}
	sub := &mail.Submission{Message: raw, Junk: a.Junk}
	e := mime.ParseHeader(sub.Message[:mime.HeaderEnd(sub.Message)], true).Envelope
	if a.From == "" && len(e.From) > 0 {
		a.From = e.From[0].Mailbox + "@" + e.From[0].Host
	}
	if a.From != "" {
		if sub.From, err = smtp.ParsePath(a.From); err != nil {
			return nil, fmt.Errorf("%w: sender %.80q: %w", ErrUsage, a.From, err)
		}
	}
	if a.As != "" {
		p, err := c.Directory.Names.PersonNamed(ctx, a.As)
		if err != nil {
			return nil, err
		}
		sub.Submitter = &mail.Submitter{Who: note.Who{Person: p.ID}, Address: p.InternetAddress}
	}
	if len(a.To) == 0 {
		for _, x := range slices.Concat(e.To, e.Cc) {
			if !x.Group {
				a.To = append(a.To, x.Mailbox+"@"+x.Host)
			}
		}
	}
	return sub, testedRecipients(ctx, c, sub, a.To)
}

// testedRecipients resolves the recipients of a tested message. Those that do not exist here stay without an entry.
func testedRecipients(ctx context.Context, c *Call, sub *mail.Submission, to []string) error {
	for _, address := range to {
		p, err := smtp.ParsePath(address)
		if err != nil {
			return fmt.Errorf("%w: recipient %.80q: %w", ErrUsage, address, err)
		}
		r := mail.Recipient{To: p}
		r.Target, err = c.Directory.Names.Resolve(ctx, p.String())
		r.Outside = errors.Is(err, directory.ErrNotLocal)
		if err != nil && !r.Outside && !errors.Is(err, directory.ErrNoSuchRecipient) {
			return err
		}
		sub.Recipients = append(sub.Recipients, r)
	}
	return nil
}
