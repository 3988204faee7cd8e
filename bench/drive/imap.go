package drive

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
)

// page is the number of messages that a list shows.
const page = 20

// maxKnown is the number of messages of its folder that a session remembers.
const maxKnown = 200

// imapSession is a user over IMAP. Its knowledge of the folder comes from its own listings, as in a mail program.
type imapSession struct {
	w    *World
	u    *User
	conn net.Conn
	tag  uint32
	out  []byte
	left []byte // read after the last answer
	// broken means that the connection is unusable; bye is the server's last text when it closed it.
	broken  bool
	closing bool
	bye     string

	open   bool
	exists uint32
	came   int      // messages received in the last command
	file   bool     // a structure since the last read began has an attachment
	told   uint32   // UID of the last of them
	went   int      // messages removed from the folder during the last command
	top    uint32   // lowest listed sequence number
	known  []uint32 // UIDs, ascending
	unread []uint32
	high   uint32 // highest UID that Retrieve has fetched
	had    uint32 // number of messages at that time
	last   uint32 // UID of the last message read, 0 for none
	asked  invitations
	// ids are the Message-IDs of known messages, if a ledger is kept.
	ids map[uint32]string
	t   Traffic
}

// dial connects to a door, or to its variant under TLS if the target has one.
func (w *World) dial(door, secure string) (conn net.Conn, isSecure bool, err error) {
	name, address := door, w.Target.Doors[door]
	if a := w.Target.Doors[secure]; a != "" {
		name, address = secure, a
	}
	if address == "" {
		return nil, false, fmt.Errorf("drive: the target has no door %s", door)
	}
	if conn, err = w.Env.Dial("tcp", address, w.timeout()); err != nil {
		return nil, false, fmt.Errorf("drive: connect: %w", err)
	}
	if name == secure {
		return tls.Client(conn, w.Target.tlsFor(address)), true, nil
	}
	return conn, false, nil
}

// tlsFor returns the TLS configuration for an address. If certificates are verified, they must be for that host.
func (t *Target) tlsFor(address string) *tls.Config {
	if t.TLS == nil || t.TLS.InsecureSkipVerify || t.TLS.ServerName != "" {
		return t.TLS
	}
	c := t.TLS.Clone()
	c.ServerName, _, _ = net.SplitHostPort(address)
	return c
}

