package feed

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/calendar"
	"doublet/client/webcal"
	"doublet/env"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// How often feeds are read: as they ask for, within bounds; usually each hour. After a failure the pause doubles.
const (
	usualPause = time.Hour
	leastPause = 15 * time.Minute
	mostPause  = 24 * time.Hour
)

// atOnce bounds the feeds that are read at the same time, and perChange the entries of one update.
const (
	atOnce    = 8
	perChange = 200
)

// Getter reads the text at a URL. A *webcal.Client implements it.
type Getter interface {
	URL(text string) (string, error)
	Get(ctx context.Context, url, etag, modified string) (*webcal.Answer, error)
}

// Subscriber keeps the calendars that show feeds of other servers. Only the primary of a mail file reads its feeds.
type Subscriber struct {
	env       *env.Env
	groupware *groupware.Service
	get       Getter
	times     *mailbox.Timetable
}

// NewSubscriber returns a Subscriber for the mail files of a store.
func NewSubscriber(e *env.Env, s *store.Store, g *groupware.Service, get Getter) *Subscriber {
	return &Subscriber{env: e, groupware: g, get: get, times: mailbox.NewTimetable(e, s)}
}

// Subscribe creates a calendar for the feed at a URL, and returns its name. The task reads the feed soon. The error
// wraps reach.ErrAddress if the URL is not allowed.
func (s *Subscriber) Subscribe(c *groupware.Changing, address, title string) (name string, err error) {
	u, err := s.get.URL(address)
	if err != nil {
		return "", err
	}
	if title = strings.TrimSpace(title); title == "" {
		title = hostOf(u)
	}
	var b [8]byte
	s.env.Fill(b[:])
	name = "feed-" + hex.EncodeToString(b[:])
	return name, c.SubscribeTo(name, groupware.Properties{Title: title, Transparent: true,
		Components: []string{calendar.Event}}, u)
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Hostname()
	}
	return address
}

// Run reads the feeds that are due. It has one user, the task Feeds. A feed that fails does not stop the others: its
// calendar says why.
func (s *Subscriber) Run(ctx context.Context) error { return s.times.Run(ctx, s.look, s.all) }

// look returns the next time of a mail file.
func (s *Subscriber) look(ctx context.Context, db note.DatabaseID) (next time.Time, some bool, err error) {
	sources, err := s.groupware.File(note.System, db).Sources(ctx)
	for _, at := range sources {
		if !some || at.Before(next) {
			next, some = at, true
		}
	}
	return next, some, err
}

