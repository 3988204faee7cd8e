package rules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/wire/mime"
	"doublet/wire/sieve"
)

// date returns a part of the date in a field.
//
// Implements: RFC 5260 §4 date
func (c *compiler) date(n *sieve.Node) func(*run) ([]value, error) {
	name, part, at := c.text(n.Values[0].Text), c.text(n.Values[1].Text), positionOf(n)
	if at.index == 0 {
		at.index = 1
	}
	zone, has := c.tag(n, "zone")
	original := n.Has("originalzone")
	return func(r *run) ([]value, error) {
		found := r.named(r.expand(&name), at)
		if len(found) == 0 {
			return nil, nil
		}
		s := mime.Unfold(found[0].value)
		if i := strings.LastIndexByte(s, ';'); i >= 0 { // of Received
			s = s[i+1:]
		}
		t, ok := mime.ParseDate(s)
		if !ok {
			return nil, nil
		}
		if !original {
			t = r.inZone(t, &zone, has)
		}
		return []value{{text: datePart(t, r.expand(&part))}}, nil
	}
}

// currentdate returns a part of the time of the delivery.
//
// Implements: RFC 5260 §5 currentdate
func (c *compiler) currentdate(n *sieve.Node) func(*run) ([]value, error) {
	part := c.text(n.Values[0].Text)
	zone, has := c.tag(n, "zone")
	return func(r *run) ([]value, error) {
		return []value{{text: datePart(r.inZone(r.world.Now, &zone, has), r.expand(&part))}}, nil
	}
}

// inZone returns a time in a zone, or in that of the server.
func (r *run) inZone(t time.Time, zone *text, has bool) time.Time {
	if has {
		if z, ok := sieve.Zone(r.expand(zone)); ok {
			return t.In(z)
		}
	}
	return t.In(r.world.Now.Location())
}

// datePart returns a part of a date, in the forms of RFC 5260 section 4.2.
func datePart(t time.Time, part string) string {
	layout, ok := map[string]string{
		"year": "2006", "month": "01", "day": "02", "date": "2006-01-02", "hour": "15", "minute": "04", "second": "05",
		"time": "15:04:05", "iso8601": "2006-01-02T15:04:05-07:00", "std11": "Mon, 02 Jan 2006 15:04:05 -0700",
		"zone": "-0700",
	}[strings.ToLower(part)]
	switch {
	case ok:
		return t.Format(layout)
	case strings.EqualFold(part, "weekday"):
		return strconv.Itoa(int(t.Weekday()))
	case strings.EqualFold(part, "julian"): // days since 1858-11-17
		day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		return fmt.Sprint(day.Unix()/86400 + 40587)
	}
	return ""
}
