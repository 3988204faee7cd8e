package lite

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"doublet/mail"
	"doublet/note"
	"doublet/store/layout"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

const goesOn = "From: =?UTF-8?Q?M=C3=A4llory?= <mallory@far.example>\nTo: alice@example.com\n" +
	"X-Odd:   kept\t as it is \nSubject: Goes on\nMessage-ID: <on@far.example>\n" +
	"Date: Sat, 21 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n" +
	"Content-Transfer-Encoding: 8bit\n\nWörds, and  blanks \n\n-- \nM"

// TestRedirect checks that a message is resent once and unchanged, after the Resent- fields.
func TestRedirect(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.delivered("alice", goesOn)
	b := w.signed("alice")
	b.follow("Goes on")
	b.lacks("Sent on by")
	b.follow("Redirect")
	b.want(200, "The message goes on as it is", "Goes on")
	at := b.at
	b.send("redirect", nil, "to", "", "do", "send")
	b.want(422, "at least one recipient")
	b.send("redirect", nil, "to", "bob", "do", "send")
	b.want(422, "“bob” is not an address", `value="bob"`)
	b.send("redirect", nil, "to", "", "find", "carol", "do", "find")
	b.want(200, "Carol Example")
	b.send("redirect", nil, "do", "add:Carol Example <carol@example.com>")
	b.want(200, `value="Carol Example &lt;carol@example.com&gt;"`)
	b.send("redirect", nil, "to", "Böb <bob@example.com>; nobody@example.com", "do", "send")
	b.want(200, "not to nobody@example.com")
	b.get(at)
	b.send("redirect", nil, "to", "nobody@example.com", "do", "send")
	b.want(422, "refused", `value="nobody@example.com"`)
	if raw, _ := w.last("alice", "Drafts"); raw != nil {
		t.Error("a draft is left over")
	}
	raw, _ := w.last("bob", "INBOX")
	own := strings.ReplaceAll(goesOn, "\n", "\r\n")
	if !bytes.HasSuffix(raw, []byte(own)) {
		t.Errorf("not as it was:\n%s", raw)
	}
	for name, want := range map[string]string{"Resent-From": "Alice Example <alice@example.com>",
		"Resent-To": "=?utf-8?b?QsO2Yg==?= <bob@example.com>, nobody@example.com"} {
		if got, _ := mime.Get(raw, name); !strings.EqualFold(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	date, _ := mime.Get(raw, "Resent-Date")
	if _, ok := mime.ParseDate(date); !ok {
		t.Errorf("Resent-Date: %q", date)
	}
	sent, words := w.last("alice", "Sent")
	if !bytes.HasSuffix(sent, []byte(own)) || strings.Contains(strings.Join(words, " "), "$draft") {
		t.Errorf("the copy: %v\n%s", words, sent)
	}
	if _, words := w.last("alice", "INBOX"); !strings.Contains(strings.Join(words, " "), "$forwarded") {
		t.Errorf("the message: %v", words)
	}

	// Bob sees who resent the message and resends it. The first Resent- fields stay below his.
	bob := w.signed("bob")
	bob.want(200, "Mällory", "sent on by Alice Example")
	bob.follow("Goes on")
	bob.want(200, "Sent on by", "Alice Example", "Mällory")
	bob.follow("Redirect")
	action, form := bob.form("redirect")
	form.Set("to", "carol@example.com")
	form.Set("do", "send")
	for range 2 { // the response was lost, so the form is sent again
		bob.post(action, form, nil)
		bob.want(200, "The message is sent")
	}
	raw, _ = w.last("carol", "INBOX")
	if at := bytes.Index(raw, []byte("Resent-From: Bob Example")); at < 0 ||
		at > bytes.Index(raw, []byte("Resent-From: Alice Example")) || !bytes.HasSuffix(raw, []byte(own)) {
		t.Errorf("%s", raw)
	}
	carol := w.signed("carol")
	carol.want(200, "Mällory", "sent on by Bob Example")
	carol.lacks("sent on by Alice Example")
	if n := strings.Count(carol.page, `name="m"`); n != 1 {
		t.Errorf("it came %d times", n)
	}
}

// delivered delivers a message from elsewhere through package mail, and returns its id.
func (w *world) delivered(name, raw string) string {
	w.t.Helper()
	t, err := w.dir.Names.Resolve(bg, name+"@example.com")
	w.ok(err)
	to, err := smtp.ParsePath(name + "@example.com")
	w.ok(err)
	sub := mail.Submission{
		Message:    []byte(strings.ReplaceAll(raw, "\n", "\r\n")),
		Received:   &mail.Received{Helo: "far.example", Protocol: "ESMTP"},
		Recipients: []mail.Recipient{{To: to, Target: t}},
	}
	_, err = w.mail.Deposits.Deposit(bg, &sub, nil)
	w.ok(err)
	return note.DeriveUNID(sub.ID[:], t.ID[:]).String()
}

// TestRedirectStored checks that a message in another person's name, which the user stored, cannot be resent.
func TestRedirectStored(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	m := w.put("alice", "INBOX", strings.Replace(goesOn, "From: ", "From: carol@example.com\nX-Was: ", 1))
	b := w.signed("alice")
	b.get(pathRedirect + "?m=" + m)
	b.send("redirect", nil, "to", "bob@example.com", "do", "send")
	b.want(422, "unchanged message that this server has delivered to you")
	if raw, _ := w.last("bob", "INBOX"); raw != nil {
		t.Error("it was sent on")
	}
	if raw, _ := w.last("alice", "Drafts"); raw != nil {
		t.Error("a draft is left over")
	}
}

// TestRedirectSignedOut checks that the form has its recipients again after the sign-in.
func TestRedirectSignedOut(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	m := w.delivered("alice", goesOn)
	b := w.signed("alice")
	b.get(pathRedirect + "?m=" + m)
	clear(b.cookies)
	b.send("redirect", nil, "to", "bob@example.com", "do", "send")
	b.want(401)
	if raw, _ := w.last("bob", "INBOX"); raw != nil {
		t.Fatal("somebody who is not signed in sent it on")
	}
	b.submit("user", "alice", "password", "secret-alice")
	b.want(200, `value="bob@example.com"`)
	b.send("redirect", nil, "do", "send")
	b.want(200, "The message is sent")
	if raw, _ := w.last("bob", "INBOX"); raw == nil {
		t.Error("it did not arrive")
	}
}

// TestRedirectOthers checks that a message of a shared mail file is resent from one's own, and only if it may be read.
func TestRedirectOthers(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	m := w.delivered("alice", goesOn)
	bob := w.signed("bob")
	bob.get(pathRedirect + "?m=" + m)
	bob.want(404)
	w.ok(w.store.SetInfo(note.System, w.people["alice"].MailDatabase, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: w.people["bob"].ID, Level: note.Reader})
	}))
	box := w.people["alice"].MailDatabase.String()
	bob.get(pathRedirect + "?" + url.Values{"b": {box}, "m": {m}}.Encode())
	bob.want(200, "Goes on")
	bob.send("redirect", nil, "to", "carol@example.com", "do", "send")
	bob.want(200, "The message is sent")
	raw, _ := w.last("carol", "INBOX")
	if got, _ := mime.Get(raw, "Resent-From"); got != "Bob Example <bob@example.com>" {
		t.Errorf("Resent-From: %q", got)
	}
	if raw, _ := w.last("bob", "Sent"); raw == nil {
		t.Error("Bob has no copy")
	}
}
