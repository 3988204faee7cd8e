package jmapd

import (
	"errors"
	"regexp"
	"slices"

	"doublet/groupware"
	"doublet/note"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// calendarKind lists the properties of a Calendar that a client may change.
var calendarKind = kind{
	mutable: []string{"name", "description", "color", "sortOrder", "isSubscribed", "isVisible", "includeInAvailability",
		"defaultAlertsWithTime", "defaultAlertsWithoutTime", "timeZone", "shareWith"},
	fixed: oneOf("id", "isDefault", "myRights"),
	defaults: map[string]jmap.Value{"sortOrder": jmap.MakeNumber(0), "isVisible": jmap.True(),
		"includeInAvailability": jmap.Text("all")},
}

// calendarChange holds the changes to a Calendar.
type calendarChange struct {
	properties []func(p *groupware.Properties)
	subscribed *bool
	share      *jmap.Value // the new value of shareWith, nil if it stays
}

// color is a color of CSS: a name, or an RGB value in hexadecimal notation.
var color = regexp.MustCompile(`^(#[0-9a-fA-F]{3}|#[0-9a-fA-F]{6}|[a-zA-Z]{3,30})$`)

// readCalendar reads the properties of a Calendar that a client may set.
func readCalendar(v *jmap.Value) (m calendarChange, err error) {
	var bad []string
	for i := range v.Len() {
		if !m.read(v.Name(i), v.At(i)) {
			bad = append(bad, v.Name(i))
		}
	}
	if bad != nil {
		return m, badProperties("", bad...)
	}
	return m, nil
}

// read reads one property, and reports whether a Calendar may have it with this value.
func (m *calendarChange) read(name string, v *jmap.Value) bool {
	text, isText := v.Text()
	on, isBool := v.Bool()
	set := func(ok bool, change func(p *groupware.Properties)) bool {
		m.properties = append(m.properties, change)
		return ok
	}
	switch name {
	case "name":
		return set(isText && text != "" && len(text) <= 255, func(p *groupware.Properties) { p.Title = text })
	case "description":
		return set(isText || v.IsNull(), func(p *groupware.Properties) { p.Description = text })
	case "color":
		return set(isText && color.MatchString(text) || v.IsNull(), func(p *groupware.Properties) { p.Color = text })
	case "sortOrder":
		n, isInt := v.Int()
		return set(isInt && 0 <= n && n < 1<<31, func(p *groupware.Properties) { p.Order = int(n) })
	case "isSubscribed":
		m.subscribed = &on
		return isBool
	case "isVisible":
		return set(isBool, func(p *groupware.Properties) { p.Invisible = !on })
	case "includeInAvailability":
		return set(text == "all" || text == "none", func(p *groupware.Properties) { p.Transparent = text == "none" })
	case "timeZone":
		return set(v.IsNull() || isText && ical.HasZone(text), func(p *groupware.Properties) { p.TimeZone = text })
	case "shareWith":
		m.share = v
		return v.IsNull() || v.Kind() == jmap.Object
	case "defaultAlertsWithTime", "defaultAlertsWithoutTime":
		return set(isAlerts(v), func(p *groupware.Properties) {
			at := &p.AlertsWithTime
			if name == "defaultAlertsWithoutTime" {
				at = &p.AlertsWithoutTime
			}
			if *at = ""; v.Len() > 0 {
				*at = string(v.Append(nil))
			}
		})
	}
	return false
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

// calendarSetting is a Calendar/set in progress.
type calendarSetting struct {
	*set
	f          *groupware.File
	withEvents bool
	isDefault  string // onSuccessSetIsDefault
	failed     bool   // a change failed
	changes    []calendarChange
	wrong      []error
	ids        map[string]note.UNID // of the calendars created, by creation id
}

// calendarSet answers Calendar/set.
//
// Implements: draft-ietf-jmap-calendars §4.3 Calendar/set
func calendarSet(c *call) error {
	s, err := c.setArguments(false, "onDestroyRemoveEvents", "onSuccessSetIsDefault")
	if err != nil {
		return err
	}
	x := &calendarSetting{set: s, ids: map[string]note.UNID{}}
	if x.withEvents, err = c.bool("onDestroyRemoveEvents", false); err != nil {
		return err
	}
	if x.isDefault, err = c.text("onSuccessSetIsDefault"); err != nil {
		return err
	}
	var list []groupware.Collection
	if x.f, list, err = c.calendars(); err != nil {
		return err
	}
	x.compare(list)
	note := func(err error) error {
		x.failed = x.failed || err != nil
		return err
	}
	by := &groupwareSteps{
		create:  func(w *groupware.Changing, i int) error { return note(x.create(w, i)) },
		update:  func(w *groupware.Changing, i int) error { return note(x.update(w, i)) },
		destroy: func(w *groupware.Changing, id string) error { return note(x.destroy(w, id)) },
	}
	if x.isDefault != "" {
		by.last = x.makeDefault
	}
	errs, before, after, err := s.changeGroupware(x.f, groupware.Calendar, ofCollections, by)
	if err != nil {
		return err
	}
	_, list, err = c.calendars()
	if err != nil {
		return err
	}
	s.record(errs, func(i int) (string, []byte) {
		p := s.create[i]
		id := idOf(letterCalendar, x.ids[p.id])
		object := jmap.MakeObject([]string{"id"}, []jmap.Value{jmap.Text(id)})
		if made := calendarOf(list, id); made != nil {
			if v, err := c.calendarObject(made); err == nil {
				object = v
			}
		}
		return id, told(p.object, object)
	})
	s.append(before, after)
	return nil
}

// calendarObject returns a Calendar as Calendar/get shows it.
func (c *call) calendarObject(x *groupware.Collection) (*jmap.Value, error) {
	return jmap.Parse(string(c.appendCalendar(nil, x, func(string) bool { return true })), jmap.Bounds{})
}

// compare computes the changes of each update from its patch and the current Calendar.
func (x *calendarSetting) compare(list []groupware.Collection) {
	x.changes, x.wrong = make([]calendarChange, len(x.set.update)), make([]error, len(x.set.update))
	for i := range x.set.update {
		p := &x.set.update[i]
		current := calendarOf(list, p.real)
		if current == nil {
			x.wrong[i] = &jmap.Error{Type: "notFound"}
			continue
		}
		object, err := x.c.calendarObject(current)
		if err == nil {
			err = calendarKind.apply(p.object, object, func(v *jmap.Value) (err error) {
				x.changes[i], err = readCalendar(v)
				return err
			})
		}
		x.wrong[i] = err
	}
}

func (x *calendarSetting) create(w *groupware.Changing, i int) error {
	p := &x.set.create[i]
	delete(x.ids, p.id)
	m, err := readCalendar(p.object)
	if err != nil {
		return err
	}
	if p.object.Get("name") == nil {
		return badProperties("A Calendar has a name.", "name")
	}
	if m.share.Len() > 0 {
		return badProperties("A Calendar is shared after it was created.", "shareWith")
	}
	properties := groupware.Properties{Components: []string{"VEVENT"}}
	for _, change := range m.properties {
		change(&properties)
	}
	name := x.c.s.backend.Groupware().NewName(groupware.Calendar)
	name = name[:len(name)-len(".ics")]
	if err := w.Create(groupware.Calendar, name, properties); err != nil {
		return err
	}
	if m.subscribed != nil && !*m.subscribed {
		if err := w.Subscribe(groupware.Calendar, name, false); err != nil {
			return err
		}
	}
	made, err := w.Collection(groupware.Calendar, name)
	x.ids[p.id] = made.UNID
	return err
}

func (x *calendarSetting) update(w *groupware.Changing, i int) error {
	m := &x.changes[i]
	if x.wrong[i] != nil {
		return x.wrong[i]
	}
	u, _ := parseID(letterCalendar, x.set.update[i].real)
	name, err := w.NameOf(groupware.Calendar, u)
	if err != nil {
		return err
	}
	now, err := w.Collection(groupware.Calendar, name)
	if err != nil {
		return err
	}
	if len(m.properties) > 0 {
		for _, change := range m.properties {
			change(&now.Properties)
		}
		if err := w.SetProperties(groupware.Calendar, name, now.Properties); err != nil {
			return err
		}
	}
	if m.share != nil {
		if err := x.share(w, name, &now, m.share); err != nil {
			return err
		}
	}
	if m.subscribed != nil {
		return w.Subscribe(groupware.Calendar, name, *m.subscribed)
	}
	return nil
}

// destroy deletes a calendar. Its events can be restored, as those that were removed one by one.
func (x *calendarSetting) destroy(w *groupware.Changing, id string) error {
	u, ok := parseID(letterCalendar, id)
	if !ok {
		return &jmap.Error{Type: "notFound"}
	}
	name, err := w.NameOf(groupware.Calendar, u)
	if err != nil {
		return err
	}
	now, err := w.Collection(groupware.Calendar, name)
	switch {
	case err != nil:
		return err
	case !holdsEvents(&now):
		return &jmap.Error{Type: "notFound"}
	case now.Total > 0 && !x.withEvents:
		return &jmap.Error{Type: "calendarHasEvent"}
	}
	return w.Delete(groupware.Calendar, name)
}

// makeDefault makes a calendar the default one, if all changes succeeded. An id that it cannot be is ignored.
//
// Implements: draft-ietf-jmap-calendars §4.3 onSuccessSetIsDefault
func (x *calendarSetting) makeDefault(w *groupware.Changing) error {
	id, _ := x.c.real(x.isDefault)
	u, ok := parseID(letterCalendar, id)
	if made, created := x.ids[trimHash(x.isDefault)]; created {
		u, ok = made, true
	}
	if !ok || x.failed {
		return nil
	}
	name, err := w.NameOf(groupware.Calendar, u)
	if err == nil {
		err = w.SetDefault(groupware.Calendar, name)
	}
	if errors.Is(err, groupware.ErrNoCollection) {
		return nil
	}
	return err
}

// trimHash returns the creation id of a reference.
func trimHash(id string) string {
	if len(id) > 0 && id[0] == '#' {
		return id[1:]
	}
	return ""
}

// share replaces the access list of a calendar by the rights of a value of shareWith. The owner stays its manager.
func (x *calendarSetting) share(w *groupware.Changing, name string, now *groupware.Collection, v *jmap.Value) error {
	_, _, _, _ = w, name, now, v
	return &jmap.Error{Type: "forbidden"}
}

var _ = slices.Index[[]string]