func (w *World) openIMAP(ctx context.Context, u *User) (Session, Traffic, error) {
	conn, secure, err := w.dial("imap", "imaps")
	if err != nil {
		return nil, Traffic{}, err
	}
	defer w.guard(ctx, conn)()
	s := &imapSession{w: w, u: u, conn: conn}
	known, err := s.greet(w.Target.StartTLS && !secure)
	if err == nil && !known {
		err = s.command("LOGIN " + quote(u.Name) + " " + quote(u.Password))
	}
	if err != nil {
		_ = s.conn.Close()
		return nil, s.t, err
	}
	return s, s.t, nil
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// greet reads the greeting and starts TLS; known means that the server has already authenticated the user (PREAUTH).
func (s *imapSession) greet(startTLS bool) (known bool, err error) {
	if err := s.arm(s.w.timeout()); err != nil {
		return false, err
	}
	err = s.listen(func(in *reader) error {
		line, err := in.line()
		if err != nil {
			return fmt.Errorf("drive: greeting: %w", err)
		}
		known = bytes.HasPrefix(line, []byte("* PREAUTH"))
		switch {
		case known, bytes.HasPrefix(line, []byte("* OK")):
			return nil
		case bytes.HasPrefix(line, []byte("* ")):
			return &Refusal{strings.TrimSpace(string(line[2:]))}
		}
		return fmt.Errorf("%w: it greets with %.40q", ErrProtocol, bytes.TrimSpace(line))
	})
	if err != nil || !startTLS {
		return known, err
	}
	if err := s.command("STARTTLS"); err != nil {
		return known, err
	}
	if len(s.left) > 0 {
		return known, fmt.Errorf("%w: it spoke before the handshake", ErrProtocol)
	}
	s.conn = tls.Client(s.conn, s.w.Target.tlsFor(s.w.Target.Doors["imap"]))
	return known, nil
}

func (s *imapSession) arm(d time.Duration) error {
	if s.closing {
		d = min(d, farewell)
	}
	return s.conn.SetDeadline(s.w.Env.Clock.Now().Add(d))
}

// Do implements Session.
func (s *imapSession) Do(ctx context.Context, p *workload.Planned) (Traffic, error) {
	s.t = Traffic{}
	defer s.w.guard(ctx, s.conn)()
	err := s.do(ctx, p)
	return s.t, err
}

func (s *imapSession) do(ctx context.Context, p *workload.Planned) error {
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
		return s.flag(p.Pick)
	case workload.Move:
		return s.move(p.Pick)
	case workload.Delete:
		return s.delete(p.Pick)
	case workload.Add:
		return s.add(p)
	case workload.Poll:
		return s.command("NOOP")
	case workload.Idle:
		return s.idle(ctx, s.w.hold(p))
	case workload.Close:
		s.open = false
		return s.command("CLOSE")
	case workload.Send:
		m := s.w.outgoing(s.u, p)
		return s.submit(ctx, &m)
	case workload.Invite:
		m := s.w.invitation(s.u, p)
		return s.submit(ctx, &m)
	case workload.Reply:
		return s.reply(ctx, p)
	case workload.RSVP:
		return s.rsvp(ctx, p)
	case workload.Appointment:
		return s.appointment(p)
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
	clear(s.ids)
	if err := s.command("SELECT INBOX"); err != nil {
		return err
	}
	s.open = true
	s.top = s.exists + 1
	err := s.scroll()
	if n := len(s.known); n > 0 && s.high == 0 && err == nil {
		// The user's local copy has all messages from before the session.
		s.high, s.had = s.known[n-1], s.exists
	}
	return err
}

// scroll lists the page above the last listed one.
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

// need opens the INBOX if the script did not.
func (s *imapSession) need() error {
	if s.open {
		return nil
	}
	return s.openInbox()
}

// choose selects a message that the user has seen in a list.
func (s *imapSession) choose(pick uint64) (uint32, error) {
	if err := s.need(); err != nil {
		return 0, err
	}
	if len(s.known) == 0 {
		return 0, ErrNothing
	}
	return s.known[pick%uint64(len(s.known))], nil
}

// read reads the newest unread message, or any message if all are read.
func (s *imapSession) read(pick uint64) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	if n := len(s.unread); n > 0 {
		uid, s.unread = s.unread[n-1], s.unread[:n-1]
	}
	s.last = uid
	what := "BODY[]"
	if s.w.Workload.Attachments > 0 {
		what = "BODYSTRUCTURE BODY[1]"
	}
	s.file = false
	if err := s.command(fmt.Sprintf("UID FETCH %d (%s)", uid, what)); err != nil {
		return err
	}
	if s.came == 0 {
		// The server listed the message but does not return it, so it was not read, even if the reply is OK.
		s.forget(uid)
		return &Refusal{"OK, without the message"}
	}
	// The share is that of the attachments met; pick has chosen the message with its lower bits.
	if s.file && int(pick>>32%100) < s.w.Workload.Attachments {
		return s.command(fmt.Sprintf("UID FETCH %d (BODY[2])", uid))
	}
	return nil
}

// retrieve fetches the messages that are new since the last time. If there are none it sends no FETCH, because "n:*"
// also matches the last message.
func (s *imapSession) retrieve() error {
	if err := s.need(); err != nil {
		return err
	}
	if s.high > 0 {
		if err := s.command("NOOP"); err != nil || s.exists <= s.had {
			s.had = s.exists
			return err
		}
	}
	if s.exists == 0 {
		return nil
	}
	err := s.command(fmt.Sprintf("UID FETCH %d:* (UID BODY.PEEK[])", s.high+1))
	if n := len(s.known); n > 0 && err == nil {
		s.high, s.had = max(s.high, s.known[n-1]), s.exists
	}
	return err
}

// errAbsent is the error for the ledger when the server answered OK and did nothing, because the message has another
// UID by now or is gone (RFC 9051 section 6.4.9). Such an answer acknowledges nothing.
var errAbsent = errors.New("drive: no message has that UID")

// done returns the result of a command about one message: err, or errAbsent if the server did not confirm the effect.
func done(said bool, err error) error {
	if err == nil && !said {
		return errAbsent
	}
	return err
}

// mark sets a flag; said reports whether the server's response shows the message with it. It requests that response
// only if a ledger is kept.
func (s *imapSession) mark(uid uint32, flag string) (said bool, err error) {
	silent := ".SILENT"
	if s.w.Ledger != nil {
		silent = ""
	}
	err = s.command(fmt.Sprintf("UID STORE %d +FLAGS%s (%s)", uid, silent, flag))
	return s.told == uid, err
}

func (s *imapSession) flag(pick uint64) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	said, err := s.mark(uid, `\Flagged`)
	s.w.Ledger.Flagged(s.u.Address, s.ids[uid], done(said, err))
	return err
}

