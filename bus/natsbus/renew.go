package natsbus

import (
	"context"
	"errors"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
)

const (
	// firstRenewal is the wait after the first failed attempt; it doubles with each further failure. lastRenewal is the
	// longest wait, and the wait after a success.
	firstRenewal, lastRenewal = time.Second, time.Hour
	// renewalTime is the timeout of one attempt.
	renewalTime = time.Minute
)

// renewal tracks the attempts to renew the certificate. Only the housekeeping goroutine uses it.
type renewal struct {
	last     time.Time // start of the last attempt; zero before the first
	failures int       // failures in a row
}

// due reports whether an attempt is due at the time now, and records it.
func (r *renewal) due(now, at time.Time) bool {
	if now.Before(at) || !r.last.IsZero() && now.Sub(r.last) < r.pause() {
		return false
	}
	r.last = now
	return true
}

// pause returns the minimum time between the last attempt and the next.
func (r *renewal) pause() time.Duration {
	if r.failures == 0 {
		return lastRenewal
	}
	return min(lastRenewal, firstRenewal<<min(r.failures-1, 20))
}

// renew renews the certificate when due. Open links keep the old certificate until it expires; then the mate closes
// them, and new links show the new one.
func (b *Bus) renew() {
	if !b.renewal.due(b.env.Clock.Now(), b.o.Identity.RenewAt()) {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, renewalTime)
	defer cancel()
	if err := b.o.Identity.Renew(ctx, b.askToResign); err != nil {
		b.renewal.failures++
		b.stats.notRenewed.Inc()
		b.env.Log.Warn("cannot renew the cluster certificate, retrying", "until", b.o.Identity.Identity().Until,
			"again", b.renewal.pause(), "error", err)
		return
	}
	b.renewal.failures = 0
	b.stats.renewed.Inc()
	b.env.Log.Info("cluster certificate renewed", "until", b.o.Identity.Identity().Until)
}

// askToResign asks the connected mates for a new certificate, one after another.
func (b *Bus) askToResign(ctx context.Context, request []byte) ([]byte, error) {
	errs := []error{pki.ErrNoKey}
	for _, p := range b.Peers() {
		if !p.Connected {
			continue
		}
		cert, err := b.Request(ctx, p.ID, verbRenew, request)
		if err == nil {
			return cert, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// resign answers a mate's request for a new certificate.
func (b *Bus) resign(_ context.Context, from bus.ServerID, request []byte) ([]byte, error) {
	b.mu.RLock()
	var who pki.Identity
	if m := b.mates[from]; m != nil {
		who = pki.Identity{ID: m.ID, Name: m.Name, Key: m.Key}
	}
	b.mu.RUnlock()
	if who.ID.IsZero() {
		return nil, bus.Refuse(bus.CodeStranger, "no member")
	}
	return b.o.Identity.Resign(who, request)
}
