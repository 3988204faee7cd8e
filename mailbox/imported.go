package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
)

// FlagSet is a message, named by its UNID, and its new flags.
type FlagSet struct {
	UNID  note.UNID
	Flags Flags
}

// SetFlags replaces the flags of messages, in any folder, in commits of at most 1,000 messages. It skips messages that
// no longer exist, and returns the number of messages changed.
func (hd *handle) SetFlags(ctx context.Context, sets []FlagSet) (changed int, err error) {
	for part := range slices.Chunk(sets, batch) {
		n := 0
		err := hd.update(ctx, func(w *store.Writer) error {
			n = 0
			for i := range part {
				did, err := hd.setFlags(w, &part[i])
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return fmt.Errorf("set flags: %w", err)
				}
				if did {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

func (hd *handle) setFlags(w *store.Writer, s *FlagSet) (changed bool, err error) {
	id, err := w.Find(s.UNID)
	if err != nil {
		return false, err
	}
	row, err := w.Note(id)
	if err != nil {
		return false, err
	}
	if len(row.Members) == 0 || deleted(&w.Reader, row) {
		return false, nil
	}
	folder := row.Members[0].Folder
	have := flagsOf(row, folder, hd.who.Person)
	if have.Seen != s.Flags.Seen {
		changed, err = true, w.SetSeen(id, hd.who.Person, s.Flags.Seen)
	}
	if err == nil && have.Deleted != s.Flags.Deleted {
		changed, err = true, w.MarkDeleted(id, folder, s.Flags.Deleted)
	}
	for _, k := range have.Keywords {
		if err == nil && !slices.Contains(s.Flags.Keywords, k) {
			changed, err = true, w.SetKeyword(id, k, false)
		}
	}
	for _, k := range s.Flags.Keywords {
		if err == nil && !slices.Contains(have.Keywords, k) {
			changed, err = true, setKeyword(w, id, k)
		}
	}
	return changed, err
}

// Has returns the UNIDs that the mail file knows, including those of deleted messages.
func (hd *handle) Has(ctx context.Context, unids []note.UNID) (map[note.UNID]bool, error) {
	out := make(map[note.UNID]bool)
	err := hd.read(ctx, func(r *store.Reader) error {
		for _, u := range unids {
			_, err := r.Find(u)
			switch {
			case err == nil, errors.Is(err, store.ErrGrave):
				out[u] = true
			case !errors.Is(err, store.ErrNotFound):
				return err
			}
		}
		return nil
	})
	return out, err
}
