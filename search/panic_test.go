package search

import (
	"context"
	"errors"
	"strings"
	"testing"

	"doublet/note"
	"doublet/search/text"
	"doublet/store"
	"doublet/wire/mime"
)

// TestPanic checks that a text over which the reading panics ends neither the indexing nor a query: it is left out of
// the index and counted, and the other texts are found.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	w.o.Limits.Attached = func(p *mime.Part) bool {
		if strings.Contains(string(p.Envelope.Subject), "poison") {
			panic("a bad text")
		}
		return false
	}
	w.o.Kinds["directory"] = func(c *note.Content) []text.Stretch {
		if c.Items.Get("FullName").AsText() == "Poison" {
			panic("a bad note")
		}
		return Directory(c)
	}
	w.open()
	db, dir := w.database(kindMail), w.database("directory")
	name := func(name string) (id note.ID) {
		w.update(dir, func(x *store.Writer) (err error) {
			id, err = x.Create(store.New{Content: note.Content{Items: note.MakeItems(note.Item{Name: "FullName",
				Value: note.Text(name)})}})
			return err
		})
		return id
	}
	first := w.deliver(mail("one", "apple"), day, db)[0]
	w.deliver(mail("poison", "apple"), day, db)
	last := w.deliver(mail("two", "apple"), day, db)[0]
	name("Poison")
	person := name("Apple")
	w.found(db, "apple", last, first)
	w.found(dir, "apple", person)
	w.run()
	w.catch()
	w.found(db, "apple", last, first)
	w.found(dir, "apple", person)
	if got := w.svc.stat.broken.Value(); got != 2 {
		t.Errorf("%d texts are counted as broken, want 2", got)
	}
	if got := w.verdict(db, "apple", first); got != Yes {
		t.Errorf("the verdict is %d", got)
	}
}

// TestAnalyserPanic checks that an analyser is of use after a panic.
func TestAnalyserPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	w.read(db, func(r *store.Reader) error {
		a := newAnalyser()
		doc := func() *text.Document {
			return &text.Document{Stretches: []text.Stretch{text.Make(text.Body, "apple pear")}}
		}
		if _, err := a.note(w.svc, r, 1, doc); err != nil {
			t.Error(err)
		}
		if _, err := a.note(w.svc, r, 1, func() *text.Document { panic("a bad text") }); !errors.Is(err, errPanic) {
			t.Errorf("the panic is %v", err)
		}
		if got, err := a.note(w.svc, r, 1, doc); err != nil || got.count != 2 {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
		return nil
	})
}

// TestGuardPanic checks that a panic of a function that Guard runs reaches the caller, where the session's handler
// catches it, and that the index can be used and closed afterwards.
func TestGuardPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	id := w.deliver(mail("one", "apple"), day, db)[0]
	h.all()
	func() {
		defer func() {
			if p := recover(); p != "a bad word" {
				t.Errorf("the panic is %v", p)
			}
		}()
		err := h.x.Guard(w.ctx, func(context.Context) {
			v, err := h.x.Open(db)
			if err != nil {
				t.Error(err)
				return
			}
			defer v.Close()
			panic("a bad word")
		})
		t.Errorf("Guard returned %v", err)
	}()
	w.found(db, "apple", id)
}
