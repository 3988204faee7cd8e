// Package verify authenticates the senders of incoming mail: SPF, DKIM, DMARC and ARC, the reverse name of the client's
// address, block lists and greylisting. It acts only as the settings say, and a DNS failure never causes a permanent
// rejection.
//
// A server calls it in this order:
//
//	at RCPT     Listed(ctx, ip)               block lists; not for postmaster and abuse
//	at RCPT     Greylisted(ip, from, to)      greylisting; not for postmaster and abuse
//	at the end  Message(ctx, client, message) the verdict on the message as received
//	then        Forged(field)                 the fields to remove from its header (fields.CutFields)
//	            Verdict.Header                the field to put before it
//
// Authenticated users are not checked. Exempt reports which clients are not checked.
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

// Enforce is the degree to which a policy is enforced.
type Enforce uint8

// The degrees, from weakest to strictest.
const (
	// Off makes no lookups.
	Off Enforce = iota
	// Mark only adds the result to the header.
	Mark
	// Junk delivers to the Junk folder.
	Junk
	// Reject rejects the message.
	Reject
)

// ParseEnforce parses off, mark, junk or reject.
func ParseEnforce(s string) (Enforce, error) {
	for e, word := range [...]string{"off", "mark", "junk", "reject"} {
		if s == word {
			return Enforce(e), nil
		}
	}
	return Off, fmt.Errorf("verify: %q is not off, mark, junk or reject", s)
}

// ParseNetworks parses addresses and networks, separated by white space.
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

// Options are the settings. The zero value verifies nothing.
type Options struct {
	// Hostname is the server's name, and the authserv-id of its Authentication-Results fields.
	Hostname string
	// SPF applies to messages for which SPF results in fail (not softfail). If the author's domain has a DMARC policy,
	// DMARC decides first.
	SPF Enforce
	// DMARC is the limit for the policies of authors' domains: if the policy is reject and this is Junk, the message
	// goes to Junk. DKIM is checked unless this is Off.
	DMARC Enforce
	// Defer replies 451 if DNS fails and nothing else authenticates the author. Otherwise such a message is accepted
	// and marked.
	Defer bool
	// Blocklists are DNSBL zones. Blocked is the treatment of listed clients (Junk or Reject).
	Blocklists []string
	Blocked    Enforce
	// GreylistDelay is the time for which a new triplet is deferred; 0 disables greylisting.
	GreylistDelay time.Duration
	// GreylistEntries is the maximum number of greylist entries; 0 means 100,000.
	GreylistEntries int
	// ARCTrusted lists domains whose ARC seals are trusted to replace results that were lost by forwarding.
	ARCTrusted []string
	// Exempt lists the networks of the operator's own relays and scanners.
	Exempt []netip.Prefix
	// Timeout limits the DNS lookups for one message; 0 means 20 seconds.
	Timeout time.Duration
	// Stats receives the Mail.Verify.* statistics; it may be nil.
	Stats *stat.Tree
}

// Client describes the SMTP client and the sender.
type Client struct {
	IP   netip.Addr
	Helo string
	// From is the envelope sender; it may be null.
	From smtp.Path
}

// Action is the treatment of a message.
type Action uint8

// The actions.
const (
	// Accept delivers the message.
	Accept Action = iota
	// ToJunk delivers it to the Junk folder.
	ToJunk
	// Refuse rejects with Verdict.Reply, 5xx.
	Refuse
	// TempFail rejects with Verdict.Reply, 4xx.
	TempFail
)

func (a Action) String() string {
	return [...]string{"accept", "junk", "reject", "defer"}[a]
}

// Result is a result of RFC 8601 section 2.7, as written in the header: "pass", "fail", "softfail", "neutral", "none",
// "temperror", "permerror", "policy".
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
	// Domain is the domain of MAIL FROM or of HELO.
	Domain string
	// Helo is set if the identity is that of HELO.
	Helo bool
}

// DKIM is the result for one signature.
type DKIM struct {
	Result                      Result
	Domain, Selector, Algorithm string
	// Identity is the i= tag of the signature, "" if it has none.
	Identity string
	// Start is the beginning of the signature data, which distinguishes signatures (RFC 6008).
	Start string
	// Reason explains a result other than Pass.
	Reason string
	// Testing is set if the key has the flag t=y.
	Testing bool
}

// DMARC is the result for the author's domain.
type DMARC struct {
	Result Result
	// Domain is the author's domain (From), Organization its organizational domain.
	Domain, Organization string
	// Published is the published policy: "none", "quarantine", "reject", or "" if there is none.
	Published string
	// Applied is the policy that applies to this message, after pct.
	Applied string
	// Aligned is set if SPF or a signature authenticates the domain of every author, even if none publishes a policy.
	Aligned bool
	// SPFAligned and DKIMAligned report whether SPF, or a signature, passes and is aligned with Domain.
	SPFAligned, DKIMAligned bool
	// Record is the policy record for Domain, and RecordDomain the domain that publishes it. They are nil and "" if
	// there is none.
	Record       *Record
	RecordDomain string
	Reason       string
}

