package imapd

import (
	"strconv"

	"doublet/serve/forward"
	"doublet/wire/imap"
)

// capabilities lists the capabilities that do not depend on the state of the connection.
//
// Implements: RFC 7888 LITERAL+
// Implements: RFC 5530 IMAP response codes
// Implements: RFC 2221 §3 LOGIN-REFERRALS
const capabilities = " IMAP4rev2 IMAP4rev1 LITERAL+ SASL-IR ID ENABLE LOGIN-REFERRALS"

// mailCapabilities lists the capabilities that apply after sign-in.
const mailCapabilities = " IDLE NAMESPACE UIDPLUS MOVE CONDSTORE QRESYNC ESEARCH SEARCHRES CHILDREN LIST-EXTENDED" +
	" LIST-STATUS SPECIAL-USE CREATE-SPECIAL-USE STATUS=SIZE UNSELECT UTF8=ACCEPT ACL RIGHTS=texk LIST-MYRIGHTS QUOTA" +
	" QUOTA=RES-STORAGE QUOTASET METADATA LIST-METADATA MULTIAPPEND REPLACE SORT SORT=DISPLAY ESORT" +
	" THREAD=ORDEREDSUBJECT THREAD=REFERENCES THREAD=REFS CATENATE URLAUTH URLAUTH=BINARY MULTISEARCH CONTEXT=SEARCH" +
	" CONTEXT=SORT WITHIN PARTIAL NOTIFY INPROGRESS UIDONLY UIDBATCHES OBJECTID PREVIEW SAVEDATE BINARY APPENDLIMIT="

func (s *session) appendCapabilities(dst []byte) []byte {
	dst = append(dst, capabilities...)
	if s.file == nil {
		if s.c.CanStartTLS() {
			dst = append(dst, " STARTTLS"...)
		}
		if !s.mayLogin() {
			return append(dst, " LOGINDISABLED"...)
		}
		for _, m := range s.srv.backend.SignIn().Mechanisms(s.attempt()) {
			dst = append(append(dst, " AUTH="...), m...)
		}
		return dst
	}
	if !s.c.Compressed() && !forward.Deflated(s.c) {
		dst = append(dst, " COMPRESS=DEFLATE"...)
	}
	dst = append(dst, mailCapabilities...)
	return strconv.AppendInt(dst, int64(s.srv.backend.Mail().MessageSize()), 10)
}

// mayLogin reports whether LOGIN and PLAIN are allowed: over TLS, or from this machine.
func (s *session) mayLogin() bool { return s.c.Secure() || s.c.Local() }

// capability prints the capabilities of the server on this connection.
//
// Implements: RFC 9051 §6.1.1 CAPABILITY
func (s *session) capability(cmd *imap.Command) {
	s.out.B = append(s.out.B, "* CAPABILITY"...)
	s.out.B = append(s.appendCapabilities(s.out.B), "\r\n"...)
	s.done(cmd, "", "CAPABILITY completed")
}

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }
