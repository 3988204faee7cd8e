package cluster

import (
	"context"
	"errors"
	"io"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// served handles replication requests of mates.
type served struct {
	*core
	positions *positions
}

// side returns the local replicas as a mate sees them.
func (s *served) side(from note.UNID) replica.Served {
	return replica.Served{Side: &guard{s.reps.As(note.System), s, from}}
}

// refusal converts an error of replication into an error answer for the bus.
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

func (s *served) answerReplica(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	verb, body, err := unwrapVerb(body)
	if err != nil {
		return nil, err
	}
	answer, err := s.side(from).Call(ctx, verb, body)
	return answer, refusal(err)
}

func (s *served) serveCall(ctx context.Context, from bus.ServerID, header []byte, x bus.Stream) error {
	verb, _, err := unwrapVerb(header)
	if err != nil {
		return err
	}
	body, err := readAll(x)
	if err != nil {
		return err
	}
	answer, err := s.side(from).Call(ctx, verb, body)
	if err != nil {
		return refusal(err)
	}
	_, err = x.Write(answer)
	return err
}

func (s *served) serveGet(ctx context.Context, from bus.ServerID, header []byte, x bus.Stream) error {
	verb, head, err := unwrapVerb(header)
	if err != nil {
		return err
	}
	r, err := s.side(from).Get(ctx, verb, head)
	if err != nil {
		return refusal(err)
	}
	_, err = io.Copy(x, r)
	return refusal(errors.Join(err, r.Close()))
}

func (s *served) servePut(ctx context.Context, from bus.ServerID, header []byte, x bus.Stream) error {
	verb, head, err := unwrapVerb(header)
	if err != nil {
		return err
	}
	return refusal(s.side(from).Put(ctx, verb, head, x))
}

// guard is the Side of the local replicas for one mate. It rejects requests for databases that the mate does not have.
type guard struct {
	replica.Side
	s    *served
	from note.UNID
}

func (g *guard) may(db note.DatabaseID) error { return g.s.mayReplicate(g.from, db) }

// Hello implements replica.Side.
func (g *guard) Hello(ctx context.Context, db note.DatabaseID, by replica.Peer) (replica.Greeting, error) {
	if err := g.may(db); err != nil {
		return replica.Greeting{}, err
	}
	return g.Side.Hello(ctx, db, by)
}

// Ledger implements replica.Side.
func (g *guard) Ledger(
	ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID, most int64,
) (*replica.LedgerPage, error) {
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
		g.s.positions.dictated(g.from, db, p, ack.Position)
	}
	return ack, err
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
func (g *guard) Notes(
	ctx context.Context, db note.DatabaseID, asks []replica.Ask, most int64,
) (*replica.ChangePage, error) {
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
func (g *guard) Object(
	ctx context.Context, db note.DatabaseID, of note.UNID, ref store.ObjectRef, from uint64,
) (io.ReadCloser, error) {
	if err := g.may(db); err != nil {
		return nil, err
	}
	return g.Side.Object(ctx, db, of, ref, from)
}

// PutObject implements replica.Side.
func (g *guard) PutObject(
	ctx context.Context, db note.DatabaseID, ref store.ObjectRef, from uint64, r io.Reader,
) error {
	if err := g.may(db); err != nil {
		return err
	}
	return g.Side.PutObject(ctx, db, ref, from, r)
}
