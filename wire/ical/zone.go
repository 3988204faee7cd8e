package ical

import (
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a server may have no database of time zones
)

// Zone is a time zone of an object.
type Zone struct {
	// Name is the name in the IANA database, "" if the rules of the VTIMEZONE have to do.
	Name  string
	at    *time.Location
	rules *Component
}

// UTC is the zone of times in UTC.
var UTC = &Zone{Name: "Etc/UTC", at: time.UTC}

// Named returns the zone with a name of the IANA database, or UTC if it has none of that name.
func Named(name string) *Zone {
	if name, at := iana(name); at != nil {
		return &Zone{Name: name, at: at}
	}
	return UTC
}

// In returns the zone of a location. One that is not in the IANA database, such as the server's own, has no Name.
func In(at *time.Location) *Zone {
	name, known := iana(at.String())
	if known == nil {
		name = ""
	}
	return &Zone{Name: name, at: at}
}

// Zone finds the time zone of a TZID in an object: in the IANA database by the TZID itself, the end of it behind a
// prefix, X-LIC-LOCATION of the VTIMEZONE, or the name that Windows gives it; else by the rules of the VTIMEZONE. nil:
// the object does not define the zone.
//
// Implements: RFC 5545 §3.2.19 TZID
// Implements: RFC 5545 §3.6.5 VTIMEZONE
func (c *Component) Zone(tzid string) *Zone {
	if tzid == "UTC" {
		return UTC
	}
	if name, at := iana(tzid); at != nil {
		return &Zone{Name: name, at: at}
	}
	for _, z := range c.Children {
		if z.Name != "VTIMEZONE" || z.Text("TZID") != tzid {
			continue
		}
		if name, at := iana(z.Text("X-LIC-LOCATION")); at != nil {
			return &Zone{Name: name, at: at}
		}
		if _, ok := z.offset(time.Time{}); ok {
			return &Zone{rules: z}
		}
		return nil
	}
	return nil
}

// At returns the instant at which clocks of the zone show a wall time.
func (z *Zone) At(wall time.Time) time.Time {
	if z.at == nil {
		seconds, _ := z.rules.offset(wall)
		return wall.Add(-time.Duration(seconds) * time.Second)
	}
	y, month, d := wall.Date()
	h, minute, s := wall.Clock()
	return time.Date(y, month, d, h, minute, s, 0, z.at).UTC()
}

// Wall returns the wall time of an instant.
func (z *Zone) Wall(instant time.Time) time.Time {
	if z.at != nil {
		_, seconds := instant.In(z.at).Zone()
		return instant.UTC().Add(time.Duration(seconds) * time.Second)
	}
	// The rules go by wall times. Two steps suffice but within the hour of a change.
	wall := instant.UTC()
	for range 2 {
		seconds, _ := z.rules.offset(wall)
		wall = instant.UTC().Add(time.Duration(seconds) * time.Second)
	}
	return wall
}

// database caches the zones of the IANA database, which has some 600 names.
var database sync.Map

// load returns a zone of the database, or nil.
func load(name string) *time.Location {
	if at, ok := database.Load(name); ok {
		return at.(*time.Location)
	}
	at, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	database.Store(name, at)
	return at
}

// iana finds a zone of the database by its name, also behind a prefix such as "/citadel.org/20210210_1/".
func iana(tzid string) (string, *time.Location) {
	if other, known := windows[tzid]; known {
		tzid = other
	}
	parts := strings.Split(strings.Trim(tzid, "/"), "/")
	for i := max(0, len(parts)-3); i < len(parts); i++ {
		name := strings.Join(parts[i:], "/")
		if name == "" || name == "Local" || strings.Contains(name, "..") {
			continue
		}
		if at := load(name); at != nil {
			return name, at
		}
	}
	return "", nil
}

// offset returns the offset from UTC, in seconds, that the rules of a VTIMEZONE have at a wall time: that of the
// observance which began last.
func (c *Component) offset(wall time.Time) (seconds int, ok bool) {
	var last time.Time
	for _, o := range c.Children {
		if o.Name != "STANDARD" && o.Name != "DAYLIGHT" {
			continue
		}
		to, isOffset := utcOffset(o.Text("TZOFFSETTO"))
		start, isTime := o.Get("DTSTART").Moment()
		if !isOffset || !isTime {
			continue
		}
		onset := o.lastOnset(start.Wall, wall)
		// What begins later than the wall time counts only while nothing is known of earlier.
		if !ok || onset.After(last) && !onset.After(wall) || last.After(wall) && onset.Before(last) {
			seconds, last, ok = to, onset, true
		}
	}
	return seconds, ok
}

