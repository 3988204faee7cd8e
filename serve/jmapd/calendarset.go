package jmapd

import (
	"regexp"

	"doublet/groupware"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// color is a color of CSS: a name, or an RGB value in hexadecimal notation.
var color = regexp.MustCompile(`^(#[0-9a-fA-F]{3}|#[0-9a-fA-F]{6}|[a-zA-Z]{3,30})$`)

// calendarReaders read the properties of a Calendar that a client may set.
var calendarReaders = map[string]propertyReader{
	"name":        readName,
	"description": readDescription,
	"sortOrder":   readSortOrder,
	"color": func(v *jmap.Value) (setProperty, bool) {
		text, _ := v.Text()
		return func(p *groupware.Properties) { p.Color = text }, color.MatchString(text) || v.IsNull()
	},
	"isVisible": func(v *jmap.Value) (setProperty, bool) {
		on, ok := v.Bool()
		return func(p *groupware.Properties) { p.Invisible = !on }, ok
	},
	"includeInAvailability": func(v *jmap.Value) (setProperty, bool) {
		text, _ := v.Text()
		return func(p *groupware.Properties) { p.Transparent = text == "none" }, text == "all" || text == "none"
	},
	"timeZone": func(v *jmap.Value) (setProperty, bool) {
		text, ok := v.Text()
		return func(p *groupware.Properties) { p.TimeZone = text }, v.IsNull() || ok && ical.HasZone(text)
	},
	"defaultAlertsWithTime": func(v *jmap.Value) (setProperty, bool) {
		return func(p *groupware.Properties) { p.AlertsWithTime = alertsText(v) }, isAlerts(v)
	},
	"defaultAlertsWithoutTime": func(v *jmap.Value) (setProperty, bool) {
		return func(p *groupware.Properties) { p.AlertsWithoutTime = alertsText(v) }, isAlerts(v)
	},
}

// alertsText returns a map of alerts as JSON, "" for none.
func alertsText(v *jmap.Value) string {
	if v.Len() == 0 {
		return ""
	}
	return string(v.Append(nil))
}

// isAlerts reports whether a value is a map of Alert objects, or null.
func isAlerts(v *jmap.Value) bool {
	if v.IsNull() {
		return true
	}
	if v.Kind() != jmap.Object {
		return false
	}
	for i := range v.Len() {
		if !jmap.ValidID(v.Name(i)) || v.At(i).Get("trigger").Kind() != jmap.Object {
			return false
		}
	}
	return true
}
