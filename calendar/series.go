package calendar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"doublet/calendar/recur"
	"doublet/wire/ical"
)

// Series holds the times of an object, compactly, without its texts: what a search by time needs.
type Series struct {
	kind   string
	master *times // nil if the object has instances alone
	rules  []*recur.Rule
	added  []addition
	// gone holds the instants that EXDATE takes out or an instance replaces, those of local times as if in UTC;
	// goneDays the days, where the value is a day though the event has a time.
	gone, goneDays map[int64]bool
	instances      []instance
	maxLength      time.Duration
}

// addition is a time of an RDATE. length is that of the master if negative.
type addition struct {
	wall   time.Time
	length time.Duration
}

// instance is a component with a RECURRENCE-ID.
type instance struct {
	part     int // of Object.Parts
	id       ical.Moment
	idZone   *ical.Zone
	times    times
	onwards  bool // it replaces all later ones too
	replaced int64
}

// Occurrence is one time of an object, as instants.
type Occurrence struct {
	Start, End time.Time
	// ID is the time at which it would be if it were not moved, on the clocks of the object's zone.
	ID   time.Time
	Part int // the component of Object.Parts that describes it
	Busy Busy
}

// newSeries reads the times of an object.
func newSeries(o *Object) (*Series, error) {
	z := &zoned{object: o.Whole, found: map[string]*ical.Zone{}}
	s := &Series{kind: o.Kind, gone: map[int64]bool{}, goneDays: map[int64]bool{}}
	for i, c := range o.Parts {
		t, err := readTimes(z, c)
		if err != nil {
			return nil, err
		}
		s.maxLength = max(s.maxLength, t.length)
		if i == 0 && o.master {
			s.master = &t
			if err := s.recurrence(z, c); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.instance(z, c, i, t); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.instances, func(a, b instance) int { return a.id.Wall.Compare(b.id.Wall) })
	return s, nil
}

// recurrence reads the rules of the master, and its lists of times.
func (s *Series) recurrence(z *zoned, c *ical.Component) (err error) {
	if s.rules, err = rulesOf(c); err != nil {
		return err
	}
	for i := range c.Properties {
		p := &c.Properties[i]
		if p.Name != "RDATE" && p.Name != "EXDATE" {
			continue
		}
		for v := range strings.SplitSeq(p.Value, ",") {
			if len(s.added)+len(s.gone)+len(s.goneDays) >= maxDates {
				return fmt.Errorf("it has more than %d dates", maxDates)
			}
			if err := s.date(z, p, v); err != nil {
				return err
			}
		}
	}
	if (len(s.rules) > 0 || len(s.added) > 0) && s.master.start.Wall.IsZero() {
		return errors.New("it recurs, and has no DTSTART")
	}
	for i, r := range s.rules {
		s.rules[i] = s.counted(r)
	}
	return nil
}

// counted returns a rule with the time of its last occurrence in place of COUNT, so that a search need not count from
// the start. A rule that counts too far stays as it is.
func (s *Series) counted(r *recur.Rule) *recur.Rule {
	last, ok := s.last(r)
	if r.Count == 0 || !ok {
		return r
	}
	c := *r
	c.Count, c.Until, c.UntilUTC, c.UntilDay = 0, last, false, false
	return &c
}

// maxDates bounds the dates that are listed in an object.
const maxDates = 20_000

// date reads one value of an RDATE or EXDATE.
func (s *Series) date(z *zoned, p *ical.Property, value string) error {
	first, second, isPeriod := strings.Cut(value, "/")
	m, ok := (&ical.Property{Params: p.Params, Value: first}).Moment()
	if !ok {
		return fmt.Errorf("%s is no time: %.40q", p.Name, value)
	}
	at, err := z.instant(m, ical.UTC)
	if err != nil {
		return err
	}
	if p.Name == "EXDATE" {
		s.remove(m, at)
		return nil
	}
	// RDATEs are kept on the clocks of the start.
	a := addition{m.Wall, -1}
	if s.master.zone != nil && m.Zone != "" {
		a.wall = s.master.zone.Wall(at)
	}
	if isPeriod {
		if end, ok := (&ical.Property{Params: p.Params, Value: second}).Moment(); ok {
			to, err := z.instant(end, ical.UTC)
			if err != nil {
				return err
			}
			a.length = max(0, to.Sub(at))
		} else if d, ok := ical.Duration(second); ok {
			a.length = max(0, d)
		}
		s.maxLength = max(s.maxLength, a.length)
	}
	s.added = append(s.added, a)
	return nil
}

// remove excludes an instant, or a whole day.
func (s *Series) remove(m ical.Moment, at time.Time) {
	if m.Day && !s.master.start.Day {
		s.goneDays[m.Wall.Unix()] = true
	} else {
		s.gone[at.Unix()] = true
	}
}

// instance reads a component with a RECURRENCE-ID.
func (s *Series) instance(z *zoned, c *ical.Component, part int, t times) error {
	p := c.Get("RECURRENCE-ID")
	id, ok := p.Moment()
	if !ok {
		return fmt.Errorf("RECURRENCE-ID is no time: %.40q", p.Value)
	}
	at, err := z.instant(id, ical.UTC)
	if err != nil {
		return err
	}
	x := instance{part: part, id: id, times: t, replaced: at.Unix(),
		onwards: strings.EqualFold(p.Param("RANGE"), "THISANDFUTURE")}
	x.idZone, _ = z.of(id)
	if s.gone[x.replaced] && s.master != nil && slices.ContainsFunc(s.instances, func(y instance) bool {
		return y.replaced == x.replaced
	}) {
		return errors.New("two components have one RECURRENCE-ID")
	}
	if s.master != nil {
		s.remove(id, at)
	}
	s.instances = append(s.instances, x)
	return nil
}

// slack is more than clocks of two places differ, with a change of clocks.
const slack = 28 * time.Hour

// Between calls yield for the occurrences that overlap from ≤ t < to, until yield returns false. Times without a zone
// are those of floating. The order is that of the rules and lists, not that of the times.
//
// Implements: RFC 4791 §9.9 CALDAV:time-range
func (s *Series) Between(from, to time.Time, floating *ical.Zone, yield func(Occurrence) bool) error {
	if floating == nil {
		floating = ical.UTC
	}
	w := window{s: s, from: from, to: to, floating: floating, yield: yield}
	if s.master != nil {
		if err := w.recurring(); err != nil {
			return err
		}
	}
	for i := range s.instances {
		if w.done {
			return nil
		}
		x := &s.instances[i]
		id := x.id.Wall
		if s.master != nil && s.master.zone != nil {
			id = s.master.zone.Wall(w.zone(x.idZone).At(id))
		}
		w.offer(&x.times, x.times.start.Wall, x.times.length, id, x.part)
	}
	return nil
}

// window is one call of Between.
type window struct {
	s        *Series
	from, to time.Time
	floating *ical.Zone
	yield    func(Occurrence) bool
	done     bool
	seen     map[int64]bool // wall times, where several lists may name one
}

// recurring offers the occurrences of the master.
func (w *window) recurring() error {
	s, m := w.s, w.s.master
	start := m.start.Wall
	if len(s.rules) > 1 || len(s.added) > 0 {
		w.seen = map[int64]bool{}
	}
	if len(s.rules) == 0 {
		w.once(start, m.length)
	} else {
		for _, r := range s.rules {
			if err := w.rule(r, start); err != nil {
				return err
			}
		}
	}
	for _, a := range s.added {
		length := a.length
		if length < 0 {
			length = m.length
		}
		w.once(a.wall, length)
	}
	return nil
}

// rule offers the occurrences of one rule, and the start, which always counts.
func (w *window) rule(r *recur.Rule, start time.Time) error {
	s := w.s
	if r == s.rules[0] {
		w.once(start, s.master.length)
	}
	until := w.until(r)
	from, to := w.wide(s.maxLength)
	return r.Between(start, from, to, func(wall time.Time) bool {
		if !until(wall) {
			return false
		}
		if !wall.Equal(start) {
			w.once(wall, s.master.length)
		}
		return !w.done
	})
}

// wide returns the window on any clocks, with room for an event that began before.
func (w *window) wide(length time.Duration) (from, to time.Time) {
	low, high := time.Unix(math.MinInt32*8, 0), time.Unix(1<<38, 0)
	if from = w.from; from.Before(low) {
		from = low
	}
	if to = w.to; to.After(high) {
		to = high
	}
	return from.Add(-length - slack), to.Add(slack)
}

// until returns a function that reports whether a wall time is before the end of a rule.
func (w *window) until(r *recur.Rule) func(time.Time) bool {
	switch {
	case r.Until.IsZero():
		return func(time.Time) bool { return true }
	case r.UntilDay:
		end := r.Until.AddDate(0, 0, 1)
		return func(wall time.Time) bool { return wall.Before(end) }
	case r.UntilUTC && !w.s.master.start.Day:
		zone := w.zone(w.s.master.zone)
		return func(wall time.Time) bool { return !zone.At(wall).After(r.Until) }
	}
	return func(wall time.Time) bool { return !wall.After(r.Until) }
}

func (w *window) zone(z *ical.Zone) *ical.Zone {
	if z == nil {
		return w.floating
	}
	return z
}

// once offers the occurrence of the master at a wall time, unless it is taken out or replaced.
func (w *window) once(wall time.Time, length time.Duration) {
	s := w.s
	if len(s.gone) > 0 && s.gone[w.key(wall)] ||
		len(s.goneDays) > 0 && s.goneDays[wall.Truncate(24*time.Hour).Unix()] {
		return
	}
	if w.seen != nil {
		if w.seen[wall.Unix()] {
			return
		}
		w.seen[wall.Unix()] = true
	}
	part, t, at := 0, s.master, wall
	for i := range s.instances {
		if x := &s.instances[i]; x.onwards && !x.id.Wall.After(wall) {
			part, t, length = x.part, &x.times, x.times.length
			at = wall.Add(x.times.start.Wall.Sub(x.id.Wall))
		}
	}
	w.offer(t, at, length, wall, part)
}

// key returns the form of a wall time in Series.gone.
func (w *window) key(wall time.Time) int64 {
	if w.s.master.zone == nil {
		return wall.Unix()
	}
	return w.s.master.zone.At(wall).Unix()
}

// offer yields an occurrence if it overlaps the window. at is its start on the clocks of its zone.
func (w *window) offer(t *times, at time.Time, length time.Duration, id time.Time, part int) {
	if w.done {
		return
	}
	o := Occurrence{ID: id, Part: part, Busy: t.busy}
	if !t.start.Wall.IsZero() {
		o.Start = w.zone(t.zone).At(at)
		if o.End = o.Start.Add(length); t.start.Day {
			o.End = w.zone(t.zone).At(at.Add(length))
		}
	}
	if w.overlaps(t, &o) && !w.yield(o) {
		w.done = true
	}
}

// overlaps reports whether an occurrence overlaps the window, by the table of its kind.
func (w *window) overlaps(t *times, o *Occurrence) bool {
	hasStart := !t.start.Wall.IsZero()
	switch {
	case w.s.kind == Task:
		return w.task(t, o)
	case !hasStart:
		return false
	case o.End.After(o.Start):
		return w.from.Before(o.End) && w.to.After(o.Start)
	}
	return !w.from.After(o.Start) && w.to.After(o.Start)
}

// task is overlaps for a task.
func (w *window) task(t *times, o *Occurrence) bool {
	notAfter := func(a, b time.Time) bool { return !a.After(b) }
	switch hasStart, hasDue := !t.start.Wall.IsZero(), !t.end.Wall.IsZero(); {
	case hasStart && hasDue:
		return (w.from.Before(o.End) || notAfter(w.from, o.Start)) && (w.to.After(o.Start) || notAfter(o.End, w.to))
	case hasStart && t.exact:
		return notAfter(w.from, o.End) && (w.to.After(o.Start) || notAfter(o.End, w.to))
	case hasStart:
		return notAfter(w.from, o.Start) && w.to.After(o.Start)
	case hasDue:
		due := w.zone(t.endZone).At(t.end.Wall)
		o.Start, o.End = due, due
		return w.from.Before(due) && notAfter(due, w.to)
	}
	return w.undated(t)
}

// undated is overlaps for a task without a start and a due time.
func (w *window) undated(t *times) bool {
	completed, created := !t.completed.IsZero(), !t.created.IsZero()
	switch {
	case completed && created:
		return (!w.from.After(t.created) || !w.from.After(t.completed)) &&
			(!t.created.After(w.to) || !t.completed.After(w.to))
	case completed:
		return !w.from.After(t.completed) && !t.completed.After(w.to)
	case created:
		return w.to.After(t.created)
	}
	return true
}

// Always is the end of a Span that has none.
const Always = math.MaxInt64

// Span returns bounds of all occurrences, in Unix seconds, on whatever clocks: from is -Always where there is no lower
// bound, and to Always where there is no upper one.
func (s *Series) Span() (from, to int64) {
	if s.kind == Task {
		return -Always, Always // a task without times is due always
	}
	from, to = Always, -Always
	take := func(t *times, at time.Time, length time.Duration) {
		if at.IsZero() {
			return
		}
		low, high := at.Add(-slack), at.Add(length+slack)
		if t.zone != nil {
			low = t.zone.At(at)
			high = low.Add(length)
		}
		from, to = min(from, low.Unix()), max(to, high.Unix()+1)
	}
	for i := range s.instances {
		take(&s.instances[i].times, s.instances[i].times.start.Wall, s.instances[i].times.length)
	}
	if m := s.master; m != nil {
		take(m, m.start.Wall, m.length)
		for _, a := range s.added {
			take(m, a.wall, max(a.length, m.length))
		}
		for _, r := range s.rules {
			if last, ok := s.last(r); ok {
				take(m, last.Add(slack), s.maxLength)
			} else {
				to = Always
			}
		}
		if slices.ContainsFunc(s.instances, func(x instance) bool { return x.onwards }) {
			from, to = -Always, Always
		}
	}
	return from, to
}

// last returns a wall time behind which a rule has no occurrence; false: there is none, or it is hard to find.
func (s *Series) last(r *recur.Rule) (last time.Time, ok bool) {
	start := s.master.start.Wall
	if r.Count == 0 && !r.Until.IsZero() {
		return r.Until.Add(24 * time.Hour), true
	}
	return r.Last(start)
}

// Recurs reports whether the object has instances of their own: rules, dates, or more than one component.
func (s *Series) Recurs() bool {
	if s.master == nil {
		return len(s.instances) > 1
	}
	return len(s.rules) > 0 || len(s.added) > 0 || len(s.instances) > 0
}

// Start returns the start of the object: that of the series, or else that of its first instance. Times without a zone
// are those of floating.
func (s *Series) Start(floating *ical.Zone) time.Time {
	t := s.master
	if t == nil && len(s.instances) > 0 {
		t = &s.instances[0].times
	}
	if t == nil {
		return time.Time{}
	}
	w := window{floating: floating}
	return w.zone(t.zone).At(t.start.Wall)
}
