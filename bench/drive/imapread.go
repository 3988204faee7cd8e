package drive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/bench/ledger"
)

// ErrProtocol means that a server broke the protocol; the text around it explains how.
var ErrProtocol = errors.New("drive: broken protocol")

// Farewell is the server's text when it ended a session by itself.
type Farewell struct{ Text string }

func (f *Farewell) Error() string { return "the server ended the session: " + f.Text }

// reader reads responses through a buffer that it holds during one command only. It discards literals as they arrive.
type reader struct {
	conn  net.Conn
	b     []byte
	r, w  int
	total uint64
}

// line returns the next line with its end, valid until the next call. A line longer than the buffer is returned cut:
// its beginning and its end.
func (in *reader) line() ([]byte, error) {
	from := in.r
	for {
		if i := bytes.IndexByte(in.b[from:in.w], '\n'); i >= 0 {
			l := in.b[in.r : from+i+1]
			in.r = from + i + 1
			return l, nil
		}
		if in.r > 0 {
			in.w = copy(in.b, in.b[in.r:in.w])
			in.r = 0
		}
		if in.w == len(in.b) {
			half := len(in.b) / 2
			in.w = half + copy(in.b[half:], in.b[len(in.b)*3/4:])
		}
		from = in.w
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

// skip discards n bytes.
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

// literal returns the length of the literal that a line announces, -1 for none.
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

// begin sends the line of a command and returns its tag.
func (s *imapSession) begin(text string) (tag string, err error) {
	s.tag++
	tag = strconv.FormatUint(uint64(s.tag), 36)
	s.out = append(append(append(append(s.out[:0], tag...), ' '), text...), "\r\n"...)
	return tag, s.write(s.out)
}

func (s *imapSession) write(b []byte) error {
	if err := s.arm(s.w.timeout()); err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	n, err := s.conn.Write(b)
	s.t.Sent += uint64(n)
	if err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	return nil
}

// listen calls fn with a reader on a pooled buffer. It first holds the bytes that an earlier command has read too far.
func (s *imapSession) listen(fn func(in *reader) error) error {
	b := s.w.memory.takeBuffer()
	defer s.w.memory.giveBuffer(b)
	in := reader{conn: s.conn, b: *b}
	in.w = copy(in.b, s.left)
	s.left = s.left[:0]
	err := fn(&in)
	s.t.Received += in.total
	if in.r < in.w {
		s.left = append(s.left, in.b[in.r:in.w]...)
	}
	return err
}

// exchange sends a command, followed by a literal if there is one, and reads up to its tagged answer. After any error
// but a *Refusal the session is unusable.
func (s *imapSession) exchange(text string, message []byte) error {
	tag, err := s.begin(text)
	if err == nil {
		err = s.listen(func(in *reader) error { return s.answer(in, tag, message) })
	}
	return s.ended(err)
}

// ended marks the connection as broken after an error, and returns the server's farewell, if there was one, instead of
// the error. An ErrProtocol is returned as it is.
func (s *imapSession) ended(err error) error {
	var refused *Refusal
	if err == nil || errors.As(err, &refused) {
		return err
	}
	s.broken = true
	if s.bye != "" && !errors.Is(err, ErrProtocol) {
		return &Farewell{s.bye}
	}
	return err
}

// answer reads up to the tagged answer, and sends the literal when the server asks for it.
func (s *imapSession) answer(in *reader, tag string, message []byte) error {
	for {
		line, err := in.line()
		if err != nil {
			return fmt.Errorf("drive: read: %w", err)
		}
		switch {
		case len(line) > len(tag) && string(line[:len(tag)]) == tag && line[len(tag)] == ' ':
			return completion(line[len(tag)+1:])
		case line[0] == '+':
			if message == nil {
				return fmt.Errorf("%w: server asks for a literal that was not announced", ErrProtocol)
			}
			if err := s.send(message); err != nil {
				return err
			}
			message = nil
		default:
			if err := s.untagged(in, line); err != nil {
				return err
			}
		}
	}
}

// completion returns the error of a tagged answer, nil for OK.
func completion(rest []byte) error {
	rest = bytes.TrimSpace(rest)
	word, _, _ := bytes.Cut(rest, []byte(" "))
	switch strings.ToUpper(string(word)) {
	case "OK":
		return nil
	case "NO", "BAD":
		return &Refusal{string(rest)}
	}
	return fmt.Errorf("%w: a command ended with %.40q", ErrProtocol, rest)
}

// send sends a literal and the line end of its command.
func (s *imapSession) send(message []byte) error {
	if err := s.arm(s.w.timeout()); err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	bufs := net.Buffers{message, []byte("\r\n")}
	n, err := bufs.WriteTo(s.conn)
	s.t.Sent += uint64(n)
	if err != nil {
		return fmt.Errorf("drive: send: %w", err)
	}
	return s.arm(s.w.timeout())
}

// untagged updates the session from an untagged response, and discards literals.
func (s *imapSession) untagged(in *reader, line []byte) error {
	rest, ok := bytes.CutPrefix(line, []byte("* "))
	if !ok {
		return fmt.Errorf("%w: %.40q is no response", ErrProtocol, bytes.TrimSpace(line))
	}
	n, after, numbered := number(rest)
	word, _, _ := bytes.Cut(bytes.TrimLeft(after, " "), []byte(" "))
	switch name := strings.ToUpper(string(bytes.TrimSpace(word))); {
	case !numbered && name == "BYE":
		s.bye = string(bytes.TrimSpace(rest))
		return nil
	case !numbered && (name == "OK" || name == "NO" || name == "BAD" || name == "PREAUTH"):
		return nil // human-readable text, whatever it ends with
	case numbered && name == "EXISTS":
		s.exists = n
	case numbered && name == "EXPUNGE":
		s.expunged(n)
	case numbered && name == "FETCH":
		return s.fetched(in, after[len(" FETCH"):])
	}
	return s.pieces(in, line, func([]byte) {})
}

// pieces reads a response to its end and calls fn with each line between literals.
func (s *imapSession) pieces(in *reader, line []byte, fn func([]byte)) error {
	for {
		fn(line)
		n := literal(line)
		if n < 0 {
			return nil
		}
		err := in.skip(n)
		if err == nil {
			line, err = in.line()
		}
		if err != nil {
			return fmt.Errorf("drive: read: %w", err)
		}
	}
}

// expunged renumbers the messages after one that is gone.
func (s *imapSession) expunged(n uint32) {
	if n == 0 || n > s.exists {
		return
	}
	s.exists--
	s.went++
	if n < s.top {
		s.top--
	}
}

// fileType is the subtype of attachments in a BODYSTRUCTURE; servers write it as it is in the message, or in capitals.
var fileType = []byte(`"octet-stream"`)

// fetched updates the session from a FETCH response.
func (s *imapSession) fetched(in *reader, line []byte) error {
	var f fetch
	id, subject := "", ""
	err := s.pieces(in, line, func(piece []byte) {
		f.piece(piece)
		s.file = s.file || bytes.Contains(piece, fileType) || bytes.Contains(piece, bytes.ToUpper(fileType))
		if s.w.Ledger != nil {
			id = cmp.Or(ledger.ID(piece), id)
		}
		if i := bytes.Index(piece, []byte(subjectInvitation)); i >= 0 {
			// Start a little earlier, so that the prefix of an acceptance is included.
			subject = string(piece[max(0, i-20):min(len(piece), i+1000)])
		}
	})
	s.came++
	if err == nil && f.uid != 0 {
		s.told = f.uid
		s.learn(f.uid, f.flags, f.seen)
		if subject != "" {
			s.asked.learn(subject, strconv.FormatUint(uint64(f.uid), 10))
		}
		if id != "" {
			if s.ids == nil {
				s.ids = make(map[uint32]string)
			}
			s.ids[f.uid] = id
		}
	}
	return err
}

// learn remembers a message, and that it is unread if the server said so.
func (s *imapSession) learn(uid uint32, flags, seen bool) {
	if at, found := slices.BinarySearch(s.known, uid); !found {
		if len(s.known) >= maxKnown {
			delete(s.ids, s.known[0])
			s.known = slices.Delete(s.known, 0, 1)
			at = max(at-1, 0)
		}
		s.known = slices.Insert(s.known, at, uid)
	}
	at, unread := slices.BinarySearch(s.unread, uid)
	switch {
	case !flags || seen != unread:
	case seen:
		s.unread = slices.Delete(s.unread, at, at+1)
	case len(s.unread) < maxKnown:
		s.unread = slices.Insert(s.unread, at, uid)
	}
}

// fetch parses a FETCH response from its pieces between literals. It reads items at the list's own depth only, so that
// text of a subject cannot be mistaken for an item.
type fetch struct {
	uid         uint32
	flags, seen bool

	depth   int
	atUID   bool // the next atom is the UID
	inFlags bool
}

func (f *fetch) piece(b []byte) {
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = quoted(b, i)
		case '(':
			f.depth++
			i++
		case ')':
			f.depth--
			f.inFlags = f.inFlags && f.depth > 1
			i++
		case ' ', '\r', '\n', ']', '{', '}':
			i++
		default:
			end := atomEnd(b, i)
			f.atom(b[i:end])
			i = end
		}
	}
}

