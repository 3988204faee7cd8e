package pop3d

import (
	"strconv"

	"doublet/wire/pop3"
)

// list answers with the size of one message, or of each: the octets that RETR sends, without stuffed dots and the
// final line.
//
// Implements: RFC 1939 §5 LIST
func (s *session) list(cmd *pop3.Command) {
	if err := s.measure(); err != nil {
		s.trouble("command failed", err)
		return
	}
	if cmd.Number != 0 {
		if i, ok := s.number(cmd.Number); ok {
			s.out.B = append(s.out.B, "+OK "...)
			s.pair(i)
		}
		return
	}
	s.ok("Sizes follow")
	for i := range s.drop.uids {
		if s.drop.marks[i]&markDeleted != 0 {
			continue
		}
		if s.pair(i); len(s.out.B) > sendAt && s.flush() != nil {
			return
		}
	}
	s.out.B = append(s.out.B, ".\r\n"...)
}

func (s *session) pair(i int) {
	b := strconv.AppendInt(s.out.B, int64(i+1), 10)
	b = strconv.AppendUint(append(b, ' '), uint64(s.drop.sizes[i]), 10)
	s.out.B = append(b, "\r\n"...)
}
