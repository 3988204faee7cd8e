package recur

import (
	"errors"
	"slices"
	"time"
)

// ErrSteps is the error for an expansion that takes more work than one may: a rule that counts too far, or one that
// hardly ever comes true.
var ErrSteps = errors.New("recur: the rule takes too many steps")

// maxSteps bounds one expansion. A step is a period, a day or a candidate, and takes some tens of nanoseconds.
const maxSteps = 400_000

// lastYear is the last year that is expanded (RFC 5545 writes years with four digits).
const lastYear = 9999

// Between calls yield for the times of the rule with from ≤ t < to, ascending, until yield returns false. start is the
// DTSTART to which the rule belongs: it gives the parts that the rule leaves open, and COUNT counts from it. Until is
// left to the caller, who knows the time zone. start itself is yielded only if the rule holds for it.
func (r *Rule) Between(start, from, to time.Time, yield func(time.Time) bool) error {
	if end := time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC); to.After(end) {
		to = end
	}
	e := expansion{Rule: *r, start: start.Unix(), from: from.Unix(), to: to.Unix(), yield: yield}
	e.complete(start)
	if e.Frequency <= Daily {
		e.byDays(start)
	} else {
		e.byTime()
	}
	return e.err
}

// expansion is one call of Between. Times are seconds since 1970, days are numbers since then.
type expansion struct {
	Rule
	start, from, to int64
	yield           func(time.Time) bool
	counted, steps  int
	done            bool
	err             error
	times           []int64 // of a day, in seconds
	set             []int64 // the candidates of a period
	weekly          bool    // of a day the rule asks the weekday alone
}

// complete adds what the rule leaves to its start.
func (e *expansion) complete(start time.Time) {
	if len(e.YearDays)+len(e.MonthDays)+len(e.Days) == 0 {
		switch {
		case len(e.WeekNumbers) > 0:
			e.Days = []NDay{{Day: start.Weekday()}}
		case e.Frequency == Yearly:
			if len(e.Months) == 0 {
				e.Months = []int{int(start.Month())}
			}
			e.MonthDays = []int{start.Day()}
		case e.Frequency == Monthly:
			e.MonthDays = []int{start.Day()}
		case e.Frequency == Weekly:
			e.Days = []NDay{{Day: start.Weekday()}}
		}
	}
	fill := func(list *[]int, f Frequency, n int) {
		if len(*list) == 0 && e.Frequency < f {
			*list = []int{n}
		}
	}
	fill(&e.Hours, Hourly, start.Hour())
	fill(&e.Minutes, Minutely, start.Minute())
	fill(&e.Seconds, Secondly, start.Second())
	e.weekly = len(e.Months)+len(e.MonthDays)+len(e.YearDays)+len(e.WeekNumbers) == 0 && e.Frequency > Monthly
}

// Last returns the last time of a rule with a COUNT whose DTSTART is start; false: it has none, or it takes more than
// some thousands of steps to find it.
func (r *Rule) Last(start time.Time) (last time.Time, ok bool) {
	if r.Count == 0 {
		return last, false
	}
	if days := r.everyDays(start); days > 0 && r.Count < maxArithmetic {
		last = start.AddDate(0, 0, days*(r.Count-1))
		return last, last.Year() <= lastYear
	}
	if r.Count > maxCounted {
		return last, false
	}
	last = start
	err := r.Between(start, start, time.Unix(1<<38, 0), func(at time.Time) bool { last = at; return true })
	return last, err == nil
}

// maxCounted is the highest COUNT that is counted, maxArithmetic the highest one that is reckoned with.
const (
	maxCounted    = 2000
	maxArithmetic = 1_000_000
)

// everyDays returns the days between the times of a rule that has one time in each period, on the weekday and at the
// time of start; 0 if the rule is another one.
func (r *Rule) everyDays(start time.Time) int {
	if len(r.Months)+len(r.MonthDays)+len(r.YearDays)+len(r.WeekNumbers)+len(r.Positions)+
		len(r.Hours)+len(r.Minutes)+len(r.Seconds) > 0 || r.Interval > maxArithmetic {
		return 0
	}
	switch {
	case r.Frequency == Daily && len(r.Days) == 0:
		return r.Interval
	case r.Frequency == Weekly && (len(r.Days) == 0 || len(r.Days) == 1 && r.Days[0].Day == start.Weekday()):
		return 7 * r.Interval
	}
	return 0
}

// step counts work, and ends the expansion that takes too much.
func (e *expansion) step(n int) bool {
	if e.steps += n; e.steps > maxSteps {
		e.err, e.done = ErrSteps, true
	}
	return !e.done
}

