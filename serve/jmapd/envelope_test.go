package jmapd

import (
	"testing"

	"doublet/mail/identity"
)

// TestDefaultEnvelope checks the sender of a default envelope against RFC 8621 section 7.5.
func TestDefaultEnvelope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ identity, header, want string }{
		{"a@x", "From: a@x", "a@x"},
		{"a@x", "From: A <A@X>, b@x", "A@X"},
		{"a@x", "From: b@x", "a@x"},
		{"a@x", "From: b@x\r\nSender: a@X", "a@X"},
		{"a@x", "From: a@X\r\nSender: b@x", "a@x"},
		{"a@x", "To: b@x", "a@x"},
		{"*@x", "From: sales@X", "sales@X"},
		{"*@x", "From: sales@y", "*@x"},
		{"*@x", "From: group:;", "*@x"},
	} {
		v := defaultEnvelope([]byte(c.header+"\r\n\r\n"), &identity.Identity{Email: c.identity})
		if got, _ := v.Get("mailFrom").Get("email").Text(); got != c.want {
			t.Errorf("%q for %s: %s, want %s", c.header, c.identity, got, c.want)
		}
	}
}
