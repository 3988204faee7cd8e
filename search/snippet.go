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

// Snippet shows where a note's text matches a query (RFC 8621 section 5). It is HTML: & < > are entities, and matches
// are between <mark> and </mark>. A field without a match is empty.
type Snippet struct {
	ID note.ID
	// Subject is the whole subject. Preview is an excerpt of the body or of an attachment, at most 255 bytes long.
	Subject, Preview string
}

const (
	previewMax = 255
	// previewLead is the approximate number of bytes before the first match.
	previewLead = 60
	markBegin   = "<mark>"
	markEnd     = "</mark>"
)

// Snippets returns snippets of notes of a database, in the order of ids. It leaves out notes that do not exist or that
// the person may not read. The snippet of a damaged note is empty. A nil Service works, too.
func (s *Service) Snippets(ctx context.Context, st *store.Store, who note.Who, db note.DatabaseID, q *query.Node,
	ids []note.ID) ([]Snippet, error) {
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

// marking returns the tests whose matches are marked. It leaves out negated tests.
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

// preview chooses the stretch of text to show: the one that matches the most tests. Among equals it prefers the body,
// then attachments, then quoted text.
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

// span is the position of a match.
type span struct{ start, end int }

// maxMarks is the maximum number of matches of one test in a stretch.
const maxMarks = 200

// matches returns the matches of tests in a stretch, in order, with overlapping ones merged.
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

// lead returns where to start an excerpt so that some text precedes the match, at a word boundary if possible.
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

// marked returns the text of s from an offset on, as HTML with marks and with runs of spaces collapsed, at most limit
// bytes (0: no limit).
func marked(s string, from int, marks []span, limit int) string {
	t := markedText{limit: limit}
	next := 0
	for i := from; i < len(s); {
		r, w := utf8.DecodeRuneInString(s[i:])
		for next < len(marks) && marks[next].end <= i {
			next++
		}
		in := next < len(marks) && marks[next].start <= i
		if !in {
			t.unmark()
		}
		piece := s[i : i+w]
		i += w
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			t.gap = t.b.Len() > 0
			continue
		}
		if !t.add(escaped(r, piece), in) {
			break
		}
	}
	t.unmark()
	return t.b.String()
}

// escaped returns the HTML of one character.
func escaped(r rune, piece string) string {
	switch r {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	case utf8.RuneError: // also for a byte that is no character
		return "\ufffd"
	}
	return piece
}

// markedText builds HTML of at most limit bytes (0: no limit).
type markedText struct {
	b         strings.Builder
	limit     int
	open, gap bool // within a mark; a space comes before the next character
}

func (t *markedText) unmark() {
	if t.open {
		t.b.WriteString(markEnd)
		t.open = false
	}
}

// add adds a character within a mark or outside. It reports whether there was room.
func (t *markedText) add(piece string, in bool) bool {
	n := len(piece)
	if t.gap {
		n++
	}
	if in && !t.open {
		n += len(markBegin)
	}
	if in {
		n += len(markEnd)
	}
	if t.limit != 0 && t.b.Len()+n > t.limit {
		return false
	}
	if t.gap {
		t.b.WriteByte(' ')
		t.gap = false
	}
	if in && !t.open {
		t.b.WriteString(markBegin)
		t.open = true
	}
	t.b.WriteString(piece)
	return true
}
