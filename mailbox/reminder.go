package mailbox

import (
	"bytes"
	"errors"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ReminderKeyword is the keyword of a message that has a reminder.
const ReminderKeyword = "$reminder"

// Remind puts a copy of a message on top of the INBOX at a time, unless somebody answers it before. Until then the
// message stays where it is. It returns ErrLimit if too many messages are snoozed or have a reminder.
func (c *Changing) Remind(u note.UNID, at time.Time) error {
	m, err := c.EmailOf(u)
	if err != nil {
		return err
	}
	list, items, err := c.roomFor(u, true)
	if err != nil {
		return err
	}
	if err := c.SetKeyword(m.ID, ReminderKeyword, true); err != nil {
		return err
	}
	return c.putSnoozed(items, append(list, Snoozed{u, at, true}))
}

// awaits reports whether a message is there to remind of: it was not destroyed, and is not in Trash.
func (d *Reading) awaits(u note.UNID) (bool, error) {
	row, err := d.rowOf(u)
	if row == nil || err != nil {
		return false, err
	}
	trash, err := FindUse(d.r, UseTrash)
	if err != nil {
		return true, ignoreGone(err)
	}
	_, in := row.Member(trash)
	return !in, nil
}

// rowOf reads the row of a message, nil if there is none.
func (d *Reading) rowOf(u note.UNID) (*layout.Note, error) {
	id, err := d.find(u)
	if errors.Is(err, store.ErrGrave) {
		return nil, nil
	}
	if err != nil {
		return nil, ignoreGone(err)
	}
	row, err := d.r.Note(id)
	if err != nil || row.Stub || deleted(d.r, row) {
		return nil, ignoreGone(err)
	}
	return row, nil
}

// remind puts a copy of a message on top of the INBOX, unless it was answered.
func (c *Changing) remind(u note.UNID, inbox note.ID, now time.Time) error {
	row, err := c.rowOf(u)
	if row == nil || err != nil {
		return err
	}
	id, err := c.find(u)
	if err != nil {
		return err
	}
	done, err := answered(c.r, row, id)
	if err == nil {
		err = c.SetKeyword(id, ReminderKeyword, false)
	}
	if done || err != nil {
		return err
	}
	again, err := c.w.CopyNote(c.w, id, inbox, note.UNID{})
	if err != nil {
		return err
	}
	return c.w.SetDate(again, now.Unix())
}

// answered reports whether the thread of a message has a later one by somebody else. Copies of the message itself, as a
// group returns them to its sender, and messages in Sent and Drafts are none.
func answered(r *store.Reader, row *layout.Note, of note.ID) (bool, error) {
	own, err := messageHash(r, of)
	if err != nil {
		return false, err
	}
	ids, err := r.Thread(row.Thread)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		other, err := r.Note(id)
		if err != nil {
			if err = ignoreGone(err); err != nil {
				return false, err
			}
			continue
		}
		if !isMessage(other) || other.UNID == row.UNID || other.Date < row.Date || written(r, other) ||
			deleted(r, other) {
			continue
		}
		hash, err := messageHash(r, id)
		if err != nil || !bytes.Equal(hash, own) {
			return err == nil, err
		}
	}
	return false, nil
}

// messageHash returns a hash of the Message-ID of a message, see appendThreading.
func messageHash(r *store.Reader, id note.ID) ([]byte, error) {
	b, err := r.Summary(nil, id)
	if err == nil {
		b, err = summaryField(b, fieldThreading)
	}
	return b[:min(8, len(b))], err
}

// written reports whether a message is in Sent or Drafts: the person wrote it.
func written(r *store.Reader, row *layout.Note) bool {
	for i := range row.Members {
		h, err := r.Folder(row.Members[i].Folder)
		if err == nil && (h.SpecialUse == UseSent || h.SpecialUse == UseDrafts) {
			return true
		}
	}
	return false
}

// unmark removes the keyword of reminders from a message.
func unmark(c *Changing, u note.UNID) error {
	id, err := c.Find(u)
	if err != nil {
		return err
	}
	return c.SetKeyword(id, ReminderKeyword, false)
}
