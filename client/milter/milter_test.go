package milter

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/client/milter/stub"
	"doublet/env"
	wire "doublet/wire/milter"
	"doublet/wire/smtp"
)

func start(t *testing.T, f *stub.Filter, network string) *Filter {
	t.Helper()
	return New(env.Real(slog.New(slog.DiscardHandler)), Options{Network: network, Address: f.Start(t, network),
		MaxChanges: 20})
}

const message = "From: a@b.example\r\nSubject: one\r\n two\r\n\r\nbody\r\nline\r\n"

func session(t *testing.T, f *Filter) *Session {
	t.Helper()
	s, err := f.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestConversation(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		f := &stub.Filter{}
		s := session(t, start(t, f, network))
		check := func(v Verdict, err error) {
			t.Helper()
			if err != nil || v.Decision != Continue {
				t.Fatal(v, err)
			}
		}
		check(s.Connect(&Client{Host: "client.example", IP: netip.MustParseAddr("192.0.2.7"), Port: 25,
			Macros: []string{"j", "mx.example"}}))
		check(s.Helo("client.example"))
		check(s.Mail(smtp.Path{Local: "a", Domain: "b.example"}, []string{"SIZE=10"}, "i", "4711"))
		check(s.Rcpt(smtp.Path{Local: "c", Domain: "d.example"}, nil))
		v, ch, err := s.Message([]byte(message), "i", "4711")
		if err != nil || v.Decision != Continue || ch.any() {
			t.Fatal(v, ch, err)
		}
		want := "D Cj~mx.example~|C client.example~4\x00\x19192.0.2.7~|H client.example~|D Mi~4711~|M " +
			"<a@b.example>~SIZE=10~|R <c@d.example>~|T |" +
			"L From~ a@b.example~|L Subject~ one\n two~|N |B body\r\nline\r\n|D Ei~4711~|E "
		if got := strings.ReplaceAll(f.Heard(), "\x00", "~"); got != strings.ReplaceAll(want, "\x00", "~") {
			t.Errorf("%s\n%q\n%q", network, got, want)
		}
		// The next message of the session.
		check(s.Mail(smtp.Path{}, nil))
		if err := s.Abort(); err != nil {
			t.Fatal(err)
		}
	}
}

