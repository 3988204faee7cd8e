package lab

import (
	"context"
	"fmt"
	"strings"

	"doublet/admin"
	"doublet/bench"
	"doublet/mail/mailrule"
)

// Rule is a mail rule of the domain.
type Rule struct {
	Name string
	Text string // conditions and actions as JSON, as rules add has them
}

// ParseRule parses a mail rule from a flag, NAME=JSON.
func ParseRule(text string) (Rule, error) {
	name, rule, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return Rule{}, bench.Usage("--rule %s: want NAME=JSON", text)
	}
	if _, err := mailrule.Parse(rule); err != nil {
		return Rule{}, bench.Usage("--rule %s: %w", name, err)
	}
	return Rule{name, rule}, nil
}

// rules adds the mail rules to every server that has a directory of its own.
func (l *Lab) rules(ctx context.Context, rules []Rule) error {
	servers := l.Servers
	if l.Clustered {
		servers = servers[:1]
	}
	for _, s := range servers {
		for _, r := range rules {
			if _, err := ask[admin.MailRule](ctx, s, "rules add",
				admin.MailRuleAdd{Name: r.Name, Rule: r.Text}); err != nil {
				return fmt.Errorf("lab: mail rule %s: %w", r.Name, err)
			}
		}
	}
	return nil
}
