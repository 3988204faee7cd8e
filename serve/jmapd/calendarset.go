package jmapd

import (
	"cmp"
	"regexp"
	"strings"

	"doublet/calendar"
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
	properties []setProperty
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
	switch name {
	case "isSubscribed":
		on, ok := v.Bool()
		m.subscribed = &on
		return ok
	case "shareWith":
		m.share = v
		return v.IsNull() || v.Kind() == jmap.Object
	}
	read := calendarReaders[name]
	if read == nil {
		return false
	}
	change, ok := read(v)
	m.properties = append(m.properties, change)
	return ok
}

// setProperty is a change of the properties of a calendar.
type setProperty func(p *groupware.Properties)

// calendarReaders read properties of a Calendar; ok is false if it may not have the value.
var calendarReaders = map[string]func(v *jmap.Value) (change setProperty, ok bool){
	"name": func(v *jmap.Value) (setProperty, bool) {
		text, ok := v.Text()
		return func(p *groupware.Properties) { p.Title = nfc(text) }, ok && text != "" && len(text) <= groupware.MaxName
	},
	"description": func(v *jmap.Value) (setProperty, bool) {
		text, ok := v.Text()
		return func(p *groupware.Properties) { p.Description = text }, ok || v.IsNull()
	},
	"color": func(v *jmap.Value) (setProperty, bool) {
		text, _ := v.Text()
		return func(p *groupware.Properties) { p.Color = text }, color.MatchString(text) || v.IsNull()
	},
	"sortOrder": func(v *jmap.Value) (setProperty, bool) {
		n, ok := v.Int()
		return func(p *groupware.Properties) { p.Order = int(n) }, ok && 0 <= n && n < 1<<31
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

// calendarSetting is a Calendar/set in progress.
type calendarSetting struct {
	*set
	have       owned
	withEvents bool
	made       map[string]groupware.Collection // by creation id
}

// calendarSet answers Calendar/set.
//
// Implements: draft-ietf-jmap-calendars §4.3 Calendar/set
func calendarSet(c *call) error {
	s, err := c.setArguments(false, "onDestroyRemoveEvents", "onSuccessSetIsDefault")
	if err != nil {
		return err
	}
	x := &calendarSetting{set: s, made: map[string]groupware.Collection{}}
	if x.withEvents, err = c.bool("onDestroyRemoveEvents", false); err != nil {
		return err
	}
	chosen, err := c.text("onSuccessSetIsDefault")
	if err != nil {
		return err
	}
	if x.have, err = c.calendars(); err != nil {
		return err
	}
	errs, before, after, err := s.changeGroupware(x.have.file, groupware.Calendar, ofCollections,
		&groupwareSteps{create: x.create, update: x.update, destroy: x.destroy})
	if err != nil {
		return err
	}
	s.record(errs, func(i int) (string, []byte) {
		p := s.create[i]
		b := x.made[p.id]
		object, err := calendarObject(&b, x.have.owner)
		if err != nil {
			return idOf(letterCalendar, b.UNID), nil
		}
		return idOf(letterCalendar, b.UNID), told(p.object, object)
	})
	if err := x.tellDefault(); err != nil {
		return err
	}
	if failed := len(s.notCreated) + len(s.notUpdated) + len(s.not); chosen != "" && failed == 0 {
		next, err := s.setDefault(x.have.file, groupware.Calendar, letterCalendar, chosen)
		if err != nil {
			return err
		}
		after = cmp.Or(next, after)
	}
	s.append(before, after)
	return nil
}

// tellDefault reports the calendar that became the default one because the one before was destroyed.
func (x *calendarSetting) tellDefault() error {
	if len(x.set.destroyed) == 0 {
		return nil
	}
	now, err := x.c.calendars()
	for i := range now.list {
		b := &now.list[i]
		id := idOf(letterCalendar, b.UNID)
		if was := x.have.find(letterCalendar)(id); was != nil && b.Default && !was.Default {
			x.tell(id, "isDefault", "true")
		}
	}
	return err
}

// calendarObject returns a Calendar as Calendar/get shows it.
func calendarObject(x *groupware.Collection, owner note.UNID) (*jmap.Value, error) {
	return jmap.Parse(string(appendCalendar(nil, x, owner, wantsAll)), jmap.Bounds{})
}

func (x *calendarSetting) create(w *groupware.Changing, i int) error {
	p := &x.set.create[i]
	m, err := readCalendar(p.object)
	if err != nil {
		return err
	}
	if p.object.Get("name") == nil {
		return badProperties("A Calendar has a name.", "name")
	}
	properties := groupware.Properties{Components: []string{calendar.Event}}
	for _, change := range m.properties {
		change(&properties)
	}
	name := strings.TrimSuffix(x.c.s.backend.Groupware().NewName(groupware.Calendar), ".ics")
	if err := w.Create(groupware.Calendar, name, properties); err != nil {
		return err
	}
	if err := x.apply(w, name, &groupware.Collection{}, &m); err != nil {
		return err
	}
	x.made[p.id], err = w.Collection(groupware.Calendar, name)
	return err
}

// apply makes the changes of a calendar but those of its properties.
func (x *calendarSetting) apply(w *groupware.Changing, name string, b *groupware.Collection, m *calendarChange) error {
	change := collectionChange{subscribed: m.subscribed}
	if m.share != nil {
		grants, err := x.c.readShareWith(m.share, calendarRights, b, x.have.owner)
		if err != nil {
			return err
		}
		for i := range m.share.Len() {
			if err := partly(m.share.Name(i), m.share.At(i), grants); err != nil {
				return err
			}
		}
		change.grants = grants
	}
	return change.apply(w, groupware.Calendar, name)
}

// partly refuses rights of a person that come only together with others which the client does not grant.
func partly(id string, v *jmap.Value, grants map[note.UNID]note.Rights) error {
	u, _ := parseID(letterPrincipal, id)
	for _, r := range calendarRights {
		if on, _ := v.Get(r.name).Bool(); on && grants[u]&r.need != r.need {
			return badProperties("This server grants it only together with mayWriteAll.", "shareWith/"+id+"/"+r.name)
		}
	}
	return nil
}

func (x *calendarSetting) update(w *groupware.Changing, i int) error {
	p := &x.set.update[i]
	b, err := x.named(w, p.real)
	if err != nil {
		return err
	}
	current, err := calendarObject(&b, x.have.owner)
	if err != nil {
		return err
	}
	return calendarKind.apply(p.object, current, func(changed *jmap.Value) error {
		m, err := readCalendar(changed)
		if err != nil {
			return err
		}
		if len(m.properties) > 0 {
			for _, change := range m.properties {
				change(&b.Properties)
			}
			if err := w.SetProperties(groupware.Calendar, b.Name, b.Properties); err != nil {
				return err
			}
		}
		return x.apply(w, b.Name, &b, &m)
	})
}

// named returns the calendar with an id.
func (x *calendarSetting) named(w *groupware.Changing, id string) (groupware.Collection, error) {
	u, ok := parseID(letterCalendar, id)
	if !ok {
		return groupware.Collection{}, groupware.ErrNoCollection
	}
	name, err := w.NameOf(groupware.Calendar, u)
	if err != nil {
		return groupware.Collection{}, err
	}
	b, err := w.Collection(groupware.Calendar, name)
	if err == nil && !holdsEvents(&b) {
		err = groupware.ErrNoCollection
	}
	return b, err
}

// destroy deletes a calendar. Its events can be restored, as those that were removed one by one.
func (x *calendarSetting) destroy(w *groupware.Changing, id string) error {
	b, err := x.named(w, id)
	if err != nil {
		return err
	}
	if b.Total > 0 && !x.withEvents {
		return &jmap.Error{Type: "calendarHasEvent"}
	}
	return w.Delete(groupware.Calendar, b.Name)
}
