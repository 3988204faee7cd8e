package calendar

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar/recur"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// ruleNumbers maps the parts of a rule that are numbers to their names in JSCalendar, ruleLists those that are lists of
// numbers.
var (
	ruleNumbers = [...]struct{ from, to string }{{"INTERVAL", "interval"}, {"COUNT", "count"}}
	ruleLists   = [...]struct{ from, to string }{{"BYMONTHDAY", "byMonthDay"}, {"BYYEARDAY", "byYearDay"},
		{"BYWEEKNO", "byWeekNo"}, {"BYHOUR", "byHour"}, {"BYMINUTE", "byMinute"}, {"BYSECOND", "bySecond"},
		{"BYSETPOS", "bySetPosition"}}
)

// printRules prints the recurrence rules of the event.
//
// Implements: RFC 8984 §4.3.3 recurrenceRules
func printRules(e *event, w *jmap.Writer, _ func(string) bool) {
	n := 0
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if p.Name != "RRULE" {
			continue
		}
		parts := ical.Rule(p.Value)
		if parts["FREQ"] == "" {
			continue
		}
		if n++; n == 1 {
			w.Name("recurrenceRules")
			w.B = append(w.B, '[')
		} else {
			w.B = append(w.B, ',')
		}
		w.B = e.appendRule(w.B, parts)
	}
	if n > 0 {
		w.B = append(w.B, ']')
	}
}

// appendRule prints a rule of iCalendar as one of JSCalendar.
func (e *event) appendRule(dst []byte, parts map[string]string) []byte {
	o := jmap.NewWriter(dst)
	o.Text("@type", "RecurrenceRule")
	o.Text("frequency", strings.ToLower(parts["FREQ"]))
	for _, number := range ruleNumbers {
		if n, err := strconv.ParseUint(parts[number.from], 10, 31); err == nil {
			o.Uint(number.to, n)
		}
	}
	until := ical.Property{Value: parts["UNTIL"]}
	if m, ok := until.Moment(); ok {
		if start, ok := e.c.Get("DTSTART").Moment(); ok && m.Zone == "UTC" && start.Zone != "" {
			if z := e.object.Zone(start.Zone); z != nil { // until is local time, as start is
				m.Wall = z.Wall(m.Wall)
			}
		}
		o.Text("until", m.Wall.Format(localTime))
	}
	if by := parts["BYDAY"]; by != "" {
		appendDays(&o, by)
	}
	appendLists(&o, parts)
	if first := strings.ToLower(parts["WKST"]); first != "" && first != "mo" {
		o.Text("firstDayOfWeek", first)
	}
	return o.End()
}

// appendLists prints the parts of a rule that are lists of numbers.
func appendLists(o *jmap.Writer, parts map[string]string) {
	for _, list := range ruleLists {
		if by := parts[list.from]; by != "" {
			o.Name(list.to)
			o.B = append(o.B, '[')
			for i, n := range numbers(by) {
				if i > 0 {
					o.B = append(o.B, ',')
				}
				o.B = strconv.AppendInt(o.B, int64(n), 10)
			}
			o.B = append(o.B, ']')
		}
	}
	if by := parts["BYMONTH"]; by != "" {
		var months []string
		for _, n := range numbers(by) {
			months = append(months, strconv.Itoa(n))
		}
		o.Strings("byMonth", months...)
	}
}

// numbers parses a list of whole numbers, and leaves out what is none.
func numbers(s string) (list []int) {
	for x := range strings.SplitSeq(s, ",") {
		if n, err := strconv.Atoi(x); err == nil && n >= -366 && n <= 366 {
			list = append(list, n)
		}
	}
	return list
}

// appendDays prints the days of a rule, each with its number in the month or year if it has one.
func appendDays(o *jmap.Writer, by string) {
	o.Name("byDay")
	o.B = append(o.B, '[')
	n := 0
	for x := range strings.SplitSeq(by, ",") {
		if len(x) < 2 {
			continue
		}
		if n++; n > 1 {
			o.B = append(o.B, ',')
		}
		d := jmap.NewWriter(o.B)
		d.Text("@type", "NDay")
		d.Text("day", strings.ToLower(x[len(x)-2:]))
		if nth, err := strconv.Atoi(x[:len(x)-2]); err == nil && nth >= -366 && nth <= 366 {
			d.Name("nthOfPeriod")
			d.B = strconv.AppendInt(d.B, int64(nth), 10)
		}
		o.B = d.End()
	}
	o.B = append(o.B, ']')
}

