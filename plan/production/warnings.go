package production

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/plan/estimate"
)

// Warning is something that misleads a comparison, by document 000.
type Warning struct {
	// Kind names the fault: see the constants.
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Forbids means that there is no decision because of it.
	Forbids bool `json:"forbids_decision,omitempty"`
}

// The kinds of warnings.
const (
	WorkloadChanged = "workload changed"
	FewUsers        = "few users"
	FewDays         = "few days"
	Diluted         = "diluted"
	MaintenanceOne  = "maintenance on one side"
	MissingData     = "missing data"
	MaybeHoliday    = "looks like a holiday"
	OtherSeason     = "other season"
	ClientsChanged  = "clients changed"
	PeakGrew        = "peak grew"
	Dissent         = "total and cost disagree"
)

// The limits of the warnings. A change of the workload is one of 5 % whose interval excludes 0. Fewer than 10 days a
// side hide what differs between weeks.
const (
	changedBy   = 5
	fewDays     = 10
	missingMost = 0.1
	// dilutedFrom is the share of tasks without gain, in percent, from which the gain of the others is diluted.
	dilutedFrom = 30
)

func (r *Report) add(kind string, forbids bool, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{kind, fmt.Sprintf(format, args...), forbids})
}

// warn looks for every fault.
func (r *Report) warn() {
	r.warnUsers()
	r.warnDays()
	r.warnHolidays()
	if r.Change == nil {
		return
	}
	r.warnWorkload()
	r.warnTasks()
	r.warnPeaks()
}

func (r *Report) warnUsers() {
	for side, name := range []string{"before", "after"} {
		if r.Days[side] > 0 && r.Users[side] < r.options.MinUsers {
			r.add(
				FewUsers,
				true,
				"%.0f active users %s the change: fewer than %.0f carry no decision",
				r.Users[side],
				name,
				r.options.MinUsers,
			)
		}
	}
}

func (r *Report) warnDays() {
	if !r.options.Changed.IsZero() {
		for side, name := range []string{"before", "after"} {
			if n := r.Days[side]; n < fewDays {
				r.add(FewDays, n < estimate.MinDays, "%d days %s the change: take at least two working weeks", n, name)
			}
		}
	}
	missing, present := 0, 0
	for _, x := range r.LeftOut {
		if strings.HasPrefix(x.Reason, "no value") {
			missing += x.Intervals
		}
	}
	for i := range r.days {
		present += r.days[i].intervals
	}
	if share := float64(missing) / float64(max(1, missing+present)); share > missingMost {
		r.add(
			MissingData,
			false,
			"%.0f %% of the prime shift has no data: what is missing may differ from what is there",
			share*100,
		)
	}
}

// warnHolidays looks for weekdays with less than half of the usual users.
func (r *Report) warnHolidays() {
	var levels []float64
	for i := range r.days {
		levels = append(levels, r.days[i].users/float64(r.days[i].intervals))
	}
	if len(levels) < fewDays {
		return
	}
	usual := slices.Clone(levels)
	slices.Sort(usual)
	middle := usual[len(usual)/2]
	var dates []string
	for i, v := range levels {
		if v < middle/2 {
			dates = append(dates, r.days[i].date)
		}
	}
	if len(dates) > 0 {
		more := ""
		if len(dates) > 5 {
			more = fmt.Sprintf(" and %d more", len(dates)-5)
			dates = dates[:5]
		}
		r.add(MaybeHoliday, false, "less than half of the usual users on %s%s: name holidays with --holiday",
			strings.Join(dates, ", "), more)
	}
}

