package imapd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/serve/condition"
	"doublet/serve/forward"
	"doublet/store"
	"doublet/wire/imap"
)

// moving is the state of a session that moves to another member of the cluster, because the mail file has moved there.
// The client does not notice. If the two members' states differ, the client gets the difference as expunges, new
// messages and flags.
type moving struct {
	// due is set if the session moves after the current command, away if it starts at another member.
	due, away bool
	// again is the command that ran when the move was noticed. It has changed nothing, and the other member executes
	// it.
	again []byte
	// held is the memory in bytes that is reserved for again.
	held int64
	// idling is set if the command is an IDLE that has started.
	idling bool
}

// maxAgain is the maximum size in bytes of a command, with its messages, that the other member executes.
const maxAgain = 8 << 20

// movedState is the state of a session that is sent to another member.
type movedState struct {
	Rev2, UTF8, CondStore, QResync, UIDOnly bool

	Idling  bool             `json:",omitempty"`
	Saved   mailbox.Set      `json:",omitempty"`
	View    *mailbox.Carried `json:",omitempty"`
	Listed  []string         `json:",omitempty"`
	Highest uint64           `json:",omitempty"`
	Skipped uint64           `json:",omitempty"`
	// Notify is set after NOTIFY, Notified if NOTIFY requested any events.
	Notify   bool `json:",omitempty"`
	Notified bool `json:",omitempty"`
	// Contexts holds the tags of updated searches.
	Contexts []string `json:",omitempty"`
}

// begin starts a command if the mail file is here. Otherwise the session moves, and the command with it.
func (s *session) begin(cmd *imap.Command) bool {
	if s.home.Begin(s.c.Context()) || cmd.Name == "LOGOUT" {
		return true
	}
	s.carryOutThere(cmd)
	return false
}

// carryOutThere makes the member to which the mail file has moved execute a command. The client has sent the literals
// in its text, and sends a message after it when that member invites it.
func (s *session) carryOutThere(cmd *imap.Command) {
	s.move.due, s.move.again = true, append(imap.AppendNonSync(nil, []byte(cmd.Text)), "\r\n"...)
	s.move.idling = s.move.idling && cmd.Name == "IDLE"
}

// appendThere is carryOutThere for a command whose messages have been read.
func (s *session) appendThere(cmd *imap.Command, a *imap.Append, list *incoming, err error) bool {
	if !errors.Is(err, store.ErrNotHome) || !s.home.Moved(s.c.Context()) || list.size > maxAgain ||
		!s.memory().Take(list.size) {
		return false
	}
	s.move.held = list.size // until the session has moved
	var b []byte
	var before *imap.Append
	for i := range list.m {
		m := &list.m[i]
		next := &imap.Append{Mailbox: a.Mailbox, Flags: strings.Fields(string(m.Flags.AppendIMAP(nil))), Date: m.Date,
			Size: int64(len(m.Raw)), NonSync: true}
		switch r, replace := cmd.Args.(*imap.Replace); {
		case before != nil:
			b = imap.AppendNextMessage(b, before, next)
		case replace:
			b = s.announced(cmd, &imap.Replace{Message: r.Message, Append: *next})
		default:
			b = s.announced(cmd, next)
		}
		b, before = append(b, m.Raw...), next
	}
	s.move.due, s.move.again = true, append(b, "\r\n"...)
	return true
}

// announced returns a command up to the announcement of its first message.
func (s *session) announced(cmd *imap.Command, args any) []byte {
	text := imap.AppendCommand(nil, &imap.Command{Tag: cmd.Tag, Name: cmd.Name, UID: cmd.UID, Args: args}, s.in.UTF8)
	return append(imap.AppendNonSync(nil, bytes.TrimSuffix(text, []byte("\r\n"))), "\r\n"...)
}

// elsewhere answers a command that found the database at another member. If it is the person's own mail file, the
// session moves there; for another person's, it stays.
func (s *session) elsewhere(cmd *imap.Command) {
	if !s.home.Moved(s.c.Context()) {
		s.no(cmd, condition.Elsewhere.IMAP, "The mailbox has moved to another server, try again later")
		return
	}
	switch cmd.Name {
	case "APPEND", "REPLACE": // too large for appendThere
		s.no(cmd, condition.Elsewhere.IMAP, "The mail file is moving to another server, try again")
		s.move.due = true
	default:
		s.carryOutThere(cmd)
	}
}