// all reads the feeds of mail files that are due, at most atOnce at the same time.
func (s *Subscriber) all(ctx context.Context, due []note.DatabaseID, now time.Time) error {
	var errs []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	for _, db := range due {
		f := s.groupware.File(note.System, db)
		sources, err := f.Sources(ctx)
		if err != nil {
			fail(err)
		}
		for name, at := range sources {
			if at.After(now) || ctx.Err() != nil {
				continue
			}
			slots <- struct{}{}
			wg.Add(1)
			s.env.Go("feed", func() {
				defer func() { <-slots; wg.Done() }()
				if err := s.one(ctx, f, name); err != nil && !errors.Is(err, store.ErrNotHome) {
					fail(fmt.Errorf("feed %s of %s: %w", name, f.Database(), err))
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// one reads the feed of one calendar, and records the outcome.
func (s *Subscriber) one(ctx context.Context, f *groupware.File, name string) error {
	c, err := f.Collection(ctx, groupware.Calendar, name)
	if errors.Is(err, groupware.ErrNoCollection) {
		return nil
	}
	if err != nil {
		return err
	}
	x := c.Source
	every := usualPause
	if d := x.Next.Sub(x.Tried); x.Fails == 0 && !x.Tried.IsZero() && d >= leastPause && d <= mostPause {
		every = d
	}
	got, bad := s.fetch(ctx, f, &c)
	if ctx.Err() != nil {
		return nil // the server stops: the next start tries again
	}
	x.Tried = s.env.Clock.Now()
	if bad != nil {
		x.Error, x.Fails = reason(bad), x.Fails+1
		x.Next = x.Tried.Add(min(usualPause<<min(x.Fails-1, 5), mostPause))
	} else {
		if got.every > 0 {
			every = got.every
		}
		x.Error, x.Fails, x.Done, x.Next = got.broken, 0, x.Tried, x.Tried.Add(every)
		x.ETag, x.Modified = got.etag, got.modified
	}
	return f.Change(ctx, func(w *groupware.Changing) error {
		if got.title != "" {
			p, err := w.Properties(groupware.Calendar, name)
			if p.Title = clip(got.title); err == nil {
				err = w.SetProperties(groupware.Calendar, name, p)
			}
			if err != nil {
				return err
			}
		}
		return w.SetSource(name, x)
	})
}

// fetched is the outcome of reading a feed.
type fetched struct {
	etag, modified string
	every          time.Duration // the pause that the feed asks for, 0 if it was not read again
	title          string        // of the calendar, "" if it stays
	broken         string        // says that events are malformed, "" if none is
}

// fetch reads the feed of a calendar, and makes the entries those of the feed.
func (s *Subscriber) fetch(ctx context.Context, f *groupware.File, c *groupware.Collection) (out fetched, err error) {
	x := &c.Source
	a, err := s.get.Get(ctx, x.URL, x.ETag, x.Modified)
	if err != nil {
		return out, err
	}
	out = fetched{etag: a.ETag, modified: a.Modified, broken: x.Error}
	if a.Unchanged {
		return out, nil
	}
	in, err := read(a.Text, c.UNID)
	if err != nil {
		return out, err
	}
	out.broken, out.every = "", usualPause
	if in.every > 0 {
		out.every = min(max(in.every, leastPause), mostPause)
	}
	if in.broken > 0 {
		out.broken = fmt.Sprintf("%d events of the feed are malformed", in.broken)
	}
	if x.Done.IsZero() && c.Title == hostOf(x.URL) {
		out.title = in.name
	}
	return out, s.apply(ctx, f, c.Name, in)
}

// clip bounds a title that another server wrote.
func clip(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}

// reason returns the text of an error for the owner of the calendar.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address, which stands beside it
	}
	return err.Error()
}

// apply makes the entries of a calendar those of its feed. What did not change is not written.
func (s *Subscriber) apply(ctx context.Context, f *groupware.File, name string, in *content) error {
	left := make(map[string][]byte, len(in.events))
	for entry, text := range in.events {
		left[entry] = text
	}
	var gone []string
	err := f.Entries(ctx, groupware.Calendar, name, groupware.Select{Text: true}, func(e *groupware.Entry) bool {
		switch text, stays := left[e.Name]; {
		case !stays:
			gone = append(gone, e.Name)
		case bytes.Equal(text, e.Text):
			delete(left, e.Name)
		}
		return true
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(gone, perChange) {
		if err := f.Change(ctx, func(w *groupware.Changing) error {
			for _, entry := range part {
				if err := w.Discard(groupware.Calendar, name, entry); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	var names []string
	for entry := range left {
		names = append(names, entry)
	}
	slices.Sort(names)
	for part := range slices.Chunk(names, perChange) {
		if err := s.put(ctx, f, name, part, left); err != nil {
			return err
		}
	}
	return nil
}

// put writes some entries of a calendar in one update.
func (s *Subscriber) put(ctx context.Context, f *groupware.File, name string, entries []string,
	texts map[string][]byte) error {
	parsed := make([]*groupware.Parsed, 0, len(entries))
	defer func() {
		for _, p := range parsed {
			p.Release()
		}
	}()
	for _, entry := range entries {
		p, err := f.Parse(ctx, groupware.Calendar, texts[entry])
		if err != nil {
			return err
		}
		parsed = append(parsed, p)
	}
	return f.Change(ctx, func(w *groupware.Changing) error {
		for i, entry := range entries {
			if _, _, err := w.Put(groupware.Calendar, name, entry, parsed[i], groupware.Condition{}); err != nil {
				return err
			}
		}
		return nil
	})
}
