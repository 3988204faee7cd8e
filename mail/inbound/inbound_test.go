package inbound

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/client/milter"
	"doublet/client/milter/stub"
	"doublet/client/rspamd"
	"doublet/env"
	"doublet/mail/verify"
	"doublet/stat"
	wire "doublet/wire/milter"
	"doublet/wire/smtp"
)

const records = `
far.example. 60 IN TXT "v=spf1 ip4:192.0.2.7 -all"
_dmarc.far.example. 60 IN TXT "v=DMARC1; p=reject"
open.example. 60 IN TXT "v=spf1 ip4:192.0.2.7 -all"
shut.example. 60 IN TXT "v=spf1 -all"
strict.example. 60 IN TXT "v=spf1 -all"
_dmarc.strict.example. 60 IN TXT "v=DMARC1; p=reject"
soft.example. 60 IN TXT "v=spf1 -all"
_dmarc.soft.example. 60 IN TXT "v=DMARC1; p=quarantine"
`

type world struct {
	t     *testing.T
	env   *env.Env // real time, because connections have deadlines
	stats *stat.Tree
}

func open(t *testing.T) *world {
	e := env.Real(slog.New(slog.DiscardHandler))
	return &world{t: t, env: e, stats: stat.New(e.Clock)}
}

func (w *world) verifier(o verify.Options) *verify.Verifier {
	o.Hostname = "mx.example.com"
	z := zone.Start(w.t, records)
	return verify.New(w.env, dns.New(w.env, dns.Options{Servers: []string{z.Addr()}, Attempts: 1}), o)
}

func (w *world) milter(f *stub.Filter) *milter.Filter {
	return milter.New(w.env, milter.Options{Network: "tcp", Address: f.Start(w.t, "tcp")})
}

func (w *world) service(o Options) *Service {
	o.Hostname, o.Stats = "mx.example.com", w.stats
	return New(w.env, o)
}

var stranger = Client{IP: netip.MustParseAddr("192.0.2.7"), Helo: "client.far.example"}

func address(s string) smtp.Path {
	p, err := smtp.ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}

func letter(from, more string) []byte {
	return []byte(more + "From: <" + from + ">\r\nTo: alice@example.com\r\nSubject: s\r\n\r\nbody\r\n")
}

// ask passes one message through a session. refused is the first rejection before the message itself.
func ask(x *Session, from string, message []byte, to ...string) (out Outcome, refused *smtp.Reply) {
	ctx := context.Background()
	sender := smtp.Path{}
	if from != "" {
		sender = address(from)
	}
	refused = x.Mail(ctx, sender, &smtp.MailParams{Size: -1})
	for _, a := range to {
		if r := x.Rcpt(ctx, address(a)); refused == nil {
			refused = r
		}
	}
	return x.Message(ctx, message, nil), refused
}

func code(r *smtp.Reply) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d %d.%d.%d", r.Code, r.Enhanced[0], r.Enhanced[1], r.Enhanced[2])
}

// TestNobodyAsked checks that a client that needs no checks has a nil session, which accepts everything.
func TestNobodyAsked(t *testing.T) {
	t.Parallel()
	w := open(t)
	filters := []*milter.Filter{w.milter(&stub.Filter{})}
	signed, trusted, here := stranger, stranger, stranger
	signed.User, trusted.Trusted, here.IP = "alice@example.com", true, netip.MustParseAddr("127.0.0.1")
	verifying := w.service(Options{Verify: w.verifier(verify.Options{DMARC: verify.Reject})})
	filtering := w.service(Options{Milters: filters})
	for name, c := range map[string]struct {
		s      *Service
		client Client
		asked  bool
	}{
		"no service":                      {nil, stranger, false},
		"no settings":                     {w.service(Options{}), stranger, false},
		"verification":                    {verifying, stranger, true},
		"verification, signed in":         {verifying, signed, false},
		"verification, this machine":      {verifying, here, false},
		"verification, LMTP":              {verifying, trusted, false},
		"filters":                         {filtering, stranger, true},
		"filters, signed in":              {filtering, signed, false},
		"filters, signed in, submissions": {w.service(Options{Milters: filters, Submissions: true}), signed, true},
		"filters, LMTP":                   {filtering, trusted, false},
	} {
		x := c.s.Begin(c.client)
		if (x != nil) != c.asked {
			t.Errorf("%s: asked %v", name, x != nil)
		}
		if x != nil && (!x.Same(c.client) || x.Same(Client{})) {
			t.Errorf("%s: the session is not the client's", name)
		}
		x.Close()
	}
	var none *Session
	m := letter("eve@strict.example", "")
	out, refused := ask(none, "eve@strict.example", m, "alice@example.com")
	if refused != nil || out.Reply != nil || out.Junk || &out.Message[0] != &m[0] || none.Same(stranger) ||
		none.Copies() {
		t.Errorf("%+v", out)
	}
	none.Reset()
	none.Close()
}

