package imapd

import (
	"bytes"
	"errors"
	"io"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// append stores a message. Everything that can be known before is said before the client sends it.
//
// Implements: RFC 9051 §6.3.12 APPEND
// Implements: RFC 4315 §3 APPENDUID
// Implements: RFC 3516 §4.4 literal8 with NULs is refused with UNKNOWN-CTE
func (s *session) append(cmd *imap.Command) {
	a := cmd.Args.(*imap.Append)
	flags, err := mailbox.ParseFlags(a.Flags)
	if err == nil {
		_, err = s.file.Folder(s.c.Context(), a.Mailbox)
	}
	if err != nil {
		s.refuseMessage(cmd, func() { s.refuse(cmd, err) })
		return
	}
	if a.Size == 0 {
		s.refuseMessage(cmd, func() { s.no(cmd, "", "Message is empty") })
		return
	}
	if !s.srv.cfg.Memory.Has(a.Size) {
		s.refuseMessage(cmd, func() { s.no(cmd, "LIMIT", busy) })
		return
	}
	raw, held, err := s.readMessage(a.Size)
	defer s.srv.cfg.Memory.Give(held)
	full := errors.Is(err, errMemory)
	if err == nil || full {
		err = s.in.EndMessage()
	}
	s.out.take()
	switch {
	case err != nil:
		s.lineFailed(cmd, err)
	case full:
		s.no(cmd, "LIMIT", busy)
	case bytes.IndexByte(raw, 0) >= 0:
		s.no(cmd, "UNKNOWN-CTE", "Message contains NUL characters")
	default:
		s.deposit(cmd, a, raw, flags)
	}
}

const busy = "Too many messages in progress, try again later"

// errMemory says that a message had no room among those in flight.
var errMemory = errors.New("imapd: too many messages in flight")

// deposit stores a message that has come whole.
func (s *session) deposit(cmd *imap.Command, a *imap.Append, raw []byte, flags mailbox.Flags) {
	date := a.Date
	if date.IsZero() {
		date = s.c.Now()
	}
	validity, uid, err := s.file.Append(s.c.Context(), a.Mailbox, raw, flags, date)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if s.poll(true); s.over {
		return
	}
	b := imap.AppendResultHead(s.out.b, cmd.Tag, imap.OK)
	s.out.b = imap.AppendResultTail(imap.AppendCodeAppendUID(b, validity, uid), "APPEND completed")
}

// refuseMessage says no. A client that waits to send its message sees that instead of the
// invitation; what one sends that does not wait is read and thrown away first.
func (s *session) refuseMessage(cmd *imap.Command, say func()) {
	err := s.in.RefuseMessage()
	s.out.take()
	if err != nil {
		s.out.b = imap.AppendResult(s.out.b, cmd.Tag, imap.NO, "", "Message refused")
		s.lost(err)
		return
	}
	say()
}

// firstRoom is what is taken for a message at once; memory then grows with what arrives, not with
// what was announced.
const firstRoom = 256 << 10

// readMessage reads a message; held is what it has taken of the memory for messages, with an error too.
func (s *session) readMessage(size int64) (b []byte, held int64, err error) {
	r, err := s.in.Message()
	if err != nil {
		return nil, 0, err
	}
	waited := false
	for n := int64(0); n < size; {
		if n == int64(len(b)) {
			room := min(size, max(firstRoom, 2*n))
			if !s.srv.cfg.Memory.Take(room - held) {
				return nil, held, errMemory
			}
			held = room
			next := make([]byte, room)
			copy(next, b)
			b = next
		}
		if !waited && s.in.Buffered() == 0 && len(s.c.Buffered()) == 0 {
			// The time between two pieces, of this wait and of the reads that follow.
			waited = true
			if err := s.flush(); err != nil {
				return nil, held, err
			}
			if err := s.c.Fill(s.srv.cfg.DataTimeout); err != nil {
				return nil, held, err
			}
		}
		k, err := r.Read(b[n:])
		n += int64(k)
		if err != nil && n < size {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, held, err
		}
	}
	return b, held, nil
}
