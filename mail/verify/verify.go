// Package verify finds out whether a message from a stranger is from whom it says: SPF, DKIM and
// DMARC, the name of the client's address, block lists and greylisting. It decides nothing that the
// settings do not ask for, and trouble with name servers never refuses a message for good.
//
// A door uses it in this order:
//
//	at RCPT     Listed(ctx, ip)               block lists; not for postmaster and abuse
//	at RCPT     Greylisted(ip, from, to)      greylisting; not for postmaster and abuse
//	at the end  Message(ctx, client, message) the verdict, of the message as it came
//	then        Forged(field)                 which fields to take out of its header (mail.CutFields)
//	            Verdict.Header                what to put before it
//
// None of them is asked about people who signed in. Exempt says which clients are not asked about.
package verify

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"doublet/client/dns"
	"doublet/env"
	"doublet/stat"
	"doublet/wire/dkim"
	"doublet/wire/smtp"
)

// Enforce says how far a policy is followed.
type Enforce uint8

// What is done about a message that fails. Each does what those before it do, or less.
const (
	// Off looks nothing up.
	Off Enforce = iota
	// Mark only writes the result into the header.
	Mark
	// Junk delivers into the Junk folder.
	Junk
	// Reject refuses.
	Reject
)

// ParseEnforce reads off, mark, junk or reject.
func ParseEnforce(s string) (Enforce, error) {
	for e, word := range [...]string{"off", "mark", "junk", "reject"} {
		if s == word {
			return Enforce(e), nil
		}
	}
	return Off, fmt.Errorf("verify: %q is none of off, mark, junk, reject", s)
}

