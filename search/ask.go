package search

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"strings"

	"doublet/note"
	"doublet/search/index"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
)

// Order is the order of hits.
type Order uint8

// The orders: latest first, or most relevant first.
const (
	ByDate Order = iota
	ByRelevance
)

// Request is a query for notes of a database.
type Request struct {
	Query *query.Node
	Order Order
	// Offset and Limit select a window of the hits. A Limit of 0 means no limit.
	Offset, Limit int
	// Total asks for the total number of hits. Every candidate is then tested.
	Total bool
}

// Hit is a note that matches a query.
type Hit struct {
	ID note.ID
	// Date is the date of the note, in Unix seconds.
	Date int64
	// Score is the relevance of the note; it is 0 unless the order is ByRelevance.
	Score float32
}

// Result is the answer to a Request.
type Result struct {
	Hits []Hit
	// Total is the number of all hits; it is 0 unless Request.Total is set.
	Total int
}

// Query returns the notes of a database that match a request and that the person may read.
func (s *Service) Query(ctx context.Context, who note.Who, db note.DatabaseID, q Request) (Result, error) {
	var out Result
	begun := s.env.Clock.Now()
	s.stat.queries.Inc()
	err := s.store.Read(ctx, who, db, func(r *store.Reader) error {
		x := s.index()
		if x != nil {
			err := s.lend(ctx, x, func(ctx context.Context, l *lease) error {
				got, err := s.ask(ctx, who.Person, r, x, l, &q)
				if err == nil {
					out = got
				}
				return err
			})
			if err == nil || ctx.Err() != nil || !errors.Is(err, index.ErrDamaged) && !errors.Is(err, index.ErrClosed) {
				return err
			}
			s.failed(x, err)
		}
		var err error
		out, err = s.ask(ctx, who.Person, r, nil, nil, &q)
		return err
	})
	s.stat.query.Observe(int64(s.env.Clock.Now().Sub(begun)))
	return out, err
}

// asking is a running request.
type asking struct {
	s      *Service
	ctx    context.Context
	person note.UNID
	r      *store.Reader
	q      *Request
	f      *finder // nil if there is no index
	// verdicts holds the index's verdict on each test. folders holds the folders with each name.
	verdicts map[*query.Text]*Verdict
	folders  map[string][]note.ID
	// known holds the notes that the index knows; attached holds those of them that have attachments.
	known, attached IDs
	list            candidates
	n               int
	// read counts the texts that were read one by one.
	read int
}

// candidate is a note that may match.
type candidate struct {
	id    note.ID
	date  int64
	score float32
}

// candidates is a heap with the first hit on top.
type candidates []candidate

func (c candidates) Len() int { return len(c) }

func (c candidates) Less(i, j int) bool {
	a, b := &c[i], &c[j]
	if a.score != b.score {
		return a.score > b.score
	}
	if a.date != b.date {
		return a.date > b.date
	}
	return a.id > b.id
}

func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

// ask answers a request. x and l are nil if there is no index.
func (s *Service) ask(ctx context.Context, person note.UNID, r *store.Reader, x *index.Index, l *lease,
	q *Request) (out Result, err error) {
	a := &asking{s: s, ctx: ctx, person: person, r: r, q: q, verdicts: map[*query.Text]*Verdict{},
		folders: map[string][]note.ID{}}
	if x != nil {
		if a.f, err = s.finder(ctx, r, x, l); err != nil {
			return out, err
		}
		if a.f != nil {
			defer func() { err = errors.Join(err, a.f.close()) }()
			if err := a.f.behindOf(r); err != nil {
				return out, err
			}
		}
	}
	a.find(q.Query)
	if err := a.judge(); err != nil {
		return out, err
	}
	if err := a.collect(); err != nil {
		return out, err
	}
	if err := a.hits(&out); err != nil {
		return out, err
	}
	if !q.Total {
		out.Total = 0
	}
	return out, nil
}

// hits checks the candidates in order, until there are as many hits as requested.
func (a *asking) hits(out *Result) error {
	heap.Init(&a.list)
	var wave []checked
	for len(a.list) > 0 {
		wave = a.next(wave[:0], out)
		if err := a.check(wave); err != nil {
			return err
		}
		for i := range wave {
			c := &wave[i]
			if c.err != nil {
				return c.err
			}
			if !c.ok {
				continue
			}
			if out.Total++; out.Total > a.q.Offset && (a.q.Limit == 0 || len(out.Hits) < a.q.Limit) {
				out.Hits = append(out.Hits, Hit{c.id, c.date, c.score})
			}
			if !a.q.Total && a.q.Limit > 0 && len(out.Hits) == a.q.Limit {
				return nil
			}
		}
	}
	return nil
}

