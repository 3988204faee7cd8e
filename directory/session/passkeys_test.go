package session

import (
	"testing"
	"time"
)

// TestPasskeyUses checks that a signature counter must increase, also after a restart, that 0 is no counter, and that
// people and passkeys have their own.
func TestPasskeyUses(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	use := func(want bool, counter uint32) {
		t.Helper()
		if ok, err := w.UsePasskey(bg, alice, "k", counter); err != nil || ok != want {
			t.Fatalf("counter %d: %v %v", counter, ok, err)
		}
	}
	last := func(want uint32, at time.Time) {
		t.Helper()
		if got, err := w.PasskeyUse(bg, alice, "k"); err != nil || got.Counter != want || !got.At.Equal(at) {
			t.Fatalf("last use: %+v %v, want %d at %v", got, err, want, at)
		}
	}
	last(0, time.Time{})
	for range 2 { // a synchronized passkey
		use(true, 0)
	}
	use(true, 7)
	at := w.now()
	w.fix.Time.Advance(time.Minute)
	for _, back := range []uint32{7, 6, 0} {
		use(false, back)
	}
	last(7, at)
	w.stop()
	w.start()
	use(false, 7)
	use(true, 8)
	last(8, at.Add(time.Minute))
	if ok, err := w.UsePasskey(bg, bob, "k", 1); err != nil || !ok {
		t.Errorf("the counter of another person counts: %v", err)
	}
	if ok, err := w.UsePasskey(bg, alice, "other", 1); err != nil || !ok {
		t.Errorf("the counter of another passkey counts: %v", err)
	}
	// After its time a use is forgotten.
	w.fix.Time.Advance(passkeyKept + time.Hour)
	if n, err := w.Sweep(bg); err != nil || n < 3 {
		t.Errorf("swept %d, %v", n, err)
	}
	last(0, time.Time{})
	use(true, 1)
}
