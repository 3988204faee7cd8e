package jmapd

import (
	"context"

	"doublet/groupware"
	"doublet/note"
)

// EventTarget is the entry of a calendar that a client writes or removes.
type EventTarget struct {
	// File is the mail file as the client's user sees it. Owner is the person whose mail file it is, zero if nobody's.
	File  *groupware.File
	Owner note.UNID
	groupware.Place
	Condition groupware.Condition
	// Send says that the people of the event are told: by invitations, changes, cancellations or answers.
	//
	// Implements: draft-ietf-jmap-calendars §5.9 sendSchedulingMessages
	Send bool
}

// EventWriter writes the events of calendars, each in one update. All writes of CalendarEvent methods go through it, so
// that a scheduling service can stand between. Errors are those of groupware.Changing.Put and Remove.
type EventWriter interface {
	Put(ctx context.Context, t *EventTarget, text []byte) (groupware.Entry, error)
	Remove(ctx context.Context, t *EventTarget) error
}

// plainWriter writes events and tells nobody.
type plainWriter struct{}

// Put implements EventWriter.
func (plainWriter) Put(ctx context.Context, t *EventTarget, text []byte) (groupware.Entry, error) {
	e, _, err := t.File.Put(ctx, groupware.Calendar, t.Collection, t.Name, text, t.Condition)
	return e, err
}

// Remove implements EventWriter.
func (plainWriter) Remove(ctx context.Context, t *EventTarget) error {
	return t.File.Remove(ctx, groupware.Calendar, t.Collection, t.Name, t.Condition)
}
