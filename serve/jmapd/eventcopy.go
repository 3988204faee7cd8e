package jmapd

import (
	"slices"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

// copy answers a /copy: whole series are copied, with the properties that the client overrides.
//
// Implements: draft-ietf-jmap-calendars §5.10 CalendarEvent/copy
func (t *objectType) copy(c *call) error {
	begun, err := c.beginCopy("each " + t.noun)
	if err != nil {
		return err
	}
	source, err := begun.source(groupware.Calendar)
	if err != nil {
		return err
	}
	s := begun.set
	x, err := t.setting(s)
	if err != nil {
		return err
	}
	defer x.blobs.release()
	var copied []string
	for i := range s.create {
		p := &s.create[i]
		id, original, json, err := x.copy(begun.from, source, p.object)
		if err != nil {
			s.notCreated = append(s.notCreated, failure{p.id, t.error(err)})
			continue
		}
		copied = append(copied, original)
		s.made(p.id, id, json)
	}
	old, now, err := x.states()
	if err != nil {
		return err
	}
	begun.end(old, now, t.name+"/set", copied)
	return nil
}

// copy makes an event of one of another account. It returns the ids of both, and its part of the response.
func (x *eventSetting) copy(from *Account, source *groupware.File,
	object *jmap.Value) (id, original string, json []byte, err error) {
	sent, _ := object.Get("id").Text()
	original, _ = x.c.real(sent)
	n, ok := x.t.parseID(original)
	if !ok || !n.at.IsZero() {
		return "", "", nil, &jmap.Error{Type: "notFound"}
	}
	var o *calendar.Object
	var attachments []groupware.Attachment
	err = source.ByID(x.c.ctx, groupware.Calendar, []note.UNID{n.unid}, true, func(e *groupware.Entry) bool {
		o, attachments = x.t.of(e), e.Attachments
		return false
	})
	if err == nil && o == nil {
		err = &jmap.Error{Type: "notFound"}
	}
	if err != nil {
		return "", "", nil, err
	}
	collection, err := x.place(object.Get(x.t.place))
	if err != nil {
		return "", "", nil, err
	}
	changed := jmap.MakeObject(nil, nil)
	for i := range object.Len() {
		if name := object.Name(i); !slices.Contains([]string{"id", x.t.place}, name) {
			next := changed.With(name, *object.At(i))
			changed = &next
		}
	}
	if err := x.private(changed); err != nil {
		return "", "", nil, err
	}
	x.blobs.begin(nil)
	if err := x.blobs.copy(o, from, attachments); err != nil {
		return "", "", nil, err
	}
	o.Blobs = x.blobs
	if o, err = o.Edit(changed); err != nil {
		return "", "", nil, err
	}
	id, json, err = x.add(collection, x.c.s.backend.Groupware().NewName(groupware.Calendar), o, object)
	return id, original, json, err
}
