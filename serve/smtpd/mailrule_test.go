package smtpd

import (
	"context"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/sasl"
)

// rules sets the mail rules of the domain: one rule for each text.
func (s *server) rules(texts ...string) {
	s.t.Helper()
	ctx := context.Background()
	list, _, err := s.people.MailRules.List(ctx)
	s.ok(err)
	for _, r := range list {
		s.ok(s.people.MailRules.Remove(ctx, note.System, r.ID))
	}
	for _, text := range texts {
		_, err := s.people.MailRules.Add(ctx, note.System, directory.MailRuleFields{Name: text[:min(len(text), 100)],
			Text: text})
		s.ok(err)
	}
}

// letter is a transaction up to the end of a message.
const letter = `
	> MAIL FROM:<eve@far.example>
	< 250 2.1.0
	> RCPT TO:<alice@example.com>
	< 250 2.1.5
	> DATA
	< 354
	> From: eve@far.example\r\nSubject: offer\r\n\r\nHi\r\n.
	`

// TestMailRules plays SMTP against mail rules that change between transactions of one connection.
//
// RFC 5321 §4.2.2 (550), RFC 3463 §3.8 (X.7.1).
func TestMailRules(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.dial(SMTP)
	s.rules(`{"when":{"subject":["offer"],"direction":["in"]},"do":{"refuse":"No offers, please"}}`)
	script(t, c, letter+`
		< 550 5.7.1 No offers, please
		> NOOP
		< 250`)
	if got := len(s.inbox("alice")); got != 0 {
		t.Fatalf("%d messages", got)
	}
	s.rules(`{"when":{"subject":["offer"]},"do":{"move":"Offers","add":["bob@example.com"]}}`)
	script(t, c, letter+"\n< 250 2.0.0 OK")
	if a, b := s.messages("alice", "Offers"), s.messages("bob", "Offers"); len(a) != 1 || len(b) != 1 ||
		len(s.inbox("alice"))+len(s.inbox("bob")) != 0 {
		t.Errorf("%q %q", a, b)
	}
	s.rules(`{"do":{"replace":["carol@example.com"]}}`)
	script(t, c, letter+"\n< 250 2.0.0 OK")
	if got := s.inbox("carol"); len(got) != 1 || len(s.inbox("alice")) != 0 {
		t.Errorf("%q", got)
	}
	s.rules()
	script(t, c, letter+"\n< 250 2.0.0 OK")
	if got := len(s.inbox("alice")); got != 1 {
		t.Errorf("%d messages", got)
	}
}

// TestMailRulesSubmission checks the text under a submission, and that a refusal reaches the client.
//
// RFC 6409 §6.2.
func TestMailRulesSubmission(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.rules(`{"when":{"direction":["internal"],"words":["price list"]},"do":{"refuse":"Confidential"}}`,
		`{"unless":{"to":["carol@example.com"]},"do":{"text":"Example Ltd., London"}}`)
	c := s.dial(Submission)
	s.ok(c.Auth(sasl.NewPlainClient("", "alice", "secret-alice")))
	const message = "From: alice@example.com\r\nSubject: a\r\n\r\nHi\r\n"
	for _, x := range []struct {
		to, message, want string
	}{
		{"bob@example.com", message, "250 2.0.0"},
		{"carol@example.com", message, "250 2.0.0"},
		{"bob@example.com", message + "the Price\r\nList\r\n", "550 5.7.1"},
	} {
		if res := s.send(c, "alice@example.com", x.message, x.to); code(res.Final[0]) != x.want {
			t.Errorf("to %s: %s, want %s", x.to, codes(res.Final), x.want)
		}
	}
	bob, carol := s.inbox("bob"), s.inbox("carol")
	if len(bob) != 1 || !strings.HasSuffix(bob[0], "\r\n\r\nHi\r\n\r\nExample Ltd., London\r\n") {
		t.Errorf("bob has %q", bob)
	}
	if len(carol) != 1 || !strings.HasSuffix(carol[0], "\r\n\r\nHi\r\n") {
		t.Errorf("carol has %q", carol)
	}
}

// TestMailRulesLMTP checks that each recipient of the envelope gets the reply of a refusal, and that recipients that a
// rule adds get none.
//
// RFC 2033 §4.2.
func TestMailRulesLMTP(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.dial(LMTP)
	const message = "From: eve@far.example\r\nSubject: a\r\n\r\nHi\r\n"
	s.rules(`{"do":{"refuse":"Closed"}}`)
	res := s.send(c, "eve@far.example", message, "alice@example.com", "bob@example.com")
	if got := codes(res.Final); got != "550 5.7.1, 550 5.7.1" {
		t.Error(got)
	}
	s.rules(`{"do":{"add":["carol@example.com"]}}`)
	res = s.send(c, "eve@far.example", message, "alice@example.com", "bob@example.com")
	if got := codes(res.Final); got != "250 2.0.0, 250 2.0.0" && got != "250 2.1.5, 250 2.1.5" {
		t.Error(got)
	}
	if n := len(s.inbox("carol")); n != 1 {
		t.Errorf("carol has %d messages", n)
	}
}
