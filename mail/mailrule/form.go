// Package mailrule holds the mail rules of a domain: conditions on messages and actions, which an administrator sets
// and which servers apply once when they accept a message. It is pure: it parses rules, runs them over a message, and
// puts texts into messages. Package mail carries the actions out.
package mailrule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"strings"
	"unicode/utf8"

	"doublet/mailbox"
	"doublet/wire/size"
	"doublet/wire/smtp"
)

// Form is a rule as administrators write it, in JSON:
//
//	{"when": {"direction": ["in"], "attachment": ["*.exe"]}, "unless": {"from": ["@partner.example"]},
//	 "do": {"refuse": "Programs are not accepted"}}
//
// A message matches if all conditions of When hold and none of Unless. A condition holds if any of its values does. A
// rule without conditions matches every message.
type Form struct {
	When   Conditions `json:"when,omitzero"`
	Unless Conditions `json:"unless,omitzero"`
	Do     Actions    `json:"do"`
}

// Conditions are conditions on a message. Those that are absent are not tested. Texts are compared in any case.
type Conditions struct {
	// Direction is out if any recipient is in another domain, otherwise in for a client that did not sign in, otherwise
	// internal.
	Direction []string `json:"direction,omitempty"`
	// From and To hold addresses, or @DOMAIN for all addresses of a domain. From tests the sender of the envelope and
	// the authors in the header, To the recipients of the envelope.
	From []string `json:"from,omitempty"`
	To   []string `json:"to,omitempty"`
	// Group names groups: the submitter or a recipient is a member, also through other groups.
	Group []string `json:"group,omitempty"`
	// Larger is a size with a unit: the message is larger.
	Larger string `json:"larger,omitempty"`
	// Attachment holds patterns of file names (*.exe), of media types (application/*), or * for any attachment.
	Attachment []string `json:"attachment,omitempty"`
	// Subject and Words hold words and phrases in the subject, and in the subject or the text that readers see.
	Subject []string `json:"subject,omitempty"`
	Words   []string `json:"words,omitempty"`
	// Header holds fields of the header as "NAME: TEXT", where the value contains the text, or "NAME" for a field that
	// is present.
	Header []string `json:"header,omitempty"`
	// Verdict holds results of the checks on the way in: junk, held, authenticated, unauthenticated, forged.
	Verdict []string `json:"verdict,omitempty"`
}

// Actions are done with a message that matches.
type Actions struct {
	// Journal records the message in the mail journal, regardless of the journal's own rules.
	Journal bool `json:"journal,omitempty"`
	// Move delivers to this folder of the recipients here instead of the INBOX.
	Move string `json:"move,omitempty"`
	// Refuse rejects the message with this text.
	Refuse string `json:"refuse,omitempty"`
	// Text is put under a message that a person here sends.
	Text string `json:"text,omitempty"`
	// Add holds further recipients; Replace holds recipients instead of those of the envelope.
	Add     []string `json:"add,omitempty"`
	Replace []string `json:"replace,omitempty"`
	// Stop ends the rules for the message.
	Stop bool `json:"stop,omitempty"`
}

// The limits of a form.
const (
	maxForm   = 32 << 10 // bytes
	maxValues = 20       // of one condition, and of Add and Replace
	maxValue  = 200      // bytes of one value
	maxText   = 4000     // bytes of Actions.Text
	maxReply  = 200      // bytes of Actions.Refuse
)

// Bytes returns the rule as JSON, as Parse reads it.
func (f *Form) Bytes() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(f) // texts, lists of texts and switches can always be written
	return bytes.TrimSpace(b.Bytes())
}

