package pop3d

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"doublet/mailbox"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/wire/pop3"
)

// movedState is the state of a session that moves to another member of the cluster, because the mail file has moved
// there. The maildrop is still that of the sign-in: its messages, their numbers, and the marks of DELE.
type movedState struct {
	View  *mailbox.Carried
	UIDs  []uint32
	Marks []byte
}

// moveOn continues the session where the mail file is. again is the command that ran when the move was noticed. It has
// changed nothing, and the new member executes it.
func (s *session) moveOn(again []byte) {
	if s.flush() != nil {
		return
	}
	m := &forward.Moved{Input: append(slices.Clone(again), s.c.Buffered()...)}
	s.c.DiscardInput()
	view, err := s.drop.view.Carry(s.c.Context())
	if err == nil {
		m.State, err = json.Marshal(movedState{View: view, UIDs: s.drop.uids, Marks: s.drop.marks})
	}
	if err != nil {
		s.cannotMove(err)
		return
	}
	s.letGo()
	s.out.Release()
	s.scratch.Release()
	s.follow(s.srv.cfg.Forward.Follow(s.c, s.follower(), s.home, m))
}

// follower returns the session as package forward carries it.
func (s *session) follower() *forward.Follower {
	return &forward.Follower{
		Door: "pop3", Account: &s.account, Silence: s.account.Silence(s.srv.cfg.IdleTimeout, s.c.Now()),
		Resume: func(x *forward.Session, state []byte) {
			s.home = x
			s.out.Take()
			if err := s.resume(state); err != nil {
				s.cannotMove(err)
			}
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

// cannotMove ends a session that no member can continue. It answers the current command; nothing was removed.
func (s *session) cannotMove(err error) {
	s.srv.env.Log.Warn("pop3d: cannot move a session", "account", s.account.Name, "err", err)
	s.out.Take()
	s.err(pop3.CodeSysTemp, "The mailbox has moved to another server, sign in again")
	s.over = true
}

const (
	// resumeWithin is the time in which a replica must catch up with the state that the session saw elsewhere.
	resumeWithin = 3 * time.Second
	resumeEvery  = 50 * time.Millisecond
)

// resume continues a session from another member. The client does not notice.
func (s *session) resume(packed []byte) error {
	var from movedState
	if err := json.Unmarshal(packed, &from); err != nil {
		return err
	}
	if from.View == nil || len(from.UIDs) != len(from.Marks) {
		return errors.New("pop3d: malformed state of a session")
	}
	if err := s.srv.drops.resume(s.account.Database); err != nil {
		return err
	}
	n := int64(len(from.UIDs)) * perMessage
	if !s.srv.cfg.Memory.Take(n) {
		s.srv.drops.give(s.account.Database)
		return listen.ErrMemory
	}
	file := s.srv.mail.File(s.account.Who, s.account.Database)
	view, err := s.resumeView(file, from.View)
	if err != nil {
		s.srv.cfg.Memory.Give(n)
		s.srv.drops.give(s.account.Database)
		return err
	}
	s.file, s.drop = file, maildrop{view: view, uids: from.UIDs, marks: from.Marks}
	s.srv.stats.users.Touch(s.account.Who.Person)
	return nil
}

func (s *session) resumeView(file *mailbox.File, c *mailbox.Carried) (*mailbox.View, error) {
	for until := s.c.Now().Add(resumeWithin); ; {
		view, _, err := file.Resume(s.c.Context(), c)
		if !errors.Is(err, mailbox.ErrParted) || !s.c.Now().Before(until) {
			return view, err
		}
		select {
		case <-s.srv.env.Clock.After(resumeEvery):
		case <-s.c.Context().Done():
			return nil, err
		}
	}
}