// checked is a candidate with the result of its check.
type checked struct {
	candidate
	ok  bool
	err error
}

// next appends the candidates to check next to wave.
func (a *asking) next(wave []checked, out *Result) []checked {
	wanted := 0
	if a.q.Limit > 0 && !a.q.Total {
		wanted = a.q.Offset + a.q.Limit - out.Total
	}
	for n := Ahead(a.read, wanted); n > 0 && len(a.list) > 0; n-- {
		wave = append(wave, checked{candidate: heap.Pop(&a.list).(candidate)})
	}
	return wave
}

// check checks candidates, several ones on all processors that are free.
func (a *asking) check(wave []checked) error {
	if len(wave) == 1 {
		wave[0].ok, wave[0].err = a.hit(wave[0].id)
		return nil
	}
	return a.s.Each(a.ctx, a.r, len(wave), func(r *store.Reader, i int) {
		b := *a
		b.r = r
		wave[i].ok, wave[i].err = b.hit(wave[i].id)
	})
}

// find looks up the folders that a query names.
func (a *asking) find(n *query.Node) {
	if n.Op == query.OpFolder {
		var ids []note.ID
		for _, f := range a.r.Folders() {
			if strings.EqualFold(f.Name, n.Word) || strings.EqualFold(f.SpecialUse, n.Word) {
				ids = append(ids, f.Note)
			}
		}
		a.folders[n.Word] = ids
	}
	for _, k := range n.Kids {
		a.find(k)
	}
}

// judge asks the index for a verdict on each text test.
func (a *asking) judge() (err error) {
	a.q.Query.Texts(func(t *query.Text, _ bool) {
		if err != nil || a.verdicts[t] != nil {
			return
		}
		v := unknown()
		if a.f != nil {
			if err = a.ctx.Err(); err == nil {
				v, err = a.f.lent(t)
			}
		}
		a.verdicts[t] = v
	})
	return err
}

// bounds holds the notes, among those that the index knows, that may match a query, and those that certainly match.
type bounds struct{ may, do IDs }

// bound computes the bounds of a query from the index.
func (a *asking) bound(n *query.Node) bounds {
	known := &a.known
	switch n.Op {
	case query.OpAll, query.OpAny:
		if n.Op == query.OpAll && len(n.Kids) == 0 {
			return bounds{known.clone(), known.clone()}
		}
		var out bounds
		for i, k := range n.Kids {
			b := a.bound(k)
			switch {
			case i == 0:
				out = b
			case n.Op == query.OpAll:
				out.may.and(&b.may)
				out.do.and(&b.do)
			default:
				out.may.or(&b.may)
				out.do.or(&b.do)
			}
		}
		return out
	case query.OpNot:
		b := a.bound(n.Kids[0])
		out := bounds{known.clone(), known.clone()}
		out.may.without(&b.do)
		out.do.without(&b.may)
		return out
	case query.OpText:
		v := a.verdicts[n.Text]
		if v.all {
			return bounds{may: known.clone()}
		}
		out := bounds{v.yes.clone(), v.yes.clone()}
		out.may.or(&v.ask)
		return out
	case query.OpAttachment:
		out := bounds{a.attached.clone(), a.attached.clone()}
		for _, unsure := range []*IDs{&a.f.again, &a.f.behind} {
			out.may.or(unsure)
			out.do.without(unsure)
		}
		return out
	case query.OpFolder:
		if m, ok := a.members(n.Word); ok {
			return bounds{may: m}
		}
	}
	return bounds{may: known.clone()}
}

// members returns the notes in the folders of a name. It returns false if there are too many to list.
func (a *asking) members(folder string) (IDs, bool) {
	var out IDs
	total := 0
	for _, id := range a.folders[folder] {
		f, err := a.r.Folder(id)
		if err != nil {
			return out, false
		}
		total += int(f.Total)
	}
	if total > a.known.Len()/4+1000 {
		return out, false
	}
	for _, id := range a.folders[folder] {
		if a.r.Members(id, 1, math.MaxUint32, func(_ uint32, n note.ID) bool {
			out.Add(n)
			return true
		}) != nil {
			return out, false
		}
	}
	return out, true
}

