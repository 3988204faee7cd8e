package pop3d

import (
	"context"
	"time"

	"doublet/mailbox"
	"doublet/serve/listen"
	"doublet/store"
	"doublet/wire/pop3"
)

// The marks of a message of a maildrop.
const (
	markDeleted = 1 << iota // DELE
	markRead                // RETR sent it whole
)

// perMessage is the memory in bytes that a session needs for each message: UID, size and marks.
const perMessage = 4 + 4 + 1

// maildrop is INBOX at the time of sign-in. Message n is uids[n-1].
type maildrop struct {
	view  *mailbox.View
	uids  []uint32
	sizes []uint32 // octets on the wire; nil before the first use
	marks []uint8
}

// openDrop opens the maildrop of the account. The caller holds the lock.
func (s *session) openDrop(file *mailbox.File) error {
	view, _, err := file.Open(s.c.Context(), mailbox.Inbox, false)
	if err != nil {
		return err
	}
	n := int64(view.Exists()) * perMessage
	if !s.srv.cfg.Memory.Take(n) {
		return listen.ErrMemory
	}
	uids, err := view.UIDs(s.c.Context())
	if err != nil {
		s.srv.cfg.Memory.Give(n)
		return err
	}
	s.srv.cfg.Memory.Give(n - int64(len(uids))*perMessage) // some messages were removed between the two reads
	s.drop = maildrop{view: view, uids: uids, marks: make([]uint8, len(uids))}
	return nil
}

// closeDrop marks the messages that RETR sent as \Seen and releases the maildrop.
func (s *session) closeDrop() {
	if seen := s.drop.marked(markRead); len(seen) > 0 && s.drop.view.MayChange() == nil {
		// Messages that were completely sent count as read even if the connection is lost.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.c.Context()), 10*time.Second)
		if err := s.drop.view.Settle(ctx, seen, nil); err != nil {
			s.srv.env.Log.Warn("pop3d: marking read messages failed", "account", s.account.Name, "err", err)
		}
		cancel()
	}
	s.letGo()
}

// letGo releases the maildrop without changes.
func (s *session) letGo() {
	s.srv.cfg.Memory.Give(int64(len(s.drop.uids)) * perMessage)
	s.srv.drops.give(s.account.Database)
	s.drop, s.file = maildrop{}, nil
}

// marked returns the UIDs that have a mark. Messages marked by DELE are left out, unless that is the mark.
func (d *maildrop) marked(mark uint8) []uint32 {
	var out []uint32
	for i, m := range d.marks {
		if m&mark != 0 && (mark == markDeleted || m&markDeleted == 0) {
			out = append(out, d.uids[i])
		}
	}
	return out
}

// all returns the UIDs from the first to the last message of the maildrop.
func (d *maildrop) all() mailbox.Set {
	if len(d.uids) == 0 {
		return nil
	}
	return mailbox.Set{{Start: d.uids[0], Stop: d.uids[len(d.uids)-1]}}
}

// number returns the index of a message. If the message does not exist, it answers the command.
func (s *session) number(n uint32) (index int, ok bool) {
	if n == 0 || uint64(n) > uint64(len(s.drop.uids)) {
		s.err("", "No such message")
		return 0, false
	}
	if s.drop.marks[n-1]&markDeleted != 0 {
		s.err("", "The message is marked for removal")
		return 0, false
	}
	return int(n - 1), true
}

// measure reads the sizes of all messages.
func (s *session) measure() error {
	d := &s.drop
	if d.sizes != nil || len(d.uids) == 0 {
		return nil
	}
	sizes := make([]uint32, len(d.uids))
	type unknown struct {
		index int
		body  *store.Stored
	}
	var scan []unknown
	i := 0
	err := d.view.Fetch(s.c.Context(), d.all(), true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		for i < len(d.uids) && d.uids[i] < m.UID {
			i++ // removed since sign-in
		}
		n, known, err := m.Travels()
		if err == nil && !known {
			var body *store.Stored
			if body, err = m.Body(); err == nil {
				scan = append(scan, unknown{i, body})
			}
		}
		if i < len(sizes) {
			sizes[i] = uint32(n)
		}
		return len(scan) >= 100, err
	}, func() error {
		for _, u := range scan {
			n, err := s.size(u.body)
			if err != nil {
				return err
			}
			sizes[u.index] = uint32(n)
		}
		scan = scan[:0]
		return nil
	})
	if err == nil {
		d.sizes = sizes
	}
	return err
}

// piece is the number of bytes of a message that are read at once.
const piece = 256 << 10

// size computes the size in bytes of a message on the wire. It is for messages whose size the store does not have.
func (s *session) size(body *store.Stored) (int64, error) {
	var dots pop3.Stuffer
	var n int64
	var dst []byte
	err := s.pieces(body, func(p []byte) (bool, error) {
		dst = dots.Append(dst[:0], p)
		n += int64(len(dst)) - int64(dots.Dots())
		return true, nil
	})
	end := dots.AppendEnd(dst[:0])
	return n + int64(len(end)-len(".\r\n")), err
}

// pieces calls fn with one piece of a message after another, until fn returns false.
func (s *session) pieces(body *store.Stored, fn func(p []byte) (more bool, err error)) error {
	s.scratch.Take()
	for off := int64(0); off < body.Size(); {
		n := min(piece, body.Size()-off)
		b, err := body.AppendRange(s.scratch.B[:0], off, n)
		s.scratch.B = b[:0]
		if err == nil && int64(len(b)) != n {
			err = store.ErrDamaged
		}
		if err != nil {
			return err
		}
		if more, err := fn(b); err != nil || !more {
			return err
		}
		off += n
	}
	return nil
}
