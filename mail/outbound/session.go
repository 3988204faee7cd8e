package outbound

import (
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"sync"

	client "doublet/client/smtp"
	"doublet/wire/mime"
	"doublet/wire/smtp"

	"golang.org/x/net/idna"
)

// Session is a connection to a server that accepts messages. It belongs to one goroutine.
type Session struct {
	// Host is the server's name for logs and reports, "name[address]". Name is its name alone.
	Host, Name string
	// Secure describes the protection of the connection. It is empty without TLS.
	Secure string
	// Sent counts the messages sent over the session.
	Sent int

	m      *Mailer
	c      *client.Client
	conn   net.Conn
	target *Target
	stop   func() bool

	mu      sync.Mutex
	sending bool // a message is being sent: wait for its outcome
}

// interrupt ends the session when the server stops. A message in transfer gets a grace period: the other server may
// have accepted it, and without its reply this server would send the message again.
func (s *Session) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sending {
		_ = s.conn.Close()
		return
	}
	s.m.env.Clock.AfterFunc(s.m.opt.Grace, func() { _ = s.conn.Close() })
}

func (s *Session) busy(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending = is
}

// Recipient is a recipient of a Message.
type Recipient struct {
	To     smtp.Path
	Params smtp.RcptParams
}

// Message is a message to send over a session.
type Message struct {
	From  smtp.Path
	EnvID string
	Ret   smtp.Ret
	// UTF8 is set if the message was submitted as internationalized mail (RFC 6531).
	UTF8 bool
	// Priority is the priority in the envelope (RFC 6710). It is valid only if HasPriority is set.
	Priority    int8
	HasPriority bool
	// RequireTLS is the REQUIRETLS parameter of MAIL (RFC 8689).
	RequireTLS bool
	// Transit is the transit parameter of MAIL, used between servers of the same domain.
	Transit string
	To      []Recipient
	// Prefix holds header fields that are sent before Data.
	Prefix, Data []byte
}

// Result is the outcome of sending a Message.
type Result struct {
	// Replies has one reply for each recipient. A positive reply means that the server has taken responsibility for the
	// message.
	Replies []*smtp.Reply
	// Own is set if this server generated the replies.
	Own bool
	// Relayed is set if the server does not support DSN, so it sends no delivery reports.
	Relayed bool
	// Broken is set if the session is over. Early is set if the server had not replied to MAIL yet, so that another
	// session may try at once.
	Broken, Early bool
}

var (
	replySize = smtp.NewReply(552, 5, 3, 4, "The message is larger than the recipient's server takes")
	reply8Bit = smtp.NewReply(554, 5, 6, 3,
		"The message has 8-bit characters, which the recipient's server does not take")
	replyUTF8 = smtp.NewReply(554, 5, 6, 7,
		"The message is internationalized, which the recipient's server does not take")
	replyBroken = smtp.NewReply(451, 4, 4, 2, "The connection broke while the message was sent")
)

// Fit re-encodes a message with 8-bit characters for a server without 8BITMIME, and reports whether it did. A message
// that cannot be re-encoded stays as it is, and Send rejects it.
//
// Implements: RFC 6152 §3 Conversion for a server without 8BITMIME
func (s *Session) Fit(msg *Message) bool {
	if _, ok := s.c.Ext("8BITMIME"); ok || !high(msg.Data) {
		return false
	}
	out, ok := mime.SevenBit(msg.Data)
	if ok {
		msg.Data = out
	}
	return ok
}

// Send sends a message. The result has the server's own replies, positive or not.
//
// Implements: RFC 1870 §6 SIZE declared and heeded by the client
// Implements: RFC 6152 §3 8BITMIME by the client
// Implements: RFC 6531 §3.2 SMTPUTF8 by the client
// Implements: RFC 3461 §5.2.1 DSN parameters passed on
// Implements: RFC 6710 §4.2 Priority passed on
func (s *Session) Send(msg *Message) Result {
	res := Result{Replies: make([]*smtp.Reply, len(msg.To))}
	size := int64(len(msg.Prefix) + len(msg.Data))
	out, bad := s.outgoing(msg, size, &res)
	if bad != nil {
		res.Own = true
		for i := range res.Replies {
			res.Replies[i] = bad
		}
		return res
	}
	if len(out.To) == 0 {
		res.Own = true
		return res
	}
	s.busy(true)
	got, err := s.c.Deliver(out)
	s.busy(false)
	s.Sent++
	res.Broken, res.Early = err != nil, err != nil && got.Mail == nil
	k := 0
	for i := range res.Replies {
		if res.Replies[i] != nil {
			continue // not offered to the server
		}
		res.Replies[i] = outcome(&got, k, err)
		if r := res.Replies[i]; r.Code == 421 {
			res.Broken = true
		}
		k++
	}
	return res
}

