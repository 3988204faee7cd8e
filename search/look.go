package search

import (
	"context"

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

	raw              []byte
	head, main, more *text.Document
}

// Look returns a Look at a note whose row the caller has read. A nil Service uses the default limits.
func (s *Service) Look(ctx context.Context, r *store.Reader, id note.ID, row *layout.Note) *Look {
	return &Look{s: s, ctx: ctx, r: r, id: id, row: row}
}

func (l *Look) limits() text.Limits {
	if l.s == nil {
		return text.Limits{}
	}
	return l.s.opt.Limits
}

// Passes reports whether the note's text passes a test.
func (l *Look) Passes(t *query.Text) (bool, error) {
	if l.s != nil {
		l.s.stat.looked.Inc()
	}
	if l.row.Recipe != 0 && t.Fields&^text.HeaderOnly == 0 && l.main == nil {
		d, err := l.header()
		if err != nil {
			return false, err
		}
		return t.In(d), nil
	}
	d, err := l.Main()
	if err != nil || t.In(d) {
		return err == nil, err
	}
	if t.Fields&text.Attached == 0 || d.Later == 0 {
		return false, nil
	}
	if d, err = l.attachments(); err != nil {
		return false, err
	}
	return t.In(d), nil
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
	l.head = text.Head(b, l.limits())
	return l.head, nil
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
		l.main = &text.Document{}
		if kind := l.kind(); kind != nil {
			l.main.Stretches = kind(&c.Content)
		}
		return l.main, nil
	}
	var err error
	if l.raw, err = message(l.r, l.row); err != nil {
		return nil, err
	}
	l.main = text.Message(l.raw, l.limits())
	return l.main, nil
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
		l.more = text.Attachments(l.raw, l.limits())
		return l.more, nil
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
	l.more = text.Attachments(l.raw, l.limits())
	return l.more, nil
}
