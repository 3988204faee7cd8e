package sim

import (
	"errors"
	"testing"

	"doublet/cluster"
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
		w.start(mate)
		w.wait("everything is in its place", 300, w.whole)
		home.crash()
		home.until = 1 << 40
		if err := other.node.Placement.Move(w.ctx, b.id, mate.id); !errors.Is(err, cluster.ErrNotMoved) || order(mate) != mate.name {
			t.Errorf("from a dead home: %v, first is %s", err, order(mate))
		}
	})
}
