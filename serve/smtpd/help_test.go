package smtpd

import "testing"

// RFC 5321 §4.1.1.8.
func TestHELP(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> HELP
		< 214 2.0.0
		> HELP MAIL
		< 214 2.0.0`)
}
