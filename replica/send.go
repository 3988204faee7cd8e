package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// SendOptions say how Send goes about it. Zero values take the defaults.
type SendOptions struct {
	// Apart says that the replicas are of two clusters, or servers: their ledgers have nothing to do with each other.
	Apart bool
	// Select says what a copy without a slot is to hold.
	Select Selection
	// Most is about how many bytes of notes go at a time (192 KB).
	Most int64
	// Back says that the target gives back what it has, in a Send of its own: it keeps its deletions from the beginning.
	Back bool
	// Compare compares the two from the beginning, whatever they remember.
	Compare bool
	// Objects is about how many bytes of objects are brought before the notes that name them (64 MB).
	Objects uint64
	// Room, where it is set, is asked before so many bytes of objects are brought, which the target holds until the notes
	// are there; give is called then. What waits in it holds nothing.
	Room func(ctx context.Context, bytes uint64) (give func(), err error)
	// Known, where it is set, is what is known of the target, and learns.
	Known *Known
	// From and To are what people call the two sides, for the histories.
	From, To string
	// Progress, where it is set, is told now and then. It must be quick.
	Progress func(Progress)
}

func (o *SendOptions) fill() {
	if o.Most <= 0 {
		o.Most = 192 << 10
	}
	if o.Objects == 0 {
		o.Objects = 64 << 20
	}
}

// Progress says how far a Send has come.
type Progress struct {
	// Done of Total notes have been gone through: what the source had when it began.
	Done, Total uint64
	Result
}

// Result is what a Send came to.
type Result struct {
	// Added, Updated and Deleted are notes at the target.
	Added, Updated, Deleted int
	// Looked is how many notes the target was told of, Objects and ObjectBytes what was brought of large parts.
	Looked, Objects int
	ObjectBytes     uint64
	// Refused are the notes that were set aside.
	Refused []Refused
	// Compared says that the two were compared from the beginning, Restored that one of the stores is not in the life
	// in which the other knew it, or has gone back in it: it was restored.
	Compared, Restored bool
	// FromSeq and ToSeq are where the two sides stood when they met.
	FromSeq, ToSeq uint64
}

func (r *Result) took(a *Ack) {
	r.Added += a.Added
	r.Updated += a.Updated
	r.Deleted += a.Deleted
}

// ErrTooManyRefused ends a Send that set more notes aside than are remembered: something is wrong with
// more than notes.
var ErrTooManyRefused = errors.New("replica: too many notes could not be replicated")

// rounds bounds how often the same notes are sent again for what was lacking.
const rounds = 4

// sender is one Send.
type sender struct {
	from, to Side
	db       note.DatabaseID
	o        SendOptions
	hf, ht   Greeting
	res      Result
	// reached is how far the target has come: a sequence of the source.
	reached uint64
	// aside are the notes that were set aside.
	aside []Refused
	// warm: the target was not asked about itself, and what is said of it here is remembered.
	warm bool
	// acked: it has taken a page of the ledger since.
	acked bool
}

// Send brings one replica up to another: to gets what from has. Where both have a slot the ledger goes first, and
// then what a follower has that nobody has numbered; else everything that changed since last time. It
// takes up where the last one ended, however that was. The result says what was done also where an error
// ended it.
func Send(ctx context.Context, from, to Side, db note.DatabaseID, o SendOptions) (Result, error) {
	o.fill()
	if err := o.Select.Check(); err != nil {
		return Result{}, err
	}
	x := &sender{from: from, to: to, db: db, o: o}
	again, err := true, error(nil)
	if g, ok := o.Known.recall(); ok && !o.Compare {
		again, err = x.resume(ctx, g)
	}
	if again {
		x = &sender{from: from, to: to, db: db, o: o, res: x.res}
		x.res.Refused = nil // they come again
		if err = x.meet(ctx); err == nil {
			err = x.send(ctx)
		}
	}
	o.Known.learn(x, err)
	return x.res, err
}

