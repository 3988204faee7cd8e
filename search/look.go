package search

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// Look reads the text of one note as far as tests need it. It decides tests that the index cannot. It is used within
// one read of the store, by one goroutine.
type Look struct {
	s   *Service
	ctx context.Context
	r   *store.Reader
	id  note.ID
	row *layout.Note

	// asked is set after the first test of the whole text, which makes no Document. Most messages have no other.
	asked            bool
	head, main, more *text.Document
}

// Look returns a Look at a note whose row the caller has read. A nil Service uses the default limits.
func (s *Service) Look(ctx context.Context, r *store.Reader, id note.ID, row *layout.Note) *Look {
	return &Look{s: s, ctx: ctx, r: r, id: id, row: row}
}

func (l *Look) limits() text.Limits { return l.s.Limits() }

// Passes reports whether the note's text passes a test. A text over which the code that reads it panics passes none,
// so that one such text does not end a search.
func (l *Look) Passes(t *query.Text) (bool, error) {
	ok, err := l.tested(t)
	if errors.Is(err, errPanic) {
		return false, nil
	}
	return ok, err
}

func (l *Look) tested(t *query.Text) (bool, error) {
	if l.s != nil {
		l.s.stat.looked.Inc()
	}
	if l.row.Recipe != 0 && t.Fields&^text.HeaderOnly == 0 && l.main == nil {
		d, err := l.header()
		if err != nil {
			return false, err
		}
		return l.in(d, t)
	}
	ok, later, err := l.passes(t)
	if ok || err != nil || t.Fields&text.Attached == 0 || later == 0 {
		return ok && err == nil, err
	}
	d, err := l.attachments()
	if err != nil {
		return false, err
	}
	return l.in(d, t)
}

// in reports whether a text passes a test.
func (l *Look) in(d *text.Document, t *query.Text) (bool, error) {
	return try(l.s, l.r, l.id, func() bool { return t.In(d) })
}

// passes reports whether the text without that of slow attachments passes a test, and the number of these.
func (l *Look) passes(t *query.Text) (ok bool, later int, err error) {
	if l.main == nil && !l.asked && l.row.Recipe != 0 && l.row.Size < sparseFrom {
		l.asked = true
		raw, err := message(l.r, l.row)
		if err != nil {
			return false, 0, err
		}
		ok, err = try(l.s, l.r, l.id, func() (ok bool) {
			ok, later = text.Passes(raw, l.limits(), t.Of())
			return ok
		})
		return ok, later, err
	}
	d, err := l.Main()
	if err != nil {
		return false, 0, err
	}
	ok, err = l.in(d, t)
	return ok, d.Later, err
}

// headBytes is the number of bytes of a message that are read first to find its header.
const headBytes = 16 << 10

func (l *Look) header() (*text.Document, error) {
	if l.head != nil {
		return l.head, nil
	}
	st, err := l.r.Message(l.row)
	if err != nil {
		return nil, err
	}
	var b []byte
	for n := int64(headBytes); ; n *= 8 {
		n = min(n, st.Size(), text.MaxMessage)
		if b, err = st.AppendRange(b[:0], 0, n); err != nil {
			return nil, err
		}
		// If the header ends exactly where the read ended, it may continue: read more.
		if end := mime.HeaderEnd(b); end < len(b) || n >= min(st.Size(), text.MaxMessage) {
			b = b[:end]
			break
		}
	}
	l.head, err = try(l.s, l.r, l.id, func() *text.Document { return text.Head(b, l.limits()) })
	return l.head, err
}

// Main returns the note's text without that of slow attachments.
func (l *Look) Main() (*text.Document, error) {
	if l.main != nil {
		return l.main, nil
	}
	if l.row.Recipe == 0 {
		c, err := l.r.Content(l.id)
		if err != nil {
			return nil, err
		}
		l.main, err = try(l.s, l.r, l.id, func() *text.Document {
			d := &text.Document{}
			if kind := l.kind(); kind != nil {
				d.Stretches = kind(&c.Content)
			}
			return d
		})
		return l.main, err
	}
	d, err := l.s.document(l.r, l.row, l.id)
	if err != nil {
		return nil, err
	}
	l.main = d
	return d, nil
}

func (l *Look) kind() texts {
	if l.s == nil {
		return nil
	}
	return l.s.opt.Kinds[l.r.Info().Kind]
}

// attachments returns the text of slow attachments. Only a few queries may read attachments at the same time.
func (l *Look) attachments() (*text.Document, error) {
	switch {
	case l.more != nil:
		return l.more, nil
	case l.s == nil:
		return l.readAttachments()
	case l.s.opt.NoAttachments:
		l.more = &text.Document{}
		return l.more, nil
	}
	select {
	case l.s.extract <- struct{}{}:
		defer func() { <-l.s.extract }()
	case <-l.ctx.Done():
		return nil, l.ctx.Err()
	}
	l.s.wanted(l.r.Database()) // so that the next query does not read them again
	return l.readAttachments()
}

func (l *Look) readAttachments() (*text.Document, error) {
	raw, err := message(l.r, l.row)
	if err != nil {
		return nil, err
	}
	l.more, err = try(l.s, l.r, l.id, func() *text.Document { return text.Attachments(raw, l.limits()) })
	return l.more, err
}
