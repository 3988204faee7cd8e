// Package production measures servers in production, before and after a change, as document 000 does: processor
// seconds of an active user in the prime shift, total and by task, with intervals, and the faults that mislead such a
// comparison.
package production

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/plan/estimate"
	"doublet/plan/series"
)

// Options are the choices of an analysis. The zero value of a field is its default.
type Options struct {
	// Changed is the day of the change, such as an upgrade: days before it are compared with that day and those after.
	// The zero time describes the server without a comparison.
	Changed time.Time
	// Settle is the number of days after the change that are left out.
	Settle int
	// Zone is the time zone of the prime shift.
	Zone *time.Location
	// From and To are the hours of the prime shift, Monday to Friday: document 000 has 8 to 16.
	From, To int
	// Holidays are days to leave out, as 2006-01-02.
	Holidays []string
	// LeftOut are tasks that are not work of users.
	LeftOut []string
	// MinUsers is the least mean of active users that carries a decision.
	MinUsers float64
	Seed     uint64
}

// Maintenance are the tasks that are left out unless the options name others.
var Maintenance = []string{"Compact", "Fixup", "Adminp", "Updall", "Backup", "Antivirus"}

func (o *Options) defaults() {
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.From == 0 && o.To == 0 {
		o.From, o.To = 8, 16
	}
	if o.LeftOut == nil {
		o.LeftOut = Maintenance
	}
	if o.MinUsers == 0 {
		o.MinUsers = 50
	}
}

// Decision is the outcome of a comparison.
type Decision string

// The decisions.
const (
	Cheaper    Decision = "cheaper"
	Dearer     Decision = "dearer"
	NoDecision Decision = "no decision"
	Described  Decision = "described" // there was nothing to compare
)

// Report is the analysis of one server.
type Report struct {
	Server   string   `json:"server"`
	Decision Decision `json:"decision"`
	// Why lists the reasons for the decision.
	Why []string `json:"why,omitempty"`
	// Days counts the days before and after the change that were used. Without a change all are "before".
	Days [2]int `json:"days"`
	// Users is the mean of active users before and after.
	Users [2]float64 `json:"active_users"`
	// Cost is the processor seconds of an active user in 15 minutes, before and after.
	Cost [2]estimate.Interval `json:"cpu_s_per_active_user"`
	// Change is the change of Cost, Total that of the processor seconds of the prime shift, in percent.
	Change *estimate.Interval `json:"change_pct,omitempty"`
	Total  *estimate.Interval `json:"change_of_total_pct,omitempty"`
	// Beside is the change beside that of a server that was not changed (difference in differences).
	Beside *estimate.Interval `json:"change_beside_other_pct,omitempty"`
	Other  string             `json:"other,omitempty"`
	Tasks  []Task             `json:"tasks,omitempty"`
	// Workload are the changes of what users did, of each active user.
	Workload []Rate `json:"workload,omitempty"`
	// PerMessage is the change of the Router's cost of a message.
	PerMessage *estimate.Interval `json:"router_change_per_message_pct,omitempty"`
	// Model is the regression of processor seconds on users and operations, before and after.
	Model    [2]*Model  `json:"model"`
	Peaks    [2]Peak    `json:"peaks"`
	Warnings []Warning  `json:"warnings,omitempty"`
	LeftOut  []Excluded `json:"left_out,omitempty"`

	days    []dayOf
	options Options
	frame   *series.Frame
}

// Task is the cost of a task.
type Task struct {
	Name string `json:"name"`
	// Cost is the processor seconds of an active user before and after, Share its part of the total before, in percent.
	// They are unknown (NaN) where the task has no value.
	Cost   [2]estimate.Value  `json:"cpu_s_per_active_user"`
	Share  float64            `json:"share_pct"`
	Change *estimate.Interval `json:"change_pct,omitempty"`
}

// Rate is something that an active user did in 15 minutes.
type Rate struct {
	Name string `json:"name"`
	// Rate is that before and after, unknown (NaN) without a value.
	Rate   [2]estimate.Value  `json:"per_active_user"`
	Change *estimate.Interval `json:"change_pct,omitempty"`
}

// Model is a regression of processor seconds in 15 minutes.
type Model struct {
	// Fixed is the cost without users; User that of an active user; Others those of an operation.
	Fixed  estimate.Interval            `json:"fixed_cpu_s"`
	User   estimate.Interval            `json:"cpu_s_of_a_user"`
	Others map[string]estimate.Interval `json:"cpu_s_of_others,omitempty"`
	// Explained is the explained share of the variance.
	Explained float64 `json:"explained"`
}

