package ruleset

import (
	"regexp"
	"strings"

	"doublet/wire/mime"
)

// answered matches what an answer or a forward puts before a subject.
var answered = regexp.MustCompile(`(?i)^\s*(re|aw|fwd?|wg|sv|回复|转发|答复)(\[\d+\])?\s*[::]\s*`)

// Suggest returns the conditions that the header of a message suggests for a rule: its list, its author and its
// subject, as far as it has them.
func Suggest(header []byte) []Condition {
	out := []Condition{}
	if id, ok := mime.Get(header, "List-Id"); ok {
		if _, in, found := strings.Cut(id, "<"); found {
			id, _, _ = strings.Cut(in, ">")
		}
		if id = strings.TrimSpace(id); id != "" && len(id) <= MaxName {
			out = append(out, Condition{Field: "list", Comparison: "contains", Values: []string{id}})
		}
	}
	if from, ok := mime.Get(header, "From"); ok {
		list := mime.ParseAddressList([]byte(from))
		if len(list) > 0 && !list[0].Group && list[0].Mailbox != "" && list[0].Host != "" {
			out = append(out, Condition{Field: "from", Comparison: "is",
				Values: []string{list[0].Mailbox + "@" + list[0].Host}})
		}
	}
	if subject, ok := mime.Get(header, "Subject"); ok {
		subject = strings.TrimSpace(mime.DecodeWords(subject))
		for answered.MatchString(subject) {
			subject = answered.ReplaceAllString(subject, "")
		}
		if subject != "" && len(subject) <= MaxName {
			out = append(out, Condition{Field: "subject", Comparison: "contains", Values: []string{subject}})
		}
	}
	return out
}
