package mail

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// Answer is the way in which the client gets replies. It determines what happens to recipients that cannot be delivered
// to now.
type Answer uint8

// The answers.
const (
	// AnswerOnce is for SMTP: one reply for all recipients. If any recipient accepts the message, the others stay in
	// mail.box, to be retried or reported. If none does, the message is rejected.
	AnswerOnce Answer = iota
	// AnswerEach is for LMTP: one reply per recipient. mail.box keeps nothing for rejected recipients.
	AnswerEach
	// AnswerNone is for the server's own messages: all recipients that cannot be delivered to now stay in mail.box.
	AnswerNone
)

// Received holds the origin of a message for its Received field.
type Received struct {
	Helo     string
	IP       netip.Addr // zero if unknown
	TLS      string     // version and cipher suite, empty without TLS
	Protocol string     // as in RFC 3848: "ESMTPSA"
}

// Submitter is the authenticated person.
type Submitter struct {
	Who note.Who
	// Address is the address for a missing From or Sender field.
	Address string
}

// Recipient is an accepted recipient.
type Recipient struct {
	To     smtp.Path
	Params smtp.RcptParams
	// Target is the directory entry of To. Outside is set if To is in another domain and the submitter may send there.
	Target  directory.Target
	Outside bool

	// added is set if a mail rule added the recipient. The client does not know it, so it gets no reply for it.
	added bool
}

func alwaysArrives(address string) bool {
	p, err := smtp.ParsePath(address)
	return err == nil && AlwaysArrives(p)
}

// AlwaysArrives reports whether an address is a postmaster or abuse address. Mail for these must arrive despite quotas
// and other limits (RFC 5321 section 4.5.1, RFC 2142), because they belong to the people who can fix problems.
func AlwaysArrives(p smtp.Path) bool {
	local, _, _ := strings.Cut(p.Local, "+")
	return strings.EqualFold(local, "postmaster") || strings.EqualFold(local, "abuse")
}

// Submission is a message with its envelope.
type Submission struct {
	// ID is the queue ID; zero means a new random one. A message deposited again with the same ID is not delivered
	// again.
	ID         note.UNID
	From       smtp.Path
	Params     smtp.MailParams
	Recipients []Recipient
	// Message is the message with CRLF lines. Head may be the memory directly before it in the same array, with a
	// capacity that extends to the message's end; fields are then put before the message without copying it. When
	// Deposit returns, both belong to the caller again. Deposit removes private fields from the header in place.
	Message, Head []byte
	// Received is nil for the server's own messages.
	Received *Received
	// Submitter is nil for messages from outside.
	Submitter *Submitter
	// Fields are complete header fields to put before the message's own fields.
	Fields []byte
	// Junk delivers to the Junk folders. Hold is a reason to keep the message in mail.box until an administrator
	// releases it.
	Junk bool
	Hold string
	// Checked is set if the author was verified. Proven means that the verification passed. Unproven means that the
	// sender is probably forged, so that nothing is sent to that address. AuthorPolicy is the published policy of the
	// author's domain for unauthenticated messages: "none", "quarantine", "reject".
	Checked, Proven, Unproven bool
	AuthorPolicy              string
	// Checker is the authserv-id of the Authentication-Results field that a server of this domain added to a message
	// from outside; empty if none did.
	Checker string
	// Results are the results of SPF, DKIM and DMARC as text for the log.
	Results string

	unsigned bool // see queue.Entry.Unsigned
	again    bool // ID was set by the caller
	// Mail rules set these: a folder instead of the INBOX, an entry in the journal, and recipients that replace those
	// of the envelope.
	folder            string
	journal, replaced bool
	// takes is the message's entry in an outbox, if it comes from one.
	takes *held
	// Date is the time when the message was received; zero means now.
	Date   time.Time
	Answer Answer
}

// Deposit accepts a message. It returns when the notes of all local recipients and the entry for the others are
// durable; this is atomic. results may be nil. Otherwise it has one element per recipient: nil, or the *smtp.Reply that
// rejects it. An error applies to all recipients, and means that nothing was stored. It is a *smtp.Reply,
// mailbox.ErrTooBig, mailbox.ErrBadMessage, store.ErrNoSpace, or a server failure.
//
// Deposit expands groups. Each person gets the message once, even if named several times. Remote addresses in a group
// get it too, because the administrator who added them allowed it.
func (s *Depositor) Deposit(ctx context.Context, sub *Submission, results []error) (note.UNID, error) {
	if sub.again = !sub.ID.IsZero(); !sub.again {
		s.env.Fill(sub.ID[:])
	}
	start := s.env.Clock.Now()
	if sub.Date.IsZero() {
		sub.Date = start
	}
	if len(results) != len(sub.Recipients) {
		results = make([]error, len(sub.Recipients))
	}
	b, err := s.acceptRuled(ctx, sub, results)
	s.log.arrived(ctx, sub, b, results, start, err)
	if err == nil && slices.Contains(results, nil) {
		s.stat.routed.Inc()
		s.stat.time.ObserveDuration(s.env.Clock.Now().Sub(start))
	}
	return sub.ID, err
}

