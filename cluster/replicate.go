package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Replicate is a step of one Cluster Replicator: it sends what waits for a mate, one database after the other. It says whether
// there was anything to do. A mate that does not live gets nothing.
func (n *Node) Replicate(ctx context.Context, mate note.UNID, worker int) (progress bool, err error) {
	r, alive := n.replicator(mate, worker)
	if !alive {
		return false, nil
	}
	return r.step(ctx, inline)
}

// replicator is one Cluster Replicator, nil where there is none, and whether its mate lives.
func (n *Node) replicator(mate note.UNID, worker int) (r *replicator, alive bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[mate]
	if p == nil || worker >= len(p.reps) {
		return nil, false
	}
	return p.reps[worker], p.alive
}

// reached implements job.
func (n *Node) reached(_ note.UNID, db note.DatabaseID) { n.confirmations.fire(db) }

// Workers is how many Cluster Replicators there are for each mate.
func (n *Node) Workers() int { return n.opt.Workers }

// Idle says that nothing waits to be sent to a mate that lives.
func (n *Node) Idle() bool {
	n.mu.Lock()
	var all []*replicator
	for _, p := range n.peers {
		if p.alive {
			all = append(all, p.reps...)
		}
	}
	n.mu.Unlock()
	return !slices.ContainsFunc(all, func(r *replicator) bool { return !r.idle() })
}

// wants implements job: what we lead goes to every replica; what we follow to its home, or, while none lives, to all.
func (n *Node) wants(mate note.UNID, db note.DatabaseID) (yes, queue bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, e := n.held[db], n.catalog.entries[db]
	if h == nil || e == nil {
		return false, false
	}
	if _, on := e.On(mate); !on || !n.takes(n.peers[mate], e) {
		return false, false
	}
	return h.leads || h.route.IsZero() || h.route == mate, h.queue
}

// stands implements job.
func (n *Node) stands(db note.DatabaseID) note.ModSeq {
	pos, err := n.stood(context.Background(), db)
	if err != nil {
		return 0
	}
	return pos.Last
}

// outlived is for how long what goes out of a queue waits for a mate that is dead.
const outlived = 24 * time.Hour

// cleared implements job: a removal from a queue stands for what was put elsewhere in the same commit. It
// goes to a mate when every mate that lives has all that was committed up to then, and of what a dead
// one lacks another that lives has it.
func (n *Node) cleared(seq uint64) bool {
	n.mu.Lock()
	var live, dead []*replicator
	now := n.now()
	for _, id := range n.mates() {
		switch p := n.peers[id]; {
		case p.alive:
			live = append(live, p.reps...)
		case now.Sub(p.since) < outlived:
			dead = append(dead, p.reps...)
		}
	}
	n.mu.Unlock()
	for _, r := range live {
		if !r.cleared(seq, nil) {
			return false
		}
	}
	safe := func(db note.DatabaseID) bool {
		return slices.ContainsFunc(live, func(r *replicator) bool {
			yes, _ := n.wants(r.mate, db)
			return yes && r.mine(db) && r.passed(db, seq)
		})
	}
	for _, r := range dead {
		if !r.known() || !r.cleared(seq, safe) {
			// What a dead mate lacks is known only as far as its replicator has read the feed.
			if !n.safeFor(r, seq, safe) {
				return false
			}
		}
	}
	return true
}

// clearWithin is how long a hand-over of a queue waits for what left it, clearPoll how often it looks.
const (
	clearWithin = 5 * time.Second
	clearPoll   = 20 * time.Millisecond
)

// mayFollow says, of a queue that is to be handed over, that word of what left it may go with it: as with every other page of a
// queue, once what was put elsewhere in the same commits is cleared. Of other databases it says so at once.
func (n *Node) mayFollow(ctx context.Context, db note.DatabaseID) bool {
	n.mu.Lock()
	h := n.held[db]
	queue := h != nil && h.queue
	n.mu.Unlock()
	if !queue {
		return true
	}
	seq := n.store.Now().Seq
	poll := func() <-chan struct{} {
		c := make(chan struct{})
		n.env.Clock.AfterFunc(clearPoll, func() { close(c) })
		return c
	}
	return n.opt.Await(ctx, clearWithin, poll, func() bool { return n.cleared(seq) })
}

// safeFor looks through the databases of a dead mate whose replicator has not read so far.
func (n *Node) safeFor(r *replicator, seq uint64, safe func(note.DatabaseID) bool) bool {
	n.mu.Lock()
	var list []note.DatabaseID
	for _, db := range n.heldIDs() {
		if e := n.catalog.entries[db]; e != nil && r.mine(db) && !n.held[db].queue {
			if _, on := e.On(r.mate); on {
				list = append(list, db)
			}
		}
	}
	n.mu.Unlock()
	return !slices.ContainsFunc(list, func(db note.DatabaseID) bool { return !safe(db) })
}

// compareAtOnce is how many databases one step of a sweep compares.
const compareAtOnce = 256

