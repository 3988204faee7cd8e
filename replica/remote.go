package replica

import (
	"context"
	"io"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
)

// Carrier transports requests to the replicas of another server. Requests and answers may be slightly larger than
// MaxNote; if the transport has a smaller limit, the Carrier has to use another way for larger ones. An error returned
// by the other side is a *RemoteError.
type Carrier interface {
	// Call sends a request and returns the answer.
	Call(ctx context.Context, verb string, body []byte) ([]byte, error)
	// Get opens a byte stream from the other side.
	Get(ctx context.Context, verb string, head []byte) (io.ReadCloser, error)
	// Put sends a byte stream to the other side. It returns when the other side has received all of it.
	Put(ctx context.Context, verb string, head []byte, body io.Reader) error
}

// Verbs of a Carrier.
const (
	verbHello       = "hello"
	verbLedger      = "ledger"
	verbApplyLedger = "apply-ledger"
	verbHeads       = "heads"
	verbWants       = "wants"
	verbNotes       = "notes"
	verbApply       = "apply"
	verbGraves      = "graves"
	verbBury        = "bury"
	verbMark        = "mark"
	verbLacks       = "lacks"
	verbObject      = "object"
	verbPutObject   = "put-object"
)

// Remote is a Side on another server, reached through a Carrier.
type Remote struct {
	c Carrier
	// v is the version that both sides use, once Hello has negotiated it.
	v atomic.Uint32
}

// NewRemote returns the Side behind a Carrier.
func NewRemote(c Carrier) *Remote { return &Remote{c: c} }

// begin returns the header of every request: version and database.
func (x *Remote) begin(db note.DatabaseID) []byte {
	v := uint8(x.v.Load())
	if v == 0 {
		v = Oldest // Hello has not been called yet
	}
	return appendUint64([]byte{v}, uint64(db))
}

func (x *Remote) call(ctx context.Context, verb string, body []byte) (*reader, error) {
	answer, err := x.c.Call(ctx, verb, body)
	if err != nil {
		return nil, err
	}
	return read(answer)
}

// Hello implements Side.
func (x *Remote) Hello(ctx context.Context, db note.DatabaseID, by Peer) (Greeting, error) {
	answer, err := x.c.Call(ctx, verbHello, appendPeer(x.begin(db), by))
	if err != nil {
		return Greeting{}, err
	}
	g, err := ReadGreeting(answer)
	if err == nil {
		x.v.Store(uint32(min(Version, g.Version)))
	}
	return g, err
}

// Ledger implements Side.
func (x *Remote) Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID,
	most int64) (*LedgerPage, error) {
	body := appendUvarint(appendUNIDs(appendPosition(x.begin(db), &since), again), uint64(most))
	r, err := x.call(ctx, verbLedger, body)
	if err != nil {
		return nil, err
	}
	p := r.ledgerPage()
	return p, r.end()
}

// ApplyLedger implements Side.
func (x *Remote) ApplyLedger(ctx context.Context, db note.DatabaseID, p *LedgerPage) (Ack, error) {
	body := x.begin(db)
	return x.acked(ctx, verbApplyLedger, p.append(body, body[0]))
}

func (x *Remote) acked(ctx context.Context, verb string, body []byte) (Ack, error) {
	r, err := x.call(ctx, verb, body)
	if err != nil {
		return Ack{}, err
	}
	a := r.ack()
	return a, r.end()
}

// Heads implements Side.
func (x *Remote) Heads(ctx context.Context, db note.DatabaseID, q Query) (HeadPage, error) {
	r, err := x.call(ctx, verbHeads, appendQuery(x.begin(db), &q))
	if err != nil {
		return HeadPage{}, err
	}
	p := r.headPage()
	return p, r.end()
}

