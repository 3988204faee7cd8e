package store

import (
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
)

// TestCacheStatistics checks the statistics by which an administrator sees that the database cache is too small.
func TestCacheStatistics(t *testing.T) {
	f := env.TestRealTime(t)
	o := crashOptions()
	o.Databases, o.Stats = 2, stat.New(f.Env.Clock)
	s, err := Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 4 {
		db, err := s.CreateDatabase(note.System, Create{Title: "a", Kind: "a"})
		if err != nil {
			t.Fatal(err)
		}
		has(t, s, db)
	}
	want := map[string]float64{"Database.DbCache.CurrentEntries": 2, "Database.DbCache.MaxEntries": 2,
		"Database.DbCache.HighWaterMark": 2, "Database.DbCache.OvercrowdingRejections": 2,
		"Database.BufferPool.Maximum": float64(o.CacheSize)}
	for _, e := range o.Stats.Snapshot("Database.*") {
		v, listed := want[e.Name]
		if delete(want, e.Name); listed && v != e.Value {
			t.Errorf("%s is %v, want %v", e.Name, e.Value, v)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// TestPoolPeak checks that the peak of the buffer pool stays when the pool becomes smaller.
func TestPoolPeak(t *testing.T) {
	t.Parallel()
	var p poolPeak
	for _, c := range []struct{ size, want int64 }{{0, 0}, {50, 50}, {20, 50}, {70, 70}, {70, 70}, {1, 70}} {
		if got := p.seen(c.size); got != c.want {
			t.Errorf("after %d bytes the peak is %d, want %d", c.size, got, c.want)
		}
	}
}
