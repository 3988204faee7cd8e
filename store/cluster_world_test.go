package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// A clusterWorld is a database with a replica in each of several stores, and a network between them that loses pages,
// delivers them twice, and delivers old ones.

type clusterWorld struct {
	t     *testing.T
	ctx   context.Context
	rng   *rand.Rand
	clock *env.Manual
	db    note.DatabaseID
	nodes []*clusterNode
	opt   func(*store.Options)
	// stale holds earlier pages that may arrive once more.
	stale []stalePage
	n     int
	// lossy permits pages to be lost, repeated and delayed.
	lossy bool
	// encrypted encrypts the files of each node with keys of its own, of which it makes another one at each start.
	encrypted bool
	// told is the log of operations, printed when the test fails.
	told []string
}

func (w *clusterWorld) tell(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// at returns the position of a node as a short text.
func (x *clusterNode) at() string {
	p := x.position()
	return fmt.Sprintf("%d(leads %v, %x, uid %d, away %v, partial %v)", x.i, x.leads(), uint64(p.Last), p.UID,
		p.Away, p.Partial)
}

type clusterNode struct {
	w     *clusterWorld
	i     int
	f     *env.Fixture
	s     *store.Store
	group int // the number of the group of nodes that reach each other
	// restarts counts restarts, so that each life uses other random numbers.
	restarts int
	saved    *env.Fixture // a backup
}

// skewed is a clock with an offset.
type skewed struct {
	*env.Manual
	by time.Duration
}

func (c skewed) Now() time.Time { return c.Manual.Now().Add(c.by) }

func newClusterWorld(t *testing.T, n int, seed uint64, queue bool) *clusterWorld {
	t.Helper()
	return newClusterWorldOf(t, n, seed, queue, false)
}

func newClusterWorldOf(t *testing.T, n int, seed uint64, queue, encrypted bool) *clusterWorld {
	t.Helper()
	w := &clusterWorld{t: t, ctx: context.Background(), rng: rand.New(rand.NewPCG(seed, 77)),
		clock: env.NewManual(env.TestStart), encrypted: encrypted}
	for i := range n {
		x := &clusterNode{w: w, i: i, f: env.TestRealTime(t)}
		w.nodes = append(w.nodes, x)
		x.open()
		t.Cleanup(func() { _ = x.s.Close() })
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what was done:\n%s", strings.Join(w.told[max(0, len(w.told)-400):], "\n"))
		}
	})
	first := w.nodes[0]
	var err error
	w.db, err = first.s.CreateDatabase(note.System, store.Create{Title: "shared", Kind: "mail", Queue: queue})
	w.must(err)
	for _, name := range []string{"INBOX", "A", "B"} {
		first.update(func(wr *store.Writer) error {
			_, err := wr.CreateFolder(name, "")
			return err
		})
	}
	w.must(first.s.Share(w.ctx, w.db, 0))
	for _, x := range w.nodes[1:] {
		x.create()
	}
	w.peers()
	return w
}

