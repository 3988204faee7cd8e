package smtpd

import "testing"

// RFC 5321 §4.1.1.10.
func TestQUIT(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> QUIT now
		< 501 5.5.4
		> QUIT
		< 221 2.0.0
		EOF`)
}
