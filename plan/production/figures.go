package production

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/plan/estimate"
	"doublet/plan/page"
	"doublet/stat/chart"
)

// method is the paragraph that tells how the figures came about.
const method = `The series are brought to intervals of 15 minutes. Only the prime shift counts, without holidays and
named maintenance tasks. The cost of a user is the sum of processor seconds over the sum of active users. An interval
without a value of a measure does not count for it. Intervals come from a bootstrap in moving blocks of whole days (at
least a working week), with the critical values of Kiefer and Vogelsang, because days depend on those before. A change
whose interval contains 0 is no decision. The figures follow those of document 000, in its order.`

// Page returns the report of several servers as a page. The figures are document 000's 14, of those whose data are
// there.
func Page(reports []*Report, input []string) *page.Page {
	p := &page.Page{Kicker: "Doublet plan · production", Title: "CPU per active user in production", Method: method}
	var names []string
	for _, r := range reports {
		names = append(names, r.Server)
		label := r.Server
		if r.Change != nil {
			p.Tiles = append(p.Tiles, page.Tile{Value: string(r.Decision), Label: label + ", CPU of an active user: " +
				Percent(r.Change)})
		}
		for _, w := range r.Warnings {
			p.Marks = append(p.Marks, r.Server+": "+w.Kind)
		}
	}
	p.Title += ": " + strings.Join(names, ", ")
	var missing []string
	p.Sections = append(p.Sections, page.Section{Title: "Figures", Figures: figures(reports, &missing)})
	if len(missing) > 0 {
		p.Sections = append(
			p.Sections,
			page.Section{Title: "Figures without data", Text: "The input has no columns for these.",
				List: missing},
		)
	}
	for _, r := range reports {
		p.Sections = append(p.Sections, r.section())
	}
	if len(input) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Found in the input", List: input})
	}
	return p
}

func (r *Report) section() page.Section {
	s := page.Section{Title: r.Server, Head: []string{"", "before", "after", "change, 95 % interval"}}
	s.List = append(s.List, r.Why...)
	for _, w := range r.Warnings {
		s.List = append(s.List, "Warning, "+w.Kind+": "+w.Text)
	}
	row := func(name string, a, b float64, iv *estimate.Interval) {
		s.Rows = append(s.Rows, []string{name, chart.Number(a), chart.Number(b), Percent(iv)})
	}
	s.Rows = append(s.Rows, []string{"days", fmt.Sprint(r.Days[0]), fmt.Sprint(r.Days[1]), ""},
		[]string{"active users", chart.Number(r.Users[0]), chart.Number(r.Users[1]), ""})
	row("CPU of an active user, s", r.Cost[0].Value, r.Cost[1].Value, r.Change)
	for _, t := range r.Tasks {
		row("CPU of "+t.Name+", s", float64(t.Cost[0]), float64(t.Cost[1]), t.Change)
	}
	for _, x := range r.Workload {
		row(x.Name+" of an active user", float64(x.Rate[0]), float64(x.Rate[1]), x.Change)
	}
	for side, name := range []string{"before", "after"} {
		if m := r.Model[side]; m != nil {
			s.List = append(
				s.List,
				fmt.Sprintf("Regression %s: fixed cost %s s in 15 minutes, cost of a further user %s s; "+
					"explains %.0f %% of the "+
					"variance", name, span(m.Fixed, "%.1f"), span(m.User, "%.4f"), m.Explained*100),
			)
		}
		if p := r.Peaks[side]; p.CPU > 0 {
			s.List = append(
				s.List,
				fmt.Sprintf("Peak %s: %.0f processor seconds in 15 minutes at %s, %.1f times the mean of the "+
					"prime shift", name, p.CPU, p.At.In(r.options.Zone).Format("2006-01-02 15:04"), p.Ratio),
			)
		}
	}
	return s
}

// start returns the first day of all reports.
func start(reports []*Report) time.Time {
	var first time.Time
	for _, r := range reports {
		if len(r.days) > 0 && (first.IsZero() || r.days[0].at.Before(first)) {
			first = r.days[0].at
		}
	}
	return first
}

