package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"doublet/note"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// pins protects recipes and objects from the sweeper after a writer has found or written them and before its update
// references them.
//
// Invariant: the sweeper removes the row of a recipe or object while it holds the shard of its digest, and only if
// nothing pins it and nothing references it. A writer pins before it looks.
type pins struct {
	shards [64]struct {
		mu    sync.Mutex
		count map[note.Digest]int
	}
	// flight is held for reading while an object is appended and its segment recorded. segments counts, per segment,
	// the appended objects that no index row references yet.
	flight   sync.RWMutex
	mu       sync.Mutex
	segments map[uint64]int
}

func (p *pins) took(segment uint64) {
	p.mu.Lock()
	p.segments[segment]++
	p.mu.Unlock()
}

func (p *pins) landed(segment uint64) {
	p.mu.Lock()
	if p.segments[segment]--; p.segments[segment] <= 0 {
		delete(p.segments, segment)
	}
	p.mu.Unlock()
}

// settled reports whether every object in a sealed segment is either referenced by the index or garbage.
func (p *pins) settled(segment uint64) bool {
	p.flight.Lock()
	defer p.flight.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.segments[segment] == 0
}

func (p *pins) init() {
	p.segments = make(map[uint64]int)
	for i := range p.shards {
		p.shards[i].count = make(map[note.Digest]int)
	}
}

func (p *pins) pin(d note.Digest) {
	sh := &p.shards[d[0]&63]
	sh.mu.Lock()
	sh.count[d]++
	sh.mu.Unlock()
}

func (p *pins) unpin(d note.Digest) {
	sh := &p.shards[d[0]&63]
	sh.mu.Lock()
	if sh.count[d]--; sh.count[d] <= 0 {
		delete(sh.count, d)
	}
	sh.mu.Unlock()
}

// unpinned calls fn while nobody can pin d. It does nothing if d is pinned.
func (p *pins) unpinned(d note.Digest, fn func() error) error {
	sh := &p.shards[d[0]&63]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.count[d] > 0 {
		return nil
	}
	return fn()
}

// Sweep removes recipes and objects that lost their last reference, at most limit of them, and returns how many it
// removed. If these are fewer, it has looked at all that wait. Rewrite reclaims their space in the segments.
func (o *objects) Sweep(ctx context.Context, limit int) (removed int, err error) {
	if err := o.dbs.enter(); err != nil {
		return 0, err
	}
	defer o.dbs.leave()
	lo, hi := layout.Key(layout.SpaceSweep), layout.After(layout.Key(layout.SpaceSweep))
	for {
		// In the log, these removals come after the commit that dropped the last reference. A crash cannot keep the
		// removal and lose that commit.
		var rows [][]byte
		err := scanRange(o.eng, lo, hi, func(k, _ []byte) error {
			rows = append(rows, append([]byte(nil), k...))
			if len(rows) >= limit {
				return errStop
			}
			return nil
		})
		if err != nil || len(rows) == 0 {
			return removed, errors.Join(err, ctx.Err())
		}
		for _, k := range rows {
			if err := ctx.Err(); err != nil {
				return removed, err
			}
			gone, err := o.sweepRow(k)
			if err != nil {
				return removed, err
			}
			if gone {
				removed++
			}
			if removed >= limit {
				return removed, nil
			}
		}
		lo = append(rows[len(rows)-1], 0)
	}
}

func (o *objects) sweepRow(k []byte) (gone bool, err error) {
	switch {
	case len(k) == 10 && k[1] == 'r':
		return o.sweepRecipe(k, note.RecipeID(layout.Tail64(k)))
	case len(k) == 34 && k[1] == 'o':
		return o.sweepObject(k, note.Digest(k[2:]))
	}
	return false, nil
}

func (c *core) empty(prefix []byte) (bool, error) {
	none := true
	err := scan(c.eng, prefix, func(_, _ []byte) error {
		none = false
		return errStop
	})
	return none, err
}

func (o *objects) sweepRecipe(row []byte, id note.RecipeID) (gone bool, err error) {
	key := layout.NumberKey(layout.SpaceRecipe, uint64(id))
	v, err := getValue(o.eng, key)
	if errors.Is(err, ErrNotFound) {
		return false, engineError(o.eng.Delete(row, pebble.NoSync))
	}
	if err != nil || len(v) < 33 {
		return false, err
	}
	digest := note.Digest(v[:32])
	err = o.pins.unpinned(digest, func() error {
		none, err := o.empty(layout.NumberKey(layout.SpaceRecipeRef, uint64(id)))
		if err != nil {
			return err
		}
		b := o.eng.NewBatch()
		defer b.Close()
		del(b, row)
		if none {
			gone = true
			del(b, key)
			hash := layout.Key(layout.SpaceRecipeHash, digest[:])
			if h, err := getValue(o.eng, hash); err == nil && len(h) == 8 &&
				note.RecipeID(binary.BigEndian.Uint64(h)) == id {
				del(b, hash)
			}
			if names, err := recipeNames(v); err == nil {
				for _, d := range names {
					del(b, layout.ObjectByRecipe(d, id))
					set(b, layout.SweepObject(d), nil)
				}
			}
		}
		return o.swept(b, row, none, layout.NumberKey(layout.SpaceRecipeRef, uint64(id)))
	})
	return gone, err
}

