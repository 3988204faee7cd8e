package smtpd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "doublet/client/smtp"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/sasl"
	"doublet/wire/scram"
	"doublet/wire/smtp"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// server is a complete server: listeners, directory, mail and store.
type server struct {
	t      testing.TB
	env    *env.Env
	fix    *env.Fixture
	store  *store.Store
	people *directory.Directory
	files  *mailbox.Service
	mail   *mail.Service
	front  *listen.Server
	addr   map[Kind]string
	full   *fullDisk
	clock  *aheadClock
	person map[string]directory.Person
}

// fullDisk is a file system that can simulate a full disk.
type fullDisk struct {
	env.FS
	avail atomic.Uint64
}

func (f *fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: f.avail.Load(), TotalBytes: 100 << 30}, nil
}

// aheadClock is the real clock plus an offset that the test sets.
type aheadClock struct {
	env.Clock
	ahead atomic.Int64
}

func (c *aheadClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

func serve(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, fix: env.TestRealTime(t), addr: map[Kind]string{}, person: map[string]directory.Person{}}
	s.full = &fullDisk{FS: s.fix.FS}
	s.full.avail.Store(50 << 30)
	s.env = s.fix.Env
	s.clock = &aheadClock{Clock: s.env.Clock}
	s.env.FS, s.env.Clock = s.full, s.clock
	var err error
	s.store, err = store.Open(s.env, "data", store.Options{Ballast: -1, Indexes: directory.Indexes(),
		LogSyncInterval: 50 * time.Microsecond, OnFatal: func(error) {}})
	s.ok(err)
	s.people, err = directory.Open(s.store, s.env, password.New(s.env, 2, 100),
		directory.Options{Domain: "example.com"})
	s.ok(err)
	s.files = mailbox.New(s.store, s.env, mailbox.Options{})
	s.mail, err = mail.Open(s.store, s.env, s.people, s.files, mail.Options{Hostname: "mx.example.com"})
	s.ok(err)
	for _, name := range []string{"alice", "bob", "carol"} {
		s.add(name)
	}
	s.front = listen.New(s.env, listen.Options{}, nil)
	b := NewBackend(s.signIn(), s.people, s.mail, s.env)
	for _, k := range []Kind{SMTP, Submission, LMTP} {
		srv := New(s.env, Config{Kind: k, Hostname: "mx.example.com"}, b, nil)
		l, err := s.front.Open(listen.Door{Name: k.String(), Network: "tcp", Address: "127.0.0.1:0", Serve: srv.Serve,
			Busy: srv.Busy()})
		s.ok(err)
		s.addr[k] = l.Addr().String()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s.ok(s.front.Shutdown(ctx))
		s.people.Close()
		s.ok(s.store.Close())
	})
	return s
}

func (s *server) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) add(name string) {
	s.t.Helper()
	db, err := s.files.Make(context.Background(), note.UNID{}, name, 0, 0)
	s.ok(err)
	s.person[name], err = s.people.People.Add(context.Background(), note.System, directory.PersonSpec{
		PersonFields: directory.PersonFields{FullName: []string{name}, ShortName: name, MailDatabase: db},
		Password:     "secret-" + name, Scram: true,
	})
	s.ok(err)
}

func (s *server) dial(k Kind) *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.env, "tcp", s.addr[k], client.Options{Timeout: 20 * time.Second, LMTP: k == LMTP})
	s.ok(err)
	s.t.Cleanup(func() { _ = c.Close() })
	s.ok(c.Hello("client.example"))
	return c
}

func (s *server) signed(k Kind, name string) *client.Client {
	s.t.Helper()
	c := s.dial(k)
	s.ok(c.Auth(sasl.NewPlainClient("", name, "secret-"+name)))
	return c
}

func (s *server) signIn() *signin.Service {
	return signin.New(signin.PeopleOf(s.people), s.env, signin.Options{SCRAM: true})
}

