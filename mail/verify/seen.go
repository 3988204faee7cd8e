package verify

import "doublet/wire/smtp"

// Seen is a message from an unauthenticated client with the results of its checks. An observer of messages (package
// inbound) must not modify or keep it.
type Seen struct {
	Client  Client
	From    smtp.Path
	To      []smtp.Path
	Message []byte
	// Verdict is nil if the message was not verified.
	Verdict *Verdict
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
