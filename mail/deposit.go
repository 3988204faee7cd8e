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
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// Answer says whom a refusal can be told to, and so what is done about recipients that cannot be
// delivered to now.
type Answer uint8

// The answers.
const (
	// AnswerOnce is SMTP's: one answer for all. While anyone takes the message, it is kept for the
	// others in mail.box, to be retried or reported; if nobody does, it is refused.
	AnswerOnce Answer = iota
	// AnswerEach is LMTP's: an answer for each recipient. Nothing is kept for who is refused.
	AnswerEach
	// AnswerNone is the server's own: all who cannot be delivered to now are kept.
	AnswerNone
)

// Received is what the Received field says of where a message came from.
type Received struct {
	Helo     string
	IP       netip.Addr // zero where there is none
	TLS      string     // version and cipher suite, empty without TLS
	Protocol string     // RFC 3848: "ESMTPSA"
}

// Submitter is the person who signed in.
type Submitter struct {
	Who note.Who
	// Address is the one that a missing From or Sender field gets.
	Address string
}

// Recipient is one that the door accepted.
type Recipient struct {
	To     smtp.Path
	Params smtp.RcptParams
	// Target is what the directory resolved To to. Outside says that To is of another domain, and
	// that the submitter may send there.
	Target  directory.Target
	Outside bool
}

// always says that mail for the recipient arrives whatever else would refuse it (RFC 5321 section
// 4.5.1, RFC 2142): it is for those who can do something about what is wrong.
func (r *Recipient) always() bool { return AlwaysArrives(r.To) }

func alwaysArrives(address string) bool {
	p, err := smtp.ParsePath(address)
	return err == nil && AlwaysArrives(p)
}

// AlwaysArrives says that an address is postmaster's or abuse's.
func AlwaysArrives(p smtp.Path) bool {
	local, _, _ := strings.Cut(p.Local, "+")
	return strings.EqualFold(local, "postmaster") || strings.EqualFold(local, "abuse")
}

// Submission is a message with its envelope.
type Submission struct {
	// ID is the queue id: drawn where it is zero. Deposited again under the same id, the message is
	// not delivered again.
	ID         note.UNID
	From       smtp.Path
	Params     smtp.MailParams
	Recipients []Recipient
	// Message is the message as CRLF lines. Head may be memory directly before it, of the same
	// array, with a capacity that reaches to the message's end: fields are then put before the
	// message without copying it. Both are the caller's again when Deposit returns; fields that may
	// not leave the server have then been taken out of the header in its place.
	Message, Head []byte
	// Received is nil for messages of the server's own.
	Received *Received
	// Submitter is nil for messages from elsewhere.
	Submitter *Submitter
	// Fields are header fields that the door puts before the message's own, whole lines.
	Fields []byte
	// Junk delivers into the Junk folders, Hold keeps the message in mail.box until an administrator
	// releases it, and says why.
	Junk bool
	Hold string
	// Checked says that the author's address was looked into: Proven that it is right, Unproven that
	// the sender's is likely forged, so that nothing is sent there. AuthorPolicy is what the domain
	// of the author publishes for messages that are not proven: "none", "quarantine", "reject".
	Checked, Proven, Unproven bool
	AuthorPolicy              string
	// Checker is the authserv-id of the Authentication-Results that a server of this domain put before a message
	// from elsewhere; empty where none did.
	Checker string
	// Results are those of SPF, DKIM and DMARC in words, for the log.
	Results string

	unsigned bool // as Entry.Unsigned
	// takes is what it was in an outbox until now.
	takes *held
	// Date is when it was received; now where it is zero.
	Date   time.Time
	Answer Answer
}

// Deposit takes charge of a message. It returns when every local recipient's note and the entry
// for the others are durable, all of it or nothing. results, which may be nil, has an element for
// each recipient: nil, or the *smtp.Reply with which it was refused. An error is for all, and then
// nothing was kept: a *smtp.Reply, mailbox.ErrTooBig, mailbox.ErrBadMessage, store.ErrNoSpace, or
// trouble of the server.
//
// Groups are expanded here; each person gets the message once, however often they were named.
// Addresses elsewhere that a group lists get it too: the administrator who listed them allowed it.
func (s *Depositor) Deposit(ctx context.Context, sub *Submission, results []error) (note.UNID, error) {
	if sub.ID.IsZero() {
		s.env.Fill(sub.ID[:])
	}
	start := s.env.Clock.Now()
	if sub.Date.IsZero() {
		sub.Date = start
	}
	if len(results) != len(sub.Recipients) {
		results = make([]error, len(sub.Recipients))
	}
	b, err := accept(ctx, s, sub, results)
	s.journal.arrived(ctx, sub, b, results, start, err)
	if err == nil && slices.Contains(results, nil) {
		s.stat.took(s.env.Clock.Now().Sub(start))
	}
	return sub.ID, err
}