func (sub *Submission) withoutReports() {
	for i := range sub.Recipients {
		sub.Recipients[i].Params.Notify = smtp.NotifyNever
	}
}

// accept is Deposit, and also returns the batch.
func (s *Depositor) accept(ctx context.Context, sub *Submission, results []error) (*batch, error) {
	if sub.Unproven { // RFC 5321 section 6.1: a report would go to a person who sent nothing
		sub.withoutReports()
	}
	sub.unsigned = sub.Received != nil && sub.Submitter == nil && !sub.Proven
	b, err := s.plan(ctx, sub, results)
	if err != nil {
		return nil, fmt.Errorf("mail: deposit: %w", err)
	}
	if err := s.personal.apply(ctx, sub, b); err != nil {
		return b, fmt.Errorf("mail: deposit: %w", err)
	}
	if len(b.now)+len(b.later) == 0 && b.answer != AnswerNone && !b.taken {
		return b, b.refused() // no recipient is left to accept the message
	}
	if !s.outwards(sub, b) {
		return b, replyManySent
	}
	raw, returnPath, err := s.stamped(ctx, sub)
	if err != nil {
		return b, fmt.Errorf("mail: header: %w", err)
	}
	c, err := s.mailbox.Compose(ctx, raw, b.files()...)
	if err != nil {
		return b, fmt.Errorf("mail: compose: %w", err)
	}
	defer c.Release()
	b.composed, b.size, b.entry.ReturnPath, b.entry.Unsigned = c, uint64(len(raw)), returnPath, sub.unsigned
	b.hops = hopsOf(raw)
	defer b.release()
	if err := s.recorder.own(ctx, sub, b, raw); err != nil {
		return b, fmt.Errorf("mail: deposit: %w", err)
	}
	b.letter = s.letterOf(ctx, sub, raw, returnPath)
	s.toHomes(b)
	s.judgeAll(ctx, b)
	if err := s.outgoing(ctx, sub, b, raw); err != nil {
		return b, fmt.Errorf("mail: deposit: %w", err)
	}
	if err := s.place(ctx, b); err != nil {
		return b, fmt.Errorf("mail: deposit: %w", err)
	}
	return b, b.refused()
}

// plan divides the recipients into immediate deliveries and those for mail.box.
func (s *Depositor) plan(ctx context.Context, sub *Submission, results []error) (*batch, error) {
	b := &batch{answer: sub.Answer, results: results, date: sub.Date, away: s.files.awayNow(ctx), takes: sub.takes,
		again: sub.again}
	b.entry = queue.Entry{
		ID: sub.ID, From: sub.From, EnvID: sub.Params.EnvID, Ret: sub.Params.Ret, Created: sub.Date,
		Held: sub.Hold != "", Reason: sub.Hold, Junk: sub.Junk, Folder: sub.folder,
	}
	if sub.Params.RequireTLS {
		b.entry.TLS = outbound.Required
	}
	if sub.Submitter == nil {
		b.entry.Checker = sub.Checker
	}
	b.whole = sub.Hold != ""
	b.now = make([]delivery, 0, len(sub.Recipients))
	size := uint64(len(sub.Message))
	for k := range sub.Recipients {
		// Recipients that rules add share the last result.
		i, r := min(k, len(results)-1), &sub.Recipients[k]
		switch {
		case r.Outside:
			b.outside(i, r, "")
		case r.Target.ListPart != "":
			if err := s.lists.listPart(ctx, sub, b, i, r); err != nil {
				return nil, err
			}
		case r.Target.Kind == directory.TargetGroup && r.Target.Own:
			if err := s.lists.list(ctx, sub, b, i, r); err != nil {
				return nil, err
			}
		case r.Target.Kind == directory.TargetGroup:
			if err := s.group(ctx, sub, b, i, r); err != nil {
				return nil, err
			}
		default:
			t := &r.Target
			b.add(i, r, &directory.Recipient{Kind: t.Kind, ID: t.ID, Name: t.Name, Detail: t.Detail,
				Database: t.Database, MailServer: t.MailServer, SizeLimit: t.SizeLimit, Quota: t.Quota,
				Warning: t.Warning, Own: t.Own}, size, r.added)
		}
	}
	return b, nil
}

