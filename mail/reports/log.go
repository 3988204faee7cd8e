package reports

import (
	"context"
	"encoding/json"
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

// Bounds of what is kept of reports that came.
const (
	keepReports = 60 * 24 * time.Hour
	maxReports  = 3000
	maxKept     = 60 << 10 // bytes of one
)

// Received is what is kept of a report that came.
type Received struct {
	// Organization and ID are the sender's own words; From is the domain that was proven to have sent it, empty where
	// nobody looked.
	Organization, ID, From string
	// Domain is the one of ours that it is about.
	Domain     string
	Begin, End time.Time
	// TLS are the figures of a TLS report, DMARC those of a DMARC report with the Policy that it was made under.
	TLS    []tlsreport.Result  `json:",omitempty"`
	DMARC  []Source            `json:",omitempty"`
	Policy *dmarcreport.Policy `json:",omitempty"`
	// Left counts the rows for which there was no room.
	Left int `json:",omitempty"`
}

// Source is a row of a DMARC report.
type Source struct {
	IP, From, Disposition, DKIM, SPF string
	Count                            int64
}

// Log keeps what is known of the reports that came in the last 60 days, 3,000 of them at most; the oldest go first. Its
// methods may be called from any goroutine.
type Log struct {
	env  *env.Env
	keep *keep.Table

	mu   sync.Mutex
	keys []string // in order of time
}

// OpenLog reads which reports are kept.
func OpenLog(e *env.Env, t Tables) (*Log, error) {
	l := &Log{env: e, keep: t.Table("Received reports")}
	err := l.keep.Each(context.Background(), func(key, _ string) { l.keys = append(l.keys, key) })
	if err != nil {
		return nil, fmt.Errorf("open received reports: %w", err)
	}
	slices.Sort(l.keys)
	return l, nil
}

// Add keeps a report. The same report again takes the place of the first.
func (l *Log) Add(r *Received) error {
	text, err := r.marshal()
	if err != nil {
		return fmt.Errorf("keep report: %w", err)
	}
	key := day(r.Begin) + " " + digest([]string{r.Organization, r.ID, r.Domain})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep.Put(key, string(text))
	if at, found := slices.BinarySearch(l.keys, key); !found {
		l.keys = slices.Insert(l.keys, at, key)
	}
	oldest := day(l.env.Clock.Now().Add(-keepReports))
	for len(l.keys) > maxReports || len(l.keys) > 0 && l.keys[0] < oldest {
		l.keep.Drop(l.keys[0])
		l.keys = l.keys[1:]
	}
	return nil
}

// marshal leaves rows out until the rest has room.
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

// Each calls fn for every report about days from a moment on, in order of time. An empty domain is any.
func (l *Log) Each(ctx context.Context, since time.Time, domain string, fn func(*Received)) error {
	rows := map[string]*Received{}
	err := l.keep.Each(ctx, func(key, value string) {
		var r Received
		if key >= day(since) && json.Unmarshal([]byte(value), &r) == nil && (domain == "" || strings.EqualFold(r.Domain, domain)) {
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
