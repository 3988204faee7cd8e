package mailbox

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// UseSnoozed is the use of the folder of snoozed messages, which have left the INBOX until a time. The folder is made
// when it is needed first.
const UseSnoozed = "Snoozed"

// The profile note that holds the times of snoozed messages and of reminders, an entry each.
const (
	snoozedProfile = "Snoozed"
	itemSnoozed    = "Message." // and the UNID: Unix seconds, and for a reminder "unix-seconds unanswered"
	wordReminder   = "unanswered"
)

// maxSnoozed is the maximum number of snoozed messages of a mail file.
const maxSnoozed = 1000

// Snoozed is a message that comes back to the INBOX at a time.
type Snoozed struct {
	Email note.UNID
	Until time.Time
	// Reminder is set for a message that stays where it is, and of which a copy comes to the INBOX if nobody has
	// answered it.
	Reminder bool
}

// snoozed reads the times of snoozed messages, also of such that are in the folder no more, and leaves out malformed
// ones.
func (d *Reading) snoozed() ([]Snoozed, note.Items, error) {
	items, _, err := d.Profile((&handle{db: d.r.Info().ID}).ProfileID(snoozedProfile))
	if err != nil {
		return nil, items, err
	}
	items = items.Split("Messages", itemSnoozed)
	var out []Snoozed
	for key, v := range items.Entries(itemSnoozed) {
		at, word, _ := strings.Cut(v.AsText(), " ")
		u, err := note.ParseUNID(key)
		n, bad := strconv.ParseInt(at, 10, 64)
		if err == nil && bad == nil {
			out = append(out, Snoozed{u, time.Unix(n, 0).UTC(), word == wordReminder})
		}
	}
	return out, items, nil
}

// Snoozed returns the snoozed messages of the mail file and those with a reminder, the next first.
func (d *Reading) Snoozed() ([]Snoozed, error) {
	list, _, err := d.snoozed()
	if err != nil {
		return nil, err
	}
	var there []Snoozed
	for _, s := range list {
		in, err := d.waits(s)
		if err != nil {
			return nil, err
		}
		if in {
			there = append(there, s)
		}
	}
	slices.SortFunc(there, func(a, b Snoozed) int { return a.Until.Compare(b.Until) })
	return there, nil
}

// waits reports whether a message still waits for its time.
func (d *Reading) waits(s Snoozed) (bool, error) {
	if s.Reminder {
		return d.awaits(s.Email)
	}
	folders, err := d.snoozedIn(s.Email)
	return len(folders) > 0, err
}

// snoozedIn returns the folders of snoozed messages that a message is in. There are several such folders after a split
// in which each side made one, and it is in several if each side snoozed it.
func (d *Reading) snoozedIn(u note.UNID) (in []*layout.Folder, err error) {
	row, err := d.rowOf(u)
	if row == nil || err != nil {
		return nil, err
	}
	for _, h := range d.r.Folders() {
		if _, is := row.Member(h.Note); is && (h.SpecialUse == UseSnoozed || h.Name == UseSnoozed) {
			in = append(in, h)
		}
	}
	return in, nil
}

// Snooze moves a message from all its folders to that of snoozed messages until a time, or changes the time. It returns
// ErrLimit if too many messages are snoozed.
func (c *Changing) Snooze(u note.UNID, until time.Time) error {
	m, err := c.EmailOf(u)
	if err != nil {
		return err
	}
	list, items, err := c.roomFor(u, false)
	if err != nil {
		return err
	}
	folder, err := c.ForUse(UseSnoozed)
	if err != nil {
		return err
	}
	var leaves []note.UNID
	for f := range m.Folders {
		if f != folder {
			leaves = append(leaves, f)
		}
	}
	if err := c.SetFolders(m.ID, []note.UNID{folder}, leaves); err != nil {
		return err
	}
	return c.putSnoozed(items, append(list, Snoozed{u, until, false}))
}

// roomFor reads the times of all messages but one, and returns ErrLimit if there is no room for another. A message that
// is snoozed and gets a reminder, or the other way round, is brought back first.
func (c *Changing) roomFor(u note.UNID, reminder bool) ([]Snoozed, note.Items, error) {
	list, items, err := c.snoozed()
	isIt := func(s Snoozed) bool { return s.Email == u }
	if at := slices.IndexFunc(list, isIt); at >= 0 && list[at].Reminder != reminder {
		_, err = c.undo(list[at])
	}
	if err != nil {
		return nil, items, err
	}
	if list = slices.DeleteFunc(list, isIt); len(list) < maxSnoozed {
		return list, items, nil
	}
	if list, err = c.Snoozed(); err != nil {
		return nil, items, err
	}
	if list = slices.DeleteFunc(list, isIt); len(list) >= maxSnoozed {
		return nil, items, fmt.Errorf("%w: at most %d snoozed messages", ErrLimit, maxSnoozed)
	}
	return list, items, nil
}

