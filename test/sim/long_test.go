package sim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"doublet/bus/memory"
	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/test/long"
)

// alone returns a world without random faults.
func alone(seed uint64, servers int) *world {
	return newWorld(Config{Seed: seed, Servers: servers, Calm: true, NoFolders: true})
}

// guarded runs fn and reports a failure of the world with its log.
func guarded(t *testing.T, w *world, fn func()) {
	t.Helper()
	var err error
	func() {
		defer func() {
			if r := recover(); r != nil {
				f, ok := r.(failure)
				if !ok {
					panic(r)
				}
				err = errors.New(f.text)
			}
		}()
		w.net = memory.New(&env.Env{Clock: worldClock{w}}, w.faults.fate)
		w.form()
		w.users.furnish()
		fn()
	}()
	w.end(err != nil)
	if err != nil {
		t.Fatalf("seed %d: %v\n%v", w.Seed, err, w.log[max(0, len(w.log)-60):])
	}
}

// TestMonth stops a server for a month. Notes deleted meanwhile do not return with it, it receives the new ones, and
// finally all replicas are equal.
func TestMonth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(1, 4)) {
		w := alone(seed+1, 3)
		guarded(t, w, func() {
			step := func(ticks int, by time.Duration) {
				for range ticks {
					w.advance(by)
					w.users.work()
					w.drive()
				}
			}
			step(200, 100*time.Millisecond)
			s := w.servers[seed%3]
			s.crash()
			s.until = 1 << 40
			step(150, 100*time.Millisecond)
			for range 31 {
				w.advance(24 * time.Hour)
				for _, up := range w.up() {
					_, _ = up.node.Repairs.Repair(w.ctx) // background tasks of that time
				}
				step(20, 100*time.Millisecond)
			}
			w.faults.start(s)
			step(50, 100*time.Millisecond)
			w.settleDown()
			w.verify()
			if w.stats.Expunges == 0 || w.stats.Delivered == 0 {
				t.Errorf("seed %d: nothing happened: %+v", w.Seed, w.stats)
			}
		})
	}
}

// TestQueueStays checks that the queue of a server cannot be moved to another by hand.
func TestQueueStays(t *testing.T) {
	t.Parallel()
	w := alone(1, 2)
	guarded(t, w, func() {
		one, two := w.servers[0], w.servers[1]
		id, err := one.store.CreateDatabase(note.System, store.Create{Title: "mail.box", Kind: "mail.box", Queue: true,
			Owner: one.node.Self()})
		w.must(err, "make a queue")
		w.wait("the queue gets its replica", 120, func() string {
			if !two.node.Filled(id) {
				return "it has none"
			}
			return ""
		})
		if err := one.node.Placement.Move(w.ctx, id, two.node.Self()); err == nil || !one.store.Leads(id) {
			t.Errorf("it was moved: %v", err)
		}
		w.must(one.node.Placement.Move(w.ctx, id, one.node.Self()), "leave it where it is")
		if err := one.node.Placement.SetReplicas(w.ctx, id, 1); err == nil {
			t.Error("its owner's replica may be the one that is taken")
		}
	})
}

