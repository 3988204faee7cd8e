package main

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"doublet/cmd/doublet/config"
)

// TestShareOfMachine checks the memory that a server takes by default, by what the machine and its control group allow.
func TestShareOfMachine(t *testing.T) {
	t.Parallel()
	known := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	unknown := func() (uint64, error) { return 0, errors.New("unknown") }
	for _, c := range []struct {
		name          string
		group, system func() (uint64, error)
		want          int64
	}{
		{"no group", unknown, known(8 << 30), 4 << 30},
		{"a small group", known(1000 << 20), known(8 << 30), 800 << 20},
		{"a large group", known(8 << 30), known(8 << 30), 4 << 30},
		{"a group without a limit", known(math.MaxUint64), known(8 << 30), 4 << 30},
		{"a group only", known(1000 << 20), unknown, 800 << 20},
		{"a tiny machine", unknown, known(64 << 20), int64(config.MinMemory)},
		{"neither", unknown, unknown, 0},
	} {
		if got := shareOfMachine(c.group, c.system); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}

// TestBoundMemory checks that the setting becomes the runtime's limit, and that GOMEMLIMIT bounds the caches as well.
func TestBoundMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	cfg := config.Default()
	cfg.Server.Memory = 256 << 20
	got := boundMemory(cfg)
	if limit := debug.SetMemoryLimit(-1); limit != 256<<20-beside {
		t.Errorf("the limit is %d", limit)
	}
	if got.Store.CacheSize != 64<<20 {
		t.Errorf("the cache is %s", got.Store.CacheSize)
	}
	cfg.Server.Memory = 0
	debug.SetMemoryLimit(200 << 20)
	if got := boundMemory(cfg); got.Store.CacheSize != 50<<20 || debug.SetMemoryLimit(-1) != 200<<20 {
		t.Errorf("with GOMEMLIMIT of 200 MB: the cache is %s", got.Store.CacheSize)
	}
}

// held keeps the memory of TestReturner allocated until the test drops it.
var held []byte

// TestReturner checks that a quiet server gives back what was freed.
func TestReturner(t *testing.T) {
	r := new(returner)
	held = make([]byte, 256<<20)
	for i := range held {
		held[i] = 1
	}
	held = nil
	before := unreturned()
	// Each run after the first finds a quiet process, unless another test in this process makes garbage.
	for range 100 {
		if err := r.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if unreturned() < before-128<<20 {
			return
		}
	}
	t.Errorf("%d MB before, %d MB after", before>>20, unreturned()>>20)
}
