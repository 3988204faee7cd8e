// Package submission records the messages that a person gave to be sent, and those that wait for their time (RFC 8621
// section 7). Each record is a profile note of the mail file, and one more profile note lists them with their send
// times. All clients read and change the same records.
package submission

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// The profile notes and their items. Every change of a record also changes its entry in the list, so the MODSEQ of the
// list is the state of all.
const (
	listProfile    = "Submissions"
	form           = "EmailSubmission"
	itemEntry      = "Entry." // and the UNID: sendAt, and after a cancel "sendAt canceled"
	itemGone       = "Gone."  // and the UNID of one that was removed lately: the MODSEQ of the list before that
	itemIdentity   = "Identity"
	itemEmail      = "Email"
	itemThread     = "Thread"
	itemEnvelope   = "Envelope"
	itemSendAt     = "SendAt"
	itemQueueID    = "QueueID"
	itemCanceled   = "Canceled"
	itemRecipients = "Recipients"
	itemRefusals   = "Refusals"
)

// Limits: the number of records, for how long one is kept after its send time, the number of removed ones in Gone, and
// how far in the future a send time may be.
const (
	Max      = 1000
	Keep     = 30 * 24 * time.Hour
	MaxGone  = 200
	MaxDelay = 30 * 24 * time.Hour
)

// Record is an EmailSubmission.
type Record struct {
	ID            note.UNID
	Identity      string
	Email, Thread note.UNID
	Envelope      string // JSON
	SendAt        int64  // Unix seconds
	Queue         note.UNID
	Canceled      bool
	Recipients    []string
	Refusals      []string // parallel to Recipients: the SMTP reply, "" for an accepted recipient
	// Created and Changed are the MODSEQs of the record's note. They are zero for a new one.
	Created, Changed note.ModSeq
}

// Put stores a record. The caller stores the list behind it (List.Put).
func (m *Record) Put(w *mailbox.Changing) error {
	return w.PutProfile(m.ID, note.MakeItems(
		note.Item{Name: "Form", Value: note.Text(form)},
		note.Item{Name: itemIdentity, Value: note.Text(m.Identity)},
		note.Item{Name: itemEmail, Value: note.Text(m.Email.String())},
		note.Item{Name: itemThread, Value: note.Text(m.Thread.String())},
		note.Item{Name: itemEnvelope, Value: note.Text(m.Envelope)},
		note.Item{Name: itemSendAt, Value: note.Int(m.SendAt)},
		note.Item{Name: itemQueueID, Value: note.Text(m.Queue.String())},
		note.Item{Name: itemCanceled, Value: note.Bool(m.Canceled)},
		note.Item{Name: itemRecipients, Value: note.TextList(m.Recipients...)},
		note.Item{Name: itemRefusals, Value: note.TextList(m.Refusals...)},
	))
}

func (m *Record) read(items note.Items) {
	m.Identity, m.Envelope = items.Get(itemIdentity).AsText(), items.Get(itemEnvelope).AsText()
	m.Email, _ = note.ParseUNID(items.Get(itemEmail).AsText())
	m.Thread, _ = note.ParseUNID(items.Get(itemThread).AsText())
	m.Queue, _ = note.ParseUNID(items.Get(itemQueueID).AsText())
	m.SendAt, m.Canceled = items.Get(itemSendAt).AsInt(), items.Get(itemCanceled).AsBool()
	m.Recipients, m.Refusals = items.Get(itemRecipients).AsTextList(), items.Get(itemRefusals).AsTextList()
	for len(m.Refusals) < len(m.Recipients) {
		m.Refusals = append(m.Refusals, "")
	}
}

// UndoStatus returns "canceled", "pending" if the send time is after now (Unix seconds), or "final".
func (m *Record) UndoStatus(now int64) string {
	switch {
	case m.Canceled:
		return "canceled"
	case m.SendAt > now:
		return "pending"
	}
	return "final"
}

// Entry is an entry of the list.
type Entry struct {
	ID       note.UNID
	SendAt   int64
	Canceled bool
}

const wordCanceled = "canceled"

// Entry returns the entry of a record.
func (m *Record) Entry() Entry { return Entry{m.ID, m.SendAt, m.Canceled} }

func (e Entry) value() note.Value {
	text := strconv.FormatInt(e.SendAt, 10)
	if e.Canceled {
		text += " " + wordCanceled
	}
	return note.Text(text)
}

