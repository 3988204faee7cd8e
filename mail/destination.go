package mail

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"doublet/directory"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/wire/smtp"
)

// destination is a domain, or the server that a route names. Mail for one destination is sent together.
type destination struct {
	name string
	appointments
	busy    int     // entries being sent, or sent and not yet settled
	lanes   int     // connections, including those being opened
	open    int     // lanes with a session
	waiting []*lane // lanes without work
	listed  bool
	starved bool // waits for a lane of another destination to end
	timer   uint32

	// A destination that cannot be reached is suspended as a whole after consecutive failures. At retryAt one message
	// probes it. reply is the last failure, and host the server that sent it.
	failures    int
	retryAt     time.Time
	reply, host string
	// strikes counts consecutive sessions that broke without accepting anything.
	strikes int
	// limit is the number of connections that the destination has proved to accept; 0 means the configured limit.
	limit int
}

// maxStrikes is the number of consecutive broken sessions after which a destination is suspended.
const maxStrikes = 3

func (a *agenda) dest(name string) *destination {
	d := a.dests[name]
	if d == nil {
		d = &destination{name: name}
		a.dests[name] = d
	}
	return d
}

// arrange adds a destination to the next dispatch.
func (a *agenda) arrange(d *destination) {
	if !d.listed {
		d.listed = true
		a.runnable = append(a.runnable, d)
	}
}

// first puts a destination at the head of the next dispatch.
func (a *agenda) first(d *destination) {
	if d.listed {
		a.runnable = slices.DeleteFunc(a.runnable, func(o *destination) bool { return o == d })
	}
	d.listed = true
	a.runnable = slices.Insert(a.runnable, 0, d)
}

// forgetIdle removes a destination without work and without failures.
func (a *agenda) forgetIdle(d *destination) {
	if d.size() == 0 && d.lanes == 0 && d.busy == 0 && d.failures == 0 && !d.listed && d.timer == 0 {
		delete(a.dests, d.name)
	}
}

// timers is a heap of times at which destinations are to be dispatched.
type timers []timer

type timer struct {
	at uint32
	d  *destination
}

// wakeAt schedules a dispatch of a destination.
func (a *agenda) wakeAt(d *destination, at uint32) {
	if d.timer != 0 && d.timer <= at {
		return
	}
	d.timer = at
	h := append(a.timers, timer{at, d})
	for i := len(h) - 1; i > 0; {
		p := (i - 1) / 2
		if h[p].at <= h[i].at {
			break
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
	a.timers = h
}

// fire arranges the destinations whose time has come. It returns the time of the next timer; 0 means none.
func (a *agenda) fire(now uint32) uint32 {
	for len(a.timers) > 0 {
		t := a.timers[0]
		if t.at > now && t.d.timer == t.at {
			return t.at
		}
		h, n := a.timers, len(a.timers)-1
		h[0] = h[n]
		h[n] = timer{}
		h = h[:n]
		for i := 0; ; {
			c := 2*i + 1
			if c >= n {
				break
			}
			if c+1 < n && h[c+1].at < h[c].at {
				c++
			}
			if h[i].at <= h[c].at {
				break
			}
			h[i], h[c] = h[c], h[i]
			i = c
		}
		a.timers = h
		if t.d.timer == t.at {
			t.d.timer = 0
			a.arrange(t.d)
		}
	}
	return 0
}

// failed suspends a destination until a time.
func (d *destination) failed(at time.Time, reply, host string) {
	d.failures++
	d.retryAt, d.reply, d.host = at, reply, host
}

// reached clears the failures.
func (d *destination) reached() {
	d.failures, d.retryAt, d.reply, d.host = 0, time.Time{}, "", ""
}

// heldName is the destination of mail whose route is on hold. Nothing is ever sent there.
const heldName = ""

// destinationOf returns the current destination of a domain's mail. An invalid domain is used unchanged.
func (s *routes) destinationOf(ctx context.Context, domain string) (name string, t outbound.Target, err error) {
	d, ok := outbound.Domain(domain)
	if !ok {
		d = domain
	}
	r, found, err := s.dir.Routes.For(ctx, d)
	if err != nil {
		return "", t, err
	}
	if !found {
		r = s.smarthost
	}
	if r.Hold {
		return heldName, t, nil
	}
	t = outbound.Target{Domain: d, Security: outbound.Security(r.TLS)}
	if t.Security == "" {
		t.Security = outbound.Opportunistic
	}
	if r.Host == "" {
		return d, t, nil
	}
	t.Domain, t.Host, t.Port, t.User, t.Password = "", r.Host, r.Port, r.User, r.Password
	name = r.Host + ":" + strconv.Itoa(max(r.Port, 0))
	if r.User != "" {
		name = r.User + "@" + name
	}
	return name, t, nil
}

// hereName is the destination of waiting recipients that are now local. Nothing is sent there.
const hereName = "\x00"

// destinationFor returns the current destination of a waiting recipient's mail. Mail with a special demand for TLS has
// its own destination, so that it shares no session with other mail.
func (s *routes) destinationFor(ctx context.Context, tls outbound.Demand, q *queue.Recipient,
	to *smtp.Path) (string, outbound.Target, error) {
	name, t, err := s.usualFor(ctx, q, to)
	if name != heldName && name != hereName {
		name, t.TLS = name+tls.Suffix(), tls
	}
	return name, t, err
}

func (s *routes) usualFor(ctx context.Context, q *queue.Recipient, to *smtp.Path) (string, outbound.Target, error) {
	if q.Target.IsZero() {
		return s.destinationOf(ctx, to.Domain)
	}
	if !s.files.away(ctx, q) {
		return hereName, outbound.Target{}, nil
	}
	t, err := s.dir.Names.TargetOf(ctx, q.Target)
	if err != nil {
		return hereName, outbound.Target{}, nil //nolint:nilerr // gone since: who delivers here finds out
	}
	p, err := s.dir.Servers.PlaceOf(ctx, t.MailServer)
	if errors.Is(err, directory.ErrNotFound) {
		p, err = directory.Place{Name: t.MailServer.String()}, nil
	}
	target := outbound.Target{Place: p.Name}
	for _, x := range p.Servers {
		if at := x.Door("smtp"); at != "" {
			target.Peers = append(target.Peers, outbound.Peer{Name: x.Name, Address: at, Key: x.Key})
		}
	}
	return "domain server " + p.Name, target, err
}

// transitOf returns the transit parameter for a message to another place of the domain.
func transitOf(c *consignment) Transit {
	e := c.entry
	t := Transit{ID: note.DeriveUNID(e.ID[:], []byte("transit")), Junk: e.Junk, Unsigned: e.Unsigned, Unproven: true,
		Checked: e.Checker != ""}
	for _, i := range c.index {
		t.Unproven = t.Unproven && e.Recipients[i].Notify == smtp.NotifyNever
	}
	return t
}

// routes determines the destinations of recipients.
type routes struct {
	dir       *directory.Directory
	files     *Files
	smarthost directory.RouteFields
}