func (w *clusterWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// peers makes the replicas known to each other, so that deletion stubs are kept.
func (w *clusterWorld) peers() {
	for _, x := range w.nodes {
		for _, y := range w.nodes {
			if x != y {
				w.must(x.s.Replicate(w.ctx, w.db, func(wr *store.Writer) error { return wr.Peers.Set(y.replica(), 0) }))
			}
		}
	}
}

func (x *clusterNode) open() {
	o := options()
	o.OnFatal = func(err error) { x.w.t.Error(err) }
	if x.w.opt != nil {
		x.w.opt(&o)
	}
	x.restarts++
	x.f.Rand = env.Seeded(uint64(x.i*1000 + x.restarts))
	x.f.Clock = skewed{x.w.clock, time.Duration(x.i*7-10) * time.Second}
	e := x.f.Env
	if x.w.encrypted {
		inside, files := store.EncryptedEnv(x.w.t, e)
		_, err := files.Rotate()
		x.w.must(err)
		e = inside
	}
	var err error
	x.s, err = store.Open(e, "data", o)
	x.w.must(err)
}

func (x *clusterNode) create() {
	info, err := x.w.nodes[0].s.Info(x.w.db)
	x.w.must(err)
	x.w.must(x.s.CreateReplica(note.System, info, uint8(x.i)))
}

func (x *clusterNode) replica() note.ReplicaID {
	info, err := x.s.Info(x.w.db)
	x.w.must(err)
	return info.Replica
}

func (x *clusterNode) update(fn func(w *store.Writer) error) {
	x.w.t.Helper()
	x.w.must(x.try(fn))
}

func (x *clusterNode) try(fn func(w *store.Writer) error) error {
	return x.s.Update(x.w.ctx, note.System, []note.DatabaseID{x.w.db}, func(tx *store.Tx) error {
		w, err := tx.Database(x.w.db)
		if err != nil {
			return err
		}
		return fn(w)
	})
}

func (x *clusterNode) read(fn func(r *store.Reader) error) {
	x.w.t.Helper()
	x.w.must(x.s.Read(x.w.ctx, note.System, x.w.db, fn))
}

func (x *clusterNode) position() (p store.Position) {
	x.w.t.Helper()
	x.read(func(r *store.Reader) error { p = r.Position(); return nil })
	return p
}

func (x *clusterNode) leads() bool { return x.s.Leads(x.w.db) }

func (x *clusterNode) reaches(y *clusterNode) bool { return x.group == y.group }

// crash cuts the power of a node and restarts it.
func (x *clusterNode) crash() {
	x.w.tell("crash %d", x.i)
	after := x.f.Crash(x.w.rng.IntN(2)*50, x.w.rng.Uint64())
	_ = x.s.Close()
	x.f = after
	x.open()
}

// restore resets a node to its saved state.
func (x *clusterNode) restore() {
	x.w.tell("restore %s", x.at())
	_ = x.s.Close()
	x.f, x.saved = x.saved, nil
	x.open()
	x.w.must(x.s.Rebranch())
	x.w.tell("restored %s", x.at())
}

// counters changes the row with a node's counters in a way that otherwise only age would.
func (x *clusterNode) counters(fn func(c *layout.Counters, b *pebble.Batch, r pebble.Reader, num uint32)) {
	info, err := x.s.Info(x.w.db)
	x.w.must(err)
	key := layout.Prefix(info.Number, layout.KindCounters)
	x.w.must(x.s.Derive(x.w.db, func(r pebble.Reader, num uint32, b *pebble.Batch) error {
		v, closer, err := r.Get(key)
		x.w.must(err)
		defer closer.Close()
		c, err := layout.ReadCounters(v)
		x.w.must(err)
		fn(&c, b, r, num)
		return b.Set(key, layout.AppendCounters(nil, &c), nil)
	}))
	x.w.must(x.s.Close())
	x.open()
}

// forget lets a node forget all expunges, as after 90 days.
func (x *clusterNode) forget() {
	x.counters(func(c *layout.Counters, b *pebble.Batch, r pebble.Reader, num uint32) {
		prefix := layout.Prefix(num, layout.KindModSeq)
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		x.w.must(err)
		for ok := it.First(); ok; ok = it.Next() {
			if ch, err := layout.ReadChange(it.Value()); err == nil && ch.Expunged {
				c.Floor, c.Expunged = note.ModSeq(layout.Tail64(it.Key())), c.Expunged-1
				x.w.must(b.Delete(bytes.Clone(it.Key()), nil))
			}
		}
		x.w.must(it.Close())
	})
}

// message prepares a message. Every third one is large.
func (x *clusterNode) message(u note.UNID) *store.Message {
	raw := fmt.Appendf(nil, "Subject: %s\r\n\r\nbody\r\n", u)
	if u[0]%3 == 0 {
		raw = fmt.Appendf(nil, "Subject: %s\r\nContent-Transfer-Encoding: base64\r\n\r\n", u)
		raw = mime.AppendBase64Lines(raw, bytes.Repeat([]byte{u[1] % 3}, 40_000), 76, true)
	}
	m, err := x.s.Prepare(x.w.ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), store.PartSize))
	x.w.must(err)
	return m
}

// leader returns the node that leads in a group and whose history survives, or nil if there is none.
func (w *clusterWorld) leader(group int) (best *clusterNode) {
	var at store.Position
	for _, x := range w.nodes {
		if x.group == group && x.leads() {
			if p := x.position(); best == nil || p.Beats(&at.Ledger) {
				best, at = x, p
			}
		}
	}
	return best
}

// elect ensures that a group has a leader: the recorded one, or else one that is not behind.
func (w *clusterWorld) elect(group int) {
	if w.leader(group) != nil {
		return
	}
	var best *clusterNode
	var at store.Position
	for _, i := range w.rng.Perm(len(w.nodes)) {
		x := w.nodes[i]
		p := x.position()
		if x.group != group {
			continue
		}
		if best == nil || p.Beats(&at.Ledger) || !at.Beats(&p.Ledger) && p.Last > at.Last {
			best, at = x, p
		}
	}
	if best != nil {
		w.tell("elect %s", best.at())
		w.must(best.s.Lead(w.ctx, w.db, store.LeadOptions{}))
	}
}

// settle brings all replicas to rest, and fails the test if that does not succeed.
func (w *clusterWorld) settle() *clusterNode {
	w.t.Helper()
	for _, x := range w.nodes {
		x.group = 0
	}
	w.lossy = false
	for round := range 20 {
		w.elect(0)
		for _, x := range w.nodes {
			for _, y := range w.nodes {
				x.replicate(y)
			}
		}
		home := w.leader(0)
		if home == nil {
			continue
		}
		at := home.position()
		rest := true
		for _, x := range w.nodes {
			p := x.position()
			rest = rest && p.Last == at.Last && !p.Partial && !p.Pending && x.leads() == (x == home)
		}
		if rest {
			return home
		}
		if round == 19 {
			for _, x := range w.nodes {
				w.t.Errorf("%s: %d unnumbered", x.at(), x.unnumbered())
				x.read(func(r *store.Reader) error {
					c, err := r.Replicable(store.ChangeQuery{Limit: 3, Max: 1 << 30})
					for _, in := range c.Notes {
						w.t.Logf("node %d has %s", x.i, x.show(in.UNID))
						w.t.Logf("node %d has %s", home.i, home.show(in.UNID))
					}
					return err
				})
			}
		}
	}
	w.t.Fatal("the replicas do not come to rest")
	return nil
}