func (s *server) inbox(name string) []string { return s.messages(name, mailbox.Inbox) }

func (s *server) messages(name, folder string) []string {
	s.t.Helper()
	var out []string
	v, _, err := s.files.File(note.System, s.person[name].MailDatabase).Open(context.Background(), folder, true)
	s.ok(err)
	s.ok(v.Fetch(context.Background(), mailbox.Set{{Start: 1}}, false, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			b, err := m.Body()
			if err != nil {
				return false, err
			}
			var buf bytes.Buffer
			_, err = b.WriteTo(&buf)
			out = append(out, buf.String())
			return false, err
		}, func() error { return nil }))
	return out
}

func (s *server) send(c *client.Client, from, message string, to ...string) client.Result {
	s.t.Helper()
	m := client.Outgoing{Message: []byte(message)}
	if from != "" {
		m.From = path(from)
	}
	for _, a := range to {
		m.To = append(m.To, path(a))
	}
	res, err := c.Deliver(&m)
	s.ok(err)
	return res
}

func code(r *smtp.Reply) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%d %s", r.Code, r.Enhanced)
}

func codes(list []*smtp.Reply) string {
	var out []string
	for _, r := range list {
		out = append(out, code(r))
	}
	return strings.Join(out, ", ")
}

// body returns messages for every size class of the buffers, with dots and long lines.
func body(size int) string {
	var b strings.Builder
	b.WriteString("From: eve@far.example\r\nSubject: size\r\n\r\n")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, ".line %d %s\r\n..\r\n", i, strings.Repeat("y", i%300))
	}
	return b.String()
}

// TestEndToEnd checks that a message from SMTP is stored in the mail file byte for byte, after the trace fields of this
// hop.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.dial(SMTP)
	for i, size := range []int{100, 6 << 10, 7 << 10, 31 << 10, 33 << 10, 130 << 10, 600 << 10, 3 << 20} {
		message := body(size)
		res := s.send(c, "eve@far.example", message, "alice@example.com", "bob+x@example.com")
		if !res.Accepted(0) || !res.Accepted(1) {
			t.Fatalf("%d bytes: %s; %s", size, codes(res.Rcpt), codes(res.Final))
		}
		id := strings.TrimPrefix(res.Final[0].Lines[0], "OK ")
		for _, name := range []string{"alice", "bob"} {
			got := s.inbox(name)[i]
			if !strings.HasSuffix(got, message) {
				t.Fatalf("%d bytes: the message has changed", size)
			}
			trace := strings.TrimSuffix(got, message)
			if !strings.HasPrefix(trace,
				"Return-Path: <eve@far.example>\r\nReceived: from client.example ([127.0.0.1])\r\n"+
					"\tby mx.example.com with ESMTP id "+id+";\r\n\t") || strings.Count(trace, "\r\n") != 4 {
				t.Errorf("trace fields (id %s):\n%s", id, trace)
			}
		}
	}
}

