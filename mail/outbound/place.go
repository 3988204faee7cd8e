package outbound

import (
	"context"
	"net"
)

// connectPlace opens a session with one of the servers of a place, beginning with a random one.
func (m *Mailer) connectPlace(ctx context.Context, t *Target) (*Session, *Failure) {
	if m.opt.Own == nil || m.opt.Own() == nil {
		return nil, temporary(7, 0, "This server has no key of its own: it takes no part in its domain")
	}
	last := temporary(4, 4, "No server of "+t.Place+" says in the directory where it takes mail")
	first := 0
	if n := len(t.Peers); n > 1 {
		first = int(m.env.Uint64() % uint64(n))
	}
	for i := range t.Peers {
		p := t.Peers[(first+i)%len(t.Peers)]
		if ctx.Err() != nil {
			return nil, temporary(4, 1, "The server is stopping")
		}
		host, port, err := net.SplitHostPort(p.Address)
		if err != nil {
			last = temporary(4, 4, "Server "+p.Name+": "+p.Address+" is no address")
			continue
		}
		s, fail, _ := m.open(ctx, t, guard{tls: true, peer: &p, strict: t.TLS == Required}, p.Name, host, port)
		if fail == nil {
			return s, nil
		}
		m.stat.failed.Inc()
		last = fail
	}
	last.Permanent = false // it is this domain's own server, so the administrator can fix it: retry
	return nil, last
}
