package smtpd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/client/milter"
	"doublet/client/milter/stub"
	"doublet/client/rspamd"
	client "doublet/client/smtp"
	"doublet/directory"
	"doublet/mail/inbound"
	"doublet/mail/queue"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/test/door"
	wire "doublet/wire/milter"
	"doublet/wire/sasl"
)

// strangers opens a listener at which clients seem to come from 192.0.2.7.
func (s *server) strangers(o inbound.Options, cfg Config) func() *client.Client {
	s.t.Helper()
	far := *s.env
	o.Hostname = "mx.example.com"
	cfg.Hostname, cfg.Inbound = "mx.example.com", inbound.New(s.env, o)
	srv := New(s.env, cfg, NewBackend(s.signIn(), s.people, s.mail, s.env), nil)
	at := door.At(s.t, &far, listen.Door{Name: "far", Serve: srv.Serve, Busy: srv.Busy()}, door.Options{Far: true})
	return func() *client.Client {
		s.t.Helper()
		c, err := client.Dial(s.env, "tcp", at.Addr.String(),
			client.Options{Timeout: 20 * time.Second, LMTP: cfg.Kind == LMTP})
		s.ok(err)
		s.t.Cleanup(func() { _ = c.Close() })
		s.ok(c.Hello("client.far.example"))
		return c
	}
}

const policies = `
far.example. 60 IN TXT "v=spf1 ip4:192.0.2.7 -all"
_dmarc.far.example. 60 IN TXT "v=DMARC1; p=reject"
strict.example. 60 IN TXT "v=spf1 -all"
_dmarc.strict.example. 60 IN TXT "v=DMARC1; p=reject"
soft.example. 60 IN TXT "v=spf1 -all"
_dmarc.soft.example. 60 IN TXT "v=DMARC1; p=quarantine"
7.2.0.192.bl.example. 60 IN A 127.0.0.2
`

func (s *server) verifier(o verify.Options) *verify.Verifier {
	s.t.Helper()
	z := zone.Start(s.t, policies)
	o.Hostname = "mx.example.com"
	return verify.New(s.env, dns.New(s.env, dns.Options{Servers: []string{z.Addr()}}), o)
}

func (s *server) folder(name, folder string) int {
	s.t.Helper()
	f, err := s.files.File(note.System, s.person[name].MailDatabase).Folder(context.Background(), folder)
	s.ok(err)
	return int(f.Total)
}

func from(address, more string) string {
	return more + "From: <" + address + ">\r\nTo: alice@example.com\r\nSubject: s\r\n\r\nbody\r\n"
}

func TestInboundVerify(t *testing.T) {
	t.Parallel()
	s := serve(t)
	dial := s.strangers(inbound.Options{Verify: s.verifier(verify.Options{SPF: verify.Mark, DMARC: verify.Reject})},
		Config{})
	forged := "Authentication-Results: MX.example.com; dmarc=pass\r\n" +
		"Authentication-Results: other.example; spf=fail\r\n"
	if res := s.send(dial(), "eve@far.example", from("eve@far.example", forged),
		"alice@example.com"); !res.Accepted(0) {
		t.Fatal(codes(res.Final))
	}
	got := s.inbox("alice")[0]
	if !strings.Contains(got, "Authentication-Results: mx.example.com;") ||
		!strings.Contains(got, "dmarc=pass (p=reject") ||
		strings.Contains(got, "MX.example.com") || !strings.Contains(got,
		"\r\nAuthentication-Results: other.example; spf=fail\r\nFrom: ") {
		t.Errorf("%s", got)
	}
	if res := s.send(dial(), "eve@strict.example", from("eve@strict.example", ""),
		"alice@example.com"); codes(res.Final) != "550 5.7.1" {
		t.Error(codes(res.Final))
	}
	if res := s.send(dial(), "eve@soft.example", from("eve@soft.example", ""), "alice@example.com"); !res.Accepted(0) ||
		s.folder("alice", "Junk") != 1 {
		t.Error(codes(res.Final), s.folder("alice", "Junk"))
	}
	// postmaster gets mail from rejected senders.
	_, err := s.people.People.Set(context.Background(), note.System, s.person["carol"].ID,
		func(f *directory.PersonFields) error {
			f.Roles = []string{directory.RoleAdmin}
			return nil
		})
	s.ok(err)
	if res := s.send(dial(), "eve@strict.example", from("eve@strict.example", ""),
		"postmaster@example.com"); !res.Accepted(0) || s.folder("carol", "Junk") != 1 {
		t.Error(codes(res.Final), s.folder("carol", "Junk"))
	}
	// Naming postmaster does not open the way to other recipients.
	if res := s.send(dial(), "eve@strict.example", from("eve@strict.example", ""), "postmaster@example.com",
		"alice@example.com"); codes(res.Final) != "550 5.7.1" || s.folder("carol", "Junk") != 1 {
		t.Error(codes(res.Final), s.folder("carol", "Junk"))
	}
	// LMTP from this machine is not checked.
	if res := s.send(s.dial(LMTP), "eve@strict.example", from("eve@strict.example", ""),
		"alice@example.com"); !res.Accepted(0) {
		t.Error(codes(res.Final))
	}
}