// swept commits the sweeper's decision. Another commit may drop the last reference between the decision and the commit,
// and write a row for the sweeper. The sweeper's commit removes that row, so swept writes it again.
func (o *objects) swept(b *pebble.Batch, row []byte, none bool, refs []byte) error {
	err := engineError(b.Commit(pebble.NoSync))
	if err != nil || none {
		return err
	}
	if none, err = o.empty(refs); err == nil && none {
		err = engineError(o.eng.Set(row, nil, pebble.NoSync))
	}
	return err
}

func (o *objects) sweepObject(row []byte, d note.Digest) (gone bool, err error) {
	err = o.pins.unpinned(d, func() error {
		none, err := o.empty(layout.Key(layout.SpaceObjectRef, d[:]))
		if err != nil {
			return err
		}
		b := o.eng.NewBatch()
		defer b.Close()
		del(b, row)
		if none {
			gone = true
			del(b, layout.Key(layout.SpaceObject, d[:]))
		}
		return o.swept(b, row, none, layout.Key(layout.SpaceObjectRef, d[:]))
	})
	return gone, err
}

// Rewrite copies the live objects out of sealed segments that are less than half live, and removes those segments. It
// reads the whole object index once, so run it in quiet hours. Segments whose copies are needed and cannot be read stay
// as they are; the error joins the reasons. Evicted ones for which there is no space stay without an error.
func (o *objects) Rewrite(ctx context.Context) (reclaimed int64, err error) {
	return o.rewrite(ctx, func(seg object.SegmentInfo, live int64) bool {
		return live*2 < seg.Size && o.space.forRewrite(seg, live)
	})
}

// rewrite is Rewrite for the segments that are due, of which some bytes are live. It stops with ErrNoSpace at the
// first for which there is no space.
func (o *objects) rewrite(ctx context.Context, due func(seg object.SegmentInfo, live int64) bool) (reclaimed int64,
	err error) {
	if err := o.dbs.enter(); err != nil {
		return 0, err
	}
	defer o.dbs.leave()
	live, err := o.live(ctx)
	if err != nil {
		return 0, err
	}
	dead, err := o.deadAway(ctx, live)
	if err != nil {
		return 0, err
	}
	var failed error
	away := false
	for _, seg := range o.obj.Segments() {
		if !due(seg, live[seg.ID]) || !o.movable(seg) || seg.Away && away && !dead[seg.ID] {
			continue
		}
		if !o.space.forRewrite(seg, live[seg.ID]) {
			return reclaimed, errors.Join(failed, ErrNoSpace)
		}
		if !o.keep.TryLock() {
			return reclaimed, failed // a backup copies segments; the next run continues
		}
		err := o.rewriteSegment(ctx, seg.ID, live[seg.ID], dead[seg.ID])
		o.keep.Unlock()
		switch {
		case o.putOff(ctx, seg, err):
			failed, away = errors.Join(failed, err), away || seg.Away
		case err != nil:
			return reclaimed, errors.Join(failed, err)
		default:
			reclaimed += seg.Size - live[seg.ID]
		}
	}
	return reclaimed, failed
}

// putOff reports whether the rewrite of a segment failed only because its copy cannot be read for now.
func (o *objects) putOff(ctx context.Context, seg object.SegmentInfo, err error) bool {
	return err != nil && (seg.Away || errors.Is(err, errUnhealed)) && ctx.Err() == nil && o.alive() == nil
}

// movable reports whether a segment may be rewritten.
func (o *objects) movable(seg object.SegmentInfo) bool {
	return seg.Sealed && o.pins.settled(seg.ID) && !o.translog.awaited(seg)
}

// live returns the bytes of each segment that the object index names.
func (o *objects) live(ctx context.Context) (map[uint64]int64, error) {
	live := make(map[uint64]int64)
	return live, scan(o.eng, layout.Key(layout.SpaceObject), func(_, v []byte) error {
		loc, _, err := object.ParseLocation(v)
		if err != nil {
			return fmt.Errorf("%w: object index", ErrDamaged)
		}
		live[loc.Segment] += int64(loc.Stored)
		return ctx.Err()
	})
}

