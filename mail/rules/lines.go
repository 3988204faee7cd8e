package rules

import (
	"fmt"
	"strings"
)

// Lines describes an outcome, one line for each action.
func (o *Outcome) Lines() (out []string) {
	add := func(format string, args ...any) {
		out = append(out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	for _, f := range o.Filings {
		line := "keep"
		if f.Folder != "" {
			line = "fileinto " + f.Folder
		}
		if f.Use != "" {
			line += " (use " + f.Use + ")"
		}
		if f.Create {
			line += " (created if missing)"
		}
		add("%s %s", line, strings.Join(f.Flags, " "))
	}
	for _, a := range o.Redirects {
		add("redirect %s", a)
	}
	if o.Rejected {
		add("reject %s", o.Reason)
	}
	if o.Vacation != nil {
		add("vacation %s", o.Vacation.Subject)
	}
	for _, n := range o.Notices {
		add("notify %s", strings.Join(n.To, " "))
	}
	if o.Header != nil {
		add("the header is changed")
	}
	if o.Err != nil {
		add("error: %v", o.Err)
	}
	if len(o.Filings)+len(o.Redirects) == 0 && !o.Rejected {
		add("discard")
	}
	return out
}
