package reports

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"

	"doublet/client/dns"
	"doublet/client/reach"
	"doublet/directory"
	"doublet/env"
	"doublet/mail"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/smtp"
)

// Times of sending.
const (
	// every is the interval of saving the counts and checking for due reports.
	every = 5 * time.Minute
	// spread is the part of the day, from its beginning (UTC), over which servers spread their reports: RFC 8460
	// section 4.1 asks for up to four hours.
	spread = 4 * time.Hour
	// again is the delay of a retry.
	again = time.Hour
	// giveUp is the time after which a report that cannot be sent is dropped.
	giveUp = 3 * 24 * time.Hour
	// passTime is the time limit for one attempt at all reports. The rest is tried again after again.
	passTime = time.Hour
	// postTime is the time limit for sending one report by HTTPS.
	postTime = 10 * time.Second
)

// Resolver is the DNS interface of a Sender. client/dns implements it.
type Resolver interface {
	TXT(ctx context.Context, name string) ([]string, bool, error)
}

// Poster accepts messages for delivery. mail.Depositor implements it.
type Poster interface {
	Accept(ctx context.Context, to smtp.Path, p smtp.RcptParams, size uint64) (mail.Recipient, error)
	Deposit(ctx context.Context, sub *mail.Submission, results []error) (note.UNID, error)
}

// Options are the settings of a Sender.
type Options struct {
	// Hostname is the server's name. Local is the local part of the sender address of reports; its domain is the first
	// local domain.
	Hostname, Local string
	// TLS and DMARC enable reports of that kind.
	TLS, DMARC bool
	DNS        Resolver
	Directory  *directory.Directory
	Post       Poster
	// Reach opens connections to the hosts of https addresses; nil means that no reports are sent by HTTPS. Roots are
	// the authorities trusted there; nil means those of the system.
	Reach *reach.Guard
	Roots *x509.CertPool
	Stats *stat.Tree
}

// Sender sends the reports of past days.
type Sender struct {
	env    *env.Env
	opt    Options
	book   *Book
	client *http.Client // nil without Reach
	// sending is held during Send: a report is sent once.
	sending sync.Mutex

	sent, failed *stat.Counter
}

// NewSender returns a Sender for the counts of a book.
func NewSender(e *env.Env, b *Book, o Options) *Sender {
	s := &Sender{env: e, opt: o, book: b}
	s.sent = o.Stats.Counter("Mail.Reports.Sent", "reports sent to the owners of other domains")
	s.failed = o.Stats.Counter("Mail.Reports.Failed", "reports that could not be sent, and were given up")
	if o.Reach != nil {
		s.client = o.Reach.Client(reach.HTTP{Timeout: postTime, Roots: o.Roots})
	}
	return s
}

// Run saves the counts and sends reports until ctx ends. It chooses a new random time of day for each day.
func (s *Sender) Run(ctx context.Context) error {
	saved := make(chan error, 1)
	// Sending may take long: the readers of reports choose the speed of their servers.
	s.env.Go("save reports", func() { saved <- s.save(ctx) })
	at, of := time.Time{}, ""
	for {
		now := s.env.Clock.Now().UTC()
		if today := day(now); today != of {
			of = today
			at = now.Truncate(24 * time.Hour).Add(time.Duration(s.env.Uint64() % uint64(spread)))
		}
		if !now.Before(at) {
			pass, cancel := context.WithTimeout(ctx, passTime)
			if _, err := s.Send(pass, of); err != nil && ctx.Err() == nil {
				s.env.Log.Warn("reports: cannot send some reports, retrying", "err", err)
			}
			cancel()
			at = s.env.Clock.Now().UTC().Add(again)
		}
		select {
		case <-s.env.Clock.After(every):
		case err := <-saved:
			return err
		}
	}
}

// save saves the counts until ctx ends.
func (s *Sender) save(ctx context.Context) error {
	for {
		if err := s.book.Save(); err != nil {
			return err
		}
		select {
		case <-s.env.Clock.After(every):
		case <-ctx.Done():
			return s.book.Save()
		}
	}
}

// Send sends the reports of all days before a day (UTC, 2006-01-02), and returns their number. The error is the first
// one among the reports that have to wait; the remaining reports are sent nevertheless. DMARC reports go first: no
// server of others is waited for.
func (s *Sender) Send(ctx context.Context, before string) (int, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	places := pass{}
	dmarc, failed := s.dmarcKind().send(ctx, before, places)
	tls, err := s.tlsKind().send(ctx, before, places)
	if failed == nil {
		failed = err
	}
	return dmarc + tls, failed
}

// author returns the sender address of reports. ok is false if the domain has no active DKIM key, because receivers
// could not authenticate the report.
func (s *Sender) author(ctx context.Context) (address smtp.Path, ok bool, err error) {
	domains, err := s.opt.Directory.Domains.List(ctx)
	if err != nil || len(domains) == 0 {
		return address, false, err
	}
	keys, err := s.opt.Directory.DKIMKeys.Of(ctx, note.System, domains[0])
	for i := range keys {
		ok = ok || keys[i].State == directory.KeyActive
	}
	return smtp.Path{Local: s.opt.Local, Domain: domains[0]}, ok, err
}

// records returns TXT records. No records is not an error.
func (s *Sender) records(ctx context.Context, name string) ([]string, error) {
	list, _, err := s.opt.DNS.TXT(ctx, name)
	if errors.Is(err, dns.ErrNotFound) {
		return nil, nil
	}
	return list, err
}

// local reports whether a domain is local. Local domains get no reports.
func (s *Sender) local(ctx context.Context, domain string) (bool, error) {
	return s.opt.Directory.Domains.IsLocal(ctx, domain)
}
