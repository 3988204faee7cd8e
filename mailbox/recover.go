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
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// MaxRecoverable is the number of messages that Recoverable lists at most.
const MaxRecoverable = 500

// Recoverable is a deleted message that can be recovered.
type Recoverable struct {
	UNID     note.UNID
	From     []mime.Address
	Subject  string
	Size     uint64    // bytes
	Received time.Time // INTERNALDATE
	Deleted  time.Time
	// Folders are those that Recover puts the message into.
	Folders []Folder
}

// mayRecover returns store.ErrDenied unless the person owns the mail file. Other people may see some of its folders,
// but a deleted message may come from any.
func (hd *handle) mayRecover(r *store.Reader) error {
	if owner := r.Info().Owner; hd.who.System || !owner.IsZero() && owner == hd.who.Person {
		return nil
	}
	return fmt.Errorf("%w: only the owner of a mail file recovers deleted messages", store.ErrDenied)
}

// Recoverable returns the deleted messages that can be recovered and were deleted at a time or later, the newest first:
// at most MaxRecoverable, and more if there are others. It returns store.ErrDenied to everyone but the owner and the
// server.
func (f *File) Recoverable(ctx context.Context, since time.Time) (list []Recoverable, more bool, err error) {
	system := f.svc.File(note.System, f.db)
	err = system.Read(ctx, func(d *Reading) error {
		if err := f.mayRecover(d.r); err != nil {
			return err
		}
		list, more, err = d.recoverable(since)
		return err
	})
	return list, more, err
}

func (d *Reading) recoverable(since time.Time) (list []Recoverable, more bool, err error) {
	for _, h := range bins(d.r) {
		rank := h.Total - min(h.Total, MaxRecoverable+1)
		first, err := d.r.At(h.Note, rank)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		ids, err := membersOf(d.r, h, first)
		if err != nil {
			return nil, false, err
		}
		for _, id := range ids {
			x, err := d.recoverableOne(h, id)
			if err != nil {
				return nil, false, err
			}
			if x != nil && !x.Deleted.Before(since) {
				list = append(list, *x)
			}
		}
	}
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Recoverable) int { return b.Deleted.Compare(a.Deleted) })
	if more = len(list) > MaxRecoverable; more {
		list = list[:MaxRecoverable]
	}
	return list, more, nil
}

// membersOf returns the members of a folder from a UID on, the oldest first.
func membersOf(r *store.Reader, h *layout.Folder, first uint32) (ids []note.ID, err error) {
	err = r.Members(h.Note, first, note.MaxUID, func(_ uint32, id note.ID) bool {
		ids = append(ids, id)
		return true
	})
	return ids, err
}

// recoverableOne describes a message in a bin. It returns nil for one that is in another folder too, because a replica
// moved it there while another one deleted it.
func (d *Reading) recoverableOne(h *layout.Folder, id note.ID) (*Recoverable, error) {
	row, err := d.r.Note(id)
	if err != nil || !row.Hidden() {
		return nil, ignoreGone(err)
	}
	m := &Email{ID: id, d: d, row: row}
	text, err := m.Envelope()
	e := &mime.Envelope{}
	if err == nil {
		e, err = imap.ParseEnvelope(text)
	}
	if errors.Is(err, store.ErrDamaged) { // the others can be listed, and this one restored
		e, err = &mime.Envelope{}, nil
	}
	if err != nil {
		return nil, err
	}
	in, _ := row.Member(h.Note)
	out := &Recoverable{UNID: row.UNID, From: e.From, Subject: e.Subject, Size: row.Size,
		Received: time.Unix(row.Date, 0).UTC(), Deleted: time.Unix(in.Saved, 0).UTC()}
	for _, o := range origin(d.r, row, h) {
		out.Folders = append(out.Folders, d.f.folder(d.r, o))
	}
	return out, nil
}

// origin returns the folders that a message goes back to: those that it left when it was deleted. If that was the Trash
// alone, it is the folder before. If none is left, it is the INBOX.
func origin(r *store.Reader, row *layout.Note, h *layout.Folder) (list []*layout.Folder) {
	_, began := row.State.Get(note.Member, string(h.UNID[:]))
	var last *layout.Folder
	var lastAt note.Stamp
	never := append(foldersOf(r, UseTrash), foldersOf(r, UseSnoozed)...)
	for _, f := range r.AllFolders() {
		value, at := row.State.Get(note.Member, string(f.UNID[:]))
		switch {
		case value != note.Off || at == (note.Stamp{}) || !ofMail(f):
		case slices.Contains(never, f.Note):
		case began.Less(at):
			list = append(list, f)
		case lastAt.Less(at):
			last, lastAt = f, at
		}
	}
	if len(list) == 0 && last != nil {
		list = append(list, last)
	}
	if len(list) == 0 {
		if inbox, err := r.FolderNamed(Inbox); err == nil {
			list = append(list, inbox)
		}
	}
	return list
}

// Recovered is the result of Recover for one message.
type Recovered struct {
	// Err is nil, ErrNoMessage if there is no such message to recover, ErrOverQuota, or another error of the message.
	Err     error
	Folders []Folder // those that the message is in again
}

