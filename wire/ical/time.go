package ical

import (
	"strconv"
	"strings"
	"time"
)

// Moment is a value of type DATE or DATE-TIME.
type Moment struct {
	// Wall has the date and the time of day as they stand, as if they were UTC.
	Wall time.Time
	// Zone is the TZID, "UTC" for a value in UTC, and "" for one that means the local time of each place.
	Zone string
	Day  bool // a DATE
}

// Moment returns the value of a property; false: it is no time.
//
// Implements: RFC 5545 §3.3.4 DATE
// Implements: RFC 5545 §3.3.5 DATE-TIME
func (p *Property) Moment() (Moment, bool) {
	if p == nil {
		return Moment{}, false
	}
	v := strings.TrimSpace(p.Value)
	if t, err := time.Parse("20060102", v); err == nil {
		return Moment{Wall: t, Day: true}, true
	}
	v, utc := strings.CutSuffix(v, "Z")
	t, err := time.Parse("20060102T150405", v)
	if err != nil {
		return Moment{}, false
	}
	m := Moment{Wall: t, Zone: p.Param("TZID")}
	if utc {
		m.Zone = "UTC"
	}
	return m, true
}

// maxDuration bounds a duration: no event lasts for a hundred years.
const maxDuration = 100 * 366 * 24 * time.Hour

// Duration parses a value of type DURATION; false: it is none, or one of over a hundred years.
//
// Implements: RFC 5545 §3.3.6 DURATION
func Duration(s string) (d time.Duration, ok bool) {
	sign := time.Duration(1)
	if rest, minus := strings.CutPrefix(s, "-"); minus {
		s, sign = rest, -1
	}
	s, ok = strings.CutPrefix(strings.TrimPrefix(s, "+"), "P")
	if !ok || s == "" {
		return 0, false
	}
	inTime := false
	for s != "" {
		if rest, isT := strings.CutPrefix(s, "T"); isT && !inTime {
			s, inTime = rest, true
			continue
		}
		end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(s[:end], 10, 32)
		unit, known := units[unitOf{s[end], inTime}]
		if err != nil || !known || time.Duration(n) > maxDuration/unit {
			return 0, false
		}
		if d += time.Duration(n) * unit; d > maxDuration {
			return 0, false
		}
		s = s[end+1:]
	}
	return sign * d, true
}

type unitOf struct {
	letter byte
	inTime bool
}

var units = map[unitOf]time.Duration{
	{'W', false}: 7 * 24 * time.Hour, {'D', false}: 24 * time.Hour,
	{'H', true}: time.Hour, {'M', true}: time.Minute, {'S', true}: time.Second,
}
