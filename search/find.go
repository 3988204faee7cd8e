package search

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/search/index"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
)

// Verdict is the index's result for a text test, for all notes of a database.
type Verdict struct {
	yes, ask IDs
	// upto is the last note that the index knows. all is set if the words in the index cannot decide the test for any
	// note.
	upto note.ID
	all  bool
}

// Answer is the result for one note.
type Answer uint8

// The answers. Ask means that the note's text has to be read.
const (
	No Answer = iota
	Yes
	Ask
)

// On returns the answer for a note.
func (v *Verdict) On(id note.ID) Answer {
	switch {
	case v.yes.Has(id):
		return Yes
	case v.all || id > v.upto || v.ask.Has(id):
		return Ask
	}
	return No
}

// Few returns the notes up to last whose answer is not No. It returns false if there may be more than limit of them.
func (v *Verdict) Few(limit int, last note.ID) ([]note.ID, bool) {
	behind := uint64(0)
	if last > v.upto {
		behind = uint64(last - v.upto)
	}
	n := v.yes.Len() + v.ask.Len()
	if v.all || n > limit || behind > uint64(limit-n) {
		return nil, false
	}
	out := make([]note.ID, 0, n+int(behind))
	both := v.yes.clone()
	both.or(&v.ask)
	both.Each(func(id note.ID) bool {
		out = append(out, id)
		return true
	})
	for id := v.upto + 1; id <= last; id++ {
		out = append(out, id)
	}
	return out, true
}

// unknown returns the verdict without an index: Ask for all notes.
func unknown() *Verdict { return &Verdict{all: true} }

// Find returns the index's verdicts on text tests in a database, all as of one moment. r must read the database at that
// moment or later. The answer is Ask for notes that the index does not know, because it lags behind or does not exist.
// With a nil Service, all answers are Ask.
func (s *Service) Find(ctx context.Context, r *store.Reader, tests []*query.Text) ([]*Verdict, error) {
	out := make([]*Verdict, len(tests))
	for i := range out {
		out[i] = unknown()
	}
	x := s.index()
	if x == nil || len(tests) == 0 {
		return out, ctx.Err()
	}
	err := s.lend(ctx, x, func(ctx context.Context, l *lease) (err error) {
		f, err := s.finder(ctx, r, x, l)
		if f == nil || err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.close()) }()
		if err := f.behindOf(r); err != nil {
			return err
		}
		s.reads(r, f.v.Build.Upto)
		for i, t := range tests {
			if err := ctx.Err(); err != nil {
				return err
			}
			v, err := f.lent(t)
			if err != nil {
				return err
			}
			out[i] = v
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		// A failing index costs time, but no answers.
		s.failed(x, err)
		for i := range out {
			out[i] = unknown()
		}
		err = nil
	}
	return out, err
}

// finder computes verdicts from one view of the index.
type finder struct {
	s     *Service // may be nil
	ctx   context.Context
	v     *index.View
	lease *lease
	// behind holds notes that changed after the index read them, late those whose attachments it has not read, and cut
	// those with a word that the index has shortened to its term.
	behind, late, cut IDs
	// again holds notes whose words in the index may be outdated.
	again IDs
}

// finder opens a view of the reader's database, or returns nil if the index has none.
func (s *Service) finder(ctx context.Context, r *store.Reader, x *index.Index, l *lease) (*finder, error) {
	db := r.Database()
	var v *index.View
	if err := l.index(func() (err error) {
		v, err = x.Open(db)
		return err
	}); err != nil || v == nil {
		return nil, err
	}
	f := &finder{s: s, ctx: ctx, v: v, lease: l}
	f.begin()
	return f, nil
}

func (f *finder) close() error { return f.lease.index(f.v.Close) }

// lent computes the verdict on a test while the reader may end.
func (f *finder) lent(t *query.Text) (out *Verdict, err error) {
	err = f.lease.index(func() (err error) {
		out, err = f.verdict(t)
		return err
	})
	return out, err
}

// begin collects the notes that the index does not know completely.
func (f *finder) begin() {
	for _, id := range f.v.Late() {
		f.late.Add(id)
	}
	for _, p := range f.v.Parts() {
		for ord, flags := range p.Docs.Flags {
			if flags&index.Cut != 0 {
				f.cut.Add(p.Docs.Notes[ord])
			}
			if flags&index.Mutable != 0 {
				f.again.Add(p.Docs.Notes[ord])
			}
		}
	}
}