// Peak holds the maxima of intervals of 15 minutes over all hours.
type Peak struct {
	// CPU is the most processor seconds of an interval, At its beginning, Ratio the peak over the mean of the prime
	// shift.
	CPU   float64   `json:"cpu_s"`
	At    time.Time `json:"at"`
	Ratio float64   `json:"over_mean"`
	// Users is the most active users, Logins the most sign-ins, 0 if they are not in the data.
	Users  float64 `json:"active_users"`
	Logins float64 `json:"logins,omitempty"`
}

// Excluded counts intervals that were left out for a reason.
type Excluded struct {
	Reason    string `json:"reason"`
	Intervals int    `json:"intervals"`
}

// ErrData means that a server lacks what the analysis needs.
var ErrData = errors.New("data lack what the analysis needs")

// Analyse analyses a server. other, which may be empty, is a server that was not changed, as a control.
func Analyse(set *series.Set, server, other string, o Options) (*Report, error) {
	o.defaults()
	if err := set.Refusal(); err != nil {
		return nil, err
	}
	r, err := describe(set, server, o)
	if err != nil {
		return nil, err
	}
	if o.Changed.IsZero() {
		r.Decision = Described
		r.warn()
		return r, nil
	}
	if err := r.compare(); err != nil {
		if !errors.Is(err, estimate.ErrFew) {
			return nil, err
		}
		r.Decision, r.Why = NoDecision, append(r.Why, fmt.Sprintf("%v before and %v after the change: %v", r.Days[0],
			r.Days[1], err))
		r.warn()
		return r, nil
	}
	var few error
	if other != "" {
		if err := r.beside(set, other); errors.Is(err, estimate.ErrFew) {
			few = err
		} else if err != nil {
			return nil, err
		}
	}
	r.warn()
	if few != nil {
		r.Decision, r.Why = NoDecision, append(r.Why, few.Error())
		return r, nil
	}
	r.decide()
	return r, nil
}

// describe reads the days of a server and what is known without a comparison.
func describe(set *series.Set, server string, o Options) (*Report, error) {
	f := set.Frame(server)
	if f == nil {
		return nil, fmt.Errorf("%w: no server %q in the data", ErrData, server)
	}
	if f.Column("users") == nil {
		return nil, fmt.Errorf("%w: %s has no column users (active users in 15 minutes)", ErrData, server)
	}
	r := &Report{Server: server, options: o, frame: f}
	if err := r.collect(); err != nil {
		return nil, err
	}
	for side := range 2 {
		days := r.side(side)
		r.Days[side] = len(days)
		if len(days) == 0 {
			continue
		}
		users, intervals := 0.0, 0
		for _, d := range days {
			users += d.users
			intervals += d.intervals
		}
		r.Users[side] = users / float64(intervals)
		p := pairs(days, cpuOf, usersOf)
		iv, err := estimate.Bootstrap{Seed: o.Seed}.Ratio(p)
		if err != nil {
			v := p.Ratio()
			iv = estimate.Interval{Value: v, Low: math.NaN(), High: math.NaN()}
		}
		r.Cost[side] = iv
		r.Model[side] = r.model(side)
		r.Peaks[side] = r.peak(side)
	}
	if r.Days[0]+r.Days[1] == 0 {
		return nil, fmt.Errorf(
			"%w: %s has no interval of the prime shift (%d to %d h, %s) with users and cpu%s",
			ErrData,
			server,
			o.From,
			o.To,
			o.Zone,
			r.leftOutText(),
		)
	}
	r.tasks()
	r.workload()
	return r, nil
}

// compare computes the changes.
func (r *Report) compare() error {
	b := estimate.Bootstrap{Seed: r.options.Seed}
	before, after := r.side(0), r.side(1)
	change, err := b.Change(pairs(before, cpuOf, usersOf), pairs(after, cpuOf, usersOf))
	if err != nil {
		return err
	}
	total, err := b.Change(pairs(before, cpuOf, intervalsOf), pairs(after, cpuOf, intervalsOf))
	if err != nil {
		return err
	}
	r.Change, r.Total = &change, &total
	if iv, err := b.Change(perUser(before, routerOf), perUser(after, routerOf)); err == nil {
		r.PerMessage = &iv
	}
	return nil
}

