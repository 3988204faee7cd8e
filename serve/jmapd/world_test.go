package jmapd

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/reach"
	"doublet/client/webcal"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/store/check"
)

var bg = context.Background()

// world is a server under test, with people alice, bob and carol at example.com.
type world struct {
	t      testing.TB
	fix    *env.Fixture
	store  *store.Store
	people *directory.Directory
	files  *mailbox.Service
	// groupware keeps the calendars and address books.
	groupware *groupware.Service
	mail      *mail.Service
	waker     *mailbox.Waker
	sources   *feed.Subscriber
	server    *Server
	who       map[string]*Caller
	others    silence
}

// silence stands for the other servers: none answers, and that of all primaries has not since at, if at is set.
type silence struct{ at *time.Time }

func (s *silence) Busy(_ context.Context, _ note.UNID, list []scheduling.Calendars, _, _ time.Time) []scheduling.Busy {
	out := make([]scheduling.Busy, len(list))
	for i := range out {
		out[i].Err = scheduling.ErrAway
	}
	return out
}

func (s *silence) Silent(note.DatabaseID) (since time.Time, silent bool) {
	if s.at == nil {
		return since, false
	}
	return *s.at, true
}

// farFeeds answers for the feeds of other servers: one event, or 404 where the URL says so.
type farFeeds struct{}

// URL implements feed.Getter.
func (farFeeds) URL(text string) (string, error) {
	if !strings.HasPrefix(text, "https://far.example/") {
		return "", reach.ErrAddress
	}
	return text, nil
}

// Get implements feed.Getter.
func (farFeeds) Get(_ context.Context, url, _, _ string) (*webcal.Answer, error) {
	if strings.Contains(url, "404") {
		return nil, &webcal.Refused{Status: 404}
	}
	return &webcal.Answer{Text: []byte("BEGIN:VCALENDAR\nX-WR-CALNAME:Far\nBEGIN:VEVENT\nUID:far\n" +
		"DTSTART:20260301T100000Z\nSUMMARY:Match\nEND:VEVENT\nEND:VCALENDAR\n")}, nil
}

// keepDeleted is the time for which deleted messages can be restored.
const keepDeleted = 14 * 24 * time.Hour

type settings struct {
	Limits
	message    int
	quota      uint64
	recipients int
	rolls      int64
	private    bool
}

func open(t testing.TB, o settings) *world {
	t.Helper()
	return openOn(t, env.Test(t), o)
}

func openOn(t testing.TB, fix *env.Fixture, o settings) *world {
	t.Helper()
	w := &world{t: t, fix: fix, who: map[string]*Caller{}}
	var err error
	w.store, err = store.Open(fix.Env, "data", store.Options{
		CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1, Ballast: -1, LogSyncInterval: 20 * time.Microsecond,
		Indexes: slices.Concat(directory.Indexes(), session.Indexes(), trace.Indexes(), mailbox.Indexes(),
			groupware.Indexes()),
	})
	w.ok(err)
	w.people, err = directory.Open(w.store, fix.Env, password.New(fix.Env, 1, 10),
		directory.Options{Domain: "example.com", Private: o.private})
	w.ok(err)
	if o.message == 0 {
		o.message = 1 << 20
	}
	if o.recipients == 0 {
		o.recipients = 20
	}
	w.files = mailbox.New(w.store, fix.Env, mailbox.Options{MessageSize: o.message, RollMemory: o.rolls,
		KeepDeleted: keepDeleted})
	w.groupware = groupware.New(w.store, fix.Env, groupware.Options{Origin: "https://mx.example.com"})
	w.waker = w.files.NewWaker()
	tree := stat.New(fix.Clock)
	w.mail, err = mail.Open(w.store, fix.Env, w.people, w.files, mail.Options{Hostname: "mx.example.com", Stats: tree,
		Calendars: scheduling.NewInbox(w.people, w.groupware, tree)})
	w.ok(err)
	sched := scheduling.New(fix.Env, w.people, w.groupware, w.mail,
		scheduling.Options{Hostname: "mx.example.com", Stats: tree, Elsewhere: &w.others})
	in := signin.New(signin.PeopleOf(w.people), fix.Env, signin.Options{Failures: -1})
	w.sources = feed.NewSubscriber(fix.Env, w.store, w.groupware, farFeeds{})
	w.server = New(fix.Env, Options{Authenticate: w.authenticate, Limits: o.Limits, Stats: tree, Sources: w.sources,
		Feeds: feed.NewPublisher(fix.Env, w.groupware, w.people, "https://mx.example.com")},
		NewBackend(in, w.people, w.files, w.mail, w.groupware, sched, o.recipients))
	for _, name := range []string{"alice", "bob", "carol"} {
		w.person(name, o.quota)
	}
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	if n := w.server.opt.Memory.Used(); n != 0 {
		w.t.Errorf("%d bytes of memory are still taken", n)
	}
	if n := len(w.server.active); n != 0 {
		w.t.Errorf("%d sessions are still active", n)
	}
	if _, bench := w.t.(*testing.B); !bench {
		r, err := check.Run(bg, w.store, check.Options{Deep: true})
		w.ok(err)
		for _, f := range r.Findings {
			w.t.Errorf("check: %s", f)
		}
	}
	w.people.Close()
	w.ok(w.store.Close())
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) person(name string, quota uint64) {
	w.t.Helper()
	spec := directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{strings.ToUpper(name[:1]) +
		name[1:] + " Example"}, ShortName: name}}
	var err error
	spec.MailDatabase, err = w.files.Make(bg, note.UNID{}, name, quota, 0)
	w.ok(err)
	p, err := w.people.People.Add(bg, note.System, spec)
	w.ok(err)
	w.ok(w.store.SetInfo(note.System, p.MailDatabase, ownedBy(p.ID)))
	who, err := w.people.Names.WhoOf(bg, p.ID)
	w.ok(err)
	w.who[name] = &Caller{Account: signin.Account{Who: who, Name: p.Name(), Address: p.InternetAddress,
		Database: p.MailDatabase, Directory: who.Directory}}
}

// authenticate accepts the name in Authorization, or that of Basic, without a check.
func (w *world) authenticate(out http.ResponseWriter, r *http.Request) *Caller {
	name := r.Header.Get("Authorization")
	if user, _, ok := r.BasicAuth(); ok {
		name = user
	}
	c := w.who[name]
	if c == nil {
		out.Header().Set("WWW-Authenticate", "Basic")
		out.WriteHeader(http.StatusUnauthorized)
		return nil
	}
	copied := *c
	return &copied
}

func (w *world) file(name string) *mailbox.File {
	c := w.who[name]
	return w.files.File(c.Who, c.Database)
}

func (w *world) account(name string) string { return accountID(w.who[name].Database) }

// do sends a request to the server.
func (w *world) do(who, method, path, kind string, body []byte, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Authorization", who)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	w.server.ServeHTTP(out, r)
	return out
}

// append puts a message into a folder and returns the id of the Email.
func (w *world) append(who, folder, raw string, flags ...string) string {
	w.t.Helper()
	fl, err := mailbox.ParseFlags(flags)
	w.ok(err)
	f := w.file(who)
	_, uid, err := f.Append(bg, folder, []byte(strings.ReplaceAll(raw, "\n", "\r\n")), fl, w.fix.Clock.Now())
	w.ok(err)
	v, _, err := f.Open(bg, folder, true)
	w.ok(err)
	id := ""
	w.ok(v.Fetch(bg, mailbox.Set{{Start: uid, Stop: uid}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			id = m.EmailID()
			return false, nil
		}, func() error { return nil }))
	return id
}

func simple(subject string) string {
	return fmt.Sprintf("From: Eve <eve@far.example>\nTo: alice@example.com\nSubject: %s\n"+
		"Message-ID: <%s@far.example>\nDate: Mon, 5 Jan 2026 09:00:00 +0100\n\nHello %s.\n", subject,
		strings.ReplaceAll(subject, " ", "."), subject)
}
