package store_test

import (
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
)

// A clusterWorld is a database with a replica in each of several stores, and a network between them that loses pages,
// delivers them twice, and delivers old ones.

type stalePage struct {
	to     int
	page   *store.LedgerPage
	change *store.Remote
	from   *clusterNode
}

// received holds the messages of a page or a note, prepared at the target.
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

// receive prepares the messages of notes from another node.
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

// page asks x for the page after y's position.
func (x *clusterNode) page(y *clusterNode, limit int, again ...note.UNID) (p *store.LedgerPage, err error) {
	at := y.position()
	err = x.s.Read(x.w.ctx, note.System, x.w.db, func(r *store.Reader) (err error) {
		p, err = r.Ledger(&at, limit, 1<<20, again...)
		return err
	})
	return p, err
}

// take applies a page of another node at x.
func (x *clusterNode) take(from *clusterNode, p *store.LedgerPage) error {
	got := x.receive(from, remotes(p)...)
	defer got.release()
	return x.s.ApplyLedger(x.w.ctx, x.w.db, p, got.by, got.objs...)
}

// sendLedger brings y up to x with pages, and reports whether y has reached x.
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
				w.must(x.s.Follow(w.ctx, w.db)) // it steps down when the leader of that history is there
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
			return false // lost for now
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
			if err := y.take(x, p); !errors.Is(err, store.ErrParted) { // applied twice; a copy may have begun
				w.must(err)
			}
			w.stale = append(w.stale, stalePage{to: y.i, page: p, from: x})
		}
		if !p.More {
			if !y.position().Pending {
				w.must(x.s.Replicate(w.ctx, w.db,
					func(wr *store.Writer) error { return wr.Peers.Set(y.replica(), p.Seq) }))
			}
			return true
		}
	}
	return false
}

// survive lets y step down before x, whose history survives, and lets x renumber what both have shown.
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

// sendChanges offers y the unnumbered notes of x, or all of them.
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

// apply merges a note from another node. If its content is missing, it requests the note whole.
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
			w.must(ignore(ignore(from.s.Replicate(w.ctx, w.db,
				func(wr *store.Writer) error { return wr.Bury(in.UNID) }), store.ErrGrave), store.ErrNotFound))
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

// replicate brings the changes of x to y.
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

// stray delivers an old page once more to its target.
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
	if err := y.take(p.from, p.page); err != nil && !errors.Is(err, store.ErrGap) && !errors.Is(err, store.ErrParted) &&
		!errors.Is(err, store.ErrBehind) && !errors.Is(err, store.ErrIncomplete) {
		w.t.Fatal(err)
	}
}
