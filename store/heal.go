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
	if t.away == nil {
		return c, false
	}
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
	out, err := t.obj.Eviction.ReadCopy(loc, object.Digest(d), off, n, dst)
	if err != nil {
		return nil, err
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

// healAll heals the segments that are known to be damaged.
func (t *tiers) healAll(ctx context.Context) (failed error) {
	t.mu.Lock()
	ids := slices.Sorted(maps.Keys(t.damaged))
	t.mu.Unlock()
	for _, id := range ids {
		_, err := t.heal(ctx, id)
		failed = errors.Join(failed, err)
		if errors.Is(err, ErrAway) || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// heal replaces the file of a segment by its copy, and reports whether it did. It does nothing for a segment that has
// no copy or is evicted. The caller holds passing.
func (t *tiers) heal(ctx context.Context, id uint64) (done bool, err error) {
	c, ok := t.spare(id)
	if ok && !t.space.forSegments(c.Size) {
		return false, fmt.Errorf("%w: to heal segment %d", ErrNoSpace, id)
	}
	if ok {
		err = t.obj.Eviction.Heal(id, func(w io.Writer) error { return t.away.Fetch(ctx, &c, w) })
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
	t.log.Warn("a damaged segment was replaced by its copy", "segment", id)
	return true, nil
}

// HealSegment replaces the file of a sealed segment, which is damaged or lost, by its copy, and reports whether it did.
// It does nothing for a segment that has no copy or is evicted. If the copy cannot be reached the error is ErrAway, and
// object.ErrLost if it is damaged, too. While segments are being copied, HealSegment fails with ErrShipping.
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

// healNow is heal unless a pass runs.
func (t *tiers) healNow(ctx context.Context, id uint64) (done bool, err error) {
	if !t.passing.TryLock() {
		return false, ErrShipping
	}
	defer t.passing.Unlock()
	return t.heal(ctx, id)
}
