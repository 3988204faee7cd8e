package imapd

import (
	"time"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// progressEvery is how often a client is told that a long command is still at work.
const progressEvery = 10 * time.Second

// searching are the options of a search on behalf of a command. What it takes of the memory for messages in flight
// is given back by done.
//
// Implements: RFC 9585 §4 INPROGRESS
func (s *session) searching(cmd *imap.Command) (o mailbox.SearchOptions, done func()) {
	held := int64(0)
	o = mailbox.SearchOptions{
		Every: s.srv.progress,
		Tell:  func(done, all uint32) error { return s.progress(cmd, uint64(done), uint64(all)) },
		Room: func(n int64) bool {
			ok := s.memory().Take(n)
			if ok {
				held += n
			}
			return ok
		},
	}
	return o, func() { s.memory().Give(held) }
}

// progress tells how far a command is, at once.
func (s *session) progress(cmd *imap.Command, done, all uint64) error {
	s.out.Take()
	b := imap.AppendResultHead(s.out.B, "*", imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeInProgress(b, cmd.Tag, done, all), "Still at work")
	return s.flush()
}

// telling gives a function that tells how far a command is, when it is time. It is to be called outside of the store.
func (s *session) telling(cmd *imap.Command) func(done, all uint64) {
	last := s.c.Now()
	return func(done, all uint64) {
		if now := s.c.Now(); now.Sub(last) >= s.srv.progress {
			last = now
			_ = s.progress(cmd, done, max(done, all)) // what fails is remembered; the work is done all the same
		}
	}
}

// counting gives a function to be called for each of at most all things that a command does, as telling is.
func (s *session) counting(cmd *imap.Command, all uint64) func() {
	tell, done := s.telling(cmd), uint64(0)
	return func() {
		if done++; done%16 == 0 {
			tell(done, all)
		}
	}
}
