package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"doublet/client/imap"
	"doublet/mailbox"
	wire "doublet/wire/imap"
)

// bodySink collects the message in a response. It reserves memory when more than unreserved bytes have arrived: a size
// that the other server announces is not data yet.
type bodySink struct {
	ctx    context.Context //nolint:containedctx // the IMAP client calls take back during a request
	memory *reservation
	limit  int64

	b    bytes.Buffer
	size int64 // as announced
	err  error // the reason to discard the message
}

// take begins a message of an announced size.
func (s *bodySink) take(_ []byte, size int64) io.Writer {
	s.reset()
	if size > s.limit {
		s.err = fmt.Errorf("%w: %d bytes, at most %d", mailbox.ErrTooBig, size, s.limit)
		return io.Discard
	}
	s.size = size
	s.b.Grow(int(min(size, unreserved)))
	return s
}

// Write adds data of the message. It fails when the import ends.
func (s *bodySink) Write(p []byte) (int, error) {
	if have := int64(s.b.Len()); have <= unreserved && have+int64(len(p)) > unreserved {
		if err := s.memory.need(s.ctx, s.size); err != nil {
			return 0, err
		}
		s.b.Grow(int(s.size - have))
	}
	return s.b.Write(p)
}

// message returns the message of a response. It gives a large buffer away and copies a small one.
func (s *bodySink) message(d *wire.SectionData) ([]byte, error) {
	switch {
	case d.Nil:
		return nil, errors.New("server does not return it")
	case d.Data != "": // a short message, sent as a string
		return []byte(d.Data), nil
	case s.err != nil:
		return nil, s.err
	case s.b.Cap() <= unreserved:
		return bytes.Clone(s.b.Bytes()), nil
	}
	raw := s.b.Bytes()
	s.b = bytes.Buffer{}
	return raw, nil
}

// reset discards the message. It releases the memory that message and emit have not taken over.
func (s *bodySink) reset() {
	s.memory.release()
	if s.b.Cap() > unreserved {
		s.b = bytes.Buffer{}
	}
	s.b.Reset()
	s.size, s.err = 0, nil
}

// bodies fetches messages, and emits them and removes them from pieces: an emitted piece belongs to the importer. If
// the server fails to return a message, bodies marks its piece and fetches the others again.
func (r *imapReader) bodies(ctx context.Context, folder string, uids []uint32, pieces map[uint32]*piece) error {
	f := bodyFetch{r: r, pieces: pieces, got: map[uint32]bool{}}
	if len(uids) == 0 {
		return nil
	}
	var status *imap.StatusError
	if r.careful != folder {
		err := f.fetch(ctx, uidSet(uids))
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case !errors.As(err, &status) || status.Status == wire.BYE:
			r.careful = folder
			return err
		}
	}
	for _, u := range uids {
		if f.got[u] {
			continue
		}
		err := f.fetch(ctx, uidSet([]uint32{u}))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case errors.As(err, &status) && status.Status != wire.BYE:
			if p := pieces[u]; p != nil {
				p.err = err
			}
		default:
			r.breaks(pieces[u], err)
			return err
		}
	}
	r.careful = ""
	return nil
}

// breaks records that the connection broke when a message was requested. p is nil if the message came before.
func (r *imapReader) breaks(p *piece, err error) {
	switch {
	case p == nil:
	case r.broke[p.unid]:
		r.bad[p.unid] = fmt.Errorf("server closes the connection on request: %w", err)
	default:
		r.broke[p.unid] = true // the first break may be a coincidence
	}
}

// bodyFetch fetches messages. got holds those that came.
type bodyFetch struct {
	r      *imapReader
	pieces map[uint32]*piece
	got    map[uint32]bool
}

func (f *bodyFetch) fetch(ctx context.Context, set wire.Set) error {
	r := f.r
	r.sink.reset()
	return r.client.Fetch(&wire.Fetch{Target: wire.Target{Set: set}, Items: bodyItems}, true,
		func(d *wire.FetchData) error {
			defer r.sink.reset() // for a message that is not emitted
			p := f.pieces[d.UID]
			if p == nil || f.got[d.UID] || len(d.Sections) == 0 {
				return nil // a flag change by another client
			}
			f.got[d.UID] = true
			r.received++
			if p.raw, p.err = r.sink.message(&d.Sections[0]); p.err != nil {
				return nil
			}
			delete(f.pieces, d.UID)
			return r.im.emit(ctx, p)
		}, nil)
}
