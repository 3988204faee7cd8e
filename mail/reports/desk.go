package reports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/verify"
	"doublet/stat"
	"doublet/wire/dmarcreport"
	"doublet/wire/smtp"
	"doublet/wire/tlsreport"
)

// Desk reads the reports in incoming mail. A message with a report is stored like any other first; a goroutine of the
// Desk reads the report later. A crash before that loses the report's figures, not the message. The methods may be
// called from any goroutine.
type Desk struct {
	env      *env.Env
	book     *Book
	log      *Log
	dir      *directory.Directory
	local    string
	hostname string
	waiting  *letters

	read, refused, left *stat.Counter
}

// NewDesk returns a Desk. It reads reports that are sent to the local part local at any local domain.
func NewDesk(e *env.Env, b *Book, l *Log, d *directory.Directory, local, hostname string, stats *stat.Tree) *Desk {
	k := &Desk{
		env: e, book: b, log: l, dir: d, local: local, hostname: hostname,
		read: stats.Counter("Mail.Reports.Received", "reports of others that were read"),
		refused: stats.Counter("Mail.Reports.Unreadable",
			"messages to the address for reports that hold a report that cannot be used"),
		left: stats.Counter("Mail.Reports.Unread",
			"messages to the address for reports that were too large, or too many at a time, to be read"),
	}
	k.waiting = newLetters(e, k.open)
	return k
}

// Close stops the reading of reports. It returns when all reports that wait are read, or when ctx ends.
func (d *Desk) Close(ctx context.Context) error { return d.waiting.close(ctx) }

// Wait returns when no report waits, or when ctx ends.
func (d *Desk) Wait(ctx context.Context) error { return d.waiting.wait(ctx) }

// Seen implements inbound.Observer.
func (d *Desk) Seen(ctx context.Context, m *verify.Seen) {
	report, others := false, false
	for _, to := range m.To {
		if d.ours(ctx, to) {
			report = true
		} else {
			others = true
		}
	}
	if others { // servers would otherwise report on each other's reports every day
		d.book.countMessage(m)
	}
	if !m.Stored() || !report {
		return
	}
	// Both RFCs require authenticated reports, because anyone could forge the figures.
	from := ""
	if v := m.Verdict; v != nil && v.DMARC.Result != "" {
		if !v.DMARC.Aligned {
			return
		}
		from = v.DMARC.Domain
	}
	if !d.waiting.add(m.Message, from) {
		d.left.Inc()
	}
}

// open reads the report in a message.
func (d *Desk) open(ctx context.Context, l *letter) {
	for _, f := range files(l.message) {
		err := d.file(ctx, f, l.from)
		switch {
		case errors.Is(err, errNone):
			continue
		case err != nil:
			d.refused.Inc()
			d.env.Log.Info("reports: unusable report", "from", l.from, "err", err)
		default:
			d.read.Inc()
		}
		return // a message has one report
	}
}

func (d *Desk) ours(ctx context.Context, to smtp.Path) bool {
	name, _, _ := strings.Cut(to.Local, "+")
	if !strings.EqualFold(name, d.local) {
		return false
	}
	local, err := d.dir.Domains.IsLocal(ctx, to.Domain)
	return err == nil && local
}

// errNone means that a file is not a report.
var errNone = errors.New("no report")

// errForeign means that a report is about a foreign domain.
var errForeign = errors.New("report is about no domain of this server")

// file reads a file of a message.
func (d *Desk) file(ctx context.Context, packed []byte, from string) error {
	data, err := unpack(packed)
	if err != nil {
		return err
	}
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case bytes.HasPrefix(data, []byte("{")):
		return d.tlsReport(ctx, data, from)
	case bytes.HasPrefix(data, []byte("<")):
		return d.dmarcReport(ctx, data, from)
	}
	return errNone
}

// tlsReport stores a TLS report.
//
// Implements: RFC 8460 §4 Reporting schema, as a receiver
func (d *Desk) tlsReport(ctx context.Context, data []byte, from string) error {
	r, err := tlsreport.Parse(data)
	if err != nil {
		return err
	}
	domain := ""
	for i := range r.Policies {
		name := r.Policies[i].Policy.Domain
		local, err := d.dir.Domains.IsLocal(ctx, name)
		if err != nil {
			return err
		}
		// The domain of a DANE policy is the host name.
		if local || strings.EqualFold(name, d.hostname) {
			if domain == "" || local {
				domain = name
			}
		}
	}
	if domain == "" {
		return errForeign
	}
	return d.log.Add(&Received{
		Organization: r.Organization, ID: r.ID, From: from, Domain: domain, Begin: r.Range.Start.UTC(),
		End: r.Range.End.UTC(), TLS: r.Policies,
	})
}

// dmarcReport stores an aggregate report.
//
// Implements: RFC 7489 §7.2 Aggregate reports, as a receiver
func (d *Desk) dmarcReport(ctx context.Context, data []byte, from string) error {
	r, err := dmarcreport.Parse(data)
	if err != nil {
		return err
	}
	if local, err := d.dir.Domains.IsLocal(ctx, r.Policy.Domain); err != nil || !local {
		return errors.Join(err, fmt.Errorf("%w: %s", errForeign, r.Policy.Domain))
	}
	out := &Received{
		Organization: r.Metadata.Organization, ID: r.Metadata.ID, From: from, Domain: r.Policy.Domain,
		Policy: &r.Policy, Left: r.Left,
		Begin: time.Unix(r.Metadata.Begin, 0).UTC(), End: time.Unix(r.Metadata.End, 0).UTC(),
	}
	at := map[Source]int{}
	for i := range r.Records {
		x := &r.Records[i]
		s := Source{IP: x.Row.SourceIP, From: x.Identifiers.HeaderFrom, Disposition: x.Row.Disposition,
			DKIM: x.Row.DKIM, SPF: x.Row.SPF}
		k, ok := at[s]
		if !ok {
			k = len(out.DMARC)
			at[s], out.DMARC = k, append(out.DMARC, s)
		}
		out.DMARC[k].Count += x.Row.Count
	}
	return d.log.Add(out)
}
