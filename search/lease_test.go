package search

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
)

// hasty is a clock on which the grace of index.Guard takes no time.
type hasty struct{ env.Clock }

func (h hasty) After(d time.Duration) <-chan time.Time {
	if d == 5*time.Second {
		d = 0
	}
	return h.Clock.After(d)
}

// TestDeadBesideReader checks that a query whose index fails does not end while its search still uses the reader: the
// search is reading a text when the engine fails.
func TestDeadBesideReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	w.f.Env.Clock = hasty{w.f.Env.Clock}
	within, gate := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	w.o.Kinds["directory"] = func(c *note.Content) []text.Stretch {
		if begun.CompareAndSwap(false, true) {
			close(within)
			<-gate
		}
		return Directory(c)
	}
	w.open()
	dir := w.database("directory")
	w.update(dir, func(x *store.Writer) error {
		_, err := x.Create(store.New{Content: note.Content{Items: note.MakeItems(note.Item{Name: "FullName",
			Value: note.Text("Apple")})}})
		return err
	})
	x, err := w.svc.open()
	if err != nil {
		t.Fatal(err)
	}
	w.svc.idx.Store(x)
	q, err := query.Parse("apple", query.Context{Now: day})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Result
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		r, err := w.svc.Query(w.ctx, note.System, dir, Request{Query: q.Node()})
		answered <- answer{r, err}
	}()
	<-within
	w.f.Faults.FailFiles(env.OpWrite, func(n string) bool {
		return strings.Contains(n, "search") && strings.Contains(n, "MANIFEST")
	}, errors.New("no"))
	go x.Flush()
	select {
	case <-x.Dead():
	case <-time.After(30 * time.Second):
		t.Fatal("the engine goes on")
	}
	w.f.Faults.Heal()
	var got answer
	select {
	case got = <-answered:
		t.Error("the query has ended, and its search goes on")
		close(gate)
	case <-time.After(100 * time.Millisecond):
		close(gate)
		got = <-answered
	}
	if got.err != nil || len(got.Hits) != 1 {
		t.Errorf("%+v, %v", got.Result, got.err)
	}
}

// TestLease checks that a function does not use the reader once it has ended, and that the reader does not end before.
func TestLease(t *testing.T) {
	t.Parallel()
	var l lease
	l.mu.Lock()
	if err := l.index(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := l.index(func() error {
		l.end()
		return nil
	}); !errors.Is(err, errEnded) {
		t.Errorf("the reader has ended, and the function gets %v", err)
	}
	l.mu.Unlock()
}
