package jmapd

import (
	"errors"

	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/scheduling"
	"doublet/wire/jmap"
)

// eventTarget is the entry of a calendar that a client writes or removes, in an update of its own.
type eventTarget struct {
	scheduling.Target
	// send is set if the people of the event are told: by invitations, changes, cancellations or answers.
	//
	// Implements: draft-ietf-jmap-calendars §5.9 sendSchedulingMessages
	send bool
}

// put writes an event.
func (x *eventSetting) put(t *eventTarget, text []byte) (groupware.Entry, error) {
	if t.send {
		w, err := x.c.s.backend.Scheduling().Put(x.c.ctx, &t.Target, text)
		return w.Entry, err
	}
	e, _, err := t.File.Put(x.c.ctx, groupware.Calendar, t.Collection, t.Name, text, t.Condition, t.New...)
	return e, err
}

// remove removes an event.
func (x *eventSetting) remove(t *eventTarget) error {
	if t.send {
		return x.c.s.backend.Scheduling().Remove(x.c.ctx, &t.Target)
	}
	return t.File.Remove(x.c.ctx, groupware.Calendar, t.Collection, t.Name, t.Condition)
}

// schedulingError converts an error of package scheduling into a SetError; nil stands for other errors.
func schedulingError(err error) error {
	var other *scheduling.ErrElsewhere
	switch {
	case errors.As(err, &other):
		return badProperties("Another calendar has the event already.", "uid")
	case errors.Is(err, itip.ErrNotAllowed):
		return &jmap.Error{Type: "forbidden", Description: err.Error()}
	case errors.Is(err, itip.ErrOrganizers), errors.Is(err, itip.ErrTooMany), errors.Is(err, itip.ErrMalformed):
		return badProperties(err.Error(), "participants")
	}
	return nil
}
