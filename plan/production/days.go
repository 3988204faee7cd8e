package production

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/plan/estimate"
	"doublet/plan/series"
)

// dayOf sums the intervals of the prime shift of a day.
type dayOf struct {
	date      string // 2006-01-02 in the zone
	at        time.Time
	after     bool
	intervals int
	users     float64
	cpu       float64 // without what is left out
	excluded  float64 // what is left out
	tasks     map[string]float64
	rates     map[string]float64
	// rows are the indices of the intervals, nets their processor seconds without what is left out.
	rows []int
	nets []float64
}

func cpuOf(d *dayOf) float64       { return d.cpu }
func usersOf(d *dayOf) float64     { return d.users }
func intervalsOf(d *dayOf) float64 { return float64(d.intervals) }

func taskOf(name string) func(*dayOf) float64 { return func(d *dayOf) float64 { return d.tasks[name] } }
func rateOf(name string) func(*dayOf) float64 { return func(d *dayOf) float64 { return d.rates[name] } }

func pairs(days []*dayOf, amount, per func(*dayOf) float64) (p estimate.Pairs) {
	for _, d := range days {
		p.Amount, p.Per = append(p.Amount, amount(d)), append(p.Per, per(d))
	}
	return p
}

// side returns the days before (0) or after (1) the change.
func (r *Report) side(side int) (out []*dayOf) {
	for i := range r.days {
		if d := &r.days[i]; d.after == (side == 1) {
			out = append(out, d)
		}
	}
	return out
}

// collect reads the intervals of the prime shift.
func (r *Report) collect() error {
	for _, h := range r.options.Holidays {
		if _, err := time.Parse(time.DateOnly, h); err != nil {
			return fmt.Errorf("holiday %q: want a day as 2026-12-25", h)
		}
	}
	split := map[string][]*series.Column{}
	var columns []*series.Column
	for _, c := range r.frame.Columns() {
		base, _, parts := strings.Cut(c.Name, ":")
		switch {
		case base == "cpu" && parts:
			columns = append(columns, c)
		case parts:
			split[base] = append(split[base], c)
		}
	}
	if r.frame.Column("cpu") == nil && len(columns) == 0 {
		return fmt.Errorf("%w: %s has no column cpu (processor seconds)", ErrData, r.Server)
	}
	excluded := map[string]int{}
	for i := range r.frame.Len() {
		r.interval(i, columns, split, excluded)
	}
	for _, reason := range []string{"no users", "no value of users", "no value of cpu", "holiday", "settling after " +
		"the change"} {
		if n := excluded[reason]; n > 0 {
			r.LeftOut = append(r.LeftOut, Excluded{reason, n})
		}
	}
	return nil
}

// interval adds an interval to its day, or counts why it is left out.
func (r *Report) interval(i int, columns []*series.Column, split map[string][]*series.Column, excluded map[string]int) {
	o := &r.options
	at := r.frame.Time(i).In(o.Zone)
	if w := at.Weekday(); w == time.Saturday || w == time.Sunday || at.Hour() < o.From || at.Hour() >= o.To {
		return
	}
	date := at.Format(time.DateOnly)
	if slices.Contains(o.Holidays, date) {
		excluded["holiday"]++
		return
	}
	after := !o.Changed.IsZero() && date >= o.Changed.Format(time.DateOnly)
	if after && date < o.Changed.AddDate(0, 0, o.Settle).Format(time.DateOnly) {
		excluded["settling after the change"]++
		return
	}
	users := r.frame.Column("users").At(i)
	switch {
	case math.IsNaN(users):
		excluded["no value of users"]++
		return
	case users <= 0:
		excluded["no users"]++
		return
	}
	total, sum, out := r.frame.Column("cpu").At(i), 0.0, 0.0
	known := false
	for _, c := range columns {
		if v := c.At(i); !math.IsNaN(v) {
			known = true
			if sum += v; r.leftOut(c.Name[len("cpu:"):]) {
				out += v
			}
		}
	}
	if r.frame.Column("cpu") == nil {
		if total = sum; !known {
			total = math.NaN()
		}
	}
	if math.IsNaN(total) {
		excluded["no value of cpu"]++
		return
	}
	if n := len(r.days); n == 0 || r.days[n-1].date != date {
		r.days = append(r.days, dayOf{date: date, at: at, after: after, tasks: map[string]float64{},
			rates: map[string]float64{}})
	}
	d := &r.days[len(r.days)-1]
	d.intervals++
	d.users += users
	d.cpu += max(0, total-out)
	d.excluded += out
	d.rows, d.nets = append(d.rows, i), append(d.nets, max(0, total-out))
	add := func(to map[string]float64, name string, c *series.Column) {
		if v := c.At(i); !math.IsNaN(v) {
			to[name] += v
		}
	}
	for _, c := range columns {
		add(d.tasks, c.Name[len("cpu:"):], c)
	}
	for _, name := range rates {
		add(d.rates, name, r.frame.Column(name))
	}
	for _, list := range split {
		for _, c := range list {
			add(d.rates, c.Name, c)
		}
	}
}

