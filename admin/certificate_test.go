package admin

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// keeper manages one certificate, as a running server does.
type keeper struct {
	mu      sync.Mutex
	renewed int
	keys    int
}

func (k *keeper) Show() []Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := Certificate{Names: []string{"mx.example.com"}, From: "self-signed", Until: time.Unix(2_000_000_000, 0).UTC(),
		Days: 90, SPKI: fmt.Sprintf("key-%d", k.keys), Default: true}
	if k.renewed > 0 {
		c.Renew = time.Unix(1_000_000_000, 0).UTC()
	}
	return []Certificate{c}
}

func (k *keeper) Renew(_ context.Context, name string, newKey bool) error {
	if name != "" && name != "mx.example.com" {
		return fmt.Errorf("%w: no certificate is kept for %s", ErrUsage, name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.renewed++; newKey {
		k.keys++
	}
	return nil
}

func (k *keeper) Leaf(string) *x509.Certificate { return nil }

// TestHealth checks that health returns the problem in a state that determines the exit code. Without a server it
// reports that.
func TestHealth(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, want := range []string{"ok", "the disk is full"} {
		s.Health = func(context.Context) error {
			if want == "ok" {
				return nil
			}
			return errors.New(want)
		}
		if got := must[Healthy](t, s, "health", struct{}{}); got.State != want || got.Bad() != (want != "ok") {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	for _, verb := range []string{"health", "certificate show", "certificate renew"} {
		if _, err := (Direct{s.System}).Call(context.Background(), verb, nil, nil); Kind(err) != "stopped" {
			t.Errorf("%s: %v", verb, err)
		}
	}
}
