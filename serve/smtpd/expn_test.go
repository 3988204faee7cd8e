package smtpd

import "testing"

// RFC 5321 §4.1.1.7.
func TestEXPN(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> EXPN list
		< 502 5.5.1`)
}
