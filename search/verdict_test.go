package search

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/search/index"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/test/long"
)

// TestVerdicts compares the verdicts of an index with the texts in it: many small texts in many languages, through
// records, segments and merges. It searches for pieces of the texts, cut at arbitrary places, as strings and as words.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	x, err := index.Open(f.Env, "index", index.Options{CacheSize: 1 << 20, MemTableSize: 128 << 10, DocsSize: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	g := &asks{&writer{rand.New(rand.NewPCG(3, 3))}}
	docs := map[note.ID]*text.Document{}
	gone := map[note.ID]bool{}
	const db = note.DatabaseID(7)
	if err := x.Update(func(u *index.Writer) error { return u.Begin(db) }); err != nil {
		t.Fatal(err)
	}
	a := newAnalyser()
	n := note.ID(0)
	rounds := long.Pick(7, 13)
	merges := 0
	for round := range rounds {
		for range 90 {
			n++
			d := &text.Document{}
			for range 1 + g.rng.IntN(3) {
				s := text.Make(allFields[4+g.rng.IntN(8)], g.words(2+g.rng.IntN(6)))
				d.Stretches = append(d.Stretches, s)
			}
			d.Stretches = append(d.Stretches, text.Make(text.Body,
				fmt.Sprintf("number%d tag%x", n, uint64(n)*2654435761%1000003)))
			if n%50 == 0 { // a run that continues after a line break
				d.Stretches = append(d.Stretches, text.Make(text.Body, "東\r\n西"))
			}
			docs[n] = d
			p := a.document(d).piece()
			p.Note, p.Date = n, int64(n)
			full := false
			if err := x.Update(func(u *index.Writer) error {
				s, err := u.State(db)
				if err == nil {
					u.Put(db, s.Active, p)
					s.Active.Upto = n
					s.Active.Notes++
					full = s.Active.Full()
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if !full {
				continue
			}
			if err := x.Update(func(u *index.Writer) error {
				s, err := u.State(db)
				if err != nil {
					return err
				}
				return u.Pack(db, s.Active)
			}); err != nil {
				t.Fatal(err)
			}
			for more := true; more; {
				more, err = x.Merge(db, false, func(ids []note.ID) ([]bool, error) {
					out := make([]bool, len(ids))
					for i, id := range ids {
						if out[i] = g.rng.IntN(20) > 0; !out[i] {
							gone[id] = true
						}
					}
					return out, nil
				}, func() error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				if more {
					merges++
				}
			}
		}
		if round%6 == 0 {
			checkVerdicts(t, x, db, g, docs, gone)
		}
	}
	if merges == 0 {
		t.Error("nothing was merged")
	}
	// Count the certain answers, so that the test cannot pass with Ask everywhere.
	v, err := x.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	fd := finder{ctx: t.Context(), v: v}
	fd.begin()
	for _, c := range []struct {
		q   *query.Text
		ask int
	}{{query.Phrase(text.Any, "report"), 0}, {query.Phrase(text.Any, "repor*"), 0},
		{query.Phrase(text.Any, "*port"), 0}, {query.Phrase(text.Any, "東京"), 0}} {
		got, err := fd.verdict(c.q)
		if err != nil || got.ask.Len() != c.ask || got.yes.Len() == 0 {
			t.Errorf("%q: %d to look at, %d found, %v", c.q.Source, got.ask.Len(), got.yes.Len(), err)
		}
	}
	if got, err := fd.verdict(query.Substring(text.Any, "epor")); err != nil || got.yes.Len() < 20 {
		t.Errorf("a string within a word: %d sure, %v", got.yes.Len(), err)
	}
}

// checkVerdicts compares verdicts with the texts.
func checkVerdicts(t *testing.T, x *index.Index, db note.DatabaseID, g *asks, docs map[note.ID]*text.Document,
	gone map[note.ID]bool) {
	v, err := x.Open(db)
	if err != nil || v == nil {
		t.Fatal(v, err)
	}
	defer v.Close()
	fd := finder{ctx: t.Context(), v: v}
	fd.begin()
	n := len(docs)
	tests := []*query.Text{
		query.Phrase(text.Any, fmt.Sprint("number", n-5)), query.Substring(text.Any, fmt.Sprint("umber", n/2)),
		query.Phrase(text.Body, "number1*"),
		query.Substring(text.Any, "東西"), query.Phrase(text.Any, "東西"), query.Substring(text.Any, "西"),
	}
	for range 60 {
		tests = append(tests, g.text().Text)
	}
	for _, w := range vocabulary {
		r := []rune(w)
		i := g.rng.IntN(len(r))
		tests = append(tests, query.Substring(text.Any, string(r[i:])), query.Substring(text.Any, w),
			query.Phrase(text.Any, w))
	}
	for _, q := range tests {
		got, err := fd.verdict(q)
		if err != nil {
			t.Fatal(err)
		}
		for id, d := range docs {
			if gone[id] {
				continue
			}
			if on, in := got.On(id), q.In(d); on == Yes && !in || on == No && in {
				t.Fatalf("%q in %x (string: %v) on %d is %d, but %v: %v", q.Source, q.Fields, q.IsSubstring(), id, on,
					in, d.Stretches)
			}
		}
	}
}
