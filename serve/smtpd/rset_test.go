package smtpd

import "testing"

// RFC 5321 §4.1.1.5.
func TestRSET(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> RSET x
		< 501 5.5.4
		> MAIL FROM:<>
		< 250 2.1.0
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> RSET
		< 250 2.0.0
		> DATA
		< 503 5.5.1
		> MAIL FROM:<>
		< 250 2.1.0`)
}
