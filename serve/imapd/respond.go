package imapd

import (
	"errors"
	"strconv"

	"doublet/mailbox"
	"doublet/serve/condition"
	"doublet/store"
	"doublet/wire/imap"
)

// untagged prints an untagged OK with a code.
func (s *session) untagged(code, text string) {
	s.out.B = imap.AppendResult(s.out.B, "*", imap.OK, code, text)
}

// number prints an untagged OK with a response code that has a name and a number.
func (s *session) number(name string, n uint64, text string) {
	b := imap.AppendResultHead(s.out.B, "*", imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeNumber(b, name, n), text)
}

// bye sends BYE and ends the session.
func (s *session) bye(code, text string) {
	s.out.Take()
	s.out.B = imap.AppendResult(s.out.B, "*", imap.BYE, code, text)
	s.over = true
}

// done sends pending changes and then the tagged OK.
func (s *session) done(cmd *imap.Command, code, text string) { s.answer(cmd, imap.OK, code, text) }

// no sends pending changes and then a tagged NO.
func (s *session) no(cmd *imap.Command, code, text string) { s.answer(cmd, imap.NO, code, text) }

func (s *session) answer(cmd *imap.Command, status, code, text string) {
	if s.catchUp(cmd); s.over {
		return
	}
	s.tellPending()
	s.out.B = imap.AppendResult(s.out.B, cmd.Tag, status, code, text)
}

// catchUp sends changes by others in the selected mailbox, if the client wants them and this command allows them.
func (s *session) catchUp(cmd *imap.Command) {
	if !s.muted(cmd) {
		s.poll(expungeAllowed(cmd))
	}
}

// expungeAllowed reports whether EXPUNGE may be sent in the response to a command. Message numbers that the client has
// used, or sees in the response, must not change meanwhile.
//
// Implements: RFC 9051 §7.5.1 EXPUNGE is not sent in answer to FETCH, STORE and SEARCH
func expungeAllowed(cmd *imap.Command) bool {
	switch cmd.Name {
	case "FETCH", "STORE", "SEARCH", "SORT", "THREAD":
		return cmd.UID
	}
	return true
}

// badly answers BAD to a command that is not valid here.
func (s *session) badly(cmd *imap.Command, text string) {
	s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.BAD, "CLIENTBUG", text)
	s.fault()
}

// syntax answers a command that could not be parsed.
func (s *session) syntax(e *imap.SyntaxError) {
	s.out.B = imap.AppendError(s.out.B, e)
	switch {
	case e.Fatal:
		s.srv.stats.bad.Inc()
		s.bye("", "Out of step")
	case !e.No:
		s.fault()
	}
}

// lineFailed answers a command whose later line could not be read.
func (s *session) lineFailed(cmd *imap.Command, err error) {
	var e *imap.SyntaxError
	if errors.As(err, &e) {
		e.Tag = cmd.Tag
		s.syntax(e)
		return
	}
	s.lost(err)
}

// fault counts a bad command; too many in a row end the session.
func (s *session) fault() {
	s.srv.stats.bad.Inc()
	s.bad++
	if int(s.bad) >= s.srv.cfg.MaxBad && !s.over {
		s.bye("", "Too many bad commands")
	}
}

// refuse answers a command that the mail file or the store rejected.
func (s *session) refuse(cmd *imap.Command, err error) {
	switch {
	case s.failed != nil: // nobody can receive the response
		return
	case errors.Is(err, mailbox.ErrFolderGone):
		s.folderGone()
		return
	case errors.Is(err, store.ErrNotHome):
		s.elsewhere(cmd)
		return
	case errors.Is(err, mailbox.ErrParted):
		s.cannotMove(err)
		return
	case errors.Is(err, errUIDRequired):
		s.uidRequired(cmd)
		return
	}
	code, text := s.refusal(cmd, err)
	s.no(cmd, code, text)
}

// folderGone ends the session. No response can tell a client that its mailbox is gone, and with it the meaning of every
// number (RFC 2180 section 3.3).
func (s *session) folderGone() {
	s.forget()
	s.bye("", "The selected mailbox is gone")
}

