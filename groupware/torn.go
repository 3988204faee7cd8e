package groupware

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Torn is an event of which a mail file has several versions: its primary and one that led it at the same time, or
// before a crash, have written it, each without what the other wrote.
type Torn struct {
	// Entries are those of the calendars. Without any, the event was removed, and changed elsewhere.
	Entries []Placed
	// Versions are all versions, that of the first entry first.
	Versions []*calendar.Object

	// Removed is set if one primary removed the event after the last change of the entries.
	Removed bool

	// Attachments are the managed attachments of all versions.
	Attachments []Attachment

	notes []note.ID // the notes with conflicts
	bin   []note.ID // the removed entries among the versions
}

// owedFor is the time after which a message that was not sent yet is sent again: until then the server may be sending
// it.
const owedFor = 15 * time.Second

// Torn returns the events that changed since a moment and have several versions, or of which a message was not sent
// yet, and the moment for the next call; with soon there may be more of the latter in a while. It looks at all events
// if the changes since the moment are not known. A mail file without other replicas has one version of each.
func (f *File) Torn(ctx context.Context, since Moment) (list []Torn, now Moment, soon bool, err error) {
	err = f.read(ctx, func(d *reading) error {
		m, err := d.moments(Calendar)
		if err != nil {
			return err
		}
		now = m.Entries
		s := tornSearch{d}
		uids, err := s.suspects(since, now)
		if err != nil {
			return err
		}
		for _, uid := range uids {
			t, err := s.versions(uid)
			if err != nil {
				return err
			}
			owed, young := t.owed(f.svc.env.Clock.Now())
			if len(t.Versions) > 1 || owed {
				list = append(list, t)
			} else {
				soon = soon || young
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
	return list, now, soon, err
}

// owed reports whether a message about the event is to be sent again: now, or after a while.
func (t *Torn) owed(now time.Time) (owed, young bool) {
	if len(t.Entries) == 0 || len(t.Versions) == 0 || !itip.Owes(t.Versions[0]) {
		return false, false
	}
	age := now.Sub(t.Entries[0].Modified).Abs() // the clock of another server may be ahead
	return age >= owedFor, age < owedFor
}

// tornSearch searches a mail file for torn events.
type tornSearch struct{ *reading }

// suspects returns the UIDs of the events that may be torn: those that changed since a moment; if that is not known,
// those of which the index has two, or whose notes have conflicts, or of which a message is owed.
func (d tornSearch) suspects(since, now Moment) (uids []string, err error) {
	ids := map[note.ID]bool{}
	if d.tells(since, now) == nil {
		err = d.changedNotes(since, ids)
	} else {
		err = d.oddNotes(ids)
	}
	if err != nil {
		return nil, err
	}
	owed, err := d.r.Lookup(indexEntries, owedKey)
	if err != nil {
		return nil, err
	}
	for _, id := range owed {
		ids[id] = true
	}
	for id := range ids {
		c, err := d.r.Content(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if uid := c.Content.Items.Get(itemUID).AsText(); uid != "" {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// changedNotes adds the documents that changed since a moment.
func (d tornSearch) changedNotes(since Moment, ids map[note.ID]bool) error {
	var inner error
	err := d.r.Changes(since.Mod, func(_ note.ModSeq, c layout.Change) bool {
		row, err := d.row(c.Note)
		if err == nil && row != nil && row.Class == note.Document && row.Recipe == 0 {
			ids[c.Note] = true
		}
		inner = err
		return err == nil
	})
	return errors.Join(err, inner)
}

// oddNotes adds the entries whose UID another note has too, and those that may have conflicts.
func (d tornSearch) oddNotes(ids map[note.ID]bool) error {
	if !d.r.Counters().Ledger.Shared {
		return nil
	}
	var all []note.ID
	var last []byte
	err := d.r.Scan(indexEntries, []byte{uidKind}, func(key []byte, id note.ID) bool {
		if bytes.Equal(key, last) {
			ids[id] = true
		}
		last = append(last[:0], key...)
		all = append(all, id)
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range all {
		if row, err := d.row(id); err != nil {
			return err
		} else if row != nil && row.Attached {
			ids[id] = true
		}
	}
	return nil
}

// versions returns the event with a UID and its versions.
func (d tornSearch) versions(uid string) (t Torn, err error) {
	if t.Entries, err = d.ByUID(uid); err != nil {
		return t, err
	}
	// Two homes that merge at the same time keep the same entry.
	slices.SortFunc(t.Entries, func(a, b Placed) int { return a.UNID.Compare(b.UNID) })
	for i := range t.Entries {
		if o, err := calendar.ReadObject(t.Entries[i].Text); err == nil {
			t.Versions = append(t.Versions, o)
		}
		t.Attachments = append(t.Attachments, t.Entries[i].Attachments...)
	}
	ids, err := d.r.Lookup(indexEntries, uidKey(uid))
	if err != nil {
		return t, err
	}
	for _, id := range ids {
		if err := d.leaves(id, &t); err != nil {
			return t, err
		}
	}
	return t, d.departed(uid, &t)
}

// departed adds the removed entries that are not older than those in the calendars. After a removal that every primary
// knew, what comes back is newer. An answer waits until the version of the event that it answers is here.
func (d tornSearch) departed(uid string, t *Torn) error {
	if len(t.Entries) == 0 || !d.r.Counters().Ledger.Shared {
		return nil
	}
	gone, err := d.Gone(uid)
	if err != nil {
		return err
	}
	there := slices.Clone(t.Versions)
	var changed time.Time
	for i := range t.Entries {
		changed = latest(changed, t.Entries[i].Modified)
	}
	for _, e := range gone {
		if itip.IsAnswer(e.Object) {
			continue
		}
		order := 0
		t.Attachments = append(t.Attachments, e.Attachments...)
		if !slices.ContainsFunc(there, func(o *calendar.Object) bool {
			order = max(order, itip.Compare(e.Object, o))
			return itip.Compare(e.Object, o) < 0
		}) {
			t.Versions, t.bin = append(t.Versions, e.Object), append(t.bin, e.id)
			t.Removed = t.Removed || order > 0 && e.Removed.After(changed)
		}
	}
	there = slices.Clone(t.Versions)
	for _, e := range gone {
		if itip.IsAnswer(e.Object) &&
			slices.ContainsFunc(there, func(o *calendar.Object) bool { return !itip.Ahead(e.Object, o) }) {
			t.Versions, t.bin = append(t.Versions, e.Object), append(t.bin, e.id)
		}
	}
	return nil
}

// leaves adds the versions of a note that lost a conflict; those of a removed entry with that which won.
func (d tornSearch) leaves(id note.ID, t *Torn) error {
	c, err := d.r.Content(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	lost := c.Tree.Conflicts()
	if len(lost) == 0 {
		return nil
	}
	t.notes = append(t.notes, id)
	list := []*note.Content{&c.Content}
	if slices.ContainsFunc(t.Entries, func(e Placed) bool { return e.id == id }) {
		list = nil
	}
	for _, l := range lost {
		x, err := d.r.Leaf(id, l.Rev)
		if err != nil {
			continue //nolint:nilerr // check reports a damaged one
		}
		list = append(list, x)
	}
	for _, x := range list {
		e := &Entry{id: id}
		body(e, x)
		t.Attachments = append(t.Attachments, e.Attachments...)
		if err := d.text(e); err != nil {
			return err
		}
		if o, err := calendar.ReadObject(e.Text); err == nil {
			t.Versions = append(t.Versions, o)
		}
	}
	return nil
}

// Settle puts one version in the place of all: the first entry stays, which write changes, or none if write is nil. It
// returns ErrChanged if one of the entries is no longer as it was read.
func (t *Torn) Settle(c *Changing, write func() error) error {
	if err := t.unchanged(c); err != nil {
		return err
	}
	for _, id := range t.bin {
		if err := c.write().Destroy(id); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	for i := range t.Entries {
		if i == 0 && write != nil {
			continue
		}
		if err := removePlaced(c, &t.Entries[i]); err != nil {
			return err
		}
	}
	if write != nil {
		if err := write(); err != nil {
			return err
		}
	}
	for _, id := range t.notes {
		if err := c.write().Resolve(id); err != nil {
			return err
		}
	}
	return nil
}

// unchanged returns ErrChanged unless all entries are as they were read.
func (t *Torn) unchanged(c *Changing) error {
	for i := range t.Entries {
		now, err := c.ByUID(t.Entries[i].UID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now, func(e Placed) bool {
			return e.id == t.Entries[i].id && e.ETag == t.Entries[i].ETag
		}) {
			return ErrChanged
		}
	}
	return nil
}

// removePlaced removes an entry by its note: two servers may have given two entries the same name.
func removePlaced(c *Changing, e *Placed) error {
	h, err := c.find(Calendar, e.Place.Collection, note.Lookup)
	if err != nil {
		return err
	}
	return c.remove(h, e.id, removed)
}
