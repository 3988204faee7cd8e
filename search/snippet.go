package search

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
)

// Snippet shows where a note's text fits a query (RFC 8621 section 5): HTML with & < > as entities and what fits
// between <mark> and </mark>; empty where nothing fits.
type Snippet struct {
	ID note.ID
	// Subject is the whole subject, Preview a piece of the body or of an attachment of at most 255 octets.
	Subject, Preview string
}

const (
	previewMax = 255
	// previewLead is about how much stands before the first match.
	previewLead = 60
	markBegin   = "<mark>"
	markEnd     = "</mark>"
)

// Snippets makes snippets of notes of a database of a store for somebody, in the order of ids. Notes that are gone, or that
// may not be read, are left out; of one that cannot be read the snippet is empty. A nil Service makes them too.
func (s *Service) Snippets(ctx context.Context, st *store.Store, who note.Who, db note.DatabaseID, q *query.Node, ids []note.ID) ([]Snippet, error) {
	tests := marking(q)
	var out []Snippet
	err := st.Read(ctx, who, db, func(r *store.Reader) error {
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return err
			}
			row, err := r.Note(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			sn := Snippet{ID: id}
			if err := sn.fill(s.Look(ctx, r, id, row), tests); ignoreBad(err) != nil {
				return err
			}
			out = append(out, sn)
		}
		return nil
	})
	return out, err
}

// marking are the tests whose matches are marked: none of what must not be there.
func marking(q *query.Node) []*query.Text {
	var out []*query.Text
	q.Texts(func(t *query.Text, not bool) {
		if not {
			return
		}
		if t.IsSubstring() {
			t = query.Phrase(t.Fields, "*"+t.Source+"*")
		}
		if !t.Never() {
			out = append(out, t)
		}
	})
	return out
}

func (sn *Snippet) fill(l *Look, tests []*query.Text) error {
	if len(tests) == 0 {
		return nil
	}
	d, err := l.Main()
	if err != nil {
		return err
	}
	for i := range d.Stretches {
		if x := &d.Stretches[i]; x.Field == text.Subject && sn.Subject == "" {
			if m := matches(x, tests); len(m) > 0 {
				sn.Subject = marked(x.Text, 0, m, 0)
			}
		}
	}
	if sn.preview(d, tests) || d.Later == 0 {
		return nil
	}
	for _, t := range tests {
		if t.Fields&text.Attached != 0 {
			if d, err = l.attachments(); err == nil {
				sn.preview(d, tests)
			}
			return err
		}
	}
	return nil
}

// preview finds the stretch of the body to show: what was written before what is quoted, and what fits more tests
// first.
func (sn *Snippet) preview(d *text.Document, tests []*query.Text) bool {
	best, bestMarks := -1, []span(nil)
	rank := func(i int) int {
		kinds := 0
		for _, t := range tests {
			if t.Fields&d.Stretches[i].Field != 0 && t.InText(d.Stretches[i].Text) {
				kinds++
			}
		}
		order := map[text.Field]int{text.Body: 3, text.Attached: 2, text.Quoted: 1}
		return kinds*4 + order[d.Stretches[i].Field]
	}
	high := 0
	for i := range d.Stretches {
		x := &d.Stretches[i]
		if x.Field&text.Content == 0 {
			continue
		}
		m := matches(x, tests)
		if len(m) == 0 {
			continue
		}
		if n := rank(i); n > high {
			best, bestMarks, high = i, m, n
		}
	}
	if best < 0 {
		return false
	}
	s := d.Stretches[best].Text
	sn.Preview = marked(s, lead(s, bestMarks[0].start), bestMarks, previewMax)
	return true
}

// span is where something fits.
type span struct{ start, end int }

// maxMarks is how many matches of a stretch are looked at.
const maxMarks = 200

// matches are where tests fit a stretch, in order, none over another.
func matches(x *text.Stretch, tests []*query.Text) []span {
	var out []span
	for _, t := range tests {
		if t.Fields&x.Field == 0 {
			continue
		}
		n := 0
		t.Each(x.Text, func(start, end int) bool {
			out = append(out, span{start, end})
			n++
			return n < maxMarks
		})
	}
	slices.SortFunc(out, func(a, b span) int { return a.start - b.start })
	merged := out[:0]
	for _, m := range out {
		if n := len(merged); n > 0 && m.start < merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, m.end)
			continue
		}
		merged = append(merged, m)
	}
	return merged
}

// lead is where to begin so that a match has something before it, at the start of a word where there is one.
func lead(s string, at int) int {
	from := max(0, at-previewLead)
	if from == 0 {
		return 0
	}
	if i := strings.IndexFunc(s[from:at], unicode.IsSpace); i >= 0 {
		return from + i
	}
	for from < at && !utf8.RuneStart(s[from]) {
		from++
	}
	return from
}

// marked is a text from an offset on, as HTML with marks, blanks collapsed, at most limit octets (0: whatever it takes).
func marked(s string, from int, marks []span, limit int) string {
	var b strings.Builder
	open, gap := false, false
	room := func(n int) bool {
		if open {
			n += len(markEnd)
		}
		return limit == 0 || b.Len()+n <= limit
	}
	next := 0
	for i := from; i < len(s); {
		r, w := utf8.DecodeRuneInString(s[i:])
		for next < len(marks) && marks[next].end <= i {
			next++
		}
		in := next < len(marks) && marks[next].start <= i
		if open && !in {
			b.WriteString(markEnd)
			open = false
		}
		piece := s[i : i+w]
		switch {
		case r == utf8.RuneError && w == 1:
			piece = "\ufffd"
		case unicode.IsSpace(r) || unicode.IsControl(r):
			gap = b.Len() > 0
			i += w
			continue
		case r == '&':
			piece = "&amp;"
		case r == '<':
			piece = "&lt;"
		case r == '>':
			piece = "&gt;"
		}
		n := len(piece)
		if gap {
			n++
		}
		if in && !open {
			n += len(markBegin) + len(markEnd)
		}
		if !room(n) {
			break
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		if in && !open {
			b.WriteString(markBegin)
			open = true
		}
		b.WriteString(piece)
		i += w
	}
	if open {
		b.WriteString(markEnd)
	}
	return b.String()
}