// model fits processor seconds of intervals to users and, if they tell more, to operations. It returns nil if the data
// do not carry a fit.
func (r *Report) model(side int) *Model {
	operations := []string{}
	for _, name := range []string{"transactions", "messages", "replications"} {
		if r.frame.Column(name) != nil {
			operations = append(operations, name)
		}
	}
	// Operations that move with the users cannot be told from them, so the last are left out until the rest are
	// independent.
	for n := len(operations); n >= 0; n-- {
		if m := r.fit(side, operations[:n]); m != nil {
			return m
		}
	}
	return nil
}

func (r *Report) fit(side int, operations []string) *Model {
	var y []float64
	var day []int
	x := make([][]float64, len(operations)+1)
	for number, d := range r.side(side) {
	rows:
		for at, i := range d.rows {
			values := []float64{r.frame.Column("users").At(i)}
			for _, name := range operations {
				values = append(values, r.frame.Column(name).At(i))
			}
			cpu := d.nets[at]
			for _, v := range append(values, cpu) {
				if math.IsNaN(v) {
					continue rows
				}
			}
			for k, v := range values {
				x[k] = append(x[k], v)
			}
			y, day = append(y, cpu), append(day, number)
		}
	}
	if len(y) == 0 {
		return nil
	}
	f, err := estimate.Bootstrap{Seed: r.options.Seed, Resamples: 400}.Regress(y, x, day)
	if err != nil {
		return nil
	}
	m := &Model{Fixed: f.Fixed, User: f.Slopes[0], Explained: f.Explained}
	for k, name := range operations {
		if m.Others == nil {
			m.Others = map[string]estimate.Interval{}
		}
		m.Others[name] = f.Slopes[k+1]
	}
	return m
}

// peak finds the maxima before or after the change, over all hours and days.
func (r *Report) peak(side int) (p Peak) {
	var mean, n float64
	for _, d := range r.side(side) {
		mean += d.cpu + d.excluded
		n += float64(d.intervals)
	}
	var total []*series.Column
	if c := r.frame.Column("cpu"); c != nil {
		total = []*series.Column{c}
	} else {
		for _, c := range r.frame.Columns() {
			if strings.HasPrefix(c.Name, "cpu:") {
				total = append(total, c)
			}
		}
	}
	changed := r.options.Changed
	for i := range r.frame.Len() {
		at := r.frame.Time(i)
		date := at.In(r.options.Zone).Format(time.DateOnly)
		if after := !changed.IsZero() && date >= changed.Format(time.DateOnly); after != (side == 1) {
			continue
		}
		sum := 0.0
		for _, c := range total {
			if v := c.At(i); !math.IsNaN(v) {
				sum += v
			}
		}
		if sum > p.CPU {
			p.CPU, p.At = sum, at
		}
		if v := r.frame.Column("users").At(i); v > p.Users {
			p.Users = v
		}
		if v := r.frame.Column("logins").At(i); v > p.Logins {
			p.Logins = v
		}
	}
	if n > 0 && mean > 0 {
		p.Ratio = p.CPU / (mean / n)
	}
	return p
}
