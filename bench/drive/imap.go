package drive

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/bench/workload"
)

// page is how many messages a list shows.
const page = 20

// maxKnown bounds what a session remembers of its folder.
const maxKnown = 200

// imapSession is a user at the IMAP door. What it knows of the folder comes from the listings that it
// asked for, as in a mail program.
type imapSession struct {
	w    *World
	u    *User
	conn net.Conn
	tag  uint32
	out  []byte

	open   bool
	exists uint32
	top    uint32   // lowest sequence number listed
	known  []uint32 // UIDs, ascending
	unread []uint32
	high   uint32 // highest UID that Retrieve has fetched
	last   uint32 // read last
	waits  []invitation
	seen   map[string]bool // invitations that were answered
	t      Traffic
}

func (w *World) dial(door, secure string) (net.Conn, error) {
	name, address := door, w.Target.Doors[door]
	if a := w.Target.Doors[secure]; a != "" {
		name, address = secure, a
	}
	if address == "" {
		return nil, fmt.Errorf("drive: the target has no door %s", door)
	}
	conn, err := w.Env.Dial("tcp", address, w.timeout())
	if err != nil {
		return nil, fmt.Errorf("drive: connect: %w", err)
	}
	if name == secure {
		return tls.Client(conn, w.Target.TLS), nil
	}
	return conn, nil
}

func (w *World) openIMAP(u *User) (Session, Traffic, error) {
	conn, err := w.dial("imap", "imaps")
	if err != nil {
		return nil, Traffic{}, err
	}
	s := &imapSession{w: w, u: u, conn: conn, seen: make(map[string]bool)}
	err = s.greet()
	if err == nil {
		err = s.command("LOGIN " + quote(u.Name) + " " + quote(u.Password))
	}
	if err != nil {
		_ = conn.Close()
		return nil, s.t, err
	}
	return s, s.t, nil
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func (s *imapSession) greet() error {
	b := s.w.takeBuffer()
	defer s.w.giveBuffer(b)
	if err := s.arm(s.w.timeout()); err != nil {
		return err
	}
	in := reader{conn: s.conn, b: *b}
	line, err := in.line()
	if err != nil {
		return fmt.Errorf("drive: greeting: %w", err)
	}
	s.t.Received += in.total
	if !bytes.HasPrefix(line, []byte("* OK")) && !bytes.HasPrefix(line, []byte("* PREAUTH")) {
		return &Refusal{strings.TrimSpace(string(line))}
	}
	if !s.w.Target.StartTLS {
		return nil
	}
	if err := s.command("STARTTLS"); err != nil {
		return err
	}
	s.conn = tls.Client(s.conn, s.w.Target.TLS)
	return nil
}

func (s *imapSession) arm(d time.Duration) error {
	return s.conn.SetDeadline(s.w.Env.Clock.Now().Add(d))
}

// Do implements Session.
func (s *imapSession) Do(p *workload.Planned) (Traffic, error) {
	s.t = Traffic{}
	err := s.do(p)
	return s.t, err
}

func (s *imapSession) do(p *workload.Planned) error {
	switch p.Do {
	case workload.Open:
		return s.openInbox()
	case workload.Scroll:
		return s.scroll()
	case workload.Read:
		return s.read(p.Pick)
	case workload.Retrieve:
		return s.retrieve()
	case workload.Update:
		return s.change(p.Pick, "UID STORE %d +FLAGS.SILENT (\\Flagged)", false)
	case workload.Move:
		return s.change(p.Pick, "UID MOVE %d Archive", true)
	case workload.Delete:
		return s.delete(p.Pick)
	case workload.Add:
		return s.add(p)
	case workload.Poll:
		return s.command("NOOP")
	case workload.Idle:
		return s.idle(s.w.hold(p))
	case workload.Close:
		s.open = false
		return s.command("CLOSE")
	case workload.Send:
		return s.traffic(s.w.send(s.u, p, false))
	case workload.Invite:
		return s.traffic(s.w.invite(s.u, p))
	case workload.Reply:
		return s.reply(p)
	case workload.RSVP:
		return s.rsvp(p)
	case workload.Login:
		return s.command("NOOP")
	}
	return fmt.Errorf("drive: IMAP does not carry %s", p.Do)
}

func (s *imapSession) traffic(t Traffic, err error) error {
	s.t.add(t)
	return err
}

// openInbox opens the INBOX and lists its last page.
func (s *imapSession) openInbox() error {
	s.known, s.unread, s.exists = s.known[:0], s.unread[:0], 0
	if err := s.command("SELECT INBOX"); err != nil {
		return err
	}
	s.open = true
	s.top = s.exists + 1
	return s.scroll()
}

// scroll lists the page above what was listed.
func (s *imapSession) scroll() error {
	if err := s.need(); err != nil {
		return err
	}
	if s.top <= 1 {
		s.top = s.exists + 1 // from the end again
	}
	if s.exists == 0 {
		return nil
	}
	hi := s.top - 1
	lo := uint32(1)
	if hi > page {
		lo = hi - page + 1
	}
	s.top = lo
	return s.command(fmt.Sprintf("FETCH %d:%d (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)", lo, hi))
}

// need opens the INBOX where a script forgot to.
func (s *imapSession) need() error {
	if s.open {
		return nil
	}
	return s.openInbox()
}

// choose picks a message that the user has seen in a list.
func (s *imapSession) choose(pick uint64) (uint32, error) {
	if err := s.need(); err != nil {
		return 0, err
	}
	if len(s.known) == 0 {
		return 0, ErrNothing
	}
	return s.known[pick%uint64(len(s.known))], nil
}

// read reads the newest unread message, or any where all are read.
func (s *imapSession) read(pick uint64) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	if n := len(s.unread); n > 0 {
		uid, s.unread = s.unread[n-1], s.unread[:n-1]
	}
	s.last = uid
	return s.command(fmt.Sprintf("UID FETCH %d (BODY[])", uid))
}

