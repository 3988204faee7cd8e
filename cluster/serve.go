package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// handle answers the verbs of the cluster.
func (n *Node) handle() {
	n.bus.Handle(verbHello, n.answerHello)
	n.bus.Handle(verbPositions, n.positions)
	n.bus.Handle(verbYield, n.yield)
	n.bus.Handle(verbLead, n.answerLead)
	n.bus.Handle(verbWhere, n.answerWhere)
	n.bus.Handle(verbOpen, n.answerOpen)
	n.bus.Handle(verbJoin, n.answerJoin)
	n.bus.Handle(verbInfo, n.answerInfo)
	n.bus.Handle(verbFresh, n.answerFresh)
	n.bus.Handle(verbObject, n.answerObject)
	n.bus.Handle(verbActivity, n.answerActivity)
	n.bus.Handle(verbReplica, n.answerReplica)
	n.bus.HandleStream(verbCall, n.serveCall)
	n.bus.HandleStream(verbGet, n.serveGet)
	n.bus.HandleStream(verbPut, n.servePut)
	n.bus.HandleStream(verbObject, n.serveObject)
}

// answerHello takes up what a mate says of itself and says the same of us.
func (n *Node) answerHello(_ context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	said, err := readHello(body)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[from]
	if p == nil {
		return nil, bus.Refuse(codeDenied, ErrNotMember.Error())
	}
	n.met(p, &said)
	mine := n.hello(p)
	return appendHello(&mine), nil
}

// mayReplicate refuses everyone who holds no replica of a database.
func (n *Node) mayReplicate(from note.UNID, db note.DatabaseID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.members[from]; !ok {
		return bus.Refuse(codeDenied, ErrNotMember.Error())
	}
	if e := n.catalog.entries[db]; e != nil {
		if _, on := e.On(from); on {
			return nil
		}
	}
	if n.everywhere(db) {
		return nil // a member whose document has not come yet
	}
	return bus.Refuse(codeDenied, "the server has no replica of database "+db.String())
}

// side is what a mate sees of the replicas here.
func (n *Node) side(from note.UNID) replica.Served {
	return replica.Served{Side: &guard{n.reps.As(note.System), n, from}}
}

// refusal gives an error of replication to the bus.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	var r *bus.RemoteError
	if errors.As(err, &r) {
		return err
	}
	if code, _ := bus.Refusal(err); code == codeDenied {
		return err
	}
	return bus.Refuse(replica.ErrorKind(err), err.Error())
}

func (n *Node) answerReplica(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	verb, body, err := unwrapVerb(body)
	if err != nil {
		return nil, err
	}
	answer, err := n.side(from).Call(ctx, verb, body)
	return answer, refusal(err)
}

func (n *Node) serveCall(ctx context.Context, from bus.ServerID, header []byte, s bus.Stream) error {
	verb, _, err := unwrapVerb(header)
	if err != nil {
		return err
	}
	body, err := readAll(s)
	if err != nil {
		return err
	}
	answer, err := n.side(from).Call(ctx, verb, body)
	if err != nil {
		return refusal(err)
	}
	_, err = s.Write(answer)
	return err
}

func (n *Node) serveGet(ctx context.Context, from bus.ServerID, header []byte, s bus.Stream) error {
	verb, head, err := unwrapVerb(header)
	if err != nil {
		return err
	}
	r, err := n.side(from).Get(ctx, verb, head)
	if err != nil {
		return refusal(err)
	}
	_, err = io.Copy(s, r)
	return refusal(errors.Join(err, r.Close()))
}

func (n *Node) servePut(ctx context.Context, from bus.ServerID, header []byte, s bus.Stream) error {
	verb, head, err := unwrapVerb(header)
	if err != nil {
		return err
	}
	return refusal(n.side(from).Put(ctx, verb, head, s))
}

// guard is the Side of the replicas here for one mate: those that it has too.
type guard struct {
	replica.Side
	n    *Node
	from note.UNID
}

func (g *guard) may(db note.DatabaseID) error { return g.n.mayReplicate(g.from, db) }

// Hello implements replica.Side.
func (g *guard) Hello(ctx context.Context, db note.DatabaseID, by replica.Peer) (replica.Greeting, error) {
	if err := g.may(db); err != nil {
		return replica.Greeting{}, err
	}
	return g.Side.Hello(ctx, db, by)
}

// Ledger implements replica.Side.
func (g *guard) Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID, most int64) (*replica.LedgerPage, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Ledger(ctx, db, since, again, most)
}

// ApplyLedger implements replica.Side.
func (g *guard) ApplyLedger(ctx context.Context, db note.DatabaseID, p *replica.LedgerPage) (replica.Ack, error) {
	if err := g.may(db); err != nil {
		return replica.Ack{}, err
	}
	ack, err := g.Side.ApplyLedger(ctx, db, p)
	if err == nil {
		g.n.dictated(g.from, db, p, ack.Position)
	}
	return ack, err
}

// dictated takes up where a follower stands after a page.
func (n *Node) dictated(from note.UNID, db note.DatabaseID, p *replica.LedgerPage, pos store.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, e := n.held[db], n.catalog.entries[db]
	if h == nil || e == nil {
		return
	}
	if !h.leads && !h.busy {
		h.pos = pos
	}
	// Who brings its own numbers leads.
	if r, on := e.On(from); on && p.Of.Last.Home() == r.Slot && p.Of.Slot == r.Slot && !p.Of.Away {
		t := h.told[from]
		if !t.leads || lineOf(&t.pos.Ledger).before(lineOf(&p.Of.Ledger)) {
			n.wake.fire()
		}
		h.told[from] = toldAt{told: told{db: db, leads: true, slot: r.Slot, pos: p.Of}, at: n.now(), good: p.Of}
	}
}

