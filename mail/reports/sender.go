package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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

	"github.com/klauspost/compress/gzip"
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
	// maxPlaces is the maximum number of addresses that one domain's report goes to, maxPerPlace that of reports to one
	// domain or host in one attempt.
	maxPlaces   = 2
	maxPerPlace = 200
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
	// Reach opens connections to the hosts of https addresses; nil means that no reports are sent by HTTPS.
	Reach *reach.Guard
	Stats *stat.Tree
}

// Sender sends the reports of past days.
type Sender struct {
	env    *env.Env
	opt    Options
	book   *Book
	client *http.Client
	// sending is held during Send: a report is sent once.
	sending sync.Mutex

	sent, failed *stat.Counter
}

// pass counts the reports to each domain or host in one attempt. The owner of many domains can name one victim as the
// reader of all.
type pass map[string]int

// room reports whether a place may get one more report, and counts it.
func (p pass) room(place string) bool {
	place = strings.ToLower(place)
	p[place]++
	return p[place] <= maxPerPlace
}

// NewSender returns a Sender for the counts of a book.
func NewSender(e *env.Env, b *Book, o Options) *Sender {
	s := &Sender{env: e, opt: o, book: b}
	s.sent = o.Stats.Counter("Mail.Reports.Sent", "reports sent to the owners of other domains")
	s.failed = o.Stats.Counter("Mail.Reports.Failed", "reports that could not be sent, and were given up")
	s.client = &http.Client{
		Timeout:       postTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: s.dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10},
	}
	return s
}

func (s *Sender) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.opt.Reach == nil {
		return nil, reach.ErrAddress
	}
	return s.opt.Reach.Dial(ctx, network, address)
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
				s.env.Log.Warn("reports: some could not be sent, and wait", "err", err)
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
// one among the reports that have to wait; the remaining reports are sent nevertheless. DMARC reports go first: no server
// of others is waited for.
func (s *Sender) Send(ctx context.Context, before string) (int, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	places := pass{}
	sent, first := 0, error(nil)
	done := func(n int, err error) {
		if sent += n; first == nil {
			first = err
		}
	}
	for _, at := range s.book.dmarc.before(before) {
		if ctx.Err() != nil {
			break
		}
		p := s.book.dmarc.page(at[0], at[1])
		n, err := s.sendDMARC(ctx, &p, places)
		done(n, err)
		s.finish(p.day, p.domain, err, func() { s.book.dmarc.drop(p.day, p.domain) })
	}
	for _, at := range s.book.tls.before(before) {
		if ctx.Err() != nil {
			break
		}
		p := s.book.tls.page(at[0], at[1])
		n, err := s.sendTLS(ctx, &p, places)
		done(n, err)
		s.finish(p.day, p.domain, err, func() { s.book.tls.drop(p.day, p.domain) })
	}
	return sent, first
}

// finish deletes a page that was sent, that is not requested, or whose retries took too long.
func (s *Sender) finish(day, domain string, err error, drop func()) {
	_, to := span(day)
	switch {
	case err == nil:
	case s.env.Clock.Now().Sub(to) < giveUp:
		return
	default:
		s.failed.Inc()
		s.env.Log.Warn("reports: given up", "day", day, "domain", domain, "err", err)
	}
	drop()
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

// deposit passes a message with a report to the router. Failures are not reported to anyone.
func (s *Sender) deposit(ctx context.Context, id note.UNID, from, to smtp.Path, message []byte) error {
	r, err := s.opt.Post.Accept(ctx, to, smtp.RcptParams{Notify: smtp.NotifyNever}, uint64(len(message)))
	if err != nil {
		return fmt.Errorf("send report to %s: %w", to.String(), err)
	}
	sub := mail.Submission{
		ID: id, From: from, Params: smtp.MailParams{Size: -1}, Message: message, Answer: mail.AnswerNone, Recipients: []mail.Recipient{r},
	}
	if _, err := s.opt.Post.Deposit(ctx, &sub, nil); err != nil {
		return fmt.Errorf("send report to %s: %w", to.String(), err)
	}
	s.sent.Inc()
	return nil
}

// post sends a report by HTTPS.
//
// Implements: RFC 8460 §5.4 HTTPS transport
func (s *Sender) post(ctx context.Context, url, kind string, body []byte) error {
	if s.opt.Reach == nil {
		return reach.ErrAddress
	}
	if err := s.opt.Reach.Check(url); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("post report: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode / 100 {
	case 2:
		s.sent.Inc()
		return nil
	case 3, 4: // it would not be taken an hour later either
		return fmt.Errorf("%w: %s: status %d", errRejected, url, resp.StatusCode)
	}
	return fmt.Errorf("post report to %s: status %d", url, resp.StatusCode)
}

// errRejected means that a reader does not take a report.
var errRejected = errors.New("report was rejected")

// local reports whether a domain is local. Local domains get no reports.
func (s *Sender) local(ctx context.Context, domain string) (bool, error) {
	return s.opt.Directory.Domains.IsLocal(ctx, domain)
}

// packed returns the gzip form of a report.
func packed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// mailto parses the part of a mailto: URI after the scheme.
func mailto(rest string) (smtp.Path, bool) {
	rest, _, _ = strings.Cut(rest, "?")
	p, err := smtp.ParsePath(unescape(rest))
	return p, err == nil && !p.IsNull() && p.Domain != ""
}
