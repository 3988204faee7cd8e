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

// SendOptions are the options of a Send. Zero values take the defaults.
type SendOptions struct {
	// Apart means that the replicas are in two different clusters, or servers outside one: their ledgers are unrelated.
	Apart bool
	// Select limits the notes that a copy without a slot receives.
	Select Selection
	// Most is the approximate size of a page of notes in bytes (192 KB).
	Most int64
	// Back announces that a Send in the other direction follows. The target keeps its deletions for the source from the
	// start.
	Back bool
	// Compare compares the two replicas from the beginning and ignores recorded progress.
	Compare bool
	// Objects is the approximate number of bytes of objects sent before the notes that name them (64 MB).
	Objects uint64
	// Room, if set, reserves memory for bytes of objects, which the target holds until the notes are applied. It may
	// block. Send calls give to release the memory. A blocked call holds no reservation.
	Room func(ctx context.Context, bytes uint64) (give func(), err error)
	// Transfers, if set, coordinates the objects with those of other Sends to the same target.
	Transfers *Transfers
	// Known, if set, caches the state of the target between Sends. Send updates it.
	Known *Known
	// From and To are display names of the two sides for the replication histories.
	From, To string
	// Progress, if set, is called now and then. It must return quickly.
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

// Progress reports how far a Send has come.
type Progress struct {
	// Done is the number of notes processed. Total is the number of notes at the source when the Send began.
	Done, Total uint64
	Result
}

// Result is the outcome of a Send.
type Result struct {
	// Added, Updated and Deleted count notes changed at the target.
	Added, Updated, Deleted int
	// Looked is the number of notes announced to the target. Objects and ObjectBytes count the objects transferred.
	Looked, Objects int
	ObjectBytes     uint64
	// Refused lists the notes that were set aside.
	Refused []Refused
	// Compared means that the replicas were compared from the beginning. Restored means that one of the stores was
	// restored: its incarnation changed, or it went back to an older state without a new incarnation.
	Compared, Restored bool
	// FromSeq and ToSeq are the sequence numbers of the two sides at the start.
	FromSeq, ToSeq uint64
}

func (r *Result) took(a *Ack) {
	r.Added += a.Added
	r.Updated += a.Updated
	r.Deleted += a.Deleted
}

// ErrTooManyRefused ends a Send that set aside more notes than are recorded. The cause is then probably not a single
// note.
var ErrTooManyRefused = errors.New("replica: too many notes could not be replicated")

// rounds limits how often the same notes are sent again because something was missing.
const rounds = 4

// sender is the state of one Send.
type sender struct {
	from, to Side
	db       note.DatabaseID
	o        SendOptions
	hf, ht   Greeting
	res      Result
	// reached is the sequence number of the source up to which the target has its changes.
	reached uint64
	// aside lists the notes that were set aside.
	aside []Refused
	// warm means that ht comes from Known; the target was not asked.
	warm bool
	// acked means that the target has acknowledged a ledger page in this Send.
	acked bool
}

// Send copies to the side to the changes of from that it lacks. If both have a slot, Send transfers the ledger first,
// and then a follower's changes that no primary has numbered. Otherwise it transfers all changes since the last Send.
// It resumes where the last Send ended, even after an error. The result reports what was done, also if err is not nil.
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
		x.res.Refused = nil // the second attempt reports them again
		if err = x.meet(ctx); err == nil {
			err = x.send(ctx)
		}
	}
	o.Known.learn(x, err)
	return x.res, err
}

// Both synchronizes two replicas in both directions. It sends a to b first, since a is expected to have more changes.
func Both(ctx context.Context, a, b Side, db note.DatabaseID, o SendOptions) (forth, back Result, err error) {
	o.Back = true
	if forth, err = Send(ctx, a, b, db, o); err != nil {
		return forth, back, err
	}
	o.From, o.To = o.To, o.From
	back, err = Send(ctx, b, a, db, o)
	return forth, back, err
}

// meet exchanges greetings; each side learns the Peer of the other.
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
		return fmt.Errorf("%w: both sides are replica %016X, because one store is a file copy of the other", ErrSplit,
			uint64(x.hf.Replica))
	}
	x.res.FromSeq, x.res.ToSeq = x.hf.Seq, x.ht.Seq
	x.res.Restored = other(x.hf.Given.Store, x.ht.Store) || other(x.ht.Seen.Incarnation, x.hf.Store)
	return nil
}

// other reports whether a store's incarnation differs from the recorded one. A record of 0 means none.
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
			return nil // all its changes are numbered
		}
		return x.named(ctx, Unnumbered)
	}
	return x.named(ctx, All)
}

