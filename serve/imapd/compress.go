package imapd

import (
	"errors"

	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/wire/imap"
)

// The texts of the answers to COMPRESS.
const (
	deflateOn     = "DEFLATE active"
	deflateFull   = "Too many compressed connections"
	deflateActive = "DEFLATE is on already"
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
		s.no(cmd, "COMPRESSIONACTIVE", deflateActive)
		return
	case s.in.Buffered() > 0 || len(s.c.Buffered()) > 0:
		s.badly(cmd, "Wait for the answer to COMPRESS")
		return
	case forward.CanDeflate(s.c):
		s.compressThere(cmd)
		return
	case s.c.CompressedFull():
		s.no(cmd, "LIMIT", deflateFull)
		return
	}
	s.done(cmd, "", deflateOn)
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

// compressThere makes the member that has the client's connection compress it, and answer the command. So the
// compression does not depend on the home, and the session can move.
func (s *session) compressThere(cmd *imap.Command) {
	if s.catchUp(cmd); s.over {
		return
	}
	s.tellPending()
	if s.flush() != nil {
		return
	}
	on := imap.AppendResult(nil, cmd.Tag, imap.OK, "", deflateOn)
	full := imap.AppendResult(nil, cmd.Tag, imap.NO, "LIMIT", deflateFull)
	active := imap.AppendResult(nil, cmd.Tag, imap.NO, "COMPRESSIONACTIVE", deflateActive)
	s.failed = s.home.Waits(s.c.Context(), func() error { return forward.Deflate(s.c, on, full, active) })
}
