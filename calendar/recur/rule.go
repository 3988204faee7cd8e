// Package recur expands recurrence rules (RFC 5545 section 3.3.10). It knows no time zones: it works on wall times,
// held as times in UTC. The caller converts them to instants.
package recur

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Frequency is the length of a rule's period.
type Frequency uint8

// The frequencies, from the longest period to the shortest.
const (
	Yearly Frequency = iota
	Monthly
	Weekly
	Daily
	Hourly
	Minutely
	Secondly
)

var frequencies = []string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"}

// NDay is a day of the week; N is its number in the month or year, from the end if negative, 0 for all of them.
type NDay struct {
	N   int
	Day time.Weekday
}

// Rule is a recurrence rule. Lists are sorted; an empty list restricts nothing.
type Rule struct {
	Frequency Frequency
	Interval  int // at least 1
	Count     int // 0: no limit
	// Until is the last time that counts, zero for none: a wall time, an instant if UntilUTC, a whole day if UntilDay.
	Until              time.Time
	UntilUTC, UntilDay bool

	Months, WeekNumbers, YearDays, MonthDays []int
	Days                                     []NDay
	Hours, Minutes, Seconds, Positions       []int
	WeekStart                                time.Weekday
}

// ErrRule is the error for a text that is no rule.
var ErrRule = errors.New("recur: no recurrence rule")

var weekdays = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// maxText bounds the text of a rule, in bytes: one of all its lists in full fits.
const maxText = 8 << 10

// Parse parses the value of a property RRULE. Parts that it does not know are ignored, but RSCALE other than GREGORIAN
// is an error, because the rule would mean other days.
//
// Implements: RFC 5545 §3.3.10 RECUR
func Parse(text string) (*Rule, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: of over %d bytes", ErrRule, maxText)
	}
	r := &Rule{Interval: 1, WeekStart: time.Monday}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.ToUpper(strings.TrimSpace(text)), ";") {
		name, value, ok := strings.Cut(part, "=")
		if part == "" {
			continue
		}
		if !ok || seen[name] {
			return nil, fmt.Errorf("%w: %q", ErrRule, part)
		}
		seen[name] = true
		if err := r.set(name, value); err != nil {
			return nil, err
		}
	}
	switch {
	case !seen["FREQ"]:
		return nil, fmt.Errorf("%w: it has no FREQ", ErrRule)
	case len(r.Positions) > 0 && !r.restricted():
		return nil, fmt.Errorf("%w: BYSETPOS without another list", ErrRule)
	}
	return r, nil
}

// restricted reports whether the rule has any list besides that of positions.
func (r *Rule) restricted() bool {
	return len(r.Months)+len(r.WeekNumbers)+len(r.YearDays)+len(r.MonthDays)+len(r.Days)+len(r.Hours)+len(r.Minutes)+
		len(r.Seconds) > 0
}

func (r *Rule) set(name, value string) (err error) {
	switch name {
	case "FREQ":
		i := slices.Index(frequencies, value)
		if i < 0 {
			return fmt.Errorf("%w: FREQ=%s", ErrRule, value)
		}
		r.Frequency = Frequency(i)
	case "INTERVAL":
		r.Interval, err = number(name, value, 1, 1<<30)
	case "COUNT":
		r.Count, err = number(name, value, 1, 1<<30)
	case "UNTIL":
		err = r.until(value)
	case "WKST":
		i := slices.Index(weekdays, value)
		if i < 0 {
			return fmt.Errorf("%w: WKST=%s", ErrRule, value)
		}
		r.WeekStart = time.Weekday(i)
	case "BYDAY":
		err = r.days(value)
	case "RSCALE":
		if value != "GREGORIAN" {
			err = fmt.Errorf("%w: the calendar %s is not known here", ErrRule, value)
		}
	default:
		for _, l := range []struct {
			name     string
			list     *[]int
			lo, hi   int
			negative bool
		}{
			{"BYMONTH", &r.Months, 1, 12, false}, {"BYWEEKNO", &r.WeekNumbers, 1, 53, true},
			{"BYYEARDAY", &r.YearDays, 1, 366, true}, {"BYMONTHDAY", &r.MonthDays, 1, 31, true},
			{"BYHOUR", &r.Hours, 0, 23, false}, {"BYMINUTE", &r.Minutes, 0, 59, false},
			{"BYSECOND", &r.Seconds, 0, 60, false}, {"BYSETPOS", &r.Positions, 1, 366, true},
		} {
			if l.name == name {
				*l.list, err = numbers(name, value, l.lo, l.hi, l.negative)
			}
		}
	}
	return err
}

func number(name, s string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("%w: %s=%s", ErrRule, name, s)
	}
	return n, nil
}

func numbers(name, value string, lo, hi int, negative bool) (list []int, err error) {
	for s := range strings.SplitSeq(value, ",") {
		digits, sign := strings.TrimPrefix(s, "+"), 1
		if rest, minus := strings.CutPrefix(s, "-"); minus && negative {
			digits, sign = rest, -1
		}
		n, err := number(name, digits, lo, hi)
		if err != nil {
			return nil, err
		}
		list = append(list, sign*n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func (r *Rule) until(value string) (err error) {
	rest, utc := strings.CutSuffix(value, "Z")
	if r.Until, err = time.Parse("20060102T150405", rest); err == nil {
		r.UntilUTC = utc
		return nil
	}
	if r.Until, err = time.Parse("20060102", value); err != nil {
		return fmt.Errorf("%w: UNTIL=%s", ErrRule, value)
	}
	r.UntilDay = true
	return nil
}

func (r *Rule) days(value string) error {
	for s := range strings.SplitSeq(value, ",") {
		if len(s) < 2 {
			return fmt.Errorf("%w: BYDAY=%s", ErrRule, value)
		}
		d := NDay{Day: time.Weekday(slices.Index(weekdays, s[len(s)-2:]))}
		if d.Day < 0 {
			return fmt.Errorf("%w: BYDAY=%s", ErrRule, value)
		}
		if nth := strings.TrimPrefix(s[:len(s)-2], "+"); nth != "" {
			n, err := number("BYDAY", strings.TrimPrefix(nth, "-"), 1, 53)
			if err != nil {
				return err
			}
			if d.N = n; nth[0] == '-' {
				d.N = -n
			}
		}
		if !slices.Contains(r.Days, d) {
			r.Days = append(r.Days, d)
		}
	}
	return nil
}