// outcome returns the final reply for the k-th offered recipient.
func outcome(got *client.Result, k int, err error) *smtp.Reply {
	switch {
	case got.Mail == nil:
		return replyBroken
	case !got.Mail.Positive():
		return got.Mail
	case k < len(got.Rcpt) && !got.Rcpt[k].Positive():
		return got.Rcpt[k]
	case len(got.Final) > 0 && got.Final[0] != nil:
		if err != nil && got.Final[0].Positive() {
			return replyBroken
		}
		return got.Final[0]
	}
	return replyBroken
}

// refuses returns the reply for a message that this server cannot get, or nil.
func (s *Session) refuses(msg *Message, size int64) *smtp.Reply {
	if msg.RequireTLS {
		if _, ok := s.c.Ext("REQUIRETLS"); !ok || s.Secure == "" {
			return replyNeedsTLS(s.Host)
		}
	}
	if limit := s.c.MaxSize(); limit > 0 && size > limit {
		return replySize
	}
	return nil
}

// outgoing converts a message to the extensions that this server supports. A recipient whose address cannot be
// converted gets a reply in res and is left out.
func (s *Session) outgoing(msg *Message, size int64, res *Result) (*client.Outgoing, *smtp.Reply) {
	has := func(name string) bool { _, ok := s.c.Ext(name); return ok }
	if reply := s.refuses(msg, size); reply != nil {
		return nil, reply
	}
	eight := high(msg.Data)
	out := &client.Outgoing{From: msg.From, Message: msg.Data, Prefix: msg.Prefix}
	out.Params.Size = -1
	if has("SIZE") {
		out.Params.Size = size
	}
	utf8 := has("SMTPUTF8")
	header := msg.UTF8 && eight && high(msg.Data[:mime.HeaderEnd(msg.Data)])
	if utf8 {
		out.Params.UTF8 = header || !msg.ascii()
	} else {
		var ok bool
		if out.From, ok = plainPath(msg.From); !ok || header {
			return nil, replyUTF8
		}
	}
	if eight {
		if !has("8BITMIME") {
			return nil, reply8Bit
		}
		out.Params.Body = smtp.Body8BitMIME
	}
	if res.Relayed = !has("DSN"); !res.Relayed {
		out.Params.EnvID, out.Params.Ret = msg.EnvID, msg.Ret
	}
	if has("MT-PRIORITY") {
		out.Params.Priority, out.Params.HasPriority = msg.Priority, msg.HasPriority
	}
	out.Params.Transit, out.Params.RequireTLS = msg.Transit, msg.RequireTLS
	res.addRecipients(out, msg.To, utf8)
	return out, nil
}

// addRecipients adds the recipients of a transaction. If the server lacks SMTPUTF8, a recipient whose address needs it
// gets a reply instead.
func (res *Result) addRecipients(out *client.Outgoing, list []Recipient, utf8 bool) {
	out.To = make([]smtp.Path, 0, len(list))
	for i := range list {
		to, ok := list[i].To, true
		if !utf8 {
			to, ok = plainPath(to)
		}
		if !ok {
			res.Replies[i] = replyUTF8
			continue
		}
		out.To = append(out.To, to)
		if !res.Relayed {
			out.RcptParams = append(out.RcptParams, list[i].Params)
		}
	}
}

// ascii reports whether all addresses of the envelope are ASCII.
func (m *Message) ascii() bool {
	return m.From.IsASCII() && !slices.ContainsFunc(m.To, func(r Recipient) bool { return !r.To.IsASCII() })
}

// plainPath returns a path for a server without SMTPUTF8. The domain is converted to A-labels; a non-ASCII local part
// cannot be converted.
func plainPath(p smtp.Path) (smtp.Path, bool) {
	if p.IsASCII() {
		return p, true
	}
	for i := range len(p.Local) {
		if p.Local[i] >= 0x80 {
			return p, false
		}
	}
	d, err := idna.Lookup.ToASCII(p.Domain)
	p.Domain = d
	return p, err == nil && !strings.ContainsAny(d, " \r\n<>")
}

// high reports whether any byte has its highest bit set.
func high(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return true
		}
		b = b[8:]
	}
	for _, c := range b {
		if c >= 0x80 {
			return true
		}
	}
	return false
}

// Check reports whether the server still answers, by sending RSET. This also ends a pending transaction.
func (s *Session) Check() error { return s.c.Reset() }

// Quit sends QUIT and closes the connection.
func (s *Session) Quit() {
	if s.c != nil {
		_ = s.c.Goodbye()
	}
	s.Close()
}

// Close closes the connection without QUIT.
func (s *Session) Close() {
	if s.stop != nil {
		s.stop()
	}
	_ = s.conn.Close()
}