// ledger sends the part of the ledger that the target lacks, and again the notes that were set aside last time.
func (x *sender) ledger(ctx context.Context) error {
	at, again := x.ht.Position, x.ht.Aside
	most, tries, done := x.o.Most, 0, 0
	for {
		p, err := x.from.Ledger(ctx, x.db, at, again, most)
		if errors.Is(err, store.ErrBehind) && !x.hf.Leads {
			return nil // it has nothing that the target lacks
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
			// Another server sent a page meanwhile.
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
				return fmt.Errorf("target: %w: %d notes and %d objects after %d rounds", ErrMissing, len(ack.Again),
					len(ack.Missing), rounds)
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
			if err := x.setAside(refuse(note.UNID{}, fmt.Errorf("%w: note %d of the source", store.ErrDamaged,
				id))); err != nil {
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

// strip omits the content of notes that the target already has. If the target itself sent a note recently and trusts is
// true, strip does not ask: a target that has lost the note reports that, and the note is sent again. For notes that
// another replica sent recently it asks the target first.
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

// bare removes the content of a note.
func bare(n *store.Numbered) { n.Contents, n.Message, n.Summary = nil, nil, nil }

// wants asks the target for the amount that it lacks of each note.
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

// empty reports whether a page contains no changes.
func empty(p *LedgerPage) bool {
	return p.From == p.To && !p.Whole && p.Info == nil && len(p.Notes)+len(p.Again)+len(p.Expunged)+len(p.Damaged) == 0
}

// endLedger stores the progress of the target and the list of notes set aside, at both sides. If the target waits for
// the primary to number a change of its own, the record is postponed: that change may be an edit of a note that was
// deleted meanwhile. A target that was not asked in this Send may be waiting too.
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

// ledgerObjects sends the objects of a page. The target holds them until it has the whole page. If they exceed the
// limit and may is true, it returns fewer: the page must be read again with fewer notes. A note whose objects are
// unavailable is set aside. The caller calls give when the target has applied the page.
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

// room blocks until memory for the given number of bytes of objects is reserved.
func (x *sender) room(ctx context.Context, bytes uint64) (give func(), err error) {
	if x.o.Room == nil || bytes == 0 {
		return func() {}, nil
	}
	return x.o.Room(ctx, bytes)
}

// given records the progress of the target at the source.
func (x *sender) given(ctx context.Context, seq uint64, met layout.Met) error {
	if seq == x.hf.Given.Seq && x.hf.Given.Store == x.ht.Store {
		return nil
	}
	x.hf.Given = Given{Store: x.ht.Store, Seq: seq}
	return wrap("source", x.from.Mark(ctx, x.db, Mark{Peer: x.ht.Peer, Gives: true, Given: seq, Met: met, Name: x.o.To,
		Select: x.o.Select}))
}

func (x *sender) told(done uint64) {
	if x.o.Progress != nil {
		x.o.Progress(Progress{Done: done, Total: x.hf.Notes, Result: x.res})
	}
}

// named transfers notes by name: the target answers each name with the amount of the note that it lacks.
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

// begin finds the position to resume at. It also tells the source to keep its deletions for the target.
func (x *sender) begin(ctx context.Context, scope Scope) (store.Cursor, error) {
	if x.hf.May&MayPull == 0 {
		return store.Cursor{}, fmt.Errorf("source: %w", store.ErrDenied)
	}
	if x.ht.May&MayPush == 0 {
		return store.Cursor{}, fmt.Errorf("target: %w", store.ErrDenied)
	}
	seen := x.ht.Seen
	if x.o.Compare || !x.ht.Select.Equal(&x.o.Select) { // a note excluded last time may be selected now
		seen = store.Cursor{}
	}
	if seen.Incarnation == x.hf.Store && seen.Seq > x.hf.Seq {
		seen, x.res.Restored = store.Cursor{}, true // the source was set back without a new incarnation
	}
	if x.warm && seen.Incarnation == x.hf.Store {
		x.reached = seen.Seq
		return seen, nil
	}
	// The source knows where another incarnation of its store diverged from this one.
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

// mend deletes at the target the notes that the source deleted for good and whose deletion the target may have missed.
// The target may have missed a deletion if it is new, was restored, or was silent for so long that deletions were no
// longer kept for it. Only names are transferred.
func (x *sender) mend(ctx context.Context) error {
	if x.ht.Notes == 0 {
		return nil
	}
	q := Query{Scope: All, After: store.Cursor{Incarnation: x.ht.Store}, Limit: headsAtOnce}
	for {
		p, err := x.to.Heads(ctx, x.db, q)
		if errors.Is(err, store.ErrDenied) {
			return nil // a sender that may not read there cannot find notes to delete
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

// retry sends again the notes that were set aside last time.
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

// pages processes all pages of heads. If mark is true, the end of each page is a position to resume at.
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

// markEvery is the number of pages between two progress records.
const markEvery = 2

// mark records the progress of the target at both sides.
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

// tell records the progress of the target at the target.
func (x *sender) tell(ctx context.Context, seq uint64, last bool) error {
	m := Mark{Peer: x.hf.Peer, Received: seq, Name: x.o.From, Select: x.o.Select}
	if last {
		m.Aside = append([]Refused{}, x.aside...)
	}
	return wrap("target", x.to.Mark(ctx, x.db, m))
}

// setAside adds notes to the list of those that failed.
func (x *sender) setAside(list ...Refused) error {
	for _, r := range list {
		if !r.UNID.IsZero() && slices.ContainsFunc(x.aside, func(o Refused) bool { return o.UNID == r.UNID }) {
			continue // a folder is sent twice
		}
		x.aside = append(x.aside, r)
		x.res.Refused = append(x.res.Refused, r)
	}
	if len(x.aside) > maxAside {
		return fmt.Errorf("%w: the first is note %s: %s", ErrTooManyRefused, x.aside[0].UNID, x.aside[0].Text)
	}
	return nil
}
