package lite

import (
	"cmp"
	"strings"

	"doublet/mail/ruleset"
)

// sentence returns the conditions and actions of a rule in words, or the first line of an opaque one.
func (v *visit) sentence(r *ruleset.Rule) string {
	if r.Opaque {
		for line := range strings.SplitSeq(r.Text, "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				return line
			}
		}
		return ""
	}
	var conditions, actions []string
	for i := range r.Conditions {
		conditions = append(conditions, v.conditionText(&r.Conditions[i]))
	}
	if len(conditions) == 0 {
		conditions = []string{v.T("ruleEvery")}
	}
	for _, a := range r.Actions {
		actions = append(actions, v.T("rule"+capital(a.Type), a.Value))
	}
	if r.Stop {
		actions = append(actions, v.T("ruleStop"))
	}
	joiner := v.T("ruleAnd")
	if r.Match == "any" {
		joiner = v.T("ruleOr")
	}
	return strings.Join(conditions, " "+joiner+" ") + " → " + strings.Join(actions, ", ")
}

func (v *visit) conditionText(c *ruleset.Condition) string {
	key := "rule"
	if c.Not {
		key += "Not"
	}
	text := v.T("rule"+capital(c.Field)) + " "
	if c.Field == "header" {
		text = c.Header + " "
	}
	text += v.T(key + capital(cmp.Or(c.Comparison, "has")))
	if c.Field == "size" {
		return text + " " + size(float64(c.Size))
	}
	var values []string
	for _, s := range c.Values {
		values = append(values, "“"+s+"”")
	}
	return strings.TrimSpace(text + " " + strings.Join(values, " "+v.T("ruleOr")+" "))
}
