package lite

import (
	"slices"
	"strconv"
	"time"

	"doublet/calendar"
	"doublet/wire/jmap"
)

// shifted adds to the changes of a series what moves with its start: the exceptions, and the ends and days of the
// rules, unless the changes have rules of their own. It returns a problem if a rule cannot follow.
func shifted(e, changed *jmap.Value) (*jmap.Value, error) {
	was, ok1 := calendar.ParseLocal(textOf(e, "start"))
	is, ok2 := calendar.ParseLocal(textOf(changed, "start"))
	if !ok1 || !ok2 || was.Equal(is) || e.Get("recurrenceRules").Len() == 0 {
		return changed, nil
	}
	by := is.Sub(was)
	out := *changed
	if overrides := e.Get("recurrenceOverrides"); overrides.Len() > 0 {
		next := jmap.MakeObject(nil, nil)
		for i := range overrides.Len() {
			key := overrides.Name(i)
			if at, ok := calendar.ParseLocal(key); ok {
				key = at.Add(by).Format(localTime)
			}
			moved := next.With(key, *overrides.At(i))
			next = &moved
		}
		out = out.With("recurrenceOverrides", *next)
	}
	if changed.Get("recurrenceRules") == nil {
		rules := e.Get("recurrenceRules")
		list := make([]jmap.Value, rules.Len())
		for i := range list {
			var err error
			if list[i], err = movedRule(rules.At(i), was, is); err != nil {
				return nil, err
			}
		}
		out = out.With("recurrenceRules", jmap.List(list...))
	}
	return &out, nil
}

func textOf(v *jmap.Value, name string) string { s, _ := v.Get(name).Text(); return s }

// movedRule returns a rule after the start of its series moved. A single month, day of the month or numbered weekday
// follows the start, and weekdays move by the same number of days. The new start does not say where several of them
// go, nor what is counted otherwise. movedRule returns a problem then. The web client refuses the same
// (state/recur.ts).
func movedRule(r *jmap.Value, was, is time.Time) (jmap.Value, error) {
	out := r.Without("")
	if until, ok := calendar.ParseLocal(textOf(r, "until")); ok {
		out = out.With("until", jmap.Text(until.Add(is.Sub(was)).Format(localTime)))
	}
	days := int(dayOf(is).Sub(dayOf(was)) / (24 * time.Hour))
	if days == 0 {
		return out, nil
	}
	months, monthDays := r.Get("byMonth").Len(), r.Get("byMonthDay").Len()
	if monthDays > 1 || months > 1 && is.Month() != was.Month() ||
		r.Get("byYearDay").Len()+r.Get("byWeekNo").Len()+r.Get("bySetPosition").Len() > 0 {
		return out, badEvent("calCannotMove")
	}
	if months == 1 {
		out = out.With("byMonth", jmap.List(jmap.Text(strconv.Itoa(int(is.Month())))))
	}
	if monthDays == 1 {
		out = out.With("byMonthDay", jmap.List(jmap.MakeNumber(int64(is.Day()))))
	}
	if r.Get("byDay").Len() > 0 {
		list, err := movedDays(r, days, is)
		if err != nil {
			return out, err
		}
		out = out.With("byDay", list)
	}
	return out, nil
}

// movedDays returns the weekdays of a rule after the start of its series moved by days, to is.
func movedDays(r *jmap.Value, days int, is time.Time) (jmap.Value, error) {
	by := r.Get("byDay")
	inYear := textOf(r, "frequency") == "yearly" && r.Get("byMonth").Len() == 0 // weekdays are counted in the year
	list := make([]jmap.Value, by.Len())
	for i := range list {
		code := slices.Index(weekdayCodes[:], textOf(by.At(i), "day"))
		nth, numbered := by.At(i).Get("nthOfPeriod").Int()
		if code < 0 || numbered && (by.Len() > 1 || inYear) {
			return jmap.Value{}, badEvent("calCannotMove")
		}
		list[i] = by.At(i).With("day", jmap.Text(weekdayCodes[((code+days)%7+7)%7]))
		if numbered {
			list[i] = list[i].With("nthOfPeriod", jmap.MakeNumber(nthOf(nth, is)))
		}
	}
	return jmap.List(list...), nil
}

// nthOf returns the number of a day among its weekday in the month, for a rule that had the number was: -1 is the last
// one. A fifth one, which few months have, becomes the last one.
func nthOf(was int64, day time.Time) int64 {
	n := int64((day.Day()-1)/7 + 1)
	if last := day.AddDate(0, 0, 7).Month() != day.Month(); last && (was < 0 || n == 5 && was != 5) {
		return -1
	}
	return n
}
