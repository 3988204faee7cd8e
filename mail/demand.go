package mail

import (
	"strings"

	"doublet/mail/outbound"
	"doublet/wire/mime"
)

// requires returns the demand of a submission's envelope.
func requires(sub *Submission) outbound.Demand {
	if sub.Params.RequireTLS {
		return outbound.Required
	}
	return outbound.Usual
}

// demand combines the demand of the envelope with the message's header. The envelope has precedence.
//
// Implements: RFC 8689 §3 The TLS-Required header field, §4.1 The envelope goes before it
func demand(envelope outbound.Demand, message []byte) outbound.Demand {
	if envelope == outbound.Required {
		return envelope
	}
	if value, ok := mime.Get(message[:mime.HeaderEnd(message)], "TLS-Required"); ok &&
		strings.EqualFold(strings.TrimSpace(value), "No") {
		return outbound.Relaxed
	}
	return outbound.Usual
}