// expunged is the text for commands with numbers of messages that others have expunged. The command is executed for the
// messages that exist, but COPY, MOVE and REPLACE are rejected completely. A UID of an expunged message is no error.
//
// Implements: RFC 5530 §3 EXPUNGEISSUED
// Implements: RFC 2180 §4 a message that another session has expunged
const expunged = "Some of the messages no longer exist"

var refusals = []struct {
	kind       error
	code, text string
}{
	{mailbox.ErrFolderExists, "ALREADYEXISTS", "Mailbox exists already"},
	{mailbox.ErrHasChildren, "HASCHILDREN", "Mailbox has mailboxes below it"},
	{mailbox.ErrBadName, "CANNOT", "Mailbox name is not allowed"},
	{mailbox.ErrTooBig, "TOOBIG", "Message is larger than this server takes"},
	{mailbox.ErrBadMessage, "UNKNOWN-CTE", "Message contains NUL characters"},
	{mailbox.ErrExpunged, "EXPUNGEISSUED", expunged},
	{mailbox.ErrNoMessage, "NONEXISTENT", "No such message"},
	{mailbox.ErrReadOnly, "", "Mailbox is read-only"},
	{mailbox.ErrRecoverOnly, "CANNOT", "Mailbox holds deleted messages, which can only be moved back"},
	{mailbox.ErrBadFlag, "CANNOT", "Flag cannot be set"},
	{mailbox.ErrOwner, "CANNOT", "The owner keeps the right to administer"},
	{mailbox.ErrAnnotationSize, "METADATA MAXSIZE " + strconv.Itoa(mailbox.MaxAnnotation), "Annotation is too long"},
	{mailbox.ErrAnnotationCount, "METADATA TOOMANY", "Too many annotations"},
	{ErrIdentifier, "CANNOT", "No such person or group"},
	{errSearch, "CANNOT", "Search key is not offered"},
	{mailbox.ErrLimit, "LIMIT", "Too many messages for one answer, try again later"},
	{store.ErrDenied, "NOPERM", "Access denied"},
}

// refusal returns the response code (RFC 5530, RFC 9051 section 7.1) and the text for an error.
func (s *session) refusal(cmd *imap.Command, err error) (code, text string) {
	if errors.Is(err, mailbox.ErrNoFolder) {
		switch cmd.Name {
		case "APPEND", "COPY", "MOVE", "REPLACE":
			return "TRYCREATE", "No such mailbox"
		}
		return "NONEXISTENT", "No such mailbox"
	}
	for i := range refusals {
		if errors.Is(err, refusals[i].kind) {
			return refusals[i].code, refusals[i].text
		}
	}
	c, known := condition.Of(err)
	if !known || c == condition.Damaged {
		s.srv.env.Log.Error("imapd: command failed", "verb", cmd.Name, "account", s.account.Name, "err", err)
	}
	return c.IMAP, c.IMAPText
}

// setOf converts a set of package imap for package mailbox.
func setOf(set imap.Set) mailbox.Set {
	out := make(mailbox.Set, len(set))
	for i, r := range set {
		out[i] = mailbox.Range(r)
	}
	return out
}

// wireSet converts a set of package mailbox for package imap.
func wireSet(set mailbox.Set) imap.Set {
	out := make(imap.Set, len(set))
	for i, r := range set {
		out[i] = imap.Range(r)
	}
	return out
}

// target returns the messages that a command selects. If the command has numbers of messages that do not exist, target
// answers it and ok is false.
func (s *session) target(cmd *imap.Command, t *imap.Target) (set mailbox.Set, byUID, ok bool) {
	if t.Saved {
		return s.saved, true, true
	}
	if !cmd.UID {
		for _, r := range t.Set {
			// A range up to * is valid with any other bound: clients request n:* to get new messages.
			if r.Start != 0 && r.Stop != 0 && max(r.Start, r.Stop) > s.view.Exists() {
				s.badly(cmd, "There is no message with that number")
				return nil, false, false
			}
		}
	}
	return setOf(t.Set), cmd.UID, true
}
