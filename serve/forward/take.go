package forward

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
)

// farewell is the timeout for the last line to a client.
const farewell = 100 * time.Millisecond

// The codes of rejections on the bus.
const (
	codeNotHome   = "not home"
	codeDisabled  = "disabled"
	codeFull      = "full"
	codeMalformed = "malformed"
)

// carried is the client's side of a forwarded session, as the home's door sees it.
type carried struct {
	bus.Stream
	account signin.Account
	client  netip.AddrPort
	// credential, csrf and tls belong to a request at a web door.
	credential, csrf string
	tls              bool
	// movable reports that the output is framed, so that the session can be returned.
	movable bool
	// deflates reports that the other member can compress the client's connection, deflated that it does.
	deflates, deflated bool
	// kind is the kind of the frames of the next Write, or 0 for frameData.
	kind byte
	// session keeps the database in use. state is the state from which the session continues, in memory of held.
	session *Session
	state   []byte
	held    reserved
}

// AccountOf returns the account of a forwarded connection, as authenticated by the server that forwarded it. It returns
// false for a connection that was not forwarded.
func AccountOf(c *listen.Conn) (signin.Account, bool) {
	if x, ok := c.Conn.(*carried); ok {
		return x.account, true
	}
	return signin.Account{}, false
}

// Write implements net.Conn.
func (x *carried) Write(p []byte) (int, error) {
	if x.movable {
		kind := byte(frameData)
		if x.kind != 0 {
			kind, x.kind = x.kind, 0
		}
		return writeFrames(x.Stream, kind, p)
	}
	return x.Stream.Write(p)
}

// share returns the person's share of the budget for messages in flight.
func (x *carried) share() listen.Share { return x.session.s.share(&x.account) }

// LocalAddr implements net.Conn.
func (x *carried) LocalAddr() net.Addr { return &net.UnixAddr{Net: "bus", Name: "session"} }

// RemoteAddr implements net.Conn. It returns the client's own address.
func (x *carried) RemoteAddr() net.Addr {
	if x.client.IsValid() {
		return net.TCPAddrFromAddrPort(x.client)
	}
	return x.LocalAddr()
}

// Close implements net.Conn. Written data still arrives; reads fail at once.
func (x *carried) Close() error {
	_ = x.Stream.CloseWrite()
	return x.Stream.SetReadDeadline(time.Unix(1, 0)) // unblocks readers
}

// Abort implements listen.Aborter.
func (x *carried) Abort() error { return x.Stream.Close() }

// Doors serves the sessions and requests that mates forward to the doors of this server. All doors are added before
// Serve.
type Doors struct {
	s *Service
	// conns counts and limits forwarded sessions together with direct connections.
	conns *listen.Server
	// known returns the account of a person whom a mate has authenticated.
	known func(ctx context.Context, person note.UNID) (signin.Account, error)
	doors map[string]*listen.Door
	// stops holds a function for each web door that stops its forwarded requests.
	stops []func() error
}

// Doors returns Doors without a door. conns counts and limits forwarded sessions together with direct connections.
// known returns the account of a person whom a mate has authenticated.
func (s *Service) Doors(conns *listen.Server, known func(ctx context.Context,
	person note.UNID) (signin.Account, error)) *Doors {
	return &Doors{s: s, conns: conns, known: known, doors: map[string]*listen.Door{}}
}

// Add adds the door that serves forwarded sessions with serve, which must call AccountOf first.
func (d *Doors) Add(name string, serve func(*listen.Conn)) {
	d.doors[name] = &listen.Door{Name: name, Serve: serve}
}

// Serve accepts sessions from mates from now on.
func (d *Doors) Serve(to Handlers) {
	to.HandleStream(verb, d.take)
	to.HandleStream(verbMovable, d.takeMovable)
}

// take serves a session from a mate that cannot be returned.
func (d *Doors) take(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	return d.serve(ctx, header, &carried{Stream: stream})
}

// takeMovable serves a session from a mate, and returns it if the mail file moves.
func (d *Doors) takeMovable(ctx context.Context, _ bus.ServerID, header []byte, stream bus.Stream) error {
	return d.serve(ctx, header, &carried{Stream: stream, movable: true})
}

func (d *Doors) serve(ctx context.Context, header []byte, x *carried) error {
	h, door, account, err := d.who(ctx, header)
	if err != nil {
		return err
	}
	node, _ := d.s.cluster()
	x.session = d.s.here(node, account.Database)
	x.session.from = x
	defer x.session.End()
	// From here on the database is in use and is not moved for balance. It may have moved earlier.
	if p, err := node.Where(ctx, account.Database); err != nil || !p.Self {
		return bus.Refuse(codeNotHome, "the mail file is not served here")
	}
	if _, err := x.Stream.Write([]byte{'+'}); err != nil {
		return err
	}
	if h.Moved {
		if x.state, x.held, err = receiveState(x.Stream, d.s.share(&account)); err != nil {
			if errors.Is(err, listen.ErrMemory) {
				err = bus.Refuse(codeFull, err.Error())
			}
			return err
		}
		defer x.held.free()
	}
	d.s.in.Inc()
	x.deflates, x.deflated = x.movable && h.Deflates, h.Deflated
	x.account, x.client, x.credential, x.csrf, x.tls = account, h.Client, h.Credential, h.CSRF, h.TLS
	if err := d.conns.ServeConn(x, door); err != nil {
		return bus.Refuse(codeFull, err.Error())
	}
	return nil
}

// who parses the header of a session, and returns its door and the person's account.
func (d *Doors) who(ctx context.Context, header []byte) (h hello, door *listen.Door, a signin.Account, err error) {
	if err := json.Unmarshal(header, &h); err != nil {
		return h, nil, a, bus.Refuse(codeMalformed, "the header of a session cannot be read")
	}
	person, err := note.ParseUNID(h.Person)
	if err != nil {
		return h, nil, a, bus.Refuse(codeMalformed, "the header of a session names nobody")
	}
	if door = d.doors[h.Door]; door == nil {
		return h, nil, a, bus.Refuse(codeMalformed, "there is no door "+h.Door)
	}
	if a, err = d.known(ctx, person); err != nil {
		return h, nil, a, bus.Refuse(codeDisabled, err.Error())
	}
	if h.Door != DoorWeb && h.Door != DoorLite && h.Door != DoorDAV {
		// The credential may have been revoked since the sign-in at another server, so the first Refresh checks it.
		a.Credential, a.Directory = h.Credential, 0
	}
	return h, door, a, nil
}
