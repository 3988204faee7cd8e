package inbound

import (
	"context"

	"doublet/mail/verify"
	"doublet/wire/smtp"
)

// Observer receives messages from unauthenticated clients after all checks. mail/reports implements it. It cannot
// change the outcome.
type Observer interface {
	Seen(ctx context.Context, m *Seen)
}

// Seen is a message with the results of its checks. The observer must not modify or keep it.
type Seen struct {
	Client  verify.Client
	From    smtp.Path
	To      []smtp.Path
	Message []byte
	// Verdict is nil if the message was not verified.
	Verdict *verify.Verdict
	// Refused and Junk are the outcome.
	Refused, Junk bool
}

// observe passes the message to the observer.
func (x *Session) observe(ctx context.Context, out *Outcome) {
	if x.s.opt.Observer == nil || x.client.User != "" {
		return
	}
	x.s.opt.Observer.Seen(ctx, &Seen{
		Client: verify.Client{IP: x.client.IP, Helo: x.client.Helo, From: x.from}, From: x.from, To: x.to, Message: out.Message,
		Verdict: x.verdict, Refused: out.Reply != nil, Junk: out.Junk,
	})
}