// Parse parses and checks a rule. Unknown fields are errors: a rule that is only understood in part could refuse too
// much.
func Parse(text string) (*Form, error) {
	if len(text) > maxForm {
		return nil, fmt.Errorf("rule has %d bytes, at most %d", len(text), maxForm)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("rule is not UTF-8")
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	f := &Form{}
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("rule: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("rule: text after the closing brace")
	}
	for _, c := range []struct {
		name string
		*Conditions
	}{{"when", &f.When}, {"unless", &f.Unless}} {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if err := f.Do.check(); err != nil {
		return nil, fmt.Errorf("do: %w", err)
	}
	return f, nil
}

// check checks the values of conditions.
func (c *Conditions) check() error {
	for _, x := range []struct {
		name   string
		values []string
		check  func(string) error
	}{
		{"direction", c.Direction, oneOf("in", "out", "internal")},
		{"from", c.From, checkSide}, {"to", c.To, checkSide}, {"group", c.Group, checkOneLine},
		{"attachment", c.Attachment, checkPattern}, {"subject", c.Subject, checkWords}, {"words", c.Words, checkWords},
		{"header", c.Header, checkField},
		{"verdict", c.Verdict, oneOf("junk", "held", "authenticated", "unauthenticated", "forged")},
	} {
		if x.values != nil && len(x.values) == 0 { // without it, the rule would match more than its author meant
			return fmt.Errorf("%s: the condition has no value", x.name)
		}
		if err := checkList(x.name, x.values, x.check); err != nil {
			return err
		}
	}
	if c.Larger != "" {
		if n, err := size.Parse(c.Larger); err != nil || n < 0 {
			return fmt.Errorf("larger: %.40q is no size: want a number with a unit, as 10MB", c.Larger)
		}
	}
	return nil
}

func checkList(name string, values []string, check func(string) error) error {
	if len(values) > maxValues {
		return fmt.Errorf("%s: %d values, at most %d", name, len(values), maxValues)
	}
	for _, v := range values {
		if v == "" || len(v) > maxValue {
			return fmt.Errorf("%s: a value has 1 to %d bytes", name, maxValue)
		}
		if err := check(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func oneOf(words ...string) func(string) error {
	return func(v string) error {
		for _, w := range words {
			if v == w {
				return nil
			}
		}
		return fmt.Errorf("%.40q is not one of %s", v, strings.Join(words, ", "))
	}
}

// checkSide checks an address or @DOMAIN.
func checkSide(v string) error {
	if domain, ok := strings.CutPrefix(v, "@"); ok && domain != "" && !strings.ContainsAny(domain, "@ <>") {
		return nil
	}
	return checkAddress(v)
}

func checkAddress(v string) error {
	if p, err := smtp.ParsePath(v); err != nil || p.IsNull() || p.Domain == "" {
		return fmt.Errorf("%.80q is neither an address nor @DOMAIN", v)
	}
	return nil
}

func checkOneLine(v string) error {
	if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%.80q contains control characters", v)
	}
	return nil
}

func checkPattern(v string) error {
	if _, err := path.Match(v, ""); err != nil {
		return fmt.Errorf("%.80q is no pattern: %w", v, err)
	}
	return checkOneLine(v)
}

func checkWords(v string) error {
	if normal(v) == "" {
		return fmt.Errorf("%.80q has no words", v)
	}
	return nil
}

func checkField(v string) error {
	name, _, _ := strings.Cut(v, ":")
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%.80q is neither NAME nor NAME: TEXT", v)
	}
	return checkOneLine(v)
}

// check checks actions. A refusal excludes others, which would never happen.
func (a *Actions) check() error {
	switch {
	case reflect.ValueOf(*a).IsZero():
		return errors.New("no action: want journal, move, refuse, text, add, replace or stop")
	case a.Refuse != "" && !reflect.DeepEqual(*a, Actions{Refuse: a.Refuse}):
		return errors.New("refuse excludes other actions")
	case len(a.Refuse) > maxReply || strings.ContainsFunc(a.Refuse, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("refuse: a reply has at most %d ASCII characters in one line", maxReply)
	case len(a.Add) > 0 && len(a.Replace) > 0:
		return errors.New("add and replace exclude each other")
	case len(a.Text) > maxText:
		return fmt.Errorf("text: %d bytes, at most %d", len(a.Text), maxText)
	case a.Text != "" && strings.TrimSpace(a.Text) == "" || strings.ContainsFunc(a.Text, unprintable):
		return errors.New("text: empty, or with control characters")
	case a.Move != "":
		if _, err := mailbox.Normalize(a.Move); err != nil {
			return fmt.Errorf("move: %w", err)
		}
	}
	if err := checkList("add", a.Add, checkAddress); err != nil {
		return err
	}
	return checkList("replace", a.Replace, checkAddress)
}

func unprintable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }
