package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/keep"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
	"doublet/wire/smtp"
)

var bg = context.Background()

// world is a mail server in memory.
type world struct {
	makes directory.MailFiles // of the next start
	*Service
	db      *store.Store
	t       testing.TB
	fix     *env.Fixture
	files   *mailbox.Service
	people  *directory.Directory
	tree    *stat.Tree
	opt     Options
	floor   int64            // free space in bytes at which writes fail
	record  *journal.Options // of the journal, nil for none
	learn   *junk.Options    // of the junk filter, nil for none
	junk    *junk.Filter
	memory  *keep.Memory
	journal *journal.Journal
	closed  bool
}

func open(t testing.TB, o Options) *world {
	t.Helper()
	return openOn(t, env.Test(t), o)
}

func openOn(t testing.TB, fix *env.Fixture, o Options) *world {
	t.Helper()
	w := &world{t: t, fix: fix, opt: o}
	w.start()
	t.Cleanup(func() {
		if !w.closed {
			w.checkStore()
			w.stop()
		}
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	w.tree = stat.New(w.fix.Clock)
	s, err := store.Open(w.fix.Env, "data", store.Options{
		FloorBytes: w.floor, FloorPercent: -1, Ballast: -1,
		Indexes:         slices.Concat(directory.Indexes(), trace.Indexes(), journal.Indexes()),
		LogSyncInterval: 50 * time.Microsecond,
		Stats:           w.tree,
		OnFatal:         func(error) {},
	})
	w.ok(err)
	w.db = s
	w.people, err = directory.Open(s, w.fix.Env, password.New(w.fix.Env, 2, 100),
		directory.Options{Domain: "example.com", MailFiles: w.makes})
	w.ok(err)
	w.files = mailbox.New(s, w.fix.Env, mailbox.Options{})
	o := w.opt
	o.Hostname, o.Stats = "mx.example.com", w.tree
	w.memory, err = keep.Open(s, w.fix.Env, w.tree)
	w.ok(err)
	o.Keep = w.memory.Table("sent today")
	if w.record != nil {
		r := *w.record
		r.On, r.Stats = true, w.tree
		o.Journal, err = journal.Open(s, w.fix.Env, w.people, r)
		w.ok(err)
		w.journal = o.Journal
	}
	if w.learn != nil {
		l := *w.learn
		l.Parts, l.Stats = mailbox.PartsOf, w.tree
		w.junk, err = junk.Open(s, w.fix.Env, w.people, l)
		w.ok(err)
		o.Junk = w.junk
	}
	w.Service, err = Open(s, w.fix.Env, w.people, w.files, o)
	w.ok(err)
}

func (w *world) stop() {
	w.t.Helper()
	w.people.Close()
	w.ok(w.db.Close())
	w.closed = true
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// checkStore verifies all invariants of the store.
func (w *world) checkStore() {
	w.t.Helper()
	if _, bench := w.t.(*testing.B); bench {
		return
	}
	r, err := check.Run(bg, w.db, check.Options{Deep: true})
	w.ok(err)
	for _, f := range r.Findings {
		w.t.Errorf("check: %s", f)
	}
}

func (w *world) person(short string, change ...func(*directory.PersonSpec)) directory.Person {
	w.t.Helper()
	db, err := w.files.Make(bg, note.UNID{}, short, 0, 0)
	w.ok(err)
	spec := directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: []string{short + " Example"}, ShortName: short, MailDatabase: db,
	}}
	for _, c := range change {
		c(&spec)
	}
	p, err := w.people.People.Add(bg, note.System, spec)
	w.ok(err)
	return p
}

func (w *world) quota(p directory.Person, bytes uint64) {
	w.t.Helper()
	w.ok(w.db.SetInfo(note.System, p.MailDatabase, func(i *layout.Info) { i.Quota = bytes }))
}

func path(s string) smtp.Path {
	if s == "" {
		return smtp.Path{}
	}
	p, err := smtp.ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}

// to resolves recipients as a server does.
func (w *world) to(addresses ...string) []Recipient {
	w.t.Helper()
	out := make([]Recipient, len(addresses))
	for i, a := range addresses {
		out[i].To = path(a)
		t, err := w.people.Names.Resolve(bg, a)
		if errors.Is(err, directory.ErrNotLocal) {
			out[i].Outside = true
			continue
		}
		w.ok(err)
		out[i].Target = t
	}
	return out
}

const plain = "From: eve@far.example\r\nTo: alice@example.com\r\nSubject: hello\r\nMessage-ID: <1@far.example>\r\n" +
	"Date: Mon, 5 Jan 2026 08:00:00 +0000\r\n\r\nHello, world.\r\n"

// from returns a submission by a sender from outside.
func (w *world) from(sender string, to ...string) *Submission {
	w.t.Helper()
	return &Submission{
		From: path(sender), Recipients: w.to(to...), Message: []byte(plain),
		Received: &Received{Helo: "far.example", Protocol: "ESMTP"},
	}
}

// deposit deposits a message and expects no general error.
func (w *world) deposit(sub *Submission) []error {
	w.t.Helper()
	results := make([]error, len(sub.Recipients))
	_, err := w.Deposits.Deposit(bg, sub, results)
	w.ok(err)
	return results
}

// inbox returns the messages of a mail file's INBOX.
func (w *world) inbox(db note.DatabaseID) []string {
	w.t.Helper()
	var out []string
	v, _, err := w.files.File(note.System, db).Open(bg, mailbox.Inbox, true)
	w.ok(err)
	err = v.Fetch(bg, mailbox.Set{{Start: 1, Stop: 0}}, false, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			b, err := m.Body()
			if err != nil {
				return false, err
			}
			var buf bytes.Buffer
			_, err = b.WriteTo(&buf)
			out = append(out, buf.String())
			return false, err
		}, func() error { return nil })
	w.ok(err)
	return out
}

// has checks the number of messages of a person.
func (w *world) has(p directory.Person, n int) []string {
	w.t.Helper()
	got := w.inbox(p.MailDatabase)
	if len(got) != n {
		w.t.Fatalf("%s has %d messages, want %d", p.ShortName, len(got), n)
	}
	return got
}

func (w *world) queue(n int) []queue.Entry {
	w.t.Helper()
	list, _, err := w.Queue.List(bg, 0, "")
	w.ok(err)
	if len(list) != n {
		w.t.Fatalf("mail.box holds %d messages, want %d: %+v", len(list), n, list)
	}
	return list
}

func (w *world) route() time.Time {
	w.t.Helper()
	next, err := w.Router.Route(bg)
	w.ok(err)
	return next
}

// shows checks statistics such as "Mail.Dead = 1".
func (w *world) shows(lines ...string) {
	w.t.Helper()
	for _, want := range lines {
		name, _, _ := strings.Cut(want, " ")
		got := ""
		for _, e := range w.tree.Snapshot(name) {
			if e.Name == name {
				got = e.String()
			}
		}
		if got != want {
			w.t.Errorf("statistic %q, want %q", got, want)
		}
	}
}

// recipes returns the number of stored messages.
func (w *world) recipes() uint64 {
	w.t.Helper()
	r, err := check.Run(bg, w.db, check.Options{})
	w.ok(err)
	return r.Messages
}

func replyCode(err error) string {
	var r *smtp.Reply
	if !errors.As(err, &r) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d %s", r.Code, r.Enhanced)
}
