package pop3d

import (
	"strconv"
	"strings"
	"time"

	"doublet/wire/pop3"
)

// capa lists the capabilities of the server on this connection.
//
// Implements: RFC 2449 §5 CAPA
// Implements: RFC 2449 §6.7 EXPIRE
// Implements: RFC 2449 §6.4 RESP-CODES
// Implements: RFC 3206 §3 AUTH-RESP-CODE
func (s *session) capa(*pop3.Command) {
	s.ok("Capabilities follow")
	const always = "TOP\r\nUIDL\r\nRESP-CODES\r\nAUTH-RESP-CODE\r\nPIPELINING\r\nEXPIRE NEVER\r\nUTF8 USER\r\nLANG\r\n"
	b := append(s.out.B, always...)
	if d := s.srv.cfg.LoginDelay; d > 0 {
		b = strconv.AppendInt(append(b, "LOGIN-DELAY "...), int64((d+time.Second-1)/time.Second), 10)
		b = append(b, "\r\n"...)
	}
	if s.file == nil && s.c.CanStartTLS() {
		b = append(b, "STLS\r\n"...)
	}
	if s.mayLogin() {
		b = append(b, "USER\r\n"...)
		if list := s.srv.accounts.Mechanisms(s.attempt()); len(list) > 0 {
			b = append(append(append(b, "SASL "...), strings.Join(list, " ")...), "\r\n"...)
		}
	}
	s.out.B = append(b, "IMPLEMENTATION Doublet\r\n.\r\n"...)
}

// mayLogin reports whether USER and PASS are allowed: over TLS, or from this machine.
func (s *session) mayLogin() bool { return s.c.Secure() || s.c.Local() }
