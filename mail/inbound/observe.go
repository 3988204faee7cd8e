package inbound

import (
	"context"

	"doublet/mail/verify"
	"doublet/wire/smtp"
)

// Observer is shown messages of people who have not signed in, after all were asked about them: mail/reports has one. It
// changes nothing of what becomes of them.
type Observer interface {
	Seen(ctx context.Context, m *Seen)
}

// Seen is a message and what was found out about it. It is only read, and not kept.
type Seen struct {
	Client  verify.Client
	From    smtp.Path
	To      []smtp.Path
	Message []byte
	// Verdict is nil where nobody looked: the client is not asked about.
	Verdict *verify.Verdict
	// Refused and Junk say what becomes of it.
	Refused, Junk bool
}

// observe shows the message to the observer.
func (x *Session) observe(ctx context.Context, out *Outcome) {
	if x.s.opt.Observer == nil || x.client.User != "" {
		return
	}
	x.s.opt.Observer.Seen(ctx, &Seen{
		Client: verify.Client{IP: x.client.IP, Helo: x.client.Helo, From: x.from}, From: x.from, To: x.to, Message: out.Message,
		Verdict: x.verdict, Refused: out.Reply != nil, Junk: out.Junk,
	})
}
