package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"doublet/client/reach"
	"doublet/mail"
	"doublet/note"
	"doublet/wire/smtp"

	"github.com/klauspost/compress/gzip"
)

// Limits of sending. maxPlaces is the maximum number of addresses that one domain's report goes to, maxPerPlace that of
// reports to one domain or host in one attempt.
const (
	maxPlaces   = 2
	maxPerPlace = 200
)

// pass counts the reports to each domain or host in one attempt. The owner of many domains can name one victim as the
// reader of all.
type pass map[string]int

// room reports whether a place may get one more report, and counts it.
func (p pass) room(place string) bool {
	place = strings.ToLower(place)
	p[place]++
	return p[place] <= maxPerPlace
}

// kind is a kind of reports: those whose rows are of type T.
type kind[T any] struct {
	sender  *Sender
	name    string
	enabled bool
	ledger  *ledger[T]
	// readers looks up the addresses for the reports about a domain, at most maxPlaces.
	readers func(ctx context.Context, domain string) ([]reader, error)
	// reports returns the reports from an address about a page.
	reports func(p *page[T], from smtp.Path) ([]*report, error)
}

// reader is an address for reports: of mail, or an https URL on a host.
type reader struct {
	path      smtp.Path
	url, host string
	most      int64 // maximum size in bytes of a report as sent; 0 means no limit
}

// String returns the address.
func (r *reader) String() string {
	if r.url != "" {
		return r.url
	}
	return r.path.String()
}

// place returns the domain or host that gets the report.
func (r *reader) place() string {
	if r.url != "" {
		return r.host
	}
	return r.path.Domain
}

// report is a report that is ready to be sent. Its message has no recipient yet. rows are the indexes of the rows of
// the page that it contains.
type report struct {
	id      string
	message message
	rows    []int
}

// report returns a report with its compressed text as the file. The caller adds the texts of the message.
func (s *Sender) report(id string, from smtp.Path, media string, text []byte) (*report, error) {
	file, err := packed(text)
	return &report{id: id, message: message{
		from: from, date: s.env.Clock.Now(), host: s.opt.Hostname, id: id, fileKind: media, file: file,
	}}, err
}

// send sends the reports of all days before a day, as Sender.Send does.
func (k *kind[T]) send(ctx context.Context, before string, places pass) (sent int, first error) {
	for _, at := range k.ledger.before(before) {
		if ctx.Err() != nil {
			break
		}
		p := k.ledger.page(at[0], at[1])
		n, done, err := k.sendPage(ctx, &p, places)
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", k.name, p.domain, err)
		}
		if sent += n; first == nil {
			first = err
		}
		if k.sender.finished(p.day, p.domain, err) {
			k.ledger.drop(&p)
		} else if len(done) > 0 {
			k.ledger.drop(p.part(done))
		}
	}
	return sent, first
}

// sendPage sends the reports about a domain's day to each reader. If it returns an error, some reports must be tried
// again; done are the indexes of the rows in the other ones.
func (k *kind[T]) sendPage(ctx context.Context, p *page[T], places pass) (sent int, done []int, failed error) {
	s := k.sender
	if local, err := s.local(ctx, p.domain); !k.enabled || err != nil || local {
		return 0, nil, err
	}
	readers, err := k.readers(ctx, p.domain)
	if err != nil || len(readers) == 0 {
		return 0, nil, err
	}
	from, signs, err := s.author(ctx)
	if err != nil {
		return 0, nil, err
	}
	if !signs { // servers of mail could not authenticate the reports
		readers = slices.DeleteFunc(readers, func(r reader) bool { return r.url == "" })
	}
	list, err := k.reports(p, from)
	if err != nil {
		return 0, nil, err
	}
	for _, r := range list {
		n, err := k.sendReport(ctx, p.domain, r, readers, places)
		sent += n
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done = append(done, r.rows...)
	}
	return sent, done, failed
}

// sendReport sends a report to each reader, and returns the number of readers that it reached. Once it has reached one
// reader, or all reject it, it is not sent again; otherwise sendReport returns an error.
func (k *kind[T]) sendReport(
	ctx context.Context, domain string, r *report, readers []reader, places pass,
) (sent int, failed error) {
	for i := range readers {
		err := k.sender.sendTo(ctx, k.name, r, &readers[i], places)
		switch {
		case err == nil:
			sent++
		case errors.Is(err, errRejected):
			k.sender.env.Log.Info("reports: report is not sent", "kind", k.name, "domain", domain,
				"to", readers[i].String(), "err", err)
		default:
			failed = errors.Join(failed, err)
		}
	}
	if sent > 0 {
		return sent, nil
	}
	return 0, failed
}

// errRejected means that a report is not to be sent to a reader, also not later.
var errRejected = errors.New("report was rejected")

// sendTo sends a report to a reader.
func (s *Sender) sendTo(ctx context.Context, kind string, r *report, to *reader, places pass) error {
	m := r.message
	switch {
	case to.most > 0 && int64(len(m.file)) > to.most:
		return fmt.Errorf("%w: %d bytes, the reader takes %d", errRejected, len(m.file), to.most)
	case !places.room(to.place()):
		return fmt.Errorf("%w: %d reports went to %s", errRejected, maxPerPlace, to.place())
	case to.url != "":
		return s.post(ctx, to.url, m.fileKind, m.file)
	}
	m.to = to.path
	return s.deposit(ctx, note.DeriveUNID([]byte(kind), []byte(r.id), []byte(to.path.String())), &m)
}

// finished reports whether a page is done: it was sent, it is not requested, or its retries took too long.
func (s *Sender) finished(day, domain string, err error) bool {
	if err == nil {
		return true
	}
	if _, to := span(day); s.env.Clock.Now().Sub(to) < giveUp {
		return false
	}
	s.failed.Inc()
	s.env.Log.Warn("reports: gave up", "day", day, "domain", domain, "err", err)
	return true
}

// deposit passes a message with a report to the router. Failures are not reported to anyone.
func (s *Sender) deposit(ctx context.Context, id note.UNID, m *message) error {
	text := m.bytes()
	r, err := s.opt.Post.Accept(ctx, m.to, smtp.RcptParams{Notify: smtp.NotifyNever}, uint64(len(text)))
	if err != nil {
		return fmt.Errorf("send report to %s: %w", m.to.String(), err)
	}
	sub := mail.Submission{
		ID: id, From: m.from, Params: smtp.MailParams{Size: -1}, Message: text, Answer: mail.AnswerNone,
		Recipients: []mail.Recipient{r},
	}
	if _, err := s.opt.Post.Deposit(ctx, &sub, nil); err != nil {
		return fmt.Errorf("send report to %s: %w", m.to.String(), err)
	}
	s.sent.Inc()
	return nil
}

// post sends a report by HTTPS.
//
// Implements: RFC 8460 §5.4 HTTPS transport
func (s *Sender) post(ctx context.Context, url, media string, body []byte) error {
	if s.client == nil {
		return reach.ErrAddress
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", media)
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
	case 3, 4: // an hour later the reply would be the same
		return fmt.Errorf("%w: %s: status %d", errRejected, url, resp.StatusCode)
	}
	return fmt.Errorf("post report to %s: status %d", url, resp.StatusCode)
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
