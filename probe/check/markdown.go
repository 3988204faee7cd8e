package check

import (
	_ "embed"
	"fmt"
	"strings"

	"doublet/probe"
)

//go:embed intro.txt
var intro string

// Markdown returns doc/probes.md: how probes work, and a table of all of them.
func Markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("Made by `make gen` from the code, as is all of this page (`probe/check`).\n\n")
	b.WriteString("| type | probe | looks at | every, hold, clear | thresholds | cause | remedy |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, k := range append(Kinds(), &probe.Failing) {
		var limits []string
		for _, l := range k.Limits {
			limits = append(limits, l.Name+" "+l.Unit.Format(l.Default))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s, %s, %s | %s | %s | %s |\n", k.Type, k.Name, k.What,
			probe.Time.Format(k.Every.Seconds()), probe.Time.Format(k.Hold.Seconds()),
			probe.Time.Format(k.Clear.Seconds()),
			strings.Join(limits, ", "), k.Cause, k.Remedy)
	}
	return b.String()
}