// drawing makes the figures of reports.
type drawing struct {
	reports []*Report
	first   time.Time
	figures []page.Figure
	missing *[]string
}

func figures(reports []*Report, missing *[]string) []page.Figure {
	d := &drawing{reports: reports, first: start(reports), missing: missing}
	perUser := func(name string) func(*dayOf) (float64, bool) {
		return func(x *dayOf) (float64, bool) { m, ok := x.rates[name]; return m.amount / m.per, ok }
	}
	perInterval := func(name string) func(*dayOf) (float64, bool) {
		return func(x *dayOf) (float64, bool) { m, ok := x.rates[name]; return m.mean(), ok }
	}
	d.daily("1. Active users of 15 minutes", "users", func(x *dayOf) (float64, bool) {
		return x.users / float64(x.intervals), true
	})
	d.daily("2. Transactions", "in 15 minutes", perInterval("transactions"))
	d.daily("3. Transactions of an active user", "in 15 minutes", perUser("transactions"))
	d.split("4. Waits for locks", "in 15 minutes", "lock_waits")
	d.daily(
		"5. CPU of an active user",
		"seconds in 15 minutes",
		func(x *dayOf) (float64, bool) { return x.cpu / x.users, true },
	)
	for i, r := range reports[:min(2, len(reports))] {
		d.tasks(fmt.Sprintf("%d. CPU by task, %s", 6+i, r.Server), r)
	}
	d.savings()
	d.daily("10. Cost of a message, Router", "CPU-s", func(x *dayOf) (float64, bool) {
		return x.router.amount / x.router.per, x.router.per > 0 && x.router.amount > 0
	})
	d.daily("11. Messages of an active user", "in 15 minutes", perUser("messages"))
	d.cache()
	d.daily("13. Replications", "in 15 minutes", perInterval("replications"))
	d.results()
	return d.figures
}

func (d *drawing) day(x *dayOf) float64 { return float64(int(x.at.Sub(d.first).Hours() / 24)) }

// add adds a figure of lines over days, if any has points.
func (d *drawing) add(title, unit string, lines []chart.Line) {
	kept := slices.DeleteFunc(lines, func(l chart.Line) bool { return len(l.Points) < 2 })
	if len(kept) == 0 {
		*d.missing = append(*d.missing, title)
		return
	}
	note := ""
	if c := d.reports[0].options.Changed; !c.IsZero() {
		note = fmt.Sprintf("means of the prime shift; the change was on day %d", int(c.Sub(d.first).Hours()/24+0.99))
	}
	d.figures = append(
		d.figures,
		&chart.Chart{Title: title, Y: unit, X: "days from " + d.first.Format("2 January 2006"),
			Note: note, Lines: kept},
	)
}

// daily adds a line of each server.
func (d *drawing) daily(title, unit string, of func(*dayOf) (float64, bool)) {
	var lines []chart.Line
	for _, r := range d.reports {
		l := chart.Line{Name: r.Server}
		for i := range r.days {
			if v, ok := of(&r.days[i]); ok {
				l.Points = append(l.Points, chart.Point{X: d.day(&r.days[i]), Y: v})
			}
		}
		lines = append(lines, l)
	}
	d.add(title, unit, lines)
}

// split adds a line for each part of a measure, of the first server that has it.
func (d *drawing) split(title, unit, measure string) {
	for _, r := range d.reports {
		var lines []chart.Line
		for _, c := range r.frame.Columns() {
			if c.Name != measure && !strings.HasPrefix(c.Name, measure+":") {
				continue
			}
			l := chart.Line{Name: strings.TrimPrefix(c.Name, measure+":")}
			for i := range r.days {
				if m, ok := r.days[i].rates[c.Name]; ok {
					l.Points = append(l.Points, chart.Point{X: d.day(&r.days[i]), Y: m.mean()})
				}
			}
			lines = append(lines, l)
		}
		if len(lines) > 0 {
			d.add(title+", "+r.Server, unit, lines[:min(6, len(lines))])
			return
		}
	}
	*d.missing = append(*d.missing, title)
}

