package sim

import (
	"errors"
	"fmt"
	"os"

	"doublet/note"
	"doublet/store"
)

// watch logs changes in the state of the replicas of one note. The environment variable WATCH holds its UNID.
func (w *world) watch() {
	u, err := note.ParseUNID(os.Getenv("WATCH"))
	if err != nil {
		return
	}
	for _, b := range w.boxes {
		for _, s := range w.holders(b) {
			key := b.title + " at " + s.name
			if now := s.standing(b, u); now != w.stood[key] {
				if w.stood == nil {
					w.stood = map[string]string{}
				}
				w.stood[key] = now
				w.logf("WATCH %s of %s (leads %v): %s", b.title, s.name, s.store.Leads(b.id), now)
			}
		}
	}
}

// standing describes the state of a note at a server.
func (s *server) standing(b *box, u note.UNID) (out string) {
	err := s.store.Read(s.w.ctx, note.System, b.id, func(r *store.Reader) error {
		id, err := r.Find(u)
		if err != nil {
			return err
		}
		if row, err := r.Row(id); err == nil {
			out = fmt.Sprintf("mod %s unnumbered %v members %v", modText(uint64(row.Mod)), row.Unnumbered, row.Members)
		} else if out = "stub"; !errors.Is(err, store.ErrNotFound) {
			return err
		}
		for _, f := range r.Folders() {
			if f.Note == id {
				out += fmt.Sprintf(" folder %q mod %s", f.Name, modText(uint64(f.Mod)))
			}
		}
		if c, err := r.Remote(id); err == nil {
			for _, l := range c.Tree.Leaves() {
				out += " leaf " + l.Rev.String()[:8]
				if l.Deleted {
					out += " deleted"
				}
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrGrave):
		return "grave"
	case errors.Is(err, store.ErrNotFound):
		return "absent"
	case err != nil:
		return err.Error()
	}
	return out
}
