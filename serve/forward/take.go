package forward

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
)

// farewell is how long a client may take for the server's last word.
const farewell = 100 * time.Millisecond

// The codes of refusals.
const (
	codeNotHome   = "not home"
	codeDisabled  = "disabled"
	codeFull      = "full"
	codeMalformed = "malformed"
)

// carried is the client's end of a forwarded session, as the home's door has it.
type carried struct {
	bus.Stream
	account signin.Account
	client  netip.AddrPort
	// credential, csrf and tls are those of a request at a web door.
	credential, csrf string
	tls              bool
	// movable says that what is written is cut into frames, so that the session can be given back.
	movable bool
	// session is the open of the database, state the state that the session goes on from.
	session *Session
	state   []byte
}

// AccountOf returns the account that was signed in by the server which has forwarded the connection; false for a
// connection that no server has forwarded.
func AccountOf(c *listen.Conn) (signin.Account, bool) {
	if x, ok := c.Conn.(*carried); ok {
		return x.account, true
	}
	return signin.Account{}, false
}

// StateOf returns the state of a session that began at another server, nil where it begins here.
func StateOf(c *listen.Conn) []byte {
	if x, ok := c.Conn.(*carried); ok {
		return x.state
	}
	return nil
}

// Write implements net.Conn.
func (x *carried) Write(p []byte) (int, error) {
	if x.movable {
		return writeFrames(x.Stream, p)
	}
	return x.Stream.Write(p)
}

// LocalAddr implements net.Conn.
func (x *carried) LocalAddr() net.Addr { return &net.UnixAddr{Net: "bus", Name: "session"} }

// RemoteAddr implements net.Conn: the client's own address.
func (x *carried) RemoteAddr() net.Addr {
	if x.client.IsValid() {
		return net.TCPAddrFromAddrPort(x.client)
	}
	return x.LocalAddr()
}

// Close implements net.Conn: what was written arrives, then no more comes.
func (x *carried) Close() error {
	_ = x.Stream.CloseWrite()
	return x.Stream.SetReadDeadline(time.Unix(1, 0)) // whoever reads stops
}

// take serves a session that a mate forwards, and that cannot be given back.
func (s *Service) take(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	return s.serve(ctx, header, &carried{Stream: stream})
}

// takeMovable serves a session that a mate forwards, and gives it back where the mail file moves.
func (s *Service) takeMovable(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	return s.serve(ctx, header, &carried{Stream: stream, movable: true})
}

func (s *Service) serve(ctx context.Context, header []byte, x *carried) error {
	h, door, account, err := s.who(ctx, header)
	if err != nil {
		return err
	}
	s.mu.Lock()
	conns, node := s.conns, s.node
	s.mu.Unlock()
	x.session = s.here(node, account.Database)
	x.session.from = x
	defer x.session.End()
	// Held from here on, it is not moved for balance; it may have moved before.
	if p, err := node.Where(ctx, account.Database); err != nil || !p.Self {
		return bus.Refuse(codeNotHome, "the mail file is not served here")
	}
	if _, err := x.Stream.Write([]byte{'+'}); err != nil {
		return err
	}
	if h.Moved {
		if x.state, err = receiveState(x.Stream); err != nil {
			return err
		}
	}
	s.in.Inc()
	x.account, x.client, x.credential, x.csrf, x.tls = account, h.Client, h.Credential, h.CSRF, h.TLS
	if err := conns.ServeConn(x, door); err != nil {
		return bus.Refuse(codeFull, err.Error())
	}
	return nil
}

// who reads the header of a session: the door that it is for, and the account of the person.
func (s *Service) who(ctx context.Context, header []byte) (h hello, door *listen.Door, a signin.Account, err error) {
	if err := json.Unmarshal(header, &h); err != nil {
		return h, nil, a, bus.Refuse(codeMalformed, "the header of a session cannot be read")
	}
	person, err := note.ParseUNID(h.Person)
	if err != nil {
		return h, nil, a, bus.Refuse(codeMalformed, "the header of a session names nobody")
	}
	s.mu.Lock()
	door, known := s.doors[h.Door], s.known
	s.mu.Unlock()
	if door == nil {
		return h, nil, a, bus.Refuse(codeMalformed, "there is no door "+h.Door)
	}
	if a, err = known(ctx, person); err != nil {
		return h, nil, a, bus.Refuse(codeDisabled, err.Error())
	}
	if h.Door != DoorWeb && h.Door != DoorLite {
		a.Credential = h.Credential
	}
	return h, door, a, nil
}
