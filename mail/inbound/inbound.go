// Package inbound checks incoming mail before the server accepts it. It checks the sender (DNSBL, greylisting, SPF,
// DKIM, DMARC), and asks filters (milters, rspamd). A server begins a Session for each client and passes on the
// client's commands. The result is a rejection, or an Outcome with the treatment of the message.
package inbound

import (
	"context"
	"net/netip"

	"doublet/client/milter"
	"doublet/client/rspamd"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/smtp"
)

// Options are the settings. The zero value means no checks.
type Options struct {
	// Hostname is the server's name.
	Hostname string
	// Verify may be nil.
	Verify *verify.Verifier
	// Milters are asked in order. If one fails, the mail is accepted if MilterAccept is set, otherwise deferred.
	// Submissions extends the filters to mail from authenticated users.
	Milters      []*milter.Filter
	MilterAccept bool
	Submissions  bool
	// Rspamd may be nil. RspamdAccept corresponds to MilterAccept.
	Rspamd       *rspamd.Client
	RspamdAccept bool
	// Observer may be nil.
	Observer Observer
	// Quiet disables log lines about rejected messages.
	Quiet bool
	Stats *stat.Tree
}

// Service begins Sessions. Its methods may be called from any goroutine.
type Service struct {
	env *env.Env
	opt Options

	refused, discarded, held, junked, failures *stat.Counter
}

// New returns a Service.
func New(e *env.Env, o Options) *Service {
	return &Service{
		env: e, opt: o,
		refused:   o.Stats.Counter("Mail.Filter.Refused", "messages and recipients that filters refused"),
		discarded: o.Stats.Counter("Mail.Filter.Discarded", "messages that filters threw away"),
		held:      o.Stats.Counter("Mail.Filter.Held", "messages that filters had held in mail.box"),
		junked:    o.Stats.Counter("Mail.Filter.Junk", "messages taken as junk by filters"),
		failures:  o.Stats.Counter("Mail.Filter.Failures", "filters that did not answer, or not as they should"),
	}
}

// Client describes the SMTP client. It may change before each message.
type Client struct {
	IP      netip.Addr
	Helo    string
	TLS     string // version and cipher suite, empty without TLS
	User    string // address of the authenticated user
	Trusted bool   // no checks: LMTP of this machine, or mail within the domain
}

// Session holds the checks for one client. A nil Session makes no checks.
type Session struct {
	s        *Service
	client   Client
	filters  []filter
	id       note.UNID // identifies the message to filters
	from     smtp.Path
	to       []smtp.Path
	open     bool // Mail was called
	stranger bool
	verdict  *verify.Verdict // of the message, if it was verified
}

// Begin begins a session at MAIL. It returns nil if no checks apply to the client.
func (s *Service) Begin(c Client) *Session {
	if s == nil || c.Trusted {
		return nil
	}
	stranger := c.User == "" && s.opt.Verify != nil && !s.opt.Verify.Exempt(c.IP)
	filters := c.User == "" || s.opt.Submissions
	watched := c.User == "" && s.opt.Observer != nil
	if !stranger && !watched && (!filters || len(s.opt.Milters) == 0 && s.opt.Rspamd == nil) {
		return nil
	}
	x := &Session{s: s, client: c, stranger: stranger}
	if filters {
		x.filters = make([]filter, len(s.opt.Milters))
		for i, m := range s.opt.Milters {
			x.filters[i].milter = m
		}
	}
	return x
}

// Same reports whether the session belongs to the client in its current state.
func (x *Session) Same(c Client) bool { return x != nil && x.client == c }

// Copies reports whether filters may cause a second copy of the message in memory.
func (x *Session) Copies() bool { return x != nil && (len(x.filters) > 0 || x.rspamd()) }

// Close ends the session.
func (x *Session) Close() {
	if x == nil {
		return
	}
	for i := range x.filters {
		x.filters[i].close()
	}
}

// Mail starts a message. A reply rejects it.
func (x *Session) Mail(ctx context.Context, from smtp.Path, p *smtp.MailParams) *smtp.Reply {
	if x == nil {
		return nil
	}
	x.Reset()
	x.s.env.Fill(x.id[:])
	x.from, x.open = from, true
	for i := range x.filters {
		if r := x.told(&x.filters[i],
			func(f *filter) (milter.Verdict, error) { return f.mail(ctx, x, from, p) }); r != nil {
			return r
		}
	}
	return nil
}

// Rcpt adds a recipient. A reply rejects this recipient.
func (x *Session) Rcpt(ctx context.Context, to smtp.Path) *smtp.Reply {
	if x == nil {
		return nil
	}
	if x.stranger && !mail.AlwaysArrives(to) {
		if r := x.s.opt.Verify.Listed(ctx, x.client.IP); r != nil {
			return r
		}
		if r := x.s.opt.Verify.Greylisted(x.client.IP, x.from, to); r != nil {
			return r
		}
	}
	for i := range x.filters {
		if r := x.told(&x.filters[i], func(f *filter) (milter.Verdict, error) { return f.rcpt(to) }); r != nil {
			return r
		}
	}
	x.to = append(x.to, to)
	return nil
}

// Reset cancels the current message.
func (x *Session) Reset() {
	if x == nil || !x.open {
		return
	}
	x.open, x.to = false, x.to[:0]
	for i := range x.filters {
		x.filters[i].abort()
	}
}

// told asks a milter, unless it has already decided. It handles an error as the settings say.
func (x *Session) told(f *filter, ask func(*filter) (milter.Verdict, error)) *smtp.Reply {
	if f.failed {
		return errFilter
	}
	if f.done || f.over {
		return nil
	}
	v, err := ask(f)
	if err != nil {
		return x.trouble(f, err)
	}
	switch v.Decision {
	case milter.Accept:
		f.done = true
	case milter.Discard:
		f.done, f.discard = true, true
	case milter.Refuse:
		x.s.refused.Inc()
		return v.Reply
	}
	return nil
}

var errFilter = smtp.NewReply(451, 4, 7, 1, "A filter does not answer, try again later")

// trouble ends a milter's session after an error, and returns the rejection of the message, or nil to go on without the
// milter.
func (x *Session) trouble(f *filter, err error) *smtp.Reply {
	x.s.failures.Inc()
	x.s.env.Log.Warn("mail: filter failed", "filter", f.milter.Name(), "err", err)
	f.close()
	if x.s.opt.MilterAccept {
		f.done = true
		return nil
	}
	f.failed = true
	return errFilter
}