func readEntry(key string, v note.Value) (e Entry, ok bool) {
	at, word, _ := strings.Cut(v.AsText(), " ")
	u, err := note.ParseUNID(key)
	n, err2 := strconv.ParseInt(at, 10, 64)
	return Entry{u, n, word == wordCanceled}, err == nil && err2 == nil
}

// List is the list of a mail file's records at the time Now (Unix seconds), in the order of their send times.
type List struct {
	Entries []Entry
	Mod     note.ModSeq
	Now     int64
	profile note.UNID
	items   note.Items
}

// Read returns the list of a mail file.
func Read(d *mailbox.Reading, f *mailbox.File, now time.Time) (*List, error) {
	x := &List{Now: now.Unix(), profile: f.ProfileID(listProfile)}
	var err error
	x.items, x.Mod, err = d.Profile(x.profile)
	x.items = x.items.Split("List", itemEntry)
	for key, v := range x.items.Entries(itemEntry) {
		if e, ok := readEntry(key, v); ok {
			x.Entries = append(x.Entries, e)
		}
	}
	slices.SortStableFunc(x.Entries, func(a, b Entry) int { return cmp.Compare(a.SendAt, b.SendAt) })
	return x, err
}

// Readable returns an error if the list of a mail file cannot be read. It costs less than Read.
func Readable(d *mailbox.Reading, f *mailbox.File) error {
	_, _, err := d.Profile(f.ProfileID(listProfile))
	return err
}

// Load reads a record. It returns nil if the record is not in the list.
func (x *List) Load(d *mailbox.Reading, u note.UNID) (*Record, error) {
	if !slices.ContainsFunc(x.Entries, func(e Entry) bool { return e.ID == u }) {
		return nil, nil
	}
	items, created, mod, err := d.ProfileSince(u)
	if err != nil || items == nil {
		return nil, err
	}
	m := &Record{ID: u, Created: created, Changed: mod}
	m.read(items)
	return m, nil
}

// Pending reads the records whose messages wait for their time, the oldest first.
func (x *List) Pending(d *mailbox.Reading) (out []*Record, err error) {
	for _, e := range x.Entries {
		if e.SendAt <= x.Now {
			continue
		}
		m, err := x.Load(d, e.ID)
		if err != nil {
			return nil, err
		}
		if m != nil && !m.Canceled {
			out = append(out, m)
		}
	}
	return out, nil
}

// Removed is a record that was removed. Mod is the MODSEQ of the list before that.
type Removed struct {
	ID  note.UNID
	Mod note.ModSeq
}

// Gone returns the records that were removed last, at most MaxGone, the oldest first.
func (x *List) Gone() (out []Removed) {
	for key, v := range x.items.Entries(itemGone) {
		u, err := note.ParseUNID(key)
		if mod := v.AsInt(); err == nil {
			out = append(out, Removed{u, note.ModSeq(mod)})
		}
	}
	slices.SortStableFunc(out, func(a, b Removed) int { return cmp.Compare(a.Mod, b.Mod) })
	return out
}

// Put stores the list after the update of some records and the removal of others. It removes records that are too old
// or too many. It must be the last step of the update, so that its MODSEQ is the greatest.
func (x *List) Put(w *mailbox.Changing, updated []Entry, removed []note.UNID) error {
	items := x.items.With("Form", note.Text(listProfile))
	left := slices.Clone(x.Entries)
	for _, e := range updated {
		items = items.With(itemEntry+e.ID.String(), e.value())
		left = append(slices.DeleteFunc(left, func(o Entry) bool { return o.ID == e.ID }), e)
	}
	left = slices.DeleteFunc(left, func(e Entry) bool { return slices.Contains(removed, e.ID) })
	slices.SortStableFunc(left, func(a, b Entry) int { return cmp.Compare(a.SendAt, b.SendAt) })
	for i, e := range left {
		if len(left)-i > Max || e.SendAt < x.Now-int64(Keep.Seconds()) {
			if err := w.RemoveProfile(e.ID); err != nil {
				return err
			}
			removed = append(removed, e.ID)
		}
	}
	for _, u := range removed {
		// The MODSEQ of this change is not known yet, so record the one before it.
		items = items.With(itemEntry+u.String(), nil).With(itemGone+u.String(), note.Int(int64(x.Mod)))
	}
	x.items = items
	for gone := x.Gone(); len(gone) > MaxGone; gone = gone[1:] {
		x.items = x.items.With(itemGone+gone[0].ID.String(), nil)
	}
	return w.PutProfile(x.profile, x.items)
}
