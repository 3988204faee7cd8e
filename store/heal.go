package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"
)

// spare returns the copy that can replace the file of a segment. It may be of another incarnation: sealed segments do
// not change.
func (t *tiers) spare(id uint64) (c layout.Copy, ok bool) {
	c, ok = t.row(id)
	return c, ok && !c.Gone && slices.ContainsFunc(t.obj.Segments(), func(seg object.SegmentInfo) bool {
		return seg.ID == id && seg.Sealed && !seg.Away && seg.Size == c.Size
	})
}

// read reads a range of an object from the copy of its segment, whose file is damaged as cause says. If it can, the
// next pass heals the file.
func (t *tiers) read(loc object.Location, d note.Digest, off, n int64, dst []byte, cause error) ([]byte, error) {
	if _, ok := t.spare(loc.Segment); !ok {
		return nil, object.ErrNotFound
	}
	out, _, err := t.obj.Eviction.ReadCopy(loc, object.Digest(d), off, n, dst)
	if err != nil {
		return nil, err
	}
	if t.unhealed.has(loc.Segment) {
		return out, nil
	}
	t.mu.Lock()
	known := t.damaged[loc.Segment]
	t.damaged[loc.Segment] = true
	t.mu.Unlock()
	if !known {
		t.log.Error("a segment is damaged, it is read from its copy", "segment", loc.Segment, "err", cause)
	}
	return out, nil
}

// healAll heals the segments that are known to be damaged. One whose copy is damaged, too, is unhealed.
func (t *tiers) healAll(ctx context.Context) (failed error) {
	t.mu.Lock()
	ids := slices.Sorted(maps.Keys(t.damaged))
	t.mu.Unlock()
	for _, id := range ids {
		_, err := t.heal(ctx, id)
		if c, ok := t.row(id); ok && errors.Is(err, object.ErrLost) {
			var hit []placed
			if hit, err = t.hit(ctx, id, c.Size); len(hit) > 0 {
				t.unhealed.add(id, hit)
			}
		}
		failed = errors.Join(failed, err)
		if errors.Is(err, ErrAway) || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// heal replaces the file of a segment by its copy, and reports whether it did. It does nothing for a segment that has
// no copy or is evicted. The error is object.ErrLost if the copy is damaged, too. The caller holds passing.
func (t *tiers) heal(ctx context.Context, id uint64) (done bool, err error) {
	c, ok := t.spare(id)
	if ok && t.away == nil {
		return false, fmt.Errorf("%w: the setting data.segments_archive is empty", ErrAway)
	}
	if ok && !t.space.forSegments(c.Size) {
		return false, fmt.Errorf("%w: to heal segment %d", ErrNoSpace, id)
	}
	if ok {
		err = t.obj.Eviction.Heal(id, func(w io.Writer) error { return t.away.Fetch(ctx, &c, w) },
			func(copied []object.DamagedRange) error { return t.better(ctx, id, c.Size, copied) })
	}
	switch {
	case errors.Is(err, object.ErrNotFound): // it was rewritten
		ok, err = false, nil
	case errors.Is(err, blob.ErrAway) || errors.Is(err, blob.ErrNotFound): // the place may be another than it should be
		return false, fmt.Errorf("%w: %w", ErrAway, err)
	case err != nil && !errors.Is(err, object.ErrLost):
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.damaged, id)
	if !ok || err != nil {
		return false, err
	}
	t.healed++
	t.unhealed.remove(id)
	t.log.Warn("a damaged segment was replaced by its copy", "segment", id)
	return true, nil
}

// sound reports whether a segment may be copied: nothing that the object index names is damaged in its file, or the
// file was healed. A segment that cannot be healed is unhealed.
func (t *tiers) sound(ctx context.Context, seg object.SegmentInfo) (bool, error) {
	hit, err := t.hit(ctx, seg.ID, seg.Size)
	if err != nil || len(hit) == 0 {
		return err == nil, err
	}
	healed, err := t.heal(ctx, seg.ID)
	if errors.Is(err, object.ErrLost) || err == nil && !healed {
		t.unhealed.add(seg.ID, hit)
		return false, nil
	}
	return err == nil, err
}

// hit returns the objects that the index names in the damage of the file of a segment of size bytes. After a crash, a
// segment may have torn records besides, which were not acknowledged.
func (t *tiers) hit(ctx context.Context, id uint64, size int64) (list []placed, err error) {
	damaged, err := t.damage(ctx, id, size)
	if err != nil || len(damaged) == 0 {
		return nil, err
	}
	err = objectsIn(ctx, t.eng, id, func(p placed) error {
		if p.hits(damaged) {
			list = append(list, p)
		}
		return nil
	})
	return list, err
}

// damage returns the damaged ranges of the file of a segment of size bytes.
func (t *tiers) damage(ctx context.Context, id uint64, size int64) (list []object.DamagedRange, err error) {
	o := object.ScanOptions{Damaged: func(r object.DamagedRange) { list = append(list, r) }}
	err = t.obj.Scan(id, o, func(object.Digest, object.Location) error { return ctx.Err() })
	if errors.Is(err, object.ErrDamaged) { // the file is lost
		return []object.DamagedRange{{Segment: id, To: size}}, nil
	}
	return list, err
}

// better returns object.ErrLost unless the copy of a segment may replace its file: nothing is damaged in the copy, or
// less than in the file.
func (t *tiers) better(ctx context.Context, id uint64, size int64, copied []object.DamagedRange) error {
	if len(copied) == 0 {
		return nil
	}
	file, err := t.damage(ctx, id, size)
	if err != nil {
		return err
	}
	if gains, loses, err := t.compare(ctx, id, file, copied); err != nil || gains && !loses {
		return err
	}
	return fmt.Errorf("%w: it has the same damage as the file", object.ErrLost)
}

// compare compares the damaged ranges of the file of a segment and of its copy. gains means that an object which the
// index names is damaged in the file only, loses that one is in the copy only. It reads the whole object index if there
// are any.
func (t *tiers) compare(ctx context.Context, id uint64, file, copied []object.DamagedRange) (gains, loses bool,
	err error) {
	if len(file)+len(copied) == 0 {
		return false, false, nil
	}
	err = objectsIn(ctx, t.eng, id, func(p placed) error {
		inFile, inCopy := p.hits(file), p.hits(copied)
		gains, loses = gains || inFile && !inCopy, loses || inCopy && !inFile
		return nil
	})
	return gains, loses, err
}

// HealSegment replaces the file of a sealed segment, which is damaged or lost, by its copy, and reports whether it did.
// It does nothing for a segment that has no copy or is evicted. If the copy cannot be reached the error is ErrAway, and
// object.ErrLost if it is damaged, too. While segments are being copied, HealSegment fails with ErrShipping, and the
// segment is healed before the next one is copied.
func (o *objects) HealSegment(ctx context.Context, id uint64) (done bool, err error) {
	if err := o.dbs.enter(); err != nil {
		return false, err
	}
	defer o.dbs.leave()
	done, err = o.tiers.healNow(ctx, id)
	if err != nil {
		o.log.Warn("cannot replace a damaged segment by its copy", "segment", id, "err", err)
	}
	return done, err
}

// healNow is heal unless a pass runs. That pass then heals the segment.
func (t *tiers) healNow(ctx context.Context, id uint64) (done bool, err error) {
	if !t.passing.TryLock() {
		t.mu.Lock()
		t.damaged[id] = true
		t.mu.Unlock()
		return false, ErrShipping
	}
	defer t.passing.Unlock()
	return t.heal(ctx, id)
}
