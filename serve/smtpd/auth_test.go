package smtpd

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	client "doublet/client/smtp"
	"doublet/test/door"
	"doublet/wire/sasl"
	"doublet/wire/scram"
	"doublet/wire/smtp"
)

// greeted replays a greeting on a connection whose server has already sent it.
type greeted struct {
	*tls.Conn
	first []byte
}

func (g *greeted) Read(p []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(p, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(p)
}

// tlsOver returns a client that starts TLS on c's connection, after the 220 reply.
func tlsOver(t *testing.T, h *house, c *client.Client) *client.Client {
	t.Helper()
	g := &greeted{tls.Client(c.Conn(), door.ClientTLS), []byte("220 x\r\n")}
	c2, err := client.New(h.env, g, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c2
}

// RFC 4954 §4.
func TestAUTH(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxAuthFailures: 100, MaxErrors: 100}})
	c := h.hello()
	script(t, c, `
		> AUTH
		< 504 5.5.4
		> AUTH CRAM-MD5
		< 504 5.5.4
		> AUTH PLAIN !
		< 501 5.5.2
		> AUTH PLAIN AGFsaWNlAGJhZA==
		< 535 5.7.8
		> AUTH PLAIN =
		< 501 5.5.2
		> AUTH PLAIN
		< 334
		> *
		< 501 5.7.0
		> AUTH PLAIN Ym9iAGFsaWNlAHNlY3JldA==
		< 535 5.7.8
		> AUTH PLAIN AGJyb2tlbgB4
		< 454 4.7.0
		> MAIL FROM:<>
		< 250
		> AUTH PLAIN AGFsaWNlAHNlY3JldA==
		< 503 5.5.1
		> RSET
		< 250`)
	for _, m := range []sasl.Client{sasl.NewPlainClient("", "alice", "secret"),
		sasl.NewLoginClient("alice", "secret")} {
		c := h.hello()
		if err := c.Auth(m); err != nil {
			t.Fatal(m.Mechanism(), err)
		}
		script(t, c, `
			> AUTH PLAIN AGFsaWNlAHNlY3JldA==
			< 503 5.5.1
			> MAIL FROM:<bob@example.org>
			< 550 5.7.1
			> MAIL FROM:<alice@example.org>
			< 250 2.1.0
			> RCPT TO:<x@anywhere.example>
			< 250 2.1.5`)
	}
	var r *smtp.Reply
	if err := c.Auth(sasl.NewLoginClient("alice", "wrong")); !errors.As(err, &r) || r.Code != 535 {
		t.Error(err)
	}
}

func TestAUTHLimit(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxAuthFailures: 2}})
	script(t, h.hello(), `
		> AUTH PLAIN AGFsaWNlAGJhZA==
		< 535 5.7.8
		> AUTH LOGIN YWxpY2U=
		< 334
		> YmFk
		< 535 5.7.8
		< 421 4.7.0 Too many failed
		EOF`)
	if h.backend.count("SMTP.AuthFailures") != 2 {
		t.Error("failures not counted")
	}
}

// The server sends its last SCRAM message as a challenge, to which the client replies with an empty response.
func TestAUTHScram(t *testing.T) {
	t.Parallel()
	for _, initial := range []bool{true, false} {
		h := open(t, settings{})
		c := h.hello()
		x := scram.NewClient("alice", "secret", "client-nonce")
		say := func(line string) string {
			r, err := c.Raw(line)
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != 334 {
				return r.Error()
			}
			return r.Lines[0]
		}
		step := func(in string) string {
			b, err := base64.StdEncoding.DecodeString(in)
			if err != nil {
				t.Fatal(in, err)
			}
			out, _, err := x.Next(b)
			if err != nil {
				t.Fatal(err)
			}
			return base64.StdEncoding.EncodeToString(out)
		}
		in := ""
		if initial {
			in = say("AUTH SCRAM-SHA-256 " + step(""))
		} else {
			in = say(step(say("AUTH SCRAM-SHA-256")))
		}
		in = say(step(in))
		if got := say(step(in)); !strings.HasPrefix(got, "235 2.7.0") {
			t.Error(got)
		}
		script(t, c, `
			> MAIL FROM:<alice@example.org>
			< 250 2.1.0`)
	}
	h := open(t, settings{})
	if err := h.hello().Auth(scramClient{scram.NewClient("alice", "wrong", "nonce")}); code(
		smtp.AsReply(err)) != "535 5.7.8" {
		t.Error(err)
	}
	script(t, h.hello(), `
		> AUTH SCRAM-SHA-256-PLUS
		< 504 5.5.4
		> AUTH SCRAM-SHA-256 cD10bHMtdW5pcXVlLCxuPWFsaWNlLHI9YWJj
		< 501 5.5.2
		> AUTH XOAUTH2
		< 504 5.5.4
		> AUTH SCRAM-SHA-256 =
		< 501 5.5.2
		> MAIL FROM:<bob@example.org>
		< 250 2.1.0`)
}