// moveOn continues the session where the mail file is.
func (s *session) moveOn() {
	m := &forward.Moved{Input: append(s.move.again, s.in.Rest()...)}
	m.Input = append(m.Input, s.c.Buffered()...)
	s.c.DiscardInput()
	state, err := s.packed()
	s.memory().Give(s.move.held) // Follow reserves the memory of the input
	s.move = moving{}
	if err == nil {
		m.State, err = json.Marshal(state)
	}
	if err != nil {
		s.cannotMove(err)
		return
	}
	if s.flush() != nil {
		return
	}
	s.leaveView()
	s.release()
	s.follow(s.srv.cfg.Forward.Follow(s.c, s.follower(), s.home, m))
}

// follower returns the session as package forward carries it.
func (s *session) follower() *forward.Follower {
	return &forward.Follower{
		Door: "imap", Account: &s.account, Silence: s.timeout(),
		Bye: "* BYE [UNAVAILABLE] The server of the mail file is lost, sign in again\r\n",
		Resume: func(x *forward.Session, state []byte) {
			s.home = x
			s.home.Watch(s.c.Wake)
			s.resume(state)
		},
	}
}

// follow handles the result of CarryAway and Follow.
func (s *session) follow(here bool, err error) {
	switch {
	case err != nil:
		s.cannotMove(err)
	case !here:
		s.over = true
	}
}

// cannotMove ends a session that no member can continue.
func (s *session) cannotMove(err error) {
	s.srv.env.Log.Warn("imapd: cannot move a session", "account", s.account.Name, "err", err)
	s.leaveView()
	s.bye(condition.Elsewhere.IMAP, condition.Elsewhere.IMAPText)
}

// leaveView releases the session's mailbox here without telling the client.
func (s *session) leaveView() {
	s.dropNotify()
	s.forget()
}

// packed returns the state of the session for another member.
func (s *session) packed() (*movedState, error) {
	out := &movedState{
		Rev2: s.rev2, UTF8: s.utf8, CondStore: s.condstore, QResync: s.qresync, UIDOnly: s.uidOnly,
		Idling: s.move.idling, Saved: s.saved, Listed: s.listed, Highest: s.heard.highest, Skipped: s.heard.skipped,
		Notify: s.notifier != nil, Notified: s.notifier != nil && s.notifier.watches != nil,
	}
	for _, x := range s.contexts {
		out.Contexts = append(out.Contexts, x.tag)
	}
	if s.view == nil {
		return out, nil
	}
	var err error
	out.View, err = s.view.Carry(s.c.Context())
	return out, err
}

// resume continues a session from another member.
func (s *session) resume(packed []byte) {
	s.out.Take()
	var from movedState
	if err := json.Unmarshal(packed, &from); err != nil {
		s.cannotMove(err)
		return
	}
	s.rev2, s.utf8, s.condstore, s.qresync, s.uidOnly = from.Rev2, from.UTF8, from.CondStore, from.QResync, from.UIDOnly
	s.in.UTF8 = s.rev2 || s.utf8
	s.move.idling = from.Idling
	if from.View != nil {
		if err := s.resumeView(from.View); err != nil {
			s.cannotMove(err)
			return
		}
		s.saved, s.listed, s.heard = from.Saved, from.Listed, heard{highest: from.Highest, skipped: from.Skipped}
	}
	for _, tag := range from.Contexts {
		s.noUpdate(tag)
	}
	if from.Notify {
		s.notifier = &notifier{}
	}
	if from.Notified {
		s.untagged("NOTIFICATIONOVERFLOW", "The mail file has moved to another server")
	}
}

const (
	// resumeWithin is the time in which a replica must catch up with the state that the session saw elsewhere.
	resumeWithin = 3 * time.Second
	resumeEvery  = 50 * time.Millisecond
)

// resumeView selects the mailbox of a session from another member, without any response.
func (s *session) resumeView(c *mailbox.Carried) error {
	file, err := s.at(c.Name)
	if err != nil {
		return err
	}
	for until := s.c.Now().Add(resumeWithin); ; {
		view, folder, err := file.Resume(s.c.Context(), c)
		if err == nil {
			s.view, s.rights = view, folder.Rights
			return nil
		}
		if !errors.Is(err, mailbox.ErrParted) || !s.c.Now().Before(until) {
			return err
		}
		select {
		case <-s.srv.env.Clock.After(resumeEvery):
		case <-s.c.Context().Done():
			return err
		}
	}
}
