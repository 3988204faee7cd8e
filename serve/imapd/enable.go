package imapd

import "doublet/wire/imap"

// enable turns on extensions that change untagged responses. Unknown names are ignored.
//
// Implements: RFC 9051 §6.3.1 ENABLE
// Implements: RFC 6855 §3 ENABLE UTF8=ACCEPT
// Implements: RFC 7162 §3.2.3 ENABLE QRESYNC
// Implements: RFC 9586 §3 ENABLE UIDONLY
func (s *session) enable(cmd *imap.Command) {
	s.out.B = append(s.out.B, "* ENABLED"...)
	condstore := false
	for _, name := range cmd.Args.(*imap.Enable).Capabilities {
		switch name {
		case "IMAP4REV2":
			s.rev2, s.in.UTF8 = true, true
			s.out.B = append(s.out.B, " IMAP4rev2"...)
		case "UTF8=ACCEPT":
			s.utf8, s.in.UTF8 = true, true
			s.out.B = append(s.out.B, " UTF8=ACCEPT"...)
		case "QRESYNC":
			s.qresync, condstore = true, true
			s.out.B = append(s.out.B, " QRESYNC"...)
		case "UIDONLY":
			s.uidOnly = true
			s.out.B = append(s.out.B, " UIDONLY"...)
		case "CONDSTORE":
			condstore = true
			s.out.B = append(s.out.B, " CONDSTORE"...)
		}
	}
	s.out.B = append(s.out.B, "\r\n"...)
	if condstore {
		s.enableCondstore()
	}
	s.done(cmd, "", "ENABLE completed")
}

// enableCondstore adds the MODSEQ to every FETCH response with flags from now on.
//
// Implements: RFC 7162 §3.1 CONDSTORE enabling commands
func (s *session) enableCondstore() {
	if s.condstore {
		return
	}
	s.condstore = true
	if s.view != nil {
		upTo, _ := s.reached()
		s.number("HIGHESTMODSEQ", upTo, "Highest")
	}
}
