package mail

import (
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/outbound/sink"
	"doublet/mail/sign"
	"doublet/note"
	"doublet/wire/dkim"
	"doublet/wire/smtp"
)

// TestSevenBit checks that a server without 8BITMIME gets the message encoded, with a matching signature, and that
// other servers get it unchanged. A message that cannot be encoded is returned.
func TestSevenBit(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{PerDestination: 1}, sink.Options{Extensions: []string{"PIPELINING"}})
	f.opt.Signer = sign.New(f.fix.Env, f.people, nil)
	f.Router.opt.Signer = f.opt.Signer
	_, err := sign.Add(bg, f.people, note.System, "example.com", sign.Ed25519, "day", directory.KeyActive,
		f.clock.Now())
	f.ok(err)
	sender := f.person("sender")
	const head = "From: sender@example.com\r\nTo: u@far.example\r\nSubject: x\r\n" +
		"Date: Mon, 5 Jan 2026 08:00:00 +0000\r\nMIME-Version: 1.0\r\n"
	const text = head +
		"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" +
		"Viele Grüße aus der Stadt, und noch ein paar Worte\r\n"
	post := func(raw string) {
		sub := f.from("sender@example.com", "u@far.example")
		sub.Message, sub.Proven = []byte(raw), true
		f.deposit(sub)
		f.flush()
	}
	post(text)
	f.sink.Behave(sink.Options{})
	f.after(f.Router.opt.IdleTimeout) // a new session
	post(text)
	// A signature made for one server is not used for a server that gets a different encoding.
	f.sink.Behave(sink.Options{Reply: once(".", "451 4.3.0 later")})
	f.after(f.Router.opt.IdleTimeout)
	post(text)
	f.sink.Behave(sink.Options{Extensions: []string{"HELP"}})
	f.after(10 * time.Minute)
	post(head + "Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\nGrüße\r\n--b\r\n\r\nsig\r\n--b--\r\n")
	got := f.sink.Messages()
	if len(got) != 3 {
		t.Fatalf("%d messages", len(got))
	}
	const encoded = "Content-Transfer-Encoding: quoted-printable\r\n\r\nViele Gr=C3=BC=C3=9Fe aus der Stadt"
	for i, part := range []string{encoded, "Content-Transfer-Encoding: 8bit\r\n\r\nViele Grüße aus der Stadt",
		encoded} {
		if !strings.Contains(got[i].Data, part) || strings.Contains(got[i].From, "8BITMIME") != (i == 1) {
			t.Errorf("MAIL FROM:%s\n%s", got[i].From, got[i].Data)
		}
		f.signed(got[i].Data)
	}
	p := parseReport(t, f.has(sender, 1)[0])
	p.field(t, 1, "Status", "5.6.3")
	f.queue(0)
}

// signed verifies the signatures of a sent message.
func (f *far) signed(raw string) {
	f.t.Helper()
	keys, err := f.people.DKIMKeys.Of(bg, note.System, "example.com")
	f.ok(err)
	m := dkim.New([]byte(raw))
	list := m.Signatures(10)
	if len(list) != 1 {
		f.t.Fatalf("%d signatures in\n%s", len(list), raw)
	}
	_, text, err := sign.Record(&keys[0])
	f.ok(err)
	k, err := dkim.ParseKey([]string{text})
	f.ok(err)
	if err := m.Verify(list[0], k, f.clock.Now()); err != nil {
		f.t.Errorf("%v:\n%s", err, raw)
	}
}

// TestPriority checks that the priority of the envelope has precedence over the header, is stored, and is passed to
// servers that support it.
func TestPriority(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{PerDestination: 1}, sink.Options{Extensions: []string{"PIPELINING", "MT-PRIORITY"}})
	for i, p := range []struct {
		given bool
		value int8
	}{{true, -4}, {false, 0}, {true, 0}, {true, 3}} {
		sub := f.from("alice@example.com", "u@far.example")
		sub.Message = []byte("Subject: " + string('a'+rune(i)) +
			"\r\nImportance: high\r\nMessage-ID: <x@y>\r\n\r\nx\r\n")
		if !p.given {
			sub.Message = []byte("Subject: b\r\nMessage-ID: <x@y>\r\n\r\nx\r\n")
		}
		sub.Params = smtp.MailParams{Size: -1, Priority: p.value, HasPriority: p.given}
		f.deposit(sub)
	}
	f.flush()
	var order, asked []string
	for _, m := range f.sink.Messages() {
		_, subject, _ := strings.Cut(m.Data, "Subject: ")
		order = append(order, subject[:1])
		_, priority, _ := strings.Cut(m.From, "MT-PRIORITY=")
		asked = append(asked, priority)
		if _, clause, found := strings.Cut(m.Data, "\r\n\tPRIORITY "); found != (priority != "") || found &&
			!strings.HasPrefix(clause, priority+";") {
			t.Errorf("MAIL FROM:%s\n%s", m.From, m.Data)
		}
	}
	if !slices.Equal(order, []string{"d", "b", "c", "a"}) || !slices.Equal(asked, []string{"3", "", "0", "-4"}) {
		t.Errorf("%v, %v", order, asked)
	}
}