// lastOnset returns the last time, not after wall, at which an observance begins, or its first.
func (c *Component) lastOnset(start, wall time.Time) time.Time {
	last := start
	take := func(t time.Time) {
		if !t.After(wall) && t.After(last) {
			last = t
		}
	}
	for i := range c.Properties {
		switch p := &c.Properties[i]; p.Name {
		case "RDATE":
			for v := range strings.SplitSeq(p.Value, ",") {
				if m, ok := (&Property{Value: v}).Moment(); ok {
					take(m.Wall)
				}
			}
		case "RRULE":
			r := yearly(p.Value, start)
			for year := wall.Year() - 1; r != nil && year <= wall.Year(); year++ {
				if t := r(year); year >= start.Year() {
					take(t)
				}
			}
		}
	}
	return last
}

// yearly returns the day of a year on which a rule such as FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU falls, at the hour of
// start; nil for other rules, which time zones do not have.
func yearly(rule string, start time.Time) func(year int) time.Time {
	parts := Rule(rule)
	if parts["FREQ"] != "YEARLY" {
		return nil
	}
	month := int(start.Month())
	if m, err := strconv.Atoi(parts["BYMONTH"]); err == nil && m >= 1 && m <= 12 {
		month = m
	}
	until := time.Time{}
	if m, ok := (&Property{Value: parts["UNTIL"]}).Moment(); ok {
		until = m.Wall
	}
	nth, day := 0, start.Day()
	weekday := time.Sunday
	if by := parts["BYDAY"]; len(by) >= 3 {
		n, err := strconv.Atoi(by[:len(by)-2])
		at := strings.Index(weekdays, by[len(by)-2:])
		if err != nil || n == 0 || n < -5 || n > 5 || at < 0 {
			return nil
		}
		nth, weekday = n, time.Weekday(at/2)
	} else if by != "" {
		return nil
	}
	return func(year int) time.Time {
		t := time.Date(year, time.Month(month), day, start.Hour(), start.Minute(), start.Second(), 0, time.UTC)
		switch {
		case nth > 0:
			first := t.AddDate(0, 0, 1-day)
			t = first.AddDate(0, 0, (int(weekday-first.Weekday())+7)%7+7*(nth-1))
		case nth < 0:
			end := time.Date(year, time.Month(month)+1, 0, start.Hour(), start.Minute(), start.Second(), 0, time.UTC)
			t = end.AddDate(0, 0, -(int(end.Weekday()-weekday)+7)%7+7*(nth+1))
		}
		if !until.IsZero() && t.After(until) {
			return time.Time{}
		}
		return t
	}
}

// weekdays has the days of a week as rules write them, in the order of time.Weekday.
const weekdays = "SUMOTUWETHFRSA"

// Rule returns the parts of a recurrence rule by their names; a name that is repeated has its last value.
//
// Implements: RFC 5545 §3.3.10 RECUR, its outer form
func Rule(s string) map[string]string {
	parts := map[string]string{}
	for part := range strings.SplitSeq(s, ";") {
		if name, value, ok := strings.Cut(part, "="); ok && len(parts) < 20 {
			parts[strings.ToUpper(name)] = strings.ToUpper(value)
		}
	}
	return parts
}

