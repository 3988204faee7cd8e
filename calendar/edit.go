package calendar

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// New returns an object with one Event, which starts at the time of the change, or one Task. It has no other properties
// yet. Edit gives it those of a client.
func New(kind, uid string, now time.Time) *Object {
	at := now.UTC().Format(stamp)
	c := &ical.Component{Name: kind}
	c.SetText("UID", uid)
	for _, name := range []string{"DTSTAMP", "CREATED", "LAST-MODIFIED"} {
		c.Set(ical.Property{Name: name, Value: at})
	}
	if kind == Event { // without a zone, as JSCalendar begins
		c.Set(ical.Property{Name: "DTSTART", Value: now.UTC().Format(wallTime)})
	}
	whole := &ical.Component{Name: "VCALENDAR", Properties: []ical.Property{{Name: "VERSION", Value: "2.0"},
		{Name: "PRODID", Value: Product}}, Children: []*ical.Component{c}}
	o, err := NewObject(whole)
	if err != nil {
		panic(err) // a bug: the object is whole, unless the uid is empty or too long
	}
	return o
}

// ValidUID reports whether an object may have a UID.
func ValidUID(uid string) bool {
	s, ok := line(uid)
	return ok && s != "" && len(s) <= maxUID && s == strings.TrimSpace(s)
}

// Text returns the object as a text.
func (o *Object) Text() []byte { return ical.Append(nil, o.Whole) }

// Settable reports whether Edit may change a property of an Event or Task.
func Settable(kind, name string) bool {
	if name == "recurrenceOverrides" || name == "excludedRecurrenceRules" {
		return true
	}
	if f := fieldFor(kind, name); f != nil {
		return f.set != nil
	}
	return fieldOf(name) == nil && isKept(name) && (kind == Task || name != "estimatedDuration")
}

// Edit changes properties of the event and returns the new object; o is of no use any more. changed has the whole new
// value of each property that changes, null for one that is removed. It changes the lines that stand for these
// properties alone. Instances follow the series in what they do not override. Of an object that is instances alone it
// changes the first. Errors match InvalidError or ErrObject.
//
// Implements: RFC 8984 §4.3.5 recurrenceOverrides
func (o *Object) Edit(changed *jmap.Value) (*Object, error) { return o.edit(0, changed) }

// edit changes a component of Parts. The first one may be a series.
func (o *Object) edit(part int, changed *jmap.Value) (*Object, error) {
	e := o.event(o.Parts[part])
	old := e.value()
	want, err := merged(o.Kind, old, changed)
	if err != nil {
		return nil, err
	}
	if part > 0 || !o.master {
		if changed.Get("recurrenceOverrides").Len() > 0 {
			return nil, invalid("a single instance has no overrides", "recurrenceOverrides")
		}
		if err := e.set(old, want); err != nil {
			return nil, err
		}
		return NewObject(o.Whole)
	}
	x, err := o.beginOverrides(old, changed)
	if err != nil {
		return nil, err
	}
	if err := e.set(old, want); err != nil {
		return nil, err
	}
	if err := x.write(); err != nil {
		return nil, err
	}
	return NewObject(o.Whole)
}

// merged returns an event with changes. It leaves out recurrenceOverrides, which is no property of a component.
func merged(kind string, old, changed *jmap.Value) (*jmap.Value, error) {
	want := *old
	for i := range changed.Len() {
		name, v := changed.Name(i), changed.At(i)
		switch {
		case !Settable(kind, name):
			return nil, invalid("it cannot be set", name)
		case name == "excludedRecurrenceRules" && v.Len() > 0:
			return nil, invalid("rules that exclude are not supported; exclude instances", name)
		case name == "recurrenceOverrides" || name == "excludedRecurrenceRules":
		case v.IsNull():
			want = want.Without(name)
		default:
			want = want.With(name, *v)
		}
	}
	keeps := 0
	for i := range want.Len() {
		name := want.Name(i)
		if !isKept(name) {
			continue
		}
		if keeps++; keeps > maxKept {
			return nil, invalid("an event has at most "+strconv.Itoa(maxKept)+" properties of vendors", name)
		}
	}
	return &want, nil
}

