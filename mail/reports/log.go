package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/wire/dmarcreport"
	"doublet/wire/tlsreport"
)

// Limits of the stored reports.
const (
	keepReports = 60 * 24 * time.Hour
	maxReports  = 3000
	// maxPerSender is the limit for one sender, so that no sender can push the others out.
	maxPerSender = 300
	maxAhead     = 48 * time.Hour
	maxKept      = 60 << 10 // bytes per report
)

// Received is the stored form of an incoming report.
type Received struct {
	// Organization and ID are as stated by the sender. From is the domain that DMARC authenticated, empty if the
	// message was not verified.
	Organization, ID, From string
	// Domain is the local domain that the report is about.
	Domain     string
	Begin, End time.Time
	// TLS holds the figures of a TLS report. DMARC holds those of a DMARC report, and Policy the policy under which it
	// was made.
	TLS    []tlsreport.Result  `json:",omitempty"`
	DMARC  []Source            `json:",omitempty"`
	Policy *dmarcreport.Policy `json:",omitempty"`
	// Left counts the rows that were left out because of the size limit.
	Left int `json:",omitempty"`
}

// Source is a row of a DMARC report.
type Source struct {
	IP, From, Disposition, DKIM, SPF string
	Count                            int64
}

// Log stores the reports of the last 60 days, at most 3,000 of them. It deletes the oldest ones first. Its methods may
// be called from any goroutine.
type Log struct {
	env  *env.Env
	keep *keep.Table

	mu   sync.Mutex
	keys []string // in order of time
}

// OpenLog opens the Log.
func OpenLog(e *env.Env, t Tables) (*Log, error) {
	l := &Log{env: e, keep: t.Table("Received reports")}
	err := l.keep.Each(context.Background(), func(key, _ string) { l.keys = append(l.keys, key) })
	if err != nil {
		return nil, fmt.Errorf("open received reports: %w", err)
	}
	slices.Sort(l.keys)
	return l, nil
}

// Add stores a report. It replaces an earlier copy of the same report.
func (l *Log) Add(r *Received) error {
	text, err := r.marshal()
	if err != nil {
		return fmt.Errorf("keep report: %w", err)
	}
	now := l.env.Clock.Now()
	if r.Begin.After(now.Add(maxAhead)) || r.Begin.Before(now.Add(-keepReports)) {
		return fmt.Errorf("%w: %s", errDate, r.Begin.UTC().Format(time.DateOnly))
	}
	sender := " " + digest(r.From) + " "
	key := day(r.Begin) + sender + digest([]string{r.Organization, r.ID, r.Domain})
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.count(sender); n >= maxPerSender {
		return fmt.Errorf("%w: %d of %s", errTooMany, n, r.From)
	}
	l.keep.Put(key, string(text))
	if at, found := slices.BinarySearch(l.keys, key); !found {
		l.keys = slices.Insert(l.keys, at, key)
	}
	oldest := day(now.Add(-keepReports))
	for len(l.keys) > maxReports || len(l.keys) > 0 && l.keys[0] < oldest {
		l.keep.Drop(l.keys[0])
		l.keys = l.keys[1:]
	}
	return nil
}

// Errors of reports that are not kept.
var (
	errDate    = errors.New("report is about a day that is too far from today")
	errTooMany = errors.New("too many reports of one sender are kept")
)

// count returns the number of reports of a sender. The caller holds mu.
func (l *Log) count(sender string) (n int) {
	for _, k := range l.keys {
		if strings.Contains(k, sender) {
			n++
		}
	}
	return n
}

// marshal returns the JSON form. It leaves out rows until the size limit is met.
func (r *Received) marshal() ([]byte, error) {
	for {
		text, err := json.Marshal(r)
		if err != nil || len(text) <= maxKept {
			return text, err
		}
		cut := false
		for i := range r.TLS {
			if n := len(r.TLS[i].Details); n > 0 {
				r.Left, r.TLS[i].Details, cut = r.Left+n-n/2, r.TLS[i].Details[:n/2], true
			}
			r.TLS[i].Policy.String, r.TLS[i].Policy.MX = nil, nil
		}
		if n := len(r.DMARC); n > 0 {
			r.Left, r.DMARC, cut = r.Left+n-n/2, r.DMARC[:n/2], true
		}
		if n := len(r.TLS); !cut && n > 1 {
			r.Left, r.TLS, cut = r.Left+n-n/2, r.TLS[:n/2], true
		}
		if !cut {
			return nil, errTooLarge
		}
	}
}

// Each calls fn for every report about the days since a time, in order of time. An empty domain matches every report.
func (l *Log) Each(ctx context.Context, since time.Time, domain string, fn func(*Received)) error {
	rows := map[string]*Received{}
	err := l.keep.Each(ctx, func(key, value string) {
		var r Received
		if key >= day(since) && json.Unmarshal([]byte(value), &r) == nil &&
			(domain == "" || strings.EqualFold(r.Domain, domain)) {
			rows[key] = &r
		}
	})
	if err != nil {
		return fmt.Errorf("read received reports: %w", err)
	}
	l.mu.Lock()
	keys := slices.Clone(l.keys)
	l.mu.Unlock()
	for _, k := range keys {
		if r := rows[k]; r != nil {
			fn(r)
		}
	}
	return nil
}
