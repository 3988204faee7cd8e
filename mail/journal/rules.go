package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
)

// Rules select the messages to journal. Without rules all are selected.
//
// The text of rules is "in; from=@example.com to=bob@far.example; group=\"Board of directors\"". A message is selected
// if any rule fits. A rule fits if all its conditions do:
//
//	in, out, internal   the direction
//	from=ADDRESS        the sender of the envelope; @DOMAIN means any address in the domain
//	to=ADDRESS          a recipient, also a group, as the client named it or as its member
//	domain=DOMAIN       the sender or a recipient is in the domain
//	group=NAME          the sender, if signed in, or a recipient is a member of the group, also through other groups
type Rules []rule

type rule []condition

type condition struct{ what, value string }

// The limits of rules.
const (
	maxRules      = 100
	maxConditions = 16
	maxRuleText   = 10_000
)

// ParseRules parses the text of rules.
func ParseRules(text string) (Rules, error) {
	if len(text) > maxRuleText {
		return nil, fmt.Errorf("rules have %d bytes, at most %d", len(text), maxRuleText)
	}
	var all Rules
	var one rule
	for rest := text; ; {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if rest == "" || rest[0] == ';' {
			if len(one) > 0 {
				all = append(all, one)
			}
			if one = nil; rest == "" {
				break
			}
			rest = rest[1:]
			continue
		}
		c, after, err := parseCondition(rest)
		if err != nil {
			return nil, err
		}
		one, rest = append(one, c), after
		if len(one) > maxConditions || len(all) > maxRules {
			return nil, fmt.Errorf("at most %d rules of %d conditions", maxRules, maxConditions)
		}
	}
	return all, nil
}

// parseCondition parses one condition at the beginning of a text.
func parseCondition(text string) (c condition, rest string, err error) {
	n := strings.IndexAny(text, "=; \t\r\n")
	if n < 0 {
		n = len(text)
	}
	c.what, rest = strings.ToLower(text[:n]), text[n:]
	if !strings.HasPrefix(rest, "=") {
		if d := Direction(c.what); d != In && d != Out && d != Internal {
			return c, "", fmt.Errorf("%.40q is no condition: want in, out, internal, from=, to=, domain= or group=",
				c.what)
		}
		return c, rest, nil
	}
	if rest = rest[1:]; strings.HasPrefix(rest, `"`) {
		value, after, ok := strings.Cut(rest[1:], `"`)
		if !ok {
			return c, "", errors.New(`value without a closing "`)
		}
		c.value, rest = value, after
	} else {
		if n = strings.IndexAny(rest, "; \t\r\n"); n < 0 {
			n = len(rest)
		}
		c.value, rest = rest[:n], rest[n:]
	}
	return c, rest, c.check()
}

func (c *condition) check() error {
	_, domain, at := strings.Cut(c.value, "@")
	switch {
	case c.value == "":
		return fmt.Errorf("%s= has no value", c.what)
	case c.what == "group":
		return nil
	case (c.what == "from" || c.what == "to") && at && domain != "":
		return nil
	case c.what == "from" || c.what == "to":
		return fmt.Errorf("%s=%.80s is neither an address nor @domain", c.what, c.value)
	case c.what == "domain" && !at:
		return nil
	case c.what == "domain":
		return fmt.Errorf("domain=%.80s contains @", c.value)
	}
	return fmt.Errorf("%.40q is no condition: want from=, to=, domain= or group=", c.what+"=")
}

// selects reports whether a message is to be journaled. member reports whether a person is in a group.
func (rs Rules) selects(m *Message, member func(group string, person note.UNID) bool) bool {
	if len(rs) == 0 {
		return true
	}
	for _, r := range rs {
		if r.fits(m, member) {
			return true
		}
	}
	return false
}

func (r rule) fits(m *Message, member func(group string, person note.UNID) bool) bool {
	for _, c := range r {
		if !c.fits(m, member) {
			return false
		}
	}
	return true
}

func (c *condition) fits(m *Message, member func(group string, person note.UNID) bool) bool {
	anyRecipient := func(fits func(r *Recipient) bool) bool {
		for i := range m.Recipients {
			if fits(&m.Recipients[i]) {
				return true
			}
		}
		return slices.ContainsFunc(m.Details.Envelope, func(a string) bool { // has the addresses of groups
			return fits(&Recipient{Address: a})
		})
	}
	switch c.what {
	case "from":
		return matches(m.From, c.value)
	case "to":
		return anyRecipient(func(r *Recipient) bool { return matches(r.Address, c.value) })
	case "domain":
		return matches(m.From, "@"+c.value) ||
			anyRecipient(func(r *Recipient) bool { return matches(r.Address, "@"+c.value) })
	case "group":
		return !m.Sender.IsZero() && member(c.value, m.Sender) ||
			anyRecipient(func(r *Recipient) bool { return !r.Person.IsZero() && member(c.value, r.Person) })
	}
	return Direction(c.what) == m.direction()
}

// matches reports whether an address is the wanted one, or in the wanted "@domain".
func matches(address, want string) bool {
	if strings.HasPrefix(want, "@") {
		at := strings.LastIndexByte(address, '@')
		return at >= 0 && strings.EqualFold(address[at:], want)
	}
	return strings.EqualFold(address, want)
}
