package cluster

import (
	"fmt"
	"testing"
	"time"

	"doublet/env"
)

func TestIndex(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expansion float64
		want      int
	}{{1, 100}, {2, 83}, {4, 67}, {8, 50}, {16, 33}, {32, 17}, {64, 0}, {1000, 0}} {
		if got := indexOf(c.expansion, 6); got != c.want {
			t.Errorf("expansion %v: index %d, want %d", c.expansion, got, c.want)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	clock := env.NewManual(env.TestStart)
	l := NewLoad(clock, 0)
	if l.Index() != 100 {
		t.Errorf("a server without work has index %d", l.Index())
	}
	observe := func(op string, n int, took time.Duration) {
		for range n {
			l.Observe(op, took)
		}
	}
	// Two windows with little load set the best means.
	for range 2 {
		observe("FETCH", 100, 2*time.Millisecond)
		observe("APPEND", 30, 10*time.Millisecond)
		clock.Advance(loadWindow)
	}
	if e := l.Expansion(); e != 1 {
		t.Errorf("quiet work expands by %v", e)
	}
	// A window of few operations does not set the best mean.
	observe("FETCH", 3, time.Microsecond)
	clock.Advance(loadWindow * (loadWindows + 1))
	observe("FETCH", 100, 8*time.Millisecond)
	observe("APPEND", 100, 40*time.Millisecond)
	if e := l.Expansion(); e < 3.99 || e > 4.01 {
		t.Errorf("four times as slow expands by %v", e)
	}
	if i := l.Index(); i != 67 {
		t.Errorf("index %d, want 67", i)
	}
	// Windows older than 75 s do not count.
	clock.Advance(loadWindow * (loadWindows + 1))
	if i := l.Index(); i != 100 {
		t.Errorf("index %d after a pause", i)
	}
	// A restart keeps the best means, so a slow start does not set the standard.
	m := NewLoad(clock, 0)
	m.SetBest(l.Best())
	for range 100 {
		m.Observe("FETCH", 16*time.Millisecond)
	}
	if e := m.Expansion(); e < 7.99 || e > 8.01 {
		t.Errorf("after a restart: expansion %v, want 8", e)
	}
	// The number of types is limited.
	for i := range 1000 {
		m.Observe(fmt.Sprint("op", i), time.Millisecond)
	}
	if n := len(m.ops); n > maxOps+1 {
		t.Errorf("%d operation types", n)
	}
}