// compare implements job.
func (n *Node) compare(ctx context.Context, r *replicator, from note.DatabaseID) (next note.DatabaseID, err error) {
	n.mu.Lock()
	var list []note.DatabaseID
	all := n.heldIDs()
	i, _ := slices.BinarySearch(all, from)
	for ; i < len(all); i++ {
		db := all[i]
		e := n.catalog.entries[db]
		if e == nil || !r.mine(db) {
			continue
		}
		if _, on := e.On(r.mate); !on {
			continue
		}
		if len(list) == compareAtOnce {
			next = db
			break
		}
		list = append(list, db)
	}
	n.mu.Unlock()
	if err := n.exchange(ctx, r.mate, list); err != nil {
		return from, err
	}
	for _, db := range list {
		n.mu.Lock()
		h := n.held[db]
		follows, queue := h != nil && !h.leads, h != nil && h.queue
		n.mu.Unlock()
		if !follows {
			continue
		}
		if waits, err := n.unnumbered(ctx, db); err != nil || waits {
			r.touch(db, queue)
		}
	}
	return next, nil
}

// unnumbered says whether a replica has something that its home has not confirmed.
func (n *Node) unnumbered(ctx context.Context, db note.DatabaseID) (yes bool, err error) {
	err = n.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		c, err := r.Replicable(store.ChangeQuery{Limit: 1, Max: 1, Bare: true})
		if err == nil {
			yes = len(c.Notes) > 0 || c.Info != nil
		}
		return err
	})
	return yes, err
}

// send implements job.
func (n *Node) send(ctx context.Context, mate note.UNID, db note.DatabaseID, until note.ModSeq, afresh bool) error {
	if yes, _ := n.wants(mate, db); !yes {
		return nil
	}
	n.mu.Lock()
	h, p := n.held[db], n.peers[mate]
	out := h == nil || h.out
	leads := h != nil && h.leads
	alone := h != nil && !h.shared
	n.mu.Unlock()
	if out || alone || p == nil {
		return nil // damaged: nothing can be read; it is put in line again when it is back
	}
	if !leads {
		// Most of what a follower sees change was dictated by its home.
		if waits, err := n.unnumbered(ctx, db); err != nil || !waits && !n.relays(db, mate) {
			return err
		}
	}
	local := replica.Side(n.reps.As(note.System))
	var bounded upTo
	if until != 0 && leads {
		bounded = upTo{Side: local, until: until}
		local = &bounded
	}
	var before store.Position
	if leads {
		var err error
		if before, err = n.stood(ctx, db); err != nil {
			return err
		}
	}
	known := p.known.of(db)
	if afresh {
		known.Forget()
	}
	res, err := replica.Send(ctx, local, n.remote(mate), db, replica.SendOptions{
		From: n.name(n.self), To: n.name(mate), Known: known, Objects: objectsAtOnce / maxLanes, Room: p.room,
	})
	n.reps.Done(err)
	n.setAside(mate, db, res.Refused, err)
	if len(res.Refused) > 0 {
		n.log(slog.LevelWarn, "notes are set aside", "database", db.String(), "mate", n.name(mate), "notes", len(res.Refused), "first", res.Refused[0].UNID.String(), "why", res.Refused[0].Text)
	}
	switch {
	case err == nil && leads && (until == 0 || before.Last <= until && !bounded.beyond):
		n.has(mate, db, &before)
		return nil
	case err == nil:
		return nil
	case errors.Is(err, bus.ErrNoServer), errors.Is(err, bus.ErrNoAnswer), errors.Is(err, bus.ErrClosed):
		return fmt.Errorf("%w: %s: %w", errMate, n.name(mate), err)
	case errors.Is(err, replica.ErrSplit), errors.Is(err, store.ErrParted), errors.Is(err, store.ErrNotHome):
		// What we know of who leads is out of date.
		if err := n.exchange(ctx, mate, []note.DatabaseID{db}); err != nil {
			return err
		}
		n.wake.fire()
	}
	return err
}

// has notes that a mate that follows us has everything up to a position.
func (n *Node) has(mate note.UNID, db note.DatabaseID, pos *store.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	if h == nil {
		return
	}
	if t, ok := h.told[mate]; ok && !t.missing && !t.leads && behind(&t.pos.Ledger, &pos.Ledger) {
		slot := t.pos.Slot
		t.pos, t.good = *pos, *pos
		t.pos.Slot, t.good.Slot = slot, slot
		h.told[mate] = t
	}
}

// relays says whether a mate is to get from a follower what the home does not bring: nobody leads now, and it
// is behind.
func (n *Node) relays(db note.DatabaseID, mate note.UNID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.held[db]
	if h == nil || !h.route.IsZero() {
		return false
	}
	t, ok := h.told[mate]
	return ok && behind(&t.pos.Ledger, &h.pos.Ledger)
}

// upTo is a Side whose ledger ends at a MODSEQ.
type upTo struct {
	replica.Side
	until note.ModSeq
	// beyond: the mate knew later ones already; whether they are ours was not looked at.
	beyond bool
}

