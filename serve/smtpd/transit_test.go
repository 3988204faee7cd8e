package smtpd

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"doublet/bus/pki"
	client "doublet/client/smtp"
	"doublet/directory"
	"doublet/mail"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/store/layout"
	"doublet/test/door"
	"doublet/wire/smtp"
)

// domain is a server (here) with another server in its domain (there), and a key of a server outside the domain
// (other).
type domain struct {
	*server
	here, there, other *pki.Own
}

func openDomain(t *testing.T) *domain {
	t.Helper()
	d := &domain{server: serve(t)}
	for dir, own := range map[string]**pki.Own{"here": &d.here, "there": &d.there, "other": &d.other} {
		var err error
		*own, err = pki.MakeOwn(d.env, dir, pki.Options{})
		d.ok(err)
	}
	bg := context.Background()
	for name, own := range map[string]*pki.Own{"one.example": d.here, "two.example": d.there} {
		_, err := d.people.Servers.Enter(bg, note.System, own.ID, directory.ServerFields{Name: name, Key: own.Key})
		d.ok(err)
	}
	d.people.Servers.UseServer(d.here.ID)
	d.ok(d.people.Servers.FoundDomain(bg, note.System, d.here.ID))
	b := NewBackend(d.signIn(), d.people, d.mail, d.env)
	cfg := pki.Server(&tls.Config{Certificates: []tls.Certificate{door.Certificate()}},
		func() *pki.Own { return d.here })
	for _, k := range []Kind{SMTP, Submission, LMTP} {
		srv := New(d.env, Config{Kind: k, Hostname: "one.example",
			Mate: func(ctx context.Context, s *tls.ConnectionState) (string, error) {
				key, ok := pki.PeerKey(s)
				if !ok {
					return "", nil
				}
				x, known, err := d.people.Servers.ByKey(ctx, key)
				if !known {
					return "", err
				}
				return x.Name, err
			}}, b, nil)
		l, err := d.front.Open(listen.Door{Name: "domain " + k.String(), Network: "tcp", Address: "127.0.0.1:0",
			TLS: cfg, Serve: srv.Serve, Busy: srv.Busy()})
		d.ok(err)
		d.addr[k] = l.Addr().String()
	}
	return d
}

// as connects and starts TLS with a client key.
func (d *domain) as(k Kind, own *pki.Own) *client.Client {
	d.t.Helper()
	c := d.dial(k)
	d.ok(c.StartTLS(own.Client(d.here.Key, time.Now)))
	d.ok(c.Hello("two.example"))
	return c
}

// hand sends a message with a transit parameter, and returns the replies: one for each recipient, and one for the
// message.
func (d *domain) hand(c *client.Client, word string, to ...string) string {
	d.t.Helper()
	d.ok(c.Mail(path("eve@far.example"), smtp.MailParams{Transit: word}))
	var out []string
	taken := false
	for _, name := range to {
		err := c.Rcpt(path(name+"@example.com"), smtp.RcptParams{Transit: "p-" + d.person[name].ID.String()})
		answer := "250"
		if err != nil {
			answer, _, _ = strings.Cut(err.Error()[strings.IndexAny(err.Error(), "45"):], " ")
		}
		out, taken = append(out, answer), taken || err == nil
	}
	if !taken {
		d.ok(c.Reset())
		return strings.Join(out, " ")
	}
	r, err := c.CopyData(strings.NewReader(body(500)))
	if r == nil {
		d.ok(err)
	}
	return strings.Join(append(out, code(r)), " ")
}

// waiting counts the recipients in mail.box.
func (d *domain) waiting() (n int) {
	d.t.Helper()
	list, _, err := d.mail.Queue.List(context.Background(), 100, "")
	d.ok(err)
	for _, e := range list {
		n += len(e.Recipients)
	}
	return n
}