// ParseNetworks reads addresses and networks, separated by white space.
func ParseNetworks(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, word := range strings.Fields(s) {
		p, err := netip.ParsePrefix(word)
		if a, bad := netip.ParseAddr(word); bad == nil {
			p, err = a.Unmap().Prefix(a.Unmap().BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("verify: %q is neither an address nor a network", word)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Options are the settings; the zero value verifies nothing.
type Options struct {
	// Hostname is the server's name: the authserv-id of its Authentication-Results fields.
	Hostname string
	// SPF is what is done about a message whose sender's domain says that the client may not send it
	// (fail, not softfail). DMARC decides before it where the author's domain has a policy.
	SPF Enforce
	// DMARC is how far the policy of the author's domain is followed: where it asks for reject and
	// this says Junk, the message is junk. DKIM is checked whenever this is not Off.
	DMARC Enforce
	// Defer answers 451 where name servers fail and nothing else proves the author; otherwise the
	// message is taken and marked.
	Defer bool
	// Blocklists are DNSBL zones; Blocked is what is done about clients that are in one (Junk or
	// Reject).
	Blocklists []string
	Blocked    Enforce
	// GreylistDelay is how long a stranger's first attempt is put off; 0: no greylisting.
	GreylistDelay time.Duration
	// GreylistEntries bounds what greylisting remembers; 0: 100,000.
	GreylistEntries int
	// ARCTrusted are domains whose ARC seals vouch for results that were lost on the way.
	ARCTrusted []string
	// Exempt are networks of relays and scanners of one's own.
	Exempt []netip.Prefix
	// Timeout bounds what one message waits for name servers; 0: 20 seconds.
	Timeout time.Duration
	// Stats receives Mail.Verify.*; it may be nil.
	Stats *stat.Tree
}

// Client is who sends, as the SMTP session knows it.
type Client struct {
	IP   netip.Addr
	Helo string
	// From is the envelope's sender; it may be null.
	From smtp.Path
}

// Action is what is to be done with a message.
type Action uint8

// The actions.
const (
	// Accept delivers the message.
	Accept Action = iota
	// ToJunk delivers it into the Junk folder.
	ToJunk
	// Refuse answers Verdict.Reply, 5xx.
	Refuse
	// TempFail answers Verdict.Reply, 4xx.
	TempFail
)

func (a Action) String() string {
	return [...]string{"accept", "junk", "reject", "defer"}[a]
}

// Result is a result of RFC 8601 section 2.7, as it stands in the header: "pass", "fail",
// "softfail", "neutral", "none", "temperror", "permerror", "policy".
type Result string

// The results.
const (
	None      Result = "none"
	Pass      Result = "pass"
	Fail      Result = "fail"
	SoftFail  Result = "softfail"
	Neutral   Result = "neutral"
	TempError Result = "temperror"
	PermError Result = "permerror"
	Policy    Result = "policy"
)

// SPF is the result of SPF for one identity.
type SPF struct {
	Result Result
	// Domain is that of MAIL FROM, or of HELO.
	Domain string
	// Helo says that the identity is HELO's.
	Helo bool
}

// DKIM is the result for one signature.
type DKIM struct {
	Result                      Result
	Domain, Selector, Algorithm string
	// Identity is the signature's i=, "" where it has none.
	Identity string
	// Start is the beginning of the signature's own data, by which RFC 6008 tells signatures apart.
	Start string
	// Reason says why it is no pass.
	Reason string
	// Testing says that the key's owner is only testing (t=y).
	Testing bool
}

// DMARC is the result for the author's domain.
type DMARC struct {
	Result Result
	// Domain is the author's (From), Organization the organisational domain above it.
	Domain, Organization string
	// Published is what the policy asks for: "none", "quarantine", "reject", "" where there is none.
	Published string
	// Applied is what it comes to for this message, after pct.
	Applied string
	// Aligned says that SPF or a signature proves the domain of every author, also where none publishes a policy.
	Aligned bool
	Reason  string
}

// Verdict is what was found out about a message and what is to be done with it.
type Verdict struct {
	Action Action
	// Reply is the answer where Action is Refuse or TempFail.
	Reply *smtp.Reply
	// Reason says why Action is not Accept, for the log.
	Reason string
	// Header is the Authentication-Results field to put before the message, whole lines.
	Header []byte
	// SPF is that of MAIL FROM, or of HELO where the sender is null; Helo that of HELO.
	SPF, Helo SPF
	DKIM      []DKIM
	DMARC     DMARC
	ARC       ARC
	// IPRev says whether the address has a name that leads back to it, RevName which.
	IPRev   Result
	RevName string
}

// Verifier verifies. Its methods may be called from any goroutine.
type Verifier struct {
	env  *env.Env
	dns  *dns.Resolver
	opt  Options
	grey *greylist

	messages, refused, junked, deferred, listed, greylisted *stat.Counter
}

// New makes a verifier.
func New(e *env.Env, r *dns.Resolver, o Options) *Verifier {
	if o.Hostname == "" {
		o.Hostname = "localhost"
	}
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	if o.GreylistEntries <= 0 {
		o.GreylistEntries = 100_000
	}
	v := &Verifier{env: e, dns: r, opt: o,
		messages:   o.Stats.Counter("Mail.Verify.Messages", "messages of strangers that were looked into"),
		refused:    o.Stats.Counter("Mail.Verify.Refused", "messages refused by SPF or DMARC"),
		junked:     o.Stats.Counter("Mail.Verify.Junk", "messages taken as junk by SPF, DMARC or a block list"),
		deferred:   o.Stats.Counter("Mail.Verify.Deferred", "messages put off because name servers failed"),
		listed:     o.Stats.Counter("Mail.Verify.Listed", "clients found in a block list"),
		greylisted: o.Stats.Counter("Mail.Verify.Greylisted", "attempts put off by greylisting"),
	}
	if o.GreylistDelay > 0 {
		v.grey = newGreylist(e, o.GreylistDelay, o.GreylistEntries)
		o.Stats.GaugeFunc("Mail.Verify.GreylistEntries", "senders that greylisting remembers", func() float64 { return float64(v.grey.len()) })
	}
	return v
}

// Exempt says that a client is not asked about: this machine, and the networks of the settings.
func (v *Verifier) Exempt(ip netip.Addr) bool {
	ip = ip.Unmap()
	if !ip.IsValid() || ip.IsLoopback() {
		return true
	}
	for _, p := range v.opt.Exempt {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// Enabled says that Message looks into anything.
func (v *Verifier) Enabled() bool {
	return v.opt.SPF != Off || v.opt.DMARC != Off || len(v.opt.Blocklists) > 0 && v.opt.Blocked == Junk
}

// Message looks into a message as it came, before anything is cut or put before it. message is its
// CRLF lines; it is only read.
func (v *Verifier) Message(ctx context.Context, c Client, message []byte) Verdict {
	if v.Exempt(c.IP) || !v.Enabled() {
		return Verdict{}
	}
	v.messages.Inc()
	ctx, cancel := context.WithTimeout(ctx, v.opt.Timeout)
	defer cancel()
	c.IP = c.IP.Unmap().WithZone("")
	var out Verdict
	var wg sync.WaitGroup
	// Name servers are waited for once, not one check after the other.
	beside := func(name string, fn func()) {
		wg.Add(1)
		v.env.Go(name, func() {
			defer wg.Done()
			fn()
		})
	}
	if v.opt.SPF != Off || v.opt.DMARC != Off {
		beside("verify spf", func() { out.SPF, out.Helo = v.spf(ctx, c) })
		beside("verify iprev", func() { out.IPRev, out.RevName = v.iprev(ctx, c.IP) })
	}
	var authors []author
	if v.opt.DMARC != Off {
		authors = v.policies(ctx, message, beside)
		m := dkim.New(message)
		out.DKIM = v.dkim(ctx, m)
		out.ARC = v.arc(ctx, m)
	}
	wg.Wait()
	if v.opt.DMARC != Off {
		out.DMARC = v.dmarc(authors, out.SPF, out.DKIM)
		out.ARC.Vouched = len(authors) == 1 && out.DMARC.Result == Fail && v.vouches(&out.ARC, out.DMARC.Domain)
	}
	v.decide(ctx, c, &out)
	out.Header = v.header(c, &out)
	switch out.Action {
	case Refuse:
		v.refused.Inc()
	case ToJunk:
		v.junked.Inc()
	case TempFail:
		v.deferred.Inc()
	}
	return out
}

// decide makes an action of the results. What DMARC says goes before what SPF says: a message that
// was forwarded fails SPF, and its author may still be proven.
func (v *Verifier) decide(ctx context.Context, c Client, out *Verdict) {
	d := &out.DMARC
	if out.ARC.Vouched {
		d = &DMARC{Result: Pass}
	}
	switch {
	case d.Result == Fail && d.Applied == "reject" && v.opt.DMARC == Reject:
		out.refuse(smtp.NewReply(550, 5, 7, 1, "Rejected by the DMARC policy of "+d.Domain), "dmarc policy of "+d.Domain)
	case d.Result == Fail && (d.Applied == "reject" || d.Applied == "quarantine") && v.opt.DMARC >= Junk:
		out.junk("dmarc policy of " + d.Domain)
	case d.Result == PermError && v.opt.DMARC >= Junk:
		out.junk("dmarc: " + d.Reason)
	case d.Result == TempError && v.opt.Defer:
		out.defers("the policy of " + d.Domain + " cannot be looked up")
	case d.Result == TempError && (d.Published == "reject" || d.Published == "quarantine") && v.opt.DMARC >= Junk:
		// Whose signature the message shows, its sender chose: one of a name below the author's domain
		// that no server answers for must not open the way into INBOX.
		out.junk("dmarc policy of " + d.Domain + ": " + d.Reason)
	}
	if out.Action == Accept && d.Result != Pass {
		switch {
		case out.SPF.Result == Fail && v.opt.SPF == Reject && d.Result != TempError: // DMARC might have passed
			out.refuse(smtp.NewReply(550, 5, 7, 23, "SPF validation failed: "+out.SPF.Domain+" does not let "+c.IP.String()+" send"), "spf of "+out.SPF.Domain)
		case out.SPF.Result == Fail && v.opt.SPF >= Junk:
			out.junk("spf of " + out.SPF.Domain)
		case out.SPF.Result == TempError && v.opt.SPF == Reject && v.opt.Defer:
			out.defers("the SPF record of " + out.SPF.Domain + " cannot be looked up")
		}
	}
	if out.Action == Accept && v.opt.Blocked == Junk {
		if l, ok := v.blocked(ctx, c.IP); ok {
			out.junk("listed by " + l.zone)
		}
	}
}

func (o *Verdict) refuse(r *smtp.Reply, why string) { o.Action, o.Reply, o.Reason = Refuse, r, why }
func (o *Verdict) junk(why string)                  { o.Action, o.Reason = ToJunk, why }

func (o *Verdict) defers(why string) {
	o.Action, o.Reason = TempFail, why
	o.Reply = smtp.NewReply(451, 4, 7, 24, "Try again later: "+why)
}

// iprev looks whether the client's address has a name that leads back to it.
//
// Implements: RFC 8601 §3 The iprev authentication method
func (v *Verifier) iprev(ctx context.Context, ip netip.Addr) (Result, string) {
	names, _, err := v.dns.PTR(ctx, ip)
	switch {
	case errors.Is(err, dns.ErrNotFound):
		return PermError, ""
	case err != nil:
		return TempError, ""
	}
	trouble := false
	for _, name := range names[:min(len(names), maxNames)] {
		there, _, err := v.dns.Addresses(ctx, name)
		trouble = trouble || errors.Is(err, dns.ErrTemporary)
		for _, a := range there {
			if a == ip {
				return Pass, name
			}
		}
	}
	if trouble {
		return TempError, ""
	}
	return Fail, ""
}

// maxNames bounds how many names of an address are tried.
const maxNames = 5

func equalFold(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }
