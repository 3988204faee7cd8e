package mime

import (
	"strings"
	"time"
)

// maxDate is the maximum length of a date field that is parsed.
const maxDate = 200

// ParseDate parses the date of a message (RFC 5322 sections 3.3 and 4.3). It also accepts common deviations: missing
// day names and seconds, two-digit years, zone names, comments, the order of asctime, ISO 8601. An unknown zone counts
// as UTC (RFC 5322 says -0000). ok is false unless day, month, year and time are all present and valid.
func ParseDate(s string) (t time.Time, ok bool) {
	s = cut(s, maxDate)
	d := dateParser{day: -1, month: -1, year: -1, hour: -1}
	for s != "" {
		c := s[0]
		switch {
		case c == '(':
			s = s[skipComment(s, 0):]
		case digit(c):
			s = d.number(s)
		case (c == '+' || c == '-') && d.hour >= 0 && len(s) > 1 && digit(s[1]):
			s = d.offset(s)
		case letter(c):
			n := 1
			for n < len(s) && letter(s[n]) {
				n++
			}
			d.word(s[:n])
			s = s[n:]
		default:
			s = s[1:]
		}
	}
	return d.time()
}

func digit(c byte) bool  { return '0' <= c && c <= '9' }
func letter(c byte) bool { c = lowerByte(c); return 'a' <= c && c <= 'z' }

// dateParser holds the fields found so far; -1 means missing.
type dateParser struct {
	day, month, year, hour, minute, second int
	zone                                   int // seconds east of UTC
	bad, pm, am, zoned                     bool
}

// isoMonthDay reports whether s begins like "-03-1" in an ISO 8601 date.
func isoMonthDay(s string) bool {
	return len(s) >= 6 && s[0] == '-' && digit(s[1]) && s[3] == '-' && digit(s[4])
}

// number parses the digits at the start of s: a time if a colon follows, else a day or year.
func (d *dateParser) number(s string) (rest string) {
	v, n := leadingNumber(s)
	rest = s[n:]
	switch {
	case n == 8 && d.year < 0 && d.day < 0: // 20260303
		d.year, d.month, d.day = v/10000, v/100%100-1, v%100
	case rest != "" && rest[0] == ':' && d.hour < 0:
		return d.clock(v, rest)
	case n == 4 && d.year < 0 && d.month < 0 && isoMonthDay(rest):
		m, _ := leadingNumber(rest[1:])
		day, w := leadingNumber(rest[4:])
		d.year, d.month, d.day = v, m-1, day
		rest = rest[4+w:]
	case d.day < 0 && n <= 2:
		d.day = v
	case d.year < 0:
		d.year = fullYear(v, n)
	}
	return rest
}

// fullYear completes a short year (RFC 5322 section 4.3).
func fullYear(v, digits int) int {
	switch {
	case digits <= 2 && v < 50:
		return v + 2000
	case digits <= 3:
		return v + 1900
	}
	return v
}

// clock parses ":minute[:second[.fraction]]".
func (d *dateParser) clock(hour int, s string) (rest string) {
	d.hour = hour
	m, n := leadingNumber(s[1:])
	if n == 0 {
		d.bad = true
		return s[1:]
	}
	d.minute, s = m, s[1+n:]
	if len(s) > 1 && s[0] == ':' && digit(s[1]) {
		d.second, n = leadingNumber(s[1:])
		s = s[1+n:]
		if len(s) > 1 && (s[0] == '.' || s[0] == ',') && digit(s[1]) {
			_, n = leadingNumber(s[1:])
			s = s[1+n:]
		}
	}
	return s
}

// offset parses "+hhmm", "+hh:mm" or "+hh".
func (d *dateParser) offset(s string) (rest string) {
	v, n := leadingNumber(s[1:])
	rest = s[1+n:]
	if n <= 2 {
		v *= 100
		if len(rest) > 1 && rest[0] == ':' && digit(rest[1]) {
			m, w := leadingNumber(rest[1:])
			v += m
			rest = rest[1+w:]
		}
	}
	if d.zoned {
		return rest
	}
	seconds := v/100*3600 + v%100*60
	if seconds > 24*3600 {
		seconds = 0
	}
	if s[0] == '-' {
		seconds = -seconds
	}
	d.zone, d.zoned = seconds, true
	return rest
}

// leadingNumber parses the digits at the start of s. It ignores the value of digits after the ninth.
func leadingNumber(s string) (v, n int) {
	for n < len(s) && digit(s[n]) {
		if n < 9 {
			v = v*10 + int(s[n]-'0')
		}
		n++
	}
	return v, n
}

const monthNames = "janfebmaraprmayjunjulaugsepoctnovdec"

// zones maps the zone names of RFC 5322 section 4.3, and some common unambiguous ones, to hours.
var zones = map[string]int{
	"edt": -4, "est": -5, "cdt": -5, "cst": -6, "mdt": -6, "mst": -7, "pdt": -7, "pst": -8,
	"cet": 1, "cest": 2, "met": 1, "mest": 2, "eet": 2, "eest": 3, "wet": 0, "west": 1, "msk": 3, "jst": 9,
	"akst": -9, "akdt": -8, "hst": -10,
}

// word parses a month, a zone, AM or PM. It ignores day names and other words.
func (d *dateParser) word(w string) {
	w = strings.ToLower(w)
	if len(w) >= 3 && d.month < 0 {
		if i := strings.Index(monthNames, w[:3]); i >= 0 && i%3 == 0 {
			d.month = i / 3
			return
		}
	}
	if d.hour < 0 {
		return
	}
	switch w {
	case "am":
		d.am = true
	case "pm":
		d.pm = true
	default:
		if hours, ok := zones[w]; ok && !d.zoned {
			d.zone, d.zoned = hours*3600, true
		}
	}
}

func (d *dateParser) valid() bool {
	return !d.bad && 0 <= d.month && d.month <= 11 && 1 <= d.year && d.year <= 9999 && 0 <= d.hour && d.hour <= 23 &&
		d.minute <= 59 && d.second <= 60 && 1 <= d.day && d.day <= daysIn(d.month, d.year)
}

func (d *dateParser) time() (time.Time, bool) {
	if !d.valid() {
		return time.Time{}, false
	}
	switch {
	case d.pm && d.hour < 12:
		d.hour += 12
	case d.am && d.hour == 12:
		d.hour = 0
	}
	loc := time.UTC
	if d.zone != 0 {
		loc = time.FixedZone("", d.zone)
	}
	return time.Date(d.year, time.Month(d.month+1), d.day, d.hour, d.minute, min(d.second, 59), 0, loc), true
}

func daysIn(month, year int) int {
	return time.Date(year, time.Month(month+2), 0, 0, 0, 0, 0, time.UTC).Day()
}
