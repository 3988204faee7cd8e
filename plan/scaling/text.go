package scaling

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"doublet/plan/estimate"
	"doublet/plan/page"
	"doublet/stat/chart"
)

// ratio formats a ratio with its interval.
func ratio(i estimate.Interval) string {
	if math.IsNaN(i.Low) {
		return fmt.Sprintf("%.3f (not repeated)", i.Value)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", i.Value, i.Low, i.High)
}

// Text returns the report as text.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%10s %11s %14s %10s %8s %10s %8s %10s  %s\n",
		"processors",
		"partitions",
		"guests",
		"users",
		"repeats",
		"ETR",
		"CPU %",
		"ITR",
		"ITR ratio",
	)
	for _, x := range r.Rows {
		fmt.Fprintf(&b, "%10d %11d %14s %10d %8d %10s %8.1f %10s  %s\n", x.Processors, x.Partitions, x.guests(),
			x.Users, x.Repeats, chart.Number(x.ETR), x.CPU, chart.Number(x.ITR), ratio(x.PerITR))
	}
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "%d to %d processors: factor %s\n", s.From, s.To, ratio(s.Factor))
		for _, x := range append(s.Beside, s.Rules...) {
			fmt.Fprintf(&b, "    %s\n", x)
		}
	}
	for _, p := range r.Partitions {
		fmt.Fprintf(&b, "%d to %d partitions: CPU %s, ITR %s, ETR %s\n", p.From, p.To, Percent(p.CPU), Percent(p.ITR),
			Percent(p.ETR))
	}
	for _, g := range r.Guests {
		fmt.Fprintf(&b, "guests %s to %s, %d users: CPU %s, ITR %s, ETR %s\n", g.From, g.To, g.Users, Percent(g.CPU),
			Percent(g.ITR), Percent(g.ETR))
	}
	if l := r.Law; l != nil {
		fmt.Fprintf(
			&b,
			"USL over %s: λ %.4g (%.4g to %.4g), σ %.4g (%.4g to %.4g), κ %.3g (%.3g to %.3g)\n",
			l.Over,
			l.Lambda.Value,
			l.Lambda.Low,
			l.Lambda.High,
			l.Sigma.Value,
			l.Sigma.Low,
			l.Sigma.High,
			l.Kappa.Value,
			l.Kappa.Low,
			l.Kappa.High,
		)
		if l.Peak > 0 {
			fmt.Fprintf(&b, "    most throughput at %.0f %s\n", l.Peak, l.Over)
		} else {
			b.WriteString("    no peak is shown: the interval of κ contains 0\n")
		}
	} else {
		fmt.Fprintf(&b, "no USL: %s\n", r.NoLaw)
	}
	if r.NoCheck != "" {
		fmt.Fprintf(&b, "no queueing model: %s\n", r.NoCheck)
	}
	for _, m := range r.Marks {
		fmt.Fprintf(&b, "marked: %s\n", m)
	}
	for i, c := range r.Check {
		if i == 0 {
			fmt.Fprintf(&b, "queueing model from the fewest users, bottleneck %s:\n", c.Bottleneck)
		}
		fmt.Fprintf(
			&b,
			"    %d users: ETR %s, measured %s; response %s ms, measured %s ms\n",
			c.Users,
			chart.Number(c.Rate),
			chart.Number(c.Measured),
			chart.Number(c.Response),
			chart.Number(c.Found),
		)
	}
	return b.String()
}

// method is the paragraph that tells how the figures came about.
const method = `ETR is the completed user actions a second, ITR the ETR over the share of the processors that the
server used: what they would do if they were all used. A scaling factor is the quotient of two ITR with the same users
a processor. Intervals come from repeated measurements (a mean: Student's t; a quotient: Welch, delta method); one
measurement has none. The Universal Scalability Law is fitted to relative errors, and refused where the data leave it
open. The queueing model is exact Mean Value Analysis with the demands of the step with the fewest users, so that it
predicts the others.`

// Page returns the report as a page.
func (r *Report) Page() *page.Page {
	p := &page.Page{Kicker: "Doublet plan · scaling", Title: "How the server scales", Marks: r.Marks,
		Method: method}
	p.Sections = r.Sections()
	return p
}