// Both brings two replicas up to each other: a to b first, since a is where more is to be expected.
func Both(ctx context.Context, a, b Side, db note.DatabaseID, o SendOptions) (forth, back Result, err error) {
	o.Back = true
	if forth, err = Send(ctx, a, b, db, o); err != nil {
		return forth, back, err
	}
	o.From, o.To = o.To, o.From
	back, err = Send(ctx, b, a, db, o)
	return forth, back, err
}

// meet lets both sides say who they are, each knowing who asks.
func (x *sender) meet(ctx context.Context) error {
	first, err := x.from.Hello(ctx, x.db, Peer{})
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if x.ht, err = x.to.Hello(ctx, x.db, first.Peer); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	if x.hf, err = x.from.Hello(ctx, x.db, x.ht.Peer); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if x.hf.Replica == x.ht.Replica {
		return fmt.Errorf("%w: both sides are the replica %016X: one of the stores is a copy of the other's files", ErrSplit, uint64(x.hf.Replica))
	}
	x.res.FromSeq, x.res.ToSeq = x.hf.Seq, x.ht.Seq
	x.res.Restored = other(x.hf.Given.Store, x.ht.Store) || other(x.ht.Seen.Incarnation, x.hf.Store)
	return nil
}

// other says that a store is not in the life in which it was known.
func other(known, now uint64) bool { return known != 0 && known != now }

func (x *sender) send(ctx context.Context) error {
	if x.hf.Shared && x.ht.Shared && !x.o.Apart {
		if !x.ht.Leads {
			if err := x.ledger(ctx); err != nil {
				return err
			}
		} else if x.hf.Leads {
			return ErrSplit
		}
		if x.hf.Leads {
			return nil // what it has is numbered
		}
		return x.named(ctx, Unnumbered)
	}
	return x.named(ctx, All)
}

// ledger sends what the target does not know of the ledger, and once more the notes that were set aside last time.
func (x *sender) ledger(ctx context.Context) error {
	at, again := x.ht.Position, x.ht.Aside
	most, tries, done := x.o.Most, 0, 0
	for {
		p, err := x.from.Ledger(ctx, x.db, at, again, most)
		if errors.Is(err, store.ErrBehind) && !x.hf.Leads {
			return nil // it has nothing that the target has not
		}
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		if !at.Partial && empty(p) {
			return x.endLedger(ctx, p, &at)
		}
		if err := x.strip(ctx, p, tries == 0); err != nil {
			return err
		}
		fewer, give, err := x.ledgerObjects(ctx, p, most > 1)
		if err != nil {
			return err
		}
		if fewer {
			most /= 4
			continue
		}
		ack, err := x.to.ApplyLedger(ctx, x.db, p)
		give()
		switch {
		case errors.Is(err, store.ErrGap) && tries < rounds:
			// Somebody else brought a page meanwhile.
			tries++
			if x.ht, err = x.to.Hello(ctx, x.db, x.hf.Peer); err != nil {
				return fmt.Errorf("target: %w", err)
			}
			at, again = x.ht.Position, nil
			continue
		case err != nil:
			return fmt.Errorf("target: %w", err)
		case len(ack.Again)+len(ack.Missing) > 0:
			if tries++; tries > rounds {
				return fmt.Errorf("target: %w: %d notes and %d objects after %d rounds", ErrMissing, len(ack.Again), len(ack.Missing), rounds)
			}
			again = ack.Again
			continue
		}
		x.acked = true
		x.res.took(&ack)
		if err := x.setAside(ack.Refused...); err != nil {
			return err
		}
		for _, id := range p.Damaged {
			if err := x.setAside(refuse(note.UNID{}, fmt.Errorf("%w: note %d of the source", store.ErrDamaged, id))); err != nil {
				return err
			}
		}
		done += len(p.Notes)
		x.res.Looked += len(p.Notes)
		x.told(uint64(done))
		at, again, most, tries = ack.Position, nil, x.o.Most, 0
		if !p.More {
			return x.endLedger(ctx, p, &at)
		}
	}
}