// setRules writes the rules of the event, after its times.
func setRules(e *event, _, want *jmap.Value) error {
	v := want.Get("recurrenceRules")
	if v.IsNull() {
		e.c.Drop("RRULE")
		return nil
	}
	if v.Kind() != jmap.Array || v.Len() > maxRules {
		return invalid("it is no list of at most 10 rules", "recurrenceRules")
	}
	start, ok := e.c.Get("DTSTART").Moment()
	if !ok {
		return invalid("an event without a start does not recur", "recurrenceRules")
	}
	var rules []ical.Property
	for i := range v.Len() {
		text, ok := e.ruleText(v.At(i), start)
		if ok {
			_, err := recur.Parse(text)
			ok = err == nil
		}
		if !ok {
			return invalid("a rule has a part that is unknown, missing, or cannot be that", "recurrenceRules")
		}
		rules = append(rules, ical.Property{Name: "RRULE", Value: text})
	}
	e.c.Drop("RRULE")
	e.c.Properties = append(e.c.Properties, rules...)
	return nil
}

// frequencies are those of RFC 8984 section 4.3.3.
var frequencies = []string{"yearly", "monthly", "weekly", "daily", "hourly", "minutely", "secondly"}

// ruleText returns a rule of JSCalendar as one of iCalendar.
func (e *event) ruleText(v *jmap.Value, start ical.Moment) (string, bool) {
	frequency, _ := v.Get("frequency").Text()
	if v.Kind() != jmap.Object || !slices.Contains(frequencies, frequency) {
		return "", false
	}
	text := "FREQ=" + strings.ToUpper(frequency)
	for i := range v.Len() {
		part, ok := e.rulePart(v.Name(i), v.At(i), start)
		if !ok {
			return "", false
		}
		text += part
	}
	return text, true
}

// rulePart returns a part of a rule, with a semicolon before it.
func (e *event) rulePart(name string, v *jmap.Value, start ical.Moment) (string, bool) {
	text, isText := v.Text()
	switch {
	case v.IsNull(), name == "frequency", ruleWords[name] != "" && ruleWords[name] == text:
		return "", true
	case name == "firstDayOfWeek" && isText:
		return ";WKST=" + strings.ToUpper(text), len(text) == 2
	case name == "until" && isText:
		until, ok := ParseLocal(text)
		return ";UNTIL=" + e.untilText(until, start), ok
	case name == "byDay":
		return daysText(v)
	case name == "byMonth":
		list, ok := stringsOf(v)
		return ";BYMONTH=" + strings.Join(list, ","), ok && len(list) > 0
	}
	return numbersText(name, v)
}

// ruleWords are the values of parts of a rule that iCalendar needs no part for.
var ruleWords = map[string]string{"@type": "RecurrenceRule", "rscale": "gregorian", "skip": "omit"}

// numbersText returns a part of a rule that is a number or a list of numbers.
func numbersText(name string, v *jmap.Value) (string, bool) {
	n, isInt := v.Int()
	for _, x := range ruleNumbers {
		if x.to == name {
			return ";" + x.from + "=" + strconv.FormatInt(n, 10), isInt && n > 0
		}
	}
	for _, x := range ruleLists {
		if x.to == name {
			list, ok := integers(v)
			return ";" + x.from + "=" + strings.Join(list, ","), ok && len(list) > 0
		}
	}
	return "", false
}

// untilText returns the end of a rule in the form that RFC 5545 section 3.3.10 asks for by the start.
func (e *event) untilText(until time.Time, start ical.Moment) string {
	switch z := e.object.Zone(start.Zone); {
	case start.Day:
		return until.Format(dayForm)
	case start.Zone == "" || z == nil:
		return until.Format(wallTime)
	default:
		return z.At(until).Format(stamp)
	}
}

func daysText(v *jmap.Value) (string, bool) {
	if v.Kind() != jmap.Array || v.Len() == 0 {
		return "", false
	}
	var list []string
	for i := range v.Len() {
		day, ok := v.At(i).Get("day").Text()
		nth := v.At(i).Get("nthOfPeriod")
		n, isInt := nth.Int()
		if !ok || len(day) != 2 || !nth.IsNull() && (!isInt || n == 0) {
			return "", false
		}
		text := strings.ToUpper(day)
		if n != 0 {
			text = strconv.FormatInt(n, 10) + text
		}
		list = append(list, text)
	}
	return ";BYDAY=" + strings.Join(list, ","), true
}

// stringsOf returns a list of strings without control characters.
func stringsOf(v *jmap.Value) (list []string, ok bool) {
	if v.Kind() != jmap.Array {
		return nil, false
	}
	for i := range v.Len() {
		s, isText := v.At(i).Text()
		if s, ok = line(s); !isText || !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

func integers(v *jmap.Value) (list []string, ok bool) {
	if v.Kind() != jmap.Array {
		return nil, false
	}
	for i := range v.Len() {
		n, isInt := v.At(i).Int()
		if !isInt {
			return nil, false
		}
		list = append(list, strconv.FormatInt(n, 10))
	}
	return list, true
}