// collect fills the list of candidates.
func (a *asking) collect() error {
	upto := note.ID(0)
	if a.f != nil {
		upto = a.f.v.Build.Upto
		a.s.reads(a.r, upto)
		if err := a.indexed(); err != nil {
			return err
		}
	}
	// Add the notes that the index has not read yet.
	var scorer scorer
	if a.q.Order == ByRelevance {
		scorer.of(a.q.Query)
	}
	var inner error
	damaged := func(id note.ID, err error) {
		a.s.log.Warn("search: cannot read a note", "database", a.r.Database().String(), "note", uint64(id), "err", err)
	}
	err := store.ReadableNotes(a.r, upto+1, damaged, func(id note.ID, row *layout.Note) bool {
		if a.n++; a.n%64 == 0 {
			inner = a.ctx.Err()
		}
		if inner != nil || row.Class != note.Document || waits(row) {
			return inner == nil
		}
		c := candidate{id: id, date: row.Date}
		if len(scorer.tests) > 0 {
			if c.score, inner = scorer.look(a.s.Look(a.ctx, a.r, id, row)); inner != nil {
				inner = ignoreBad(inner)
			}
		}
		a.list = append(a.list, c)
		return inner == nil
	})
	return errors.Join(err, inner)
}

// learn stores which notes the index knows, and which of them have attachments.
func (a *asking) learn(parts []index.Part) {
	for _, p := range parts {
		for ord, id := range p.Docs.Notes {
			if p.Docs.Kind(uint32(ord)) == index.Main {
				a.known.Add(id)
				if p.Docs.Flags[ord]&index.HasAttachment != 0 {
					a.attached.Add(id)
				}
			}
		}
	}
}

// indexed adds the candidates among the notes that the index knows.
func (a *asking) indexed() error {
	parts := a.f.v.Parts()
	a.learn(parts)
	may := a.bound(a.q.Query).may
	may.and(&a.known)
	var scores [][]float32
	if a.q.Order == ByRelevance {
		if err := a.f.lease.index(func() (err error) {
			scores, err = a.scores(&may)
			return err
		}); err != nil {
			return err
		}
	}
	more := map[note.ID]float32{} // scores of attachments
	a.list = make(candidates, 0, min(may.Len(), 1<<20))
	for i := len(parts) - 1; i >= 0; i-- { // the latest piece of a note first
		d := parts[i].Docs
		for ord := len(d.Notes) - 1; ord >= 0; ord-- {
			id := d.Notes[ord]
			if !may.Has(id) {
				continue
			}
			c := candidate{id: id, date: d.Dates[ord]}
			if scores != nil {
				c.score = scores[i][ord]
			}
			if d.Kind(uint32(ord)) != index.Main {
				if c.score != 0 {
					more[id] += c.score
				}
				continue
			}
			may.Remove(id)
			a.list = append(a.list, c)
		}
	}
	if len(more) > 0 {
		for i := range a.list {
			a.list[i].score += more[a.list[i].id]
		}
	}
	return nil
}

// hit reports whether a candidate matches.
func (a *asking) hit(id note.ID) (bool, error) {
	if a.n++; a.n%64 == 0 {
		if err := a.ctx.Err(); err != nil {
			return false, err
		}
	}
	row, err := a.r.Note(id)
	if err != nil {
		return false, ignoreBad(err)
	}
	if row.Class != note.Document || waits(row) {
		return false, nil
	}
	look := a.s.Look(a.ctx, a.r, id, row)
	ok, err := a.passes(a.q.Query, look)
	return ok, ignoreBad(err)
}

// waits reports whether a message is in no folder yet. Nobody may see such a message.
func waits(row *layout.Note) bool { return row.Foldered && len(row.Members) == 0 }

// ignoreBad drops the errors of a note that cannot be read. It matches no test of its text, and does not stop the
// query.
func ignoreBad(err error) error {
	if bad(err) {
		return nil
	}
	return ignoreGone(err)
}

func (a *asking) passes(n *query.Node, l *Look) (bool, error) {
	switch n.Op {
	case query.OpAll, query.OpAny:
		return a.passesKids(n, l)
	case query.OpNot:
		ok, err := a.passes(n.Kids[0], l)
		return !ok && err == nil, err
	case query.OpText:
		switch a.verdicts[n.Text].On(l.id) {
		case Yes:
			return true, nil
		case No:
			return false, nil
		}
		a.read++
		ok, err := l.Passes(n.Text)
		return ok, ignoreBad(err)
	case query.OpAttachment:
		if a.known.Has(l.id) && !a.f.again.Has(l.id) && !a.f.behind.Has(l.id) {
			return a.attached.Has(l.id), nil
		}
		d, err := l.Main()
		return err == nil && d.HasAttachment, ignoreBad(err)
	}
	return a.rowPasses(n, l.row), nil
}

