package contact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// addressKinds are the kinds of component at the places of ADR, those of RFC 9554 from the eighth on.
//
// Implements: RFC 9555 §2.6.1 ADR
var addressKinds = []string{"postOfficeBox", "apartment", "name", "locality", "region", "postcode", "country",
	"room", "apartment", "floor", "number", "name", "building", "block", "subdistrict", "district", "landmark",
	"direction"}

// basic is the number of components of ADR in RFC 6350.
const basic = 7

func readAddress(x *value) (Card, string) {
	parts := split(x.text, ';')
	parts = parts[:min(len(parts), len(addressKinds))]
	extended := len(parts) > basic && slices.ContainsFunc(parts[basic:], func(s string) bool { return s != "" })
	var components []any
	for i, part := range parts {
		if part == "" || extended && (i == 1 || i == 2) {
			continue
		}
		for _, v := range split(part, ',') {
			if v != "" {
				components = append(components, Card{"kind": addressKinds[i], "value": unescape(v)})
			}
		}
	}
	item := Card{}
	if components != nil {
		item["components"] = components
		sortComponents(item, addressKinds)
	}
	item.put("full", x.Param("LABEL"))
	item.put("countryCode", x.Param("CC"))
	item.put("coordinates", x.Param("GEO"))
	item.put("timeZone", x.Param("TZ"))
	if len(item) == 0 {
		return nil, ""
	}
	return item, ""
}

// components returns the values of the components of an object, by kind.
func components(item Card) map[string][]string {
	list, _ := item["components"].([]any)
	out := map[string][]string{}
	for _, c := range list {
		if c, ok := c.(Card); ok {
			out[c.text("kind")] = append(out[c.text("kind")], c.text("value"))
		}
	}
	return out
}

// list returns the value of a component with several elements.
func list(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = escape(v)
	}
	return strings.Join(out, ",")
}

func writeAddress(x *value, item Card) {
	by := components(item)
	extended := slices.ContainsFunc(addressKinds[basic:], func(kind string) bool {
		return len(by[kind]) > 0 && kind != "apartment" && kind != "name"
	})
	parts := make([]string, basic, len(addressKinds))
	for i := range parts {
		parts[i] = list(by[addressKinds[i]])
	}
	if extended {
		// Programs that know the first components only show the street with its number.
		parts[2] = escape(strings.TrimSpace(strings.Join(by["name"], " ") + " " + strings.Join(by["number"], " ")))
		for _, kind := range addressKinds[basic:] {
			parts = append(parts, list(by[kind]))
		}
	}
	x.Value = strings.Join(parts, ";")
	setParam(x.Property, "LABEL", item.text("full"))
	setParam(x.Property, "CC", item.text("countryCode"))
	setParam(x.Property, "GEO", item.text("coordinates"))
	setParam(x.Property, "TZ", item.text("timeZone"))
}

// readAnniversary reads BDAY, DEATHDATE and ANNIVERSARY.
//
// Implements: RFC 9555 §2.5.1 BDAY, BIRTHPLACE, DEATHDATE, DEATHPLACE, ANNIVERSARY
func readAnniversary(x *value) (Card, string) {
	if strings.EqualFold(x.Param("VALUE"), "text") {
		return nil, ""
	}
	date := readDate(strings.TrimSpace(x.text))
	if date == nil {
		return nil, ""
	}
	if omit := x.Param("X-APPLE-OMIT-YEAR"); omit != "" && date["year"] != nil &&
		omit == strconv.FormatFloat(date["year"].(float64), 'f', -1, 64) {
		delete(date, "year")
	}
	if scale := strings.ToLower(x.Param("CALSCALE")); scale != "gregorian" && date["utc"] == nil {
		date.put("calendarScale", scale)
	}
	kind := map[string]string{"BDAY": "birth", "DEATHDATE": "death"}[x.Name]
	if kind == "" {
		kind = "wedding"
	}
	return Card{"kind": kind, "date": date}, ""
}

// datePatterns are the forms of dates without a time: y, m and d stand for digits.
var datePatterns = []string{"yyyymmdd", "yyyy-mm-dd", "yyyy-mm", "yyyy", "--mmdd", "--mm-dd", "--mm", "---dd"}

// readDate reads a date of vCard 3.0 or 4.0 as a PartialDate, or as a Timestamp if it has a time in UTC; nil for
// another text. A time that is not in UTC is left out.
func readDate(s string) Card {
	for _, layout := range []string{"20060102T150405Z", "2006-01-02T15:04:05Z"} {
		if t, err := time.Parse(layout, s); err == nil {
			return Card{"@type": "Timestamp", "utc": t.Format(time.RFC3339)}
		}
	}
	if day, _, ok := strings.Cut(s, "T"); ok {
		s = day
	}
	for _, pattern := range datePatterns {
		if date := readDateAs(s, pattern); date != nil {
			return date
		}
	}
	return nil
}

func readDateAs(s, pattern string) Card {
	if len(s) != len(pattern) {
		return nil
	}
	numbers := map[byte]int{}
	for i := range len(s) {
		c := pattern[i]
		switch {
		case c == '-' && s[i] == '-':
		case c == '-' || s[i] < '0' || s[i] > '9':
			return nil
		default:
			numbers[c] = numbers[c]*10 + int(s[i]-'0')
		}
	}
	date := Card{"@type": "PartialDate"}
	for c, name := range map[byte]string{'y': "year", 'm': "month", 'd': "day"} {
		if strings.IndexByte(pattern, c) >= 0 {
			date[name] = float64(numbers[c])
		}
	}
	month, day := numbers['m'], numbers['d']
	if date["month"] != nil && (month < 1 || month > 12) || date["day"] != nil && (day < 1 || day > 31) {
		return nil
	}
	return date
}

func writeAnniversary(x *value, item Card) {
	setParam(x.Property, "VALUE", "")
	setParam(x.Property, "X-APPLE-OMIT-YEAR", "")
	date := item.object("date")
	setParam(x.Property, "CALSCALE", date.text("calendarScale"))
	if t, err := time.Parse(time.RFC3339, date.text("utc")); err == nil {
		layout := "20060102T150405Z"
		if x.old {
			layout = "2006-01-02T15:04:05Z"
		}
		x.Value = t.UTC().Format(layout)
		return
	}
	number := func(name string) int {
		n, _ := date[name].(float64)
		return int(n)
	}
	year, month, day := number("year"), number("month"), number("day")
	if x.old && year == 0 { // Apple's form of a date without a year
		year = 1604
		setParam(x.Property, "X-APPLE-OMIT-YEAR", "1604")
	}
	x.Value = formatDate(year, month, day, x.old)
}

// formatDate prints a date, of which parts may be 0.
func formatDate(year, month, day int, old bool) string {
	hyphen := ""
	if old {
		hyphen = "-"
	}
	switch {
	case year > 0 && month > 0 && day > 0:
		return fmt.Sprintf("%04d%s%02d%s%02d", year, hyphen, month, hyphen, day)
	case year > 0 && month > 0:
		return fmt.Sprintf("%04d-%02d", year, month)
	case year > 0:
		return fmt.Sprintf("%04d", year)
	case month > 0 && day > 0:
		return fmt.Sprintf("--%02d%02d", month, day)
	case month > 0:
		return fmt.Sprintf("--%02d", month)
	}
	return fmt.Sprintf("---%02d", day)
}
