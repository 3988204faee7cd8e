package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// loseRows removes the rows of all copies and opens the store again.
func (m *tierModel) loseRows() {
	m.t.Helper()
	for _, seg := range m.s.Objects().Segments() {
		m.must(m.s.eng.Delete(layout.CopyKey(seg.ID), pebble.Sync))
	}
	m.must(m.s.Close())
	m.reopen(nil)
}

// TestFindSegments loses the rows of evicted segments. Their messages are damaged until the copies are found again.
// Among the copies are one of a removed segment, one of another segment under the name of this one, a text, and those
// that an earlier incarnation wrote.
func TestFindSegments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := evictAll(t, nil)
	m.must(m.s.Rebranch()) // the rows and copies are of an earlier incarnation
	m.create()
	m.must(errors.Join(m.s.Objects().Seal(), m.s.ShipSegments(ctx)))
	m.create() // a segment with a higher number stays
	var names []string
	for id := range uint64(5) {
		if c, ok := m.s.tiers.row(id); ok {
			names = append(names, c.Name)
		}
	}
	if len(names) != 4 {
		t.Fatalf("copies: %v", names)
	}
	second, err := m.place.Get(ctx, names[1], 10<<20)
	m.must(err)
	own := m.s.tiers.copyName(1, &layout.Copy{})
	m.must(errors.Join(m.place.Put(ctx, own, second), m.place.Put(ctx, own+"0", []byte("text")),
		m.place.Put(ctx, m.s.tiers.copyName(77, &layout.Copy{}), second)))
	if n, err := m.s.FindSegments(ctx); n != 0 || err != nil {
		t.Errorf("nothing is lost: %d, %v", n, err)
	}
	m.loseRows()
	broken := func() (n int) {
		for id, raw := range m.mails {
			err := m.s.Read(ctx, note.System, m.db, func(r *Reader) error { return readBack(r, id, raw) })
			if err != nil {
				n++
			}
		}
		return n
	}
	if n := broken(); n != 4 {
		t.Errorf("%d messages cannot be read", n)
	}
	m.place.left = 0
	if n, err := m.s.FindSegments(ctx); n != 0 || !errors.Is(err, ErrAway) {
		t.Errorf("while the place is away: %d, %v", n, err)
	}
	m.place.left = -1
	m.f.Time.Advance(time.Minute)
	if n, err := m.s.FindSegments(ctx); n != 4 || err != nil {
		t.Errorf("found %d, %v", n, err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(m.copies(), func(c layout.Copy) bool { return c.Name == name }) {
			t.Errorf("%s was not found", name)
		}
	}
	m.readAll()
	if n, err := m.s.FindSegments(ctx); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	m.must(m.s.Close())
	m.reopen(nil)
	m.readAll()
	m.must(m.s.Close())

	// With another key, the copies are those of somebody else.
	m.reopen(nil)
	m.must(m.s.eng.Delete(layout.MetaKey(metaCopyKey), pebble.Sync))
	m.loseRows()
	if n, err := m.s.FindSegments(ctx); n != 0 || err != nil || broken() != 4 {
		t.Errorf("with another key: %d, %v", n, err)
	}
	m.must(m.s.Close())
}

// copies returns the rows.
func (m *tierModel) copies() (list []layout.Copy) {
	for id := range uint64(100) {
		if c, ok := m.s.tiers.row(id); ok {
			list = append(list, c)
		}
	}
	return list
}

// TestUnreadableRows changes the rows of two copies. The first pass while the place serves finds the copies, also after
// the rows were cut out of the index. Until then no other segment gets their numbers.
func TestUnreadableRows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := evictAll(t, nil)
	m.must(errors.Join(m.s.eng.Set(layout.CopyKey(2), nil, pebble.Sync),
		m.s.eng.Set(layout.CopyKey(3), []byte("x"), pebble.Sync), m.s.Close()))
	m.reopen(nil)
	if n := m.s.Objects().Stats().Away; n != 1 {
		t.Errorf("%d segments are known", n)
	}
	m.place.left = 0
	if err := m.s.ShipSegments(ctx); !errors.Is(err, ErrAway) {
		t.Errorf("while the place is away: %v", err)
	}
	m.must(errors.Join(m.s.eng.Delete(layout.CopyKey(2), pebble.Sync),
		m.s.eng.Delete(layout.CopyKey(3), pebble.Sync), m.s.Close()))
	m.reopen(nil)
	m.create()
	m.must(m.s.Objects().Seal())
	m.place.left = -1
	m.f.Time.Advance(time.Minute)
	m.must(m.s.ShipSegments(ctx))
	m.readAll()
	if n := m.s.Objects().Stats().Away; n != 4 {
		t.Errorf("%d segments were evicted", n)
	}
	m.must(m.s.Close())
	m.reopen(nil)
	m.readAll()
	if m.s.tiers.incomplete {
		t.Error("it looks for copies again")
	}
	m.must(m.s.Close())
}