// Sections returns the figures and tables of the page.
func (r *Report) Sections() []page.Section {
	table := page.Section{Title: "Rates",
		Head: []string{"processors", "partitions", "guests", "users", "repeats", "ETR", "CPU %", "ITR", "ITR ratio"}}
	ratios := &chart.Bars{Title: "ITR over that of the first row", Y: "ratio",
		Note: "processors/partitions/users", Interval: "95 % intervals of repeats", Without: "one run"}
	bar := chart.Bar{Name: "ITR ratio"}
	for i := range r.Rows {
		x := &r.Rows[i]
		table.Rows = append(table.Rows, []string{fmt.Sprint(x.Processors), fmt.Sprint(x.Partitions),
			x.guests(), fmt.Sprint(x.Users), fmt.Sprint(x.Repeats), chart.Number(x.ETR), fmt.Sprintf("%.1f", x.CPU),
			chart.Number(x.ITR), ratio(x.PerITR)})
		group := fmt.Sprintf("%d/%d/%d", x.Processors, x.Partitions, x.Users)
		if x.Guests > 0 {
			group += ", " + x.guests()
			ratios.Note, ratios.Across = "processors/partitions/users, guests at virtual:real", true
		}
		ratios.Groups = append(ratios.Groups, group)
		bar.Values = append(bar.Values, x.PerITR.Value)
		bar.Low, bar.High = append(bar.Low, x.PerITR.Low), append(bar.High, x.PerITR.High)
	}
	ratios.Series = []chart.Bar{bar}
	const perSecond = "actions a second"
	figures := []page.Figure{r.curve("ETR against users", perSecond, func(x *Row) []float64 { return x.rates }),
		r.curve("ITR against users", perSecond, func(x *Row) []float64 { return x.itr }),
		r.curve("CPU against users", "percent of the processors", func(x *Row) []float64 { return x.cpu }), ratios}
	figures = append(figures, r.costOfGuests()...)
	if len(r.Check) > 1 {
		model, found := chart.Line{Name: "model (MVA)"}, chart.Line{Name: "measured"}
		for _, c := range r.Check {
			model.Points = append(model.Points, chart.Point{X: float64(c.Users), Y: c.Response})
			found.Points = append(found.Points, chart.Point{X: float64(c.Users), Y: c.Found})
		}
		figures = append(figures, &chart.Chart{Title: "Response time: model and measurement", X: "users", Y: "ms",
			Lines: []chart.Line{model, found}})
	}
	return []page.Section{{Title: "Figures", Figures: figures}, table,
		{Title: "Results", List: strings.Split(strings.TrimSpace(r.after()), "\n")}}
}

// maxGuests bounds the bars of a figure.
const maxGuests = 16

// costOfGuests returns figures of the change of ITR by guests and their virtual processors: one for all pairs with the
// same processors, partitions and users.
func (r *Report) costOfGuests() (out []page.Figure) {
	at := map[string]*chart.Bars{}
	for i := range r.Guests {
		g := &r.Guests[i]
		note := fmt.Sprintf("processors %d, partitions %d, users %d", g.Processors, g.Partitions, g.Users)
		f := at[note]
		if f == nil {
			f = &chart.Bars{Title: "Change of ITR by guests and virtual processors", Y: "percent", Note: note,
				Across: true, Interval: "95 % intervals", Without: "one run",
				Series: []chart.Bar{{Name: "change of ITR"}}}
			at[note], out = f, append(out, f)
		}
		if len(f.Groups) == maxGuests {
			continue
		}
		f.Groups = append(f.Groups, g.From+" → "+g.To)
		bar := &f.Series[0]
		bar.Values = append(bar.Values, g.ITR.Value)
		bar.Low, bar.High = append(bar.Low, g.ITR.Low), append(bar.High, g.ITR.High)
	}
	return out
}

// maxLines bounds the lines of a figure.
const maxLines = 6

// curve returns the figure of a value against users, with a line for each configuration, up to maxLines, and the
// interval of each point that was repeated.
func (r *Report) curve(title, unit string, of func(*Row) []float64) *chart.Chart {
	f := &chart.Chart{Title: title, X: "users", Y: unit}
	if strings.HasPrefix(unit, "percent") {
		f.Top = 100
	}
	// With guests the legend has room for short names only.
	guests := slices.ContainsFunc(r.Rows, func(x Row) bool { return x.Guests > 0 })
	if guests {
		f.Note = "processors/partitions, guests at virtual:real"
	}
	for i := range r.Rows {
		x := &r.Rows[i]
		// The rows of a configuration follow each other.
		if last := i - 1; last < 0 || r.Rows[last].Processors != x.Processors ||
			r.Rows[last].Partitions != x.Partitions || !sameGuests(&r.Rows[last], x) {
			if len(f.Lines) == maxLines {
				f.Note = strings.TrimPrefix(fmt.Sprintf("%s; the first %d configurations", f.Note, maxLines), "; ")
				break
			}
			name := fmt.Sprintf("processors %d, partitions %d", x.Processors, x.Partitions)
			if guests {
				name = fmt.Sprintf("%d/%d, %s", x.Processors, x.Partitions, x.guests())
			}
			f.Lines = append(f.Lines, chart.Line{Name: name})
		}
		l := &f.Lines[len(f.Lines)-1]
		mean := estimate.Mean(of(x))
		l.Points = append(l.Points, chart.Point{X: float64(x.Users), Y: mean.Value, Low: mean.Low, High: mean.High})
	}
	return f
}

// after returns the lines of the text after the table of rows.
func (r *Report) after() string {
	lines := strings.SplitAfterN(r.Text(), "\n", len(r.Rows)+2)
	return lines[len(lines)-1]
}