// strip leaves content away that the target sent itself, or, where another did, that it says it has. trusts says that the
// target need not be asked of what it sent: if it has that no more it says so, and the notes come again.
func (x *sender) strip(ctx context.Context, p *LedgerPage, trusts bool) error {
	hint, ok := x.from.(interface {
		Came(db note.DatabaseID, n *store.Remote, from note.ReplicaID) (lately, itself bool)
	})
	if !ok {
		return nil
	}
	var list []*store.Numbered
	var heads []Head
	for i := range p.Notes {
		n := &p.Notes[i]
		if n.Contents == nil || n.Class == note.Folder {
			continue
		}
		switch lately, itself := hint.Came(x.db, &n.Remote, x.ht.Replica); {
		case itself && trusts:
			bare(n)
		case lately:
			list, heads = append(list, n), append(heads, headOf(0, &n.Remote))
		}
	}
	wants, err := x.wants(ctx, heads)
	if err != nil {
		return err
	}
	for i, w := range wants {
		if w == Nothing || w == State {
			bare(list[i])
		}
	}
	return nil
}

// bare leaves the content of a note away.
func bare(n *store.Numbered) { n.Contents, n.Message, n.Summary = nil, nil, nil }

// wants asks the target what it lacks of notes.
func (x *sender) wants(ctx context.Context, heads []Head) ([]Want, error) {
	if len(heads) == 0 {
		return nil, nil
	}
	wants, err := x.to.Wants(ctx, x.db, heads)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	if len(wants) != len(heads) {
		return nil, formatError("%d wants for %d heads", len(wants), len(heads))
	}
	return wants, nil
}

// empty says that a page brings nothing.
func empty(p *LedgerPage) bool {
	return p.From == p.To && !p.Whole && p.Info == nil && len(p.Notes)+len(p.Again)+len(p.Expunged)+len(p.Damaged) == 0
}

// endLedger lets the sides remember what the target has, and what was set aside. A target that waits for its home to
// number something has passed nothing yet: what it waits with may be what a deletion did not know of. One that was not asked
// may wait.
func (x *sender) endLedger(ctx context.Context, p *LedgerPage, at *store.Position) error {
	x.ht.Position = *at
	if len(x.aside)+len(x.ht.Aside) > 0 {
		err := x.to.Mark(ctx, x.db, Mark{Peer: x.hf.Peer, Name: x.o.From, Aside: append([]Refused{}, x.aside...)})
		if err != nil {
			return fmt.Errorf("target: %w", err)
		}
	}
	if at.Pending || x.warm && !x.acked {
		return nil
	}
	met := layout.Met{Slot: x.ht.Position.Slot, Epoch: p.Of.Epoch, Last: p.Of.Last, UID: p.Of.UID}
	if p.Of.Last != p.To {
		met = layout.Met{}
	}
	return x.given(ctx, p.Seq, met)
}

// ledgerObjects brings the objects of a page. They are held until all of them are there, so a page that names
// too much is to come again with fewer notes, if it may. A note whose objects cannot be had is set aside. give is to be called
// when the target has taken the page.
func (x *sender) ledgerObjects(ctx context.Context, p *LedgerPage, may bool) (fewer bool, give func(), err error) {
	var list []*store.Remote
	for _, part := range [][]store.Numbered{p.Notes, p.Again} {
		for i := range part {
			list = append(list, &part[i].Remote)
		}
	}
	lacks, bad, err := x.lacking(ctx, list)
	if err != nil {
		return false, nil, err
	}
	sum := uint64(0)
	for _, l := range lacks {
		sum += l.Size
	}
	if sum > x.o.Objects && len(list) > 1 && may {
		return true, nil, nil
	}
	if give, err = x.room(ctx, sum); err != nil {
		return false, nil, err
	}
	for _, n := range list {
		if bad[n.UNID] {
			continue
		}
		ok, err := x.bringFor(ctx, n.UNID, lacks.of(n), lacks)
		if err != nil {
			give()
			return false, nil, err
		}
		if !ok {
			if bad == nil {
				bad = map[note.UNID]bool{}
			}
			bad[n.UNID] = true
		}
	}
	for u := range bad {
		without(&p.LedgerPage, u)
	}
	return false, give, nil
}