func (d *drawing) tasks(title string, r *Report) {
	var lines []chart.Line
	for _, t := range r.Tasks[:min(6, len(r.Tasks))] {
		l := chart.Line{Name: t.Name}
		for i := range r.days {
			if m, ok := r.days[i].tasks[t.Name]; ok {
				l.Points = append(l.Points, chart.Point{X: d.day(&r.days[i]), Y: m.mean()})
			}
		}
		lines = append(lines, l)
	}
	d.add(title, "seconds in 15 minutes", lines)
}

// most is the number of tasks in a figure of bars.
const most = 8

// savings adds figures 8 and 9: what an active user costs less, by task.
func (d *drawing) savings() {
	var names []string
	for _, r := range d.reports {
		for _, t := range r.Tasks {
			if t.Change != nil && len(names) < most && !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
	}
	seconds := &chart.Bars{Title: "8. Saving of an active user by task", Y: "CPU-s in 15 minutes", Groups: names,
		Note: "below 0: dearer; with 95 % intervals"}
	percent := &chart.Bars{Title: "9. Saving of an active user by task", Y: "percent", Groups: names,
		Note: "below 0: dearer; with 95 % intervals"}
	for _, r := range d.reports {
		var s, p chart.Bar
		s.Name, p.Name = r.Server, r.Server
		for _, name := range names {
			i := slices.IndexFunc(r.Tasks, func(t Task) bool { return t.Name == name && t.Change != nil })
			iv, cost := estimate.Unknown(), math.NaN() // a server without the task has no bar
			if i >= 0 {
				iv, cost = *r.Tasks[i].Change, float64(r.Tasks[i].Cost[0])/100
			}
			p.Values, p.Low, p.High = append(p.Values, -iv.Value), append(p.Low, -iv.High), append(p.High, -iv.Low)
			s.Values, s.Low, s.High = append(s.Values, -iv.Value*cost), append(s.Low, -iv.High*cost),
				append(s.High, -iv.Low*cost)
		}
		seconds.Series, percent.Series = append(seconds.Series, s), append(percent.Series, p)
	}
	if len(names) == 0 {
		*d.missing = append(*d.missing, seconds.Title, percent.Title)
		return
	}
	d.figures = append(d.figures, seconds, percent)
}

// cache adds figure 12: levels, not amounts.
func (d *drawing) cache() {
	var lines []chart.Line
	for _, r := range d.reports {
		l := chart.Line{Name: r.Server}
		c := r.frame.Column("cache_pct")
		for i := range r.days {
			sum, n := 0.0, 0.0
			for _, at := range r.days[i].rows {
				if v := c.At(at); v == v {
					sum, n = sum+v, n+1
				}
			}
			if n > 0 {
				l.Points = append(l.Points, chart.Point{X: d.day(&r.days[i]), Y: sum / n})
			}
		}
		lines = append(lines, l)
	}
	d.add("12. Database cache in use", "percent of its entries", lines)
}

// results adds figure 14: the change of the processor time and of that of an active user.
func (d *drawing) results() {
	b := &chart.Bars{Title: "14. Change of CPU: total and of an active user", Y: "percent", Note: "with 95 % intervals"}
	total, user := chart.Bar{Name: "total"}, chart.Bar{Name: "of an active user"}
	for _, r := range d.reports {
		if r.Change == nil || r.Total == nil {
			continue
		}
		b.Groups = append(b.Groups, r.Server)
		for _, x := range []struct {
			bar *chart.Bar
			iv  *estimate.Interval
		}{{&total, r.Total}, {&user, r.Change}} {
			x.bar.Values = append(x.bar.Values, x.iv.Value)
			x.bar.Low, x.bar.High = append(x.bar.Low, x.iv.Low), append(x.bar.High, x.iv.High)
		}
	}
	if len(b.Groups) == 0 {
		*d.missing = append(*d.missing, b.Title)
		return
	}
	b.Series = []chart.Bar{total, user}
	d.figures = append(d.figures, b)
}
