package jmapd

import (
	"errors"
	"slices"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

// eventCopy answers CalendarEvent/copy: whole series are copied, with the properties that the client overrides.
//
// Implements: draft-ietf-jmap-calendars §5.10 CalendarEvent/copy
func eventCopy(c *call) error {
	from, err := c.twoAccounts("ifFromInState", "ifInState", "create", "onSuccessDestroyOriginal",
		"destroyFromIfInState")
	if err != nil {
		return err
	}
	if err := c.needWritable(); err != nil {
		return err
	}
	if from.ID == c.account.ID {
		return invalid("an event is copied into another account")
	}
	destroy, err := c.bool("onSuccessDestroyOriginal", false)
	if err != nil {
		return err
	}
	source := c.s.backend.Groupware().File(c.caller.Who, from.Database)
	if err := c.fromInState(source); err != nil {
		return err
	}
	s := &set{c: c}
	if err := errors.Join(s.condition(), s.creations("create")); err != nil {
		return err
	}
	x, err := s.events()
	if err != nil {
		return err
	}
	var copied []string
	for i := range s.create {
		p := &s.create[i]
		id, original, json, err := x.copy(source, p.object)
		if err != nil {
			s.notCreated = append(s.notCreated, failure{p.id, eventError(err)})
			continue
		}
		copied = append(copied, original)
		s.made(p.id, id, json)
	}
	old, now, err := x.states()
	if err != nil {
		return err
	}
	o := jmap.NewWriter(c.out)
	o.Text("fromAccountId", from.ID)
	o.Text("accountId", c.account.ID)
	textOrNull(&o, "oldState", old)
	o.Text("newState", now)
	c.appendBoth(&o, "created", s.created, "notCreated", s.notCreated)
	c.out = o.End()
	if destroy && len(copied) > 0 {
		c.implicit = func() { c.destroyCopied(from, "CalendarEvent/set", copied) }
	}
	return nil
}

// fromInState checks the argument ifFromInState against the state of the events of the account to copy from.
func (c *call) fromInState(source *groupware.File) error {
	want, err := c.text("ifFromInState")
	if err != nil || want == "" {
		return err
	}
	m, err := source.Moments(c.ctx, groupware.Calendar)
	if err == nil && m.Entries.String() != want {
		err = &jmap.Error{Type: "stateMismatch"}
	}
	return err
}

// copy makes an event of one of another account. It returns the ids of both, and its part of the response.
func (x *eventSetting) copy(source *groupware.File, object *jmap.Value) (id, original string, json []byte, err error) {
	original, _ = object.Get("id").Text()
	n, ok := parseEventID(original)
	if !ok || !n.at.IsZero() {
		return "", "", nil, &jmap.Error{Type: "notFound"}
	}
	var o *calendar.Object
	err = source.ByID(x.c.ctx, groupware.Calendar, []note.UNID{n.unid}, true, func(e *groupware.Entry) bool {
		o = eventOf(e)
		return false
	})
	if err == nil && o == nil {
		err = &jmap.Error{Type: "notFound"}
	}
	if err != nil {
		return "", "", nil, err
	}
	collection, err := x.place(object.Get("calendarIds"))
	if err != nil {
		return "", "", nil, err
	}
	changed := jmap.MakeObject(nil, nil)
	for i := range object.Len() {
		if name := object.Name(i); !slices.Contains([]string{"id", "calendarIds"}, name) {
			next := changed.With(name, *object.At(i))
			changed = &next
		}
	}
	if err := x.private(changed); err != nil {
		return "", "", nil, err
	}
	if o, err = o.Edit(changed); err != nil {
		return "", "", nil, err
	}
	name := x.c.s.backend.Groupware().NewName(groupware.Calendar)
	t := x.target(groupware.Place{Collection: collection, Name: name}, groupware.Condition{New: true})
	e, err := x.put(t, o.Text())
	if err != nil {
		return "", "", nil, err
	}
	x.touched[e.UNID] = true
	id = eventID{unid: e.UNID}.String()
	made, err := jmap.Parse(string(x.view.append(nil, &e, o, nil)), jmap.Bounds{})
	if err != nil {
		return "", "", nil, err
	}
	return id, original, told(object, made), nil
}
