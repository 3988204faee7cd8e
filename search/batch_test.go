package search

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"doublet/note"
	"doublet/store"
)

// TestByDatabase checks that changes are grouped by database, in order, with each note once.
func TestByDatabase(t *testing.T) {
	t.Parallel()
	change := func(db note.DatabaseID, id note.ID, seq uint64) store.Change {
		return store.Change{Database: db, Note: id, Seq: seq}
	}
	got := byDatabase([]store.Change{change(2, 5, 1), change(1, 9, 2), change(2, 6, 3), change(2, 5, 4),
		change(1, 9, 5), change(2, 7, 6), change(3, 5, 7)})
	want := [][]store.Change{{change(2, 5, 4), change(2, 6, 3), change(2, 7, 6)}, {change(1, 9, 5)}, {change(3, 5, 7)}}
	if len(got) != len(want) {
		t.Fatalf("%d groups: %v", len(got), got)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("group %d: %v, want %v", i, got[i], want[i])
		}
	}
}

// TestDeletedBeforeRead checks that the index does not read a message that is deleted before it reads the feed, and
// reads one that was marked several times only once.
func TestDeletedBeforeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	h.all()
	begun := w.svc.stat.notes.Value()
	w.deliver(mail("one", "apple"), time.Unix(1, 0), db)
	gone := w.deliver(mail("two", "banana"), time.Unix(2, 0), db)
	marked := w.deliver(mail("three", "cherry"), time.Unix(3, 0), db)
	w.update(db, func(x *store.Writer) error { return x.SetKeyword(marked[0], "k", true) })
	w.update(db, func(x *store.Writer) error { return x.SetKeyword(marked[0], "k", false) })
	w.update(db, func(x *store.Writer) error { return x.Destroy(gone[0]) })
	h.all()
	if n := w.svc.stat.notes.Value() - begun; n != 2 {
		t.Errorf("the index read %d messages, want 2", n)
	}
}

// TestTail checks that the newest notes are left to the queries until there are enough, or a query had to read many of
// them, and are then indexed together, without those that are gone by then.
func TestTail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reopen(30)
	db := w.database(kindMail)
	h := w.hand()
	h.all()
	read := func() uint64 { return w.svc.stat.notes.Value() }
	var ids []note.ID
	deliver := func(n int) {
		for range n {
			i := len(ids)
			ids = append(ids, w.deliver(mail("one", fmt.Sprintf("word%d", i)), time.Unix(int64(i), 0), db)[0])
		}
		h.all()
	}
	deliver(askedMax)
	w.found(db, "word3", ids[3])
	w.update(db, func(x *store.Writer) error { return x.Destroy(ids[0]) })
	h.all()
	if n := read(); n != 0 || w.verdict(db, "word3", ids[3]) != Ask {
		t.Fatalf("%d of a few messages were read", n)
	}
	deliver(30 - askedMax)
	if n := read(); n != 29 || w.verdict(db, "word3", ids[3]) != Yes {
		t.Fatalf("%d messages were read, want 29", n)
	}
	if b := h.state(db).Active; len(b.Segments) != 1 || b.Records != 0 || b.Gone != 0 {
		t.Errorf("%+v", b)
	}
	deliver(askedMax + 1)
	if n := read(); n != 29 {
		t.Fatalf("%d messages were read without need", n)
	}
	w.found(db, "word33", ids[33])
	h.all()
	if n := read(); n != 29+askedMax+1 || w.verdict(db, "word33", ids[33]) != Yes {
		t.Fatalf("%d messages were read after a query", n)
	}
	for i := 1; i < len(ids); i++ {
		w.found(db, fmt.Sprintf("word%d", i), ids[i])
	}
}