// Wants implements Side.
func (x *Remote) Wants(ctx context.Context, db note.DatabaseID, heads []Head) ([]Want, error) {
	r, err := x.call(ctx, verbWants, appendHeads(x.begin(db), heads))
	if err != nil {
		return nil, err
	}
	list := r.wants()
	if err := r.end(); err != nil || len(list) != len(heads) {
		return nil, formatError("wants")
	}
	return list, nil
}

// Notes implements Side.
func (x *Remote) Notes(ctx context.Context, db note.DatabaseID, asks []Ask, most int64) (*ChangePage, error) {
	r, err := x.call(ctx, verbNotes, appendUvarint(appendAsks(x.begin(db), asks), uint64(most)))
	if err != nil {
		return nil, err
	}
	p := r.changePage()
	if err := r.end(); err != nil || p.Left > len(asks) || len(p.Notes) > len(asks) {
		return nil, formatError("notes")
	}
	return p, nil
}

// Apply implements Side.
func (x *Remote) Apply(ctx context.Context, db note.DatabaseID, p *ChangePage) (Ack, error) {
	return x.acked(ctx, verbApply, p.append(x.begin(db)))
}

// Graves implements Side.
func (x *Remote) Graves(ctx context.Context, db note.DatabaseID, unids []note.UNID) ([]note.UNID, error) {
	r, err := x.call(ctx, verbGraves, appendUNIDs(x.begin(db), unids))
	if err != nil {
		return nil, err
	}
	list := r.unids()
	return list, r.end()
}

// Bury implements Side.
func (x *Remote) Bury(ctx context.Context, db note.DatabaseID, by Peer, unids []note.UNID) (Ack, error) {
	return x.acked(ctx, verbBury, appendUNIDs(appendPeer(x.begin(db), by), unids))
}

// Mark implements Side.
func (x *Remote) Mark(ctx context.Context, db note.DatabaseID, m Mark) error {
	_, err := x.call(ctx, verbMark, m.append(x.begin(db)))
	return err
}

// Lacks implements Side.
func (x *Remote) Lacks(ctx context.Context, db note.DatabaseID, refs []store.ObjectRef) ([]Lack, error) {
	r, err := x.call(ctx, verbLacks, appendRefs(x.begin(db), refs))
	if err != nil {
		return nil, err
	}
	list := r.lacks()
	return list, r.end()
}

// Object implements Side.
func (x *Remote) Object(ctx context.Context, db note.DatabaseID, of note.UNID, ref store.ObjectRef,
	from uint64) (io.ReadCloser, error) {
	head := appendUvarint(appendRef(append(x.begin(db), of[:]...), ref), from)
	return x.c.Get(ctx, verbObject, head)
}

// PutObject implements Side.
func (x *Remote) PutObject(ctx context.Context, db note.DatabaseID, ref store.ObjectRef, from uint64,
	r io.Reader) error {
	return x.c.Put(ctx, verbPutObject, appendUvarint(appendRef(x.begin(db), ref), from), r)
}

// Served is a Carrier that passes requests to a Side. A transport calls it for the requests that arrive. Errors are
// those of the Side; the transport sends their kind and text.
type Served struct {
	Side Side
	// Allow, if set, returns an error for a database that is not replicated through this transport.
	Allow func(note.DatabaseID) error
}

// open reads the header of a request.
func (s Served) open(body []byte) (*reader, note.DatabaseID, error) {
	r, err := read(body)
	if err != nil {
		return nil, 0, err
	}
	db := note.DatabaseID(r.Uint64())
	if s.Allow != nil && !r.Bad {
		err = s.Allow(db)
	}
	return r, db, err
}