// Recover puts deleted messages back into the folders that Recoverable lists, with their flags and dates, and returns a
// result for each. It returns store.ErrDenied to everyone but the owner and the server.
func (f *File) Recover(ctx context.Context, unids []note.UNID) ([]Recovered, error) {
	out := make([]Recovered, len(unids))
	system := f.svc.File(note.System, f.db)
	for from := 0; from < len(unids); from += batch {
		part := unids[from:min(from+batch, len(unids))]
		res, err := system.Change(ctx, len(part), func(c *Changing, i int) (err error) {
			if err := f.mayRecover(c.r); err != nil {
				return store.Abort(err)
			}
			out[from+i].Folders, err = recoverOne(c, part[i])
			return err
		})
		if err != nil {
			return out, partly(err, from > 0)
		}
		for i, err := range res.Errs {
			out[from+i].Err = err
		}
	}
	return out, nil
}

// recoverOne puts one message back.
func recoverOne(c *Changing, u note.UNID) ([]Folder, error) {
	id, err := c.Find(u)
	if err != nil {
		return nil, err
	}
	row, err := c.w.Note(id)
	if err != nil {
		return nil, err
	}
	h := inOne(row, bins(c.r))
	if h == nil || !row.Hidden() {
		return nil, ErrNoMessage
	}
	if err := c.take(row.Size); err != nil {
		return nil, err
	}
	var out []Folder
	for _, o := range origin(c.r, row, h) {
		if err := c.addTo(id, o.UNID); err != nil {
			return nil, err
		}
		out = append(out, c.f.folder(c.r, o))
	}
	return out, c.w.RemoveFrom(id, h.Note)
}

// PurgeRecoverable deletes for good the messages of a mail file that were deleted longer ago than KeepDeleted, and the
// oldest of them while they need more room than the quota of the mail file. It deletes nothing during a hold, and no
// message that policies keep until a later time; keep may be nil. It returns their number.
func (s *Service) PurgeRecoverable(ctx context.Context, db note.DatabaseID, keep *Retention) (n int, err error) {
	old, err := s.expired(ctx, db, keep)
	for part := range slices.Chunk(old, batch) {
		if err == nil {
			var done int
			done, err = s.purgeSome(ctx, db, part)
			n += done
		}
	}
	return n, err
}

// KeptDeleted returns the deleted messages of a mail file that can be recovered: their number, and their bytes.
func (s *Service) KeptDeleted(ctx context.Context, db note.DatabaseID) (messages int, bytes uint64, err error) {
	err = s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		for _, h := range bins(r) {
			messages += int(h.Total)
			bytes += h.Size
		}
		return nil
	})
	return messages, bytes, err
}

// binned is a message of a bin.
type binned struct{ id, folder note.ID }

// expired returns the messages that PurgeRecoverable deletes.
func (s *Service) expired(ctx context.Context, db note.DatabaseID, keep *Retention) (old []binned, err error) {
	before := s.env.Clock.Now().Add(-s.opt.KeepDeleted).Unix()
	if keep == nil {
		keep = &Retention{}
	}
	err = s.File(note.System, db).Read(ctx, func(d *Reading) error {
		t, err := d.retaining(keep)
		if t == nil || err != nil {
			return err
		}
		r := d.r
		quota := r.Info().Quota
		for _, h := range bins(r) {
			ids, err := membersOf(r, h, 1)
			if err != nil {
				return err
			}
			size := h.Size
			for _, id := range ids {
				row, err := r.Note(id)
				if err != nil {
					return err
				}
				m, _ := row.Member(h.Note)
				if m.Saved > before && row.Hidden() && (quota == 0 || size <= quota) {
					continue
				}
				size -= min(size, row.Size) // one that is kept takes no room from the others
				if !row.Hidden() || !t.keeps(row, h) {
					old = append(old, binned{id, h.Note})
				}
			}
		}
		return nil
	})
	return old, err
}

// purgeSome removes messages from the bin. A hold that began meanwhile keeps them.
func (s *Service) purgeSome(ctx context.Context, db note.DatabaseID, list []binned) (n int, err error) {
	err = s.asSystem(ctx, db, func(w *store.Writer) error {
		n = 0
		on, err := Held(&w.Reader)
		if on || err != nil {
			return err
		}
		for _, x := range list {
			err := w.RemoveFrom(x.id, x.folder)
			if errors.Is(err, store.ErrNotFound) {
				continue // restored meanwhile
			}
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, err
}

// Hold sets or ends the hold of a mail file: while it is on, messages that are deleted are kept, whatever KeepDeleted
// is, and none is purged.
func (s *Service) Hold(ctx context.Context, db note.DatabaseID, on bool) error {
	return s.asSystem(ctx, db, func(w *store.Writer) error {
		have, err := Held(&w.Reader)
		if err != nil || have == on {
			return err
		}
		id, err := makeBin(w)
		if err != nil {
			return err
		}
		if on {
			return w.SetFolderItem(id, itemHold, note.Bool(true), 0)
		}
		for _, h := range bins(&w.Reader) {
			if err := w.SetFolderItem(h.Note, itemHold, nil, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Held reports whether a hold of the mail file is on.
func (s *Service) Held(ctx context.Context, db note.DatabaseID) (on bool, err error) {
	err = s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		on, err = Held(r)
		return err
	})
	return on, err
}