func TestInboundBlockedAndGrey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, err := s.people.People.Set(context.Background(), note.System, s.person["carol"].ID,
		func(f *directory.PersonFields) error {
			f.Roles = []string{directory.RoleAdmin}
			return nil
		})
	s.ok(err)
	dial := s.strangers(inbound.Options{Verify: s.verifier(verify.Options{Blocklists: []string{"bl.example"},
		Blocked: verify.Reject})}, Config{})
	script(t, dial(), `
		> MAIL FROM:<eve@far.example>
		< 250
		> RCPT TO:<alice@example.com>
		< 554 5.7.1 Blocked: 192.0.2.7 is listed by bl.example
		> RCPT TO:<Postmaster@example.com>
		< 250
		> RCPT TO:<abuse@example.com>
		< 250`)
	dial = s.strangers(inbound.Options{Verify: s.verifier(verify.Options{GreylistDelay: time.Minute})}, Config{})
	script(t, dial(), `
		> MAIL FROM:<eve@far.example>
		< 250
		> RCPT TO:<alice@example.com>
		< 451 4.7.1 Greylisted
		> RCPT TO:<abuse@example.com>
		< 250`)
	s.clock.ahead.Store(int64(2 * time.Minute))
	script(t, dial(), `
		> MAIL FROM:<eve@far.example>
		< 250
		> RCPT TO:<alice@example.com>
		< 250`)
}

// milterAt returns a client for the milter at an address; milter starts one.
func (s *server) milterAt(address string) *milter.Filter {
	return milter.New(s.env, milter.Options{Network: "tcp", Address: address})
}

func (s *server) milter(f *stub.Filter) *milter.Filter { return s.milterAt(f.Start(s.t, "tcp")) }

func TestInboundMilters(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {
		{Code: wire.AddHeader, Name: "X-First", Value: "yes"}, {Code: wire.AddRcpt, Value: "<carol@example.com>"},
		{Code: wire.DeleteRcpt, Value: "<bob@example.com>"}, {Code: wire.Continue},
	}}}
	second := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.InsertHeader,
		Name: "X-Spam-Flag", Value: "YES"}, {Code: wire.Accept}}}}
	dial := s.strangers(inbound.Options{Milters: []*milter.Filter{s.milter(first), s.milter(second)}}, Config{})
	c := dial()
	for i := range 2 {
		if res := s.send(c, "eve@far.example", from("eve@far.example", ""), "alice@example.com",
			"bob@example.com"); !res.Accepted(0) || !res.Accepted(1) {
			t.Fatal(codes(res.Final))
		}
		if s.folder("alice", "Junk") != i+1 || s.folder("carol", "Junk") != i+1 ||
			s.folder("bob", "Junk")+s.folder("bob", "INBOX") != 0 {
			t.Errorf("%d: alice %d, carol %d", i, s.folder("alice", "Junk"), s.folder("carol", "Junk"))
		}
	}
	// The second filter saw the first one's change. Both saw two messages on one connection.
	if got := second.Heard(); !strings.Contains(got, "L X-First~ yes~") || strings.Count(got, "C [192.0.2.7]~4") != 1 ||
		strings.Count(got, "|M <eve@far.example>~") != 2 {
		t.Errorf("%q", got)
	}
}

