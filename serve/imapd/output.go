package imapd

import (
	"bytes"

	"doublet/store"
)

const (
	// sendAt is the number of bytes at which output is sent before the end of a command.
	sendAt = 48 << 10
	// copyMost is the maximum size of a piece of a message that is copied into the output during a read of the store. A
	// longer piece is streamed after the read.
	copyMost = 32 << 10
	// piece is the number of bytes of a message that are read at once when streaming.
	piece = 256 << 10
)

// hole marks a position in the output for a piece of a message that is read when it is sent.
type hole struct {
	at      int // position in session.out.B
	body    *store.Stored
	off, n  int64
	literal bool // an IMAP literal: NUL becomes 0x80
}

// flush sends the output. An error is stored and ends the session.
func (s *session) flush() error {
	if s.out.B == nil {
		return s.failed
	}
	sent := 0
	for i := range s.holes {
		h := &s.holes[i]
		s.send(s.out.B[sent:h.at])
		sent = h.at
		s.stream(h)
	}
	s.send(s.out.B[sent:])
	clear(s.holes)
	s.holes = s.holes[:0]
	s.out.B = s.out.B[:0]
	return s.failed
}

func (s *session) send(p []byte) {
	if s.failed == nil && len(p) > 0 {
		s.failed = s.home.Waits(s.c.Context(), func() error {
			_, err := s.c.Write(p)
			return err
		})
	}
}

// stream sends a piece of a message. If it cannot be read to its end, the connection is closed, because nothing else
// tells the client that the message is incomplete.
func (s *session) stream(h *hole) {
	if s.failed != nil {
		return
	}
	s.scratch.Take()
	for off, end := h.off, h.off+h.n; off < end && s.failed == nil; {
		n := min(piece, end-off)
		b, err := h.body.AppendRange(s.scratch.B[:0], off, n)
		s.scratch.B = b[:0]
		if err != nil || int64(len(b)) != n {
			s.srv.env.Log.Error("imapd: cannot read the rest of a message", "account", s.account.Name, "err", err)
			s.failed = errCut
			return
		}
		if h.literal {
			hideNUL(b)
		}
		s.send(b)
		off += n
	}
}

// hideNUL replaces NUL, which is not allowed in literals, with 0x80.
func hideNUL(b []byte) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return
		}
		b[i] = 0x80
		b = b[i+1:]
	}
}

// release returns the buffers to their pool. The output must have been sent.
func (s *session) release() {
	s.out.Release()
	s.scratch.Release()
	s.giveRoom()
	s.holes = nil
}