// accept is Deposit, with the batch that the message became.
func accept(ctx context.Context, s *Depositor, sub *Submission, results []error) (*batch, error) {
	if sub.Unproven {
		// RFC 5321 section 6.1: a report would go to somebody who sent nothing.
		for i := range sub.Recipients {
			sub.Recipients[i].Params.Notify = smtp.NotifyNever
		}
	}
	sub.unsigned = sub.Received != nil && sub.Submitter == nil && !sub.Proven
	b, err := s.plan(ctx, sub, results)
	if err != nil {
		return nil, fmt.Errorf("mail: deposit: %w", err)
	}
	if err := s.personal.apply(ctx, sub, b); err != nil {
		return b, fmt.Errorf("mail: deposit: %w", err)
	}
	if b.empty() {
		return b, b.refused()
	}
	if !s.outwards(sub, b) {
		return b, replyManySent
	}
	if err := s.deposit(ctx, sub, b); err != nil {
		return b, err
	}
	return b, b.refused()
}

func (s *Depositor) deposit(ctx context.Context, sub *Submission, b *batch) error {
	raw, returnPath, err := s.stamped(ctx, sub)
	if err != nil {
		return fmt.Errorf("mail: header: %w", err)
	}
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return fmt.Errorf("mail: compose: %w", err)
	}
	defer c.Release()
	b.composed, b.entry.ReturnPath, b.entry.Unsigned = c, returnPath, sub.unsigned
	if sub.Submitter == nil {
		b.entry.Checker = sub.Checker
	}
	b.size = uint64(len(raw))
	defer b.release()
	if err := s.outgoing(ctx, sub, b, raw); err != nil {
		return fmt.Errorf("mail: deposit: %w", err)
	}
	if err := s.place(ctx, b); err != nil {
		return fmt.Errorf("mail: deposit: %w", err)
	}
	return nil
}

// plan sorts recipients into those to be delivered to now and those for mail.box.
func (s *Depositor) plan(ctx context.Context, sub *Submission, results []error) (*batch, error) {
	b := &batch{answer: sub.Answer, results: results, date: sub.Date, away: s.files.awayNow(ctx), takes: sub.takes}
	b.entry = queue.Entry{
		ID: sub.ID, From: sub.From, EnvID: sub.Params.EnvID, Ret: sub.Params.Ret, Created: sub.Date,
		Held: sub.Hold != "", Reason: sub.Hold, Junk: sub.Junk, TLS: requires(sub),
	}
	b.whole = sub.Hold != ""
	b.now = make([]delivery, 0, len(sub.Recipients))
	size := uint64(len(sub.Message))
	for i := range sub.Recipients {
		r := &sub.Recipients[i]
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
				Database: t.Database, MailServer: t.MailServer, SizeLimit: t.SizeLimit, Quota: t.Quota, Warning: t.Warning, Own: t.Own}, size, false)
		}
	}
	return b, nil
}

// group expands a group. Junk does not go to those of its members who are elsewhere: it would be us who
// send it.
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

// listed takes an address that a group lists as one of another domain. The domain may have become
// local since.
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

// Depositor takes messages in charge. Its methods may be called from any goroutine.
type Depositor struct {
	store    *store.Store
	env      *env.Env
	dir      *directory.Directory
	mailbox  *mailbox.Service
	queue    *queue.Queue
	opt      *Options
	stat     *depositStats
	journal  journal
	files    *Files
	srs      *SRS
	follow   *followUps
	lists    *Lists
	personal *personal
	limits   *limits
}

func newDepositor(s *store.Store, e *env.Env, d *directory.Directory, m *mailbox.Service, q *queue.Queue, o *Options) (*Depositor, error) {
	p := &Depositor{store: s, env: e, dir: d, mailbox: m, queue: q, opt: o, stat: newDepositStats(o.Stats), journal: journal{e, o.Quiet}}
	p.files = &Files{store: s, env: e, dir: d, mates: o.Mates}
	p.srs = &SRS{dir: d, env: e}
	p.follow = &followUps{env: e, dir: d, mailbox: m, srs: p.srs, hostname: o.Hostname}
	p.lists = &Lists{env: e, dir: d, follow: p.follow, url: o.URL}
	p.personal = &personal{env: e, dir: d, follow: p.follow, lists: p.lists, srs: p.srs, hostname: o.Hostname}
	p.limits = &limits{env: e, messages: o.MessagesPerDay, recipients: o.RecipientsPerDay, keep: o.Keep, exceeded: p.stat.limited}
	if err := p.limits.recall(context.Background()); err != nil {
		return nil, fmt.Errorf("mail: counts of the day: %w", err)
	}
	return p, nil
}
