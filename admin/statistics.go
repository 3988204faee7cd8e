package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/collect"
	"doublet/stat"
	"doublet/store"
)

// ShowStat are the arguments of show stat.
type ShowStat struct {
	Pattern string `json:"pattern" arg:"optional" help:"name or pattern, such as Mail or Server.*.Peak"`
	History bool   `json:"history" help:"the values that the task Collect has stored, the oldest first"`
	Since   string `json:"since" help:"with --history: so long ago, such as 90m or 7d (24h), or a day, 2026-03-01"`
}

// Statistic is a statistic in the result of show stat. Time is set for a stored value.
type Statistic struct {
	stat.Entry
	Time time.Time `json:"time,omitzero"`
}

// Statistics are the result of show stat.
type Statistics []Statistic

// Text prints statistics in the format of Domino's console.
func (s Statistics) Text() string {
	var b strings.Builder
	for _, e := range s {
		if !e.Time.IsZero() {
			b.WriteString("  " + e.Time.Format("2006-01-02 15:04:05"))
		}
		b.WriteString("  " + e.String() + "\n")
	}
	return b.String()
}

// noStatistic reports that no statistic matches a name or pattern.
type noStatistic struct{ pattern string }

func (e *noStatistic) Error() string {
	return fmt.Sprintf("no statistic fits %q: doublet show stat lists all", e.pattern)
}

// Is reports whether target is store.ErrNotFound, so that the error is of the kind "not found".
func (e *noStatistic) Is(target error) bool { return target == store.ErrNotFound }

// statistics are the verbs of the server's statistics.
func statistics() []*Verb {
	return []*Verb{
		define("show stat", "statistics, all or those that fit a pattern, now or as they were", showStat,
			long("The task Collect stores all numbers every 15 minutes. A history has at most 100,000 values: give a "+
				"pattern, or a\nshorter time.")),
		onServer("collect", "store a report of all statistics now, and thin the old ones",
			func(ctx context.Context, c *ServerCall, _ *struct{}) (Done, error) {
				n, err := c.History.Collect(ctx)
				if err != nil {
					return Done{}, err
				}
				thinned, err := c.History.Thin(ctx, c.Server.KeepStatistics())
				return Done{fmt.Sprintf("stored %d statistics, removed %d old reports", n, thinned)}, err
			}),
	}
}

// maxHistory is the maximum number of values of a history.
const maxHistory = 100_000

func showStat(ctx context.Context, c *Call, a *ShowStat) (Statistics, error) {
	out := Statistics{}
	if !a.History {
		for _, e := range c.Stats.Snapshot(a.Pattern) {
			out = append(out, Statistic{Entry: e})
		}
	} else {
		from, err := since(cmp.Or(a.Since, "24h"), c.Env.Clock.Now())
		if err == nil {
			out, err = history(ctx, c, a.Pattern, from)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, &noStatistic{a.Pattern}
	}
	return out, nil
}

// since parses a time: a duration before now, with d for days, or a day.
func since(text string, now time.Time) (time.Time, error) {
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		text = days + "h"
		if d, err := time.ParseDuration(text); err == nil && d > 0 && d < 100*365*time.Hour {
			return now.Add(-24 * d), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return now, fmt.Errorf("%w: %q is no time such as 90m, 7d or 2026-03-01", ErrUsage, text)
	}
	return now.Add(-d), nil
}

// history returns the stored values of statistics, by name and time.
func history(ctx context.Context, c *Call, pattern string, from time.Time) (Statistics, error) {
	known := map[string]stat.Entry{}
	for _, e := range c.Stats.Snapshot(pattern) {
		known[e.Name] = e
	}
	out := Statistics{}
	err := c.History.Each(ctx, from, func(r *collect.Report) bool {
		r.Each(pattern, func(name string, v float64) {
			e := stat.Entry{Name: name, Kind: stat.KindGauge, Value: v}
			if now, ok := known[name]; ok {
				e.Kind, e.Unit = now.Kind, now.Unit
			}
			out = append(out, Statistic{e, r.Time})
		})
		return len(out) <= maxHistory
	})
	if err == nil && len(out) > maxHistory {
		err = fmt.Errorf("%w: more than %d values: give a pattern, or a shorter --since", ErrUsage, maxHistory)
	}
	slices.SortStableFunc(out, func(a, b Statistic) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Time.Compare(b.Time))
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil // nothing was ever collected here
	}
	return out, err
}
