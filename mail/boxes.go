package mail

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// MaxBoxes is how many mail.box databases a server has at most.
const MaxBoxes = 8

// boxID is the i-th mail.box database.
func boxID(i int) note.DatabaseID { return BoxID + note.DatabaseID(i)<<16 }

// boxIndex undoes boxID.
func boxIndex(id note.DatabaseID) int { return int((id - BoxID) >> 16) }

// openBoxes makes the databases that are missing. Those of a time when there were more are kept as
// long as they are there: nothing new comes in, and what is in them goes out.
func (s *Service) openBoxes() error {
	for i := range MaxBoxes {
		id := boxID(i)
		_, err := s.store.Info(id)
		if errors.Is(err, store.ErrNotFound) {
			if i >= s.opt.Boxes {
				continue
			}
			title := "mail.box"
			if i > 0 {
				title = fmt.Sprintf("mail%d.box", i+1)
			}
			_, err = s.store.CreateDatabase(note.System, store.Create{ID: id, Title: title, Kind: Kind, Queue: true})
			if errors.Is(err, store.ErrExists) {
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
		s.boxes = append(s.boxes, i)
	}
	return nil
}

// boxFor is the mail.box into which a message of this queue id is entered: they are spread, so that
// many who enter do not wait for each other.
func (s *Service) boxFor(id note.UNID) note.DatabaseID {
	return boxID(int(id[len(id)-1]) % s.opt.Boxes)
}

// entryKey is an entry: the note's id, the index of its mail.box above it.
type entryKey uint64

const boxShift = 56

func keyOf(box int, id note.ID) entryKey { return entryKey(box)<<boxShift | entryKey(id) }

func (k entryKey) box() int      { return int(k >> boxShift) }
func (k entryKey) note() note.ID { return note.ID(k & (1<<boxShift - 1)) }

func (e *Entry) key() entryKey { return keyOf(e.box, e.note) }

func (s *Service) database(k entryKey) note.DatabaseID { return boxID(k.box()) }

// locate finds the mail.box that a message is in.
func (s *Service) locate(ctx context.Context, id note.UNID) (note.DatabaseID, error) {
	first := s.boxFor(id)
	found := note.DatabaseID(0)
	look := func(box note.DatabaseID) error {
		return s.store.Read(ctx, note.System, box, func(r *store.Reader) error {
			_, err := r.Find(id)
			switch {
			case err == nil:
				found = box
			case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrGrave):
				return err
			}
			return nil
		})
	}
	if err := look(first); err != nil {
		return 0, err
	}
	for _, i := range s.boxes {
		if found != 0 {
			break
		}
		if boxID(i) == first {
			continue
		}
		if err := look(boxID(i)); err != nil {
			return 0, err
		}
	}
	if found == 0 {
		return 0, ErrNotQueued
	}
	return found, nil
}

// eachEntry calls fn for the entries from one on, box by box, in order of arrival. A damaged one is
// logged and left out.
func (s *Service) eachEntry(ctx context.Context, from entryKey, fn func(*Entry) bool) error {
	for _, box := range s.boxes {
		if box < from.box() {
			continue
		}
		start := note.ID(0)
		if box == from.box() {
			start = from.note()
		}
		goOn, err := s.eachIn(ctx, box, start, fn)
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

func (s *Service) eachIn(ctx context.Context, box int, from note.ID, fn func(*Entry) bool) (goOn bool, err error) {
	goOn = true
	err = s.store.Read(ctx, note.System, boxID(box), func(r *store.Reader) error {
		var ids []note.ID
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			ids = ids[:0]
			err := r.Notes(from, func(id note.ID, _ *layout.Note) bool {
				ids = append(ids, id)
				return len(ids) < 1000
			})
			if err != nil || len(ids) == 0 {
				return err
			}
			for _, id := range ids {
				e, err := load(r, id)
				if err != nil {
					s.env.Log.Error("mail: entry of mail.box cannot be read", "note", uint64(id), "err", err)
					continue
				}
				if !fn(e) {
					goOn = false
					return nil
				}
			}
			from = ids[len(ids)-1] + 1
		}
	})
	return goOn, err
}
