package calendar

import (
	"slices"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// overridable reports whether an override may change a property (RFC 8984 section 4.3.5). The times of changes are each
// component's own.
func overridable(name string) bool {
	if f := fieldOf(name); f != nil {
		return !f.series
	}
	return isKept(name) && name != "isDraft" && name != "mayInviteSelf" && name != "mayInviteOthers" &&
		name != "hideAttendees"
}

// at returns the time of a value of a list of times, or of a RECURRENCE-ID, on the clocks of the series.
func (o *Object) at(z *zoned, m ical.Moment) time.Time {
	s := o.Series.master
	switch {
	case s == nil:
		return m.Wall
	case m.Day && !s.start.Day: // a day, though the series has a time: its instance on that day
		return m.Wall.Add(s.start.Wall.Sub(s.start.Wall.Truncate(24 * time.Hour)))
	case s.zone == nil || m.Zone == "":
		return m.Wall
	}
	instant, err := z.instant(m, ical.UTC)
	if err != nil {
		return m.Wall
	}
	return s.zone.Wall(instant)
}

// value is a value of an EXDATE or RDATE. A period of an RDATE has a length.
type value struct {
	key    string // a LocalDateTime on the clocks of the series
	text   string
	length string // a Duration, or ""
}

// values returns the values of a list of times.
func (o *Object) values(z *zoned, p *ical.Property) (list []value) {
	for text := range strings.SplitSeq(p.Value, ",") {
		first, second, isPeriod := strings.Cut(text, "/")
		m, ok := (&ical.Property{Params: p.Params, Value: first}).Moment()
		if !ok {
			continue
		}
		v := value{key: o.at(z, m).Format(localTime), text: text}
		if isPeriod {
			v.length = second
			if end, ok := (&ical.Property{Params: p.Params, Value: second}).Moment(); ok {
				v.length = duration(max(0, end.Wall.Sub(m.Wall)), false)
			}
		}
		list = append(list, v)
	}
	return list
}

// patch returns the override that a value of a list stands for.
func (v *value) patch(list string) *jmap.Value {
	switch {
	case list == "EXDATE":
		return excluded()
	case v.length != "":
		return jmap.MakeObject([]string{"duration"}, []jmap.Value{jmap.Text(v.length)})
	}
	return jmap.MakeObject(nil, nil)
}

// overrides are the instances of an object that differ from the rules.
type overrides struct {
	keys    []string
	patches map[string]*jmap.Value
	parts   map[string]*ical.Component
	// dates holds those that stand in a list alone, EXDATE or RDATE.
	dates map[string]bool
}

func (x *overrides) put(key string, patch *jmap.Value) {
	if x.patches[key] == nil {
		x.keys = append(x.keys, key)
	}
	x.patches[key] = patch
}

// excluded is the patch that takes an instance out.
func excluded() *jmap.Value { return jmap.MakeObject([]string{"excluded"}, []jmap.Value{jmap.True()}) }

// overrides reads the instances that differ from master, the series: those between two instants alone, if these are not
// zero. read reads an instance.
func (o *Object) overrides(master *jmap.Value, read func(*ical.Component) *jmap.Value,
	after, before time.Time) *overrides {
	x := &overrides{patches: map[string]*jmap.Value{}, parts: map[string]*ical.Component{}, dates: map[string]bool{}}
	z := &zoned{object: o.Whole, found: map[string]*ical.Zone{}}
	inside := func(key string) bool { return o.between(key, after, before) }
	for i := range o.Parts[0].Properties {
		p := &o.Parts[0].Properties[i]
		if p.Name != "RDATE" && p.Name != "EXDATE" {
			continue
		}
		for _, v := range o.values(z, p) {
			if inside(v.key) {
				x.dates[v.key] = true
				x.put(v.key, v.patch(p.Name))
			}
		}
	}
	for _, c := range o.Parts[1:] {
		m, ok := c.Get("RECURRENCE-ID").Moment()
		if !ok {
			continue
		}
		if key := o.at(z, m).Format(localTime); inside(key) {
			x.parts[key] = c
			delete(x.dates, key)
			x.put(key, difference(instanceOf(master, key), read(c)))
		}
	}
	slices.Sort(x.keys)
	return x
}

// between reports whether an instance of the series lies between two instants. A zero time is no bound.
func (o *Object) between(key string, after, before time.Time) bool {
	if after.IsZero() && before.IsZero() {
		return true
	}
	t, _ := ParseLocal(key)
	if s := o.Series.master; s != nil && s.zone != nil {
		t = s.zone.At(t)
	}
	return (after.IsZero() || !t.Before(after)) && (before.IsZero() || t.Before(before))
}

// instanceOf returns the instance of a series at a time, without overrides. The due time of a task moves with its
// start.
func instanceOf(master *jmap.Value, key string) *jmap.Value {
	out := master.With("start", jmap.Text(key))
	first, _ := master.Get("start").Text()
	last, _ := master.Get("due").Text()
	start, ok1 := ParseLocal(first)
	due, ok2 := ParseLocal(last)
	if at, ok := ParseLocal(key); ok && ok1 && ok2 {
		out = out.With("due", jmap.Text(due.Add(at.Sub(start)).Format(localTime)))
	}
	return &out
}

// object returns the overrides as the value of recurrenceOverrides.
func (x *overrides) object() jmap.Value {
	list := make([]jmap.Value, len(x.keys))
	for i, key := range x.keys {
		list[i] = *x.patches[key]
	}
	return *jmap.MakeObject(slices.Clone(x.keys), list)
}

// difference returns the PatchObject that makes b of a, of the properties that overrides may change. Of a property that
// is a map of objects it has the parts that differ.
func difference(a, b *jmap.Value) *jmap.Value {
	var names []string
	var values []jmap.Value
	add := func(path string, v *jmap.Value) {
		names = append(names, path)
		if v == nil {
			values = append(values, jmap.Value{})
		} else {
			values = append(values, *v)
		}
	}
	var walk func(path string, depth int, x, y *jmap.Value)
	walk = func(path string, depth int, x, y *jmap.Value) {
		switch {
		case x.Equal(y):
		case depth < 3 && x.Kind() == jmap.Object && y.Kind() == jmap.Object:
			after := membersOf(y)
			if missing(x, after) > y.Len()+maxMissing {
				add(path, y)
				return
			}
			before := membersOf(x)
			for i := range x.Len() {
				walk(jmap.AppendPointer(path, x.Name(i)), depth+1, x.At(i), after[x.Name(i)])
			}
			for i := range y.Len() {
				if before[y.Name(i)] == nil {
					add(jmap.AppendPointer(path, y.Name(i)), y.At(i))
				}
			}
		default:
			add(path, y)
		}
	}
	before, after := membersOf(a), membersOf(b)
	for i := range a.Len() {
		if name := a.Name(i); overridable(name) {
			walk(jmap.AppendPointer("", name), 1, a.At(i), after[name])
		}
	}
	for i := range b.Len() {
		if name := b.Name(i); overridable(name) && before[name] == nil {
			add(jmap.AppendPointer("", name), b.At(i))
		}
	}
	return jmap.MakeObject(names, values)
}

// maxMissing bounds the members that a patch removes one by one, beyond the number of those that stay. More are removed
// by replacing the object, so that the overrides of an event are not much larger than its text: a stranger may send one
// with many participants in the series and many instances without them.
const maxMissing = 20

// missing returns the number of members of an object that are not among others.
func missing(v *jmap.Value, others map[string]*jmap.Value) (n int) {
	for i := range v.Len() {
		if others[v.Name(i)] == nil {
			n++
		}
	}
	return n
}

// patched returns an instance with a patch. A pointer to a missing member is ignored (RFC 8984 section 1.4.9), and so
// is one to a property that an override cannot change.
func patched(instance, patch *jmap.Value) *jmap.Value {
	for i := range patch.Len() {
		tokens, ok := jmap.ParsePointer(patch.Name(i))
		if !ok || !overridable(tokens[0]) {
			continue
		}
		if next, err := jmap.Put(instance, []jmap.Pointer{{Tokens: tokens, Value: patch.At(i)}}, 0); err == nil {
			instance = &next
		}
	}
	return instance
}