func TestInboundMilterVerdicts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ask := func(accept bool, c wire.Code, a wire.Answer) *client.Client {
		f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{c: {a}}}
		return s.strangers(inbound.Options{Milters: []*milter.Filter{s.milter(f)}, MilterAccept: accept}, Config{})()
	}
	for _, x := range []struct {
		at     wire.Code
		say    wire.Answer
		accept bool
		want   string
	}{
		{wire.EndBody, wire.Answer{Code: wire.Reject}, false, "550 5.7.1"},
		{wire.EndBody, wire.Answer{Code: wire.ReplyCode, Value: "554 5.7.9 virus"}, false, "554 5.7.9"},
		{wire.EndBody, wire.Answer{Code: wire.TempFail}, false, "451 4.7.1"},
		{wire.Header, wire.Answer{Code: wire.Reject}, false, "550 5.7.1"},
		{wire.EndBody, wire.Answer{Code: wire.Discard}, false, "250 2.0.0"},
		{wire.Rcpt, wire.Answer{Code: wire.Discard}, false, "250 2.0.0"},
		{wire.EndBody, wire.Answer{Code: '?'}, false, "451 4.7.1"},
	} {
		res := s.send(ask(x.accept, x.at, x.say), "eve@far.example", from("eve@far.example", ""), "alice@example.com")
		if got := codes(res.Final); got != x.want {
			t.Errorf("%q at %q: %s, want %s", byte(x.say.Code), byte(x.at), got, x.want)
		}
	}
	if n := len(s.inbox("alice")); n != 0 {
		t.Errorf("%d messages", n)
	}
	script(t, ask(false, wire.Rcpt, wire.Answer{Code: wire.ReplyCode, Value: "550 5.1.1 not him"}), `
		> MAIL FROM:<eve@far.example>
		< 250
		> RCPT TO:<alice@example.com>
		< 550 5.1.1 not him
		> DATA
		< 554`)
	for _, c := range []wire.Code{wire.Connect, wire.Helo, wire.Mail} {
		script(t, ask(false, c, wire.Answer{Code: wire.Reject}), `
		> MAIL FROM:<eve@far.example>
		< 550 5.7.1
		> RSET
		< 250
		> MAIL FROM:<eve@far.example>
		< 550 5.7.1`)
	}
	// Accepted and delivered.
	res := s.send(ask(false, wire.EndBody, wire.Answer{Code: wire.Accept}), "eve@far.example",
		from("eve@far.example", ""), "alice@example.com")
	if !res.Accepted(0) || len(s.inbox("alice")) != 1 {
		t.Error(codes(res.Final))
	}
	// A filter that cannot be reached.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.ok(err)
	gone := l.Addr().String()
	s.ok(l.Close())
	script(t, s.strangers(inbound.Options{Milters: []*milter.Filter{s.milterAt(gone)}}, Config{})(), `
		> MAIL FROM:<eve@far.example>
		< 451 4.7.1 A filter does not answer`)
	c := s.strangers(inbound.Options{Milters: []*milter.Filter{s.milterAt(gone)}, MilterAccept: true}, Config{})()
	if res := s.send(c, "eve@far.example", from("eve@far.example", ""), "alice@example.com"); !res.Accepted(0) {
		t.Error(codes(res.Final))
	}
}

// TestInboundOneWord checks that filters and readers see exactly one Authentication-Results field of this server, and
// none if the checks are off.
func TestInboundOneWord(t *testing.T) {
	t.Parallel()
	s := serve(t)
	f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.AddHeader, Name: "X-Seen",
		Value: "yes"}, {Code: wire.Continue}}}}
	forged := "Authentication-Results: mx.example.com; dmarc=pass header.from=forged.example\r\n"
	for i, o := range []verify.Options{{SPF: verify.Mark, DMARC: verify.Reject}, {}} {
		dial := s.strangers(inbound.Options{Verify: s.verifier(o), Milters: []*milter.Filter{s.milter(f)}}, Config{})
		if res := s.send(dial(), "eve@far.example", from("eve@far.example", forged),
			"alice@example.com"); !res.Accepted(0) {
			t.Fatal(codes(res.Final))
		}
		got := s.inbox("alice")[i]
		if strings.Count(got, "Authentication-Results: mx.example.com") != 1-i ||
			strings.Contains(got, "forged.example") || !strings.Contains(got, "X-Seen: yes") ||
			strings.Contains(f.Heard(), "forged.example") ||
			strings.Contains(f.Heard(), "dmarc=pass (p=reject") != (i == 0) {
			t.Errorf("%d: %s\n%q", i, got, f.Heard())
		}
	}
}

