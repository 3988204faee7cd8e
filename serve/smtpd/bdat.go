package smtpd

import "doublet/wire/smtp"

// cmdBDAT reads a chunk. The last chunk ends the message. The chunk is read completely even after an error, because its
// bytes follow the command without waiting for a reply.
//
// Implements: RFC 3030 §2 CHUNKING and BDAT
func (s *session) cmdBDAT(arg []byte) {
	size, last, bad := smtp.ParseBDAT(arg)
	if bad != nil {
		// The size is unknown, so the start of the next command is unknown too.
		s.refuse(bad)
		s.over = true
		return
	}
	switch {
	case !s.mail:
		bad = errMailFirst
	case s.chunkFail != nil:
		bad = errSequence
	case len(s.env.Recipients) == 0:
		bad = s.noRcpt()
	case int64(s.msg.n)+size > s.srv.cfg.MaxMessage:
		bad = errTooBig
		s.chunkFail = bad
	}
	if bad != nil {
		if size > 2*s.srv.cfg.MaxMessage {
			s.refuse(bad)
			s.over = true
			return
		}
		if err := s.drainChunk(size); err != nil {
			s.lost(err)
			return
		}
		s.refuse(bad)
		return
	}
	s.chunks = true
	bad, err := s.readChunk(size)
	if err != nil {
		s.lost(err)
		s.reset()
		return
	}
	if bad != nil {
		s.chunkFail = bad
		s.msg.release(s.memory)
		s.refuse(bad)
		return
	}
	if !last {
		s.say(replyOK)
		return
	}
	bad = s.endLine()
	if bad == nil {
		bad = s.check(smtp.CheckLines(s.msg.b[:s.msg.n]))
	}
	s.finish(bad)
}

// readChunk reads size bytes into the message. If memory is exhausted, it discards the rest of the chunk and returns
// bad.
func (s *session) readChunk(size int64) (bad *smtp.Reply, err error) {
	cfg := &s.srv.cfg
	for size > 0 {
		if len(s.c.Buffered()) == 0 && s.msg.n == 0 {
			if err := s.c.Fill(cfg.DataTimeout); err != nil {
				return nil, err
			}
		}
		room := int(min(size, int64(max(minRead, len(s.c.Buffered())))))
		if !s.msg.need(room, cfg.MaxMessage, s.memory) {
			return errMemory, s.drainChunk(size)
		}
		free := s.msg.b[s.msg.n:]
		n, err := s.c.Read(free[:min(int64(len(free)), size)])
		if err != nil {
			return nil, err
		}
		s.msg.n += n
		size -= int64(n)
	}
	return nil, nil
}

func (s *session) drainChunk(size int64) error {
	for size > 0 {
		n := min(size, int64(len(s.c.Buffered())))
		s.c.Discard(int(n))
		if size -= n; size == 0 {
			break
		}
		if err := s.c.Fill(s.srv.cfg.DataTimeout); err != nil {
			return err
		}
	}
	return nil
}

// endLine adds the CRLF that the last chunk may lack, because a message consists of lines.
func (s *session) endLine() *smtp.Reply {
	n := s.msg.n
	if n == 0 || s.msg.b[n-1] == '\n' {
		return nil
	}
	if !s.msg.need(2, s.srv.cfg.MaxMessage, s.memory) {
		return errMemory
	}
	s.msg.n += copy(s.msg.b[n:], "\r\n")
	return nil
}
