package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"doublet/note"
	"doublet/store"
)

// mates returns prepared answers and counts the questions.
type mates struct {
	told  map[note.UNID]Told
	asked int
	fresh bool // of codes
	home  bool // the home answers

	guessing Guessing
}

func (m *mates) Ask(_ context.Context, id note.UNID) Told {
	m.asked++
	return m.told[id]
}

func (m *mates) UseCode(context.Context, note.UNID, int64) (fresh, asked bool) {
	return m.fresh, m.home
}

func (m *mates) Guess(context.Context, CountedGuess) (Guessing, bool) { return m.guessing, m.home }

// TestMates checks that a session that is not stored here is asked for, with a rate limit, and can be ended here.
func TestMates(t *testing.T) {
	t.Parallel()
	here, there := open(t, Options{}), open(t, Options{})
	here.env.Uint64() // so that they draw different tokens
	m := &mates{told: map[note.UNID]Told{}}
	here.Service.opt.Mates = m
	token, s := there.begin(alice)
	told, err := there.Tell(bg, s.ID)
	here.ok(err)
	if told.Session.ID != s.ID || told.Ended || len(told.Hash) == 0 {
		t.Fatalf("%+v", told)
	}
	find := func(token, from string, want error, asked int) {
		t.Helper()
		m.asked = 0
		_, err := here.Find(bg, token, from)
		if !errors.Is(err, want) || m.asked != asked {
			t.Fatalf("%v, asked %d times; should be %v, %d", err, m.asked, want, asked)
		}
	}
	find(token, "192.0.2.1", ErrNone, 1)
	m.told[s.ID] = told
	find(token, "192.0.2.1", ErrNone, 0) // no member knew it just before
	here.fix.Time.Advance(missedFor)
	find(token, "192.0.2.1", nil, 1)
	find(token, "192.0.2.1", nil, 0) // cached until something changes
	here.fix.Time.Advance(here.Service.opt.Idle / 2)
	find(token, "192.0.2.1", nil, 0)
	// A mate's answer is valid only for the token in question.
	forged := told
	forged.Hash = make([]byte, 32)
	other, y := there.begin(alice)
	forged.Session.ID = y.ID
	m.told[y.ID] = forged
	find(other, "192.0.2.1", ErrNone, 1)
	m.told[y.ID] = Told{Session: Session{ID: s.ID, Person: bob}}
	here.begin(bob) // empties the cache
	find(other, "192.0.2.1", ErrNone, 1)
	find(token, "192.0.2.1", nil, 1)

	here.ok(here.End(bg, alice, s.ID))
	find(token, "192.0.2.1", ErrNone, 0)
	here.stop()
	here.start()
	here.Service.opt.Mates = m
	find(token, "192.0.2.1", ErrNone, 0) // although the mate does not know it ended
	if told, err := here.Tell(bg, s.ID); err != nil || !told.Ended {
		t.Errorf("%+v, %v", told, err)
	}

	// All sessions of a person, including those not replicated yet.
	here.fix.Time.Advance(time.Minute)
	late, y := there.begin(alice)
	y.Created = here.now().Add(-time.Second)
	m.told[y.ID] = Told{Session: y, Hash: there.mac("hash", late)}
	find(late, "", nil, 1)
	if n, err := here.EndAll(bg, alice, note.UNID{}); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	find(late, "", ErrNone, 1)
	again, _ := here.begin(alice) // in the same second
	find(again, "", nil, 0)

	// Guesses from one address cause a limited number of questions to mates.
	m.asked = 0
	for i := range 1000 {
		_, err := here.Find(bg, fmt.Sprintf("guess %d", i), "203.0.113.1")
		here.want(err, ErrNone)
	}
	if m.asked != askedPer {
		t.Errorf("asked %d times", m.asked)
	}
	find("another guess", "203.0.113.2", ErrNone, 1)
	here.fix.Time.Advance(askedWithin)
	find("a later guess", "203.0.113.1", ErrNone, 1)
}

// TestClocks checks that a session that began after all sessions were ended stays valid, whatever the clock of its
// server says.
func TestClocks(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	before, _ := w.begin(alice)
	w.fix.Time.Advance(time.Hour)
	for range 3 {
		_, err := w.EndAll(bg, alice, note.UNID{})
		w.ok(err)
	}
	_, err := w.Find(bg, before, "")
	w.want(err, ErrNone)
	// Simulate a server with a slow clock: the session was created before the end, but its server knew of the end.
	token, s := w.begin(alice)
	w.ok(w.update(bg, func(wr *store.Writer) error {
		at, err := wr.Find(s.ID)
		if err != nil {
			return err
		}
		x, hash, err := readSession(&wr.Reader, at)
		if err != nil {
			return err
		}
		x.Created = x.Created.Add(-30 * time.Minute)
		return revise(wr, at, x.items(hash))
	}))
	_, err = w.Find(bg, token, "")
	w.ok(err)
	w.fix.Time.Advance(w.Service.opt.Life + outlives + time.Hour)
	if n, err := w.Sweep(bg); err != nil || n != 3 { // the session, the mark of the ended one, the end of all
		t.Error(n, err)
	}
}

// TestShared checks that the sessions of a server outside a cluster are moved to the cluster's database, also after a
// power cut.
func TestShared(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	token, s := w.begin(alice)
	gone, ended := w.begin(alice)
	w.ok(w.End(bg, alice, ended.ID))
	sub, err := w.Subscribe(bg, Subscription{Person: alice, Credential: "session:x", URL: "https://push.example/1",
		Ends: w.fix.Clock.Now().Add(time.Hour), AllTypes: true})
	w.ok(err)
	step := w.fix.Clock.Now().Unix() / 30
	_, err = w.UseCode(bg, alice, step)
	w.ok(err)
	changed := 0
	w.OnChange(func() { changed++ })
	_, err = w.store.CreateDatabase(note.System, Shared())
	w.ok(err)
	if changed == 0 {
		t.Error("nobody was told")
	}
	for range 2 {
		if got, err := w.Find(bg, token, ""); err != nil || got != s || !w.Shared() {
			t.Fatalf("%+v, %v, shared %v", got, err, w.Shared())
		}
		_, err = w.Find(bg, gone, "")
		w.want(err, ErrNone)
		if list, err := w.Subscriptions(bg, alice); err != nil || len(list) != 1 || list[0].ID != sub.ID {
			t.Errorf("%+v, %v", list, err)
		}
		if ok, err := w.UseCode(bg, alice, step); ok || err != nil {
			t.Error("a used code is fresh again", err)
		}
		_, err = w.store.Info(ID)
		w.want(err, store.ErrNotFound)
		after := w.fix.Crash(0, 7)
		w.stop()
		w.fix = after
		w.start()
	}
}

// TestCodesElsewhere checks that the home of the database decides about codes. Without a home, this server does.
func TestCodesElsewhere(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	m := &mates{home: true}
	w.Service.opt.Mates = m
	use := func(step int64, want bool) {
		t.Helper()
		if ok, err := w.UseCode(bg, alice, step); err != nil || ok != want {
			t.Fatal(ok, err)
		}
	}
	use(1, false)
	m.fresh = true
	use(1, true)
	m.home = false
	use(1, true)
	use(1, false)
	_, err := w.UseCodeAtHome(bg, alice, 2)
	w.want(err, ErrNotHome) // a database that is not shared has no home
	_, err = w.store.CreateDatabase(note.System, Shared())
	w.ok(err)
	if ok, err := w.UseCodeAtHome(bg, alice, 2); !ok || err != nil {
		t.Error(ok, err)
	}
}
