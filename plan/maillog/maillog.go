// Package maillog derives a workload of the benchmark from the logs of a mail server in production: what a person does
// in an hour of work, by the lines that Dovecot writes at the end of a session and Postfix for each message. It reads
// these two, as syslog or their own files have them.
package maillog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The bounds of what is kept: people and days together, messages under way, and the length of a line.
const (
	maxPersonDays = 5_000_000
	maxMessages   = 1_000_000
	maxSizes      = 5_000_000
	maxLine       = 64 << 10
)

// ErrLog means that logs carry no workload.
var ErrLog = errors.New("logs carry no workload")

// Counts holds the sums of all people over the working days of the logs.
type Counts struct {
	// Days are the working days, PersonDays the sum of the people of each: those who signed in or sent.
	Days, PersonDays int
	Sessions         int64
	// Bodies and Headers are messages of which Dovecot sent the text, or header fields for a list.
	Bodies, Headers, Deleted, Expunged int64
	// Single and Several are the messages that people sent to one recipient and to several, SeveralTo the recipients of
	// the latter.
	Single, Several, SeveralTo int64
	// Skipped are the lines at weekends, Unread those of Dovecot and Postfix whose time cannot be read.
	Skipped, Unread int64

	sizes []int64
}

// Reader reads logs. The zero value is not ready: use New.
type Reader struct {
	counts Counts
	now    time.Time
	people map[string]bool // day and name
	days   map[string]bool
	queued map[string]bool // the queue IDs of messages that people have submitted, until they are active
}

// New returns a reader. Times in logs without a year are of the year before now.
func New(now time.Time) *Reader {
	return &Reader{now: now, people: map[string]bool{}, days: map[string]bool{}, queued: map[string]bool{}}
}

var (
	session = regexp.MustCompile(`\bimap\(([^)]+)\)(?:<[^>]*>)*: (?:Info: )?` +
		`(?:Disconnected|Connection closed|Logged out).* ` +
		`deleted=(\d+) expunged=(\d+) trashed=\d+ hdr_count=(\d+) hdr_bytes=\d+ body_count=(\d+) body_bytes=\d+`)
	submitted = regexp.MustCompile(`\bpostfix\S*/smtpd\[\d+\]: ([0-9A-Za-z]+): client=.*\bsasl_username=(\S+)`)
	active    = regexp.MustCompile(`\bpostfix\S*/qmgr\[\d+\]: ([0-9A-Za-z]+): from=<[^>]*>, size=(\d+), nrcpt=(\d+) `)
)

// Read reads a log. file names it in errors.
func (r *Reader) Read(in io.Reader, file string) error {
	lines := bufio.NewReaderSize(in, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if !long && len(line) > 0 {
			if err := r.line(string(line)); err != nil {
				return fmt.Errorf("%s:%d: %w", file, n, err)
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the line is none of those that are read
			_, err = lines.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

// line reads a line.
func (r *Reader) line(line string) error {
	switch {
	case strings.Contains(line, "body_count="):
		if m := session.FindStringSubmatch(line); m != nil {
			return r.session(line, m)
		}
	case strings.Contains(line, "sasl_username="):
		if m := submitted.FindStringSubmatch(line); m != nil {
			return r.submitted(line, m[1], strings.TrimRight(m[2], ","))
		}
	case strings.Contains(line, ", nrcpt="):
		if m := active.FindStringSubmatch(line); m != nil && r.queued[m[1]] {
			delete(r.queued, m[1]) // a message that is retried is active again
			return r.message(number(m[2]), number(m[3]))
		}
	}
	return nil
}

func number(text string) int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v > 1<<40 { // more digits than any server counts to
		return 0
	}
	return v
}

func (r *Reader) session(line string, m []string) error {
	ok, err := r.person(line, m[1])
	if !ok || err != nil {
		return err
	}
	c := &r.counts
	c.Sessions++
	c.Deleted += number(m[2])
	c.Expunged += number(m[3])
	c.Headers += number(m[4])
	c.Bodies += number(m[5])
	return nil
}

func (r *Reader) submitted(line, id, name string) error {
	ok, err := r.person(line, name)
	if !ok || err != nil {
		return err
	}
	if len(r.queued) >= maxMessages {
		return fmt.Errorf("%w: over %d messages were submitted and never active", ErrLog, maxMessages)
	}
	r.queued[id] = true
	return nil
}

func (r *Reader) message(size, recipients int64) error {
	c := &r.counts
	if len(c.sizes) >= maxSizes {
		return fmt.Errorf("%w: over %d messages: give fewer days", ErrLog, maxSizes)
	}
	c.sizes = append(c.sizes, size)
	if recipients <= 1 {
		c.Single++
		return nil
	}
	c.Several++
	c.SeveralTo += recipients
	return nil
}

// person counts a person on the day of a line. ok is false for a line that does not count.
func (r *Reader) person(line, name string) (ok bool, err error) {
	at, known := r.time(line)
	switch {
	case !known:
		r.counts.Unread++
		return false, nil
	case at.Weekday() == time.Saturday || at.Weekday() == time.Sunday:
		r.counts.Skipped++
		return false, nil
	}
	day := at.Format(time.DateOnly)
	key := day + " " + name
	if r.people[key] {
		return true, nil
	}
	if len(r.people) >= maxPersonDays {
		return false, fmt.Errorf("%w: over %d people and days: give fewer days", ErrLog, maxPersonDays)
	}
	r.people[key] = true
	r.days[day] = true
	r.counts.PersonDays, r.counts.Days = len(r.people), len(r.days)
	return true, nil
}

// time returns the local time of a line: RFC 3339 or RFC 3164, which has no year.
func (r *Reader) time(line string) (t time.Time, ok bool) {
	if first, _, _ := strings.Cut(line, " "); len(first) > len("2006-01-02T") {
		if t, err := time.Parse(time.RFC3339Nano, first); err == nil {
			return t, true
		}
	}
	const short = "Jan _2 15:04:05"
	if len(line) < len(short) {
		return t, false
	}
	// The year decides the day of the week, and if there is a 29 February.
	for _, year := range []int{r.now.Year(), r.now.Year() - 1} {
		t, err := time.Parse("2006 "+short, strconv.Itoa(year)+" "+line[:len(short)])
		if err == nil && !t.After(r.now.AddDate(0, 0, 1)) {
			return t, true
		}
	}
	return t, false
}

// Counts returns the sums of what was read, or ErrLog if no session was.
func (r *Reader) Counts() (*Counts, error) {
	c := &r.counts
	switch {
	case c.Sessions == 0:
		return nil, fmt.Errorf("%w: no session of Dovecot with body_count= (%d lines without a time, %d at weekends)",
			ErrLog, c.Unread, c.Skipped)
	case len(c.sizes) == 0:
		return nil, fmt.Errorf("%w: no message of Postfix with sasl_username= and nrcpt=", ErrLog)
	}
	return c, nil
}
