package backup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"doublet/env"
	"doublet/store"
	"doublet/store/blob"
	"doublet/store/tier"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// switched is a place that can be away.
type switched struct {
	blob.Place
	away bool
}

// Open implements blob.Place.
func (s *switched) Open(ctx context.Context, name string) (blob.Reader, error) {
	if s.away {
		return nil, fmt.Errorf("%w: test", blob.ErrAway)
	}
	return s.Place.Open(ctx, name)
}

// TestEvictedSegments backs up a store whose segments are in another place. A backup reads what it does not have from
// there, and needs the place for nothing else. A restored store has all segments, and needs no place.
func TestEvictedSegments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	files := vfs.NewMem()
	if err := files.MkdirAll("place", 0o700); err != nil {
		t.Fatal(err)
	}
	place := &switched{Place: blob.Folder(files, "place")}
	o := storeOptions()
	copier := func(e *env.Env, keys blob.Keys) store.Copier { return tier.New(e, place, keys, 0) }
	o.Tier = &store.Tier{Copier: copier}
	m := newModelIn(t, env.Test(t), o)
	evict := func() {
		t.Helper()
		place.away = false
		m.f.Time.Advance(1e10) // after a failed read there is a pause
		if err := errors.Join(m.s.Objects().Seal(), m.s.ShipSegments(ctx)); err != nil {
			t.Fatal(err)
		}
		if st := m.s.Objects().Stats(); st.Away == 0 || st.Bytes != 0 {
			t.Fatalf("not all segments are evicted: %+v", st)
		}
	}
	take := func() {
		t.Helper()
		g, err := Take(ctx, m.f.Env, m.s, "backup", Options{})
		if err != nil {
			t.Fatal(err)
		}
		dir := fmt.Sprint("restored", g.Number)
		m.put(m.f.Env, g.Number, dir)
		m.compare(m.f.Env, dir, m.done(), m.done())
	}
	m.steps(200, 1)
	evict()
	take()
	place.away = true
	m.steps(30, 2)
	take()
	m.steps(30, 3)
	evict()
	place.away = true
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err == nil {
		t.Error("a backup without what is in the other place")
	}
	place.away = false
	m.f.Time.Advance(1e10)
	take()
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}
