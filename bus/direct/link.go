package direct

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/env"
)

// Link is a permanent connection with a mate. Each side opens one. A link's keys seal the requests of its dialler and
// the answers to them.
type Link struct {
	Peer     pki.Identity
	Outgoing bool
	// Instance and Grant come from the other side's greeting. Version is the lower of both sides' versions.
	Instance uint64
	Grant    bus.Grant
	Version  uint8
	Since    time.Time
	// Keys are derived from the handshake (exporters, RFC 8446 section 7.5). Both sides derive the same, and nobody
	// else can.
	Keys Keys

	clock   env.Clock
	silence time.Duration // timeout after which the link is closed
	conn    net.Conn
	r       *bufio.Reader
	address string
	done    chan struct{}
	heard   atomic.Int64 // last sign of life, in nanoseconds
	rtt     atomic.Int64

	writing sync.Mutex
	mu      sync.Mutex
	pings   map[uint64]*probe
	serial  uint64
	err     error
}

// probe is a probe without an answer yet.
type probe struct {
	at   time.Time
	back chan struct{} // closed when the answer arrives
}

// Keys are the keys of a link for messages that travel over NATS.
type Keys struct {
	// ID identifies the link in messages.
	ID [8]byte
	// Ask is for messages of the dialler, Answer for those of the acceptor.
	Ask, Answer [32]byte
}

const (
	exporterLabel = "EXPORTER-doublet-bus-messages"
	maxPings      = 64
)

var (
	errSilent = errors.New("no sign of life")
	errCrowd  = errors.New("too many probes wait already")
)

func keysOf(conn *tls.Conn) (k Keys, err error) {
	state := conn.ConnectionState()
	raw, err := state.ExportKeyingMaterial(exporterLabel, nil, len(k.ID)+len(k.Ask)+len(k.Answer))
	if err != nil {
		return k, err
	}
	copy(k.ID[:], raw)
	copy(k.Ask[:], raw[len(k.ID):])
	copy(k.Answer[:], raw[len(k.ID)+len(k.Ask):])
	return k, nil
}

// link opens a link to a member.
func (p *Port) link(ctx context.Context, m bus.Member) (*Link, error) {
	conn, r, who, err := p.dial(ctx, m, nil)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { p.forget(conn) })
	l, err := p.greet(conn, r, who)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		p.forget(conn)
		return nil, pki.Explain(err)
	}
	return l, nil
}

func (p *Port) greet(conn net.Conn, r *bufio.Reader, who pki.Identity) (*Link, error) {
	mine := greeting{version: version, instance: p.o.Instance, grant: p.o.Grant}
	if _, err := conn.Write(appendFrame(nil, frameLink, mine.append(nil))); err != nil {
		return nil, err
	}
	kind, body, err := frame(r)
	if err != nil {
		return nil, err
	}
	switch kind {
	case frameWelcome:
	case frameRefuse:
		return nil, refusedBy(who.ID, "link", body)
	default:
		return nil, fmt.Errorf("%w: %q instead of a welcome", errFrame, kind)
	}
	theirs, err := parseGreeting(body)
	if err != nil {
		return nil, err
	}
	l := p.newLink(conn, r, who, theirs)
	l.Outgoing = true
	l.Keys, err = keysOf(conn.(tracked).Conn)
	return l, err
}

func (p *Port) newLink(conn net.Conn, r *bufio.Reader, who pki.Identity, theirs greeting) *Link {
	l := &Link{
		Peer: who, Instance: theirs.instance, Grant: theirs.grant, Version: min(version, theirs.version),
		Since: p.env.Clock.Now(),
		clock: p.env.Clock, conn: conn, r: r, address: conn.RemoteAddr().String(), done: make(chan struct{}),
		pings: map[uint64]*probe{}, silence: p.o.Silence,
	}
	l.heard.Store(l.Since.UnixNano())
	return l
}

// refusedBy returns the error for a refuse frame.
func refusedBy(server bus.ServerID, verb string, body []byte) error {
	code, text, err := parseWords(body)
	if err != nil {
		return err
	}
	return &bus.RemoteError{Server: server, Verb: verb, Code: code, Text: string(text)}
}

// Done returns a channel that is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err returns the reason why the link ended.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Address returns the address of the other side.
func (l *Link) Address() string { return l.address }

