package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"doublet/env/logtail"
	"doublet/note"
	"doublet/stat"
	"doublet/store/blob"
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
		m.damageAt(id, 20_000)
	}
}

func (m *tierModel) damageAt(id uint64, off int64) {
	m.t.Helper()
	f, err := m.f.FS.OpenReadWrite("data/objects/"+object.FileName(id), vfs.WriteCategoryUnspecified)
	m.must(err)
	_, err = f.WriteAt([]byte("damage"), off)
	m.must(errors.Join(err, f.Close()))
}

// withCopies returns a store with three messages, each in a segment on disk that has a copy.
func withCopies(t *testing.T) *tierModel {
	t.Helper()
	m := newRoomyModel(t)
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
	m := newRoomyModel(t)
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

// TestDoubtedCopy damages a segment whose copy cannot be found when it is to be evicted, and then can. The segment is
// healed from it.
func TestDoubtedCopy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	m.must(m.s.Close())
	m.reopen(nil)
	list, err := m.place.List(ctx, "")
	m.must(err)
	name := list[0].Name
	content, err := m.place.Get(ctx, name, list[0].Size)
	m.must(err)
	m.damage([]uint64{1})
	m.must(errors.Join(m.place.Remove(ctx, name), m.s.ShipSegments(ctx)))
	if sum := m.s.tiers.totals(); sum.copies != 3 || sum.lag == 0 {
		t.Errorf("%+v", sum)
	}
	m.must(errors.Join(m.place.Put(ctx, name, content), m.s.ShipSegments(ctx)))
	if sum := m.s.tiers.totals(); sum.healed != 1 || sum.lag != 0 {
		t.Errorf("%+v", sum)
	}
	if n := m.s.Objects().Stats().Away; n != 3 {
		t.Errorf("%d segments were evicted", n)
	}
	m.readAll()
	m.must(m.s.Close())
}

// TestHealBeforeCopying damages segments after a restore, when only the copies of the old incarnation are whole. They
// are healed before new copies are written, also those that nobody has read.
func TestHealBeforeCopying(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	m.must(m.s.Rebranch())
	m.damage([]uint64{1})
	m.readAll()
	m.damage([]uint64{2})
	m.must(m.s.ShipSegments(ctx))
	if ids := m.copied(); len(ids) != 3 {
		t.Errorf("segments with a copy: %v", ids)
	}
	m.healed(2)
}

// TestOldCopyStays lets the first copy after a restore fail. Until it is complete the old one can be read, and if the
// segment is removed then, what was written is removed, too.
func TestOldCopyStays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	h := &hooked{Place: m.place.Place}
	m.place.Place = h
	m.must(m.s.Rebranch())
	h.fn = func() {
		m.damage([]uint64{1, 2, 3})
		m.readAll()
		m.place.left = 1 // the copy is written, but not read back
		m.place.cut = func() {}
	}
	if err := m.s.ShipSegments(ctx); !errors.Is(err, blob.ErrAway) {
		t.Errorf("copy while the place fails: %v", err)
	}
	m.place.left = -1
	if got := m.folders(); len(got) != 2 {
		t.Errorf("copies: %v", got)
	}
	m.must(errors.Join(m.s.tiers.leave(1), m.s.obj.Remove(1), m.s.ShipSegments(ctx)))
	list, err := m.place.List(ctx, fmt.Sprintf("segments/%016x/", m.s.incarnation))
	if err != nil || len(list) != 2 {
		t.Errorf("copies of segments 2 and 3: %v, %v", list, err)
	}
	m.must(m.s.Close())
}

// TestHealDuringPass asks for a segment to be healed while another one is copied. It is healed before the next one is
// copied.
func TestHealDuringPass(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := withCopies(t)
	h := &hooked{Place: m.place.Place}
	m.place.Place = h
	for range 2 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.damage([]uint64{1})
	h.fn = func() {
		if done, err := m.s.HealSegment(ctx, 1); done || !errors.Is(err, ErrShipping) {
			t.Errorf("healed %v: %v", done, err)
		}
		h.fn = func() {
			if n := m.s.tiers.totals().healed; n != 1 {
				t.Errorf("%d segments were healed before the next one was copied", n)
			}
		}
	}
	m.must(m.s.ShipSegments(ctx))
	m.healed(1)
}