// Heads implements replica.Side.
func (g *guard) Heads(ctx context.Context, db note.DatabaseID, q replica.Query) (replica.HeadPage, error) {
	if err := g.may(db); err != nil {
		return replica.HeadPage{}, err
	}
	return g.Side.Heads(ctx, db, q)
}

// Wants implements replica.Side.
func (g *guard) Wants(ctx context.Context, db note.DatabaseID, heads []replica.Head) ([]replica.Want, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Wants(ctx, db, heads)
}

// Notes implements replica.Side.
func (g *guard) Notes(ctx context.Context, db note.DatabaseID, asks []replica.Ask, most int64) (*replica.ChangePage, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Notes(ctx, db, asks, most)
}

// Apply implements replica.Side.
func (g *guard) Apply(ctx context.Context, db note.DatabaseID, p *replica.ChangePage) (replica.Ack, error) {
	if err := g.may(db); err != nil {
		return replica.Ack{}, err
	}
	return g.Side.Apply(ctx, db, p)
}

// Graves implements replica.Side.
func (g *guard) Graves(ctx context.Context, db note.DatabaseID, unids []note.UNID) ([]note.UNID, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Graves(ctx, db, unids)
}

// Bury implements replica.Side.
func (g *guard) Bury(ctx context.Context, db note.DatabaseID, by replica.Peer, unids []note.UNID) (replica.Ack, error) {
	if err := g.may(db); err != nil {
		return replica.Ack{}, err
	}
	return g.Side.Bury(ctx, db, by, unids)
}

// Mark implements replica.Side.
func (g *guard) Mark(ctx context.Context, db note.DatabaseID, m replica.Mark) error {
	if err := g.may(db); err != nil {
		return err
	}
	return g.Side.Mark(ctx, db, m)
}

// Lacks implements replica.Side.
func (g *guard) Lacks(ctx context.Context, db note.DatabaseID, refs []store.ObjectRef) ([]replica.Lack, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Lacks(ctx, db, refs)
}

// Object implements replica.Side.
func (g *guard) Object(ctx context.Context, db note.DatabaseID, of note.UNID, ref store.ObjectRef, from uint64) (io.ReadCloser, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Object(ctx, db, of, ref, from)
}

// PutObject implements replica.Side.
func (g *guard) PutObject(ctx context.Context, db note.DatabaseID, ref store.ObjectRef, from uint64, r io.Reader) error {
	if err := g.may(db); err != nil {
		return err
	}
	return g.Side.PutObject(ctx, db, ref, from, r)
}

// answerLead takes a database that its home hands over.
func (n *Node) answerLead(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	q, err := readRequest(body)
	if err != nil {
		return nil, err
	}
	if err := n.mayReplicate(from, q.db); err != nil {
		return nil, err
	}
	n.mu.Lock()
	h, e, p := n.held[q.db], n.catalog.entries[q.db], n.peers[from]
	var refuse string
	switch {
	case h == nil || e == nil || p == nil:
		refuse = "the replica is not here"
	case h.leads:
		refuse = "it is led here already"
	case h.out:
		refuse = "the replica is out of service"
	case p.hello.boot != 0 && p.hello.boot != q.boot:
		refuse = "asked before the server started anew"
	}
	if r, on := e.on(from); refuse == "" && (!on || r.Slot != q.pos.Slot || q.pos.Last.Home() != q.pos.Slot) {
		refuse = "the server was not its home"
	}
	n.mu.Unlock()
	if refuse != "" {
		return nil, bus.Refuse(codeLater, refuse)
	}
	if !n.take(q.db) {
		return nil, bus.Refuse(codeBusy, ErrBusy.Error())
	}
	err = n.store.Lead(ctx, q.db, store.LeadOptions{HandOver: &q.pos})
	pos, err2 := n.stood(ctx, q.db)
	n.release(q.db)
	if err := errors.Join(err, err2); err != nil {
		return nil, bus.Refuse(codeLater, err.Error())
	}
	n.mu.Lock()
	if h := n.held[q.db]; h != nil { // who hands over leads no more
		h.told[from] = toldAt{told: told{db: q.db, slot: q.pos.Slot, pos: q.pos}, at: n.now(), good: q.pos}
	}
	n.mu.Unlock()
	n.changedHome(q.db, resume, pos)
	n.wake.fire()
	return appendPosition([]byte{Version}, &pos), nil
}

// on is On of an entry that may not be there.
func (e *Entry) on(server note.UNID) (Replica, bool) {
	if e == nil {
		return Replica{}, false
	}
	return e.On(server)
}

// answerObject says how large an object is that is stored here.
func (n *Node) answerObject(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	var d note.Digest
	if len(body) != len(d) {
		return nil, errFormat
	}
	copy(d[:], body)
	size, err := n.store.ObjectSize(d)
	if err != nil {
		return nil, refusal(err)
	}
	return binary.BigEndian.AppendUint64(nil, size), nil
}

// objectStep is how much of an object is read at a time.
const objectStep = 256 << 10

// serveObject gives an object to a member that has lost it.
func (n *Node) serveObject(_ context.Context, _ bus.ServerID, header []byte, s bus.Stream) error {
	var d note.Digest
	if len(header) != len(d) {
		return errFormat
	}
	copy(d[:], header)
	for off := int64(0); ; off += objectStep {
		b, err := n.store.ObjectBytes(nil, d, off, objectStep)
		if err != nil {
			return refusal(err)
		}
		if _, err := s.Write(b); err != nil || len(b) < objectStep {
			return err
		}
	}
}
