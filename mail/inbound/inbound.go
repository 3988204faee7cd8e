// Package inbound asks about mail on its way in, before it is taken in charge: who sends it (DNSBL,
// greylisting, SPF, DKIM, DMARC), and what filters say (milters, rspamd). A door begins a Session with
// each client and tells it what the client says; what comes back is a refusal, or what is to be done
// with the message.
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

// Options are the settings; the zero value asks nothing.
type Options struct {
	// Hostname is the server's name.
	Hostname string
	// Verify may be nil.
	Verify *verify.Verifier
	// Milters are asked in order. MilterAccept takes mail when one of them fails; else it is put off.
	// Submissions says that they are asked about mail of people who signed in, too.
	Milters      []*milter.Filter
	MilterAccept bool
	Submissions  bool
	// Rspamd may be nil; RspamdAccept is as with milters.
	Rspamd       *rspamd.Client
	RspamdAccept bool
	// Observer may be nil.
	Observer Observer
	// Quiet leaves out of the log which messages are refused.
	Quiet bool
	Stats *stat.Tree
}

// Service asks. Its methods may be called from any goroutine.
type Service struct {
	env *env.Env
	opt Options

	refused, discarded, held, junked, failures *stat.Counter
}

// New makes a Service.
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

// Client is what a door knows of whom it serves. It may change before each message.
type Client struct {
	IP      netip.Addr
	Helo    string
	TLS     string // version and cipher suite, empty without TLS
	User    string // who signed in
	Trusted bool   // nothing is asked: LMTP of this machine
}

// Session is one client's. A nil Session asks nothing.
type Session struct {
	s        *Service
	client   Client
	filters  []filter
	id       note.UNID // names the message to filters
	from     smtp.Path
	to       []smtp.Path
	open     bool // MAIL has been told
	stranger bool
	verdict  *verify.Verdict // of the message, where it was looked into
}

// Begin begins a session at MAIL; nil where nothing would be asked.
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

// Same says that the session is still that of the client as it is now.
func (x *Session) Same(c Client) bool { return x != nil && x.client == c }

// Copies says that a message may be held a second time here, as filters have changed it.
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

// Mail begins a message; a reply refuses it.
func (x *Session) Mail(ctx context.Context, from smtp.Path, p *smtp.MailParams) *smtp.Reply {
	if x == nil {
		return nil
	}
	x.Reset()
	x.s.env.Fill(x.id[:])
	x.from, x.open = from, true
	for i := range x.filters {
		if r := x.told(&x.filters[i], func(f *filter) (milter.Verdict, error) { return f.mail(ctx, x, from, p) }); r != nil {
			return r
		}
	}
	return nil
}

// Rcpt names a recipient; a reply refuses this one.
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

// Reset ends a message before its end.
func (x *Session) Reset() {
	if x == nil || !x.open {
		return
	}
	x.open, x.to = false, x.to[:0]
	for i := range x.filters {
		x.filters[i].abort()
	}
}

// told asks a milter, unless it has decided already; trouble with it becomes what the setting says.
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

// trouble ends a milter's session, and says what becomes of the message.
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
