package imapd

import (
	"time"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// progressEvery is the time between two progress responses of a long command.
const progressEvery = 10 * time.Second

// searching returns the options of a search for a command. done frees the memory for messages in flight that the search
// reserved.
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

// progress prints and sends the progress of a command.
func (s *session) progress(cmd *imap.Command, done, all uint64) error {
	s.out.Take()
	b := imap.AppendResultHead(s.out.B, "*", imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeInProgress(b, cmd.Tag, done, all), "Still at work")
	return s.flush()
}

// telling returns a function that sends the progress of a command when due. It must not be called during a read of the
// store.
func (s *session) telling(cmd *imap.Command) func(done, all uint64) {
	last := s.c.Now()
	return func(done, all uint64) {
		if now := s.c.Now(); now.Sub(last) >= s.srv.progress {
			last = now
			_ = s.progress(cmd, done, max(done, all)) // an error is stored; the command continues
		}
	}
}

// counting returns a function to call for each of at most all steps of a command. It sends the progress like telling.
func (s *session) counting(cmd *imap.Command, all uint64) func() {
	tell, done := s.telling(cmd), uint64(0)
	return func() {
		if done++; done%16 == 0 {
			tell(done, all)
		}
	}
}