func (a *asking) passesKids(n *query.Node, l *Look) (bool, error) {
	for _, k := range n.Kids {
		ok, err := a.passes(k, l)
		if err != nil || ok == (n.Op == query.OpAny) {
			return ok, err
		}
	}
	return n.Op == query.OpAll, nil
}

// rowPasses tests properties stored in the note's row.
func (a *asking) rowPasses(n *query.Node, row *layout.Note) bool {
	switch n.Op {
	case query.OpUnread:
		return !row.SeenBy(a.person)
	case query.OpKeyword:
		for k := range row.Keywords {
			if k == n.Word {
				return true
			}
		}
		return false
	case query.OpLarger:
		return row.Size > n.Number
	case query.OpSmaller:
		return row.Size < n.Number
	case query.OpBefore:
		return row.Date < n.Time.Unix()
	case query.OpAfter:
		return row.Date >= n.Time.Unix()
	case query.OpFolder:
		for _, id := range a.folders[n.Word] {
			if _, ok := row.Member(id); ok {
				return true
			}
		}
	}
	return false
}

// weights holds the weight of a word by the field that contains it.
var weights = []struct {
	f text.Field
	w float32
}{
	{text.Subject, 3}, {text.From, 2}, {text.Filename, 2}, {text.To, 1.5}, {text.Cc, 1.2}, {text.Bcc, 1.2},
	{text.Body, 1}, {text.Attached, 0.7},
	{text.Quoted, 0.3}, {text.Header, 0.2},
}

func weight(f text.Field) float32 {
	for _, x := range weights {
		if f&x.f != 0 {
			return x.w
		}
	}
	return 0
}

// Parameters of the ranking function BM25.
const (
	bm25K = 1.2
	bm25B = 0.6
)

// worth returns the BM25 score of a term: count occurrences in field f of a text, whose length is given with the mean
// of all texts.
func worth(f text.Field, count int, length, mean float32) float32 {
	n := float32(count)
	return weight(f) * n * (bm25K + 1) / (n + bm25K*(1-bm25B+bm25B*length/max(mean, 1)))
}

// scores returns the scores of notes, by part and ordinal.
func (a *asking) scores(may *IDs) ([][]float32, error) {
	parts := a.f.v.Parts()
	out := make([][]float32, len(parts))
	one := make([][]float32, len(parts))
	docs, words := 0, uint64(0)
	for i, p := range parts {
		out[i], one[i] = make([]float32, len(p.Docs.Notes)), make([]float32, len(p.Docs.Notes))
		docs += len(p.Docs.Notes)
		words += p.Docs.Words
	}
	mean := float32(words) / float32(max(docs, 1))
	var tests []*query.Text
	a.q.Query.Texts(func(t *query.Text, not bool) {
		if !not {
			tests = append(tests, t)
		}
	})
	for _, t := range tests {
		for _, g := range t.Groups() {
			found := 0
			for _, p := range g {
				if err := a.f.v.Search(p, func(part int, list *index.Postings) (bool, error) {
					d := parts[part].Docs
					for list.Next() {
						if f := text.Field(list.Code.Fields()) & t.Fields; f != 0 {
							if found++; may.Has(d.Notes[list.Ord]) {
								one[part][list.Ord] += worth(f, list.Code.Count(), float32(d.Lengths[list.Ord]), mean)
							}
						}
					}
					return true, a.ctx.Err()
				}); err != nil {
					return nil, err
				}
			}
			rare := float32(math.Log(1 + (float64(docs)+0.5)/(float64(found)+0.5)))
			for i := range one {
				for ord, v := range one[i] {
					if v != 0 {
						out[i][ord] += rare * v
						one[i][ord] = 0
					}
				}
			}
		}
	}
	return out, nil
}

// scorer computes the score of texts that the index has not read.
type scorer struct{ tests []*query.Text }

func (s *scorer) of(n *query.Node) {
	n.Texts(func(t *query.Text, not bool) {
		if !not {
			s.tests = append(s.tests, t)
		}
	})
}

func (s *scorer) look(l *Look) (float32, error) {
	d, err := l.Main()
	if err != nil {
		return 0, err
	}
	return try(l.s, l.r, l.id, func() (out float32) {
		for _, t := range s.tests {
			for i := range d.Stretches {
				x := &d.Stretches[i]
				if x.Field&t.Fields == 0 {
					continue
				}
				n := 0
				t.Each(x.Text, func(int, int) bool {
					n++
					return n < 8
				})
				if n > 0 {
					out += worth(x.Field, n, 1, 1)
				}
			}
		}
		return out
	})
}