// group expands a group. Junk does not go to members in other domains, because this server would then send junk.
func (s *Depositor) group(ctx context.Context, sub *Submission, b *batch, i int, r *Recipient) error {
	size := uint64(len(sub.Message))
	x, err := s.dir.Names.Expand(ctx, []directory.Target{r.Target})
	switch {
	case errors.Is(err, directory.ErrTooMany):
		b.refuse(i, r, nil, replyGroup, false)
		return nil
	case err != nil:
		return fmt.Errorf("expand %s: %w", r.Target.Name, err)
	case len(x.Recipients)+len(x.Outside) == 0:
		b.refuse(i, r, nil, replyEmpty, false)
		return nil
	}
	for k := range x.Recipients {
		b.add(i, r, &x.Recipients[k], size, true)
	}
	if sub.Junk {
		if x.Outside = nil; len(x.Recipients) == 0 {
			b.refuse(i, r, nil, replyJunk, false)
			return nil
		}
	}
	for _, a := range x.Outside {
		if err := s.listed(ctx, b, i, r, a, size); err != nil {
			return err
		}
	}
	return nil
}

// listed adds an address that a group lists as being in another domain. The domain may have become local since.
func (s *Depositor) listed(ctx context.Context, b *batch, i int, r *Recipient, address string, size uint64) error {
	t, err := s.dir.Names.Resolve(ctx, address)
	switch {
	case errors.Is(err, directory.ErrNoSuchRecipient):
		b.refuse(i, r, &directory.Recipient{Name: address}, replyNoUser, true)
		return nil
	case errors.Is(err, directory.ErrNotLocal), errors.Is(err, directory.ErrInvalid):
		b.outside(i, r, address)
		return nil
	case err != nil:
		return fmt.Errorf("resolve %.80q: %w", address, err)
	}
	x, err := s.dir.Names.Expand(ctx, []directory.Target{t})
	if err != nil {
		return fmt.Errorf("expand %s: %w", t.Name, err)
	}
	for k := range x.Recipients {
		b.add(i, r, &x.Recipients[k], size, true)
	}
	for _, a := range x.Outside {
		b.outside(i, r, a)
	}
	return nil
}

// Depositor accepts messages. Its methods may be called from any goroutine.
type Depositor struct {
	store    *store.Store
	env      *env.Env
	dir      *directory.Directory
	mailbox  *mailbox.Service
	queue    *queue.Queue
	opt      *Options
	stat     *depositStats
	log      messageLog
	files    *Files
	srs      *SRS
	follow   *followUps
	lists    *Lists
	personal *personal
	filter   *filter
	limits   *limits
	recorder *recorder // nil if the journal is off
	rules    *MailRules
	learned  *learned // nil if the junk filter is off
}

func newDepositor(s *store.Store, e *env.Env, d *directory.Directory, m *mailbox.Service, q *queue.Queue,
	o *Options) (*Depositor, error) {
	p := &Depositor{store: s, env: e, dir: d, mailbox: m, queue: q, opt: o, stat: newDepositStats(o.Stats),
		log: messageLog{e, o.Quiet}}
	p.rules = newMailRules(d, e, o)
	p.files = &Files{store: s, env: e, dir: d, mates: o.Mates}
	p.srs = &SRS{dir: d, env: e}
	if o.Junk != nil {
		p.learned = &learned{env: e, mailbox: m, filter: o.Junk}
	}
	if o.Journal != nil && o.Journal.On() {
		p.recorder = &recorder{o.Journal, d}
	}
	p.follow = &followUps{env: e, dir: d, mailbox: m, srs: p.srs, recorder: p.recorder, hostname: o.Hostname}
	p.lists = &Lists{env: e, dir: d, follow: p.follow, url: o.URL}
	p.personal = &personal{env: e, dir: d, files: p.files, follow: p.follow, lists: p.lists, srs: p.srs,
		hostname: o.Hostname}
	p.filter = &filter{env: e, dir: d, mailbox: m, personal: p.personal, cache: scripts.NewCache(),
		failed: p.stat.scriptFailed}
	p.limits = &limits{env: e, messages: o.MessagesPerDay, recipients: o.RecipientsPerDay, keep: o.Keep,
		exceeded: p.stat.limited}
	if err := p.limits.recall(context.Background()); err != nil {
		return nil, fmt.Errorf("mail: counts of the day: %w", err)
	}
	return p, nil
}
