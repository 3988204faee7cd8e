package direct

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/env"
)

const handshakeTime = 10 * time.Second

// accept accepts connections until the port closes.
func (p *Port) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() != nil {
				return
			}
			p.env.Log.Warn("cluster address: accept failed", "error", err)
			select {
			case <-p.env.Clock.After(100 * time.Millisecond):
			case <-p.ctx.Done():
			}
			continue
		}
		select {
		case p.shaking <- struct{}{}:
		default: // new connections arrive faster than handshakes end
			p.stats.refused.Inc()
			conn.Close()
			continue
		}
		if !p.track(conn, bus.ServerID{}) {
			<-p.shaking
			conn.Close()
			return
		}
		p.spawn("bus connection", func() { p.serve(conn) })
	}
}

// serve handles one incoming connection.
func (p *Port) serve(plain net.Conn) {
	defer p.forget(plain)
	conn := tls.Server(plain, p.config)
	_ = plain.SetDeadline(env.Deadline(handshakeTime))
	err := conn.HandshakeContext(p.ctx)
	<-p.shaking
	if err != nil {
		p.refuse(plain, pki.Explain(err))
		return
	}
	if conn.ConnectionState().NegotiatedProtocol == pki.JoinProtocol {
		p.join(conn)
		return
	}
	who, err := p.o.Identity.Peer(conn.ConnectionState())
	if err != nil {
		p.refuse(plain, err)
		return
	}
	m, err := p.admit(plain, who)
	if err != nil {
		p.refuse(plain, err)
		_, _ = conn.Write(appendFrame(nil, frameRefuse, appendWords(nil, bus.CodeStranger, []byte(err.Error()))))
		// Closing at once could discard the refusal, if the other side has sent data meanwhile.
		_ = conn.CloseWrite()
		_, _ = bufio.NewReader(conn).Discard(maxFrame)
		return
	}
	r := bufio.NewReader(conn)
	kind, body, err := frame(r)
	if err != nil {
		return
	}
	_ = plain.SetDeadline(time.Time{})
	switch kind {
	case frameLink:
		err = p.serveLink(conn, r, m, who, body)
	case frameOpen:
		err = p.serveStreams(conn, r, m, body)
	default:
		err = errFrame
	}
	if err != nil && p.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		p.env.Log.Debug("connection to a mate ended", "mate", who.Name, "error", err)
	}
}

// serverConfig returns the TLS configuration. It selects the one for joining servers by the client's ALPN.
func (p *Port) serverConfig() *tls.Config {
	c := p.o.Identity.Server(protocol)
	if p.o.Admit != nil {
		join := p.o.Identity.JoinServer()
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == pki.JoinProtocol {
				return join, nil
			}
			return nil, nil
		}
	}
	return c
}

// refuse counts and logs a rejected connection.
func (p *Port) refuse(conn net.Conn, err error) {
	if p.ctx.Err() != nil {
		return
	}
	p.stats.refused.Inc()
	p.env.Log.Log(p.ctx, p.quiet.Level(slog.LevelWarn), "cluster address: connection refused", "from",
		conn.RemoteAddr().String(), "error", err)
}

// admit finds the member for an authenticated connection, and records the connection under it.
func (p *Port) admit(plain net.Conn, who pki.Identity) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[who.ID]
	if m == nil {
		return nil, errors.New("server " + who.ID.String() + " (" + who.Name + ") is no member here")
	}
	if err := isMember(who, m.Member); err != nil {
		return nil, err
	}
	p.conns[plain] = who.ID
	return m, nil
}

// serveLink runs a link that the other side opened.
func (p *Port) serveLink(conn *tls.Conn, r *bufio.Reader, m *peer, who pki.Identity, body []byte) error {
	theirs, err := parseGreeting(body)
	if err != nil {
		return err
	}
	l := p.newLink(conn, r, who, theirs)
	if l.Keys, err = keysOf(conn); err != nil {
		return err
	}
	p.mu.Lock()
	if p.members[who.ID] != m || p.closed {
		p.mu.Unlock()
		return errNoMember
	}
	m.in[l] = true
	p.mu.Unlock()
	p.stats.links.Inc()
	p.o.Up(l)
	defer func() {
		p.mu.Lock()
		delete(m.in, l)
		p.mu.Unlock()
		p.o.Down(l)
	}()
	mine := greeting{version: version, instance: p.o.Instance, grant: p.o.Grant}
	if err := l.send(frameWelcome, mine.append(nil)); err != nil {
		return err
	}
	p.spawn("bus link watch", func() { l.beat(p.ctx, p.o.Heartbeat) })
	err = l.read()
	l.fail(err)
	return l.Err()
}

// join answers a joining server.
func (p *Port) join(conn *tls.Conn) {
	select {
	case p.joining <- struct{}{}:
		defer func() { <-p.joining }()
	default:
		p.refuse(conn, errors.New("too many concurrent joins, retry later"))
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := p.o.Identity.ServeJoin(ctx, conn, p.o.Admit); err != nil {
		p.refuse(conn, err)
		return
	}
	p.stats.joined.Inc()
	_ = conn.CloseWrite()
	_, _ = bufio.NewReader(conn).Discard(1) // wait until the other side has read the answer
}