// TestInboundMilterLost checks that a filter that fails in the middle of a message defers it, whatever the client sends
// next. A client must not be able to disable a filter this way.
func TestInboundMilterLost(t *testing.T) {
	t.Parallel()
	s := serve(t)
	f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.Rcpt: {{Code: '?'}}}}
	filters := []*milter.Filter{s.milter(f)}
	script(t, s.strangers(inbound.Options{Milters: filters}, Config{})(), `
		> MAIL FROM:<eve@far.example>
		< 250
		> RCPT TO:<alice@example.com>
		< 451 4.7.1 A filter does not answer
		> RCPT TO:<bob@example.com>
		< 451 4.7.1 A filter does not answer
		> DATA
		< 554`)
	// The same if the filter accepted one recipient before it failed.
	ill := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.Rcpt: {{Code: wire.Continue}, {Code: '?'}}}}
	c := s.strangers(inbound.Options{Milters: []*milter.Filter{s.milter(ill)}}, Config{})()
	res := s.send(c, "eve@far.example", from("eve@far.example", ""), "alice@example.com", "bob@example.com")
	if got := codes(res.Final); got == "250 2.0.0" || len(s.inbox("alice"))+len(s.inbox("bob")) != 0 {
		t.Errorf("%s, delivered %d", got, len(s.inbox("alice"))+len(s.inbox("bob")))
	}
	// With MilterAccept the message is accepted.
	c = s.strangers(inbound.Options{Milters: filters, MilterAccept: true}, Config{})()
	if res := s.send(c, "eve@far.example", from("eve@far.example", ""), "alice@example.com"); !res.Accepted(0) {
		t.Error(codes(res.Final))
	}
}

// TestInboundHeader checks that filters get each header field, and that a message with an excessive header is rejected.
func TestInboundHeader(t *testing.T) {
	t.Parallel()
	s := serve(t)
	f := &stub.Filter{}
	c := s.strangers(inbound.Options{Milters: []*milter.Filter{s.milter(f)}}, Config{})()
	res := s.send(c, "eve@far.example", strings.Repeat("a:\r\n", 300_000)+from("eve@far.example", ""),
		"alice@example.com")
	if got := codes(res.Final); got != "550 5.6.0" || strings.Contains(f.Heard(), "|L a~") {
		t.Errorf("%s", got)
	}
}

func TestInboundQuarantineAndSubmission(t *testing.T) {
	t.Parallel()
	s := serve(t)
	f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.Quarantine, Value: "virus"},
		{Code: wire.Accept}}}}
	address := f.Start(t, "tcp")
	for _, x := range []struct {
		all  bool
		held int
	}{{false, 0}, {true, 1}} {
		front := listen.New(s.env, listen.Options{}, nil)
		in := inbound.New(s.env, inbound.Options{Milters: []*milter.Filter{s.milterAt(address)}, Submissions: x.all})
		srv := New(s.env, Config{Kind: Submission, Inbound: in}, NewBackend(s.signIn(), s.people, s.mail, s.env), nil)
		l, err := front.Open(listen.Door{Name: "sub", Network: "tcp", Address: "127.0.0.1:0", Serve: srv.Serve,
			Busy: srv.Busy()})
		s.ok(err)
		c, err := client.Dial(s.env, "tcp", l.Addr().String(), client.Options{Timeout: 20 * time.Second})
		s.ok(err)
		s.ok(c.Hello("client.example"))
		s.ok(c.Auth(sasl.NewPlainClient("", "alice", "secret-alice")))
		if res := s.send(c, "alice@example.com", from("alice@example.com", ""), "bob@example.com"); !res.Accepted(0) {
			t.Error(codes(res.Final))
		}
		_ = c.Close()
		s.ok(front.Shutdown(context.Background()))
		list, _, err := s.mail.Queue.List(context.Background(), 0, "")
		s.ok(err)
		if len(list) != x.held || x.held == 1 && (!list[0].Held || list[0].Reason != "virus") {
			t.Errorf("%+v", list)
		}
	}
	if got := f.Heard(); !strings.Contains(got, "{auth_authen}~alice@example.com~") {
		t.Errorf("%q", got)
	}
	if len(s.inbox("bob")) != 1 {
		t.Error("bob has not exactly the message that nobody looked at")
	}
}