// TestCopyOfDamage damages a segment before it has a copy: none is written. A copy with the same damage replaces
// nothing, and one with less damage does.
func TestCopyOfDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	locs := m.segment(10)
	m.damage([]uint64{1})
	if err := m.s.ShipSegments(ctx); err != nil || len(m.folders()) != 0 || !m.s.tiers.unhealed.has(1) {
		t.Errorf("copy of a damaged segment: %v, %v", err, m.folders())
	}
	seg := m.s.Objects().Segments()[0]
	from, err := m.s.obj.OpenSegment(1)
	m.must(err)
	c, err := m.s.tiers.send(ctx, seg, from)
	m.must(errors.Join(err, from.Close(), m.s.tiers.record(1, c)))
	if done, err := m.s.HealSegment(ctx, 1); done || !errors.Is(err, object.ErrLost) {
		t.Errorf("by the same damage: healed %v, %v", done, err)
	}
	m.damageAt(1, int64(locs[6].Offset)+1000)
	if done, err := m.s.HealSegment(ctx, 1); !done || err != nil || m.s.tiers.unhealed.has(1) {
		t.Errorf("by less damage: healed %v, %v", done, err)
	}
	for i, id := range slices.Sorted(maps.Keys(m.mails)) {
		if i > 0 {
			m.read(id, false)
		}
	}
	m.must(m.s.Close())
}

// TestUnhealed damages two of three segments before they have copies. The third one is copied, and no pass fails. It is
// told once, until a mate has mended one message and the other one is removed.
func TestUnhealed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	m.must(m.s.Close())
	m.f.Log = slog.New(logtail.New(m.f.Log.Handler()))
	stats := stat.New(m.f.Clock)
	m.reopen(func(o *Options) { o.Tier.Cache, o.Stats = 1<<40, stats })
	pass := func(copies []uint64, unhealed, told float64) {
		t.Helper()
		m.must(m.s.ShipSegments(ctx))
		v := map[string]float64{}
		for _, e := range stats.Snapshot("Database.DAOS.Copies.*") {
			v[e.Name] = e.Value
		}
		lines, _ := logtail.Of(m.f.Log).Since(0, logtail.Lines, func(l *logtail.Line) bool {
			return l.Text == "a segment is damaged and no copy can replace it"
		})
		if got := m.copied(); !slices.Equal(got, copies) || v["Database.DAOS.Copies.Unhealed"] != unhealed ||
			v["Database.DAOS.Copies.Failures"] != 0 || float64(len(lines)) != told {
			t.Errorf("segments with a copy: %v, want %v; %v; log %v", got, copies, v, lines)
		}
	}
	for range 2 {
		m.segment(1)
	}
	var mate note.Digest
	m.must(m.s.obj.Scan(1, object.ScanOptions{}, func(d object.Digest, _ object.Location) error {
		mate = note.Digest(d)
		return nil
	}))
	content, err := m.s.ObjectBytes(nil, mate, 0, 1<<20)
	m.must(err)
	m.damage([]uint64{1, 2})
	pass(nil, 2, 2)
	m.segment(1)
	pass([]uint64{3}, 2, 2)
	m.must(m.s.MendObject(ctx, ObjectRef{mate, uint64(len(content))}, content))
	m.must(m.s.Objects().Seal())
	pass([]uint64{1, 3, 4}, 1, 2)
	m.removeBut(0, 2)
	pass([]uint64{1, 2, 3, 4}, 0, 2)
	m.readAll()
	m.must(m.s.Close())
}

