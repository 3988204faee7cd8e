package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"doublet/note"
)

// TestTransfers checks that an object that several Sends transfer at one time travels once, that one of them tries
// again if the first failed, and that one that is cancelled does not wait.
func TestTransfers(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]error{"it arrives": nil, "the first fails": errors.New("cut")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x Transfers
				var sends atomic.Int32
				open := make(chan struct{})
				send := func() error {
					if sends.Add(1) == 1 {
						<-open
						return failed
					}
					return nil
				}
				one, other := note.Digest{1}, note.Digest{2}
				first := make(chan error, 1)
				go func() { first <- x.once(t.Context(), one, send) }()
				synctest.Wait()
				later := make(chan error, 3)
				for range 3 {
					go func() { later <- x.once(t.Context(), one, send) }()
				}
				gone, cancel := context.WithCancel(t.Context())
				cancel()
				if err := x.once(gone, one, send); !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled: %v", err)
				}
				synctest.Wait()
				if n := sends.Load(); n != 1 {
					t.Errorf("%d sends while the first is under way", n)
				}
				if err := x.once(t.Context(), other, send); err != nil || sends.Load() != 2 {
					t.Errorf("another object: %v, %d sends", err, sends.Load())
				}
				close(open)
				if err := <-first; !errors.Is(err, failed) {
					t.Errorf("the first: %v", err)
				}
				for range 3 {
					if err := <-later; err != nil {
						t.Error(err)
					}
				}
				want := int32(2)
				if failed != nil {
					want = 3
				}
				if n := sends.Load(); failed == nil && n != want || failed != nil && n < want {
					t.Errorf("%d sends, want %d", n, want)
				}
				if len(x.by) != 0 {
					t.Errorf("%d are under way at the end", len(x.by))
				}
			})
		})
	}
}