// Verdict is the result of the verification of a message, and the action to take.
type Verdict struct {
	Action Action
	// Reply is the reply if Action is Refuse or TempFail.
	Reply *smtp.Reply
	// Reason explains an Action other than Accept, for the log.
	Reason string
	// Header is the Authentication-Results field to put before the message, with its line end.
	Header []byte
	// SPF is the result for MAIL FROM, or for HELO if the sender is null. Helo is the result for HELO.
	SPF, Helo SPF
	DKIM      []DKIM
	DMARC     DMARC
	ARC       ARC
	// IPRev is the result of the reverse lookup of the client's address. RevName is the confirmed name.
	IPRev   Result
	RevName string
}

// Verifier verifies messages. Its methods may be called from any goroutine.
type Verifier struct {
	env  *env.Env
	dns  *dns.Resolver
	opt  Options
	grey *greylist

	messages, refused, junked, deferred, listed, greylisted *stat.Counter
}

// New returns a Verifier.
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
		o.Stats.GaugeFunc("Mail.Verify.GreylistEntries", "senders that greylisting remembers",
			func() float64 { return float64(v.grey.len()) })
	}
	return v
}

// Exempt reports whether a client is not checked: this machine, and the networks of the settings.
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

// Enabled reports whether Message checks anything.
func (v *Verifier) Enabled() bool {
	return v.opt.SPF != Off || v.opt.DMARC != Off || len(v.opt.Blocklists) > 0 && v.opt.Blocked == Junk
}

// Message verifies a message as it was received, before any field is removed or added. message has CRLF lines and is
// not modified.
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
	// The lookups run concurrently.
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

// decide sets the action from the results. DMARC has precedence over SPF: a forwarded message fails SPF, but DKIM may
// still authenticate its author.
func (v *Verifier) decide(ctx context.Context, c Client, out *Verdict) {
	d := &out.DMARC
	if out.ARC.Vouched {
		d = &DMARC{Result: Pass}
	}
	v.decideDMARC(d, out)
	if out.Action == Accept && d.Result != Pass {
		v.decideSPF(c, d, out)
	}
	if out.Action == Accept && v.opt.Blocked == Junk {
		if l, ok := v.blocked(ctx, c.IP); ok {
			out.junk("listed by " + l.zone)
		}
	}
}

// restricts reports whether a DMARC policy asks receivers not to deliver mail as usual.
func restricts(policy string) bool { return policy == "reject" || policy == "quarantine" }

func (v *Verifier) decideDMARC(d *DMARC, out *Verdict) {
	switch {
	case d.Result == Fail && d.Applied == "reject" && v.opt.DMARC == Reject:
		out.refuse(smtp.NewReply(550, 5, 7, 1, "Rejected by the DMARC policy of "+d.Domain),
			"dmarc policy of "+d.Domain)
	case d.Result == Fail && restricts(d.Applied) && v.opt.DMARC >= Junk:
		out.junk("dmarc policy of " + d.Domain)
	case d.Result == PermError && v.opt.DMARC >= Junk:
		out.junk("dmarc: " + d.Reason)
	case d.Result == TempError && v.opt.Defer:
		out.defers("the policy of " + d.Domain + " cannot be looked up")
	case d.Result == TempError && restricts(d.Published) && v.opt.DMARC >= Junk:
		// The sender chooses the domains of the signatures. A signature for a subdomain of the author's domain with an
		// unreachable DNS server must not get forged mail into INBOX.
		out.junk("dmarc policy of " + d.Domain + ": " + d.Reason)
	}
}

func (v *Verifier) decideSPF(c Client, d *DMARC, out *Verdict) {
	switch {
	case out.SPF.Result == Fail && v.opt.SPF == Reject && d.Result != TempError: // DMARC might have passed
		out.refuse(smtp.NewReply(550, 5, 7, 23, "SPF validation failed: "+out.SPF.Domain+" does not let "+
			c.IP.String()+" send"), "spf of "+out.SPF.Domain)
	case out.SPF.Result == Fail && v.opt.SPF >= Junk:
		out.junk("spf of " + out.SPF.Domain)
	case out.SPF.Result == TempError && v.opt.SPF == Reject && v.opt.Defer:
		out.defers("the SPF record of " + out.SPF.Domain + " cannot be looked up")
	}
}

func (o *Verdict) refuse(r *smtp.Reply, why string) { o.Action, o.Reply, o.Reason = Refuse, r, why }
func (o *Verdict) junk(why string)                  { o.Action, o.Reason = ToJunk, why }

func (o *Verdict) defers(why string) {
	o.Action, o.Reason = TempFail, why
	o.Reply = smtp.NewReply(451, 4, 7, 24, "Try again later: "+why)
}

// iprev checks that the client's address has a name that resolves to the address.
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

// maxNames is the maximum number of names of an address that are tried.
const maxNames = 5

func equalFold(a, b string) bool { return len(a) == len(b) && strings.EqualFold(a, b) }
