package pop3d

import (
	"strconv"

	"doublet/wire/pop3"
)

// stat answers with the number and total size of the messages, except those marked by DELE.
//
// Implements: RFC 1939 §5 STAT
func (s *session) stat(*pop3.Command) {
	count, octets, err := s.total()
	if err != nil {
		s.trouble("command failed", err)
		return
	}
	b := strconv.AppendInt(append(s.out.B, "+OK "...), int64(count), 10)
	b = strconv.AppendInt(append(b, ' '), octets, 10)
	s.out.B = append(b, "\r\n"...)
}

func (s *session) total() (count int, octets int64, err error) {
	if err := s.measure(); err != nil {
		return 0, 0, err
	}
	for i, n := range s.drop.sizes {
		if s.drop.marks[i]&markDeleted == 0 {
			count++
			octets += int64(n)
		}
	}
	return count, octets, nil
}
