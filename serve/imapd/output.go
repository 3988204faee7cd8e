package imapd

import (
	"bytes"
	"slices"

	"doublet/serve/listen"
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
	// pageSize is the number of bytes of output from which on session.extend begins a new page. An output that grew in
	// one slice would be copied again and again, and its memory would be in use several times until a collection.
	pageSize = 128 << 10
	// itemName and literalHead are upper bounds for the bytes around a text in a FETCH response: the name of an item
	// without a section, and the announcement of a literal.
	itemName    = 32
	literalHead = 32
)

// output collects the responses of a command. Its Buffer is the page that is written now; long output has full pages
// before it.
type output struct {
	listen.Buffer
	holes []hole // in the current page
	full  []page
	bytes int64 // capacity of the full pages
}

// page is a part of the output, with the holes in it.
type page struct {
	listen.Buffer
	holes []hole
}

// mark is a position in the output. It stays valid until the output is sent.
type mark struct{ pages, at, holes int }

// here returns the position at the end of the output.
func (o *output) here() mark { return mark{len(o.full), len(o.B), len(o.holes)} }

// cut removes the output behind a position.
func (o *output) cut(to mark) {
	for len(o.full) > to.pages {
		o.Release()
		last := len(o.full) - 1
		o.Buffer, o.holes = o.full[last].Buffer, o.full[last].holes
		o.full[last] = page{}
		o.full = o.full[:last]
		o.bytes -= int64(cap(o.B))
	}
	o.B, o.holes = o.B[:to.at], o.holes[:to.holes]
}

// turn begins a new page with room for n bytes.
func (o *output) turn(n int) {
	o.full = append(o.full, page{o.Buffer, o.holes})
	o.bytes += int64(cap(o.B))
	o.Buffer, o.holes = listen.Buffer{}, nil
	o.Take()
	o.B = slices.Grow(o.B, max(n, pageSize))
}

// leave leaves a hole at the end of the output for a piece of a message.
func (o *output) leave(body *store.Stored, p span) {
	o.holes = append(o.holes, hole{len(o.B), body, p})
}

// large reports whether enough output has been collected to send it before the end of the command.
func (o *output) large() bool { return len(o.B) > sendAt || len(o.full) > 0 || len(o.holes) > 0 }

// size returns the memory of the output in bytes.
func (o *output) size() int64 { return o.bytes + int64(cap(o.B)) }

// free returns all memory of the output. The output must have been sent.
func (o *output) free() {
	o.Release()
	*o = output{}
}

// hole marks a position in the output for a piece of a message that is read when it is sent.
// The piece is an IMAP literal: NUL becomes 0x80.
type hole struct {
	at   int // position in its page
	body *store.Stored
	span
}

// flush sends the output. An error is stored and ends the session.
func (s *session) flush() error {
	if s.out.B == nil {
		return s.failed
	}
	for i := range s.out.full {
		p := &s.out.full[i]
		s.sendPage(p.B, p.holes)
		p.Release()
		*p = page{}
	}
	s.sendPage(s.out.B, s.out.holes)
	clear(s.out.holes)
	s.out.holes, s.out.full, s.out.bytes = s.out.holes[:0], nil, 0
	s.out.B = s.out.B[:0]
	return s.failed
}

func (s *session) sendPage(text []byte, holes []hole) {
	sent := 0
	for i := range holes {
		h := &holes[i]
		s.send(text[sent:h.at])
		sent = h.at
		s.stream(h)
	}
	s.send(text[sent:])
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
		hideNUL(b)
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
	s.out.free()
	s.scratch.Release()
	s.giveRoom()
}
