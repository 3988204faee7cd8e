package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ErrNoMessage reports a message that no longer exists.
var ErrNoMessage = errors.New("no such message")

// ErrExpunged reports a sequence number of an expunged message whose expunge was not announced to the session yet.
var ErrExpunged = errors.New("message was expunged")

// Incoming is a message to be stored.
type Incoming struct {
	Raw   []byte
	Flags Flags
	Date  time.Time // INTERNALDATE
}

// Append stores a message in a folder and returns the folder's UIDVALIDITY and the new UID. It leaves out flags that
// the person may not set.
//
// Implements: RFC 4314 §4 APPEND leaves out the flags that may not be set
func (f *File) Append(ctx context.Context, folder string, raw []byte, fl Flags,
	date time.Time) (validity, uid uint32, err error) {
	c, err := f.svc.Compose(ctx, raw, f.db)
	if err != nil {
		return 0, 0, err
	}
	defer c.Release()
	err = f.update(ctx, func(w *store.Writer) error {
		h, err := f.named(&w.Reader, folder)
		if err != nil {
			return err
		}
		if err := roomIn(&w.Reader, &f.who, h, uint64(len(raw))); err != nil {
			return err
		}
		validity = h.UIDValidity
		uid, err = f.put(w, h, c, fl, date)
		return err
	})
	return validity, uid, err
}

// put creates the note of a message in a folder.
func (hd *handle) put(w *store.Writer, h *layout.Folder, c *Composed, fl Flags,
	date time.Time) (uid uint32, err error) {
	n := c.New(date)
	n.Folders = []note.ID{h.Note}
	fl = fl.permitted(w.FolderRights(h))
	n.Keywords, n.MarkDeleted = fl.Keywords, fl.Deleted
	if fl.Seen {
		n.SeenBy = []note.UNID{hd.who.Person}
	}
	id, err := w.Create(n)
	if err != nil {
		return 0, err
	}
	return w.UID(id, h.Note), nil
}

// AppendAll stores several messages like Append, all or none, in the given order.
func (f *File) AppendAll(ctx context.Context, folder string, list []Incoming) (validity uint32, uids Set, err error) {
	all := make([]*Composed, 0, len(list))
	defer func() {
		for _, c := range all {
			c.Release()
		}
	}()
	var size uint64
	for i := range list {
		c, err := f.svc.Compose(ctx, list[i].Raw, f.db)
		if err != nil {
			return 0, nil, err
		}
		all = append(all, c)
		size += uint64(len(list[i].Raw))
	}
	err = f.update(ctx, func(w *store.Writer) error {
		uids = nil
		h, err := f.named(&w.Reader, folder)
		if err != nil {
			return err
		}
		if err := roomIn(&w.Reader, &f.who, h, size); err != nil {
			return err
		}
		validity = h.UIDValidity
		for i, c := range all {
			uid, err := f.put(w, h, c, list[i].Flags, list[i].Date)
			if err != nil {
				return err
			}
			uids = appendUID(uids, uid)
		}
		return nil
	})
	return validity, uids, err
}

// UID returns the UID of the message with the given sequence number or UID; 0 stands for the last message.
func (v *View) UID(ctx context.Context, n uint32, byUID bool) (uint32, error) {
	uids, err := v.named(ctx, Set{{n, n}}, byUID)
	switch {
	case err != nil:
		return 0, err
	case len(uids) != 1:
		return 0, ErrNoMessage
	}
	return uids[0], nil
}

// mayTake returns store.ErrDenied if the person may not mark the message \Deleted in this folder, as a move does. The
// right to expunge is checked when the message is removed.
//
// Implements: RFC 6851 §4.2 MOVE needs the rights of STORE \Deleted and EXPUNGE
func (o *opened) mayTake(w *store.Writer, id note.ID) error {
	if o.f.who.System {
		return nil
	}
	h, err := w.Folder(o.folder)
	if err != nil {
		return err
	}
	g := w.FolderRights(h)
	if g&note.DeleteMark != 0 {
		return nil
	}
	if n, err := w.Note(id); err != nil {
		return err
	} else if g&note.ExpungeOwn == 0 || n.Author.IsZero() || n.Author != o.f.who.Person {
		return store.ErrDenied
	}
	return nil
}

// message returns the message with a UID in this folder.
func (v *View) message(w *store.Writer, uid uint32) (note.ID, *layout.Note, error) {
	id, err := w.Member(v.folder, uid)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil, fmt.Errorf("%w: UID %d", ErrNoMessage, uid)
	}
	if err != nil {
		return 0, nil, err
	}
	n, err := w.Note(id)
	return id, n, err
}

// Replace stores a message in a folder of a mail file and removes the message uid from this one, both or none. The
// quota check counts only the growth. The session's next Poll reports the removal.
//
// Implements: RFC 8508 §3.4 REPLACE is one change
func (v *View) Replace(ctx context.Context, uid uint32, to *File, dest string,
	m *Incoming) (validity, got uint32, err error) {
	if v.readOnly {
		return 0, 0, ErrReadOnly
	}
	c, err := v.f.svc.Compose(ctx, m.Raw, to.db)
	if err != nil {
		return 0, 0, err
	}
	defer c.Release()
	ids := slices.Compact([]note.DatabaseID{v.f.db, to.db})
	err = v.f.svc.store.Update(ctx, v.f.who, ids, func(tx *store.Tx) error {
		from, err := tx.Home(v.f.db)
		if err != nil {
			return err
		}
		w, err := tx.Home(to.db)
		if err != nil {
			return err
		}
		id, n, err := v.message(from, uid)
		if err != nil {
			return err
		}
		h, err := to.named(&w.Reader, dest)
		if err != nil {
			return err
		}
		more := uint64(len(m.Raw))
		if w == from && len(n.Members) == 1 {
			more -= min(more, n.Size)
		}
		if err := roomIn(&w.Reader, &to.who, h, more); err != nil && (more > 0 || errors.Is(err, store.ErrDenied)) {
			return err
		}
		validity = h.UIDValidity
		if err := v.mayTake(from, id); err != nil {
			return err
		}
		if got, err = to.put(w, h, c, m.Flags, m.Date); err != nil {
			return err
		}
		return v.f.leave(from, id, v.folder)
	})
	return validity, got, err
}