// TestTailWithAttachment checks that the newest notes are indexed after a query had to read an attachment among them,
// and not after one that was answered by the words of the message.
func TestTailWithAttachment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reopen(30)
	db := w.database(kindMail)
	h := w.hand()
	h.all()
	id := w.deliver(withODT("plain body", "hidden treasure"), day, db)[0]
	h.all()
	w.found(db, "plain", id)
	h.all()
	if n := w.svc.stat.notes.Value(); n != 0 {
		t.Fatalf("%d messages were read without need", n)
	}
	w.found(db, "treasure", id)
	h.all()
	if n := w.svc.stat.notes.Value(); n != 1 {
		t.Errorf("%d messages were read after a query that read an attachment, want 1", n)
	}
}

// TestTailWhileRebuilt checks that the newest notes of a database are indexed in the build that answers, while the next
// one is far from complete, and that notes which are gone do not make each query ask for them.
func TestTailWhileRebuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.reopen(20)
	db := w.database(kindMail)
	h := w.hand()
	h.all()
	deliver := func(n int, word string) (last note.ID) {
		for range n {
			last = w.deliver(mail("one", word), day, db)[0]
		}
		return last
	}
	deliver(2*buildNotes, "early")
	h.all()
	w.svc.Rebuild(db)
	id := deliver(20, "late")
	if err := h.k.errands(w.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := h.k.read(w.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := h.k.build(w.ctx); err != nil {
		t.Fatal(err)
	}
	if s := h.state(db); s.Next == nil || s.Next.Upto >= id || s.Active.Upto != id || w.verdict(db, "late", id) != Yes {
		t.Fatalf("%+v, %+v", s.Active, s.Next)
	}
	h.all()
	if s := h.state(db); s.Next != nil || w.verdict(db, "late", id) != Yes {
		t.Fatalf("%+v", s)
	}
	gone := deliver(askedMax+1, "gone")
	for i := range note.ID(askedMax + 1) {
		w.update(db, func(x *store.Writer) error { return x.Destroy(gone - i) })
	}
	h.all()
	w.found(db, "gone")
	h.all()
	w.found(db, "gone")
	if list := w.svc.takeAsked(); len(list) != 0 || h.state(db).Active.Upto != gone {
		t.Errorf("a query asks for notes that are gone: %v, %+v", list, h.state(db).Active)
	}
}

// countdown is a context that ends when it has been asked left times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterruptedBatch ends the reading of a batch at each of its steps. The position stays before the batch, and a
// worker that begins there reads the rest: it finds each message once, and counts it once.
func TestInterruptedBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dbs := []note.DatabaseID{w.database(kindMail), w.database(kindMail)}
	h := w.hand()
	h.all()
	words := map[string]note.ID{}
	stopped := 0
	for left := range 12 { // squared, so that the last ones read all that was left
		for i := range 4 {
			word := fmt.Sprintf("word%dx%d", left, i)
			words[word] = w.deliver(mail("one", word), time.Unix(int64(left), 0), dbs[i%2])[0]
		}
		marked := words[fmt.Sprintf("word%dx0", left)]
		w.update(dbs[0], func(x *store.Writer) error { return x.SetKeyword(marked, "k", true) })
		before := h.k.cur
		h.k.room = 1
		if _, err := h.k.read(&countdown{w.ctx, left * left}); err != nil {
			stopped++
			c, err := h.x.Cursor()
			if err != nil || c.Seq != before.Seq {
				t.Fatalf("position %v, want %v (%v)", c, before, err)
			}
		}
		h.k = newWorker(w.svc, h.x)
		if err := h.k.begin(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 { // a worker that begins anew reads a database on at its next note
		words[fmt.Sprintf("lastx%d", i)] = w.deliver(mail("one", fmt.Sprintf("lastx%d", i)), time.Unix(1, 0), dbs[i])[0]
	}
	if stopped == 0 || stopped == 12 {
		t.Fatalf("%d of 12 batches were interrupted", stopped)
	}
	h.all()
	for word, id := range words {
		for i, db := range dbs {
			if word[len(word)-1]%2 == byte('0'+i)%2 {
				w.found(db, word, id)
			}
		}
	}
	for _, db := range dbs {
		if n := h.state(db).Active.Notes; n != 25 {
			t.Errorf("%d messages counted, want 25", n)
		}
	}
}
