package workload

import (
	"fmt"
	"strings"
	"time"
)

// Explain describes the actions of a user, one line for each.
func (w *Workload) Explain(set map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n", w.Title, strings.TrimSpace(w.Source))
	if w.Unknown != "" {
		fmt.Fprintf(&b, "not compared with others: %s\n\n", w.Unknown)
	}
	fmt.Fprintf(&b, "carried by %s", w.Protocol)
	if len(w.Over) > 0 {
		fmt.Fprintf(&b, ", or over %s", strings.Join(w.Over, ", "))
	}
	signs := "stays signed in"
	if w.Session == "loop" {
		signs = "signs in for each loop and out behind it"
	}
	fmt.Fprintf(&b, "\na user %s; a loop takes %s, the first begins %s after signing in\n", signs, w.Loop, w.Stagger)
	if m := w.Mailbox; m.Messages > 0 {
		mean := Mean(w.Sizes[m.Sizes])
		fmt.Fprintf(&b, "a mailbox begins with %d messages of %.1f KB on average, %.0f MB, %d %% of them read\n",
			m.Messages, mean/1000, mean*float64(m.Messages)/1e6, m.Seen)
	}
	if w.Sent {
		b.WriteString("over IMAP a copy of what is sent is filed in Sent\n")
	}
	if w.Attachments > 0 {
		fmt.Fprintf(&b, "over IMAP a message is read without its attachments, of which %d %% are fetched then\n",
			w.Attachments)
	}
	fmt.Fprintf(&b, "an average response over %s discards a step\n\nin each loop a user\n", w.Limit)
	for i := range w.Actions {
		b.WriteString("  " + w.sentence(&w.Actions[i], set) + "\n")
	}
	fmt.Fprintf(&b, "\nthat is, in an hour:")
	hour := w.PerHour(set)
	seen := make(map[Verb]bool)
	for i := range w.Actions {
		v := w.Actions[i].Do
		if !seen[v] {
			seen[v] = true
			fmt.Fprintf(&b, " %s %.3g", v, hour[string(v)])
		}
	}
	b.WriteString("\n")
	w.explainProtocols(&b)
	for name, p := range w.Parameters {
		fmt.Fprintf(&b, "--set %s=%d: %s\n", name, p.Default, p.Doc)
	}
	return b.String()
}

// explainProtocols describes, for each protocol of the workload, how it carries the actions that protocols carry in
// different ways, and what it leaves out.
func (w *Workload) explainProtocols(b *strings.Builder) {
	for i, p := range append([]string{w.Protocol}, w.Over...) {
		if i > 0 && p == w.Protocol {
			continue
		}
		seen := make(map[Verb]bool)
		for i := range w.Actions {
			v := w.Actions[i].Do
			if way := verbs[v].ways[p]; way != "" && Carries(p, v) && !seen[v] {
				fmt.Fprintf(b, "over %s, %s: %s\n", p, v, way)
			}
			seen[v] = true
		}
		if left := w.Left(p); len(left) > 0 {
			fmt.Fprintf(b, "left out over %s, which cannot carry it yet: %s\n", p, strings.Join(left, ", "))
		}
	}
	if w.Before != "" {
		fmt.Fprintf(b, "before: %s\n", strings.TrimSpace(w.Before))
	}
}

func (w *Workload) sentence(a *Action, set map[string]int) string {
	s := verbs[a.Do].words
	times, per := w.Times(a, set), w.Per(a, set)
	switch {
	case per == 1 && times != 1:
		s += fmt.Sprintf(", %d times", times)
	case per != 1 && times == 1:
		s += fmt.Sprintf(", once in %d loops", per)
	case per != 1:
		s += fmt.Sprintf(", %d times in %d loops", times, per)
	}
	if a.To > 0 {
		s += fmt.Sprintf(", to %d", a.To)
	}
	if a.Sizes != "" {
		s += fmt.Sprintf(", %.1f KB on average", Mean(w.Sizes[a.Sizes])/1000)
	}
	if a.Hold > 0 {
		s += ", for " + a.Hold.String()
	}
	if time.Duration(a.Think.Max) > 0 {
		s += "; then thinks " + a.Think.String()
	}
	if a.Source != "" {
		s += " (" + a.Source + ")"
	}
	return s
}
