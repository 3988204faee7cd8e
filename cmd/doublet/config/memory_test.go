package config

import "testing"

// TestWithin checks that caches and budgets shrink to their share of the memory, and that none grows.
func TestWithin(t *testing.T) {
	t.Parallel()
	c := Default()
	if got := c.Within(64 << 30); got != c {
		t.Error("settings that fit were changed")
	}
	if got := c.Within(0); got != c {
		t.Error("without a bound, settings were changed")
	}
	for m := MinMemory; m <= 4<<30; m *= 2 {
		got := c.Within(m)
		engines := got.Store.CacheSize + 4*got.Store.MemtableSize + got.Search.CacheSize + 4*got.Search.MemtableSize +
			got.Search.DocumentsSize
		if engines > m*5/8 {
			t.Errorf("%s: the engines may take %s", m, engines)
		}
		if got.Limits.MessageMemory < 2*got.Limits.MessageSize {
			t.Errorf("%s: the largest message does not fit into a budget of %s", m, got.Limits.MessageMemory)
		}
		if got.Store.CacheSize > c.Store.CacheSize || got.Replica.ObjectMemory > c.Replica.ObjectMemory {
			t.Errorf("%s: a size grew", m)
		}
	}
}
