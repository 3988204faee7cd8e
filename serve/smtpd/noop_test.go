package smtpd

import "testing"

// RFC 5321 §4.1.1.9.
func TestNOOP(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> NOOP
		< 250 2.0.0
		> noop with words
		< 250 2.0.0`)
}
