package listen

import "errors"

// Reasons for SignedIn to fail.
var (
	// ErrSessions reports that the person has the maximum number of sessions.
	ErrSessions = errors.New("listen: too many sessions of one person")
	// ErrUsers reports that the maximum number of people is signed in.
	ErrUsers = errors.New("listen: too many people are signed in")
)

// SignedIn counts the connection as one of a person's until it ends. A door calls it after a successful sign-in, before
// it reports the success. After an error the door should reject the client for now.
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
	s.peakUsers = max(s.peakUsers, len(s.perPerson))
	c.person, c.known = person, true
	return nil
}

// forget removes the connection from its person's count. The caller holds mu.
func (s *Server) forget(c *Conn) {
	if !c.known {
		return
	}
	c.known = false
	if s.perPerson[c.person]--; s.perPerson[c.person] <= 0 {
		delete(s.perPerson, c.person)
	}
}

// Drop closes the connections of a person, or those of everybody who is signed in if it is the zero id. It returns
// their number. A command that runs may not be answered.
func (s *Server) Drop(person [16]byte) int {
	s.mu.Lock()
	var drop []*Conn
	for c := range s.conns {
		if c.known && (person == [16]byte{} || c.person == person) {
			drop = append(drop, c)
		}
	}
	s.mu.Unlock()
	for _, c := range drop {
		_ = c.abort()
	}
	return len(drop)
}

// Load is the current load of the server.
type Load struct {
	Connections int // open connections
	Users       int // people signed in at open connections, now and at most so far
	PeakUsers   int
	// Passed and PeakPassed are the connections whose sessions other code runs (Listen), now and at most so far.
	Passed, PeakPassed int
	Running, Peak      int64  // working sessions, now and at most so far
	Waits              uint64 // commands that had to wait for a slot
}

// Load returns the current load.
func (s *Server) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Connections: len(s.conns), Users: len(s.perPerson), PeakUsers: s.peakUsers,
		Passed: s.passed, PeakPassed: s.peakPassed,
		Running: s.gate.running.Load(), Peak: s.gate.peak.Load(), Waits: s.gate.waits.Load()}
}
