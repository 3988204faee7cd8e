package search

import (
	"errors"
	"fmt"
	"runtime/debug"

	"doublet/note"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
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
	if bad(err) || errors.Is(err, store.ErrNotFound) {
		n.unreadable(l, err)
		return nil
	}
	return err
}

// errPanic reports a text over which the code that reads it has panicked.
var errPanic = errors.New("search: panic over a text")

// bad reports whether an error concerns the text of one note alone.
func bad(err error) bool { return errors.Is(err, store.ErrDamaged) || errors.Is(err, errPanic) }

// try calls fn, which makes the text of a note or tests it. A panic of fn becomes errPanic: it is a bug, but one text
// must not end the server, which would meet the same text after its next start. fn only computes. If it locked or wrote
// something, the state of that would be unknown.
func try[T any](s *Service, r *store.Reader, id note.ID, fn func() T) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
			if s != nil {
				s.log.Error("search: panic over a text", "database", r.Database().String(), "note", uint64(id),
					"panic", p, "stack", string(debug.Stack()))
			}
		}
	}()
	return fn(), nil
}

func (n *noteReader) content(r *store.Reader, id note.ID, kind texts) (*analysed, error) {
	c, err := r.Content(id)
	if err != nil {
		return nil, err
	}
	return n.words.note(n.s, r, id, func() *text.Document {
		return &text.Document{Stretches: kind(&c.Content)}
	})
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
	a, err := n.words.note(n.s, r, id, func() *text.Document { return d })
	if err == nil {
		n.seen.put(row.Recipe, a)
	}
	return a, err
}

// document reads the text of a message, without slow attachments. A nil Service reads the message whole.
func (s *Service) document(r *store.Reader, row *layout.Note, id note.ID) (*text.Document, error) {
	if row.Size >= sparseFrom && s != nil && s.opt.Parts != nil {
		sum, err := r.Summary(nil, id)
		if err != nil {
			return nil, err
		}
		var ok bool
		parts, err := try(s, r, id, func() (p mime.Index) {
			p, ok = s.opt.Parts(sum)
			return p
		})
		if err != nil {
			return nil, err
		}
		if ok {
			st, err := r.Message(row)
			if err != nil {
				return nil, err
			}
			sp, err := text.ReadSparse(st.Size(), parts, st.AppendRange)
			if err != nil {
				return nil, err
			}
			return try(s, r, id, func() *text.Document { return sp.Text(s.opt.Limits) })
		}
	}
	raw, err := message(r, row)
	if err != nil {
		return nil, err
	}
	return try(s, r, id, func() *text.Document { return text.Message(raw, s.Limits()) })
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
