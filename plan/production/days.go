package production

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/plan/estimate"
	"doublet/plan/series"
)

// measured sums a measure over the intervals of a day that have a value of it: the amount, its divisor (the active
// users of the same intervals), and their number. An interval without a value counts in none of them, so that it is not
// taken for 0.
type measured struct {
	amount, per float64
	intervals   int
}

func (m measured) with(amount, per float64) measured {
	return measured{m.amount + amount, m.per + per, m.intervals + 1}
}

// mean returns the amount of an interval.
func (m measured) mean() float64 { return m.amount / float64(m.intervals) }

// dayOf sums the intervals of the prime shift of a day.
type dayOf struct {
	date      string // 2006-01-02 in the zone
	at        time.Time
	after     bool
	intervals int
	users     float64
	cpu       float64 // without what is left out
	excluded  float64 // what is left out
	tasks     map[string]measured
	rates     map[string]measured
	// router is the Router's processor seconds per message, in the intervals that have both.
	router measured
	// rows are the indices of the intervals, nets their processor seconds without what is left out.
	rows []int
	nets []float64
}

func cpuOf(d *dayOf) float64       { return d.cpu }
func usersOf(d *dayOf) float64     { return d.users }
func intervalsOf(d *dayOf) float64 { return float64(d.intervals) }

func taskOf(name string) func(*dayOf) measured {
	return func(d *dayOf) measured { return d.tasks[name] }
}
func rateOf(name string) func(*dayOf) measured {
	return func(d *dayOf) measured { return d.rates[name] }
}
func routerOf(d *dayOf) measured { return d.router }

func pairs(days []*dayOf, amount, per func(*dayOf) float64) (p estimate.Pairs) {
	for _, d := range days {
		p.Amount, p.Per = append(p.Amount, amount(d)), append(p.Per, per(d))
	}
	return p
}

// perUser returns the amounts of a measure and the users, perInterval its amounts and the intervals, of the days that
// have it.
func perUser(days []*dayOf, of func(*dayOf) measured) (p estimate.Pairs) {
	for _, d := range days {
		if m := of(d); m.intervals > 0 {
			p.Amount, p.Per = append(p.Amount, m.amount), append(p.Per, m.per)
		}
	}
	return p
}

func perInterval(days []*dayOf, of func(*dayOf) measured) (p estimate.Pairs) {
	for _, d := range days {
		if m := of(d); m.intervals > 0 {
			p.Amount, p.Per = append(p.Amount, m.amount), append(p.Per, float64(m.intervals))
		}
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
	x := &columns{users: r.frame.Column("users"), cpu: r.frame.Column("cpu")}
	for _, c := range r.frame.Columns() {
		switch base, _, parts := strings.Cut(c.Name, ":"); {
		case base == "cpu" && parts:
			x.tasks = append(x.tasks, c)
		case parts, slices.Contains(rates, c.Name):
			x.rates = append(x.rates, c)
		}
	}
	if x.cpu == nil && len(x.tasks) == 0 {
		return fmt.Errorf("%w: %s has no column cpu (processor seconds)", ErrData, r.Server)
	}
	excluded := map[string]int{}
	for i := range r.frame.Len() {
		if why := r.interval(i, x); why != "" {
			excluded[why]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(excluded)) {
		r.LeftOut = append(r.LeftOut, Excluded{why, excluded[why]})
	}
	return nil
}

// columns are the series of a server that an analysis reads; cpu is nil if there are only those of tasks.
type columns struct {
	users, cpu   *series.Column
	tasks, rates []*series.Column
}

// total returns the processor seconds of an interval, NaN if they are unknown: without a column of its own the total is
// the sum of all tasks, and is unknown if one of them is.
func (x *columns) total(i int) float64 {
	if x.cpu != nil {
		return x.cpu.At(i)
	}
	sum := 0.0
	for _, c := range x.tasks {
		sum += c.At(i)
	}
	return sum
}

// outside returns the reason for which a moment is not part of the comparison. counted is false if it is not in the
// prime shift at all.
func (o *Options) outside(at time.Time) (why string, counted bool) {
	if w := at.Weekday(); w == time.Saturday || w == time.Sunday || at.Hour() < o.From || at.Hour() >= o.To {
		return "", false
	}
	date := at.Format(time.DateOnly)
	switch {
	case slices.Contains(o.Holidays, date):
		return "holiday", true
	case o.after(date) && date < o.Changed.AddDate(0, 0, o.Settle).Format(time.DateOnly):
		return "settling after the change", true
	}
	return "", true
}

// after reports whether a day is that of the change or a later one.
func (o *Options) after(date string) bool {
	return !o.Changed.IsZero() && date >= o.Changed.Format(time.DateOnly)
}

// interval adds an interval to its day, or returns why it is left out; "" too for one that is not in the prime shift.
func (r *Report) interval(i int, x *columns) (why string) {
	at := r.frame.Time(i).In(r.options.Zone)
	why, counted := r.options.outside(at)
	if why != "" || !counted {
		return why
	}
	users, total, out := x.users.At(i), x.total(i), 0.0
	for _, c := range x.tasks {
		if r.leftOut(taskName(c)) {
			out += c.At(i)
		}
	}
	switch {
	case math.IsNaN(users):
		return "no value of users"
	case users <= 0:
		return "no users"
	case math.IsNaN(total):
		return "no value of cpu"
	case math.IsNaN(out):
		return "no value of a task that is left out (write 0 where it did not run)"
	}
	date := at.Format(time.DateOnly)
	if n := len(r.days); n == 0 || r.days[n-1].date != date {
		r.days = append(r.days, dayOf{date: date, at: at, after: r.options.after(date), tasks: map[string]measured{},
			rates: map[string]measured{}})
	}
	d := &r.days[len(r.days)-1]
	d.intervals++
	d.users += users
	d.cpu += max(0, total-out)
	d.excluded += out
	d.rows, d.nets = append(d.rows, i), append(d.nets, max(0, total-out))
	for _, c := range x.tasks {
		add(d.tasks, taskName(c), c.At(i), users)
	}
	for _, c := range x.rates {
		add(d.rates, c.Name, c.At(i), users)
	}
	router, messages := r.frame.Column("cpu:Router").At(i), r.frame.Column("messages").At(i)
	if !math.IsNaN(router) && !math.IsNaN(messages) {
		d.router = d.router.with(router, messages)
	}
	return ""
}

func taskName(c *series.Column) string { return c.Name[len("cpu:"):] }

func add(to map[string]measured, name string, v, users float64) {
	if !math.IsNaN(v) {
		to[name] = to[name].with(v, users)
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

// peak finds the maxima before or after the change, over all hours and days. An interval whose total is unknown is
// none.
func (r *Report) peak(side int) (p Peak) {
	var mean, n float64
	for _, d := range r.side(side) {
		mean += d.cpu + d.excluded
		n += float64(d.intervals)
	}
	x := &columns{cpu: r.frame.Column("cpu")}
	for _, c := range r.frame.Columns() {
		if strings.HasPrefix(c.Name, "cpu:") {
			x.tasks = append(x.tasks, c)
		}
	}
	for i := range r.frame.Len() {
		at := r.frame.Time(i)
		if r.options.after(at.In(r.options.Zone).Format(time.DateOnly)) != (side == 1) {
			continue
		}
		if sum := x.total(i); sum > p.CPU {
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