// Call implements Carrier.
func (s Served) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	r, db, err := s.open(body)
	if err != nil {
		return nil, err
	}
	out := []byte{r.v}
	switch verb {
	case verbHello:
		by := r.peer()
		if err := r.end(); err != nil {
			return nil, err
		}
		g, err := s.Side.Hello(ctx, db, by)
		return AppendGreeting(nil, &g), err
	case verbMark:
		m := r.mark()
		if err := r.end(); err != nil {
			return nil, err
		}
		return out, s.Side.Mark(ctx, db, m)
	case verbLedger, verbHeads, verbNotes, verbWants, verbGraves, verbLacks:
		return s.ask(ctx, verb, db, r, out)
	case verbApplyLedger, verbApply, verbBury:
		a, err := s.take(ctx, verb, db, r)
		return a.append(out), err
	}
	return nil, formatError("no verb %.40q", verb)
}

// ask answers the verbs that change nothing.
func (s Served) ask(ctx context.Context, verb string, db note.DatabaseID, r *reader, out []byte) ([]byte, error) {
	switch verb {
	case verbLedger:
		since, again, most := r.position(), r.unids(), int64(min(r.Uvarint(), MaxNote))
		if err := r.end(); err != nil {
			return nil, err
		}
		p, err := s.Side.Ledger(ctx, db, since, again, most)
		if err != nil {
			return nil, err
		}
		return p.append(out, r.v), nil
	case verbHeads:
		q := r.query()
		if err := r.end(); err != nil {
			return nil, err
		}
		p, err := s.Side.Heads(ctx, db, q)
		return appendHeadPage(out, &p), err
	case verbNotes:
		asks, most := r.asks(), int64(min(r.Uvarint(), MaxNote))
		if err := r.end(); err != nil {
			return nil, err
		}
		p, err := s.Side.Notes(ctx, db, asks, most)
		if err != nil {
			return nil, err
		}
		return p.append(out), nil
	case verbWants:
		heads := r.heads()
		if err := r.end(); err != nil {
			return nil, err
		}
		list, err := s.Side.Wants(ctx, db, heads)
		return appendWants(out, list), err
	case verbGraves:
		unids := r.unids()
		if err := r.end(); err != nil {
			return nil, err
		}
		list, err := s.Side.Graves(ctx, db, unids)
		return appendUNIDs(out, list), err
	}
	refs := r.refs()
	if err := r.end(); err != nil {
		return nil, err
	}
	list, err := s.Side.Lacks(ctx, db, refs)
	return appendLacks(out, list), err
}

// take answers the verbs that change the replica.
func (s Served) take(ctx context.Context, verb string, db note.DatabaseID, r *reader) (Ack, error) {
	switch verb {
	case verbApplyLedger:
		p := r.ledgerPage()
		if err := r.end(); err != nil {
			return Ack{}, err
		}
		return s.Side.ApplyLedger(ctx, db, p)
	case verbApply:
		p := r.changePage()
		if err := r.end(); err != nil {
			return Ack{}, err
		}
		return s.Side.Apply(ctx, db, p)
	}
	by, unids := r.peer(), r.unids()
	if err := r.end(); err != nil {
		return Ack{}, err
	}
	return s.Side.Bury(ctx, db, by, unids)
}

// Get implements Carrier.
func (s Served) Get(ctx context.Context, verb string, head []byte) (io.ReadCloser, error) {
	r, db, err := s.open(head)
	if err != nil {
		return nil, err
	}
	of, ref, from := r.UNID(), r.ref(), r.Uvarint()
	if err := r.end(); err != nil {
		return nil, err
	}
	if verb != verbObject {
		return nil, formatError("no verb %.40q", verb)
	}
	return s.Side.Object(ctx, db, of, ref, from)
}

// Put implements Carrier.
func (s Served) Put(ctx context.Context, verb string, head []byte, body io.Reader) error {
	r, db, err := s.open(head)
	if err != nil {
		return err
	}
	ref, from := r.ref(), r.Uvarint()
	if err := r.end(); err != nil {
		return err
	}
	if verb != verbPutObject {
		return formatError("no verb %.40q", verb)
	}
	return s.Side.PutObject(ctx, db, ref, from, body)
}

var (
	_ Side    = (*Remote)(nil)
	_ Carrier = Served{}
)
