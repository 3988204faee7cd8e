package verify

import (
	"container/list"
	"crypto/sha256"
	"net/netip"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/wire/smtp"
)

// Lifetimes of greylist entries. A sender that has not retried is forgotten after a day; one that has retried is known
// for a month after its last message.
const (
	retryWindow = 24 * time.Hour
	knownFor    = 31 * 24 * time.Hour
)

// greylist defers the first attempt of an unknown triplet, because legitimate senders retry. It is kept in memory: a
// restart costs a delay, but no mail. Addresses are replaced by their networks (/24, /64), because large senders retry
// from other machines.
//
// Implements: RFC 6647 §2.4 SMTP RCPT greylisting
type greylist struct {
	env   *env.Env
	delay time.Duration
	most  int

	// If the list is full, fresh entries are evicted before known ones. A flood of new senders then delays only new
	// senders.
	mu    sync.Mutex
	byKey map[triplet]*list.Element
	fresh list.List // of *attempt, the last seen first
	known list.List
}

// triplet is a hash of network, sender and recipient: 128 bits of SHA-256, for which collisions cannot be found in
// practice.
type triplet [16]byte

type attempt struct {
	key         triplet
	first, last time.Time
	known       bool
}

func newGreylist(e *env.Env, delay time.Duration, most int) *greylist {
	return &greylist{env: e, delay: delay, most: most, byKey: map[triplet]*list.Element{}}
}

func (g *greylist) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byKey)
}

// Greylisted returns the rejection (451) of an unknown combination of client, sender and recipient. It returns nil for
// a known one, and if greylisting is off.
func (v *Verifier) Greylisted(ip netip.Addr, from, to smtp.Path) *smtp.Reply {
	if v.grey == nil || v.Exempt(ip) || v.grey.pass(tripletOf(ip.Unmap(), from, to)) {
		return nil
	}
	v.greylisted.Inc()
	return replyGrey
}

var replyGrey = smtp.NewReply(451, 4, 7, 1, "Greylisted: try again in a few minutes")

func tripletOf(ip netip.Addr, from, to smtp.Path) triplet {
	bits := 64
	if ip.Is4() {
		bits = 24
	}
	network, _ := ip.WithZone("").Prefix(bits)
	var room [512]byte
	text := network.Addr().AppendTo(room[:0])
	for _, p := range [...]smtp.Path{from, to} {
		text = append(append(append(append(text, 0), strings.ToLower(p.Local)...), '@'), strings.ToLower(p.Domain)...)
	}
	sum := sha256.Sum256(text)
	return triplet(sum[:16])
}

func (g *greylist) pass(key triplet) bool {
	now := g.env.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.byKey[key]
	if e != nil {
		a := e.Value.(*attempt)
		keep := retryWindow
		if a.known {
			keep = knownFor
		}
		if now.Sub(a.last) < keep {
			switch {
			case a.known:
				g.known.MoveToFront(e)
			case now.Sub(a.first) >= g.delay:
				g.fresh.Remove(e)
				a.known = true
				g.byKey[key] = g.known.PushFront(a)
			default:
				g.fresh.MoveToFront(e)
				return false
			}
			a.last = now
			return true
		}
		g.drop(e)
	}
	g.byKey[key] = g.fresh.PushFront(&attempt{key: key, first: now, last: now})
	for len(g.byKey) > g.most {
		// The newest entry stays, so that it can become known on the retry.
		if e := g.fresh.Back(); g.fresh.Len() > max(1, g.most/10) || g.known.Len() == 0 {
			g.drop(e)
		} else {
			g.drop(g.known.Back())
		}
	}
	return false
}

func (g *greylist) drop(e *list.Element) {
	a := e.Value.(*attempt)
	delete(g.byKey, a.key)
	if a.known {
		g.known.Remove(e)
	} else {
		g.fresh.Remove(e)
	}
}
