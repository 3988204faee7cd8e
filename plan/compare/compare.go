// Package compare compares releases or configurations, as documents 002 and 003 do: the resources at each number of
// users, the change from the first leg, and which changes are larger than the noise between repeated runs.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"doublet/plan/estimate"
	"doublet/plan/page"
	"doublet/plan/point"
	"doublet/stat/chart"
)

// Leg is one of the compared configurations, such as the old server, the new one with old clients, the new one with
// new.
type Leg struct {
	Name string
	// Points are the steps that count.
	Points []point.Point
	// All may hold steps that do not count too: they tell why the leg lacks a number of users. One with 0 users stands
	// for a run that lacks all its steps.
	All []point.Point
}

// Why returns the reason why the leg has no step with a number of users that counts; 0 stands for all numbers.
func (l *Leg) Why(users int) string {
	var out []string
	for i := range l.All {
		p := &l.All[i]
		if p.Outcome == point.Measured || users > 0 && p.Users > 0 && p.Users != users {
			continue
		}
		text := p.Run + " was " + p.Outcome
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		return "not measured"
	}
	return strings.Join(out, "; ")
}

// Gap is a number of users, or a resource at one, that no leg is compared at, because one of them lacks it.
type Gap struct {
	Users int `json:"users"`
	// Resource is empty if the leg has no step with so many users.
	Resource string `json:"resource,omitempty"`
	Leg      string `json:"leg"`
	Why      string `json:"why"`
}

func (g Gap) String() string {
	text := chart.Group(int64(g.Users)) + " users"
	if g.Resource != "" {
		text += ", " + g.Resource
	}
	return fmt.Sprintf("%s: %s lacks it: %s", text, g.Leg, g.Why)
}

// Cell is a resource of a leg.
type Cell struct {
	Value   float64 `json:"value"`
	Repeats int     `json:"repeats"`
	// Interval is that of the value, nil without repeats. No resource is below 0, and so is no interval.
	Interval *estimate.Interval `json:"interval,omitempty"`
	// Change is the change from the first leg in percent, nil for that leg.
	Change *estimate.Interval `json:"change_pct,omitempty"`
	// Beyond reports whether the change is larger than the noise: its interval excludes 0. Without repeats it is false.
	Beyond bool `json:"beyond_noise"`
}

// Row is a resource at a number of users.
type Row struct {
	Users    int    `json:"users"`
	Resource string `json:"resource"`
	Cells    []Cell `json:"legs"`
}

// Report is a comparison.
type Report struct {
	Legs []string `json:"legs"`
	Rows []Row    `json:"rows"`
	// LeftOut lists the numbers of users, and resources, that some legs have and others lack.
	LeftOut []Gap `json:"left_out,omitempty"`
	// Marks list further differences between the legs.
	Marks []string `json:"marks,omitempty"`
}

// resources are the compared resources: what a point has by itself, and its use.
var resources = append([]string{"etr", "average_ms", "p99_ms", "cpu_pct", "cpu_ms_of_an_action"}, point.Resources()...)

func value(p *point.Point, resource string) float64 {
	switch resource {
	case "etr":
		if p.Rate > 0 {
			return p.Rate
		}
	case "average_ms":
		return p.Average * 1000
	case "p99_ms":
		return p.P99 * 1000
	case "cpu_pct":
		return p.Share()
	case "cpu_ms_of_an_action":
		if cpu, ok := p.Use[point.CPU]; ok && p.Rate > 0 {
			return cpu / p.Rate * 1000
		}
	default:
		if v, ok := p.Use[resource]; ok {
			return v
		}
	}
	return math.NaN()
}

// Legs compares usable points. The points of a leg must be of the same work, and all must have the same processors and
// speed. marks are known differences of the legs.
func Legs(legs []Leg, marks ...string) (*Report, error) {
	if err := point.Same(together(legs), "processors", processors); err != nil {
		return nil, err
	}
	return Configurations(legs, marks...)
}

// Configurations compares usable points as Legs does, of configurations that may have been given other processors: what
// is in percent of them is marked then.
func Configurations(legs []Leg, marks ...string) (*Report, error) {
	if len(legs) < 2 {
		return nil, fmt.Errorf("%w: name two legs or three", point.ErrPoints)
	}
	for i := range legs {
		if len(legs[i].Points) == 0 {
			return nil, fmt.Errorf("%w: %s has no step", point.ErrPoints, legs[i].Name)
		}
	}
	r := &Report{Marks: marks}
	var users []int
	for i := range legs {
		r.Legs = append(r.Legs, legs[i].Name)
		for k := range legs[i].Points {
			if n := legs[i].Points[k].Users; !slices.Contains(users, n) {
				users = append(users, n)
			}
		}
	}
	slices.Sort(users)
	if err := r.differences(legs); err != nil {
		return nil, err
	}
	for _, n := range users {
		r.rowsAt(legs, n)
	}
	if len(r.Rows) == 0 {
		err := fmt.Errorf("%w together: no number of users and resource is in all legs", point.ErrPoints)
		return nil, r.withGaps(err)
	}
	return r, nil
}