// Heard returns the time of the last sign of life, and the round-trip time of the last probe (0: none yet).
func (l *Link) Heard() (at time.Time, rtt time.Duration) {
	return time.Unix(0, l.heard.Load()), time.Duration(l.rtt.Load())
}

// Fail ends the link.
func (l *Link) Fail(err error) { l.fail(err) }

// fail ends the link. The first error is kept.
func (l *Link) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if err == nil {
		err = errors.New("closed")
	}
	l.err = err
	close(l.done)
	l.conn.Close()
}

// Ping probes the other side and returns the round-trip time.
func (l *Link) Ping(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", bus.ErrNoAnswer, err)
	}
	serial, sent, err := l.ping()
	if err != nil {
		return 0, err
	}
	select {
	case <-sent.back:
		return time.Duration(l.rtt.Load()), nil
	case <-l.done:
		err = l.Err()
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	delete(l.pings, serial)
	l.mu.Unlock()
	return 0, fmt.Errorf("%w: %w", bus.ErrNoAnswer, err)
}

// ping sends a probe.
func (l *Link) ping() (uint64, *probe, error) {
	l.mu.Lock()
	if l.err != nil || len(l.pings) >= maxPings {
		defer l.mu.Unlock()
		if l.err != nil {
			return 0, nil, fmt.Errorf("%w: %w", bus.ErrNoServer, l.err)
		}
		return 0, nil, fmt.Errorf("%w: %w", bus.ErrNoAnswer, errCrowd)
	}
	l.serial++
	serial, sent := l.serial, &probe{at: l.clock.Now(), back: make(chan struct{})}
	l.pings[serial] = sent
	l.mu.Unlock()
	if err := l.send(framePing, binary.BigEndian.AppendUint64(nil, serial)); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", bus.ErrNoAnswer, err)
	}
	return serial, sent, nil
}

// pong processes the answer to a probe.
func (l *Link) pong(serial uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent := l.pings[serial]; sent != nil {
		delete(l.pings, serial)
		l.rtt.Store(int64(l.clock.Now().Sub(sent.at)))
		close(sent.back)
	}
}

// send writes a frame. If the socket accepts no data for the silence timeout, the link ends.
func (l *Link) send(kind byte, body []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	err := l.conn.SetWriteDeadline(env.Deadline(l.silence))
	if err == nil {
		_, err = l.conn.Write(appendFrame(nil, kind, body))
	}
	if err != nil {
		l.fail(err)
	}
	return err
}

// read processes frames until the link ends.
func (l *Link) read() error {
	for {
		kind, body, err := frame(l.r)
		if err != nil {
			return err
		}
		l.heard.Store(l.clock.Now().UnixNano())
		switch {
		case kind == framePing && !l.Outgoing && len(body) == 8:
			if err := l.send(framePong, body); err != nil {
				return err
			}
		case kind == framePong && l.Outgoing && len(body) == 8:
			l.pong(binary.BigEndian.Uint64(body))
		case kind == frameRefuse:
			return refusedBy(l.Peer.ID, "link", body)
		default:
			return fmt.Errorf("%w: %q of %d bytes on a link", errFrame, kind, len(body))
		}
	}
}

// beat probes the link and ends it after the silence timeout. Only the dialler probes, and it ends the link first. The
// acceptor waits for one more interval.
func (l *Link) beat(ctx context.Context, every time.Duration) {
	silence := l.silence
	if !l.Outgoing {
		silence += every
	}
	for {
		select {
		case <-l.done:
			return
		case <-ctx.Done():
			l.fail(bus.ErrClosed)
			return
		case <-l.clock.After(every):
		}
		now := l.clock.Now()
		heard, _ := l.Heard()
		quiet := now.Sub(heard)
		switch {
		case quiet >= silence:
			l.fail(fmt.Errorf("%w for %s", errSilent, quiet.Round(time.Millisecond)))
		case !now.Before(l.Peer.Until):
			l.fail(fmt.Errorf("%w: until %s", pki.ErrExpired, l.Peer.Until.UTC().Format(time.RFC3339)))
		case l.Outgoing && quiet >= every/2:
			_, _, _ = l.ping() // on an error the link has ended already
		}
	}
}