// retrieve fetches what came since the last time.
func (s *imapSession) retrieve() error {
	if err := s.need(); err != nil {
		return err
	}
	err := s.command(fmt.Sprintf("UID FETCH %d:* (UID BODY.PEEK[])", s.high+1))
	for _, uid := range s.known {
		s.high = max(s.high, uid)
	}
	return err
}

func (s *imapSession) change(pick uint64, format string, gone bool) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	if gone {
		s.forget(uid)
	}
	return s.command(fmt.Sprintf(format, uid))
}

func (s *imapSession) delete(pick uint64) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	s.forget(uid)
	if err := s.command(fmt.Sprintf("UID STORE %d +FLAGS.SILENT (\\Deleted)", uid)); err != nil {
		return err
	}
	return s.command(fmt.Sprintf("UID EXPUNGE %d", uid))
}

func (s *imapSession) forget(uid uint32) {
	drop := func(list []uint32) []uint32 {
		return slices.DeleteFunc(list, func(u uint32) bool { return u == uid })
	}
	s.known, s.unread = drop(s.known), drop(s.unread)
}

// add appends a message to the user's own INBOX.
func (s *imapSession) add(p *workload.Planned) error {
	m := s.w.compose(s.u, p)
	m.To = []string{s.u.Address}
	buf := s.w.takeMessage()
	defer s.w.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	return s.append(*buf, "")
}

// append is APPEND with a synchronising literal, which every server takes.
func (s *imapSession) append(message []byte, flags string) error {
	return s.exchange(fmt.Sprintf("APPEND INBOX %s{%d}", flags, len(message)), message)
}

// reply answers the message read last; to a user of the run, as all mail is theirs.
func (s *imapSession) reply(p *workload.Planned) error {
	m := s.w.compose(s.u, p)
	m.To, m.Subject = s.w.recipients(s.u, p), "Re: "+m.Subject
	if s.last != 0 {
		m.InReplyTo = strconv.FormatUint(uint64(s.last), 10)
	}
	if err := s.traffic(s.w.submit(s.u, &m, false)); err != nil || s.last == 0 || !s.open {
		return err
	}
	return s.command(fmt.Sprintf("UID STORE %d +FLAGS.SILENT (\\Answered)", s.last))
}

// rsvp answers an invitation that a listing has shown.
func (s *imapSession) rsvp(p *workload.Planned) error {
	for len(s.waits) > 0 {
		v := s.waits[len(s.waits)-1]
		s.waits = s.waits[:len(s.waits)-1]
		if !s.seen[v.id] {
			s.seen[v.id] = true
			return s.traffic(s.w.answer(s.u, v, p))
		}
	}
	return ErrNothing
}

// Close implements Session.
func (s *imapSession) Close() error {
	s.t = Traffic{}
	return errors.Join(s.command("LOGOUT"), s.conn.Close())
}

// command sends a command and reads up to its tagged answer.
func (s *imapSession) command(text string) error { return s.exchange(text, nil) }