// take hands over the candidates of a period, which are ascending.
func (e *expansion) take() {
	if len(e.Positions) > 0 {
		e.position()
	}
	for _, t := range e.set {
		if e.done || !e.step(1) {
			return
		}
		if t < e.start {
			continue
		}
		if t >= e.to {
			e.done = true
			return
		}
		e.counted++
		if t >= e.from && !e.yield(time.Unix(t, 0).UTC()) || e.Count > 0 && e.counted >= e.Count {
			e.done = true
		}
	}
}

// position keeps the candidates at the rule's positions.
func (e *expansion) position() {
	n := len(e.set)
	var kept []int64
	for _, p := range e.Positions {
		switch {
		case p > 0 && p <= n:
			kept = append(kept, e.set[p-1])
		case p < 0 && -p <= n:
			kept = append(kept, e.set[n+p])
		}
	}
	slices.Sort(kept)
	e.set = slices.Compact(kept)
}

// byDays expands a rule whose period is a day or longer.
func (e *expansion) byDays(start time.Time) {
	for _, h := range e.Hours {
		for _, m := range e.Minutes {
			for _, s := range e.Seconds {
				e.times = append(e.times, int64(h*3600+m*60+s))
			}
		}
	}
	slices.Sort(e.times)
	first := floorDiv(e.start, 86400)
	year, month, _ := start.Date()
	week := first - int64(start.Weekday()-e.WeekStart+7)%7
	skip := e.skipped(start)
	for n := skip; !e.done; n += e.Interval {
		var lo, hi int64 // the days of the period: lo ≤ day < hi
		switch e.Frequency {
		case Yearly:
			if year+n > lastYear {
				return
			}
			lo, hi = dayNumber(year+n, 1, 1), dayNumber(year+n+1, 1, 1)
		case Monthly:
			y, m := year+(int(month)-1+n)/12, (int(month)-1+n)%12+1
			if y > lastYear {
				return
			}
			lo, hi = dayNumber(y, m, 1), dayNumber(y, m+1, 1)
		case Weekly:
			lo = week + 7*int64(n)
			hi = lo + 7
		default:
			lo = first + int64(n)
			hi = lo + 1
		}
		if lo*86400 >= e.to || !e.step(1) {
			return
		}
		e.set = e.set[:0]
		e.addDays(lo, hi)
		e.take()
	}
}

// skipped returns the number of periods that may be left out since they end before from.
func (e *expansion) skipped(start time.Time) int {
	if e.Count > 0 || e.from <= e.start {
		return 0
	}
	at := time.Unix(e.from, 0).UTC()
	n := 0
	switch e.Frequency {
	case Yearly:
		n = at.Year() - start.Year()
	case Monthly:
		n = 12*(at.Year()-start.Year()) + int(at.Month()) - int(start.Month())
	case Weekly:
		n = int((e.from - e.start) / (7 * 86400))
	default:
		n = int((e.from - e.start) / 86400)
	}
	return max(0, (n-1)/e.Interval*e.Interval)
}

// addDays adds the candidates of the days from lo to below hi.
func (e *expansion) addDays(lo, hi int64) {
	for d := lo; d < hi; {
		if !e.step(1) {
			return
		}
		c := civil{weekday: weekdayOf(d)}
		if !e.weekly {
			c = civilOf(d)
		}
		if len(e.Months) > 0 && !slices.Contains(e.Months, c.month) {
			d = c.first + int64(c.length) // the next month
			continue
		}
		if e.holds(&c) {
			for _, t := range e.times {
				e.set = append(e.set, d*86400+t)
			}
			if !e.step(len(e.times)) {
				return
			}
		}
		d++
	}
}

// holds reports whether the rule allows a day; its month is checked already.
func (e *expansion) holds(c *civil) bool {
	if len(e.MonthDays) > 0 && !slices.Contains(e.MonthDays, c.day) &&
		!slices.Contains(e.MonthDays, c.day-c.length-1) {
		return false
	}
	if len(e.YearDays) > 0 && !slices.Contains(e.YearDays, c.yearDay) &&
		!slices.Contains(e.YearDays, c.yearDay-c.yearLength-1) {
		return false
	}
	if len(e.Days) > 0 && !e.weekday(c) {
		return false
	}
	return len(e.WeekNumbers) == 0 || e.week(c)
}

