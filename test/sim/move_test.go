package sim

import (
	"errors"
	"testing"
	"time"

	"doublet/bus/memory"
	"doublet/cluster"
	"doublet/note"
	"doublet/store"
)

// TestMove checks that a database moves at once to the server that is asked for, whichever member is told to move it
// and although a user has it open, and that it stays there: the next open does not return it, even before the new
// order has reached the other members.
func TestMove(t *testing.T) {
	t.Parallel()
	w := alone(7, 3)
	guarded(t, w, func() {
		home, mate, other, b := twoOfThree(w)
		for _, told := range []func() *server{
			func() *server { return home }, func() *server { return mate }, func() *server { return other },
		} {
			at := told()
			release := home.node.Opens.Use(b.id)
			w.must(at.node.Placement.Move(w.ctx, b.id, mate.id), "move it to the mate, told at "+at.name)
			release()
			for _, s := range []*server{mate, other, home} {
				p, err := s.node.Opens.Open(w.ctx, b.id)
				if err != nil || p.Server != mate.id || !mate.store.Leads(b.id) || home.store.Leads(b.id) {
					t.Fatalf("told at %s, opened at %s: %s serves it: %v", at.name, s.name, p.Name, err)
				}
			}
			w.wait("the order is known everywhere", 60, func() string {
				for _, s := range w.servers {
					if list := s.replicas(b); len(list) != 2 || list[0].Server != mate.name {
						return s.name
					}
				}
				return ""
			})
			home, mate = mate, home
		}
	})
}

// TestMoveFails checks that a move to a server that does not answer, or that has no replica, is an error that changes
// nothing, and that a move whose home does not answer says that only the order has changed.
func TestMoveFails(t *testing.T) {
	t.Parallel()
	w := alone(7, 3)
	guarded(t, w, func() {
		home, mate, other, b := twoOfThree(w)
		if err := mate.node.Placement.Move(w.ctx, b.id, other.id); err == nil || errors.Is(err, cluster.ErrNotMoved) {
			t.Errorf("to a server without a replica: %v", err)
		}
		order := func(s *server) string { return s.replicas(b)[0].Server }
		before := order(other)
		mate.crash()
		mate.until = 1 << 40
		for _, at := range []*server{home, other} {
			if err := at.node.Placement.Move(w.ctx, b.id, mate.id); err == nil || order(at) != before {
				t.Errorf("to a dead server, told at %s: %v, first is %s", at.name, err, order(at))
			}
		}
		w.faults.start(mate)
		w.wait("everything is in its place", 300, w.whole)
		home.crash()
		home.until = 1 << 40
		if err := other.node.Placement.Move(w.ctx, b.id, mate.id); !errors.Is(err, cluster.ErrNotMoved) ||
			order(mate) != mate.name {
			t.Errorf("from a dead home: %v, first is %s", err, order(mate))
		}
	})
}

// TestMoveFillsFirst checks that a mate receives what it lacks before the sessions of the database have to wait, and
// that they wait no longer than a limit: after it the hand-over fails, and the old home goes on.
func TestMoveFillsFirst(t *testing.T) {
	t.Parallel()
	w := alone(7, 2)
	guarded(t, w, func() {
		home, mate, _, b := twoOfThree(w)
		fill := func(n int) {
			for range n {
				m := w.users.newMail(b)
				w.must(w.users.deliverAt(home, m, len(w.users.mails)), "deliver")
			}
		}
		last := func(s *server) note.ModSeq {
			var at note.ModSeq
			w.must(s.store.Read(w.ctx, note.System, b.id, func(r *store.Reader) error {
				at = r.Position().Last
				return nil
			}), "read the position")
			return at
		}
		w.net.SetPolicy(func(m memory.Message) memory.Fate { return memory.Lose }) // confirmations too
		fill(20)
		w.net.SetPolicy(w.faults.fate)
		if last(home) == last(mate) {
			t.Fatal("the mate lacks nothing")
		}
		shut, resumed := 0, 0
		home.vacate = func(note.DatabaseID) (func(), error) {
			shut++
			if a, b := last(home), last(mate); a != b {
				t.Errorf("sessions wait while the mate is at %d of %d", b, a)
			}
			fill(1) // the last command
			return func() { resumed++ }, nil
		}
		slow := false
		w.net.SetPolicy(func(m memory.Message) memory.Fate {
			if shut == 1 && !slow {
				slow = true
				home.clock.Advance(time.Minute)
			}
			return w.faults.fate(m)
		})
		if err := home.node.HandOvers.HandOver(w.ctx, b.id, mate.id); !errors.Is(err, cluster.ErrBusy) {
			t.Errorf("to a mate that does not get the last changes in time: %v", err)
		}
		if !home.store.Leads(b.id) || mate.store.Leads(b.id) || shut != 1 || resumed != 1 {
			t.Errorf("home leads %v, mate leads %v, shut %d times, resumed %d times",
				home.store.Leads(b.id), mate.store.Leads(b.id), shut, resumed)
		}
		fill(1)
		w.net.SetPolicy(w.faults.fate)
		w.must(home.node.HandOvers.HandOver(w.ctx, b.id, mate.id), "hand over to a mate that answers")
		if home.store.Leads(b.id) || !mate.store.Leads(b.id) || resumed != 2 {
			t.Errorf("the mate leads %v, resumed %d times", mate.store.Leads(b.id), resumed)
		}
	})
}