func (s *imapSession) move(pick uint64) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	id := s.ids[uid]
	s.forget(uid)
	err = s.command(fmt.Sprintf("UID MOVE %d Archive", uid))
	s.w.Ledger.Moved(s.u.Address, id, done(s.went > 0, err))
	return err
}

func (s *imapSession) delete(pick uint64) error {
	uid, err := s.choose(pick)
	if err != nil {
		return err
	}
	id := s.ids[uid]
	said, err := s.mark(uid, `\Deleted`)
	s.forget(uid) // after the answer, which mentions it once more
	if err == nil {
		err = s.command(fmt.Sprintf("UID EXPUNGE %d", uid))
	}
	s.w.Ledger.Deleted(s.u.Address, id, done(said && s.went > 0, err))
	return err
}

// forget drops a message that is no longer in the INBOX.
func (s *imapSession) forget(uid uint32) {
	drop := func(list []uint32) []uint32 {
		return slices.DeleteFunc(list, func(u uint32) bool { return u == uid })
	}
	s.known, s.unread = drop(s.known), drop(s.unread)
	delete(s.ids, uid)
	if s.last == uid {
		s.last = 0 // a reply to it must not mark another message
	}
}

// add appends a message to the user's own INBOX.
func (s *imapSession) add(p *workload.Planned) error {
	m := s.w.compose(s.u, p)
	m.To = []string{s.u.Address}
	buf := s.w.memory.takeMessage()
	defer s.w.memory.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	err := s.append(ledger.Inbox, *buf, "")
	s.w.Ledger.Added(s.u.Address, m.ID, err)
	return err
}

// append sends APPEND with a synchronising literal, which every server supports.
func (s *imapSession) append(folder string, message []byte, flags string) error {
	return s.exchange(fmt.Sprintf("APPEND %s %s{%d}", folder, flags, len(message)), message)
}

// sentFolder holds copies of what a user has sent.
const sentFolder = "Sent"

// submit sends a message, and files a copy in Sent if the workload keeps one. The user waits for both.
func (s *imapSession) submit(ctx context.Context, m *content.Message) error {
	if err := s.traffic(s.w.submit(ctx, s.u, m, false)); err != nil || !s.w.Workload.Sent {
		return err
	}
	buf := s.w.memory.takeMessage()
	defer s.w.memory.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	return s.append(sentFolder, *buf, `(\Seen) `)
}

// reply answers the last message read. It goes to users of the run, who send all mail.
func (s *imapSession) reply(ctx context.Context, p *workload.Planned) error {
	m := s.w.compose(s.u, p)
	m.To, m.Subject = s.w.recipients(s.u, p), "Re: "+m.Subject
	if s.last != 0 {
		m.InReplyTo = strconv.FormatUint(uint64(s.last), 10)
	}
	if err := s.submit(ctx, &m); err != nil || s.last == 0 || !s.open {
		return err
	}
	return s.command(fmt.Sprintf("UID STORE %d +FLAGS.SILENT (\\Answered)", s.last))
}

// rsvp reads the newest invitation that a listing has shown and that is still there, and answers it. The user may have
// filed or deleted others since.
func (s *imapSession) rsvp(ctx context.Context, p *workload.Planned) error {
	for v, ok := s.asked.next(); ok; v, ok = s.asked.next() {
		if err := s.need(); err != nil {
			return err
		}
		if err := s.command("UID FETCH " + v.message + " (BODY[])"); err != nil {
			return err
		}
		if s.came > 0 {
			m := s.w.accepted(s.u, v, p)
			return s.submit(ctx, &m)
		}
	}
	return ErrNothing
}

// appointment puts an event into the user's own folder of events. IMAP has no calendar; the client of the documents
// wrote such an event into the user's own mail file too.
func (s *imapSession) appointment(p *workload.Planned) error {
	m := appointment(s.w, s.u, p)
	buf := s.w.memory.takeMessage()
	defer s.w.memory.giveMessage(buf)
	*buf = m.Append((*buf)[:0])
	err := s.append(ledger.Calendar, *buf, `(\Seen) `)
	s.w.Ledger.Added(s.u.Address, m.ID, err)
	return err
}

// farewell is the timeout of LOGOUT, for which no user waits.
const farewell = 5 * time.Second

// Close implements Session.
func (s *imapSession) Close() error {
	s.t = Traffic{}
	if s.broken {
		return s.conn.Close()
	}
	s.closing = true
	return errors.Join(s.command("LOGOUT"), s.conn.Close())
}

// command sends a command and reads up to its tagged answer.
func (s *imapSession) command(text string) error {
	s.came, s.told, s.went = 0, 0, 0
	return s.exchange(text, nil)
}
