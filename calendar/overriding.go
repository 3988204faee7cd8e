package calendar

import (
	"slices"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// overriding is a change of a series together with its overrides.
type overriding struct {
	o              *Object
	e              *event
	master         *jmap.Value // the series before the change
	had            *overrides
	exdates        map[string]bool // keys that stand in EXDATE before the change
	rdates         map[string]bool
	want           *jmap.Value // the new value of recurrenceOverrides, nil if it stays
	start          ical.Moment // DTSTART before the change
	moved          bool        // the series is on other clocks than before
	zone           string      // the new time zone
	day            bool        // the series is of whole days
	keep           map[string]bool
	newExd, newRda []string // keys for new lines of EXDATE and RDATE
}

// beginOverrides reads the overrides before the series changes. master is the series.
func (o *Object) beginOverrides(master, changed *jmap.Value) (*overriding, error) {
	x := &overriding{o: o, e: o.event(o.Parts[0]), master: master, want: changed.Get("recurrenceOverrides"),
		exdates: map[string]bool{}, rdates: map[string]bool{}, keep: map[string]bool{}}
	if x.want != nil && !o.master {
		return nil, invalid("a single instance has no overrides", "recurrenceOverrides")
	}
	if err := checkOverrides(x.want); err != nil || !o.master {
		return x, err
	}
	x.had = o.overrides(master, func(c *ical.Component) *jmap.Value { return o.event(c).value() }, time.Time{},
		time.Time{})
	x.start, _ = o.Parts[0].Get("DTSTART").Moment()
	z := &zoned{object: o.Whole, found: map[string]*ical.Zone{}}
	for i := range x.e.c.Properties {
		p := &x.e.c.Properties[i]
		for name, keys := range map[string]map[string]bool{"EXDATE": x.exdates, "RDATE": x.rdates} {
			if p.Name == name {
				for _, v := range o.values(z, p) {
					keys[v.key] = true
				}
			}
		}
	}
	return x, nil
}

// checkOverrides checks a value of recurrenceOverrides.
func checkOverrides(v *jmap.Value) error {
	bad := func(why string) error { return invalid(why, "recurrenceOverrides") }
	if !v.IsNull() && v.Kind() != jmap.Object || v.Len() > maxDates {
		return bad("it is no map of at most 20,000 PatchObjects")
	}
	for i := range v.Len() {
		patch := v.At(i)
		if _, ok := ParseLocal(v.Name(i)); !ok || patch.Kind() != jmap.Object {
			return bad("it is no map of LocalDateTimes to PatchObjects")
		}
		list, err := jmap.Pointers(patch)
		if err != nil {
			return bad("a PatchObject is malformed")
		}
		for _, p := range list {
			if name := p.Tokens[0]; name != "excluded" && !overridable(name) {
				return bad("an override cannot change " + name)
			}
		}
	}
	return nil
}

// write writes the overrides after the series has changed.
func (x *overriding) write() error {
	if !x.o.master || x.want == nil && len(x.had.keys) == 0 {
		return nil
	}
	want := x.want
	if want == nil {
		v := x.had.object()
		want = &v
	}
	now, _ := x.e.c.Get("DTSTART").Moment()
	x.moved, x.day = now.Zone != x.start.Zone || now.Day != x.start.Day, now.Day
	master := x.e.value()
	x.zone, _ = textOf(master, "timeZone")
	var parts []*ical.Component
	for i := range want.Len() {
		c, err := x.override(master, want.Name(i), want.At(i))
		if err != nil {
			return err
		}
		if c != nil {
			parts = append(parts, c)
		}
	}
	x.prune(want)
	x.list("EXDATE", x.newExd)
	x.list("RDATE", x.newRda)
	x.replaceParts(parts)
	return nil
}

// override writes one override. It returns the component of an instance, nil if a list of times suffices.
func (x *overriding) override(master *jmap.Value, key string, patch *jmap.Value) (*ical.Component, error) {
	if on, _ := patch.Get("excluded").Bool(); on {
		if x.exdates[key] && !x.moved {
			x.keep[key] = true
		} else {
			x.newExd = append(x.newExd, key)
		}
		return nil, nil
	}
	had := x.had.parts[key]
	if x.rdates[key] && !x.moved {
		x.keep[key] = true
	} else if x.rdates[key] || had == nil && !x.ruled(key) {
		x.newRda = append(x.newRda, key)
	}
	switch {
	case x.had.dates[key] && patch.Equal(x.had.patches[key]) && !x.moved:
		return nil, nil // a period, perhaps
	case patch.Len() == 0 && (had == nil || x.want != nil):
		return nil, nil
	}
	return x.part(master, key, patch)
}

// prune removes the values of EXDATE and RDATE that do not stay. A value that changes its list leaves the other one.
func (x *overriding) prune(want *jmap.Value) {
	z := &zoned{object: x.o.Whole, found: map[string]*ical.Zone{}}
	var out []ical.Property
	for _, p := range x.e.c.Properties {
		if p.Name == "EXDATE" || p.Name == "RDATE" {
			var stay []string
			for _, v := range x.o.values(z, &p) {
				on, _ := want.Get(v.key).Get("excluded").Bool()
				if x.keep[v.key] && on == (p.Name == "EXDATE") {
					stay = append(stay, v.text)
				}
			}
			if len(stay) == 0 {
				continue
			}
			p.Value = strings.Join(stay, ",")
		}
		out = append(out, p)
	}
	x.e.c.Properties = out
}

// list adds a line with times to the series.
func (x *overriding) list(name string, keys []string) {
	if len(keys) == 0 {
		return
	}
	var p ical.Property
	var texts []string
	for _, key := range keys {
		t, _ := ParseLocal(key)
		p = x.e.moment(name, t, x.zone, x.day)
		texts = append(texts, p.Value)
	}
	p.Value = strings.Join(texts, ",")
	x.e.c.Properties = append(x.e.c.Properties, p)
}

// ruled reports whether the series has an instance at a time by its start or its rules.
func (x *overriding) ruled(key string) bool {
	at, _ := ParseLocal(key)
	m, ok := x.e.c.Get("DTSTART").Moment()
	if !ok || m.Wall.Equal(at) {
		return ok
	}
	rules, err := rulesOf(x.e.c)
	if err != nil {
		return false
	}
	for _, r := range rules {
		found := false
		_ = r.Between(m.Wall, at, at.Add(time.Second), func(t time.Time) bool {
			found = found || t.Equal(at)
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// part returns the component of an instance, which it changes or makes.
func (x *overriding) part(master *jmap.Value, key string, patch *jmap.Value) (*ical.Component, error) {
	at, _ := ParseLocal(key)
	c := x.had.parts[key]
	if c == nil {
		c = x.e.c.Clone()
		for _, name := range []string{"RRULE", "RDATE", "EXDATE"} {
			c.Drop(name)
		}
		if err := x.o.event(c).set(master, instanceOf(master, key)); err != nil {
			return nil, err
		}
	}
	if x.moved || c.Get("RECURRENCE-ID") == nil {
		c.Set(x.e.moment("RECURRENCE-ID", at, x.zone, x.day))
	}
	one := x.o.event(c)
	have := one.value()
	want := *patched(x.emptied(instanceOf(master, key), patch), patch)
	for _, v := range [...]*jmap.Value{master, have} { // what an override cannot change stays as the component has it
		for i := range v.Len() {
			if name := v.Name(i); !overridable(name) {
				if want = want.Without(name); have.Get(name) != nil {
					want = want.With(name, *have.Get(name))
				}
			}
		}
	}
	if err := one.set(have, &want); err != nil {
		return nil, err
	}
	x.follow(c, !have.Equal(&want))
	return c, nil
}

// emptied returns an instance with an empty object for each property that the change removes from the series and that
// a patch puts a part into: an instance keeps the attachment of its own when the series loses its last one.
func (x *overriding) emptied(instance, patch *jmap.Value) *jmap.Value {
	for i := range patch.Len() {
		tokens, ok := jmap.ParsePointer(patch.Name(i))
		if !ok || len(tokens) < 2 || !instance.Get(tokens[0]).IsNull() ||
			x.master.Get(tokens[0]).Kind() != jmap.Object {
			continue
		}
		next := instance.With(tokens[0], *jmap.MakeObject(nil, nil))
		instance = &next
	}
	return instance
}

// follow copies the class of the series to an instance if that has changed and, if the instance has changed, the
// stamps.
func (x *overriding) follow(c *ical.Component, changed bool) {
	now, was := x.e.value(), x.master
	copyOf := func(name string) {
		if c.Drop(name); x.e.c.Get(name) != nil {
			c.Set(*x.e.c.Get(name))
		}
	}
	if !now.Get("privacy").Equal(was.Get("privacy")) {
		copyOf("CLASS")
	}
	if !changed || now.Get("updated").Equal(was.Get("updated")) {
		return
	}
	copyOf("DTSTAMP")
	copyOf("LAST-MODIFIED")
	mine, _ := x.o.event(c).value().Get("sequence").Int()
	if series, _ := now.Get("sequence").Int(); series > mine {
		copyOf("SEQUENCE")
	}
}

// replaceParts puts the components of the instances in place of those before. Those that stay keep their places.
func (x *overriding) replaceParts(parts []*ical.Component) {
	isNew := map[*ical.Component]bool{}
	for _, c := range parts {
		isNew[c] = true
	}
	x.o.Whole.Children = slices.DeleteFunc(x.o.Whole.Children, func(c *ical.Component) bool {
		stays := c.Name != x.o.Kind || c == x.e.c || isNew[c]
		delete(isNew, c)
		return !stays
	})
	for _, c := range parts {
		if isNew[c] {
			x.o.Whole.Children = append(x.o.Whole.Children, c)
		}
	}
}