// Unsnooze moves a snoozed message back to the INBOX at once, as it was, or takes a reminder away. It returns
// ErrNoMessage if the message waits for no time.
func (c *Changing) Unsnooze(u note.UNID) error {
	list, items, err := c.snoozed()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(s Snoozed) bool { return s.Email == u })
	if at < 0 {
		return ErrNoMessage
	}
	waited, err := c.undo(list[at])
	if err != nil {
		return err
	}
	if !waited {
		return ErrNoMessage
	}
	return c.putSnoozed(items, slices.Delete(list, at, at+1))
}

// undo moves a snoozed message back to the INBOX, or removes the mark of a reminder. It does nothing to a message that
// does not wait for its time.
func (c *Changing) undo(s Snoozed) (waited bool, err error) {
	waited, err = c.waits(s)
	switch {
	case err != nil || !waited:
		return false, err
	case s.Reminder:
		return true, unmark(c, s.Email)
	}
	return true, c.moveBack(s.Email)
}

func (c *Changing) moveBack(u note.UNID) error {
	id, err := c.Find(u)
	if err != nil {
		return err
	}
	inbox, err := c.ForUse(Inbox)
	if err != nil {
		return err
	}
	folders, err := c.snoozedIn(u)
	if err != nil {
		return err
	}
	var from []note.UNID
	for _, h := range folders {
		from = append(from, h.UNID)
	}
	return c.SetFolders(id, []note.UNID{inbox}, from)
}

// putSnoozed stores the list of snoozed messages, of which items are those of the profile note as it was read.
func (c *Changing) putSnoozed(items note.Items, list []Snoozed) error {
	entries := map[string]note.Value{}
	for _, s := range list {
		text := strconv.FormatInt(s.Until.Unix(), 10)
		if s.Reminder {
			text += " " + wordReminder
		}
		entries[s.Email.String()] = note.Text(text)
	}
	// An empty list stays: a note that was destroyed cannot be made again under its UNID.
	return c.PutProfile(c.f.ProfileID(snoozedProfile),
		items.With("Form", note.Text(snoozedProfile)).WithEntries(itemSnoozed, entries))
}

// wake brings the messages whose time has come back to the INBOX: as new ones, unread and with now as their date, so
// that every client shows them on top. Those that have left the folder of snoozed messages, and reminders of messages
// that are gone or answered, are forgotten.
func (c *Changing) wake(now time.Time) error {
	list, items, err := c.snoozed()
	if err != nil {
		return err
	}
	inbox, err := FindUse(c.r, Inbox)
	if err != nil {
		return err
	}
	left := list[:0:0]
	for _, s := range list {
		if s.Until.After(now) {
			left = append(left, s)
			continue
		}
		if err := c.wakeOne(s, inbox, now); err != nil {
			return err
		}
	}
	if len(left) == len(list) {
		return nil
	}
	return c.putSnoozed(items, left)
}

func (c *Changing) wakeOne(s Snoozed, inbox note.ID, now time.Time) error {
	waits, err := c.waits(s)
	switch {
	case err != nil || !waits:
		return err
	case s.Reminder:
		return c.remind(s.Email, inbox, now)
	}
	return c.bringBack(s.Email, inbox, now)
}

func (c *Changing) bringBack(u note.UNID, inbox note.ID, now time.Time) error {
	folders, err := c.snoozedIn(u)
	if err != nil {
		return err
	}
	id, err := c.find(u)
	if err != nil {
		return err
	}
	row, err := c.w.Note(id)
	if err != nil {
		return err
	}
	if len(row.Members) > len(folders) { // it is in another folder too, and stays there
		if _, err := c.w.AddTo(id, inbox); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		if owner := c.r.Info().Owner; !owner.IsZero() {
			if err := c.w.SetSeen(id, owner, false); err != nil {
				return err
			}
		}
		for _, h := range folders {
			if err := c.w.RemoveFrom(id, h.Note); err != nil {
				return err
			}
		}
		return nil
	}
	again, err := c.w.CopyNote(c.w, id, inbox, note.UNID{})
	if err == nil {
		err = c.w.SetDate(again, now.Unix())
	}
	if err == nil {
		err = c.w.Destroy(id)
	}
	return err
}
