package smtpd

import "doublet/wire/smtp"

// cmdRcpt adds a recipient.
//
// Implements: RFC 5321 §4.1.1.3 RCPT
// Implements: RFC 5321 §4.5.3.1.10 Too many recipients
// Implements: RFC 3461 DSN parameters are passed on
func (s *session) cmdRcpt(arg []byte) {
	if !s.mail || s.chunks {
		if !s.mail {
			s.refuse(errMailFirst)
		} else {
			s.refuse(errSequence)
		}
		return
	}
	to, params, bad := smtp.ParseRcpt(arg, s.env.Params.UTF8)
	if bad != nil {
		s.refuse(bad)
		return
	}
	if (params.Transit != "") != (s.env.Params.Transit != "") {
		s.refuse(smtp.ErrUnknownParam)
		return
	}
	if len(s.env.Recipients) >= s.srv.cfg.MaxRecipients {
		s.refuse(errRcptCount)
		return
	}
	// The new recipient is filled in place, to avoid a copy. The backend sees only the recipients before it.
	n := len(s.env.Recipients)
	all := append(s.env.Recipients, Recipient{To: to, Params: params})
	s.env.Recipients = all[:n]
	if err := s.srv.backend.Recipient(s.c.Context(), &s.env, &all[n]); err != nil {
		all[n] = Recipient{}
		s.refuseRcpt(to, s.answer("Recipient", err))
		return
	}
	if bad := s.gate.Rcpt(s.c.Context(), to); bad != nil {
		all[n] = Recipient{}
		s.refuseRcpt(to, bad)
		return
	}
	s.env.Recipients = all
	s.say(replyRcpt)
}

// maxRefusedLines is the maximum number of log lines about rejected recipients per session.
const maxRefusedLines = 20

// refuseRcpt rejects a recipient. It counts as an error only for unknown clients: authenticated users and the servers
// of this domain may have outdated address lists.
func (s *session) refuseRcpt(to smtp.Path, r *smtp.Reply) {
	s.srv.inc(s.srv.names.refusedRecipients, 1)
	if s.refusedRcpts++; s.refusedRcpts <= maxRefusedLines && !s.srv.cfg.Quiet {
		s.srv.env.Log.Info("smtpd: recipient refused", "from", s.env.From.String(), "to", to.String(), "client",
			s.c.RemoteIP().String(),
			"reply", r.Error())
	}
	if s.info.Signed || s.info.Mate != "" || s.srv.cfg.Kind == LMTP {
		s.print(r)
		s.over = s.over || r.Code == 421
		return
	}
	s.refuse(r)
}
