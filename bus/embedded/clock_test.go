package embedded

import (
	"context"
	"io"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
)

// TestClockBehind checks that servers whose environment clock is far behind or ahead reach each other. Socket deadlines
// must use the system's time.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := bustest.Found(t)
			w := world{f}
			a, b := w.server("a"), w.server("b")
			x, y := openAt(t, f, a, 1, by, nil), openAt(t, f, b, 2, by, nil)
			y.Handle("test.here", func(context.Context, bus.ServerID,
				[]byte) ([]byte, error) {
				return []byte("yes"), nil
			})
			y.HandleStream("test.turn", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
				_, err := io.Copy(s, s)
				return err
			})
			members := []bus.Member{a.member, b.member}
			x.SetMembers(members)
			y.SetMembers(members)
			bustest.Eventually(t, "a request is answered", func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				_, err := x.Request(ctx, b.member.ID, "test.here", nil)
				return err
			})
			for range 3 { // the later ones reuse the connection of the first
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				s, err := x.Stream(ctx, b.member.ID, "test.turn", nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Write([]byte("there and back")); err != nil {
					t.Fatal(err)
				}
				if err := s.CloseWrite(); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(s); err != nil || string(got) != "there and back" {
					t.Fatalf("%q, %v", got, err)
				}
				_ = s.Close()
				cancel()
			}
		})
	}
}