// deadAway returns the evicted segments in which nothing is live, so that they need not be read. An object
// may have got its row after live was read and before its segment was settled. So the index is read again.
func (o *objects) deadAway(ctx context.Context, live map[uint64]int64) (map[uint64]bool, error) {
	dead := map[uint64]bool{}
	for _, seg := range o.obj.Segments() {
		if seg.Away && live[seg.ID] == 0 && o.pins.settled(seg.ID) {
			dead[seg.ID] = true
		}
	}
	if len(dead) == 0 {
		return nil, nil
	}
	again, err := o.live(ctx)
	for id := range again {
		delete(dead, id)
	}
	return dead, err
}

// move is a live record in a segment that is rewritten.
type move struct {
	digest   note.Digest
	from, to object.Location
}

// errUnhealed means that a segment is damaged, and that its copy cannot replace it for now.
var errUnhealed = errors.New("store: segment is damaged and cannot be replaced by its copy")

// copyLive appends the live records of a segment again, of live bytes. If some cannot be read, it heals the segment
// first. Objects that are damaged in the file and in the copy are given up.
func (o *objects) copyLive(ctx context.Context, id uint64, live int64) (moves []move, err error) {
	moves, err = o.copyReadable(ctx, id)
	for _, m := range moves {
		live -= int64(m.from.Stored)
	}
	if live <= 0 && err == nil || err != nil && !errors.Is(err, object.ErrDamaged) {
		return moves, err
	}
	switch healed, herr := o.tiers.healNow(ctx, id); {
	case healed:
		return o.copyReadable(ctx, id)
	case errors.Is(herr, object.ErrLost) && err == nil:
		return o.copyCopied(ctx, id, moves)
	case herr != nil:
		return nil, fmt.Errorf("%w: %w", errUnhealed, herr)
	}
	return moves, err
}

// copyCopied appends the live records of a segment again that moves does not have and that the copy has.
func (o *objects) copyCopied(ctx context.Context, id uint64, moves []move) ([]move, error) {
	moved := map[note.Digest]bool{}
	for _, m := range moves {
		moved[m.digest] = true
	}
	err := objectsIn(ctx, o.eng, id, func(p placed) error {
		if moved[p.digest] {
			return nil
		}
		content, named, err := o.obj.Eviction.ReadCopy(p.loc, object.Digest(p.digest), 0, int64(p.loc.Size), nil)
		switch {
		case errors.Is(err, object.ErrDamaged):
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errUnhealed, err)
		}
		var to object.Location
		if named {
			to, err = object.AppendNamed(o.obj, object.Digest(p.digest), content)
		} else {
			to, err = o.obj.Append(object.Digest(p.digest), content)
		}
		moves = append(moves, move{p.digest, p.loc, to})
		return err
	})
	return moves, err
}

// copyReadable appends the live records of a segment again that can be read.
func (o *objects) copyReadable(ctx context.Context, id uint64) (moves []move, err error) {
	err = o.obj.Scan(id, object.ScanOptions{}, func(d object.Digest, loc object.Location) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		have, err := o.locate(o.eng, note.Digest(d))
		if errors.Is(err, ErrNotFound) || err == nil && have != loc {
			return nil
		}
		if err != nil {
			return err
		}
		to, err := o.obj.Copy(loc, d)
		moves = append(moves, move{note.Digest(d), loc, to})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store: rewrite segment %d: %w", id, err)
	}
	return moves, nil
}

// rewriteSegment moves the live records of a segment. The new locations are durable before the index references them,
// and the index is durable before the old segment is removed. A segment that is dead is not read.
func (o *objects) rewriteSegment(ctx context.Context, id uint64, live int64, dead bool) (err error) {
	var moves []move
	if !dead {
		if moves, err = o.copyLive(ctx, id, live); err != nil {
			return err
		}
	}
	if err := o.obj.SyncAll(); err != nil {
		return o.die(err)
	}
	for _, m := range moves {
		sh := &o.pins.shards[m.digest[0]&63]
		sh.mu.Lock()
		if have, err := o.locate(o.eng, m.digest); err == nil && have == m.from {
			err = o.eng.Set(layout.Key(layout.SpaceObject, m.digest[:]), m.to.Append(nil), pebble.NoSync)
			if err != nil {
				sh.mu.Unlock()
				return o.die(err)
			}
		}
		sh.mu.Unlock()
	}
	if err := o.tiers.leave(id); err != nil {
		return o.die(err)
	}
	if err := o.eng.LogData(nil, pebble.Sync); err != nil {
		return o.die(err)
	}
	return o.obj.Remove(id)
}

// Objects returns the store's object segments, for check.
func (o *objects) Objects() *object.Store { return o.obj }