// TestVerified checks the outcome for each result of the verification.
func TestVerified(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.service(Options{Verify: w.verifier(verify.Options{SPF: verify.Mark, DMARC: verify.Reject})})
	for _, c := range []struct {
		from    string
		to      []string
		reply   string
		junk    bool
		checked string // proven, unproven, or neither
		policy  string
	}{
		{"eve@far.example", []string{"alice@example.com"}, "", false, "proven", "reject"},
		{"eve@open.example", []string{"alice@example.com"}, "", false, "proven", ""},
		{"eve@shut.example", []string{"alice@example.com"}, "", false, "unproven", ""},
		{"eve@silent.example", []string{"alice@example.com"}, "", false, "", ""},
		{"eve@soft.example", []string{"alice@example.com"}, "", true, "unproven", "quarantine"},
		{"eve@strict.example", []string{"alice@example.com"}, "550 5.7.1", false, "", ""},
		{"eve@strict.example", []string{"postmaster@example.com", "Abuse@example.com"}, "", true, "unproven", "reject"},
		{"eve@strict.example", []string{"postmaster@example.com", "alice@example.com"}, "550 5.7.1", false, "", ""},
	} {
		x := s.Begin(stranger)
		forged := "Authentication-Results: MX.example.com; dmarc=pass\r\n" +
			"Authentication-Results: other.example; spf=fail\r\n"
		out, refused := ask(x, c.from, letter(c.from, forged), c.to...)
		checked := map[[2]bool]string{{true, false}: "proven",
			{false, true}: "unproven"}[[2]bool{out.Proven, out.Unproven}]
		if refused != nil || code(out.Reply) != c.reply || out.Junk != c.junk || checked != c.checked ||
			out.AuthorPolicy != c.policy {
			t.Errorf("%s to %v: %+v", c.from, c.to, out)
		}
		if out.Reply != nil {
			continue
		}
		m := string(out.Message)
		if !out.Checked || !strings.HasPrefix(string(out.Fields), "Authentication-Results: mx.example.com;") ||
			strings.Contains(m, "MX.example.com") || !strings.Contains(m, "other.example; spf=fail\r\n") {
			t.Errorf("%s: %s%s", c.from, out.Fields, m)
		}
	}
	// With verification off, forged results are still removed, and the message counts as unchecked.
	off := w.service(Options{Verify: w.verifier(verify.Options{})})
	out, _ := ask(off.Begin(stranger), "eve@far.example", letter("eve@far.example",
		"Authentication-Results: mx.example.com; dmarc=pass\r\n"), "alice@example.com")
	if out.Checked || out.Proven || strings.Contains(string(out.Message), "dmarc=pass") || len(out.Fields) != 0 {
		t.Errorf("%+v", out)
	}
	// A header that is too long is rejected before any check.
	long := letter("eve@far.example", strings.Repeat("a:\r\n", maxHeader/4+1))
	if out, _ := ask(s.Begin(stranger), "eve@far.example", long, "alice@example.com"); code(out.Reply) != "550 5.6.0" {
		t.Errorf("%+v", out.Reply)
	}
}

