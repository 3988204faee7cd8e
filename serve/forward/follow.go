package forward

import (
	"encoding/json"
	"fmt"
	"time"

	"doublet/serve/listen"
	"doublet/serve/signin"
)

// Follower is a session that follows its mail file from one member of the cluster to another.
type Follower struct {
	// Door is the name under which Service.Door registered the session's door.
	Door string
	// Account is the person who signed in.
	Account *signin.Account
	// Bye is sent to the client if the home is lost.
	Bye string
	// Silence is the time after which the home ends a session whose client is silent.
	Silence time.Duration
	// Resume continues the session on this member, with the state that another member packed.
	Resume func(x *Session, state []byte)
}

// CarryAway forwards a session that begins at another member, as Open found. ahead is the client's input that was read
// and not used. CarryAway returns when the session has ended, or continues here; then here is true. After an error the
// caller must end the session and tell the client.
func (s *Service) CarryAway(c *listen.Conn, f *Follower, x *Session, ahead []byte) (here bool, err error) {
	return s.follow(c, f, x, s.carry(c, f, x, &Moved{Input: ahead}))
}

// Follow continues a session where the mail file has moved. m is its state, which no other member has seen. Its memory
// is taken from the budget for messages in flight. Follow returns like CarryAway.
func (s *Service) Follow(c *listen.Conn, f *Follower, x *Session, m *Moved) (here bool, err error) {
	if err := m.take(s.share(f.Account), int64(len(m.State)+len(m.Input))); err != nil {
		x.End()
		return false, err
	}
	return s.follow(c, f, x, m)
}

func (s *Service) follow(c *listen.Conn, f *Follower, x *Session, m *Moved) (here bool, err error) {
	for m != nil {
		next, err := s.move(c, f, x, m)
		if err != nil || next == nil {
			m.free()
			return false, err
		}
		if next.Here() {
			// The input stays in memory until it is read.
			state := m.State
			c.UnreadHeld(m.Input, m.free)
			f.Resume(next, state)
			return true, nil
		}
		x, m = next, s.carry(c, f, next, m)
	}
	return false, nil
}

// carry is Follower.carry. It returns nil if the session has ended, and logs an error.
func (s *Service) carry(c *listen.Conn, f *Follower, x *Session, m *Moved) *Moved {
	m, err := f.carry(c, x, m)
	if err != nil {
		s.env.Log.Info("forward: forwarded session broke off", "door", f.Door, "account", f.Account.Name, "err", err)
		if m != nil {
			m.free()
		}
		return nil
	}
	return m
}

// move opens the session at the new home of the mail file, which may be this member after all. If a mate has forwarded
// the session, move returns it to the mate, and returns nil.
func (s *Service) move(c *listen.Conn, f *Follower, old *Session, m *Moved) (next *Session, err error) {
	old.End()
	if old != nil && old.from != nil && old.from.movable && !c.Compressed() {
		if err := old.from.handBack(m); err != nil {
			s.failed.Inc()
			return nil, err
		}
		return nil, nil
	}
	next, err = s.find(c, f.Door, f.Account, m)
	if err != nil {
		return nil, err
	}
	if next.Here() && old != nil {
		next.from = old.from
	}
	s.moved.Inc()
	return next, nil
}

// Resume calls resume with the state of a session that began on another member. It returns false if the session begins
// here. The memory of the state is reserved until resume returns.
func Resume(c *listen.Conn, resume func(state []byte)) bool {
	x, ok := c.Conn.(*carried)
	if !ok || x.state == nil {
		return false
	}
	state := x.state
	x.state = nil
	defer x.held.free()
	resume(state)
	return true
}

// CanDeflate reports whether the connection of a forwarded session is compressed with Deflate, by the member that has
// the client's connection.
func CanDeflate(c *listen.Conn) bool {
	x, ok := c.Conn.(*carried)
	return ok && x.deflates
}

// Deflated reports whether the member that has the client's connection compresses it.
func Deflated(c *listen.Conn) bool {
	x, ok := c.Conn.(*carried)
	return ok && x.deflated
}

// Deflate makes the member that has the client's connection compress it. That member sends the client one of the
// answers: on, full if too many of its connections are compressed, or active if this one is. Deflate waits until then.
// There must be no buffered input.
func Deflate(c *listen.Conn, on, full, active []byte) error {
	content, err := json.Marshal(deflating{On: on, Full: full, Active: active})
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return err
	}
	x := c.Conn.(*carried)
	x.kind = frameDeflate
	if _, err := c.Write(content); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := c.Read(answer[:]); err != nil {
		return err
	}
	switch answer[0] {
	case isDeflated:
		x.deflated = true
	case notDeflated:
	default:
		return fmt.Errorf("forward: answer %q to frame %q", answer[0], frameDeflate)
	}
	return nil
}

// share returns a person's share of the budget for messages in flight.
func (s *Service) share(a *signin.Account) listen.Share {
	return s.memory.Of(a.Who.Person)
}
