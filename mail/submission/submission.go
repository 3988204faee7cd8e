// Package submission records the messages that a person gave to be sent, and those that wait for their time (RFC 8621
// section 7). Each record is a profile note of the mail file, and one more profile note lists them with their send
// times. All clients read and change the same records.
package submission

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// The profile notes and their items. Every change of a record also changes the list, so the MODSEQ of the list is the
// state of all.
const (
	listProfile    = "Submissions"
	form           = "EmailSubmission"
	itemList       = "List" // "unid sendAt", oldest first
	itemGoneList   = "Gone" // "unid modseq", of those removed last
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
	ID     note.UNID
	SendAt int64
}

// List is the list of a mail file's records at the time Now (Unix seconds), the oldest first.
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
	for _, line := range x.items.Get(itemList).AsTextList() {
		id, at, _ := strings.Cut(line, " ")
		u, err := note.ParseUNID(id)
		n, err2 := strconv.ParseInt(at, 10, 64)
		if err == nil && err2 == nil {
			x.Entries = append(x.Entries, Entry{u, n})
		}
	}
	return x, err
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

// Gone returns the records that were removed last, as "unid modseq", the oldest first.
func (x *List) Gone() []string { return x.items.Get(itemGoneList).AsTextList() }

// Put stores the list with the changes of an update: those added, and those that the caller removed. It removes records
// that are too old or too many. It must be the last step of the update, so that its MODSEQ is the greatest.
func (x *List) Put(w *mailbox.Changing, added []Entry, removed []note.UNID) error {
	left := slices.DeleteFunc(slices.Clone(x.Entries), func(e Entry) bool { return slices.Contains(removed, e.ID) })
	left, old := x.trim(append(left, added...))
	for _, u := range old {
		if err := w.RemoveProfile(u); err != nil {
			return err
		}
	}
	return w.PutProfile(x.profile, x.itemsOf(left, append(old, removed...)))
}

// trim splits a list into the records to keep and those that are too old or too many.
func (x *List) trim(list []Entry) (keep []Entry, old []note.UNID) {
	for i, e := range list {
		if len(list)-i > Max || e.SendAt < x.Now-int64(Keep.Seconds()) {
			old = append(old, e.ID)
		} else {
			keep = append(keep, e)
		}
	}
	return keep, old
}

// itemsOf returns the items of the list note for these records. gone were removed in this change.
func (x *List) itemsOf(list []Entry, gone []note.UNID) note.Items {
	var lines []string
	for _, e := range list {
		lines = append(lines, e.ID.String()+" "+strconv.FormatInt(e.SendAt, 10))
	}
	items := x.items.With("Form", note.Text(listProfile)).With(itemList, note.TextList(lines...))
	if len(gone) > 0 {
		// The MODSEQ of this change is not known yet, so record the one before it.
		was := x.Gone()
		for _, u := range gone {
			was = append(was, u.String()+" "+strconv.FormatUint(uint64(x.Mod), 10))
		}
		items = items.With(itemGoneList, note.TextList(was[max(0, len(was)-MaxGone):]...))
	}
	// Change the note even if the list is the same, so that it gets a new MODSEQ.
	return items.With("Sequence", note.Int(x.items.Get("Sequence").AsInt()+1))
}
