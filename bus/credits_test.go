package bus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"doublet/env"
)

// TestCredits checks that requests in flight never exceed the grant, and that at the end no credit is left in use.
func TestCredits(t *testing.T) {
	t.Parallel()
	grant := Grant{Requests: 5, Bytes: 1000}
	c := NewCredits(grant)
	var mu sync.Mutex
	requests, bytes := 0, int64(0)
	var done sync.WaitGroup
	for i := range 30 {
		done.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			for range 200 {
				n := int64(r.IntN(1200))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(2000))*time.Microsecond)
				if c.Take(ctx, n) == nil {
					mu.Lock()
					requests, bytes = requests+1, bytes+n
					if requests > grant.Requests || bytes > grant.Bytes && requests > 1 {
						t.Errorf("%d requests of %d bytes", requests, bytes)
					}
					mu.Unlock()
					if r.IntN(3) == 0 {
						time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
					}
					mu.Lock()
					requests, bytes = requests-1, bytes-n
					mu.Unlock()
					c.Give(n)
				}
				cancel()
			}
		})
	}
	done.Wait()
	if c.requests != 0 || c.bytes != 0 || c.waiting.Len() != 0 {
		t.Errorf("at the end %d requests, %d bytes, %d waiting", c.requests, c.bytes, c.waiting.Len())
	}
}

// TestCreditsOrder checks that credits are granted in FIFO order, and that small requests cannot overtake a large one
// for ever.
func TestCreditsOrder(t *testing.T) {
	t.Parallel()
	c := NewCredits(Grant{Requests: 1, Bytes: 100})
	if err := c.Take(context.Background(), 60); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []int64
	var done sync.WaitGroup
	for i, n := range []int64{70, 10, 20} {
		done.Go(func() {
			if err := c.Take(context.Background(), n); err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
			c.Give(n)
		})
		for _, waiting := c.InFlight(); waiting != i+1; _, waiting = c.InFlight() {
			time.Sleep(time.Millisecond)
		}
	}
	c.Give(60)
	done.Wait()
	if !slices.Equal(order, []int64{70, 10, 20}) {
		t.Errorf("order %v", order)
	}
	c.SetGrant(Grant{Requests: 2, Bytes: 100})
	// A waiting request that is cancelled makes room for those behind it.
	if err := c.Take(context.Background(), 60); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	large, small := make(chan error, 1), make(chan error, 1)
	go func() { large <- c.Take(ctx, 90) }()
	for _, waiting := c.InFlight(); waiting != 1; _, waiting = c.InFlight() {
		time.Sleep(time.Millisecond)
	}
	go func() { small <- c.Take(context.Background(), 30) }()
	for _, waiting := c.InFlight(); waiting != 2; _, waiting = c.InFlight() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-small; err != nil {
		t.Error(err)
	}
	c.SetGrant(Grant{Requests: 1, Bytes: 10})
	go func() { small <- c.Take(context.Background(), 1) }()
	gone := errors.New("gone")
	for _, waiting := c.InFlight(); waiting != 1; _, waiting = c.InFlight() {
		time.Sleep(time.Millisecond)
	}
	c.Close(gone)
	if err := <-small; !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := c.Take(context.Background(), 1); !errors.Is(err, gone) {
		t.Error(err)
	}
}

func TestMemberJSON(t *testing.T) {
	t.Parallel()
	want := []Member{{ID: ServerID{1}, Name: "a", Key: Key{2}, Route: "a:1", Direct: "a:2"}, {}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got []Member
	if err := json.Unmarshal(raw, &got); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: %+v, %v", raw, got, err)
	}
	for _, bad := range []string{`{}`, `{"id":"x","key":""}`,
		`{"id":"01000000000000000000000000000000","key":"00"}`, `7`} {
		var m Member
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s is %+v", bad, m)
		}
	}
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	q := NewQuiet(e.Clock)
	for range 3 {
		shown := 0
		for range 100 {
			if q.Level(slog.LevelWarn) == slog.LevelWarn {
				shown++
			}
			q.Level(slog.LevelDebug)
		}
		if shown != quietLines {
			t.Errorf("%d lines are shown", shown)
		}
		e.Time.Advance(quietTime)
	}
}
