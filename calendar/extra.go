package calendar

import (
	"slices"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// propExtra is the property of iCalendar that holds what only JSCalendar can say: its parameter JSPTR is a path into
// the event, its value the JSON there (draft-ietf-calext-jscalendar-icalendar).
const (
	propExtra  = "JSPROP"
	paramExtra = "JSPTR"
)

// Bounds of what stands in JSPROP: the values of one line, and the properties of an event that iCalendar has no lines
// for. Each override names those that it lacks, so that many would make it large.
const (
	maxExtra = 20_000
	maxKept  = 100
)

// isKept reports whether a property is kept in JSPROP alone.
func isKept(name string) bool {
	return slices.Contains(kept, name) || strings.Contains(name, ":") && !strings.HasPrefix(name, "@") &&
		len(name) <= 255
}

// mayHold reports whether JSPROP may hold a property or a part of it. Lines that say the same win, so that a program
// that knows iCalendar alone can change them.
func mayHold(tokens []string) bool {
	f := fieldOf(tokens[0])
	if f == nil {
		return isKept(tokens[0])
	}
	if tokens[0] == "links" && len(tokens) > 2 && tokens[2] == propBlob {
		return false // it would show a stranger's choice of blob
	}
	return f.open && (len(tokens) > 1 || f.names[0] == "locale")
}

// withExtra returns a value of the event together with what stands in JSPROP. Malformed ones are ignored.
//
// Implements: draft-ietf-calext-jscalendar-icalendar JSPROP, JSPTR
func (e *event) withExtra(v *jmap.Value) *jmap.Value {
	var all extras
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if p.Name != propExtra {
			continue
		}
		tokens, ok := jmap.ParsePointer(p.Param(paramExtra))
		if !ok || !mayHold(tokens) {
			continue
		}
		if x, err := jmap.Parse(p.Text(), jmap.Bounds{Values: maxExtra, Depth: 20}); err == nil && !x.IsNull() {
			if tokens[0] == "links" && len(tokens) == 2 {
				next := x.Without(propBlob)
				x = &next
			}
			all.put(tokens, x)
		}
	}
	all.limit()
	return all.over(v)
}

// extras is a tree of values at paths, so that an object is copied once, however many there are: a stranger may send an
// event with many.
type extras struct {
	value   *jmap.Value // nil if there are members alone
	names   []string    // of the members, in their order
	members map[string]*extras
}

// put puts a value at a path, in place of those at the path and below.
func (x *extras) put(tokens []string, v *jmap.Value) {
	if len(tokens) == 0 {
		*x = extras{value: v}
		return
	}
	m := x.members[tokens[0]]
	if m == nil {
		if x.members == nil {
			x.members = map[string]*extras{}
		}
		m = &extras{}
		x.names, x.members[tokens[0]] = append(x.names, tokens[0]), m
	}
	m.put(tokens[1:], v)
}

// limit removes all but the last maxKept properties that iCalendar has no lines for: those that were set last. The
// others stay in the object unseen.
func (x *extras) limit() {
	extra := -maxKept
	for _, name := range x.names {
		if isKept(name) {
			extra++
		}
	}
	x.names = slices.DeleteFunc(x.names, func(name string) bool {
		if extra <= 0 || !isKept(name) {
			return false
		}
		extra--
		delete(x.members, name)
		return true
	})
}

// over returns v with the values of the tree. It makes the objects on the paths that are missing.
func (x *extras) over(v *jmap.Value) *jmap.Value {
	if x.value != nil {
		v = x.value
	}
	if x.members == nil {
		return v
	}
	var names []string
	var values []jmap.Value
	had := map[string]*jmap.Value{}
	if v.Kind() == jmap.Object {
		for i := range v.Len() {
			if name := v.Name(i); x.members[name] != nil {
				had[name] = v.At(i)
			} else {
				names, values = append(names, name), append(values, *v.At(i))
			}
		}
	}
	for _, name := range x.names {
		names, values = append(names, name), append(values, *x.members[name].over(had[name]))
	}
	return jmap.MakeObject(names, values)
}

// dropExtra removes the parts of a property that stand in JSPROP.
func (e *event) dropExtra(name string) {
	e.c.Properties = slices.DeleteFunc(e.c.Properties, func(p ical.Property) bool {
		if p.Name != propExtra {
			return false
		}
		tokens, ok := jmap.ParsePointer(p.Param(paramExtra))
		return ok && tokens[0] == name
	})
}

// addExtra puts a value at a path into JSPROP.
func (e *event) addExtra(path string, v *jmap.Value) {
	p := ical.Property{Name: propExtra, Value: ical.EscapeText(string(v.Append(nil)))}
	p.SetParam(paramExtra, path)
	e.c.Properties = append(e.c.Properties, p)
}

// keepRest puts into JSPROP what a value has and the lines of the event do not say.
func (e *event) keepRest(path string, want, got *jmap.Value) {
	if want.IsNull() || want.Equal(got) {
		return
	}
	if want.Kind() == jmap.Object && got.Kind() == jmap.Object {
		for i := range want.Len() {
			e.keepRest(jmap.AppendPointer(path, want.Name(i)), want.At(i), got.Get(want.Name(i)))
		}
		return
	}
	e.addExtra(path, want)
}