// withGaps adds to an error what is left out, the first of it.
func (r *Report) withGaps(err error) error {
	const most = 10
	var list []string
	for _, g := range r.LeftOut[:min(most, len(r.LeftOut))] {
		list = append(list, g.String())
	}
	if more := len(r.LeftOut) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	if len(list) == 0 {
		return err
	}
	return fmt.Errorf("%w; %s", err, strings.Join(list, "; "))
}

// rowsAt adds the rows at a number of users, or the legs that lack it.
func (r *Report) rowsAt(legs []Leg, users int) {
	lacked := false
	for i := range legs {
		if !slices.ContainsFunc(legs[i].Points, func(p point.Point) bool { return p.Users == users }) {
			r.LeftOut = append(r.LeftOut, Gap{Users: users, Leg: legs[i].Name, Why: legs[i].Why(users)})
			lacked = true
		}
	}
	if lacked {
		return
	}
	for _, resource := range resources {
		row, lacking := rowOf(legs, users, resource)
		switch {
		case len(lacking) == 0:
			r.Rows = append(r.Rows, row)
		case len(lacking) < len(legs): // what no leg was metered for is no loss
			for _, name := range lacking {
				r.LeftOut = append(r.LeftOut, Gap{Users: users, Resource: resource, Leg: name, Why: "not metered"})
			}
		}
	}
}

func processors(p *point.Point) int { return p.Processors }

// together returns the points of all legs.
func together(legs []Leg) (all []point.Point) {
	for i := range legs {
		all = append(all, legs[i].Points...)
	}
	return all
}

// differences refuses legs of other speeds, and marks other processors, guests, workloads and servers, and what the
// points are marked with.
func (r *Report) differences(legs []Leg) error {
	all := together(legs)
	marks := make([][]string, len(legs))
	for i := range legs {
		marks[i] = point.Marks(legs[i].Points)
	}
	for i := range legs {
		if err := errors.Join(point.SameWork(legs[i].Points), point.SameGuests(legs[i].Points)); err != nil {
			return err
		}
		if err := point.Same(legs[i].Points, "target", func(p *point.Point) string { return p.Target }); err != nil {
			r.mark("%s: %v", legs[i].Name, err)
		}
		for _, m := range marks[i] {
			if slices.ContainsFunc(marks, func(leg []string) bool { return !slices.Contains(leg, m) }) {
				m = legs[i].Name + ": " + m
			}
			r.mark("%s", m)
		}
		a, b := &legs[0].Points[0], &legs[i].Points[0]
		if a.Workload != b.Workload || a.Protocol != b.Protocol {
			r.mark("workload %s over %s, and %s over %s", a.Workload, a.Protocol, b.Workload, b.Protocol)
		}
	}
	if err := point.Same(all, "processors", processors); err != nil {
		r.mark("the configurations have other numbers of processors: cpu_pct is the share of its own in each")
	}
	if err := point.SameGuests(all); err != nil {
		r.mark("the configurations have other guests or virtual processors, whose cost is part of the change")
	}
	return point.Same(all, "speed", func(p *point.Point) float64 { return p.Speed })
}

func (r *Report) mark(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Marks, text) {
		r.Marks = append(r.Marks, text)
	}
}

// rowOf returns the row of a resource, and the names of the legs that lack it.
func rowOf(legs []Leg, users int, resource string) (row Row, lacking []string) {
	row = Row{Users: users, Resource: resource}
	var first []float64
	for i := range legs {
		var values []float64
		for k := range legs[i].Points {
			if p := &legs[i].Points[k]; p.Users == users {
				if v := value(p, resource); !math.IsNaN(v) && !math.IsInf(v, 0) {
					values = append(values, v)
				}
			}
		}
		if len(values) == 0 {
			lacking = append(lacking, legs[i].Name)
			continue
		}
		mean := estimate.Mean(values)
		c := Cell{Value: mean.Value, Repeats: len(values)}
		if len(values) > 1 {
			c.Interval = &mean
		}
		if i == 0 {
			first = values
		} else if len(lacking) == 0 && row.Cells[0].Value != 0 {
			change := estimate.Quotient(first, values).Percent()
			c.Change = &change
			c.Beyond = c.Change.Low > 0 || c.Change.High < 0
		}
		row.Cells = append(row.Cells, c)
	}
	return row, lacking
}

// describe formats a change.
func describe(c Cell) string {
	switch {
	case c.Change == nil:
		return "–"
	case math.IsNaN(c.Change.Low) && c.Repeats > 1:
		return fmt.Sprintf("%+.1f %% (no interval)", c.Change.Value)
	case math.IsNaN(c.Change.Low):
		return fmt.Sprintf("%+.1f %% (not repeated)", c.Change.Value)
	}
	out := fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", c.Change.Value, c.Change.Low, c.Change.High)
	if !c.Beyond {
		out += " noise"
	}
	return out
}

