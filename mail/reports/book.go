// Package reports sends and receives reports about mail. It counts the TLS outcomes of sessions with other domains'
// servers (RFC 8460), and the DMARC results of incoming mail (RFC 7489 section 7.2). It reports both to the domains'
// owners once a day. It also reads the reports of others about the local domains.
//
// A Book counts. A Sender creates the reports of past days and sends them. A Desk reads incoming reports, and a Log
// stores their figures.
package reports

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/mail/outbound"
	"doublet/stat"
	"doublet/wire/tlsreport"
)

// Limits of the counts of a day.
var (
	tlsBounds   = bounds{domains: 5000, perGroup: 50, perDomain: 20, perDay: 20_000}
	dmarcBounds = bounds{domains: 2000, perGroup: 50, perDomain: 500, perDay: 10_000}
)

// maxWays is the maximum number of different failures under one policy. Further failures are counted by type only.
const maxWays = 40

// day returns the day of t in UTC, in the format of a cell.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// span returns the first and the last second of a day.
func span(day string) (from, to time.Time) {
	from, _ = time.Parse(time.DateOnly, day)
	return from, from.Add(24*time.Hour - time.Second)
}

// Tables returns persistent tables by name. mail/keep.Memory implements it.
type Tables interface {
	Table(name string) *keep.Table
}

// Book counts what is to be reported. Its methods may be called from any goroutine.
type Book struct {
	env *env.Env
	tls *ledger[tlsreport.Result]
	// dmarc has a page for each domain that publishes a DMARC record.
	dmarc *ledger[dmarcRow]
}

// OpenBook opens a Book with the counts from before the restart.
func OpenBook(e *env.Env, t Tables, stats *stat.Tree) (*Book, error) {
	b := &Book{env: e}
	lost := stats.Counter("Mail.Reports.Others",
		"sessions and messages that no report names, because a day has room for so many domains, sources and ways "+
			"of failing")
	var err error
	if b.tls, err = openLedger(t.Table("TLS reports"), tlsBounds, lost, withoutSessions); err != nil {
		return nil, fmt.Errorf("open reports: %w", err)
	}
	if b.dmarc, err = openLedger(t.Table("DMARC reports"), dmarcBounds, lost, withoutMessages); err != nil {
		return nil, fmt.Errorf("open reports: %w", err)
	}
	return b, nil
}

// Save makes the counts durable.
func (b *Book) Save() error { return errors.Join(b.tls.save(), b.dmarc.save()) }

// Observe counts a session with a server of another domain.
//
// Implements: RFC 8460 §4.2 Delivery summary
func (b *Book) Observe(o *outbound.Observation) {
	policy := cutPolicy(o.Policy)
	b.tls.count(cell{day(b.env.Clock.Now()), cut(o.Domain), digest(policy)}, func(r *tlsreport.Result) {
		r.Policy = policy
		if o.Failure == nil {
			r.Summary.Successful++
			return
		}
		r.Summary.Failed++
		r.Details = countFailure(r.Details, o.Failure)
	})
}

func countFailure(list []tlsreport.Failure, f *tlsreport.Failure) []tlsreport.Failure {
	one := *f
	one.HELO, one.Reason, one.Sessions = cut(one.HELO), cut(one.Reason), 0
	for _, try := range []tlsreport.Failure{one, {Type: one.Type}} {
		for i := range list {
			same := list[i]
			if same.Sessions = 0; same == try {
				list[i].Sessions++
				return list
			}
		}
		if len(list) < maxWays || try.MX == "" { // there are at most ten types
			try.Sessions = 1
			return append(list, try)
		}
	}
	return list
}

// withoutSessions subtracts counted sessions from a row. It reports whether nothing is left.
func withoutSessions(r, counted *tlsreport.Result) (empty bool) {
	r.Summary.Successful -= counted.Summary.Successful
	r.Summary.Failed -= counted.Summary.Failed
	n := map[tlsreport.Failure]int64{}
	for _, f := range counted.Details {
		sessions := f.Sessions
		f.Sessions = 0
		n[f] = sessions
	}
	for i := range r.Details {
		key := r.Details[i]
		key.Sessions = 0
		r.Details[i].Sessions -= n[key]
	}
	r.Details = slices.DeleteFunc(r.Details, func(f tlsreport.Failure) bool { return f.Sessions <= 0 })
	return r.Summary.Successful <= 0 && r.Summary.Failed <= 0
}

// withoutMessages subtracts counted messages from a row. It reports whether nothing is left.
func withoutMessages(r, counted *dmarcRow) (empty bool) {
	r.Record.Row.Count -= counted.Record.Row.Count
	return r.Record.Row.Count <= 0
}

// cut returns a text from another server, limited in length. It is a copy, because a part of a string keeps the whole
// message in memory.
func cut(s string) string { return strings.Clone(s[:min(len(s), maxText)]) }

// Limits of texts and lists from other servers.
const (
	maxText = 200 // bytes
	maxList = 20
)

// cutPolicy limits a policy: its owner chooses its length.
func cutPolicy(p tlsreport.Policy) tlsreport.Policy {
	cutAll := func(list []string) []string {
		out := make([]string, 0, min(len(list), maxList))
		for _, s := range list[:min(len(list), maxList)] {
			out = append(out, cut(s))
		}
		return out
	}
	p.Domain, p.String, p.MX = cut(p.Domain), cutAll(p.String), cutAll(p.MX)
	return p
}

// digest returns a hash of a value's JSON form.
func digest(v any) string {
	text, _ := json.Marshal(v) //nolint:errchkjson // structs of texts and numbers
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
