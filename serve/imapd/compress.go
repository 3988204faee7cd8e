package imapd

import (
	"errors"

	"doublet/serve/listen"
	"doublet/wire/imap"
)

// compress turns on DEFLATE in both directions after the tagged response.
//
// Implements: RFC 4978 §3 COMPRESS
func (s *session) compress(cmd *imap.Command) {
	switch {
	case cmd.Args.(*imap.Compress).Algorithm != "DEFLATE":
		s.badly(cmd, "Only DEFLATE is offered")
		return
	case s.c.Compressed():
		s.no(cmd, "COMPRESSIONACTIVE", "DEFLATE is on already")
		return
	case s.in.Buffered() > 0 || len(s.c.Buffered()) > 0:
		s.badly(cmd, "Wait for the answer to COMPRESS")
		return
	case s.c.CompressedFull():
		s.no(cmd, "LIMIT", "Too many compressed connections")
		return
	}
	s.done(cmd, "", "DEFLATE active")
	if s.flush() != nil {
		return
	}
	s.release()
	s.in.Reset((*input)(s))
	if err := s.c.Compress(); err != nil {
		s.failed = err
		if errors.Is(err, listen.ErrCompressedFull) {
			s.srv.env.Log.Info("imapd: too many compressed connections")
		}
	}
}
