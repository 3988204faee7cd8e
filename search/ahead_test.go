package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
)

// TestEach checks that Each calls its function once for every number, on several goroutines if there are free places,
// and that it gives the places back.
func TestEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	id := w.deliver(mail("one", "apple"), time.Unix(1, 0), db)[0]
	s := w.svc
	s.helpers = make(chan struct{}, 2)
	w.read(db, func(r *store.Reader) error {
		const n = 100
		var calls [n]atomic.Int32
		// The first three calls wait for each other.
		var begun atomic.Int32
		together := make(chan struct{})
		err := s.Each(w.ctx, r, n, func(r *store.Reader, i int) {
			if begun.Add(1) == 3 {
				close(together)
			}
			<-together
			if _, err := r.Note(id); err != nil {
				t.Error(err)
			}
			calls[i].Add(1)
		})
		for i := range calls {
			if c := calls[i].Load(); c != 1 {
				t.Errorf("%d was called %d times", i, c)
			}
		}
		if err != nil || len(s.helpers) != 0 {
			t.Errorf("%v, %d places are taken", err, len(s.helpers))
		}

		// Without a free place the caller works alone.
		s.helpers <- struct{}{}
		s.helpers <- struct{}{}
		running, sum := 0, 0
		err = s.Each(w.ctx, r, 10, func(_ *store.Reader, i int) {
			if running++; running > 1 {
				t.Error("two calls at a time")
			}
			sum += i
			running--
		})
		if err != nil || sum != 45 {
			t.Errorf("alone: %v, %d", err, sum)
		}
		<-s.helpers
		<-s.helpers

		// It ends with its context.
		ctx, cancel := context.WithCancel(w.ctx)
		var count atomic.Int32
		err = s.Each(ctx, r, 1000, func(*store.Reader, int) {
			count.Add(1)
			cancel()
		})
		if !errors.Is(err, context.Canceled) || count.Load() > 3 || len(s.helpers) != 0 {
			t.Errorf("cancelled: %v after %d calls, %d places are taken", err, count.Load(), len(s.helpers))
		}
		return nil
	})
}

// TestEachPanic checks that a panic on another goroutine reaches the caller, where the session's handler catches it.
func TestEachPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	s := w.svc
	s.helpers = make(chan struct{}, 1)
	w.read(db, func(r *store.Reader) error {
		defer func() {
			if p := recover(); p == nil {
				t.Error("no panic")
			}
			if len(s.helpers) != 0 {
				t.Error("the place is taken")
			}
		}()
		both := make(chan struct{})
		var begun atomic.Int32
		return s.Each(w.ctx, r, 2, func(other *store.Reader, _ int) {
			if begun.Add(1) == 2 {
				close(both)
			}
			<-both
			if other != r {
				panic("a bad text")
			}
		})
	})
}

// TestAhead checks that a query finds the same in the same order, however many goroutines read its texts.
func TestAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	rng := rand.New(rand.NewPCG(1, 5))
	const all = 200
	for i := range all {
		body := fmt.Sprintf("the blue sky and the red rose %d", i)
		if rng.IntN(3) == 0 {
			body = fmt.Sprintf("the red sky and the blue rose %d", i)
		}
		w.deliver(mail("one", body), time.Unix(int64(rng.IntN(50)), 0), db)
	}
	for indexed := range 2 {
		if indexed > 0 {
			w.hand().all()
		}
		red := &query.Node{Op: query.OpText, Text: query.Phrase(text.Any, "*d sky and*")}
		early := &query.Node{Op: query.OpBefore, Time: time.Unix(30, 0)}
		for _, n := range []*query.Node{red, {Op: query.OpNot, Kids: []*query.Node{red}},
			{Op: query.OpAll, Kids: []*query.Node{early, red}}, {Op: query.OpAny, Kids: []*query.Node{red, early}}} {
			w.helped(db, n)
		}
	}
}

// helped compares the results of queries with and without help.
func (w *world) helped(db note.DatabaseID, n *query.Node) {
	w.t.Helper()
	var whole []Hit
	for _, places := range []int{0, 3} {
		w.svc.helpers = make(chan struct{}, places)
		ask := func(q Request) Result {
			q.Query = n
			res, err := w.svc.Query(w.ctx, note.System, db, q)
			if err != nil {
				w.t.Fatal(err)
			}
			return res
		}
		res := ask(Request{Total: true})
		if places == 0 {
			whole = res.Hits
			if want := w.brute(db, n); len(want) != len(whole) || res.Total != len(want) {
				w.t.Errorf("%s: %d hits of %d", describe(n), len(whole), len(want))
			}
		}
		for _, q := range []Request{{}, {Limit: 1}, {Limit: 10}, {Offset: 7, Limit: 20}, {Offset: 5}, {Limit: 1000},
			{Offset: 3, Limit: 4, Total: true}} {
			from := min(q.Offset, len(whole))
			want := whole[from:]
			if q.Limit > 0 {
				want = want[:min(q.Limit, len(want))]
			}
			total := 0
			if q.Total {
				total = len(whole)
			}
			if got := ask(q); !slices.Equal(got.Hits, want) || got.Total != total {
				w.t.Errorf("%s, %+v, %d places: %v of %d, want %v of %d", describe(n), q, places, got.Hits, got.Total,
					want, total)
			}
		}
	}
}

// ending is a context that ends after a number of looks at it.
type ending struct {
	context.Context
	left atomic.Int64
}

func (e *ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestAheadEnds checks that a query ends with its context while several goroutines read its texts.
func TestAheadEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	const all = 400
	for i := range all {
		w.deliver(mail("one", fmt.Sprintf("the blue sky %d", i)), time.Unix(int64(i), 0), db)
	}
	w.svc.helpers = make(chan struct{}, 3)
	ctx := &ending{Context: w.ctx}
	ctx.left.Store(50)
	before := w.svc.stat.looked.Value()
	_, err := w.svc.Query(ctx, note.System, db, Request{Query: &query.Node{Op: query.OpText,
		Text: query.Phrase(text.Any, "no such words")}})
	if looked := w.svc.stat.looked.Value() - before; !errors.Is(err, context.Canceled) || looked > 60 {
		t.Errorf("%v after %d texts", err, looked)
	}
	if len(w.svc.helpers) != 0 {
		t.Errorf("%d places are taken", len(w.svc.helpers))
	}
}

// TestAheadLimit checks that a query reads few texts more than it needs for its hits.
func TestAheadLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	for i := range 300 {
		w.deliver(mail("one", fmt.Sprintf("the blue sky %d", i)), time.Unix(int64(i), 0), db)
	}
	w.svc.helpers = make(chan struct{}, 3)
	for _, limit := range []int{1, 3, 5, 20, 50} {
		before := w.svc.stat.looked.Value()
		res, err := w.svc.Query(w.ctx, note.System, db, Request{Limit: limit, Query: &query.Node{Op: query.OpText,
			Text: query.Phrase(text.Any, "blue sky")}})
		looked := int(w.svc.stat.looked.Value() - before)
		if err != nil || len(res.Hits) != limit || looked >= limit+aheadLeast {
			t.Errorf("%d of %d hits by %d texts, %v", len(res.Hits), limit, looked, err)
		}
	}
}
