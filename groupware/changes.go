package groupware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Changes are the changes of a collection since a token.
type Changes struct {
	Changed []Entry  // without their texts
	Removed []string // names
	Token   string
	More    bool // the limit was reached: Token leads on
}

// token returns the token of a collection at a MODSEQ. It also names the collection, because a new one of the same name
// has other entries, and tells whether the person sees private ones.
func (d *reading) token(h *layout.Folder, mod note.ModSeq) string {
	t := strconv.FormatUint(uint64(mod), 16) + "-" + strconv.FormatUint(uint64(h.UIDValidity), 16)
	if d.owns(h) {
		t += "o"
	}
	return t
}

// since parses a token. It returns ErrForgotten if the changes since then cannot be told.
func (d *reading) since(h *layout.Folder, token string) (note.ModSeq, error) {
	first, _, _ := strings.Cut(token, "-")
	n, err := strconv.ParseUint(first, 16, 64)
	mod, c := note.ModSeq(n), d.r.Counters()
	if err != nil || token != d.token(h, mod) || mod < c.Floor || mod > c.Ledger.Last || !c.Ledger.Knows(mod) {
		return 0, fmt.Errorf("%w: token %.40q", ErrForgotten, token)
	}
	return mod, nil
}

// Changes returns what changed in a collection since a token, at most limit changes (0: all). With the token "" it
// returns all entries.
//
// Implements: RFC 6578 §3 Synchronizing WebDAV Collections
func (f *File) Changes(ctx context.Context, kind Kind, collection, token string, limit int) (out Changes, err error) {
	err = f.read(ctx, func(d *reading) error {
		h, err := d.find(kind, collection, note.Read)
		if err != nil {
			return err
		}
		out.Token = d.token(h, h.Mod)
		if token == "" {
			return d.each(h, Select{}, func(e *Entry) bool {
				e.Text = nil
				out.Changed = append(out.Changed, *e)
				return true
			})
		}
		mod, err := d.since(h, token)
		if err != nil {
			return err
		}
		if h.Mod <= mod {
			out.Token = token
			return nil
		}
		return d.changes(h, mod, limit, &out)
	})
	return out, err
}

// changes collects the changes of a collection since a MODSEQ.
func (d *reading) changes(h *layout.Folder, since note.ModSeq, limit int, out *Changes) error {
	var inner error
	gone := map[string]bool{}
	n := 0
	err := d.r.Changes(since, func(mod note.ModSeq, c layout.Change) bool {
		if mod > h.Mod {
			return false
		}
		e, name, err := d.change(h, since, &c)
		if inner = err; err != nil {
			return false
		}
		if e == nil && name == "" {
			return true
		}
		if n++; limit > 0 && n > limit {
			out.More = true
			return false
		}
		if out.Token = d.token(h, mod); e == nil {
			gone[name] = true
			return true
		}
		e.Text = nil
		out.Changed = append(out.Changed, *e)
		return true
	})
	if err = errors.Join(err, inner); err != nil {
		return err
	}
	if !out.More {
		out.Token = d.token(h, h.Mod)
	}
	for name := range gone { // another entry may have the name now
		if _, err := d.named(h, name, false); errors.Is(err, ErrNoEntry) {
			out.Removed = append(out.Removed, name)
		} else if err != nil {
			return err
		}
	}
	slices.Sort(out.Removed)
	return nil
}

// change returns the entry that a change left in the collection, or the name of one that left it. It returns neither
// for a change that does not concern the collection, and ErrForgotten for an entry of which nothing is left.
func (d *reading) change(h *layout.Folder, since note.ModSeq, c *layout.Change) (*Entry, string, error) {
	if c.Expunged && c.Folder != h.Note {
		return nil, "", nil
	}
	row, err := d.r.Row(c.Note)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Stub {
		if c.Expunged && (c.Class == 0 || c.Created <= since) {
			return nil, "", fmt.Errorf("%w: an entry was purged", ErrForgotten)
		}
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	_, in := row.Member(h.Note)
	if in == c.Expunged {
		return nil, "", nil // another change tells of it
	}
	return d.changed(h, c.Note, in)
}

// changed returns the entry of a note if it is in the collection and the person may see it, or the name of one that has
// left the collection or has become private.
func (d *reading) changed(h *layout.Folder, id note.ID, in bool) (*Entry, string, error) {
	e, err := d.whole(h, id)
	if err != nil || e == nil {
		return nil, "", err
	}
	switch hidden := d.hides(h, e); {
	case hidden && !e.shown:
		return nil, "", nil
	case hidden || !in:
		return nil, e.Name, nil
	}
	return e, "", nil
}