// beside compares with a server that was not changed, on the days that both have.
func (r *Report) beside(set *series.Set, other string) error {
	o, err := describe(set, other, r.options)
	if err != nil {
		return fmt.Errorf("server to compare with: %w", err)
	}
	r.Other = other
	theirs := map[string]*dayOf{}
	for i := range o.days {
		theirs[o.days[i].date] = &o.days[i]
	}
	var sides [4]estimate.Pairs
	for side := range 2 {
		for _, d := range r.side(side) {
			if t := theirs[d.date]; t != nil {
				sides[side].Amount, sides[side].Per = append(
					sides[side].Amount,
					d.cpu,
				), append(
					sides[side].Per,
					d.users,
				)
				sides[2+side].Amount = append(sides[2+side].Amount, t.cpu)
				sides[2+side].Per = append(sides[2+side].Per, t.users)
			}
		}
	}
	iv, err := estimate.Bootstrap{Seed: r.options.Seed}.DifferenceInDifferences(sides[0], sides[1], sides[2], sides[3])
	if err != nil {
		return fmt.Errorf("comparison with %s: %w", other, err)
	}
	r.Beside = &iv
	return nil
}

// decide sets the decision from the interval and the warnings that forbid one.
func (r *Report) decide() {
	change := r.Change
	if r.Beside != nil {
		change = r.Beside
	}
	switch {
	case change.High < 0:
		r.Decision = Cheaper
	case change.Low > 0:
		r.Decision = Dearer
	default:
		r.Decision = NoDecision
		r.Why = append(
			r.Why,
			fmt.Sprintf("the interval of the change, %+.1f to %+.1f %%, contains 0", change.Low, change.High),
		)
	}
	for _, w := range r.Warnings {
		if w.Forbids {
			r.Decision = NoDecision
			r.Why = append(r.Why, w.Text)
		}
	}
	if r.Decision != NoDecision {
		r.Why = append(
			r.Why,
			fmt.Sprintf("the interval of the change, %+.1f to %+.1f %%, excludes 0", change.Low, change.High),
		)
	}
}

// tasks computes the cost of each task.
func (r *Report) tasks() {
	for _, c := range r.frame.Columns() {
		name, is := strings.CutPrefix(c.Name, "cpu:")
		if !is || r.leftOut(name) {
			continue
		}
		t := Task{Name: name}
		var sides [2]estimate.Pairs
		for side := range 2 {
			sides[side] = perUser(r.side(side), taskOf(name))
			t.Cost[side] = estimate.Value(sides[side].Ratio())
		}
		if v := float64(t.Cost[0]); r.Cost[0].Value > 0 && v > 0 {
			t.Share = v / r.Cost[0].Value * 100
		}
		if iv, err := (estimate.Bootstrap{Seed: r.options.Seed}).Change(sides[0], sides[1]); err == nil {
			t.Change = &iv
		}
		r.Tasks = append(r.Tasks, t)
	}
	slices.SortStableFunc(r.Tasks, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.Cost[0].Or(0)+b.Cost[1].Or(0), a.Cost[0].Or(0)+a.Cost[1].Or(0)),
			cmp.Compare(a.Name, b.Name))
	})
}

// rates lists the measures of the users' work.
var rates = []string{"transactions", "messages", "replications", "lock_waits", "logins"}

// workload computes what an active user did.
func (r *Report) workload() {
	for _, name := range rates {
		if r.frame.Column(name) == nil {
			continue
		}
		x := Rate{Name: name}
		var sides [2]estimate.Pairs
		for side := range 2 {
			sides[side] = perUser(r.side(side), rateOf(name))
			x.Rate[side] = estimate.Value(sides[side].Ratio())
		}
		if iv, err := (estimate.Bootstrap{Seed: r.options.Seed}).Change(sides[0], sides[1]); err == nil {
			x.Change = &iv
		}
		r.Workload = append(r.Workload, x)
	}
}

// leftOutText lists what was left out, for an error.
func (r *Report) leftOutText() string {
	var out []string
	for _, x := range r.LeftOut {
		out = append(out, fmt.Sprintf("%d intervals with %s", x.Intervals, x.Reason))
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

func (r *Report) leftOut(task string) bool {
	return slices.ContainsFunc(r.options.LeftOut, func(x string) bool { return strings.EqualFold(x, task) })
}