// TestHealedByNothing damages an object in the file of a segment, and another one in its copy. Neither can replace the
// other, so the first is read from the copy, and a pass tries once. A rewrite takes both, and nothing is told any more.
func TestHealedByNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	locs := m.segment(10)
	m.must(m.s.ShipSegments(ctx))
	m.damage([]uint64{1})
	c, _ := m.s.tiers.row(1)
	b, err := m.place.Get(ctx, c.Name, 10<<20)
	m.must(err)
	b[locs[6].Offset+locs[6].Stored/2] ^= 1
	m.must(m.place.Put(ctx, c.Name, b))
	m.readAll()
	m.must(m.s.ShipSegments(ctx))
	m.readAll()
	if sum := m.s.tiers.totals(); sum.failures != 0 || sum.healed != 0 || !m.s.tiers.unhealed.has(1) ||
		len(m.s.tiers.damaged) != 0 {
		t.Errorf("%+v, damaged: %v", sum, m.s.tiers.damaged)
	}
	m.removeBut(0, 6)
	_, err = m.s.Rewrite(ctx)
	m.must(errors.Join(err, m.s.ShipSegments(ctx)))
	if m.s.tiers.unhealed.count() != 0 {
		t.Error("the segment is gone and still counts as damaged")
	}
	m.readAll()
	m.must(m.s.Close())
}

// segment creates n messages in one segment, and returns the places of their objects.
func (m *tierModel) segment(n int) (locs []object.Location) {
	m.t.Helper()
	for range n {
		m.create()
	}
	m.must(m.s.Objects().Seal())
	segments := m.s.Objects().Segments()
	m.must(m.s.obj.Scan(segments[len(segments)-1].ID, object.ScanOptions{},
		func(_ object.Digest, loc object.Location) error {
			locs = append(locs, loc)
			return nil
		}))
	if len(locs) != n {
		m.t.Fatalf("%d objects in %d messages", len(locs), n)
	}
	return locs
}

// removeBut removes all messages but those with these indexes, in the order of their creation.
func (m *tierModel) removeBut(keep ...int) {
	m.t.Helper()
	for i, id := range slices.Sorted(maps.Keys(m.mails)) {
		if !slices.Contains(keep, i) {
			m.remove(id)
		}
	}
	for range 3 {
		_, err := m.s.Sweep(context.Background(), 100)
		m.must(err)
	}
}

// TestRewriteFromBoth rewrites a segment with one live object that is damaged in the file, and another one that is
// damaged in the copy. None is lost.
func TestRewriteFromBoth(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	locs := m.segment(10)
	m.must(m.s.ShipSegments(ctx))
	m.removeBut(0, 6)
	m.damage([]uint64{1})
	c, _ := m.s.tiers.row(1)
	b, err := m.place.Get(ctx, c.Name, 10<<20)
	m.must(err)
	b[locs[6].Offset+locs[6].Stored/2] ^= 1
	m.must(m.place.Put(ctx, c.Name, b))
	if n, err := m.s.Rewrite(ctx); err != nil || n <= 0 {
		t.Errorf("rewrite: %d bytes, %v", n, err)
	}
	m.healed(0)
}

// TestRewriteWithoutPlace rewrites a damaged segment while the setting for the place is empty. It is put off.
func TestRewriteWithoutPlace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	m.segment(10)
	m.must(m.s.ShipSegments(ctx))
	m.removeBut(0)
	m.damage([]uint64{1})
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier = nil })
	if _, err := m.s.Rewrite(ctx); !errors.Is(err, ErrAway) {
		t.Errorf("rewrite: %v", err)
	}
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
	m.readAll()
	m.must(m.s.ShipSegments(ctx))
	m.healed(1)
}

// TestRewriteGoesOn rewrites an evicted segment behind one on disk that is damaged and whose copy is gone. The error
// tells of that one.
func TestRewriteGoesOn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	m.segment(10)
	m.segment(10)
	m.must(m.s.ShipSegments(ctx))
	m.removeBut(0, 10)
	m.damage([]uint64{1})
	c, _ := m.s.tiers.row(1)
	m.must(errors.Join(m.place.Place.Remove(ctx, c.Name), m.s.obj.Eviction.Evict(2)))
	if n, err := m.s.Rewrite(ctx); n <= 0 || !errors.Is(err, errUnhealed) {
		t.Errorf("rewrite: %d bytes, %v", n, err)
	}
	m.must(m.s.Close())
}