func TestBackendRecipients(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := context.Background()
	s.add("gone")
	_, err := s.people.People.Set(ctx, note.System, s.person["gone"].ID,
		func(f *directory.PersonFields) error { f.Disabled = true; return nil })
	s.ok(err)
	s.add("small")
	_, err = s.people.People.Set(ctx, note.System, s.person["small"].ID, func(f *directory.PersonFields) error {
		f.SizeLimit, f.Roles = 10, []string{directory.RoleAdmin}
		return nil
	})
	s.ok(err)
	if res := s.send(s.dial(SMTP), "eve@far.example", body(100), "carol@example.com"); !res.Accepted(0) {
		t.Fatal(codes(res.Final))
	}
	s.ok(s.store.SetInfo(note.System, s.person["carol"].MailDatabase, func(i *layout.Info) { i.Quota = 100 }))
	for _, x := range []struct {
		address           string
		open, signed, lmt string
	}{
		{"alice@example.com", "250 2.1.5", "250 2.1.5", "250 2.1.5"},
		{"ALICE+d@Example.COM", "250 2.1.5", "250 2.1.5", "250 2.1.5"},
		{"postmaster", "250 2.1.5", "250 2.1.5", "250 2.1.5"},
		{"nobody@example.com", "550 5.1.1", "550 5.1.1", "550 5.1.1"},
		{"eve@far.example", "550 5.7.1", "250 2.1.5", "550 5.7.1"},
		{"gone@example.com", "550 5.2.1", "550 5.2.1", "550 5.2.1"},
		{"carol@example.com", "452 4.2.2", "452 4.2.2", "452 4.2.2"},
	} {
		for k, want := range map[Kind]string{SMTP: x.open, Submission: x.signed, LMTP: x.lmt} {
			c := s.dial(k)
			from := "eve@far.example"
			if k == Submission {
				c, from = s.signed(k, "alice"), "alice@example.com"
			}
			s.ok(c.Mail(path(from), smtp.MailParams{Size: -1}))
			r, err := c.Raw("RCPT TO:<" + x.address + ">")
			s.ok(err)
			if code(r) != want {
				t.Errorf("%s: %s: %s, want %s", k, x.address, code(r), want)
			}
		}
	}
	c := s.dial(SMTP)
	s.ok(c.Mail(path("eve@far.example"), smtp.MailParams{Size: 11}))
	if r, err := c.Raw("RCPT TO:<small@example.com>"); err != nil || code(r) != "552 5.2.3" {
		t.Error(r, err)
	}
}

func TestBackendSignIn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.dial(Submission)
	s.ok(c.Auth(scramClient{scram.NewClient("alice", "secret-alice", "nonce")}))
	if err := c.Mail(path("alice@example.com"), smtp.MailParams{Size: -1}); err != nil {
		t.Error(err)
	}
	c = s.dial(Submission)
	s.ok(c.Auth(sasl.NewLoginClient("alice@example.com", "secret-alice")))
	for _, x := range []sasl.Client{
		scramClient{scram.NewClient("alice", "wrong", "nonce")},
		scramClient{scram.NewClient("nobody", "wrong", "nonce")},
		sasl.NewPlainClient("", "alice", "wrong"),
		sasl.NewPlainClient("", "nobody", "wrong"),
		sasl.NewPlainClient("bob", "alice", "secret-alice"),
	} {
		err := s.dial(Submission).Auth(x)
		if r := smtp.AsReply(err); code(r) != "535 5.7.8" {
			t.Errorf("%s: %v", x.Mechanism(), err)
		}
	}
	// Another user's address, at MAIL and in the header.
	c = s.signed(Submission, "alice")
	err := c.Mail(path("bob@example.com"), smtp.MailParams{Size: -1})
	if r := smtp.AsReply(err); code(r) != "550 5.7.1" {
		t.Errorf("MAIL: %v", err)
	}
	res := s.send(c, "alice@example.com", "From: bob@example.com\r\n\r\nx\r\n", "carol@example.com")
	if codes(res.Final) != "550 5.7.1" {
		t.Errorf("From: %s", codes(res.Final))
	}
	// A user who is disabled during the session can send nothing more.
	_, err = s.people.People.Set(context.Background(), note.System, s.person["alice"].ID,
		func(f *directory.PersonFields) error { f.Disabled = true; return nil })
	s.ok(err)
	if r := smtp.AsReply(c.Mail(path("alice@example.com"), smtp.MailParams{Size: -1})); code(r) != "550 5.7.1" {
		t.Errorf("disabled: %s", code(r))
	}
	if r := smtp.AsReply(s.dial(Submission).Auth(sasl.NewPlainClient("", "alice", "secret-alice"))); code(
		r) != "535 5.7.13" {
		t.Errorf("disabled: %s", code(r))
	}
}

// scramClient adapts the SCRAM client to sasl.Client.
type scramClient struct{ c *scram.Client }