func (r *Report) warnWorkload() {
	effect := math.Abs(r.Change.Value)
	for _, x := range r.Workload {
		if x.Change == nil || x.Change.Contains(0) || math.Abs(x.Change.Value) < changedBy {
			continue
		}
		text := fmt.Sprintf(
			"%s of an active user changed by %+.1f %% (%+.1f to %+.1f)",
			x.Name,
			x.Change.Value,
			x.Change.Low,
			x.Change.High,
		)
		switch {
		case x.Name == "transactions":
			// New clients and servers do the same work with other calls: document 000 saw up to 20 %.
			r.add(ClientsChanged, false, "%s: other client or server versions use other calls for the same work", text)
		case x.Name == "messages":
			r.add(WorkloadChanged, math.Abs(x.Change.Value) > effect, "%s: the users did not do the same", text)
		}
	}
	// Replications follow a schedule, not the users: their number counts, as in figure 13 of document 000.
	if r.frame.Column("replications") != nil {
		of := rateOf("replications")
		before, after := perInterval(r.side(0), of), perInterval(r.side(1), of)
		iv, err := estimate.Bootstrap{Seed: r.options.Seed}.Change(before, after)
		if err == nil && !iv.Contains(0) && math.Abs(iv.Value) >= changedBy {
			r.add(
				WorkloadChanged,
				math.Abs(iv.Value) > effect,
				"replications changed by %+.1f %% (%+.1f to %+.1f): most of "+
					"their cost is in the Server task",
				iv.Value,
				iv.Low,
				iv.High,
			)
		}
	}
	r.warnVersions()
	season := r.Users[1]/r.Users[0] - 1
	first, last := r.days[0].at, r.days[len(r.days)-1].at
	if math.Abs(season) > 0.1 && last.Sub(first) > 60*24*time.Hour {
		r.add(
			OtherSeason,
			false,
			"active users changed by %+.0f %% between %s and %s: compare the same season, or a server "+
				"that was not changed (--beside)",
			season*100,
			first.Format("January 2006"),
			last.Format("January 2006"),
		)
	}
}

// warnVersions compares the shares of client versions in the transactions.
func (r *Report) warnVersions() {
	var sums [2]map[string]float64
	var totals [2]float64
	for side := range 2 {
		sums[side] = map[string]float64{}
		for _, d := range r.side(side) {
			for name, v := range d.rates {
				if version, is := strings.CutPrefix(name, "transactions:"); is {
					sums[side][version] += v.amount
					totals[side] += v.amount
				}
			}
		}
	}
	if totals[0] == 0 || totals[1] == 0 {
		return
	}
	for _, c := range r.frame.Columns() {
		version, is := strings.CutPrefix(c.Name, "transactions:")
		if !is {
			continue
		}
		a, b := sums[0][version]/totals[0]*100, sums[1][version]/totals[1]*100
		if math.Abs(a-b) > changedBy {
			r.add(
				ClientsChanged,
				false,
				"clients %s had %.0f %% of the transactions before and %.0f %% after",
				version,
				a,
				b,
			)
		}
	}
}

// warnTasks looks for tasks that did not gain, and for maintenance that ran on one side only.
func (r *Report) warnTasks() {
	if r.Change.High < 0 {
		var names []string
		share, best := 0.0, 0.0
		for _, t := range r.Tasks {
			switch {
			case t.Change == nil || t.Share < 1:
			case t.Change.High < 0:
				best = min(best, t.Change.Value)
			default:
				share += t.Share
				names = append(names, t.Name)
			}
		}
		if share > dilutedFrom {
			r.add(
				Diluted,
				false,
				"%s did not gain and use %.0f %% of the processor time: a task's %.0f %% become %.0f %% of "+
					"the server",
				strings.Join(names, ", "),
				share,
				best,
				r.Change.Value,
			)
		}
	}
	var out [2]float64
	for side := range 2 {
		all := 0.0
		for _, d := range r.side(side) {
			out[side] += d.excluded
			all += d.excluded + d.cpu
		}
		if all > 0 {
			out[side] = out[side] / all * 100
		}
	}
	if math.Abs(out[0]-out[1]) > 2 {
		r.add(
			MaintenanceOne,
			false,
			"maintenance had %.1f %% of the processor time before and %.1f %% after: it was left out",
			out[0],
			out[1],
		)
	}
	if r.Total.Value*r.Change.Value < 0 && !r.Total.Contains(0) && !r.Change.Contains(0) {
		r.add(
			Dissent,
			false,
			"processor time changed by %+.1f %%, that of a user by %+.1f %%: the load changed, not the server",
			r.Total.Value,
			r.Change.Value,
		)
	}
}

func (r *Report) warnPeaks() {
	a, b := r.Peaks[0].CPU, r.Peaks[1].CPU
	if a > 0 && b > a*1.1 && r.Change.High < 0 {
		r.add(
			PeakGrew,
			false,
			"a user became cheaper, but the peak of 15 minutes grew from %.0f to %.0f s: plan for the peak",
			a,
			b,
		)
	}
}
