package smtpd

import (
	"testing"

	client "doublet/client/smtp"
	"doublet/wire/smtp"
)

// RFC 5321 §4.1.1.2, RFC 1870 §6.1, RFC 6531 §3.4.
func TestMAIL(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxMessage: 1000, MaxErrors: 100}})
	for _, tc := range []struct{ line, want string }{
		{"MAIL FROM:<>", "250 2.1.0"},
		{"mail from:<a@b.example>", "250 2.1.0"},
		{"MAIL FROM: <a@b.example>", "250 2.1.0"},
		{"MAIL FROM:<@r.example,@s.example:a@b.example>", "250 2.1.0"},
		{"MAIL FROM:<a@b.example> SIZE=1000 BODY=8BITMIME", "250 2.1.0"},
		{"MAIL FROM:<a@b.example> SIZE=1001", "552 5.3.4"},
		{"MAIL FROM:<a@b.example> SIZE=99999999999999999999", "501 5.5.4"},
		{"MAIL FROM:<a@b.example> BODY=BINARYMIME", "555 5.6.1"},
		{"MAIL FROM:<a@b.example> FOO=bar", "555 5.5.4"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY=-9", "250 2.1.0"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY=0", "250 2.1.0"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY=10", "501 5.5.4"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY=-0", "501 5.5.4"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY=+1", "501 5.5.4"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY", "501 5.5.4"},
		{"MAIL FROM:<a@b.example> MT-PRIORITY=1 MT-PRIORITY=1", "501 5.5.4"},
		{"MAIL FROM:<a@b.example> RET=FULL ENVID=x+2By", "250 2.1.0"},
		{"MAIL FROM:<a@b.example> RET=FULL RET=HDRS", "501 5.5.4"},
		{"MAIL FROM:<jürgen@b.example>", "553 5.6.7"},
		{"MAIL FROM:<jürgen@b.example> SMTPUTF8", "250 2.1.0"},
		{"MAIL FROM:a@b.example", "501 5.1.7"},
		{"MAIL a@b.example", "501 5.5.4"},
		{"MAIL", "501 5.5.4"},
	} {
		script(t, h.hello(), "> "+tc.line+"\n< "+tc.want)
	}
	script(t, h.hello(), `
		> MAIL FROM:<>
		< 250 2.1.0
		> MAIL FROM:<>
		< 503 5.5.1`)
}

// RFC 6409 §4.3: submission requires authentication and one of the user's own addresses.
func TestMAILSubmission(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{Kind: Submission}})
	script(t, h.hello(), `
		> MAIL FROM:<alice@example.org>
		< 530 5.7.0 Authentication required
		> AUTH PLAIN AGFsaWNlAHNlY3JldA==
		< 235 2.7.0
		> MAIL FROM:<bob@example.org>
		< 550 5.7.1 Not your address
		> MAIL FROM:<alice@example.org>
		< 250 2.1.0
		> RCPT TO:<someone@elsewhere.example>
		< 250 2.1.5
		> DATA
		< 354
		> x\r\n.
		< 250 2.0.0`)
	got := h.backend.delivered()
	if len(got) != 1 || got[0].proto != "ESMTPA" || got[0].user != "alice" {
		t.Errorf("%+v", got)
	}
	far := open(t, settings{Config: Config{Kind: Submission}, remote: true})
	script(t, far.hello(), `
		> MAIL FROM:<alice@example.org>
		< 530 5.7.0 Must issue a STARTTLS command first`)
}

// The parameters of MAIL and RCPT reach the backend.
func TestMAILPassesOn(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	in := &client.Outgoing{
		From: path("jürgen@b.example"),
		Params: smtp.MailParams{Size: 77, Body: smtp.Body8BitMIME, UTF8: true, Ret: smtp.RetHeaders, EnvID: "a b+c",
			Auth: "<>"},
		To:         []smtp.Path{path(`"al ice"@example.org`)},
		RcptParams: []smtp.RcptParams{{Notify: smtp.NotifySuccess | smtp.NotifyDelay, ORcpt: "rfc822;x+y@z.example"}},
		Message:    []byte("Subject: ü\r\n\r\n"),
	}
	if res, err := c.Deliver(in); err != nil || !res.Accepted(0) {
		t.Fatal(err, res)
	}
	d := h.backend.delivered()[0]
	if d.env.Params != in.Params || d.env.Recipients[0].Params != in.RcptParams[0] || d.env.From != in.From ||
		d.to[0] != `"al ice"@example.org` || d.proto != "UTF8SMTP" || !d.env.Local {
		t.Errorf("%+v", d)
	}
}

// RFC 6710 §4.1: an unauthenticated client may request a lower priority but not a higher one, and the reply says so. An
// authenticated client gets the priority that it requests.
func TestPriority(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	for _, tc := range []struct {
		line, reply string
		want        int8
		signed      bool
	}{
		{"MT-PRIORITY=5", "250 2.3.6 0 is the new priority assigned to the message. OK id", 0, false},
		{"MT-PRIORITY=-5", "250 2.0.0 OK id", -5, false},
		{"MT-PRIORITY=5", "250 2.0.0 OK id", 5, true},
	} {
		c := h.hello()
		from := "MAIL FROM:<x@far.example> "
		if tc.signed {
			script(t, c, "> AUTH PLAIN AGFsaWNlAHNlY3JldA==\n< 235 2.7.0")
			from = "MAIL FROM:<alice@example.org> "
		}
		script(t, c, "> "+from+tc.line+
			"\n< 250 2.1.0\n> RCPT TO:<bob@example.org>\n< 250 2.1.5\n> DATA\n< 354\n> x\n> .\n< "+tc.reply)
		got := h.backend.delivered()
		if p := got[len(got)-1].env.Params; !p.HasPriority || p.Priority != tc.want {
			t.Errorf("%s: %+v", tc.line, p)
		}
		// The next message of the session has its own priority.
		script(t, c, "> MAIL FROM:<>\n< 250 2.1.0\n> RCPT TO:<bob@example.org>\n< 250 2.1.5\n> DATA\n< 354\n> x\n"+
			"> .\n< 250 2.0.0 OK id")
	}
}
