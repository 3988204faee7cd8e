package imapd

import (
	"errors"
	"strings"

	"doublet/serve/listen"
	"doublet/wire/imap"
)

// changes prints what has changed since the last time.
func (s *session) changes() {
	if s.notifier != nil {
		s.news(true)
	} else {
		s.poll(true)
	}
}

// idle sends changes as they happen until the client sends DONE. The session waits without a buffer; the watch on the
// store only wakes it. The stack must stay small during the wait (see await).
//
// Implements: RFC 9051 §6.3.13 IDLE
func (s *session) idle(cmd *imap.Command) {
	stop, err := s.beginIdle()
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if stop != nil {
		defer stop()
	}
	s.changes() // after the watch started, so that none is missed
	for !s.over && s.in.Buffered() == 0 {
		err := s.await(s.timeout())
		if err == nil {
			break
		}
		if !s.idles(cmd, err) {
			return
		}
	}
	if !s.over {
		s.endIdle(cmd)
	}
}

// beginIdle invites the client to wait, and watches the selected mailbox until stop is called. stop is nil if there is
// nothing to watch, or if NOTIFY has a watch.
//
//go:noinline
func (s *session) beginIdle() (stop func(), err error) {
	if !s.move.idling {
		s.out.B = append(s.out.B, "+ idling\r\n"...)
	}
	if s.notifier != nil || s.view == nil {
		return nil, nil
	}
	return s.view.File().Watch(s.c.Wake)
}

// idles handles the error of a wait: it sends the changes that woke the session. It returns false if IDLE has ended, or
// continues at another server.
//
//go:noinline
func (s *session) idles(cmd *imap.Command, err error) bool {
	if !errors.Is(err, listen.ErrWoken) {
		s.lost(err)
		return false
	}
	s.out.Take()
	if s.home.Moved(s.c.Context()) {
		s.carryOutThere(cmd)
		s.move.idling = true
		return false
	}
	if !s.refresh() {
		return false
	}
	s.changes()
	return true
}

// endIdle reads DONE and answers the command.
//
//go:noinline
func (s *session) endIdle(cmd *imap.Command) {
	line, err := s.in.ReadLine()
	s.out.Take()
	switch {
	case err != nil:
		s.lineFailed(cmd, err)
	case !strings.EqualFold(line, "DONE"):
		s.badly(cmd, "Expected DONE")
	default:
		s.done(cmd, "", "IDLE completed")
	}
}
