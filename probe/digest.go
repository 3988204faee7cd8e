package probe

import (
	"fmt"
	"strings"
	"time"
)

// Digest returns the subject and the text of a mail about events. more is the number of events that it does not list.
func Digest(server string, list []Event, more int) (subject, text string) {
	open, worst := 0, Normal
	var b strings.Builder
	for i := range list {
		e := &list[i]
		if e.State == StateOpen {
			open, worst = open+1, max(worst, e.Severity)
		}
		fmt.Fprintf(&b, "%s  %s  %s/%s", strings.ToUpper(e.Severity.String()), e.State, e.Type, e.Probe)
		if e.Target != "" {
			fmt.Fprintf(&b, "  %s", e.Target)
		}
		fmt.Fprintf(&b, "\n  Cause:  %s\n", e.Cause)
		if e.State == StateOpen {
			fmt.Fprintf(&b, "  Remedy: %s\n  Since:  %s, found %d "+
				"times\n", e.Remedy, e.Changed.UTC().Format(time.RFC3339),
				e.Count)
		} else {
			fmt.Fprintf(&b, "  From %s to %s\n", e.First.UTC().Format(time.RFC3339), e.Last.UTC().Format(time.RFC3339))
		}
		fmt.Fprintf(&b, "  doublet event show %s\n\n", e.ID)
	}
	if more > 0 {
		fmt.Fprintf(&b, "%d further changes follow in the next mail; doublet show events lists all events.\n\n", more)
	}
	fmt.Fprintf(&b, "This is a digest of the events of %s. The settings are in the section [probes].\n", server)
	if open == 0 {
		return fmt.Sprintf("%s: %d events closed", server, len(list)), b.String()
	}
	return fmt.Sprintf("%s: %d open events, %s", server, open, worst), b.String()
}
