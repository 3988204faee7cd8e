package smtpd

import "testing"

// RFC 5321 §3.5.3.
func TestVRFY(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> VRFY
		< 501 5.5.4
		> VRFY alice
		< 252 2.5.0
		> VRFY nobody
		< 252 2.5.0`)
}
