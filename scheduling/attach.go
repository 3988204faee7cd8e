package scheduling

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/groupware"
)

// AttachmentChange adds, updates or removes a managed attachment of an entry.
//
// Implements: RFC 8607 §3.3.1 action= Query Parameter
type AttachmentChange struct {
	// New is the attachment to add, nil for a removal.
	New *groupware.Attachment
	// ID is the MANAGED-ID of the attachment that New replaces, or that is removed; "" adds New.
	ID string
	// Instances are those that get or lose the attachment: nil stands for all. An update concerns all.
	Instances calendar.Instances
}

// apply returns the text of an object after the change.
func (x *AttachmentChange) apply(f *groupware.File, o *calendar.Object) ([]byte, error) {
	switch {
	case x.New == nil:
		return o.Detach(x.ID, x.Instances)
	case x.ID != "":
		return o.Reattach(x.ID, x.New.Line(f))
	}
	return o.Attach(x.New.Line(f), x.Instances)
}

// Attach changes a managed attachment of an entry, and sends the messages that follow from it. Changes of others
// meanwhile stay. Errors, besides those of Put: calendar.ErrInstance, calendar.ErrManagedID, and itip.ErrNotAllowed if
// the owner is an attendee of the event.
//
// Implements: RFC 8607 §3.12.2 attendees neither add, update nor remove managed attachments
func (s *Service) Attach(ctx context.Context, t *Target, x *AttachmentChange) (w Written, err error) {
	me := s.people.is(ctx, t.Owner)
	for range maxAttempts {
		w, err = s.attach(ctx, t, x, me)
		if !errors.Is(err, errAgain) {
			return w, err
		}
	}
	return w, groupware.ErrChanged
}

// attach is one attempt of Attach. It returns errAgain if the entry changed meanwhile.
func (s *Service) attach(ctx context.Context, t *Target, x *AttachmentChange, me func(string) bool) (Written, error) {
	e, err := t.File.Entry(ctx, groupware.Calendar, t.Collection, t.Name)
	if err != nil {
		return Written{}, err
	}
	if !t.Condition.Holds(&e) {
		return Written{}, groupware.ErrChanged
	}
	o, err := calendar.ReadObject(e.Text)
	if err != nil {
		return Written{}, errors.Join(groupware.ErrInvalid, err)
	}
	if part, err := roleOf(o, me); err == nil && part == attendee {
		return Written{}, itip.ErrNotAllowed
	}
	text, err := x.apply(t.File, o)
	if err != nil {
		return Written{}, err
	}
	one := *t
	one.Condition.ETag = e.ETag
	if x.New != nil {
		one.New = []groupware.Attachment{*x.New}
	}
	w, err := s.Put(ctx, &one, text)
	if errors.Is(err, groupware.ErrChanged) {
		err = errAgain // Condition decides again: it holds for another state than this one, or fails
	}
	return w, err
}

// offers returns managed attachments together with those that the change brings.
func (t *Target) offers(list []groupware.Attachment) []groupware.Attachment {
	list = slices.Concat(t.New, list)
	if t.torn != nil {
		list = append(list, t.torn.Attachments...)
	}
	return list
}

// offer offers the entry what the change brings.
func (t *Target) offer(p *groupware.Parsed) { p.Offer(t.offers(nil)...) }

// maxInlined bounds the managed attachments in the text of one mail in bytes of base64, so that the recipient's server
// takes it: see maxText.
const maxInlined = 160 << 10

// inlined returns a message for people of other servers: with small managed attachments in the text, without large
// ones.
func (c *change) inlined(ctx context.Context, m *itip.Message) *itip.Message {
	room := maxInlined
	return m.Inlined(func(id string) string {
		text := ""
		if m.Method == itip.Request {
			text = c.inlineText(ctx, id)
		}
		if len(text) > room {
			return ""
		}
		room -= len(text)
		return text
	})
}

// inlineText returns the bytes of a managed attachment in base64, "" for one that is too large. It reads each once in a
// change.
func (c *change) inlineText(ctx context.Context, id string) string {
	text, known := c.inline[id]
	if known {
		return text
	}
	a, body, err := c.s.groupware.Attachment(ctx, c.t.File.Who(), c.t.File.Database(), id)
	if err == nil && base64.StdEncoding.EncodedLen(int(a.Size)) <= maxInlined {
		if b, err := body.AppendRange(nil, 0, body.Size()); err == nil {
			text = base64.StdEncoding.EncodeToString(b)
		}
	}
	c.inline[id] = text
	return text
}
