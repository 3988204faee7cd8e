package sim

import (
	"fmt"
	"slices"
	"testing"

	"doublet/cluster"
)

// TestLeavingServes: a replica that is pending delete serves its users as long as it is the last that is there: its home died
// before another got what it has.
func TestLeavingServes(t *testing.T) {
	t.Parallel()
	w := alone(7, 3)
	guarded(t, w, func() {
		var b *box
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
		home := w.homes(b)[0]
		var mate, empty *server
		for _, s := range w.servers {
			switch {
			case s == home:
			case slices.Contains(w.holders(b), s):
				mate = s
			default:
				empty = s
			}
		}
		m := w.newMail(b)
		w.must(w.deliverAt(home, m, len(w.mails)), "deliver at the home")
		w.wait("the mate has it", 60, func() string {
			if has(mate, b.id, m.unid) != present {
				return "not yet"
			}
			return ""
		})
		for _, s := range []*server{empty, home} {
			if s == home {
				w.must(home.node.SetReplica(w.ctx, b.id, mate.id, cluster.Deleting), "let the mate's replica go")
				w.wait("the mate has heard of it", 60, func() string {
					list, _ := mate.node.Databases(w.ctx, 0, 1000)
					for _, d := range list {
						if d.ID == b.id.String() && slices.Contains(d.Replicas, cluster.ReplicaView{Server: mate.name, Slot: 1, State: cluster.Deleting}) {
							return ""
						}
					}
					return fmt.Sprint(list)
				})
			}
			s.crash()
			s.until = 1 << 40
		}
		serves := func(at *server) func() string {
			return func() string {
				p, err := at.node.Open(w.ctx, b.id)
				if err != nil || p.Server != mate.id || !mate.store.Leads(b.id) {
					return fmt.Sprint(p.Name, " serves: ", err)
				}
				return ""
			}
		}
		w.wait("the mate serves it", 120, serves(mate))
		w.must(w.deliverAt(mate, w.newMail(b), len(w.mails)), "deliver to the last replica")
		w.start(empty)
		w.wait("the other member leads there too", 120, serves(empty))
		w.start(home)
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
