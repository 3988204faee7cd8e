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
// store only wakes it.
//
// Implements: RFC 9051 §6.3.13 IDLE
func (s *session) idle(cmd *imap.Command) {
	if !s.move.idling {
		s.out.B = append(s.out.B, "+ idling\r\n"...)
	}
	switch {
	case s.notifier != nil: // has a watch
		s.news(true)
	case s.view != nil:
		// The watch starts before the first poll, so that no change is missed.
		stop, err := s.view.File().Watch(s.c.Wake)
		if err != nil {
			s.refuse(cmd, err)
			return
		}
		defer stop()
		s.poll(true)
	}
	for !s.over && s.in.Buffered() == 0 {
		err := s.await(s.timeout())
		if err == nil {
			break
		}
		if !errors.Is(err, listen.ErrWoken) {
			s.lost(err)
			return
		}
		s.out.Take()
		if s.home.Moved(s.c.Context()) {
			s.carryOutThere(cmd)
			s.move.idling = true
			return
		}
		if !s.refresh() {
			return
		}
		s.changes()
	}
	if s.over {
		return
	}
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
