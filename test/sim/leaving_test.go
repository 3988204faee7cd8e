package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"doublet/cluster"
)

// twoOfThree waits until a mail file has a home and another replica, and returns these two servers and the third.
func twoOfThree(w *world) (home, mate, empty *server, b *box) {
	w.wait("a mail file has two replicas", 120, func() string {
		if wrong := w.whole(); wrong != "" {
			return wrong
		}
		for _, x := range w.boxes {
			if !x.queue && len(w.homes(x)) == 1 && len(w.holders(x)) == 2 {
				b = x
				return ""
			}
		}
		return "none"
	})
	home = w.homes(b)[0]
	for _, s := range w.servers {
		switch {
		case s == home:
		case slices.Contains(w.holders(b), s):
			mate = s
		default:
			empty = s
		}
	}
	return home, mate, empty, b
}

// replicas returns the replicas of a box as a server knows them.
func (s *server) replicas(b *box) []cluster.ReplicaView {
	list, _ := s.node.Databases(s.w.ctx, 0, 1000)
	for _, d := range list {
		if d.ID == b.id.String() {
			return d.Replicas
		}
	}
	return nil
}

// TestLeavingWaits checks that a replica pending delete stays while the server of its replacement is down, and is
// removed when that server is back and has everything. The server goes down either before it was given a replica or
// while the replica is being filled.
func TestLeavingWaits(t *testing.T) {
	t.Parallel()
	for _, given := range []bool{false, true} {
		t.Run(fmt.Sprint("given ", given), func(t *testing.T) {
			t.Parallel()
			w := alone(7, 3)
			guarded(t, w, func() {
				home, mate, empty, b := twoOfThree(w)
				on := func(state cluster.ReplicaState, s *server) func(cluster.ReplicaView) bool {
					return func(r cluster.ReplicaView) bool { return r.Server == s.name && r.State == state }
				}
				dies := func() {
					empty.crash()
					empty.until = 1 << 40
				}
				if !given {
					dies()
					w.wait("it is dead to the home", 60, func() string {
						for _, m := range home.node.Status().Members {
							if m.Name == empty.name && m.Alive {
								return "not yet"
							}
						}
						return ""
					})
				}
				w.must(home.node.Placement.SetReplica(w.ctx, b.id, mate.id, cluster.Deleting),
					"let the mate's replica go")
				if given {
					w.wait("another is given one", 60, func() string {
						if list := home.replicas(b); !slices.ContainsFunc(list, on(cluster.Serving, empty)) {
							return fmt.Sprint(list)
						}
						return ""
					})
					dies()
				}
				m := w.users.newMail(b)
				w.must(w.users.deliverAt(home, m, len(w.users.mails)), "deliver at the home")
				w.wait("the mate, which is to go, has it all the same", 60, func() string {
					if list := mate.replicas(b); has(mate, b.id, m.unid) != present ||
						!slices.ContainsFunc(list, on(cluster.Deleting, mate)) {
						return fmt.Sprint(list)
					}
					return ""
				})
				if slices.ContainsFunc(home.replicas(b), on(cluster.Serving, empty)) != given {
					t.Fatalf("the replicas are %v", home.replicas(b))
				}
				for range 5 * 120 {
					w.advance(200 * time.Millisecond)
					w.drive()
					if has(mate, b.id, m.unid) != present ||
						!slices.ContainsFunc(mate.replicas(b), on(cluster.Deleting, mate)) {
						t.Fatalf("a replica has gone, and %s has none yet: %v", empty.name, home.replicas(b))
					}
				}
				w.faults.start(empty)
				w.wait("the replica has gone to the other member", 300, func() string {
					if held := w.holders(b); slices.Contains(held, mate) || !slices.Contains(held, empty) ||
						has(empty, b.id, m.unid) != present {
						return "not yet"
					}
					if wrong := w.whole(); wrong != "" {
						return wrong
					}
					return w.different()
				})
				w.verify()
			})
		})
	}
}

// TestLeavingServes checks that a replica pending delete serves users as long as it is the last live one: its home died
// before another replica had everything.
func TestLeavingServes(t *testing.T) {
	t.Parallel()
	w := alone(7, 3)
	guarded(t, w, func() {
		home, mate, empty, b := twoOfThree(w)
		m := w.users.newMail(b)
		w.must(w.users.deliverAt(home, m, len(w.users.mails)), "deliver at the home")
		w.wait("the mate has it", 60, func() string {
			if has(mate, b.id, m.unid) != present {
				return "not yet"
			}
			return ""
		})
		for _, s := range []*server{empty, home} {
			if s == home {
				w.must(home.node.Placement.SetReplica(w.ctx, b.id, mate.id, cluster.Deleting),
					"let the mate's replica go")
				w.wait("the mate has heard of it", 60, func() string {
					if list := mate.replicas(b); !slices.Contains(list,
						cluster.ReplicaView{Server: mate.name, Slot: 1, State: cluster.Deleting}) {
						return fmt.Sprint(list)
					}
					return ""
				})
			}
			s.crash()
			s.until = 1 << 40
		}
		serves := func(at *server) func() string {
			return func() string {
				p, err := at.node.Opens.Open(w.ctx, b.id)
				if err != nil || p.Server != mate.id || !mate.store.Leads(b.id) {
					return fmt.Sprint(p.Name, " serves: ", err)
				}
				return ""
			}
		}
		w.wait("the mate serves it", 120, serves(mate))
		w.must(w.users.deliverAt(mate, w.users.newMail(b), len(w.users.mails)), "deliver to the last replica")
		w.faults.start(empty)
		w.wait("the other member leads there too", 120, serves(empty))
		w.faults.start(home)
		w.wait("the replica has gone to the other member", 300, func() string {
			if held := w.holders(b); slices.Contains(held, mate) || !slices.Contains(held, empty) {
				return "not yet"
			}
			if wrong := w.whole(); wrong != "" {
				return wrong
			}
			return w.different()
		})
		w.verify()
	})
}