// TestTransitStranger checks that XDOUBLET is offered only to a server of the domain on an SMTP listener with TLS.
// Other clients are rejected, because the server trusts the content of the parameter.
func TestTransitStranger(t *testing.T) {
	t.Parallel()
	d := openDomain(t)
	bare := func(k Kind) *client.Client {
		c := d.dial(k)
		d.ok(c.StartTLS(door.ClientTLS))
		d.ok(c.Hello("two.example"))
		return c
	}
	word := mail.Transit{ID: note.UNID{7}}.String()
	for name, c := range map[string]*client.Client{
		"in the clear": d.dial(SMTP), "without a key": bare(SMTP), "with a key of nobody": d.as(SMTP, d.other),
		"at the door lmtp": d.as(LMTP, d.there),
	} {
		if _, ok := c.Ext(smtp.ParamTransit); ok {
			t.Errorf("%s: it is offered", name)
		}
		script(t, c, `
			> MAIL FROM:<eve@far.example> XDOUBLET=`+word+`
			< 555 5.5.4
			> MAIL FROM:<eve@far.example>
			< 250 2.1.0
			> RCPT TO:<alice@example.com> XDOUBLET=p-`+d.person["alice"].ID.String()+`
			< 555 5.5.4`)
	}
	c := d.as(Submission, d.there) // a server of the domain has no special rights at a submission listener
	script(t, c, `
		> AUTH PLAIN AGFsaWNlAHNlY3JldC1hbGljZQ==
		< 235 2.7.0
		> MAIL FROM:<alice@example.com> XDOUBLET=`+word+`
		< 555 5.5.4`)
	if _, ok := c.Ext(smtp.ParamTransit); ok {
		t.Error("it is offered at the door submission")
	}

	// A server of the domain that is removed while it is connected.
	c = d.as(SMTP, d.there)
	if _, ok := c.Ext(smtp.ParamTransit); !ok {
		t.Fatal("it is not offered to a server of the domain")
	}
	if got := d.hand(c, word, "alice"); got != "250 250 2.0.0" {
		t.Fatal(got)
	}
	d.ok(d.people.Servers.Remove(context.Background(), note.System, d.there.ID))
	script(t, c, `
		> MAIL FROM:<eve@far.example> XDOUBLET=`+word+`
		< 555 5.5.4`)
	if _, ok := d.as(SMTP, d.there).Ext(smtp.ParamTransit); ok {
		t.Error("it is offered to a server that was removed")
	}
	if n := len(d.inbox("alice")); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// TestTransit checks that mail from a server of the domain is delivered only to the recipients that it names, within
// their quotas.
func TestTransit(t *testing.T) {
	t.Parallel()
	d := openDomain(t)
	bg := context.Background()
	c := d.as(SMTP, d.there)
	word := func(n byte) string { return mail.Transit{ID: note.UNID{n}}.String() }

	script(t, c, `
		> MAIL FROM:<eve@far.example>
		< 250 2.1.0
		> RCPT TO:<x@other.example>
		< 550 5.7.1 Relaying denied
		> RCPT TO:<alice@example.com> XDOUBLET=p-`+d.person["alice"].ID.String()+`
		< 555 5.5.4
		> RSET
		< 250 2.0.0
		> MAIL FROM:<eve@far.example> XDOUBLET=no-id
		< 501 5.5.4
		> MAIL FROM:<eve@far.example> XDOUBLET=`+word(1)+`
		< 250 2.1.0
		> RCPT TO:<alice@example.com>
		< 555 5.5.4
		> RCPT TO:<x@other.example> XDOUBLET=p-`+note.UNID{9}.String()+`
		< 451 4.4.6
		> RCPT TO:<x@other.example> XDOUBLET=x@other
		< 501 5.5.4
		> RCPT TO:<x@other.example> XDOUBLET=word
		< 501 5.5.4
		> DATA
		< 554 5.5.1
		> RSET
		< 250 2.0.0`)

	// The same message for the same recipients, and for others.
	for range 2 {
		if got := d.hand(c, word(2), "alice"); got != "250 250 2.0.0" {
			t.Fatal(got)
		}
	}
	if n := len(d.inbox("alice")); n != 1 {
		t.Errorf("handed on twice: %d messages", n)
	}
	if got := d.hand(c, mail.Transit{ID: note.UNID{3}, Junk: true}.String(), "alice"); got != "250 250 2.0.0" ||
		len(d.messages("alice", "Junk")) != 1 {
		t.Error("junk: ", got)
	}

	// Failures known at RCPT are reported there. Later ones are reported after the data.
	set := func(name string, fn func(*directory.PersonFields)) {
		_, err := d.people.People.Set(bg, note.System, d.person[name].ID,
			func(f *directory.PersonFields) error { fn(f); return nil })
		d.ok(err)
	}
	set("carol", func(f *directory.PersonFields) { f.Disabled = true })
	if got := d.hand(c, word(6), "bob"); got != "250 250 2.0.0" {
		t.Fatal(got)
	}
	d.ok(d.store.SetInfo(note.System, d.person["bob"].MailDatabase, func(i *layout.Info) { i.Quota = 1 }))
	if got := d.hand(c, word(4), "bob", "carol"); got != "452 550" {
		t.Error(got)
	}

	// A recipient on another server gets the message here if it has moved here before the message comes again, even if
	// mail.box has to keep the message both times.
	d.ok(d.store.SetInfo(note.System, d.person["bob"].MailDatabase, func(i *layout.Info) { i.Quota = 0 }))
	set("bob", func(f *directory.PersonFields) { f.MailServer = d.there.ID })
	out := func(names ...string) {
		for _, name := range names {
			d.ok(d.store.SetInfo(note.System, d.person[name].MailDatabase,
				func(i *layout.Info) { i.State = layout.OutOfService }))
		}
	}
	out("alice")
	if got := d.hand(c, word(5), "alice", "bob"); got != "250 451 250 2.0.0" || d.waiting() != 1 {
		t.Fatal(got, d.waiting())
	}
	set("bob", func(f *directory.PersonFields) { f.MailServer = d.here.ID })
	out("bob")
	if got := d.hand(c, word(5), "alice", "bob"); got != "250 250 250 2.0.0" {
		t.Fatal(got)
	}
	if n := d.waiting(); n != 3 {
		t.Errorf("%d recipients wait: bob's is lost", n)
	}
}
