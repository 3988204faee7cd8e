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
	// Reply is nil if the message was accepted. After a temporary error (4xx) the client tries again, so the same
	// message comes again.
	Reply *smtp.Reply
	// Discarded means that a filter had the accepted message thrown away.
	Discarded bool
}

// Stored reports whether the message was accepted and not thrown away.
func (m *Seen) Stored() bool { return m.Reply == nil && !m.Discarded }

// Deferred reports whether the client will try again.
func (m *Seen) Deferred() bool { return m.Reply != nil && m.Reply.Code < 500 }

// watched is what the observer gets of a message apart from its outcome.
type watched struct {
	to   Observer
	seen Seen
}

// watch prepares a message for the observer. It returns nil if the message is not observed.
func (x *Session) watch() *watched {
	if x.s.opt.Observer == nil || x.client.User != "" {
		return nil
	}
	return &watched{x.s.opt.Observer, Seen{
		Client: verify.Client{IP: x.client.IP, Helo: x.client.Helo, From: x.from},
		From:   x.from, To: slices.Clone(x.to), Verdict: x.verdict,
	}}
}

// Done passes the message to the observer. The server calls it with the final reply to the message: nil if the message is
// stored, or accepted and discarded.
func (o *Outcome) Done(ctx context.Context, reply *smtp.Reply) {
	if o.watched == nil {
		return
	}
	m := o.watched.seen
	m.Message, m.Reply, m.Discarded = o.Message, reply, o.Discard
	o.watched.to.Seen(ctx, &m)
}
