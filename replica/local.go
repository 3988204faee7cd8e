package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
)

// Limits of one answer.
const (
	headsAtOnce = 1000
	headBytes   = 128 << 10
	ledgerLimit = 2000
	// scanAtOnce limits the notes examined per page, for a caller that may read few of them.
	scanAtOnce = 20_000
)

// versionOf returns a hash of the data in which replicas of a note must agree.
func versionOf(n *store.Remote) (v [16]byte) {
	b := note.AppendState(note.AppendTree(make([]byte, 0, 512), n.Tree), n.State)
	sum := sha256.Sum256(appendBool(b, n.Void))
	copy(v[:], sum[:])
	return v
}

// headOf returns the head of a note.
func headOf(seq uint64, n *store.Remote) Head {
	h := Head{Seq: seq, UNID: n.UNID, Version: versionOf(n)}
	for _, l := range n.Tree.Leaves() {
		h.Leaves = append(h.Leaves, l.Rev)
	}
	return h
}

// brief reads a note without its message and content.
func brief(r *store.Reader, id note.ID) (seq uint64, n *store.Remote, err error) {
	row, err := r.Note(id)
	if errors.Is(err, store.ErrNotFound) { // a tombstone
		n, err = r.Remote(id)
		return 0, n, err
	}
	if err != nil {
		return 0, nil, err
	}
	c, err := r.Content(id)
	if err != nil {
		return 0, nil, err
	}
	return row.Seq, &store.Remote{
		UNID: row.UNID, Class: row.Class, Tree: c.Tree, State: row.State, Date: row.Date, Author: row.Author,
		Size: row.Size, Foldered: row.Foldered,
		Void: row.Unnumbered && row.Mod == 0 && row.Created != 0,
	}, nil
}

// lister collects heads until a page is full.
type lister struct {
	r    *store.Reader
	g    *grant
	sel  chosen
	page HeadPage
	left int
	size int
	// fresh means that the query is for unnumbered changes. Their content is set only for notes that no primary can
	// have.
	fresh bool
}

// add appends the head of a note if the caller may read it.
func (x *lister) add(seq uint64, n *store.Remote) {
	if !x.g.reads(n) {
		return
	}
	x.g.show(n)
	h := headOf(seq, n)
	h.Out, h.New = !x.sel.takes(n), x.fresh && isNew(n)
	x.page.Heads = append(x.page.Heads, h)
	x.left--
	x.size += minHead + 24*len(h.Leaves)
}

func (x *lister) full() bool { return x.left <= 0 || x.size >= headBytes }

// one adds a note by its id. A note that cannot be read is reported in Refused and does not stop the others.
func (x *lister) one(seq uint64, id note.ID) error {
	_, n, err := brief(x.r, id)
	switch {
	case err == nil:
		x.add(seq, n)
	case !ofNote(err):
		return err
	case !errors.Is(err, store.ErrNotFound):
		x.page.Refused = append(x.page.Refused, refuse(note.UNID{}, fmt.Errorf("note %d: %w", id, err)))
		x.left--
	}
	return nil
}

// Heads implements Side.
func (l *Local) Heads(ctx context.Context, db note.DatabaseID, q Query) (HeadPage, error) {
	if err := q.Select.Check(); err != nil {
		return HeadPage{}, err
	}
	var out HeadPage
	err := l.read(ctx, db, func(r *store.Reader, g *grant) error {
		if g.may()&MayPull == 0 {
			return store.ErrDenied
		}
		after := l.resolve(q.After, r.Counters().Seq)
		x := &lister{r: r, g: g, sel: q.Select.against(r), page: HeadPage{From: after, To: after}, left: headsAtOnce}
		if q.Limit > 0 {
			x.left = min(q.Limit, maxHeads)
		}
		var err error
		switch {
		case len(q.Only) > 0:
			err = x.only(q.Only)
		case q.Scope == Folders:
			err = x.folders(after)
		case q.Scope == Unnumbered:
			err = x.unnumbered(after)
		default:
			err = x.all(after)
		}
		out = x.page
		return err
	})
	return out, err
}

