package search

import (
	"errors"

	"doublet/note"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
)

// noteReader reads the texts of notes, without slow attachments. It is used by one goroutine.
type noteReader struct {
	s     *Service
	words *analyser
	seen  recipes
}

// texts makes the texts of a note without a message.
type texts = func(*note.Content) []text.Stretch

// fill reads the text of a note.
func (n *noteReader) fill(r *store.Reader, row *layout.Note, l *learned, kind texts) (err error) {
	l.date = row.Date
	switch {
	case row.Class != note.Document:
	case row.Recipe != 0:
		l.message = row.Recipe
		l.what, err = n.message(r, row, l.id)
	case kind != nil:
		l.what, err = n.content(r, l.id, kind)
	}
	if errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrNotFound) {
		n.unreadable(l, err)
		return nil
	}
	return err
}

func (n *noteReader) content(r *store.Reader, id note.ID, kind texts) (*analysed, error) {
	c, err := r.Content(id)
	if err != nil {
		return nil, err
	}
	return n.words.document(&text.Document{Stretches: kind(&c.Content)}), nil
}

// sparseFrom is the size in bytes from which a message is read without its large parts.
const sparseFrom = 64 << 10

// message reads the text of a message, without slow attachments.
func (n *noteReader) message(r *store.Reader, row *layout.Note, id note.ID) (*analysed, error) {
	if a := n.seen.get(row.Recipe); a != nil {
		return a, nil
	}
	d, err := n.s.document(r, row, id)
	if err != nil {
		return nil, err
	}
	a := n.words.document(d)
	n.seen.put(row.Recipe, a)
	return a, nil
}

// document reads the text of a message, without slow attachments. A nil Service reads the message whole.
func (s *Service) document(r *store.Reader, row *layout.Note, id note.ID) (*text.Document, error) {
	if row.Size >= sparseFrom && s != nil && s.opt.Parts != nil {
		sum, err := r.Summary(nil, id)
		if err != nil {
			return nil, err
		}
		if parts, ok := s.opt.Parts(sum); ok {
			st, err := r.Message(row)
			if err != nil {
				return nil, err
			}
			sp, err := text.ReadSparse(st.Size(), parts, st.AppendRange)
			if err != nil {
				return nil, err
			}
			return sp.Text(s.opt.Limits), nil
		}
	}
	raw, err := message(r, row)
	if err != nil {
		return nil, err
	}
	return text.Message(raw, s.Limits()), nil
}

// unreadable makes l a note without words, because a note that cannot be read must not stop the indexing. The repair of
// the note is a change, so the feed names it again.
func (n *noteReader) unreadable(l *learned, err error) {
	n.s.log.Warn("search: cannot read a note", "database", l.db.String(), "note", uint64(l.id), "err", err)
	l.what = &analysed{skipped: text.Skipped{Broken: 1}}
}

// recipes caches the words of the messages read last, so that a message to many recipients is read once.
type recipes struct {
	m     map[note.RecipeID]*analysed
	order []note.RecipeID
	bytes int
}

// Limits of recipes: messages, and bytes of their words.
const (
	recipesMax     = 256
	recipeBytesMax = 4 << 20
)

func (c *recipes) get(id note.RecipeID) *analysed { return c.m[id] }

func (c *recipes) put(id note.RecipeID, a *analysed) {
	if c.m == nil {
		c.m = make(map[note.RecipeID]*analysed)
	}
	for len(c.order) > 0 && (len(c.order) >= recipesMax || c.bytes+a.size() > recipeBytesMax) {
		c.bytes -= c.m[c.order[0]].size()
		delete(c.m, c.order[0])
		c.order = c.order[1:]
	}
	c.m[id] = a
	c.order = append(c.order, id)
	c.bytes += a.size()
}