// Text returns the tables of resources.
func (r *Report) Text() string {
	var b strings.Builder
	for _, m := range r.Marks {
		fmt.Fprintf(&b, "marked: %s\n", m)
	}
	for _, g := range r.LeftOut {
		fmt.Fprintf(&b, "left out: %v\n", g)
	}
	last := -1
	for _, row := range r.Rows {
		if row.Users != last {
			fmt.Fprintf(&b, "Resource usage at %s users\n", chart.Group(int64(row.Users)))
			last = row.Users
		}
		fmt.Fprintf(&b, "  %-22s", row.Resource)
		for i, c := range row.Cells {
			fmt.Fprintf(&b, " %s %s", r.Legs[i], chart.Number(c.Value))
			if c.Change != nil {
				fmt.Fprintf(&b, ", %s", describe(c))
			}
			b.WriteByte(';')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// method is the paragraph that tells how the figures came about.
const method = `Resources are means of the repeated steps at the same number of users; a whisker is the interval of the
mean (Student's t), which one run does not have. The change is that from the first leg; its interval (Welch, delta
method) says which changes are larger than the noise between runs. A leg that was measured once has no interval, and
shows nothing. Steps that were unsteady, driver-bound or discarded are used only by name, with a mark.`

// Page returns the comparison as a page: bars over the numbers of users, and the tables.
func (r *Report) Page() *page.Page {
	p := &page.Page{Kicker: "Doublet plan · compare", Title: strings.Join(r.Legs, ", "), Marks: r.Marks,
		Method: method}
	if len(r.LeftOut) > 0 {
		left := page.Section{Title: "Left out", Text: "A configuration lacks it, so that none is compared at it."}
		for _, g := range r.LeftOut {
			left.List = append(left.List, g.String())
		}
		p.Sections = append(p.Sections, left)
	}
	figures := page.Section{Title: "Figures"}
	names := []string{}
	for _, row := range r.Rows {
		if !slices.Contains(names, row.Resource) {
			names = append(names, row.Resource)
		}
	}
	for _, name := range names {
		figures.Figures = append(figures.Figures, r.figures(name)...)
	}
	p.Sections = append(p.Sections, figures)
	table := page.Section{Title: "Resources", Head: append([]string{"users", "resource"}, r.Legs...)}
	for _, row := range r.Rows {
		cells := []string{fmt.Sprint(row.Users), row.Resource}
		for _, c := range row.Cells {
			text := chart.Number(c.Value)
			if c.Change != nil {
				text += ", " + describe(c)
			}
			cells = append(cells, text)
		}
		table.Rows = append(table.Rows, cells)
	}
	p.Sections = append(p.Sections, table)
	return p
}

// figures returns the figures of a resource. Where a chart cannot tell all legs apart, each number of users has figures
// of its own, in which the legs are named beside their bars and need no colours.
func (r *Report) figures(resource string) (out []page.Figure) {
	values, change := r.bars(resource)
	if chart.Named(r.Legs) {
		return []page.Figure{values, change}
	}
	for i, users := range values.Groups {
		for _, b := range []*chart.Bars{values, change} {
			one, note := chart.Bar{Name: users + " users"}, "at "+users+" users"
			if b == change {
				note = b.Note + ", " + note
			}
			turned := &chart.Bars{Title: b.Title, Y: b.Y, Note: note, Interval: b.Interval, Without: b.Without,
				Across: true}
			for _, leg := range b.Series {
				turned.Groups = append(turned.Groups, leg.Name)
				one.Values = append(one.Values, leg.Values[i])
				one.Low, one.High = append(one.Low, leg.Low[i]), append(one.High, leg.High[i])
			}
			turned.Series = []chart.Bar{one}
			out = append(out, turned)
		}
	}
	return out
}

// bars returns the figures of a resource: its values, and their changes from the first leg. A change that is not known
// keeps its place, so that the bars of the others stand above their own number of users.
func (r *Report) bars(resource string) (values, change *chart.Bars) {
	values = &chart.Bars{Title: resource, Y: resource, Note: "by active users", Interval: "95 % intervals of repeats",
		Without: "one run"}
	change = &chart.Bars{Title: "Change of " + resource, Y: "percent", Note: "from " + chart.Shorten(r.Legs[0], 20),
		Interval: "95 % intervals", Without: "one run, or a mean of 0", First: 1}
	values.Series = make([]chart.Bar, len(r.Legs))
	change.Series = make([]chart.Bar, len(r.Legs)-1)
	for i, leg := range r.Legs {
		values.Series[i].Name = leg
		if i > 0 {
			change.Series[i-1].Name = leg
		}
	}
	for _, row := range r.Rows {
		if row.Resource != resource {
			continue
		}
		values.Groups = append(values.Groups, chart.Group(int64(row.Users)))
		for i, c := range row.Cells {
			x, bar := estimate.Unknown(), &values.Series[i]
			if c.Interval != nil {
				x = *c.Interval
			}
			bar.Values = append(bar.Values, c.Value)
			bar.Low, bar.High = append(bar.Low, x.Low), append(bar.High, x.High)
			if i > 0 {
				x, bar = estimate.Unknown(), &change.Series[i-1]
				if c.Change != nil {
					x = *c.Change
				}
				bar.Values = append(bar.Values, x.Value)
				bar.Low, bar.High = append(bar.Low, x.Low), append(bar.High, x.High)
			}
		}
	}
	change.Groups = values.Groups
	return values, change
}