// A filter that skips some steps and does not answer others receives the remaining steps in order.
func TestSilentSteps(t *testing.T) {
	t.Parallel()
	f := &stub.Filter{Options: wire.Options{Version: 6,
		Steps: wire.NoConnect | wire.NoHelo | wire.NoRcpt | wire.NoData | wire.NoReplyHeader | wire.NoReplyBody}}
	s := session(t, start(t, f, "tcp"))
	_, _ = s.Connect(&Client{Macros: []string{"j", "x"}})
	_, _ = s.Helo("x")
	if _, err := s.Mail(smtp.Path{}, nil); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Rcpt(smtp.Path{Local: "a", Domain: "b"}, nil)
	big := message + strings.Repeat("0123456789\r\n", 20_000)
	if v, _, err := s.Message([]byte(big)); err != nil || v.Decision != Continue {
		t.Fatal(v, err)
	}
	got := f.Heard()
	if !strings.HasPrefix(got, "M <>~|L From~a@b.example~|L Subject~one\n two~|N |B body") ||
		strings.Count(got, "|B ") != 4 || !strings.HasSuffix(got, "|E ") {
		t.Errorf("%.200q", got)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		say  wire.Answer
		want Decision
		text string
	}{
		{wire.Answer{Code: wire.Accept}, Accept, ""},
		{wire.Answer{Code: wire.Discard}, Discard, ""},
		{wire.Answer{Code: wire.Reject}, Refuse, "550 5.7.1 Refused by a filter"},
		{wire.Answer{Code: wire.TempFail}, Refuse, "451 4.7.1 A filter asks to try again later"},
		{wire.Answer{Code: wire.ReplyCode, Value: "554 5.7.9 virus\r\n"}, Refuse, "554 5.7.9 virus"},
		{wire.Answer{Code: wire.ReplyCode, Value: "451-4.7.1 one\r\n451 4.7.1 two"}, Refuse, "451 4.7.1 one two"},
		{wire.Answer{Code: wire.ReplyCode, Value: "250 fine"}, Refuse, "550 5.7.1 Refused by a filter"},
		{wire.Answer{Code: wire.ReplyCode, Value: "nonsense"}, Refuse, "550 5.7.1 Refused by a filter"},
	} {
		for _, c := range []wire.Code{wire.Mail, wire.EndBody, wire.Header, wire.Body} {
			f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{c: {x.say}}}
			s := session(t, start(t, f, "tcp"))
			v, err := s.Mail(smtp.Path{}, nil)
			if c != wire.Mail && err == nil {
				v, _, err = s.Message([]byte(message))
			}
			if err != nil || v.Decision != x.want || x.text != "" && v.Reply.Error() != x.text {
				t.Errorf("%q at %q: %+v %v", byte(x.say.Code), byte(c), v, err)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {
		{Code: wire.Progress},
		{Code: wire.AddHeader, Name: "X-End", Value: "z"},
		{Code: wire.InsertHeader, Index: 0, Name: "X-Top", Value: "a\n\nBcc: evil@example.com\r\n\r\nbody"},
		{Code: wire.ChangeHeader, Index: 1, Name: "subject", Value: "[spam] one"},
		{Code: wire.ChangeHeader, Index: 1, Name: "From", Value: ""},
		{Code: wire.ChangeHeader, Index: 1, Name: "X-New", Value: "n"},
		{Code: wire.ReplaceBody, Body: []byte("new\n")}, {Code: wire.ReplaceBody, Body: []byte("body\n")},
		{Code: wire.AddRcpt, Value: "<x@example.com>"}, {Code: wire.DeleteRcpt, Value: "<y@example.com>"},
		{Code: wire.ChangeFrom, Value: "<>"},
		{Code: wire.Quarantine, Value: "virus"}, {Code: wire.Accept},
	}}}
	s := session(t, start(t, f, "tcp"))
	v, ch, err := s.Message([]byte(message))
	if err != nil || v.Decision != Accept {
		t.Fatal(v, err)
	}
	want := "X-Top: a\r\n\tBcc: evil@example.com\r\n\tbody\r\nsubject: [spam] one\r\nX-End: z\r\nX-New: n\r\n\r\n" +
		"new\r\nbody\r\n"
	if got := string(ch.Apply([]byte(message))); got != want {
		t.Errorf("%q\n%q", got, want)
	}
	if len(ch.Add) != 1 || len(ch.Del) != 1 || ch.From == nil || !ch.From.IsNull() || ch.Quarantine != "virus" {
		t.Errorf("%+v", ch)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	// No filter listens.
	f := New(env.Real(slog.New(slog.DiscardHandler)), Options{Network: "unix",
		Address: filepath.Join(t.TempDir(), "none")})
	if _, err := f.Open(context.Background()); !errors.Is(err, ErrFilter) {
		t.Error(err)
	}
	// Filters that request options that were not offered, act without permission, or make endless changes.
	if _, err := start(t, &stub.Filter{Options: wire.Options{Version: 99}},
		"tcp").Open(context.Background()); !errors.Is(err, ErrFilter) {
		t.Error(err)
	}
	many := make([]wire.Answer, 50)
	for i := range many {
		many[i] = wire.Answer{Code: wire.AddHeader, Name: "X", Value: "y"}
	}
	for i, x := range []*stub.Filter{
		{Options: wire.Options{Version: 6},
			Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.AddHeader, Name: "X", Value: "y"}}}},
		{Answers: map[wire.Code][]wire.Answer{wire.EndBody: many}},
		{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.AddHeader, Name: "X: y\r\nBcc", Value: "y"}}}},
		{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.AddRcpt, Value: "nonsense <"}}}},
		{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: '?'}}}},
	} {
		if _, _, err := session(t, start(t, x, "tcp")).Message([]byte(message)); !errors.Is(err, ErrFilter) {
			t.Errorf("%d: %v", i, err)
		}
	}
	// Filters that keep sending: endless progress reports, endless header changes, or packets after the verdict on a
	// message.
	endless := start(t, &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.Mail: {{Code: wire.Progress}}},
		Repeats: true}, "tcp")
	endless.opt.Command = 20 * time.Millisecond
	if _, err := session(t, endless).Mail(smtp.Path{}, nil); !errors.Is(err, ErrFilter) {
		t.Error("progress for ever:", err)
	}
	long := wire.Answer{Code: wire.AddHeader, Name: "X", Value: strings.Repeat("y", 300<<10)}
	huge := start(t, &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {long, long, long, long,
		{Code: wire.Accept}}}}, "tcp")
	if _, _, err := session(t, huge).Message([]byte(message)); !errors.Is(err, ErrFilter) {
		t.Error("headers without end:", err)
	}
	late := session(t,
		start(t, &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: {{Code: wire.Continue},
			{Code: wire.Accept}}}}, "tcp"))
	if _, _, err := late.Message([]byte(message)); err != nil {
		t.Error(err)
	}
	if v, err := late.Mail(smtp.Path{}, nil); !errors.Is(err, ErrFilter) {
		t.Error("an answer to nothing decides about the next message:", v, err)
	}
	// A filter that does not answer, and one whose session is cut off by the server's shutdown.
	hang := start(t, &stub.Filter{Hangs: wire.Mail}, "tcp")
	hang.opt.Command = 50 * time.Millisecond
	if _, err := session(t, hang).Mail(smtp.Path{}, nil); !errors.Is(err, ErrFilter) {
		t.Error(err)
	}
	hang.opt.Command = time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	s, err := hang.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cancel()
	if _, err := s.Mail(smtp.Path{}, nil); !errors.Is(err, ErrFilter) {
		t.Error(err)
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"127.0.0.1:8891": "tcp 127.0.0.1:8891", "inet:8891@localhost": "tcp localhost:8891",
		"unix:/run/m": "unix /run/m", "/run/m": "unix /run/m",
		"local:/run/m": "unix /run/m", "inet:localhost:8891": "tcp localhost:8891",
		"inet6:8891@[::1]": "tcp [::1]:8891", "x": "", "unix:": "", "": "",
	} {
		network, address, err := ParseAddress(in)
		if got := network + " " + address; err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(message), "X", "v\r\nBcc: x", uint32(1))
	f.Add([]byte("\r\n"), "From", "\n\n", uint32(0))
	f.Fuzz(func(t *testing.T, m []byte, name, value string, index uint32) {
		if !fieldName(name) {
			return
		}
		for _, c := range []wire.Code{wire.AddHeader, wire.InsertHeader, wire.ChangeHeader} {
			ch := Changes{Headers: []HeaderChange{{c, index, name, value}}}
			field := string(ch.Headers[0].field())
			if strings.Contains(field, "\r\n\r\n") || strings.Count(field, "\n") != strings.Count(field, "\n ")+
				strings.Count(field, "\n\t")+1 {
				t.Fatalf("%q", field)
			}
			ch.Apply(m)
		}
	})
}
