package inbound

import (
	"context"
	"slices"

	"doublet/mail/verify"
	"doublet/wire/smtp"
)

// Observer receives each message from an unauthenticated client once its outcome is final: after the message is stored,
// or when it is rejected. mail/reports implements it. It cannot change the outcome, and the client waits for it.
type Observer interface {
	Seen(ctx context.Context, m *verify.Seen)
}

// watched holds a message for the observer, without its outcome.
type watched struct {
	to   Observer
	seen verify.Seen
}

// watch prepares a message for the observer. It returns nil if the message is not observed.
func (x *Session) watch() *watched {
	if x.s.opt.Observer == nil || x.client.User != "" {
		return nil
	}
	return &watched{x.s.opt.Observer, verify.Seen{
		Client: verify.Client{IP: x.client.IP, Helo: x.client.Helo, From: x.from},
		From:   x.from, To: slices.Clone(x.to), Verdict: x.verdict,
	}}
}

// Done passes the message to the observer. The server calls it with the final reply to the message: nil if the message
// is stored, or accepted and discarded.
func (o *Outcome) Done(ctx context.Context, reply *smtp.Reply) {
	if o.watched == nil {
		return
	}
	m := o.watched.seen
	m.Message, m.Reply, m.Discarded = o.Message, reply, o.Discard
	o.watched.to.Seen(ctx, &m)
}
