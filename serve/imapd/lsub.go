package imapd

import (
	"strings"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// lsub prints the subscribed mailboxes, for clients of IMAP4rev1. If a pattern ends in % and matches only a parent of a
// subscribed mailbox, it prints the parent with \Noselect.
//
// Implements: RFC 3501 §6.3.9 LSUB
func (s *session) lsub(cmd *imap.Command) {
	a := cmd.Args.(*imap.List)
	patterns := fullPatterns(a)
	folders, err := s.folders(patterns)
	if err == nil {
		folders, err = s.withOutlived(folders, patterns)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	compiled := compile(patterns)
	for i := range folders {
		f := &folders[i]
		switch {
		case !matches(compiled, f.Name):
		case f.Subscribed:
			s.out.B = s.appendList(s.out.B, "LSUB", f, 0, false)
		case strings.HasSuffix(patterns[0], "%") && subscribedBelow(folders[i+1:], f.Name, imap.ListSubscribed):
			s.appendNoselect(f)
		}
	}
	s.done(cmd, "", "LSUB completed")
}

func (s *session) appendNoselect(f *mailbox.Folder) {
	d := imap.ListData{Attrs: []string{`\Noselect`}, Delimiter: separator, Mailbox: f.Name}
	s.out.B = imap.AppendList(s.out.B, "LSUB", &d, s.in.UTF8)
}
