package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// A clusterWorld is a database with a replica in each of several stores, and a network between them that
// loses pages, gives them twice, and brings old ones.

type clusterWorld struct {
	t     *testing.T
	ctx   context.Context
	rng   *rand.Rand
	clock *env.Manual
	db    note.DatabaseID
	nodes []*clusterNode
	opt   func(*store.Options)
	// stale are pages that were made before and may come once more.
	stale []stalePage
	n     int
	// lossy lets pages be lost, repeated and delayed.
	lossy bool
	// told is what was done: it is shown when the test fails.
	told []string
}

func (w *clusterWorld) tell(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

// at says where a node stands, in short.
func (x *clusterNode) at() string {
	p := x.position()
	return fmt.Sprintf("%d(leads %v, %x, uid %d, away %v, partial %v)", x.i, x.leads(), uint64(p.Last), p.UID, p.Away, p.Partial)
}

type clusterNode struct {
	w     *clusterWorld
	i     int
	f     *env.Fixture
	s     *store.Store
	group int // of those that reach each other
	// restarts counts, so that each life draws other random numbers.
	restarts int
	saved    *env.Fixture // a backup
}

type stalePage struct {
	to     int
	page   *store.LedgerPage
	change *store.Remote
	from   *clusterNode
}

// skewed is a clock that is off.
type skewed struct {
	*env.Manual
	by time.Duration
}

func (c skewed) Now() time.Time { return c.Manual.Now().Add(c.by) }

func newClusterWorld(t *testing.T, n int, seed uint64, queue bool) *clusterWorld {
	t.Helper()
	w := &clusterWorld{t: t, ctx: context.Background(), rng: rand.New(rand.NewPCG(seed, 77)), clock: env.NewManual(env.TestStart)}
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

// peers lets each replica know of each other, so that stubs are held.
func (w *clusterWorld) peers() {
	for _, x := range w.nodes {
		for _, y := range w.nodes {
			if x != y {
				w.must(x.s.Replicate(w.ctx, w.db, func(wr *store.Writer) error { return wr.SetPeer(y.replica(), 0) }))
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
	var err error
	x.s, err = store.Open(x.f.Env, "data", o)
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

// crash cuts the power of a node and starts it again.
func (x *clusterNode) crash() {
	x.w.tell("crash %d", x.i)
	after := x.f.Crash(x.w.rng.IntN(2)*50, x.w.rng.Uint64())
	_ = x.s.Close()
	x.f = after
	x.open()
}

// restore puts a node back to what was saved of it.
func (x *clusterNode) restore() {
	x.w.tell("restore %s", x.at())
	_ = x.s.Close()
	x.f, x.saved = x.saved, nil
	x.open()
	x.w.must(x.s.Rebranch())
	x.w.tell("restored %s", x.at())
}

// counters changes the row that says how far a node's numbers go, as only age would.
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

// message prepares a message; every third one is large.
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

// received are the messages that a page or a note brings, made ready at the target.
type received struct {
	by   map[note.Digest]*store.Message
	objs []*store.Object
}

func (r *received) release() {
	for _, m := range r.by {
		m.Release()
	}
	for _, o := range r.objs {
		o.Release()
	}
}

// receive makes ready what notes bring from another node.
func (x *clusterNode) receive(from *clusterNode, list ...*store.Remote) *received {
	x.w.t.Helper()
	out := &received{by: map[note.Digest]*store.Message{}}
	fetch := func(ref store.ObjectRef) ([]byte, error) {
		size, err := from.s.ObjectSize(ref.Digest)
		if err != nil || size != ref.Size {
			return nil, fmt.Errorf("%d bytes: %w", size, err)
		}
		return from.s.ObjectBytes(nil, ref.Digest, 0, int64(ref.Size))
	}
	for _, in := range list {
		if in.Message != nil {
			if d, _, _, _ := store.RecipeParts(in.Message); out.by[d] == nil {
				m, err := x.s.Receive(x.w.ctx, in.Message, fetch)
				x.w.must(err)
				out.by[m.Digest] = m
			}
		}
		for _, c := range in.Contents {
			for _, a := range c.Attachments {
				ref := store.ObjectRef{Digest: a.Digest, Size: a.Size}
				o, err := x.s.ReceiveObject(x.w.ctx, ref, nil)
				if errors.Is(err, store.ErrNotFound) {
					b, ferr := fetch(ref)
					x.w.must(ferr)
					o, err = x.s.ReceiveObject(x.w.ctx, ref, b)
				}
				x.w.must(err)
				out.objs = append(out.objs, o)
			}
		}
	}
	return out
}

func remotes(p *store.LedgerPage) (out []*store.Remote) {
	for _, list := range [][]store.Numbered{p.Notes, p.Again} {
		for i := range list {
			out = append(out, &list[i].Remote)
		}
	}
	return out
}

// page asks x for the page behind y's position.
func (x *clusterNode) page(y *clusterNode, limit int, again ...note.UNID) (p *store.LedgerPage, err error) {
	at := y.position()
	err = x.s.Read(x.w.ctx, note.System, x.w.db, func(r *store.Reader) (err error) {
		p, err = r.Ledger(&at, limit, 1<<20, again...)
		return err
	})
	return p, err
}

// take applies a page at x that another node has made.
func (x *clusterNode) take(from *clusterNode, p *store.LedgerPage) error {
	got := x.receive(from, remotes(p)...)
	defer got.release()
	return x.s.ApplyLedger(x.w.ctx, x.w.db, p, got.by, got.objs...)
}

// sendLedger brings y up to x by pages, and says whether y is where x is.
func (x *clusterNode) sendLedger(y *clusterNode, pages int) bool {
	w := x.w
	w.t.Helper()
	var again []note.UNID
	for range pages {
		limit := 1 + w.rng.IntN(12)
		if !w.lossy {
			limit = 1000
		}
		p, err := x.page(y, limit, again...)
		if errors.Is(err, store.ErrParted) {
			if mine, theirs := x.position(), y.position(); !mine.Beats(&theirs.Ledger) {
				w.must(x.s.Follow(w.ctx, w.db)) // it steps down when whoever leads that line is there
				return false
			}
			x.survive(y)
			continue
		}
		if errors.Is(err, store.ErrBehind) {
			return false
		}
		w.must(err)
		if w.lossy && w.rng.IntN(6) == 0 {
			w.stale = append(w.stale, stalePage{to: y.i, page: p, from: x})
			return false // lost on its way, for now
		}
		err = y.take(x, p)
		var missing *store.IncompleteError
		if errors.As(err, &missing) {
			again = missing.UNIDs
			continue
		}
		w.must(err)
		again = nil
		if w.lossy && w.rng.IntN(6) == 0 {
			w.must(y.take(x, p)) // comes twice
			w.stale = append(w.stale, stalePage{to: y.i, page: p, from: x})
		}
		if !p.More {
			if !y.position().Pending {
				w.must(x.s.Replicate(w.ctx, w.db, func(wr *store.Writer) error { return wr.SetPeer(y.replica(), p.Seq) }))
			}
			return true
		}
	}
	return false
}

// survive lets y step down before x, whose line survives, and x put right what both have shown.
func (x *clusterNode) survive(y *clusterNode) {
	w := x.w
	w.t.Helper()
	w.tell("%s survives %s", x.at(), y.at())
	w.must(y.s.Follow(w.ctx, w.db))
	before, winner := y.position(), x.position()
	if !winner.Beats(&before.Ledger) {
		w.t.Fatalf("node %d asks node %d, whose line survives: %+v and %+v", y.i, x.i, before, winner)
	}
	for range 1 + w.rng.IntN(2) {
		w.must(x.s.Heal(w.ctx, w.db, before))
	}
	w.must(y.s.StepDown(w.ctx, w.db, winner))
}

// sendChanges offers y what x has that is not numbered, or all of it.
func (x *clusterNode) sendChanges(y *clusterNode, all bool) {
	w := x.w
	w.t.Helper()
	q := store.ChangeQuery{All: all, Bare: w.rng.IntN(2) == 0, Limit: 1 + w.rng.IntN(5), Max: 1 << 20}
	for {
		var page *store.Changes
		x.read(func(r *store.Reader) (err error) { page, err = r.Replicable(q); return err })
		for _, in := range page.Notes {
			if w.lossy && w.rng.IntN(8) == 0 {
				w.stale = append(w.stale, stalePage{to: y.i, change: in, from: x})
				continue
			}
			y.apply(x, in)
		}
		if page.Info != nil {
			w.must(y.s.Replicate(w.ctx, w.db, func(wr *store.Writer) error { return wr.ApplyInfo(page.Info) }))
		}
		if q.After = page.To; !page.More {
			return
		}
	}
}

// apply joins a note from another node; one that came without its content is asked for whole.
func (x *clusterNode) apply(from *clusterNode, in *store.Remote) {
	w := x.w
	w.t.Helper()
	got := x.receive(from, in)
	defer got.release()
	err := x.s.Replicate(w.ctx, w.db, func(wr *store.Writer) error {
		for _, o := range got.objs {
			wr.Keep(o)
		}
		var m *store.Message
		for _, c := range in.Contents {
			if got.by[c.Message] != nil {
				m = got.by[c.Message]
			}
		}
		_, err := wr.Apply(in, m)
		return err
	})
	if errors.Is(err, store.ErrIncomplete) && in.Bare() {
		var whole *store.Remote
		from.read(func(r *store.Reader) error {
			id, err := r.Find(in.UNID)
			if err == nil {
				whole, err = r.Remote(id)
			}
			return ignore(ignore(err, store.ErrNotFound), store.ErrGrave)
		})
		if whole != nil {
			x.apply(from, whole)
		}
		return
	}
	if errors.Is(err, store.ErrGrave) {
		if x.leads() && !from.leads() {
			w.must(ignore(ignore(from.s.Replicate(w.ctx, w.db, func(wr *store.Writer) error { return wr.Bury(in.UNID) }), store.ErrGrave), store.ErrNotFound))
		}
	} else {
		if err != nil {
			x.read(func(r *store.Reader) error {
				id, _ := r.Find(in.UNID)
				have, _ := r.Remote(id)
				w.t.Logf("ours %+v\ntheirs %+v", have, in)
				return nil
			})
		}
		w.must(err)
	}
}

// replicate brings what x has to y.
func (x *clusterNode) replicate(y *clusterNode) {
	if !x.reaches(y) || x == y {
		return
	}
	switch {
	case x.leads() && y.leads():
		px, py := x.position(), y.position()
		if px.Beats(&py.Ledger) {
			x.survive(y)
		} else {
			y.survive(x)
		}
	case x.leads():
		done := x.sendLedger(y, 4)
		x.w.tell("pages %d to %s: %v", x.i, y.at(), done)
	default:
		x.sendChanges(y, false)
		x.w.tell("changes %d to %d", x.i, y.i)
	}
}

// stray lets an old page come once more, to whoever it was for.
func (w *clusterWorld) stray() {
	if len(w.stale) == 0 {
		return
	}
	i := w.rng.IntN(len(w.stale))
	p := w.stale[i]
	w.stale = slices.Delete(w.stale, i, i+1)
	y := w.nodes[p.to]
	w.tell("stray to %d, page %v", p.to, p.page != nil)
	if p.change != nil {
		y.apply(p.from, p.change)
		return
	}
	if err := y.take(p.from, p.page); err != nil && !errors.Is(err, store.ErrGap) && !errors.Is(err, store.ErrParted) && !errors.Is(err, store.ErrBehind) && !errors.Is(err, store.ErrIncomplete) {
		w.t.Fatal(err)
	}
}

// leader is the node that leads in a group and whose line survives, nil where none does.
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

// elect sees to it that a group has a leader: the one that the record names, else one that is not behind.
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

// settle brings all replicas to rest, and fails if they do not come to it.
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

// show prints what a node has of a note.
func (x *clusterNode) show(u note.UNID) (text string) {
	x.read(func(r *store.Reader) error {
		id, err := r.Find(u)
		if err != nil {
			text = err.Error()
			return nil
		}
		in, err := r.Remote(id)
		x.w.must(err)
		text = fmt.Sprintf("%s class %v foldered %v void %v tree %v", u, in.Class, in.Foldered, in.Void, in.Tree)
		for _, it := range in.State {
			text += fmt.Sprintf(" %d:%x=%d@%d", it.Kind, it.Key, it.Value, it.Stamp.Time)
		}
		row, err := r.Row(id)
		if err != nil {
			text += " stub"
			return nil
		}
		text += fmt.Sprintf(" seq %d mod %x created %x unnumbered %v members %v", row.Seq, uint64(row.Mod), uint64(row.Created), row.Unnumbered, row.Members)
		return nil
	})
	return text
}

func (x *clusterNode) unnumbered() (n int) {
	x.read(func(r *store.Reader) error {
		c, err := r.Replicable(store.ChangeQuery{Limit: 1 << 20, Max: 1 << 30})
		n = len(c.Notes)
		return err
	})
	return n
}

func (x *clusterNode) check() {
	x.w.t.Helper()
	rep, err := check.Run(x.w.ctx, x.s, check.Options{Deep: true})
	x.w.must(err)
	for i, f := range rep.Findings {
		if i < 10 {
			x.w.t.Errorf("node %d: %v", x.i, f)
		}
	}
}

// picture is all that replicas at rest must agree on, by what it is about.
// Expunges are compared behind the floor of who knows least of them.
func (x *clusterNode) picture(floor note.ModSeq) map[string]string {
	out := map[string]string{}
	x.read(func(r *store.Reader) error {
		folders := map[note.ID]note.UNID{}
		for _, f := range r.Folders() {
			folders[f.Note] = f.UNID
			seen := map[note.UNID]uint32{}
			for _, s := range f.Seen {
				seen[s.Person] = s.Count
			}
			sub := slices.SortedFunc(slices.Values(f.Subscribed), note.UNID.Compare)
			out["folder "+f.UNID.String()] = fmt.Sprint(f.Name, f.SpecialUse, f.UIDValidity, f.UIDNext, f.Total, f.Deleted, f.Size, f.Mod, seen, sub, f.HasACL, f.ACL)
		}
		x.w.must(r.Since(0, func(_ uint64, id note.ID) bool {
			in, err := r.Remote(id)
			x.w.must(err)
			row, err := r.Note(id)
			if errors.Is(err, store.ErrNotFound) {
				return true // a stub: how long it is held is each replica's own affair
			}
			x.w.must(err)
			text := fmt.Sprint(row.Mod, row.Created, in.Tree.Leaves(), in.State, in.Size, sha256.Sum256(in.Message), in.Foldered, in.Class, in.Date, in.Author, in.Thread)
			for _, l := range in.Tree.Leaves() {
				text += fmt.Sprint(in.Contents[l.Rev])
			}
			for _, m := range row.Members {
				text += fmt.Sprint(folders[m.Folder], m.UID, m.Saved, m.Deleted)
			}
			out["note "+in.UNID.String()] = text
			return true
		}))
		x.w.must(r.Changes(0, func(mod note.ModSeq, c layout.Change) bool {
			if c.Expunged && mod <= floor {
				return true
			}
			if c.Expunged {
				out[fmt.Sprintf("mod %x", uint64(mod))] = fmt.Sprint(c.UNID, folders[c.Folder], c.UID, c.Gone, c.Time, c.Class, c.Thread, c.Created)
			} else if row, err := r.Note(c.Note); err == nil {
				out[fmt.Sprintf("mod %x", uint64(mod))] = row.UNID.String()
			} else {
				x.w.t.Errorf("node %d: MODSEQ %x is of note %d, which is not: %v", x.i, uint64(mod), c.Note, err)
			}
			return true
		}))
		p := r.Position()
		c, i := r.Counters(), r.Info()
		out["ledger"] = fmt.Sprint(p.Last, p.UID, p.Ended, p.Epoch, p.LastUIDValidity, c.Notes, c.Size)
		out["info"] = fmt.Sprint(i.Title, i.Owner, i.Quota, i.Warning, i.ACL, i.Ack, i.Stamp, i.Mod)
		return nil
	})
	return out
}

// compare holds all replicas against each other.
func (w *clusterWorld) compare() {
	w.t.Helper()
	floor := note.ModSeq(0)
	for _, x := range w.nodes {
		x.read(func(r *store.Reader) error { floor = max(floor, r.Counters().Floor); return nil })
	}
	want := w.nodes[0].picture(floor)
	for _, x := range w.nodes[1:] {
		got, n := x.picture(floor), 0
		for k := range got {
			if want[k] != got[k] && n < 8 {
				w.t.Errorf("%s: node 0 has %s\nnode %d has %s", k, want[k], x.i, got[k])
				n++
			}
		}
		for k := range want {
			if got[k] == "" && n < 8 {
				w.t.Errorf("%s: node 0 has %s, node %d has it not", k, want[k], x.i)
				n++
			}
		}
	}
	for _, x := range w.nodes {
		x.check()
	}
}
