package scheduling

import (
	"context"

	"doublet/calendar"
	"doublet/calendar/itip"
)

// share writes the answer of an attendee into the calendars of the other attendees here, so that all see one event.
func (c *change) share(ctx context.Context) error {
	if len(c.messages) != 1 || c.messages[0].Method != itip.Reply {
		return nil
	}
	p, err := c.find(ctx, itip.Address(c.messages[0].To))
	if err != nil || c.drafts[p.file] == nil || c.drafts[p.file].object == nil {
		return err
	}
	whole := c.drafts[p.file].object
	list := itip.Attendees(whole.Parts)
	if len(list) > maxShared {
		return nil
	}
	for _, a := range list {
		q, err := c.find(ctx, a)
		if err != nil {
			return err
		}
		if q.file == 0 || q.file == c.t.File.Database() || c.drafts[q.file] != nil || !c.s.groupware.Leads(q.file) {
			continue
		}
		if err := c.shareWith(ctx, whole, q); err != nil {
			return err
		}
	}
	return nil
}

// shareWith writes the answers of the organizer's object into the calendar of one attendee.
func (c *change) shareWith(ctx context.Context, whole *calendar.Object, p party) error {
	d, err := c.open(ctx, p, whole.UID)
	if err != nil || d.stored == nil {
		return err
	}
	stored, err := calendar.ReadObject(d.stored.Text)
	if err != nil {
		return nil //nolint:nilerr // it came from a newer program
	}
	d.tag = d.stored.ScheduleTag
	d.object, err = itip.Answers(whole, stored, p.me)
	return err
}