func (scramClient) Mechanism() string          { return scram.Mechanism }
func (x scramClient) Initial() ([]byte, error) { out, _, err := x.c.Next(nil); return out, err }
func (x scramClient) Next(in []byte) ([]byte, error) {
	out, _, err := x.c.Next(in)
	if out == nil {
		out = []byte{}
	}
	return out, err
}

func TestBackendSubmission(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.signed(Submission, "alice")
	res := s.send(c, "alice@example.com", "From: Alice <alice@example.com>\r\nSubject: x\r\n\r\nx\r\n",
		"bob@example.com", "eve@far.example")
	if !res.Accepted(0) || !res.Accepted(1) {
		t.Fatal(codes(res.Final))
	}
	got := s.inbox("bob")[0]
	for _, want := range []string{"\r\nMessage-ID: <", "\r\nDate: ", " with ESMTPA id "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	list, _, err := s.mail.Queue.List(context.Background(), 0, "")
	s.ok(err)
	if len(list) != 1 || list[0].Recipients[0].Address != "eve@far.example" ||
		list[0].Recipients[0].State != queue.Waiting {
		t.Errorf("%+v", list)
	}
}

func TestBackendLMTP(t *testing.T) {
	t.Parallel()
	s := serve(t)
	// There is enough space at RCPT, where the size is unknown, but not for the message.
	s.ok(s.store.SetInfo(note.System, s.person["bob"].MailDatabase, func(i *layout.Info) { i.Quota = 100 }))
	res := s.send(s.dial(LMTP), "eve@far.example", body(500), "alice@example.com", "bob@example.com",
		"nobody@example.com", "carol@example.com")
	if got := codes(res.Final); got != "250 2.0.0, 452 4.2.2, 250 2.0.0" {
		t.Errorf("%s; %s", codes(res.Rcpt), got)
	}
	for name, n := range map[string]int{"alice": 1, "bob": 0, "carol": 1} {
		if got := len(s.inbox(name)); got != n {
			t.Errorf("%s has %d messages", name, got)
		}
	}
	list, _, err := s.mail.Queue.List(context.Background(), 0, "")
	s.ok(err)
	if len(list) != 0 {
		t.Errorf("mail.box: %+v", list)
	}
}

func TestBackendNoSpace(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.dial(SMTP)
	s.full.avail.Store(1 << 20)
	s.clock.ahead.Store(int64(2 * time.Second)) // the store checks once a second
	res := s.send(c, "eve@far.example", body(500), "alice@example.com")
	if got := codes(res.Final); got != "452 4.3.1" {
		t.Errorf("full: %s", got)
	}
	if n := len(s.inbox("alice")); n != 0 {
		t.Errorf("%d messages", n)
	}
	s.full.avail.Store(50 << 30)
	s.clock.ahead.Store(int64(4 * time.Second))
	if res = s.send(c, "eve@far.example", body(500), "alice@example.com"); !res.Accepted(0) {
		t.Errorf("room again: %s", codes(res.Final))
	}
}

// TestBackendOutOfService checks that internal errors result in 451.
func TestBackendOutOfService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.ok(s.store.SetInfo(note.System, queue.BoxID, func(i *layout.Info) { i.State = layout.OutOfService }))
	s.ok(s.store.SetInfo(note.System, s.person["bob"].MailDatabase,
		func(i *layout.Info) { i.State = layout.OutOfService }))
	res := s.send(s.dial(SMTP), "eve@far.example", body(500), "alice@example.com", "bob@example.com")
	if got := codes(res.Final); got != "451 4.3.0" {
		t.Error(got)
	}
	if n := len(s.inbox("alice")); n != 0 {
		t.Errorf("alice has %d messages: half of it is there", n)
	}
	res = s.send(s.dial(SMTP), "eve@far.example", body(500), "alice@example.com")
	if !res.Accepted(0) {
		t.Errorf("alice alone: %s", codes(res.Final))
	}
}
