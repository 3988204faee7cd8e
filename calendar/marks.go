package calendar

import (
	"slices"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// marks prints how the event counts in free time, who may see it, and its color and keywords, where they differ from
// the defaults of JSCalendar.
//
// Implements: RFC 8984 §4.2.9 keywords, §4.2.11 color, §4.4.2 freeBusyStatus, §4.4.3 privacy
func (e *event) marks(w *jmap.Writer, properties []string) {
	wants := func(name string) bool { return slices.Contains(properties, name) }
	if wants("freeBusyStatus") && strings.EqualFold(e.c.Text("TRANSP"), "TRANSPARENT") {
		w.Text("freeBusyStatus", "free")
	}
	if class := strings.ToUpper(e.c.Text("CLASS")); wants("privacy") && class != "" && class != "PUBLIC" {
		privacy := "private" // RFC 5545 §3.8.1.3: a class that is not known is private
		if class == "CONFIDENTIAL" {
			privacy = "secret"
		}
		w.Text("privacy", privacy)
	}
	if color := e.c.Text("COLOR"); wants("color") && color != "" {
		w.Text("color", color)
	}
	if list := e.categories(); wants("keywords") && len(list) > 0 {
		w.Object("keywords", func(o *jmap.Writer) {
			for _, name := range list {
				o.Key(name) // the sender chose the name
				o.B = append(o.B, "true"...)
			}
		})
	}
}

// categories returns the categories of the event, each once and sorted.
func (e *event) categories() (list []string) {
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if p.Name != "CATEGORIES" {
			continue
		}
		from := 0
		for at := 0; at <= len(p.Value); at++ {
			switch {
			case at+1 < len(p.Value) && p.Value[at] == '\\':
				at++ // an escaped comma is part of the name
			case at >= len(p.Value) || p.Value[at] == ',':
				one := ical.Property{Value: p.Value[from:min(at, len(p.Value))]}
				if name := strings.TrimSpace(one.Text()); name != "" {
					list = append(list, name)
				}
				from = at + 1
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
