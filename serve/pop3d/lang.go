package pop3d

import (
	"strings"

	"doublet/wire/pop3"
)

// lang lists the languages of the server's texts, or selects one. There is only English, the default of the protocol.
//
// Implements: RFC 6856 §3 LANG
func (s *session) lang(cmd *pop3.Command) {
	switch tag := strings.ToLower(cmd.Text); {
	case tag == "":
		s.ok("Languages follow")
		s.out.B = append(s.out.B, "en English\r\n.\r\n"...)
	case tag == "*", tag == "i-default":
		s.ok("i-default English")
	case tag == "en", strings.HasPrefix(tag, "en-"):
		s.ok("en English")
	default:
		s.err("", "Only English is spoken here")
	}
}
