package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// Put implements blob.Place.
func (s *shaky) Put(ctx context.Context, name string, content []byte) error {
	if _, err := s.request(); err != nil {
		return err
	}
	return s.Place.Put(ctx, name, content)
}

// folders returns the folders of segments at the place, with the number of copies in each.
func (m *tierModel) folders() map[string]int {
	m.t.Helper()
	list, err := m.place.List(context.Background(), "segments/")
	m.must(err)
	out := map[string]int{}
	for _, b := range list {
		out[strings.Split(b.Name, "/")[1]]++
	}
	return out
}

// tidyDays calls RemoveOldCopies once a day.
func (m *tierModel) tidyDays(n int) {
	m.t.Helper()
	for range n {
		m.must(m.s.RemoveOldCopies(context.Background()))
		m.f.Time.Advance(25 * time.Hour)
	}
}

// restoredWithCopies returns a store with three segments, each with a copy of the incarnation before a restore and one
// of its own.
func restoredWithCopies(t *testing.T) *tierModel {
	t.Helper()
	m := withCopies(t)
	m.must(m.s.Rebranch())
	m.must(m.s.ShipSegments(context.Background()))
	return m
}

// TestOldCopies gives the store a new incarnation while some segments are evicted. The copies of the old one are
// removed after 30 days, but those that a row names, and those of another store. A restart and a place that fails at
// times change nothing.
func TestOldCopies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newTierModel(t, 0)
	other := newTierModel(t, 0)
	other.place.Place = m.place.Place
	m.must(other.s.Rebranch()) // the random numbers of tests repeat
	other.create()
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
	for range 3 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.must(errors.Join(m.s.ShipSegments(ctx), other.s.Objects().Seal(), other.s.ShipSegments(ctx)))
	m.must(m.s.obj.Eviction.Evict(1))
	m.must(m.s.Rebranch())
	m.s.opt.Tier.Cache = 1 // so that nothing is recalled
	m.must(m.s.ShipSegments(ctx))
	before := m.folders()
	m.tidyDays(15)
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache = 1 })
	m.place.percent = 100
	if err := m.s.RemoveOldCopies(ctx); err == nil {
		t.Error("no error while the place fails")
	}
	m.place.percent = 0
	m.tidyDays(13)
	if got := m.folders(); len(before) != 3 || len(got) != 3 {
		t.Errorf("after 28 days: %v, before %v", got, before)
	}
	m.tidyDays(3)
	copies := 0
	for _, n := range m.folders() {
		copies += n
	}
	if copies != 4 { // one that is named, one of the other store, two that were written again
		t.Errorf("after 31 days: %v", m.folders())
	}
	for _, s := range []*tierModel{m, other} {
		s.readAll()
		s.must(s.s.Close())
	}
}

// TestOldCopiesInUse lets the old incarnation give signs of life. Its copies stay.
func TestOldCopiesInUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	old := m.s.incarnation
	m.must(m.s.Rebranch())
	m.must(m.s.ShipSegments(ctx))
	for day := range 80 {
		if day%20 == 0 {
			m.must(m.place.Put(ctx, signName(old), []byte{0, 0, 0, 0, 0, 0, 0, byte(day)}))
		}
		m.tidyDays(1)
	}
	if got := m.folders(); len(got) != 2 {
		t.Errorf("%v", got)
	}
	m.tidyDays(12)
	if got := m.folders(); len(got) != 1 {
		t.Errorf("without signs: %v", got)
	}
	if list, err := m.place.List(ctx, "alive/"); err != nil || len(list) != 1 {
		t.Errorf("signs: %v, %v", list, err)
	}
	m.must(m.s.Close())
}

// TestOldCopiesClock starts the store with a clock that is 40 days ahead. Only days that were seen to pass count.
func TestOldCopiesClock(t *testing.T) {
	t.Parallel()
	m := restoredWithCopies(t)
	m.tidyDays(2)
	m.must(m.s.Close())
	m.f.Time.Advance(40 * 24 * time.Hour)
	m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
	m.tidyDays(25)
	if got := m.folders(); len(got) != 2 {
		t.Errorf("after 27 days: %v", got)
	}
	m.tidyDays(5)
	if got := m.folders(); len(got) != 1 {
		t.Errorf("after 32 days: %v", got)
	}
	m.must(m.s.Close())
}

// TestOldCopiesRestored restores a store that last looked at old copies long ago. The time before does not count.
func TestOldCopiesRestored(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := restoredWithCopies(t)
	m.tidyDays(29)
	m.f.Time.Advance(40 * 24 * time.Hour)
	m.must(m.s.Rebranch())
	m.must(m.s.ShipSegments(ctx))
	m.tidyDays(28)
	if got := m.folders(); len(got) != 3 {
		t.Errorf("after 28 days: %v", got)
	}
	m.tidyDays(3)
	if got := m.folders(); len(got) != 1 {
		t.Errorf("after 31 days: %v", got)
	}
	m.must(m.s.Close())
}

// TestOldCopiesOfAnother lets a third incarnation give signs of life, which has no copies of its own. It may need those
// of the first.
func TestOldCopiesOfAnother(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := restoredWithCopies(t)
	for day := range 80 {
		if day%20 == 0 {
			m.must(m.place.Put(ctx, signName(7), []byte{0, 0, 0, 0, 0, 0, 0, byte(day)}))
		}
		m.tidyDays(1)
	}
	if got := m.folders(); len(got) != 2 {
		t.Errorf("%v", got)
	}
	m.tidyDays(12)
	if list, err := m.place.List(ctx, "alive/"); err != nil || len(list) != 1 || len(m.folders()) != 1 {
		t.Errorf("without signs: %v, signs %v, %v", m.folders(), list, err)
	}
	m.must(m.s.Close())
}

// TestOldCopiesDamaged damages one old copy. The others are removed.
func TestOldCopiesDamaged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	list, err := m.place.List(ctx, "segments/")
	m.must(err)
	m.must(m.place.Put(ctx, list[0].Name, []byte("damaged")))
	m.must(m.s.Rebranch())
	m.must(m.s.ShipSegments(ctx))
	m.tidyDays(32)
	copies := 0
	for _, n := range m.folders() {
		copies += n
	}
	if copies != 4 { // three that were written again, and the damaged one
		t.Errorf("%v", m.folders())
	}
	m.must(m.s.Close())
}