func TestInboundRspamd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, x := range []struct {
		say, want, fail string
		junk            int
		contains        string
	}{
		{`{"action":"no action","score":0.1}`, "250 2.0.0", "", 0, "Subject: s\r\n"},
		{`{"action":"reject","messages":{"smtp_message":"Gtube"}}`, "554 5.7.1", "", 0, ""},
		{`{"action":"soft reject"}`, "451 4.7.1", "", 0, ""},
		{`{"action":"greylist"}`, "250 2.0.0", "", 0, ""},
		{`{"action":"add header","milter":{"add_headers":{"X-Score":"9"}}}`, "250 2.0.0", "", 1,
			"X-Spam: Yes\r\nX-Score: 9\r\nFrom:"},
		{`{"action":"rewrite subject","subject":"*** SPAM *** s"}`, "250 2.0.0", "", 1, "Subject: *** SPAM *** s\r\n"},
		{`nonsense`, "451 4.7.1", "tempfail", 0, ""},
		{`nonsense`, "250 2.0.0", "accept", 0, ""},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprint(w, x.say)
		}))
		rs := rspamd.New(s.env, rspamd.Options{URL: srv.URL})
		dial := s.strangers(inbound.Options{Rspamd: rs, RspamdAccept: x.fail == "accept"}, Config{})
		junk := s.folder("alice", "Junk")
		res := s.send(dial(), "eve@far.example", from("eve@far.example", "X-Spam: No\r\n"), "alice@example.com")
		rs.Close()
		srv.Close()
		if got := codes(res.Final); got != x.want || s.folder("alice", "Junk")-junk != x.junk {
			t.Errorf("%s: %s, %d more in Junk", x.say, got, s.folder("alice", "Junk")-junk)
		}
		if x.contains != "" {
			folder := mailbox.Inbox
			if x.junk > 0 {
				folder = "Junk"
			}
			all := s.messages("alice", folder)
			if m := all[len(all)-1]; !strings.Contains(m, x.contains) || strings.Contains(m, "X-Spam: No") {
				t.Errorf("%s:\n%s", x.say, m)
			}
		}
	}
}

// A bounce of a forwarded message reaches its sender. No other mail is relayed by an SRS address.
func TestSRSAtTheDoor(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, err := s.people.People.Set(context.Background(), note.System, s.person["alice"].ID,
		func(f *directory.PersonFields) error {
			f.Forward = []string{"a@else.example"}
			return nil
		})
	s.ok(err)
	c := s.dial(SMTP)
	if res := s.send(c, "eve@far.example", from("eve@far.example", ""), "alice@example.com"); !res.Accepted(0) {
		t.Fatal(codes(res.Final))
	}
	list, _, err := s.mail.Queue.List(context.Background(), 0, "")
	s.ok(err)
	srs := list[0].From.String()
	script(t, c, `
		> MAIL FROM:<spam@bad.example>
		< 250
		> RCPT TO:<`+srs+`>
		< 550 5.1.1
		> RSET
		< 250
		> MAIL FROM:<>
		< 250
		> RCPT TO:<`+strings.Replace(srs, "far", "bad", 1)+`>
		< 550 5.1.1`)
	if res := s.send(s.dial(SMTP), "", from("mailer@else.example", ""), srs); !res.Accepted(0) {
		t.Fatal(codes(res.Final))
	}
	list, _, err = s.mail.Queue.List(context.Background(), 0, "")
	s.ok(err)
	found := false
	for _, e := range list {
		found = found || e.Recipients[0].Address == "eve@far.example" && e.Recipients[0].State == queue.Waiting &&
			e.From.IsNull()
	}
	if !found {
		t.Errorf("%+v", list)
	}
}

// TestNobodyProven checks mail by LMTP from this machine, which another server may have accepted from anyone. It is not
// signed when it is forwarded; mail of authenticated users is.
func TestNobodyProven(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, err := s.people.People.Set(context.Background(), note.System, s.person["alice"].ID,
		func(f *directory.PersonFields) error {
			f.Forward = []string{"a@else.example"}
			return nil
		})
	s.ok(err)
	for i, c := range []*client.Client{s.dial(LMTP), s.dial(SMTP), s.signed(Submission, "bob")} {
		if res := s.send(c, "bob@example.com", from("bob@example.com", ""), "alice@example.com"); !res.Accepted(0) {
			t.Fatal(i, codes(res.Final))
		}
		list, _, err := s.mail.Queue.List(context.Background(), 0, "")
		s.ok(err)
		unsigned := 0
		for _, e := range list {
			if e.Unsigned {
				unsigned++
			}
		}
		if len(list) != i+1 || unsigned != min(i+1, 2) {
			t.Errorf("%d: %d of %d unsigned", i, unsigned, len(list))
		}
	}
}