func (f *fetch) atom(a []byte) {
	switch {
	case f.inFlags && f.depth == 2:
		f.seen = f.seen || bytes.EqualFold(a, []byte(`\Seen`))
	case f.depth != 1:
	case f.atUID:
		f.atUID = false
		f.uid, _, _ = number(a)
	case bytes.EqualFold(a, []byte("UID")):
		f.atUID = true
	case bytes.EqualFold(a, []byte("FLAGS")):
		f.flags, f.inFlags = true, true
	}
}

// quoted returns the end of the string that begins at i.
func quoted(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// atomEnd returns the end of the atom that begins at i, including a section in brackets.
func atomEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '[':
			end := bytes.IndexByte(b[i:], ']')
			if end < 0 {
				return len(b)
			}
			i += end
		case ' ', '(', ')', '"', '{', '\r', '\n':
			return i
		}
	}
	return i
}

// number parses the leading digits; ok reports that there are some and that they fit.
func number(b []byte) (n uint32, rest []byte, ok bool) {
	v, i := uint64(0), 0
	for i < len(b) && i < 10 && b[i] >= '0' && b[i] <= '9' {
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	if i == 0 || v > 1<<32-1 {
		return 0, b, false
	}
	return uint32(v), b[i:], true
}

// idle waits in IDLE, at most until ctx ends. The held time is the user's, not the server's.
func (s *imapSession) idle(ctx context.Context, hold time.Duration) error {
	if err := s.need(); err != nil {
		return err
	}
	tag, err := s.begin("IDLE")
	if err == nil {
		err = s.listen(func(in *reader) error { return s.invited(in, tag) })
	}
	if err != nil {
		return s.ended(err)
	}
	clock := s.w.Env.Clock
	begun := clock.Now()
	select {
	case <-ctx.Done():
	case <-clock.After(hold):
	}
	s.t.Held += clock.Now().Sub(begun)
	if err = s.write([]byte("DONE\r\n")); err == nil {
		err = s.listen(func(in *reader) error { return s.answer(in, tag, nil) })
	}
	return s.ended(err)
}

// invited reads up to the server's continuation request.
func (s *imapSession) invited(in *reader, tag string) error {
	for {
		line, err := in.line()
		if err != nil {
			return fmt.Errorf("drive: read: %w", err)
		}
		switch {
		case line[0] == '+':
			return nil
		case bytes.HasPrefix(line, []byte(tag+" ")):
			if err := completion(line[len(tag)+1:]); err != nil {
				return err
			}
			return fmt.Errorf("%w: IDLE ended before it began", ErrProtocol)
		}
		if err := s.untagged(in, line); err != nil {
			return err
		}
	}
}
