package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

// copy executes COPY and MOVE. A MOVE sends COPYUID before the expunges, so that the client can match the messages.
//
// Implements: RFC 9051 §6.4.7 COPY
// Implements: RFC 9051 §6.4.8 MOVE
// Implements: RFC 4315 §3 COPYUID
func (s *session) copy(cmd *imap.Command) {
	a := cmd.Args.(*imap.Copy)
	set, byUID, ok := s.target(cmd, &a.Target)
	if !ok {
		return
	}
	if len(set) == 0 {
		s.done(cmd, "", "Nothing to copy")
		return
	}
	move := cmd.Name == "MOVE"
	var res mailbox.CopyResult
	to, err := s.at(a.Mailbox)
	if err == nil {
		res, err = s.view.CopyTo(s.c.Context(), set, byUID, to, a.Mailbox, move, s.telling(cmd))
	}
	if err != nil {
		if move && len(res.Source) > 0 { // RFC 6851 section 3.3: moved messages stay moved
			s.out.B = appendCopyUID(s.out.B, "*", &res, "Moved")
		}
		s.refuse(cmd, err)
		return
	}
	if len(res.Source) == 0 {
		s.done(cmd, "", "No such messages")
		return
	}
	if move {
		s.out.B = appendCopyUID(s.out.B, "*", &res, "Moved")
		s.doneHighest(cmd, "MOVE completed")
		return
	}
	if s.catchUp(cmd); s.over {
		return
	}
	s.tellPending()
	s.out.B = appendCopyUID(s.out.B, cmd.Tag, &res, "COPY completed")
}

func appendCopyUID(b []byte, tag string, res *mailbox.CopyResult, text string) []byte {
	b = imap.AppendResultHead(b, tag, imap.OK)
	b = imap.AppendCodeCopyUID(b, res.UIDValidity, wireSet(res.Source), wireSet(res.Dest))
	return imap.AppendResultTail(b, text)
}
