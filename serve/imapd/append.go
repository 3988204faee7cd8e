package imapd

import (
	"bytes"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"errors"
	"io"

	"doublet/mailbox"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// append stores messages. It rejects a message as early as possible, before the client sends it.
//
// Implements: RFC 9051 §6.3.12 APPEND
// Implements: RFC 4315 §3 APPENDUID
// Implements: RFC 6855 §4 APPEND UTF8
// Implements: RFC 3502 §6.3.11 MULTIAPPEND, all messages or none
// Implements: RFC 3516 §4.3 APPEND of literal8
func (s *session) append(cmd *imap.Command) {
	a := cmd.Args.(*imap.Append)
	file, _, err := s.folder(a.Mailbox)
	if err != nil {
		s.refuseMessage(cmd, func() { s.refuse(cmd, err) })
		return
	}
	list, ok := s.readMessages(cmd, a)
	defer list.release(s)
	if !ok {
		return
	}
	var validity uint32
	var uids mailbox.Set
	if len(list.m) == 1 {
		var uid uint32
		validity, uid, err = file.Append(s.c.Context(), a.Mailbox, list.m[0].Raw, list.m[0].Flags, list.m[0].Date)
		uids = mailbox.Set{{Start: uid, Stop: uid}}
	} else {
		validity, uids, err = file.AppendAll(s.c.Context(), a.Mailbox, list.m)
	}
	if s.appendThere(cmd, a, &list, err) {
		return
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if s.poll(true); s.over {
		return
	}
	s.tellPending()
	b := imap.AppendResultHead(s.out.B, cmd.Tag, imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeAppendUIDs(b, validity, wireSet(uids)), "APPEND completed")
}

// maxMessages is the maximum number of messages in one APPEND. Their total size is limited to the maximum size of one
// message.
const maxMessages = 500

// incoming holds the messages that a command has sent.
type incoming struct {
	m    []mailbox.Incoming
	size int64
	held int64 // bytes reserved from the memory for messages
}

func (l *incoming) release(s *session) { s.memory().Give(l.held) }

// readMessages reads the messages of a command; the caller releases them. If ok is false, readMessages has answered the
// command.
func (s *session) readMessages(cmd *imap.Command, a *imap.Append) (list incoming, ok bool) {
	for a != nil {
		flags, err := mailbox.ParseFlags(a.Flags)
		if err != nil {
			s.refuseMessage(cmd, func() { s.refuse(cmd, err) })
			return list, false
		}
		if no := s.unwelcome(cmd, a, &list); no != nil {
			s.refuseMessage(cmd, no)
			return list, false
		}
		raw, err := s.take(a, &list)
		var next *imap.Append
		if err == nil {
			next, err = s.in.EndMessage()
		}
		s.out.Take()
		if err == nil {
			raw, err = s.encoded(raw, a, &list)
		}
		if err != nil {
			s.notTaken(cmd, err)
			return list, false
		}
		date := a.Date
		if date.IsZero() {
			date = s.c.Now()
		}
		list.m = append(list.m, mailbox.Incoming{Raw: raw, Flags: flags, Date: date})
		list.size += int64(len(raw))
		a = next
	}
	return list, true
}

// take reads one message, or assembles it for CATENATE.
func (s *session) take(a *imap.Append, list *incoming) ([]byte, error) {
	if a.Catenate {
		return s.catenate(list)
	}
	raw, held, err := s.readMessage(a.Size)
	list.held += held
	return raw, err
}

// notTaken answers a command whose message could not be read or must not be stored. The rest of the command stays
// unread.
func (s *session) notTaken(cmd *imap.Command, err error) {
	var no *refusal
	var url *urlError
	switch {
	case errors.Is(err, listen.ErrMemory):
		no = &refusal{condition.NoMemory.IMAP, condition.NoMemory.IMAPText}
	case errors.As(err, &no):
	case errors.As(err, &url) && unreadable(err):
		no = &refusal{badURL(url.url), "URL names nothing that can be read"}
	case errors.As(err, &url):
		s.refuseMessage(cmd, func() { s.refuse(cmd, err) })
		return
	default:
		s.lineFailed(cmd, err)
		return
	}
	s.refuseMessage(cmd, func() { s.no(cmd, no.code, no.text) })
}

// encoded returns a message in its stored form: parts with NUL, which a literal8 may contain, are encoded in base64.
func (s *session) encoded(raw []byte, a *imap.Append, list *incoming) ([]byte, error) {
	if bytes.IndexByte(raw, 0) < 0 {
		return raw, nil
	}
	if a.Binary || a.Catenate {
		cost := int64(mime.EncodedRoom(len(raw)))
		if !s.memory().Take(cost) {
			return nil, listen.ErrMemory
		}
		list.held += cost
		if out, ok := mime.WithoutNUL(raw); ok {
			return out, nil
		}
	}
	return nil, &refusal{"UNKNOWN-CTE", "Message contains NUL characters"}
}

// unwelcome checks a message before the client sends it. It returns nil, or a function that rejects the command.
func (s *session) unwelcome(cmd *imap.Command, a *imap.Append, list *incoming) func() {
	switch {
	case a.UTF8 && !s.utf8:
		return func() { s.badly(cmd, "UTF8=ACCEPT is not enabled") }
	case a.Size == 0 && !a.Catenate:
		return func() { s.no(cmd, "", "Message is empty") }
	case len(list.m) == maxMessages || len(list.m) > 0 && list.size+a.Size > int64(s.srv.backend.Mail().MessageSize()):
		return func() { s.no(cmd, "LIMIT", "Too much for one APPEND") }
	case !s.memory().Has(a.Size):
		return func() { s.no(cmd, condition.NoMemory.IMAP, condition.NoMemory.IMAPText) }
	}
	return nil
}

// refuseMessage calls say, which answers the command. A client that waits for the continuation request gets the
// response instead. A message that is sent without waiting is read and dropped first.
func (s *session) refuseMessage(cmd *imap.Command, say func()) {
	err := s.in.RefuseMessage()
	s.out.Take()
	if err != nil {
		s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.NO, "", "Message refused")
		s.lost(err)
		return
	}
	say()
}

// firstRoom is the memory in bytes that is first reserved for a message. More is reserved as data arrives, whatever the
// announced size.
const firstRoom = 256 << 10

// readMessage reads a message. held is the memory in bytes reserved for it, even after an error.
func (s *session) readMessage(size int64) (b []byte, held int64, err error) {
	r, err := s.in.Message()
	if err != nil {
		return nil, 0, err
	}
	waited := false
	for n := int64(0); n < size; {
		if n == int64(len(b)) {
			room := min(size, max(firstRoom, 4*n))
			if !s.memory().Take(room) {
				return nil, held, listen.ErrMemory
			}
			next := make([]byte, room)
			copy(next, b)
			b = next
			s.memory().Give(held) // the reservation of the smaller buffer
			held = room
		}
		if !waited && s.in.Buffered() == 0 && len(s.c.Buffered()) == 0 {
			// DataTimeout limits the wait for each piece: this one, and those of the following reads.
			waited = true
			if err := s.flush(); err != nil {
				return nil, held, err
			}
			fill := func() error { return s.c.Fill(s.srv.cfg.DataTimeout) }
			if err := s.home.Waits(s.c.Context(), fill); err != nil {
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
