package production

import (
	"fmt"
	"strings"

	"doublet/plan/estimate"
	"doublet/stat/chart"
)

// span formats an interval.
func span(i estimate.Interval, format string) string {
	if !(i.High > i.Low) {
		return fmt.Sprintf(format, i.Value) + " (no interval)"
	}
	return fmt.Sprintf(format+" ("+format+" to "+format+")", i.Value, i.Low, i.High)
}

// Percent formats a change with its interval.
func Percent(i *estimate.Interval) string {
	if i == nil {
		return "–"
	}
	return span(*i, "%+.1f") + " %"
}

// Text returns the report as text.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Server, r.Decision)
	for _, w := range r.Why {
		fmt.Fprintf(&b, "  because %s\n", w)
	}
	for side, name := range []string{"before", "after"} {
		if r.Days[side] == 0 {
			continue
		}
		if r.Decision == Described {
			name = "all"
		}
		fmt.Fprintf(
			&b,
			"%-7s %d days, %.0f active users, CPU of an active user in 15 minutes %s s\n",
			name,
			r.Days[side],
			r.Users[side],
			span(r.Cost[side], "%.4f"),
		)
		if m := r.Model[side]; m != nil {
			fmt.Fprintf(&b, "        fixed %s s, a further user %s s (explains %.0f %%)\n", span(m.Fixed, "%.1f"),
				span(m.User, "%.4f"), m.Explained*100)
		}
		p := r.Peaks[side]
		fmt.Fprintf(
			&b,
			"        peak of 15 minutes %.0f CPU-s at %s, %.1f times the mean; at most %.0f active users\n",
			p.CPU,
			p.At.In(r.options.Zone).Format("2006-01-02 15:04"),
			p.Ratio,
			p.Users,
		)
	}
	if r.Change != nil {
		fmt.Fprintf(&b, "change   of an active user %s, of all %s\n", Percent(r.Change), Percent(r.Total))
	}
	if r.Beside != nil {
		fmt.Fprintf(&b, "beside   %s, which was not changed: %s\n", r.Other, Percent(r.Beside))
	}
	if len(r.Tasks) > 0 {
		fmt.Fprintf(&b, "%-16s %12s %12s %7s  %s\n", "task", "before, s", "after, s", "share", "change (95 %)")
	}
	for _, t := range r.Tasks {
		fmt.Fprintf(&b, "%-16s %12s %12s %6.1f%%  %s\n", t.Name, t.Cost[0].Text("%.4f"), t.Cost[1].Text("%.4f"),
			t.Share, Percent(t.Change))
	}
	for _, x := range r.Workload {
		fmt.Fprintf(&b, "%-16s %12s %12s          %s\n", x.Name, chart.Number(float64(x.Rate[0])),
			chart.Number(float64(x.Rate[1])),
			Percent(x.Change))
	}
	if r.PerMessage != nil {
		fmt.Fprintf(&b, "Router, of a message: %s\n", Percent(r.PerMessage))
	}
	for _, x := range r.LeftOut {
		fmt.Fprintf(&b, "left out: %d intervals: %s\n", x.Intervals, x.Reason)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s: %s\n", w.Kind, w.Text)
	}
	return b.String()
}