// TestRepair checks that a damaged replica is kept while no other server has the database, and is rebuilt from its home
// when that is back. Changes that only the damaged replica had are sent to the home first.
func TestRepair(t *testing.T) {
	t.Parallel()
	w := alone(1, 2)
	guarded(t, w, func() {
		one, two := w.servers[0], w.servers[1]
		id, err := one.store.CreateDatabase(note.System, store.Create{Title: "notes", Kind: "notes"})
		w.must(err, "make a database")
		filled := func() string {
			if !two.node.Filled(id) || w.whole() != "" {
				return "the replica is not there, or not everything in its place"
			}
			return ""
		}
		put := func(s *server) {
			w.must(s.store.Update(w.ctx, note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
				x, err := tx.Database(id)
				if err == nil {
					_, err = x.Create(store.New{Class: note.Document})
				}
				return err
			}), "write a note")
		}
		notes := func(s *server) (n uint64) {
			_ = s.store.Read(w.ctx, note.System, id, func(r *store.Reader) error {
				n = r.Counters().Notes
				return nil
			})
			return n
		}
		repair := func(want int, when string) {
			got, err := two.node.Repairs.Repair(w.ctx)
			w.must(err, "repair "+when)
			if got != want {
				t.Errorf("%s %d databases were repaired, want %d", when, got, want)
			}
		}
		put(one)
		w.wait("the database gets its replica", 300, filled)
		repair(0, "of a sound replica")

		one.crash()
		one.until = 1 << 40
		put(two) // a change that only this replica has
		w.must(two.store.SetInfo(note.System, id, func(i *layout.Info) {
			i.State, i.Reason = layout.OutOfService, "damaged: a test says so"
		}), "take it out of service")
		for range 60 {
			w.advance(100 * time.Millisecond)
			w.drive()
		}
		repair(0, "without a home")
		if _, err := two.store.Info(id); err != nil {
			t.Errorf("the only replica that lives is gone: %v", err)
		}

		w.faults.start(one)
		w.wait("the home is back", 300, func() string {
			if !one.store.Leads(id) {
				return "it does not lead"
			}
			return ""
		})
		w.wait("it is repaired", 100, func() string {
			if n, err := two.node.Repairs.Repair(w.ctx); err != nil || n == 0 {
				return fmt.Sprint(n, err)
			}
			return ""
		})
		if n := notes(one); n != 2 {
			t.Errorf("the home has %d notes of 2 when the damaged replica is gone", n)
		}
		w.wait("it is whole again", 300, func() string {
			if why := filled(); why != "" {
				return why
			}
			if a, b := notes(one), notes(two); a != 2 || b != 2 {
				return fmt.Sprintf("%d and %d notes", a, b)
			}
			return ""
		})
		repair(0, "after it")
	})
}

// TestMembership measures the traffic of an idle cluster: messages and bytes a second of one member, by the number of
// members and databases. It must grow with the number of mates, but not with the number of databases. doc/cluster.md
// has the figures.
func TestMembership(t *testing.T) {
	t.Parallel()
	type figures struct{ messages, bytes float64 }
	measure := func(servers, databases int) (f figures) {
		w := alone(1, servers)
		guarded(t, w, func() {
			for i := range databases {
				_, err := w.servers[i%servers].store.CreateDatabase(note.System,
					store.Create{Title: fmt.Sprint("db", i), Kind: "notes"})
				w.must(err, "make a database")
			}
			w.quiet = true
			w.wait("everything is in its place", 300, w.whole)
			for range 600 { // until news has been announced
				w.advance(200 * time.Millisecond)
				w.drive()
			}
			const seconds = 60
			w.metered = func(m memory.Message) {
				f.messages += 1 / float64(seconds*servers)
				f.bytes += float64(m.Bytes) / float64(seconds*servers)
			}
			for range seconds * 10 {
				w.advance(100 * time.Millisecond)
				w.drive()
			}
			w.metered = nil
		})
		return f
	}
	var all []figures
	for _, n := range []int{2, 4, 7} {
		f := measure(n, 0)
		all = append(all, f)
		t.Logf("%d members: %.1f messages, %.0f bytes a second of each member; for each mate %.1f and %.0f", n,
			f.messages, f.bytes, f.messages/float64(n-1), f.bytes/float64(n-1))
	}
	many := measure(2, 300)
	t.Logf("2 members, 300 databases: %.1f messages, %.0f bytes a second", many.messages, many.bytes)
	if each, first := all[2].messages/6, all[0].messages; each > 2*first {
		t.Errorf("a member says %.1f messages a second to each mate of 6, %.1f to one mate", each, first)
	}
	if many.bytes > 3*all[0].bytes+200 {
		t.Errorf("300 databases cost %.0f bytes a second, a handful %.0f", many.bytes, all[0].bytes)
	}
}
