package search

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/search/index"
	"doublet/search/text"
	"doublet/store"
)

// lateBatch is the number of notes with attachments that are listed at once.
const lateBatch = 100

// lateNote is a note whose attachments are not read yet.
type lateNote struct {
	db    note.DatabaseID
	build uint32
	id    note.ID
}

// attachments reads the attachments of messages one by one, in its own goroutine, so that a slow attachment does not
// delay the words of other messages.
func (w *worker) attachments(ctx context.Context) error {
	a := newAnalyser()
	var seen recipes
	for ctx.Err() == nil {
		var list []lateNote
		if err := w.x.Lates(func(db note.DatabaseID, build uint32, id note.ID) bool {
			list = append(list, lateNote{db, build, id})
			return len(list) < lateBatch
		}); err != nil {
			return err
		}
		stuck := 0
		for _, l := range list {
			begun := w.s.env.Clock.Now()
			ok, err := w.lateOne(ctx, l, a, &seen)
			if err != nil {
				return err
			}
			if !ok {
				stuck++
			}
			w.s.step()
			w.pace(ctx, begun, w.s.opt.Share)
		}
		if len(list) > stuck {
			continue
		}
		select {
		case <-w.late:
		case <-w.s.env.Clock.After(retryEvery):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// lateOne reads the attachments of one note. It returns false if they cannot be read now.
func (w *worker) lateOne(ctx context.Context, l lateNote, a *analyser, seen *recipes) (bool, error) {
	var what *analysed
	var date int64
	var seq uint64
	err := w.s.store.Read(ctx, note.System, l.db, func(r *store.Reader) error {
		row, err := r.Row(l.id)
		if err != nil {
			return ignoreGone(err)
		}
		date, seq = row.Date, row.Seq
		if what = seen.get(row.Recipe); what != nil {
			return nil
		}
		raw, err := message(r, row)
		if err != nil {
			return err
		}
		d := text.Attachments(raw, w.s.opt.Limits)
		what = a.document(d)
		seen.put(row.Recipe, what)
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, store.ErrDamaged):
		what = nil // treat it as a message without readable attachments
	case errors.Is(err, store.ErrNotFound): // the database was removed
	case errors.Is(err, store.ErrClosed):
		return false, err
	case err != nil:
		return false, nil
	}
	return true, w.x.Update(func(u *index.Writer) error {
		s, err := u.State(l.db)
		if err != nil {
			return err
		}
		for _, b := range []*index.Build{s.Active, s.Next} {
			if b == nil || b.ID != l.build {
				continue
			}
			u.Late(l.db, b, l.id, true)
			if what == nil {
				continue
			}
			w.s.stat.readAttachments(what)
			b.MaxSeq = max(b.MaxSeq, seq)
			b.Text += what.bytes
			b.Encrypted += uint64(what.skipped.Encrypted)
			b.Broken += uint64(what.skipped.Broken)
			b.Beyond += uint64(what.skipped.Beyond)
			if what.count > 0 {
				p := what.piece()
				p.Note, p.Date, p.Kind = l.id, date, index.Attachments
				if b.Again { // the piece belongs to the current message of the note
					p.Flags |= index.Mutable
				}
				u.Put(l.db, b, p)
			}
			return nil
		}
		return u.Forget(l.db, l.build, l.id)
	})
}

// merging adds databases to those that may have segments to merge.
func (w *worker) merging(list ...note.DatabaseID) {
	if len(list) == 0 {
		return
	}
	w.mu.Lock()
	if w.mergeable == nil {
		w.mergeable = map[note.DatabaseID]bool{}
	}
	for _, db := range list {
		w.mergeable[db] = true
	}
	w.mu.Unlock()
	signal(w.more)
}

func (w *worker) takeMergeable() (note.DatabaseID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for db := range w.mergeable {
		delete(w.mergeable, db)
		return db, true
	}
	return 0, false
}

// merge merges small segments into larger ones.
func (w *worker) merge(ctx context.Context) error {
	for ctx.Err() == nil {
		db, ok := w.takeMergeable()
		if !ok {
			select {
			case <-w.more:
			case <-ctx.Done():
			}
			continue
		}
		if err := w.mergeOne(ctx, db); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) mergeOne(ctx context.Context, db note.DatabaseID) error {
	begun := w.s.env.Clock.Now()
	pause := func() error {
		w.pace(ctx, begun, w.s.opt.Share)
		begun = w.s.env.Clock.Now()
		return ctx.Err()
	}
	var unread error
	alive := func(ids []note.ID) ([]bool, error) {
		out := make([]bool, len(ids))
		unread = w.s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
			for i, id := range ids {
				_, err := r.Row(id)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				out[i] = err == nil
			}
			return nil
		})
		return out, unread
	}
	for _, next := range []bool{false, true} {
		for merged := true; merged; {
			var err error
			merged, err = w.x.Merge(db, next, alive, pause)
			if unread != nil && ctx.Err() == nil && !errors.Is(unread, store.ErrClosed) {
				return nil // the database was removed or is out of service
			}
			if err != nil {
				return err
			}
			if merged {
				w.s.stat.merged.Inc()
				w.s.step()
			}
			if err := pause(); err != nil {
				return err
			}
		}
	}
	return nil
}