// Ledger implements replica.Side.
func (u *upTo) Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID, most int64) (*replica.LedgerPage, error) {
	if since.Last >= u.until && len(again) == 0 {
		u.beyond = u.beyond || since.Last > u.until
		return &replica.LedgerPage{LedgerPage: store.LedgerPage{From: since.Last, To: since.Last}}, nil
	}
	p, err := u.Side.Ledger(ctx, db, since, again, most)
	if err != nil || p.To <= u.until {
		return p, err
	}
	p.Notes = slices.DeleteFunc(p.Notes, func(x store.Numbered) bool { return x.Mod > u.until })
	p.Expunged = slices.DeleteFunc(p.Expunged, func(x store.Expunge) bool { return x.Mod > u.until })
	p.To, p.More, p.Seq = u.until, true, 0
	return p, nil
}

// remote is the Side of the replicas on a mate.
func (n *Node) remote(mate note.UNID) *replica.Remote { return replica.NewRemote(&carrier{n, mate}) }

// carrier moves what replicas say to each other over the bus: requests where they are small enough, else
// streams.
type carrier struct {
	n    *Node
	mate note.UNID
}

// busRoom is what a request of replication may take on the bus, with its verb.
const busRoom = bus.MaxBody - 1024

func wrapVerb(verb string, body []byte) []byte {
	out := make([]byte, 0, 1+len(verb)+len(body))
	return append(append(append(out, byte(len(verb))), verb...), body...)
}

func unwrapVerb(b []byte) (verb string, body []byte, err error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, errFormat
	}
	k := 1 + int(b[0])
	return string(b[1:k]), b[k:], nil
}

// Call implements replica.Carrier.
func (c *carrier) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	ctx, cancel := c.n.limited(ctx)
	defer cancel()
	if len(body) > busRoom {
		return c.stream(ctx, verb, body)
	}
	answer, err := c.n.bus.Request(ctx, c.mate, verbReplica, wrapVerb(verb, body))
	if errors.Is(err, bus.ErrTooBig) {
		return c.stream(ctx, verb, body)
	}
	return answer, remoteError(err)
}

// remoteError gives a refusal its kind back.
func remoteError(err error) error {
	var r *bus.RemoteError
	if errors.As(err, &r) && r.Code != bus.CodeNoVerb && r.Code != bus.CodeStranger && r.Code != bus.CodeBusy {
		return &replica.RemoteError{Kind: r.Code, Text: r.Text}
	}
	return err
}

// stream sends a request that is too large for the bus.
func (c *carrier) stream(ctx context.Context, verb string, body []byte) ([]byte, error) {
	s, err := c.n.bus.Stream(ctx, c.mate, verbCall, wrapVerb(verb, nil))
	if err != nil {
		return nil, remoteError(err)
	}
	defer s.Close()
	defer deadline(ctx, s)()
	if _, err := s.Write(body); err != nil {
		return nil, remoteError(err)
	}
	if err := s.CloseWrite(); err != nil {
		return nil, remoteError(err)
	}
	answer, err := readAll(s)
	return answer, remoteError(err)
}

// maxCall bounds what a request of replication may be: a note of the greatest size, and a little.
const maxCall = replica.MaxNote + 1<<20

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxCall+1))
	if err == nil && len(b) > maxCall {
		err = fmt.Errorf("%w: over %d bytes", replica.ErrTooLarge, maxCall)
	}
	return b, err
}

// deadline closes a stream when ctx ends first.
func deadline(ctx context.Context, s io.Closer) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.Close() })
}

// Get implements replica.Carrier.
func (c *carrier) Get(ctx context.Context, verb string, head []byte) (io.ReadCloser, error) {
	s, err := c.n.bus.Stream(ctx, c.mate, verbGet, wrapVerb(verb, head))
	if err != nil {
		return nil, remoteError(err)
	}
	if err := s.CloseWrite(); err != nil {
		return nil, errors.Join(remoteError(err), s.Close())
	}
	return &incoming{s, deadline(ctx, s)}, nil
}

// incoming is a stream that is read.
type incoming struct {
	bus.Stream
	stop func() bool
}

func (i *incoming) Read(p []byte) (int, error) {
	k, err := i.Stream.Read(p)
	if err != nil && err != io.EOF {
		err = remoteError(err)
	}
	return k, err
}

func (i *incoming) Close() error {
	i.stop()
	return i.Stream.Close()
}

// Put implements replica.Carrier.
func (c *carrier) Put(ctx context.Context, verb string, head []byte, body io.Reader) error {
	s, err := c.n.bus.Stream(ctx, c.mate, verbPut, wrapVerb(verb, head))
	if err != nil {
		return remoteError(err)
	}
	defer s.Close()
	defer deadline(ctx, s)()
	if _, err := io.Copy(s, body); err != nil {
		return remoteError(err)
	}
	if err := s.CloseWrite(); err != nil {
		return remoteError(err)
	}
	_, err = readAll(s) // the other side says nothing, and ends when it has taken all
	return remoteError(err)
}
