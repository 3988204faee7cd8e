package imapd

import (
	"encoding/hex"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// genURLAuth authorizes URLs of messages in the person's own mailboxes, for the people given in the URLs.
//
// Implements: RFC 4467 §7 GENURLAUTH
func (s *session) genURLAuth(cmd *imap.Command) {
	a := cmd.Args.(*imap.GenURLAuth)
	made := []byte("* GENURLAUTH")
	for i := range a.URLs {
		u, err := imap.ParseURL(a.URLs[i].URL)
		if err != nil || u.Token != "" || u.Access == "" || u.Mailbox == "" || u.User == "" {
			s.badly(cmd, "URL is no rump of an authorized one")
			return
		}
		if a.URLs[i].Mechanism != mechanism {
			s.no(cmd, "", "Mechanism is not offered")
			return
		}
		token, err := s.prove(u)
		if unreadable(err) {
			s.no(cmd, badURL(a.URLs[i].URL), "URL is not of one of your mailboxes, or has expired")
			return
		}
		if err != nil {
			s.refuse(cmd, err)
			return
		}
		made = imap.AppendString(append(made, ' '), u.Rump+":internal:"+hex.EncodeToString(token), false)
	}
	s.out.B = append(append(s.out.B, made...), "\r\n"...)
	s.done(cmd, "", "GENURLAUTH completed")
}

// prove returns the token of a URL that belongs to the person.
func (s *session) prove(u *imap.URL) ([]byte, error) {
	if !s.ownHost(u.Host) || !s.is(u.User) || reserved(u.Mailbox) || !s.current(u) {
		return nil, errURL
	}
	if _, err := s.openURL(s.file, u); err != nil {
		return nil, err
	}
	folder, number, err := mailbox.URLKeys{File: s.file}.Make(s.c.Context(), u.Mailbox)
	if err != nil {
		return nil, err
	}
	return s.proof(u.Rump, folder, s.account.Who.Person, number), nil
}

// tellURLMechanisms prints the URLAUTH mechanisms of the selected mailbox, if it has any.
//
// Implements: RFC 4467 §8 URLMECH
func (s *session) tellURLMechanisms(v *mailbox.View) {
	if v.File() == s.file {
		s.untagged("URLMECH "+mechanism, "Ways to authorize URLs")
	}
}

// resetKey revokes all URLs that the person has authorized, for a mailbox or for all.
//
// Implements: RFC 4467 §7 RESETKEY
func (s *session) resetKey(cmd *imap.Command) {
	a := cmd.Args.(*imap.ResetKey)
	for _, m := range a.Mechanisms {
		if m != mechanism {
			s.no(cmd, "", "Mechanism is not offered")
			return
		}
	}
	err := mailbox.ErrNoFolder
	if !reserved(a.Mailbox) {
		err = mailbox.URLKeys{File: s.file}.Reset(s.c.Context(), a.Mailbox)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "URLMECH "+mechanism, "RESETKEY completed")
}
