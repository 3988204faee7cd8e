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
}

// AccountOf is who was signed in by the server that has forwarded the connection; false: nobody has.
func AccountOf(c *listen.Conn) (signin.Account, bool) {
	if x, ok := c.Conn.(*carried); ok {
		return x.account, true
	}
	return signin.Account{}, false
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

// take serves a session that a mate forwards.
func (s *Service) take(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	var h hello
	if err := json.Unmarshal(header, &h); err != nil {
		return bus.Refuse(codeMalformed, "the header of a session cannot be read")
	}
	person, err := note.ParseUNID(h.Person)
	if err != nil {
		return bus.Refuse(codeMalformed, "the header of a session names nobody")
	}
	s.mu.Lock()
	door, known, conns, node := s.doors[h.Door], s.known, s.conns, s.node
	s.mu.Unlock()
	if door == nil {
		return bus.Refuse(codeMalformed, "there is no door "+h.Door)
	}
	account, err := known(ctx, person)
	if err != nil {
		return bus.Refuse(codeDisabled, err.Error())
	}
	if h.Door != DoorWeb && h.Door != DoorLite {
		account.Credential = h.Credential
	}
	release := node.Use(account.Database)
	defer release()
	// Held from here on, it does not move; it may have moved before.
	if p, err := node.Where(ctx, account.Database); err != nil || !p.Self {
		return bus.Refuse(codeNotHome, "the mail file is not served here")
	}
	if _, err := stream.Write([]byte{'+'}); err != nil {
		return err
	}
	s.in.Inc()
	if err := conns.ServeConn(&carried{Stream: stream, account: account, client: h.Client, credential: h.Credential, csrf: h.CSRF, tls: h.TLS}, door); err != nil {
		return bus.Refuse(codeFull, err.Error())
	}
	return nil
}