// TestMilters checks that each milter sees the message as modified by those before it, and that all changes are
// applied.
func TestMilters(t *testing.T) {
	t.Parallel()
	w := open(t)
	first := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {
		{Code: wire.AddHeader, Name: "X-First", Value: "yes"}, {Code: wire.AddRcpt, Value: "<carol@example.com>"},
		{Code: wire.DeleteRcpt, Value: "<bob@example.com>"}, {Code: wire.ChangeFrom, Value: "<list@far.example>"},
		{Code: wire.Continue},
	}}}
	second := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {
		{Code: wire.InsertHeader, Name: "X-Spam-Flag", Value: "YES"}, {Code: wire.Quarantine, Value: "vir\tus"},
		{Code: wire.Accept},
	}}}
	s := w.service(Options{Milters: []*milter.Filter{w.milter(first), w.milter(second)}})
	x := s.Begin(stranger)
	defer x.Close()
	if !x.Copies() {
		t.Error("filters may change the message")
	}
	for range 2 {
		out, refused := ask(x, "eve@far.example", letter("eve@far.example", ""), "alice@example.com", "bob@example.com")
		if refused != nil || out.Reply != nil || !out.Junk || out.Hold != "vir us" || out.From == nil ||
			out.From.String() != "list@far.example" ||
			!slices.Equal(out.Add, []smtp.Path{address("carol@example.com")}) ||
			!slices.Equal(out.Del, []smtp.Path{address("bob@example.com")}) ||
			!strings.Contains(string(out.Message), "X-First: yes\r\n") || out.Checked {
			t.Fatalf("%+v %v", out, refused)
		}
	}
	// A message that is cancelled has no effect.
	x.Mail(context.Background(), address("eve@far.example"), &smtp.MailParams{Size: 10, UTF8: true})
	x.Reset()
	x.Mail(context.Background(), address("eve@far.example"), &smtp.MailParams{Size: -1})
	if got := second.Heard(); !strings.Contains(got, "|L X-First~ yes~") ||
		strings.Count(got, "C [192.0.2.7]~4") != 1 || strings.Count(got, "|M <eve@far.example>~") != 4 ||
		!strings.Contains(got, "|M <eve@far.example>~SIZE=10~SMTPUTF8~|A ") {
		t.Errorf("%q", got)
	}
	if n := w.stats.Counter("Mail.Filter.Held", "").Value(); n != 2 {
		t.Errorf("held %d", n)
	}
}

