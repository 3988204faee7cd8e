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

// attachments reads the attachments of messages into an index, in a goroutine of its own.
type attachments struct {
	s *Service
	x *index.Index
	// wake is signaled when the index lists further notes whose attachments are to be read.
	wake chan struct{}
}

// run reads the attachments of messages one by one, so that a slow attachment does not delay the words of other
// messages.
func (a *attachments) run(ctx context.Context) error {
	words := newAnalyser()
	var seen recipes
	for ctx.Err() == nil {
		var list []lateNote
		if err := a.x.Lates(func(db note.DatabaseID, build uint32, id note.ID) bool {
			list = append(list, lateNote{db, build, id})
			return len(list) < lateBatch
		}); err != nil {
			return err
		}
		stuck := 0
		for _, l := range list {
			begun := a.s.env.Clock.Now()
			ok, err := a.one(ctx, l, words, &seen)
			if err != nil {
				return err
			}
			if !ok {
				stuck++
			}
			a.s.step()
			a.s.pace(ctx, begun, a.s.opt.Share)
		}
		if len(list) > stuck {
			continue
		}
		select {
		case <-a.wake:
		case <-a.s.env.Clock.After(retryEvery):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// one reads the attachments of one note. It returns false if they cannot be read now.
func (a *attachments) one(ctx context.Context, l lateNote, words *analyser, seen *recipes) (bool, error) {
	late := lateText{lateNote: l}
	err := a.s.store.Read(ctx, note.System, l.db, func(r *store.Reader) error {
		row, err := r.Row(l.id)
		if err != nil {
			return ignoreGone(err)
		}
		late.date, late.seq = row.Date, row.Seq
		if late.what = seen.get(row.Recipe); late.what != nil {
			return nil
		}
		raw, err := message(r, row)
		if err != nil {
			return err
		}
		late.what, err = words.note(a.s, r, l.id, func() *text.Document {
			return text.Attachments(raw, a.s.opt.Limits)
		})
		if err == nil {
			seen.put(row.Recipe, late.what)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, store.ErrDamaged):
		late.what = nil // treat it as a message without readable attachments
	case errors.Is(err, errPanic):
		late.what = &analysed{skipped: text.Skipped{Broken: 1}}
	case errors.Is(err, store.ErrNotFound): // the database was removed
	case errors.Is(err, store.ErrClosed):
		return false, err
	case err != nil:
		return false, nil
	}
	return true, a.x.Update(func(u *index.Writer) error { return a.write(u, &late) })
}

// lateText holds the text of a note's attachments. what is nil if they cannot be read, or the note is gone.
type lateText struct {
	lateNote
	what *analysed
	date int64
	seq  uint64
}

// write adds the text to the build that waits for it. If there is none any more, it forgets the note.
func (a *attachments) write(u *index.Writer, l *lateText) error {
	s, err := u.State(l.db)
	if err != nil {
		return err
	}
	for _, b := range []*index.Build{s.Active, s.Next} {
		if b == nil || b.ID != l.build {
			continue
		}
		u.Late(l.db, b, l.id, true)
		if l.what == nil {
			continue
		}
		a.s.stat.readAttachments(l.what)
		b.MaxSeq = max(b.MaxSeq, l.seq)
		b.Text += l.what.bytes
		b.Encrypted += uint64(l.what.skipped.Encrypted)
		b.Broken += uint64(l.what.skipped.Broken)
		b.Beyond += uint64(l.what.skipped.Beyond)
		if l.what.count > 0 {
			p := l.what.piece()
			p.Note, p.Date, p.Kind = l.id, l.date, index.Attachments
			if b.Again { // the piece belongs to the current message of the note
				p.Flags |= index.Mutable
			}
			u.Put(l.db, b, p)
		}
		return nil
	}
	return u.Forget(l.db, l.build, l.id)
}
