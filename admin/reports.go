package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/mail/reports"
)

// ReportQuery are the arguments of the verbs that show reports.
type ReportQuery struct {
	Domain string `json:"domain" help:"about this domain (all domains here where none is given)"`
	Days   int    `json:"days" help:"reports of the last so many days: 1 to 60; 0: 30"`
}

// ReportSend are the arguments of report send.
type ReportSend struct {
	Today bool `json:"today" help:"also what was counted today; the rest of the day makes a report of its own"`
}

// TLSTotal is a total from one sender's reports about TLS with a domain: sessions under one kind of policy that
// succeeded, or failed in one way.
type TLSTotal struct {
	Sender   string    `json:"sender"`
	Domain   string    `json:"domain"`
	Policy   string    `json:"policy"`
	Sessions int64     `json:"sessions" show:"always"`
	Failure  string    `json:"failure,omitempty"`
	MX       string    `json:"mx,omitempty"`
	Last     time.Time `json:"last"`
}

// DMARCTotal is a total from one sender's reports about mail with a domain in From: messages from one source with the
// same results. DKIM and SPF are "pass" if an identifier aligned with the author's domain passed.
type DMARCTotal struct {
	Sender      string    `json:"sender"`
	Domain      string    `json:"domain"`
	Source      string    `json:"source"`
	Author      string    `json:"author"`
	Messages    int64     `json:"messages" show:"always"`
	DKIM        string    `json:"dkim"`
	SPF         string    `json:"spf"`
	Disposition string    `json:"disposition"`
	Last        time.Time `json:"last"`
}

func reportVerbs() []*Verb {
	return []*Verb{
		define("report dmarc",
			"what other servers report about mail in the name of the domains here: messages per source and result",
			reportDMARC,
			long("Others send reports (RFC 7489) where the record _dmarc of a domain asks for them: doublet dns "+
				"show prints it. A source that fails both DKIM and SPF is a forger, or a server of yours that "+
				"neither SPF nor a key names.")),
		define("report tls", "what other servers report about TLS on the way here: sessions per sender and failure",
			reportTLS,
			long("Others send reports (RFC 8460) where the record _smtp._tls of a domain asks for them: doublet dns "+
				"show prints it. A row without a failure counts sessions that went well.")),
		onServer("report send", "send the reports of the days that are over now, rather than when their time comes",
			reportSend, changes),
	}
}

// maxReportDays is the number of days for which reports are stored, usualReportDays the number that a query without one
// selects.
const (
	maxReportDays   = 60
	usualReportDays = 30
)

// eachReport calls fn for the received reports that a query selects.
func (c *Call) eachReport(ctx context.Context, q *ReportQuery, fn func(*reports.Received)) error {
	days := q.Days
	switch {
	case days < 0 || days > maxReportDays:
		return fmt.Errorf("%w: days %d: must be 1 to %d, or 0 for the last %d", ErrUsage, days, maxReportDays,
			usualReportDays)
	case days == 0:
		days = usualReportDays
	}
	return c.Received.Each(ctx, c.Env.Clock.Now().Add(-time.Duration(days)*24*time.Hour), asciiName(q.Domain), fn)
}

// sums adds up rows that differ only in their count, in the order of their first occurrence.
type sums[K comparable] struct {
	at   map[K]int
	keys []K
	n    []int64
	last []time.Time
}

func (s *sums[K]) add(k K, n int64, at time.Time) {
	if n == 0 {
		return
	}
	i, ok := s.at[k]
	if !ok {
		if s.at == nil {
			s.at = map[K]int{}
		}
		i = len(s.keys)
		s.at[k], s.keys, s.n, s.last = i, append(s.keys, k), append(s.n, 0), append(s.last, at)
	}
	s.n[i] += n
	if at.After(s.last[i]) {
		s.last[i] = at
	}
}

func reportTLS(ctx context.Context, c *Call, a *ReportQuery) ([]TLSTotal, error) {
	var all sums[TLSTotal]
	err := c.eachReport(ctx, a, func(r *reports.Received) {
		for i := range r.TLS {
			p := &r.TLS[i]
			row := TLSTotal{Sender: senderOf(r), Domain: r.Domain, Policy: p.Policy.Type}
			all.add(row, p.Summary.Successful, r.End)
			left := p.Summary.Failed
			for k := range p.Details {
				d := &p.Details[k]
				row.Failure, row.MX = d.Type, d.MX
				all.add(row, d.Sessions, r.End)
				left -= d.Sessions
			}
			if row.Failure, row.MX = "not told", ""; left > 0 {
				all.add(row, left, r.End)
			}
		}
	})
	out := make([]TLSTotal, len(all.keys))
	for i := range out {
		out[i] = all.keys[i]
		out[i].Sessions, out[i].Last = all.n[i], all.last[i]
	}
	slices.SortStableFunc(out, func(a, b TLSTotal) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Sender, b.Sender),
			strings.Compare(a.Policy, b.Policy), strings.Compare(a.Failure, b.Failure))
	})
	return out, err
}

func reportDMARC(ctx context.Context, c *Call, a *ReportQuery) ([]DMARCTotal, error) {
	var all sums[DMARCTotal]
	err := c.eachReport(ctx, a, func(r *reports.Received) {
		for _, s := range r.DMARC {
			row := DMARCTotal{Sender: senderOf(r), Domain: r.Domain, Source: s.IP, Author: s.From, DKIM: s.DKIM,
				SPF: s.SPF, Disposition: s.Disposition}
			all.add(row, s.Count, r.End)
		}
	})
	out := make([]DMARCTotal, len(all.keys))
	for i := range out {
		out[i] = all.keys[i]
		out[i].Messages, out[i].Last = all.n[i], all.last[i]
	}
	slices.SortStableFunc(out, func(a, b DMARCTotal) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), cmp.Compare(b.Messages, a.Messages),
			strings.Compare(a.Source, b.Source))
	})
	return out, err
}

// senderOf returns the sender of a report: the authenticated domain, or else the organization in the report.
func senderOf(r *reports.Received) string {
	if r.From != "" {
		return r.From
	}
	return r.Organization + " (unverified)"
}

func reportSend(ctx context.Context, c *ServerCall, a *ReportSend) (Done, error) {
	before := c.Env.Clock.Now().UTC()
	if a.Today {
		before = before.Add(24 * time.Hour)
	}
	n, err := c.Server.Reports.Send(ctx, before.Format(time.DateOnly))
	return Done{fmt.Sprintf("%d reports sent", n)}, err
}