// room waits until so many bytes of objects may be on their way.
func (x *sender) room(ctx context.Context, bytes uint64) (give func(), err error) {
	if x.o.Room == nil || bytes == 0 {
		return func() {}, nil
	}
	return x.o.Room(ctx, bytes)
}

// given lets the source know what the target has of it.
func (x *sender) given(ctx context.Context, seq uint64, met layout.Met) error {
	if seq == x.hf.Given.Seq && x.hf.Given.Store == x.ht.Store {
		return nil
	}
	x.hf.Given = Given{Store: x.ht.Store, Seq: seq}
	return wrap("source", x.from.Mark(ctx, x.db, Mark{Peer: x.ht.Peer, Gives: true, Given: seq, Met: met, Name: x.o.To, Select: x.o.Select}))
}

func (x *sender) told(done uint64) {
	if x.o.Progress != nil {
		x.o.Progress(Progress{Done: done, Total: x.hf.Notes, Result: x.res})
	}
}

// named sends notes by name: the target says of each what it lacks.
func (x *sender) named(ctx context.Context, scope Scope) error {
	start, err := x.begin(ctx, scope)
	if err != nil {
		return err
	}
	if err := x.retry(ctx); err != nil {
		return err
	}
	if scope == All {
		if err := x.pages(ctx, Query{Scope: Folders, After: start, Select: x.o.Select}, false); err != nil {
			return err
		}
	}
	if err := x.pages(ctx, Query{Scope: scope, After: start, Select: x.o.Select}, true); err != nil {
		return err
	}
	return x.mark(ctx, x.reached, true)
}

// begin finds where to take up, and lets the source know that deletions are to be kept for the target.
func (x *sender) begin(ctx context.Context, scope Scope) (store.Cursor, error) {
	if x.hf.May&MayPull == 0 {
		return store.Cursor{}, fmt.Errorf("source: %w", store.ErrDenied)
	}
	if x.ht.May&MayPush == 0 {
		return store.Cursor{}, fmt.Errorf("target: %w", store.ErrDenied)
	}
	seen := x.ht.Seen
	if x.o.Compare || !x.ht.Select.Equal(&x.o.Select) { // what was left out last time may be wanted now
		seen = store.Cursor{}
	}
	if seen.Incarnation == x.hf.Store && seen.Seq > x.hf.Seq {
		seen, x.res.Restored = store.Cursor{}, true // the source has gone back and does not know it
	}
	if x.warm && seen.Incarnation == x.hf.Store {
		x.reached = seen.Seq
		return seen, nil
	}
	// The source knows where another life of its store parted from this one.
	probe, err := x.from.Heads(ctx, x.db, Query{Scope: scope, After: seen, Limit: 1, Select: x.o.Select})
	if err != nil {
		return seen, fmt.Errorf("source: %w", err)
	}
	x.reached = probe.From
	start := store.Cursor{Incarnation: x.hf.Store, Seq: probe.From}
	if scope == Unnumbered {
		return start, nil
	}
	x.res.Compared = start.Seq == 0
	if start.Seq == 0 || x.res.Restored || x.hf.Given.Seq > start.Seq {
		if err := x.mend(ctx); err != nil {
			return start, err
		}
	}
	if x.o.Back && x.ht.Given.Store == 0 {
		if err := x.to.Mark(ctx, x.db, Mark{Peer: x.hf.Peer, Knows: true, Name: x.o.From}); err != nil {
			return start, fmt.Errorf("target: %w", err)
		}
	}
	return start, x.given(ctx, start.Seq, layout.Met{})
}

func wrap(side string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", side, err)
	}
	return nil
}