// weekday reports whether the day is one of the rule's Days.
func (e *expansion) weekday(c *civil) bool {
	for _, d := range e.Days {
		if d.Day != c.weekday {
			continue
		}
		at, of := c.day, c.length
		switch {
		case d.N == 0 || e.Frequency > Monthly:
			return true
		case e.Frequency == Yearly && len(e.Months) == 0:
			at, of = c.yearDay, c.yearLength
		}
		if d.N > 0 && (at-1)/7 == d.N-1 || d.N < 0 && (of-at)/7 == -d.N-1 {
			return true
		}
	}
	return false
}

// week reports whether the day is in one of the rule's weeks. Week 1 is the first with four days in the year.
func (e *expansion) week(c *civil) bool {
	first := weekOne(c.year, e.WeekStart)
	next := weekOne(c.year+1, e.WeekStart)
	switch {
	case c.number < first:
		first, next = weekOne(c.year-1, e.WeekStart), first
	case c.number >= next:
		first, next = next, weekOne(c.year+2, e.WeekStart)
	}
	at, of := int(c.number-first)/7, int(next-first)/7
	return slices.Contains(e.WeekNumbers, at+1) || slices.Contains(e.WeekNumbers, at-of)
}

// weekOne returns the first day of the first week of a year.
func weekOne(year int, start time.Weekday) int64 {
	fourth := dayNumber(year, 1, 4)
	return fourth - int64(weekdayOf(fourth)-start+7)%7
}

// byTime expands a rule whose period is shorter than a day.
func (e *expansion) byTime() {
	unit := int64(1)
	switch e.Frequency {
	case Hourly:
		unit = 3600
	case Minutely:
		unit = 60
	}
	period := unit * int64(e.Interval)
	first := e.start - mod(e.start, unit)
	at := first
	if e.Count == 0 && e.from > e.start {
		at = first + max(0, (e.from-first)/period-1)*period
	}
	// forward returns the first period that begins at to or later.
	forward := func(to int64) int64 { return first + (to-first+period-1)/period*period }
	for !e.done && at < e.to && e.step(1) {
		midnight := at - mod(at, 86400)
		c := civilOf(midnight / 86400)
		second := at - midnight
		h, m := int(second/3600), int(second/60%60)
		switch {
		case len(e.Months) > 0 && !slices.Contains(e.Months, c.month):
			at = forward((c.first + int64(c.length)) * 86400)
		case !e.holds(&c):
			at = forward(midnight + 86400)
		case len(e.Hours) > 0 && !slices.Contains(e.Hours, h):
			at = forward(at - mod(at, 3600) + 3600)
		case e.Frequency > Hourly && len(e.Minutes) > 0 && !slices.Contains(e.Minutes, m):
			at = forward(at - mod(at, 60) + 60)
		case e.Frequency == Secondly && len(e.Seconds) > 0 && !slices.Contains(e.Seconds, int(second%60)):
			at += period
		default:
			e.within(at)
			e.take()
			at += period
		}
	}
}

// within collects the candidates of a period that is shorter than a day.
func (e *expansion) within(at int64) {
	e.set = e.set[:0]
	switch e.Frequency {
	case Hourly:
		for _, m := range e.Minutes {
			for _, s := range e.Seconds {
				e.set = append(e.set, at+int64(m*60+s))
			}
		}
	case Minutely:
		for _, s := range e.Seconds {
			e.set = append(e.set, at+int64(s))
		}
	default:
		e.set = append(e.set, at)
	}
}

// civil is a day with all that rules ask of it.
type civil struct {
	number              int64
	first               int64 // the first day of its month
	year, month, day    int
	length              int // of the month
	yearDay, yearLength int
	weekday             time.Weekday
}

func civilOf(n int64) civil {
	t := time.Unix(n*86400, 0).UTC()
	y, m, d := t.Date()
	c := civil{number: n, first: n - int64(d) + 1, year: y, month: int(m), day: d, yearDay: t.YearDay(),
		yearLength: 365, weekday: weekdayOf(n)}
	if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		c.yearLength = 366
	}
	switch c.month {
	case 4, 6, 9, 11:
		c.length = 30
	case 2:
		c.length = c.yearLength - 337
	default:
		c.length = 31
	}
	return c
}

// dayNumber returns the days from 1970 to a date. Months behind December are those of the next year.
func dayNumber(y, m, d int) int64 {
	return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// weekdayOf returns the day of the week; 1970 began with a Thursday.
func weekdayOf(n int64) time.Weekday { return time.Weekday(mod(n+4, 7)) }

func floorDiv(a, b int64) int64 { return (a - mod(a, b)) / b }

func mod(a, b int64) int64 { return (a%b + b) % b }