// behindOf collects the notes that changed since the index read them.
func (f *finder) behindOf(r *store.Reader) error {
	since := f.v.Cursor.Seq
	if b := f.v.Build; !b.Done && b.Seq != 0 {
		since = min(since, b.Seq)
	}
	type current struct {
		id     note.ID
		recipe note.RecipeID
	}
	var list []current
	var inner error
	err := r.Since(since, func(_ uint64, id note.ID) bool {
		if id > f.v.Build.Upto {
			return true
		}
		row, err := r.Row(id)
		switch {
		case errors.Is(err, store.ErrDamaged):
			f.behind.Add(id) // the words that the index has of it may be outdated
		case err != nil:
			inner = ignoreGone(err)
		case row.Recipe == 0:
			f.behind.Add(id)
		default:
			list = append(list, current{id, row.Recipe})
		}
		return inner == nil
	})
	if err = errors.Join(err, inner); err != nil {
		return err
	}
	return f.lease.index(func() error {
		for _, m := range list {
			had, err := f.v.Kept(m.id)
			if err != nil {
				return err
			}
			if had != m.recipe {
				f.behind.Add(m.id)
			}
		}
		return nil
	})
}

func ignoreGone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// verdict computes the verdict on a test.
func (f *finder) verdict(t *query.Text) (*Verdict, error) {
	out := &Verdict{upto: f.v.Build.Upto}
	groups := t.Groups()
	if t.Never() {
		return out, nil
	}
	if len(groups) == 0 {
		out.all = true
		return out, nil
	}
	var maybe IDs
	for i, g := range groups {
		var found IDs
		if err := f.group(t, g, &found, &out.yes); err != nil {
			return nil, err
		}
		if i == 0 {
			maybe = found
		} else {
			maybe.and(&found)
		}
	}
	for _, pairs := range t.Pairs() {
		var found IDs
		if err := f.v.Adjacent(pairs, found.Add); err != nil {
			return nil, err
		}
		maybe.and(&found)
	}
	if t.IsSubstring() {
		maybe.or(&f.cut)
	}
	if t.Fields&text.Attached != 0 {
		maybe.or(&f.late)
	}
	maybe.or(&f.behind)
	out.yes.without(&f.behind)
	out.yes.without(&f.again)
	maybe.without(&out.yes)
	out.ask = maybe
	return out, nil
}

// group finds the notes with a word that fits one of the patterns. It adds all of them to found, and to yes those for
// which the word alone decides the test.
func (f *finder) group(t *query.Text, g query.Group, found, yes *IDs) error {
	parts := f.v.Parts()
	marks := make([]partMarks, len(parts))
	if err := f.mark(t, g, marks); err != nil {
		return err
	}
	sure, others := t.Decides(true), t.Decides(false)
	for i, m := range marks {
		ids := parts[i].Docs.Notes
		for w, all := range m.sure {
			for all |= m.others[w]; all != 0; all &= all - 1 {
				bit := all & -all
				id := ids[w*64+bits.TrailingZeros64(all)]
				found.Add(id)
				if sure && m.sure[w]&bit != 0 || others && m.others[w]&bit != 0 {
					yes.Add(id)
				}
			}
		}
	}
	return nil
}

// partMarks holds documents of a part: those with a word whose code is Sure, and those with one whose code is not.
type partMarks struct{ sure, others []uint64 }

// mark marks the documents with a word that fits one of the patterns. Where whole dictionaries are searched, the parts
// are searched on all processors that are free.
func (f *finder) mark(t *query.Text, g query.Group, marks []partMarks) error {
	var next atomic.Int64
	search := func(v *index.View) error {
		for f.ctx.Err() == nil {
			part := int(next.Add(1)) - 1
			if part >= len(marks) {
				return nil
			}
			n := (len(v.Parts()[part].Docs.Notes) + 63) / 64
			m := partMarks{make([]uint64, n), make([]uint64, n)}
			for _, p := range g {
				if err := v.SearchPart(part, p, func(_ int, list *index.Postings) (bool, error) {
					list.Mark(uint16(t.Fields), m.sure, m.others)
					return true, nil
				}); err != nil {
					return err
				}
			}
			marks[part] = m
		}
		return f.ctx.Err()
	}
	most := 1
	if slices.ContainsFunc(g, func(p index.Pattern) bool { return p.Scans() }) {
		most = len(marks)
	}
	var mu sync.Mutex
	var errs error
	f.s.share(most, func(helper bool) {
		var err error
		if helper {
			err = f.v.Beside(search)
		} else {
			err = search(f.v)
		}
		mu.Lock()
		defer mu.Unlock()
		errs = errors.Join(errs, err)
	})
	return errs
}