func (x *lister) only(list []note.UNID) error {
	for _, u := range list {
		id, err := x.r.Find(u)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			continue
		}
		if err == nil {
			err = x.one(0, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// folders lists the folders that changed. It examines all folders: they are few and in memory.
func (x *lister) folders(after uint64) error {
	for _, f := range x.r.Folders() {
		seq, n, err := brief(x.r, f.Note)
		if err != nil {
			if err := x.one(0, f.Note); err != nil {
				return err
			}
			continue
		}
		if seq > after {
			x.add(seq, n)
		}
	}
	return nil
}

// unnumbered lists the changes that the primary has not confirmed, folders first within a page.
func (x *lister) unnumbered(after uint64) error {
	c, err := x.r.Replicable(store.ChangeQuery{After: after, Bare: true, Limit: x.left, Max: MaxNote})
	if err != nil {
		return err
	}
	x.fresh = true
	slices.SortStableFunc(c.Notes, func(a, b *store.Remote) int { return rank(a) - rank(b) })
	for _, n := range c.Notes {
		x.add(0, n)
	}
	if len(c.Notes) > 0 { // otherwise only data changed that is not sent, such as numbers written by replication
		x.page.To = c.To
	}
	x.page.More, x.page.Info = c.More, c.Info
	return nil
}

// rank orders folders before other notes.
func rank(n *store.Remote) int {
	if n.Class == note.Folder {
		return 0
	}
	return 1
}

func (x *lister) all(after uint64) error {
	var failed error
	seen := 0
	err := x.r.Since(after, func(seq uint64, id note.ID) bool {
		if seen++; x.full() || seen > scanAtOnce {
			x.page.More = true
			return false
		}
		failed = x.one(seq, id)
		x.page.To = seq
		return failed == nil
	})
	return errors.Join(failed, err)
}

// Wants implements Side.
func (l *Local) Wants(ctx context.Context, db note.DatabaseID, heads []Head) ([]Want, error) {
	out := make([]Want, len(heads))
	err := l.read(ctx, db, func(r *store.Reader, g *grant) error {
		for i := range heads {
			w, err := wants(r, g, &heads[i])
			if err != nil {
				return err
			}
			out[i] = w
		}
		return nil
	})
	return out, err
}

func wants(r *store.Reader, g *grant, h *Head) (Want, error) {
	id, err := r.Find(h.UNID)
	var n *store.Remote
	if err == nil {
		_, n, err = brief(r, id)
	}
	switch {
	case errors.Is(err, store.ErrGrave):
		return Buried, nil
	case errors.Is(err, store.ErrNotFound):
		if h.Out {
			return Nothing, nil
		}
		return Whole, nil
	case err != nil && ofNote(err):
		return Whole, nil // the incoming note may repair the damaged one
	case err != nil:
		return Nothing, err
	}
	if !g.reads(n) {
		return Whole, nil // do not reveal that the note exists
	}
	g.show(n)
	n.Void = false // only the sender's Void counts
	if versionOf(n) == h.Version {
		return Nothing, nil
	}
	for _, rev := range h.Leaves {
		if _, have := n.Tree.Node(rev); !have {
			return Whole, nil
		}
	}
	return State, nil
}

// weight returns the approximate size of a note in a page, in bytes.
func weight(n *store.Remote, thin bool) int {
	sum := minNote + 48*len(n.Tree) + 40*len(n.State)
	if thin {
		return sum
	}
	sum += len(n.Message) + len(n.Summary)
	for _, c := range n.Contents {
		for _, it := range c.Items {
			sum += len(it.Name) + len(it.Value) + 4
		}
		sum += 80 * len(c.Attachments)
	}
	return sum
}

// Notes implements Side.
func (l *Local) Notes(ctx context.Context, db note.DatabaseID, asks []Ask, most int64) (*ChangePage, error) {
	page := &ChangePage{}
	err := l.read(ctx, db, func(r *store.Reader, g *grant) error {
		page.From = l.peerOf(r)
		size := int64(0)
		for i, a := range asks {
			n, err := l.note(r, g, a.UNID)
			switch {
			case err == nil && n == nil:
				continue
			case err != nil && !ofNote(err):
				return err
			case err != nil:
				page.Refused = append(page.Refused, refuse(a.UNID, err))
				continue
			}
			w := int64(weight(n, a.Thin))
			if w > MaxNote {
				page.Refused = append(page.Refused, refuse(a.UNID,
					fmt.Errorf("%w: note %s of %d bytes", ErrTooLarge, a.UNID, w)))
				continue
			}
			if size += w; size > most && len(page.Notes) > 0 {
				page.Left = len(asks) - i
				return nil
			}
			page.Notes = append(page.Notes, Change{Thin: a.Thin, Note: n})
		}
		return nil
	})
	l.stat.sent.Add(uint64(len(page.Notes)))
	return page, err
}

// note reads a note, reduced to what the caller may see. It returns nil if there is none for the caller.
func (l *Local) note(r *store.Reader, g *grant, u note.UNID) (*store.Remote, error) {
	id, err := r.Find(u)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n, err := r.Remote(id)
	if err != nil {
		return nil, err
	}
	if !g.reads(n) {
		return nil, nil
	}
	g.show(n)
	return n, nil
}

// Graves implements Side.
func (l *Local) Graves(ctx context.Context, db note.DatabaseID, unids []note.UNID) ([]note.UNID, error) {
	var out []note.UNID
	err := l.read(ctx, db, func(r *store.Reader, _ *grant) error {
		for _, u := range unids {
			_, err := r.Find(u)
			switch {
			case errors.Is(err, store.ErrGrave):
				out = append(out, u)
			case err != nil && !errors.Is(err, store.ErrNotFound):
				return err
			}
		}
		return nil
	})
	return out, err
}

// Ledger implements Side. Only servers may call it.
func (l *Local) Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID,
	most int64) (*LedgerPage, error) {
	if !l.who.System {
		return nil, store.ErrDenied
	}
	out := &LedgerPage{}
	err := l.read(ctx, db, func(r *store.Reader, _ *grant) error {
		p, err := r.Ledger(&since, ledgerLimit, most, again...)
		if err != nil {
			return err
		}
		out.LedgerPage, out.Peer = *p, l.peerOf(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.stat.sent.Add(uint64(len(out.Notes)))
	return out, nil
}
