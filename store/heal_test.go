package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"doublet/note"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// copied returns the segments on disk that have a copy.
func (m *tierModel) copied() (ids []uint64) {
	for _, seg := range m.s.Objects().Segments() {
		if seg.Sealed && !seg.Away && m.s.tiers.copied(seg) {
			ids = append(ids, seg.ID)
		}
	}
	return ids
}

// damage changes bytes in the files of segments.
func (m *tierModel) damage(ids []uint64) {
	m.t.Helper()
	for _, id := range ids {
		f, err := m.f.FS.OpenReadWrite("data/objects/"+object.FileName(id), vfs.WriteCategoryUnspecified)
		m.must(err)
		_, err = f.WriteAt([]byte("damage"), 20_000)
		m.must(errors.Join(err, f.Close()))
	}
}

// withCopies returns a store with three messages, each in a segment on disk that has a copy.
func withCopies(t *testing.T) *tierModel {
	t.Helper()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
	for range 3 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.must(m.s.ShipSegments(context.Background()))
	return m
}

// readAll reads all messages, which must be right.
func (m *tierModel) readAll() {
	m.t.Helper()
	for id := range m.mails {
		m.read(id, false)
	}
}

// healed checks the number of segments that were replaced, and that nothing needs the copies any more.
func (m *tierModel) healed(want uint64) {
	m.t.Helper()
	if n := m.s.tiers.totals().healed; n != want {
		m.t.Errorf("%d segments were healed, want %d", n, want)
	}
	m.place.left = 0
	m.readAll()
	m.must(m.s.Close())
}

// TestHeal damages the files of segments while the store is open. Messages are read from the copies,
// and the next pass replaces the files. While the place is away, the messages are reported as damaged.
func TestHeal(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	m.damage([]uint64{1, 2, 3})
	m.place.left = 0
	for id := range m.mails {
		if err := m.s.Read(ctx, note.System, m.db, func(r *Reader) error {
			return readBack(r, id, m.mails[id])
		}); !errors.Is(err, ErrDamaged) {
			t.Errorf("read while the place is away: %v", err)
		}
	}
	m.place.left = -1
	m.f.Time.Advance(time.Minute)
	m.readAll()
	m.place.percent = 100
	if err := m.s.ShipSegments(ctx); !errors.Is(err, ErrAway) {
		t.Errorf("heal while the place fails: %v", err)
	}
	m.place.percent = 0
	m.readAll() // the damaged files are not given up
	m.must(m.s.ShipSegments(ctx))
	m.healed(3)
}

// TestHealBeforeRewrite damages a live object in a segment that is rewritten. It is not lost with the segment.
func TestHealBeforeRewrite(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
	for range 3 {
		m.create()
	}
	m.must(m.s.Objects().Seal())
	m.must(m.s.ShipSegments(ctx))
	keep := slices.Min(slices.Collect(maps.Keys(m.mails)))
	for id := range m.mails {
		if id != keep {
			m.remove(id)
		}
	}
	for range 3 {
		_, err := m.s.Sweep(ctx, 100)
		m.must(err)
	}
	m.damage([]uint64{1})
	m.place.percent = 100
	if _, err := m.s.Rewrite(ctx); !errors.Is(err, ErrAway) {
		t.Errorf("rewrite while the place fails: %v", err)
	}
	m.place.percent = 0
	if n, err := m.s.Rewrite(ctx); err != nil || n <= 0 {
		t.Errorf("rewrite: %d bytes, %v", n, err)
	}
	m.healed(1)
}

// TestDamagedCopy damages a segment whose copy is changed, too. The message is damaged, and nothing is replaced.
func TestDamagedCopy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	list, err := m.place.List(ctx, "")
	m.must(err)
	m.must(m.place.Put(ctx, list[0].Name, make([]byte, list[0].Size)))
	m.damage([]uint64{1})
	if done, err := m.s.HealSegment(ctx, 1); done || !errors.Is(err, object.ErrLost) {
		t.Errorf("healed %v: %v", done, err)
	}
	ids := slices.Sorted(maps.Keys(m.mails))
	if err := m.s.Read(ctx, note.System, m.db, func(r *Reader) error {
		return readBack(r, ids[0], m.mails[ids[0]])
	}); !errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	m.must(m.s.ShipSegments(ctx))
	m.read(ids[1], false)
	m.must(m.s.Close())
}