// utcOffset parses +HHMM or +HHMMSS, in seconds.
//
// Implements: RFC 5545 §3.3.14 UTC-OFFSET
func utcOffset(s string) (int, bool) {
	if len(s) != 5 && len(s) != 7 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:], 10, 32)
	if err != nil {
		return 0, false
	}
	if len(s) == 5 {
		n *= 100
	}
	h, m, sec := int(n/10000), int(n/100%100), int(n%100)
	if h > 23 || m > 59 || sec > 59 {
		return 0, false
	}
	seconds := h*3600 + m*60 + sec
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// windows maps names of Windows to those of the IANA database (CLDR, windowsZones.xml, territory 001).
var windows = map[string]string{
	"Dateline Standard Time": "Etc/GMT+12", "Hawaiian Standard Time": "Pacific/Honolulu",
	"Alaskan Standard Time": "America/Anchorage", "Pacific Standard Time": "America/Los_Angeles",
	"US Mountain Standard Time": "America/Phoenix", "Mountain Standard Time": "America/Denver",
	"Central America Standard Time": "America/Guatemala", "Central Standard Time": "America/Chicago",
	"Central Standard Time (Mexico)": "America/Mexico_City", "Canada Central Standard Time": "America/Regina",
	"SA Pacific Standard Time": "America/Bogota", "Eastern Standard Time": "America/New_York",
	"US Eastern Standard Time": "America/Indianapolis", "Venezuela Standard Time": "America/Caracas",
	"Atlantic Standard Time": "America/Halifax", "SA Western Standard Time": "America/La_Paz",
	"Pacific SA Standard Time": "America/Santiago", "Newfoundland Standard Time": "America/St_Johns",
	"E. South America Standard Time": "America/Sao_Paulo", "Argentina Standard Time": "America/Buenos_Aires",
	"SA Eastern Standard Time": "America/Cayenne", "Greenland Standard Time": "America/Godthab",
	"Azores Standard Time": "Atlantic/Azores", "Cape Verde Standard Time": "Atlantic/Cape_Verde",
	"Coordinated Universal Time": "Etc/UTC", "GMT Standard Time": "Europe/London",
	"Greenwich Standard Time": "Atlantic/Reykjavik", "Morocco Standard Time": "Africa/Casablanca",
	"W. Europe Standard Time": "Europe/Berlin", "Central Europe Standard Time": "Europe/Budapest",
	"Romance Standard Time": "Europe/Paris", "Central European Standard Time": "Europe/Warsaw",
	"W. Central Africa Standard Time": "Africa/Lagos", "Jordan Standard Time": "Asia/Amman",
	"GTB Standard Time": "Europe/Bucharest", "Middle East Standard Time": "Asia/Beirut",
	"Egypt Standard Time": "Africa/Cairo", "E. Europe Standard Time": "Europe/Chisinau",
	"South Africa Standard Time": "Africa/Johannesburg", "FLE Standard Time": "Europe/Kiev",
	"Israel Standard Time": "Asia/Jerusalem", "Kaliningrad Standard Time": "Europe/Kaliningrad",
	"Turkey Standard Time": "Europe/Istanbul", "Arabic Standard Time": "Asia/Baghdad",
	"Arab Standard Time": "Asia/Riyadh", "Belarus Standard Time": "Europe/Minsk",
	"Russian Standard Time": "Europe/Moscow", "E. Africa Standard Time": "Africa/Nairobi",
	"Iran Standard Time": "Asia/Tehran", "Arabian Standard Time": "Asia/Dubai",
	"Azerbaijan Standard Time": "Asia/Baku", "Georgian Standard Time": "Asia/Tbilisi",
	"Caucasus Standard Time": "Asia/Yerevan", "Afghanistan Standard Time": "Asia/Kabul",
	"West Asia Standard Time": "Asia/Tashkent", "Ekaterinburg Standard Time": "Asia/Yekaterinburg",
	"Pakistan Standard Time": "Asia/Karachi", "India Standard Time": "Asia/Calcutta",
	"Sri Lanka Standard Time": "Asia/Colombo", "Nepal Standard Time": "Asia/Katmandu",
	"Central Asia Standard Time": "Asia/Almaty", "Bangladesh Standard Time": "Asia/Dhaka",
	"N. Central Asia Standard Time": "Asia/Novosibirsk", "Myanmar Standard Time": "Asia/Rangoon",
	"SE Asia Standard Time": "Asia/Bangkok", "North Asia Standard Time": "Asia/Krasnoyarsk",
	"China Standard Time": "Asia/Shanghai", "Singapore Standard Time": "Asia/Singapore",
	"W. Australia Standard Time": "Australia/Perth", "Taipei Standard Time": "Asia/Taipei",
	"Tokyo Standard Time": "Asia/Tokyo", "Korea Standard Time": "Asia/Seoul",
	"Yakutsk Standard Time": "Asia/Yakutsk", "Cen. Australia Standard Time": "Australia/Adelaide",
	"AUS Central Standard Time": "Australia/Darwin", "E. Australia Standard Time": "Australia/Brisbane",
	"AUS Eastern Standard Time": "Australia/Sydney", "West Pacific Standard Time": "Pacific/Port_Moresby",
	"Tasmania Standard Time": "Australia/Hobart", "Vladivostok Standard Time": "Asia/Vladivostok",
	"Central Pacific Standard Time": "Pacific/Guadalcanal", "New Zealand Standard Time": "Pacific/Auckland",
	"Fiji Standard Time": "Pacific/Fiji", "Tonga Standard Time": "Pacific/Tongatapu",
}
