package smtpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	client "doublet/client/smtp"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/test/door"
	"doublet/wire/scram"
	"doublet/wire/smtp"
)

// delivery is a call of the fake backend's Deliver.
type delivery struct {
	proto, helo, from, user string
	to                      []string
	env                     Envelope
	msg                     string
}

// fake is a Backend. alice and bob exist at example.org, full@ is over quota, and late@ is rejected only at delivery.
// alice's password is "secret".
type fake struct {
	mu        sync.Mutex
	got       []delivery
	counts    map[string]int64
	in        *signin.Service
	onDeliver func(ctx context.Context, e *Envelope, m []byte) error
}

func (f *fake) Inc(name string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[string]int64{}
	}
	f.counts[name] += n
}

func (f *fake) count(name string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[name]
}

func (f *fake) delivered() []delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]delivery(nil), f.got...)
}

func (f *fake) SignIn() *signin.Service { return f.in }

// alone is a directory that contains only alice.
type alone struct{}

var alicePerson = directory.Person{ID: note.UNID{1}, PersonFields: directory.PersonFields{FullName: []string{"alice"}}}

func (a alone) AuthenticateProof(ctx context.Context, user, password, _ string) (directory.Proof, error) {
	switch {
	case user == "broken":
		return directory.Proof{}, errors.New("directory is on fire")
	case password == "secret":
		who, p, err := a.SignedIn(ctx, user)
		return directory.Proof{Who: who, Person: p}, err
	}
	return directory.Proof{}, directory.ErrAuthentication
}

func (alone) Person(context.Context, note.UNID) (directory.Person, error) {
	p := alicePerson
	p.HasPassword = true
	return p, nil
}

func (a alone) SignedIn(ctx context.Context, user string) (note.Who, directory.Person, error) {
	p, err := a.PersonNamed(ctx, user)
	return note.Who{Person: p.ID}, p, err
}

func (alone) PersonNamed(_ context.Context, user string) (directory.Person, error) {
	if user != "alice" {
		return directory.Person{}, directory.ErrNotFound
	}
	return alicePerson, nil
}

func (alone) ScramCredentials(context.Context, string) ([]scram.Credentials, error) {
	return []scram.Credentials{scram.Derive("secret", []byte("salt of the test"), 4096)}, nil
}

func (alone) Moved(context.Context, note.UNID) error                                 { return nil }
func (alone) MailFileOf(context.Context, *directory.Person) (note.DatabaseID, error) { return 0, nil }
func (alone) WhoOf(context.Context, note.UNID) (note.Who, error)                     { return note.Who{}, nil }
func (alone) Failed(context.Context, string, string)                                 {}
func (alone) Version() uint64                                                        { return 0 }

func (f *fake) MaySendAs(_ context.Context, s *Session, from smtp.Path) error {
	if from.IsNull() || from.Local == s.Account.Name {
		return nil
	}
	return smtp.NewReply(550, 5, 7, 1, "Not your address")
}

func (f *fake) Recipient(_ context.Context, e *Envelope, r *Recipient) error {
	if r.To.Domain != "example.org" && r.To.Domain != "" && !e.Signed {
		return smtp.NewReply(550, 5, 7, 1, "Relaying denied")
	}
	switch {
	case r.To.Local == "full":
		return fmt.Errorf("mail: %w", smtp.NewReply(452, 4, 2, 2, "Mailbox full"))
	case r.To.Local == "nobody":
		return smtp.NewReply(550, 5, 1, 1, "No such user")
	case r.To.Local == "broken":
		return errors.New("disk on fire")
	case r.To.Local == "panic":
		f.Inc("panic on purpose", 1)
		panic("backend bug")
	}
	r.Data = "resolved " + r.To.Local
	return nil
}