// TestMilterVerdicts checks the outcome of each verdict of a milter at each step.
func TestMilterVerdicts(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, c := range []struct {
		at      wire.Code
		say     wire.Answer
		refused string // before the message
		reply   string
		discard bool
	}{
		{wire.EndBody, wire.Answer{Code: wire.Reject}, "", "550 5.7.1", false},
		{wire.EndBody, wire.Answer{Code: wire.ReplyCode, Value: "554 5.7.9 virus"}, "", "554 5.7.9", false},
		{wire.EndBody, wire.Answer{Code: wire.TempFail}, "", "451 4.7.1", false},
		{wire.EndBody, wire.Answer{Code: wire.Discard}, "", "", true},
		{wire.EndBody, wire.Answer{Code: '?'}, "", "451 4.7.1", false},
		{wire.Header, wire.Answer{Code: wire.Accept}, "", "", false},
		{wire.Rcpt, wire.Answer{Code: wire.Discard}, "", "", true},
		{wire.Rcpt, wire.Answer{Code: wire.Reject}, "550 5.7.1", "", false},
		{wire.Rcpt, wire.Answer{Code: '?'}, "451 4.7.1", "451 4.7.1", false},
		{wire.Mail, wire.Answer{Code: wire.TempFail}, "451 4.7.1", "", false},
		{wire.Connect, wire.Answer{Code: wire.Reject}, "550 5.7.1", "", false},
		{wire.Connect, wire.Answer{Code: wire.Accept}, "", "", false},
	} {
		f := w.milter(&stub.Filter{Answers: map[wire.Code][]wire.Answer{c.at: {c.say}}})
		x := w.service(Options{Milters: []*milter.Filter{f}}).Begin(stranger)
		for range 2 { // the second message is independent of the first
			out, refused := ask(x, "eve@far.example", letter("eve@far.example", ""), "alice@example.com")
			if code(refused) != c.refused || c.refused == "" && (code(out.Reply) != c.reply ||
				out.Discard != c.discard) || c.say.Code == '?' && code(out.Reply) != c.reply {
				t.Errorf("%q at %q: %s, %+v", byte(c.say.Code), byte(c.at), code(refused), out)
			}
		}
		x.Close()
		// With MilterAccept, a failed milter is skipped.
		if c.say.Code == '?' {
			out, refused := ask(w.service(Options{Milters: []*milter.Filter{f}, MilterAccept: true}).Begin(stranger),
				"eve@far.example", letter("eve@far.example", ""), "alice@example.com")
			if refused != nil || out.Reply != nil {
				t.Errorf("lost at %q: %s, %s", byte(c.at), code(refused), code(out.Reply))
			}
		}
	}
	if n := w.stats.Counter("Mail.Filter.Failures", "").Value(); n == 0 {
		t.Error("no failure was counted")
	}
}

// TestRspamd checks the actions and fields of rspamd, and the removal of forged fields.
func TestRspamd(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, c := range []struct {
		say, reply   string
		junk         bool
		hold, header string
		accept       bool
	}{
		{`{"action":"no action","score":0.1}`, "", false, "", "Subject: s\r\n", false},
		{`{"action":"reject","messages":{"smtp_message":"Gtube\nhere"}}`, "554 5.7.1", false, "", "", false},
		{`{"action":"soft reject"}`, "451 4.7.1", false, "", "", false},
		{`{"action":"greylist"}`, "451 4.7.1", false, "", "", false},
		{`{"action":"quarantine","score":7}`, "", false, "rspamd: score 7.00", "", false},
		{`{"action":"add header","milter":{"add_headers":{"X-Score":"9"},"remove_headers":{"X-Other":0}}}`, "", true,
			"", "X-Spam: Yes\r\nX-Score: 9\r\n", false},
		{`{"action":"rewrite subject","subject":"*** s"}`, "", true, "", "Subject: *** s\r\n", false},
		{`nonsense`, "451 4.7.1", false, "", "", false},
		{`nonsense`, "", false, "", "Subject: s\r\n", true},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprint(w, c.say)
		}))
		rs := rspamd.New(w.env, rspamd.Options{URL: srv.URL})
		s := w.service(Options{Rspamd: rs, RspamdAccept: c.accept,
			Verify: w.verifier(verify.Options{GreylistDelay: time.Minute, DMARC: verify.Mark})})
		x := s.Begin(stranger)
		// bypass the greylisting at RCPT, which this test does only for the filter's action
		x.to = append(x.to, address("alice@example.com"))
		out := x.Message(context.Background(), letter("eve@far.example", "X-Spam: No\r\nX-Other: x\r\n"), nil)
		rs.Close()
		srv.Close()
		m := string(out.Message)
		if code(out.Reply) != c.reply || out.Junk != c.junk || out.Hold != c.hold || !strings.Contains(m, c.header) {
			t.Errorf("%s: %+v\n%s", c.say, out, m)
		}
		if c.reply == "" && !c.accept && strings.Contains(m, "X-Spam: No") || c.junk &&
			strings.Contains(c.say, "remove") && strings.Contains(m, "X-Other") {
			t.Errorf("%s: %s", c.say, m)
		}
		if out.Reply != nil && strings.ContainsAny(strings.TrimRight(out.Reply.Error(), "\r\n"), "\r\n") {
			t.Errorf("%q", out.Reply.Error())
		}
	}
}
