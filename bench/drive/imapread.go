package drive

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reader reads responses through memory that is held during one command only. Literals are thrown
// away as they come.
type reader struct {
	conn  net.Conn
	b     []byte
	r, w  int
	total uint64
}

// line returns the next line with its end, valid until the next call. One that is longer than the
// memory comes cut: its beginning, and its end.
func (in *reader) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(in.b[in.r:in.w], '\n'); i >= 0 {
			l := in.b[in.r : in.r+i+1]
			in.r += i + 1
			return l, nil
		}
		if in.r > 0 {
			copy(in.b, in.b[in.r:in.w])
			in.w -= in.r
			in.r = 0
		}
		if in.w == len(in.b) {
			in.w = copy(in.b[len(in.b)/2:], in.b[len(in.b)*3/4:]) + len(in.b)/2 // keep the start and what came last
		}
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
}

func (in *reader) fill() error {
	n, err := in.conn.Read(in.b[in.w:])
	in.w += n
	in.total += uint64(n)
	if n > 0 {
		return nil
	}
	return err
}

// skip throws n bytes away.
func (in *reader) skip(n int64) error {
	for {
		have := int64(in.w - in.r)
		if have >= n {
			in.r += int(n)
			return nil
		}
		n -= have
		in.r, in.w = 0, 0
		if err := in.fill(); err != nil {
			return err
		}
	}
}

// literal is the length of the literal that a line ends with, -1 for none.
func literal(line []byte) int64 {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) < 3 || line[len(line)-1] != '}' {
		return -1
	}
	i := bytes.LastIndexByte(line, '{')
	if i < 0 {
		return -1
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(string(line[i+1:len(line)-1]), "+"), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// exchange sends a command, with a literal behind it where there is one, and reads up to its tagged
// answer.
func (s *imapSession) exchange(text string, message []byte) error {
	s.tag++
	tag := strconv.FormatUint(uint64(s.tag), 36)
	s.out = append(append(append(append(s.out[:0], tag...), ' '), text...), "\r\n"...)
	if err := s.arm(s.w.timeout()); err != nil {
		return err
	}
	if _, err := s.conn.Write(s.out); err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	s.t.Sent += uint64(len(s.out) + len(message))
	b := s.w.takeBuffer()
	defer s.w.giveBuffer(b)
	in := reader{conn: s.conn, b: *b}
	defer func() { s.t.Received += in.total }()
	return s.answer(&in, tag, message)
}

// answer reads up to the tagged answer, and sends what the server asks for on the way.
func (s *imapSession) answer(in *reader, tag string, message []byte) error {
	for {
		line, err := in.line()
		if err != nil {
			return fmt.Errorf("drive: read: %w", err)
		}
		switch {
		case len(line) > len(tag) && string(line[:len(tag)]) == tag && line[len(tag)] == ' ':
			rest := bytes.TrimSpace(line[len(tag)+1:])
			if bytes.HasPrefix(rest, []byte("OK")) {
				return nil
			}
			return &Refusal{string(rest)}
		case line[0] == '+':
			if err := s.send(message); err != nil {
				return err
			}
			message = nil
		default:
			s.untagged(line)
			for n := literal(line); n >= 0; n = literal(line) {
				if err := in.skip(n); err != nil {
					return fmt.Errorf("drive: read: %w", err)
				}
				if line, err = in.line(); err != nil {
					return fmt.Errorf("drive: read: %w", err)
				}
			}
		}
	}
}

// send sends a literal and the line end of its command.
func (s *imapSession) send(message []byte) error {
	if message == nil {
		return fmt.Errorf("drive: the server asks for a literal that there is not: %w", net.ErrClosed)
	}
	bufs := net.Buffers{message, []byte("\r\n")}
	if _, err := bufs.WriteTo(s.conn); err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	return s.arm(s.w.timeout())
}

// untagged takes what a session must know from a response: how many messages there are, and which
// UIDs a listing shows.
func (s *imapSession) untagged(line []byte) {
	rest, ok := bytes.CutPrefix(line, []byte("* "))
	if !ok {
		return
	}
	n, rest := number(rest)
	switch {
	case n == 0:
	case bytes.HasPrefix(rest, []byte(" EXISTS")):
		s.exists = n
	case bytes.HasPrefix(rest, []byte(" EXPUNGE")):
		s.exists--
	case bytes.HasPrefix(rest, []byte(" FETCH")):
		s.listed(rest)
	}
}

// listed takes a message from a listing.
func (s *imapSession) listed(rest []byte) {
	i := bytes.Index(rest, []byte("UID "))
	if i < 0 {
		return
	}
	uid, _ := number(rest[i+4:])
	if uid == 0 {
		return
	}
	if at, found := slices.BinarySearch(s.known, uid); !found {
		if len(s.known) >= maxKnown {
			s.known = slices.Delete(s.known, 0, 1)
			at = max(at-1, 0)
		}
		s.known = slices.Insert(s.known, at, uid)
	}
	flags := rest
	if i := bytes.Index(rest, []byte("FLAGS (")); i >= 0 {
		flags = rest[i:]
		if end := bytes.IndexByte(flags, ')'); end >= 0 {
			flags = flags[:end]
		}
		if at, found := slices.BinarySearch(s.unread, uid); !found && !bytes.Contains(flags, []byte(`\Seen`)) && len(s.unread) < maxKnown {
			s.unread = slices.Insert(s.unread, at, uid)
		}
	}
	if v, ok := parseInvitation(string(rest[:min(len(rest), 1000)])); ok && len(s.waits) < maxKnown && !s.seen[v.id] {
		s.waits = append(s.waits, v)
	}
}

// number reads digits; 0 for none.
func number(b []byte) (uint32, []byte) {
	n, i := uint32(0), 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' && i < 10 {
		n = n*10 + uint32(b[i]-'0')
		i++
	}
	return n, b[i:]
}

// idle waits in IDLE. The time that it holds is the user's, not the server's.
func (s *imapSession) idle(hold time.Duration) error {
	s.t.Held = hold
	if err := s.need(); err != nil {
		return err
	}
	s.tag++
	tag := strconv.FormatUint(uint64(s.tag), 36)
	if err := s.arm(s.w.timeout()); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.conn, "%s IDLE\r\n", tag); err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	b := s.w.takeBuffer()
	in := reader{conn: s.conn, b: *b}
	var err error
	for err == nil {
		var line []byte
		if line, err = in.line(); err == nil && line[0] == '+' {
			break
		}
		if err == nil && bytes.HasPrefix(line, []byte(tag+" ")) {
			err = &Refusal{string(bytes.TrimSpace(line))}
		}
	}
	s.w.giveBuffer(b)
	if err != nil {
		return err
	}
	s.w.Env.Clock.Sleep(hold)
	if err := s.arm(s.w.timeout()); err != nil {
		return err
	}
	if _, err := s.conn.Write([]byte("DONE\r\n")); err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	b = s.w.takeBuffer()
	defer s.w.giveBuffer(b)
	in = reader{conn: s.conn, b: *b}
	return s.answer(&in, tag, nil)
}