// EditInstance changes properties of one instance of the object: it becomes an override of the series. stamps changes
// properties of the series: sequence and updated. Errors match InvalidError or ErrObject.
func (o *Object) EditInstance(x Occurrence, changed, stamps *jmap.Value) (*Object, error) {
	if !o.master {
		all := *changed
		for i := range stamps.Len() {
			all = all.With(stamps.Name(i), *stamps.At(i))
		}
		return o.edit(x.Part, &all)
	}
	for i := range changed.Len() {
		if name := changed.Name(i); !overridable(name) {
			return nil, invalid("it is a property of the series", name)
		}
	}
	key := x.ID.Format(localTime)
	want, err := merged(o.Kind, o.instance(x).value(), changed)
	if err != nil {
		return nil, err
	}
	return o.setOverride(key, difference(instanceOf(o.event(o.Parts[0]).value(), key), want), stamps)
}

// RemoveInstance removes one instance from the object, and changes stamps as EditInstance does. It returns nil if none
// is left.
func (o *Object) RemoveInstance(x Occurrence, stamps *jmap.Value) (*Object, error) {
	if o.master {
		return o.setOverride(x.ID.Format(localTime), excluded(), stamps)
	}
	if len(o.Parts) == 1 {
		return nil, nil
	}
	o.Whole.Children = slices.DeleteFunc(o.Whole.Children, func(c *ical.Component) bool { return c == o.Parts[x.Part] })
	return NewObject(o.Whole)
}

// setOverride sets the override of one instance of the series, and stamps of the series. The other overrides stay.
func (o *Object) setOverride(key string, patch, stamps *jmap.Value) (*Object, error) {
	e := o.event(o.Parts[0])
	list := o.overrides(e.value(), func(c *ical.Component) *jmap.Value { return o.event(c).value() }, time.Time{},
		time.Time{})
	list.put(key, patch)
	changed := list.object()
	changed = *jmap.MakeObject([]string{"recurrenceOverrides"}, []jmap.Value{changed})
	for i := range stamps.Len() {
		changed = changed.With(stamps.Name(i), *stamps.At(i))
	}
	return o.edit(0, &changed)
}

// event returns a component of the object as an event.
func (o *Object) event(c *ical.Component) *event {
	return &event{object: o.Whole, c: c, blobs: o.Blobs}
}

// set changes the lines of an event so that it has other properties than before. The properties of a field are set
// together.
func (e *event) set(old, want *jmap.Value) error {
	changed := differing(old, want)
	differs := func(name string) bool { return changed[name] }
	for i := range fields {
		f := &fields[i]
		if !f.of(e.c.Name) || !slices.ContainsFunc(f.names, differs) {
			continue
		}
		if f.set == nil {
			return invalid("it cannot be changed", f.names...)
		}
		if err := f.set(e, old, want); err != nil {
			return err
		}
	}
	for _, v := range [...]*jmap.Value{old, want} {
		for i := range v.Len() {
			name := v.Name(i)
			if !differs(name) || fieldFor(e.c.Name, name) != nil {
				continue
			}
			if fieldOf(name) != nil { // in an override
				return invalid("no property of "+strings.ToLower(e.c.Name), name)
			}
			if e.dropExtra(name); !want.Get(name).IsNull() {
				e.addExtra(jmap.AppendPointer("", name), want.Get(name))
			}
		}
	}
	e.rest(want, differs)
	return nil
}

// differing returns the names of the members in which two objects differ.
func differing(a, b *jmap.Value) map[string]bool {
	out, x, y := map[string]bool{}, membersOf(a), membersOf(b)
	for name, v := range x {
		out[name] = !v.Equal(y[name])
	}
	for name, v := range y {
		if x[name] == nil {
			out[name] = !v.IsNull()
		}
	}
	return out
}

// membersOf returns the members of an object by name: a search for each of many would take too long.
func membersOf(v *jmap.Value) map[string]*jmap.Value {
	out := make(map[string]*jmap.Value, v.Len())
	for i := range v.Len() {
		out[v.Name(i)] = v.At(i)
	}
	return out
}

// rest puts into JSPROP what the lines of changed properties do not say.
func (e *event) rest(want *jmap.Value, differs func(string) bool) {
	for i := range fields {
		f := &fields[i]
		if !f.open || !f.of(e.c.Name) || !slices.ContainsFunc(f.names, differs) {
			continue
		}
		name := f.names[0]
		e.dropExtra(name)
		w := jmap.NewWriter(nil)
		f.print(e, &w, func(string) bool { return true })
		all := want.Get(name)
		if name == "links" {
			all = withoutBlobs(all)
		}
		e.keepRest(name, all, mustParse(w.End()).Get(name))
	}
}