func (f *fake) Deliver(ctx context.Context, e *Envelope, m []byte, results []error) (string, error) {
	if f.onDeliver != nil {
		if err := f.onDeliver(ctx, e, m); err != nil {
			return "", err
		}
	}
	d := delivery{proto: e.Protocol(), helo: e.Helo, from: e.From.String(), user: e.Account.Name, env: *e,
		msg: string(m)}
	d.env.Recipients = append([]Recipient(nil), e.Recipients...)
	for i, r := range e.Recipients {
		d.to = append(d.to, r.To.String())
		if r.Data != "resolved "+r.To.Local {
			return "", fmt.Errorf("recipient data lost: %v", r.Data)
		}
		if r.To.Local == "late" {
			results[i] = smtp.NewReply(552, 5, 2, 2, "Mailbox full")
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, d)
	return fmt.Sprintf("id%d", len(f.got)), nil
}

// house is a server under test.
type house struct {
	t       testing.TB
	env     *env.Env
	backend *fake
	server  *Server
	*door.Open
}

type settings struct {
	log io.Writer // the destination of the log; nil discards it
	Config
	tls      bool
	implicit bool
	remote   bool // clients seem to come from another machine
}

func open(t testing.TB, cfg settings) *house {
	t.Helper()
	h := &house{t: t, backend: &fake{}}
	if cfg.log == nil {
		cfg.log = io.Discard
	}
	h.env = env.Real(slog.New(slog.NewTextHandler(cfg.log, nil)))
	h.backend.in = signin.New(alone{}, h.env, signin.Options{SCRAM: true, Failures: -1})
	h.server = New(h.env, cfg.Config, h.backend, h.backend)
	d := listen.Door{Name: cfg.Kind.String(), Serve: h.server.Serve, Busy: h.server.Busy()}
	h.Open = door.At(t, h.env, d, door.Options{TLS: cfg.tls, Implicit: cfg.implicit, Far: cfg.remote, Stats: h.backend,
		Left: func() {
			if n := h.server.cfg.Memory.Used(); n != 0 {
				t.Errorf("%d bytes of message memory leaked", n)
			}
		}})
	return h
}

// dial connects without sending EHLO.
func (h *house) dial() *client.Client {
	h.t.Helper()
	o := client.Options{Timeout: 20 * time.Second, LMTP: h.server.cfg.Kind == LMTP}
	if h.Implicit {
		o.TLS = door.ClientTLS
	}
	c, err := client.Dial(h.env, "tcp", h.Addr.String(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// hello connects and sends EHLO.
func (h *house) hello() *client.Client {
	h.t.Helper()
	c := h.dial()
	if err := c.Hello("client.example"); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// script sends each line "> line", and checks that the reply to it has the prefix in the following line "< prefix".
func script(t *testing.T, c *client.Client, text string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimLeft(line, "\t ")
		switch {
		case strings.HasPrefix(line, "> "):
			if err := c.Send([]byte(unescape(line[2:]) + "\r\n")); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		case strings.HasPrefix(line, "< "):
			r, err := c.Reply()
			if err != nil {
				t.Fatalf("waiting for %q: %v", line[2:], err)
			}
			if !strings.HasPrefix(r.Error(), line[2:]) {
				t.Fatalf("got %q, want %q", r.Error(), line[2:])
			}
		case line == "EOF":
			if r, err := c.Reply(); err == nil {
				t.Fatalf("got %q, want the end", r.Error())
			}
		case line != "":
			t.Fatalf("bad script line %q", line)
		}
	}
}

func unescape(s string) string {
	return strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\0`, "\x00", `\t`, "\t").Replace(s)
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

func TestSession(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	msg := "Subject: x\r\n\r\n.dot\r\n..two\r\nend\r\n"
	for i := range 3 {
		res, err := c.Deliver(&client.Outgoing{
			From: path("bob@elsewhere.example"), To: []smtp.Path{path("alice@example.org"), path("nobody@example.org"),
				path("bob@example.org")},
			Message: []byte(msg),
		})
		if err != nil || !res.Accepted(0) || res.Accepted(1) || !res.Accepted(2) {
			t.Fatal(i, err, res)
		}
		if res.Final[0].Error() != fmt.Sprintf("250 2.0.0 OK id%d", i+1) {
			t.Error(res.Final[0].Error())
		}
	}
	if err := c.Quit(); err != nil {
		t.Error(err)
	}
	got := h.backend.delivered()
	if len(got) != 3 || got[2].msg != msg || got[2].proto != "ESMTP" || got[2].helo != "client.example" ||
		got[2].from != "bob@elsewhere.example" || strings.Join(got[2].to, ",") != "alice@example.org,bob@example.org" {
		t.Errorf("%+v", got)
	}
}

// A backend error that is not a reply results in 451, and the reply does not contain the error's text.
func TestBackendTrouble(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.backend.onDeliver = func(context.Context, *Envelope, []byte) error { return errors.New("disk on fire") }
	script(t, h.hello(), `
		> MAIL FROM:<>
		< 250 2.1.0
		> RCPT TO:<broken@example.org>
		< 451 4.3.0 Local error, try again later
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> DATA
		< 354
		> x\r\n.
		< 451 4.3.0 Local error, try again later
		> NOOP
		< 250 2.0.0`)
	// A panic ends only its own session.
	script(t, h.hello(), `
		> MAIL FROM:<>
		< 250 2.1.0
		> RCPT TO:<panic@example.org>
		EOF`)
	script(t, h.hello(), `
		> NOOP
		< 250 2.0.0`)
	if h.backend.count("Server.Listen.Panics") != 1 {
		t.Error("panic not counted")
	}
}

func TestErrorLimit(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxErrors: 4}})
	script(t, h.hello(), `
		> FOO
		< 500 5.5.1
		> RCPT TO:<x@y>
		< 503 5.5.1
		> MAIL FROM:<x
		< 501 5.1.7
		> \0
		< 500 5.5.2
		< 421 4.7.0 Too many errors
		EOF`)
}

func TestLines(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	script(t, c, `
		> NOOP `+strings.Repeat("x", smtp.MaxCommandLine-7)+`
		< 250 2.0.0
		> NOOP `+strings.Repeat("x", smtp.MaxCommandLine-6)+`
		< 500 5.5.2 Line too long
		> NOOP `+strings.Repeat("x", 200_000)+`
		< 500 5.5.2 Line too long
		> NOOP
		< 250 2.0.0`)
	if err := c.Send([]byte("NOOP\n")); err != nil {
		t.Fatal(err)
	}
	script(t, c, `
		< 500 5.5.2 Lines must end with CRLF`)
	// A flood without a line end is cut off.
	flood := h.dial()
	go func() { _, _ = flood.Conn().Write(bytes.Repeat([]byte("x"), 4<<20)) }()
	if r, err := flood.Reply(); err == nil && r.Error() != errFlood.Error() {
		t.Error(r)
	}
}

func TestPipelining(t *testing.T) {
	t.Parallel()
	// All input at once: it does not wait for the greeting, and the next transaction follows the data directly.
	one := "MAIL FROM:<a@b.example>\r\nRCPT TO:<alice@example.org>\r\nRCPT TO:<nobody@example.org>\r\nDATA\r\n%s\r\n" +
		".\r\n"
	var b strings.Builder
	b.WriteString("EHLO me\r\n")
	for i := range 50 {
		fmt.Fprintf(&b, one, strings.Repeat(fmt.Sprintf("message %d\r\n..\r\n", i), 1+i*i*3))
	}
	b.WriteString("QUIT\r\n")
	// Fifty unknown recipients count as fifty errors.
	h := open(t, settings{Config: Config{MaxErrors: 1000}})
	c := h.dial()
	go func() { _, _ = io.WriteString(c.Conn(), b.String()) }()
	want := "< 250 localhost"
	for i := range 50 {
		want += fmt.Sprintf("\n< 250 2.1.0\n< 250 2.1.5\n< 550 5.1.1\n< 354\n< 250 2.0.0 OK id%d", i+1)
	}
	script(t, c, want+"\n< 221 2.0.0\nEOF")
	got := h.backend.delivered()
	if len(got) != 50 {
		t.Fatal(len(got))
	}
	for i, d := range got {
		if d.msg != strings.Repeat(fmt.Sprintf("message %d\r\n.\r\n", i), 1+i*i*3)+"\r\n" {
			t.Fatalf("message %d is damaged", i)
		}
	}
}