// mend lets the target delete what the source deleted for good, where it may have missed that: it is new, was
// restored, or was silent for so long that deletions were no longer kept for it. Names alone travel.
func (x *sender) mend(ctx context.Context) error {
	if x.ht.Notes == 0 {
		return nil
	}
	q := Query{Scope: All, After: store.Cursor{Incarnation: x.ht.Store}, Limit: headsAtOnce}
	for {
		p, err := x.to.Heads(ctx, x.db, q)
		if errors.Is(err, store.ErrDenied) {
			return nil // whoever may not read there sees nothing to delete
		}
		if err != nil {
			return fmt.Errorf("target: %w", err)
		}
		unids := make([]note.UNID, len(p.Heads))
		for i := range p.Heads {
			unids[i] = p.Heads[i].UNID
		}
		gone, err := x.from.Graves(ctx, x.db, unids)
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		if err := x.bury(ctx, x.to, x.hf.Peer, gone); err != nil {
			return fmt.Errorf("target: %w", err)
		}
		if !p.More {
			return nil
		}
		q.After.Seq = p.To
	}
}

func (x *sender) bury(ctx context.Context, at Side, by Peer, gone []note.UNID) error {
	if len(gone) == 0 {
		return nil
	}
	ack, err := at.Bury(ctx, x.db, by, gone)
	if err != nil {
		return err
	}
	if at == x.to {
		x.res.took(&ack)
	}
	return x.setAside(ack.Refused...)
}

// retry sends the notes that were set aside last time once more.
func (x *sender) retry(ctx context.Context) error {
	if len(x.ht.Aside) == 0 {
		return nil
	}
	p, err := x.from.Heads(ctx, x.db, Query{Only: x.ht.Aside, Select: x.o.Select})
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	return x.page(ctx, &p)
}

// pages goes through all pages of heads; mark says that their ends are places to take up from.
func (x *sender) pages(ctx context.Context, q Query, mark bool) error {
	done := uint64(0)
	for n := 1; ; n++ {
		p, err := x.from.Heads(ctx, x.db, q)
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		if err := x.page(ctx, &p); err != nil {
			return err
		}
		done += uint64(len(p.Heads))
		x.told(done)
		q.After = store.Cursor{Incarnation: x.hf.Store, Seq: p.To}
		if mark {
			x.reached = p.To
		}
		if !p.More {
			return nil
		}
		if mark && n%markEvery == 0 {
			if err := x.mark(ctx, p.To, false); err != nil {
				return err
			}
		}
	}
}

// markEvery is after how many pages the sides note how far they have come.
const markEvery = 2

// mark lets both sides remember how far the target has come.
func (x *sender) mark(ctx context.Context, seq uint64, last bool) error {
	seen := x.ht.Seen
	same := seen.Incarnation == x.hf.Store && seen.Seq == seq && x.ht.Select.Equal(&x.o.Select)
	if same && (!last || len(x.aside) == 0 && len(x.ht.Aside) == 0) {
		return nil
	}
	if !x.warm || len(x.aside)+len(x.ht.Aside) > 0 || !x.o.Known.mayPass() {
		if err := x.tell(ctx, seq, last); err != nil {
			return err
		}
	}
	x.ht.Seen = store.Cursor{Incarnation: x.hf.Store, Seq: seq}
	return x.given(ctx, seq, layout.Met{})
}

// tell lets the target remember how far it has come.
func (x *sender) tell(ctx context.Context, seq uint64, last bool) error {
	m := Mark{Peer: x.hf.Peer, Received: seq, Name: x.o.From, Select: x.o.Select}
	if last {
		m.Aside = append([]Refused{}, x.aside...)
	}
	return wrap("target", x.to.Mark(ctx, x.db, m))
}

// setAside keeps what is wrong with single notes.
func (x *sender) setAside(list ...Refused) error {
	for _, r := range list {
		if !r.UNID.IsZero() && slices.ContainsFunc(x.aside, func(o Refused) bool { return o.UNID == r.UNID }) {
			continue // a folder comes twice
		}
		x.aside = append(x.aside, r)
		x.res.Refused = append(x.res.Refused, r)
	}
	if len(x.aside) > maxAside {
		return fmt.Errorf("%w: the first is note %s: %s", ErrTooManyRefused, x.aside[0].UNID, x.aside[0].Text)
	}
	return nil
}
