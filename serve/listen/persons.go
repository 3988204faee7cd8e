package listen

import "errors"

// Why SignedIn refuses.
var (
	// ErrSessions: the person has as many sessions as one may have.
	ErrSessions = errors.New("listen: too many sessions of one person")
	// ErrUsers: as many people are signed in as may be.
	ErrUsers = errors.New("listen: too many people are signed in")
)

// SignedIn counts the connection as one of a person's, until it ends. A door calls it when a sign-in has
// succeeded, before it says so; after an error the client is to be refused for now.
func (c *Conn) SignedIn(person [16]byte) error {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.known && c.person == person {
		return nil
	}
	n := s.perPerson[person]
	switch {
	case s.opts.Load().MaxPerPerson > 0 && n >= s.opts.Load().MaxPerPerson:
		s.inc("Server.Listen.Refused.Person", 1)
		return ErrSessions
	case n == 0 && s.opts.Load().MaxUsers > 0 && len(s.perPerson) >= s.opts.Load().MaxUsers:
		s.inc("Server.Listen.Refused.Users", 1)
		return ErrUsers
	}
	s.forget(c)
	s.perPerson[person] = n + 1
	c.person, c.known = person, true
	return nil
}

// forget takes the connection from its person. Under mu.
func (s *Server) forget(c *Conn) {
	if !c.known {
		return
	}
	c.known = false
	if s.perPerson[c.person]--; s.perPerson[c.person] <= 0 {
		delete(s.perPerson, c.person)
	}
}

// Load is how much the server has to do now.
type Load struct {
	Connections, Users int    // open, and people signed in
	Running, Peak      int64  // sessions at work, and the most at one time
	Waits              uint64 // commands that had to wait for their turn
}

// Load tells how much there is to do.
func (s *Server) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{len(s.conns), len(s.perPerson), s.gate.running.Load(), s.gate.peak.Load(), s.gate.waits.Load()}
}
