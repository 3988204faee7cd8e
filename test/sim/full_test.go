package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"doublet/cluster"
	"doublet/note"
	"doublet/store"
)

// told reports whether a server shows an open event of the given kind about the given server.
func told(s *server, kind cluster.EventKind, about string) bool {
	for _, e := range s.node.Events() {
		if e.Kind == kind && e.Server == about {
			return true
		}
	}
	return false
}

// TestFullDisk fills the disk of a home. The home and its mate report it. The home rejects new data but accepts
// deletions. The mate takes deliveries and becomes home at the next open. When there is space again, the home receives
// everything, once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := alone(3, 2)
	guarded(t, w, func() {
		var b *box
		w.wait("a mail file has its home", 60, func() string {
			for _, x := range w.boxes {
				if !x.queue && len(w.homes(x)) == 1 {
					b = x
					return ""
				}
			}
			return "none"
		})
		home := w.homes(b)[0]
		mate := w.servers[1-home.number]
		deliver := func(s *server) (*mail, error) {
			m := w.users.newMail(b)
			return m, w.users.deliverAt(s, m, len(w.users.mails))
		}
		before, err := deliver(home)
		w.must(err, "deliver while there is room")
		w.wait("everything is in its place", 60, w.whole)

		w.faults.fill(home)
		home.full = 1 << 40
		w.wait("both tell that the disk is full", 60, func() string {
			if !told(home, cluster.EventRoom, "") || !told(mate, cluster.EventRoom, home.name) {
				return "not yet"
			}
			return ""
		})
		if m, err := deliver(home); !errors.Is(err, store.ErrNoSpace) || has(home, b.id, m.unid) != absent {
			t.Errorf("delivered to a full disk: %v", err)
		}
		m1, err := deliver(mate)
		w.must(err, "deliver at the mate")
		w.must(w.users.update(home, b, func(wr *store.Writer) error {
			id, err := wr.Find(before.unid)
			if err != nil {
				return err
			}
			return wr.Destroy(id)
		}), "delete on a full disk")
		before.expunge = &promise{at: home, acked: true, tick: w.tick}
		w.wait("the mate hears of it", 60, func() string {
			if has(mate, b.id, before.unid) != absent {
				return "not yet"
			}
			return ""
		})
		p, err := home.node.Opens.Open(w.ctx, b.id)
		if err != nil || p.Server != mate.id || !mate.store.Leads(b.id) {
			t.Fatalf("the open is served by %s: %v", p.Name, err)
		}
		if has(home, b.id, m1.unid) != absent {
			t.Error("the full disk took what came at the mate")
		}
		w.must(w.users.update(mate, b, func(wr *store.Writer) error {
			id, err := wr.Find(m1.unid)
			if err != nil {
				return err
			}
			return wr.SetKeyword(id, "read", true)
		}), "the mate carries on")
		m2, err := deliver(mate)
		w.must(err, "deliver at the new home")
		w.wait("what waits is told", 60, func() string {
			if !told(mate, cluster.EventLag, home.name) {
				return "not yet"
			}
			return ""
		})

		w.faults.makeRoom(home)
		w.wait("all is equal again", 120, func() string {
			if wrong := w.whole(); wrong != "" {
				return wrong
			}
			return w.different()
		})
		for _, m := range []*mail{m1, m2} {
			if has(home, b.id, m.unid) != present {
				t.Errorf("mail %.6s did not come", m.unid)
			}
		}
		w.wait("nobody tells of it any more", 60, func() string {
			if told(home, cluster.EventRoom, "") || told(mate, cluster.EventRoom, home.name) ||
				told(mate, cluster.EventLag, home.name) {
				return "somebody does"
			}
			return ""
		})
		w.verify()
	})
}

// TestFreshWhileFull checks a mate that has lost its disk and asks the home, whose disk is full, to advance its
// counters past all numbers that the mate may have assigned. The home does that once and not for each request; that
// would exhaust the UIDs.
func TestFreshWhileFull(t *testing.T) {
	t.Parallel()
	w := alone(9, 2)
	guarded(t, w, func() {
		b := w.boxes[0]
		w.wait("everything is in its place", 60, w.whole)
		home := w.homes(b)[0]
		mate := w.servers[1-home.number]
		at := func() (pos store.Position) {
			w.must(home.store.Read(w.ctx, note.System, b.id, func(r *store.Reader) error {
				pos = r.Position()
				return nil
			}), "read the ledger")
			return pos
		}
		before := at()
		mate.crash()
		mate.disk, mate.joined = vfs.NewCrashableMem(), false
		w.faults.forget(mate, 0)
		w.faults.start(mate)
		w.wait("the mate reads the Cluster Database Directory again", 60, func() string {
			if mate.node == nil {
				return "not started"
			}
			_, err := mate.store.Info(cluster.ID)
			if err != nil {
				return err.Error()
			}
			return ""
		})
		w.faults.fill(home)
		home.full = 1 << 40
		for range 600 {
			w.advance(100 * time.Millisecond)
			w.drive()
		}
		if now := at(); now.Epoch != 0 || now.Last.Term() > before.Last.Term()+8*note.Slots {
			t.Errorf("a minute later the home is in term %d, numbering %d; it was in %d", now.Last.Term(), now.Epoch,
				before.Last.Term())
		}
		w.faults.makeRoom(home)
		w.wait("all is equal again", 300, func() string {
			if wrong := w.whole(); wrong != "" {
				return wrong
			}
			return w.different()
		})
		w.verify()
	})
}

// TestQueueHandOver checks that a queue's home does not move while the mate has no space for a delivery that belongs to
// a removal from the queue. It moves once the delivery is there.
func TestQueueHandOver(t *testing.T) {
	t.Parallel()
	w := alone(5, 2)
	guarded(t, w, func() {
		queue := w.users.theQueue()
		w.wait("the queue has its home", 60, func() string {
			if len(w.homes(queue)) != 1 {
				return "none"
			}
			return w.whole()
		})
		home := w.homes(queue)[0]
		mate := w.servers[1-home.number]
		w.users.enqueue()
		q := w.users.queued[0]
		w.wait("the mate has the entry", 60, func() string {
			if has(mate, queue.id, q.unid) != present {
				return "not yet"
			}
			return ""
		})
		w.faults.fill(mate)
		mate.full = 1 << 40
		w.users.route()
		if !q.routed {
			t.Fatal("it was not delivered")
		}
		if err := home.node.HandOvers.HandOver(w.ctx, queue.id, mate.id); !errors.Is(err, cluster.ErrBusy) {
			t.Errorf("handed over: %v", err)
		}
		if !home.store.Leads(queue.id) || has(mate, queue.id, q.unid) != present {
			t.Error("the mate was told of the removal, and has not got the mail")
		}
		w.faults.makeRoom(mate)
		w.wait("the mail is at the mate", 120, func() string {
			if has(mate, q.to.box.id, q.to.unid) != present {
				return "not yet"
			}
			return w.whole()
		})
		w.must(home.node.HandOvers.HandOver(w.ctx, queue.id, mate.id), "hand over when it is")
		if !mate.store.Leads(queue.id) || has(mate, queue.id, q.unid) != absent {
			t.Error("the queue is not as it was")
		}
	})
}
