package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"doublet/note"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// maxCandidates bounds the copies with one number of which FindSegments reads the start. Each incarnation has at most
// one, unless its data folder has returned to an older state.
const maxCandidates = 20

// tellEvery is the number of segments after which FindSegments logs its progress.
const tellEvery = 500

// FindSegments makes the rows of copies anew that were lost: of segments that the object index names, that have no file
// and no row. It lists the names of all copies, and reads the start of each that may be one of these, and an object
// that the index names in it. It returns the number of segments that it found. It reads the whole object index. It does
// nothing without Options.Tier. While segments are being copied it fails with ErrShipping, and the next pass looks for
// the copies. While the place is away the error is ErrAway; what was found before stays.
func (o *objects) FindSegments(ctx context.Context) (found int, err error) {
	if err := o.dbs.enter(); err != nil {
		return 0, err
	}
	defer o.dbs.leave()
	t := o.tiers
	if t.away == nil {
		return 0, nil
	}
	if !t.passing.TryLock() {
		t.mu.Lock()
		t.incomplete = true
		t.mu.Unlock()
		return 0, ErrShipping
	}
	defer t.passing.Unlock()
	return findLost(ctx, t)
}

// findIncomplete looks for copies if it is known that rows were lost. The caller holds passing.
func findIncomplete(ctx context.Context, t *tiers) error {
	t.mu.Lock()
	incomplete := t.incomplete
	t.mu.Unlock()
	if !incomplete {
		return nil
	}
	_, err := findLost(ctx, t)
	return err
}

// loadIncomplete remembers durably that rows were lost, because what is damaged may be cut out of the index before
// anything looks for them.
func (t *tiers) loadIncomplete() error {
	key := layout.MetaKey(metaCopiesLost)
	if t.incomplete {
		return engineError(t.eng.Set(key, nil, pebble.Sync))
	}
	_, err := getValue(t.eng, key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	t.incomplete = err == nil
	return err
}

// findLost is FindSegments for a caller that holds passing.
func findLost(ctx context.Context, t *tiers) (found int, err error) {
	f := finder{tiers: t}
	if err := f.look(ctx); err != nil {
		return 0, err
	}
	if found, err = f.findAll(ctx); err != nil {
		return found, err
	}
	t.mu.Lock()
	incomplete := t.incomplete
	t.incomplete = false
	t.mu.Unlock()
	if incomplete {
		err = engineError(t.eng.Delete(layout.MetaKey(metaCopiesLost), pebble.NoSync))
	}
	return found, err
}

// findAll records the copies of all missing segments that it finds.
func (f *finder) findAll(ctx context.Context) (found int, err error) {
	t := f.tiers
	if len(f.missing) == 0 {
		return 0, nil
	}
	t.log.Warn("segments are not on disk, and not known to have a copy: looking for copies", "segments", len(f.missing))
	err = f.list(ctx)
	for i, id := range slices.Sorted(maps.Keys(f.missing)) {
		var ok bool
		if err == nil {
			ok, err = f.find(ctx, id)
		}
		if err != nil {
			t.log.Warn("cannot look for copies of segments", "found", found, "left", len(f.missing)-i, "err", err)
			return found, foundError(err)
		}
		if ok {
			found++
		}
		if (i+1)%tellEvery == 0 {
			t.log.Info("looking for copies of segments", "done", i+1, "of", len(f.missing), "found", found)
		}
	}
	t.log.Warn("looked for copies of segments", "segments", len(f.missing), "found", found)
	return found, nil
}

func foundError(err error) error {
	if errors.Is(err, blob.ErrAway) || errors.Is(err, object.ErrAway) {
		err = fmt.Errorf("%w: %w", ErrAway, err)
	}
	return fmt.Errorf("store: find copies of segments: %w", err)
}

// finder finds copies without rows.
type finder struct {
	*tiers
	// missing holds the segments that are needed, each with the object in it that is nearest to its end. A segment is
	// only appended to, so a copy with this object has all that the index names.
	missing map[uint64]placed
	// copies holds the names of the copies of these segments, those of this incarnation first.
	copies map[uint64][]string
}

// look finds the segments that the object index names and that are not here.
func (f *finder) look(ctx context.Context) error {
	here := map[uint64]bool{}
	for _, seg := range f.obj.Segments() {
		here[seg.ID] = true
	}
	f.missing = map[uint64]placed{}
	err := scan(f.eng, layout.Key(layout.SpaceObject), func(k, v []byte) error {
		loc, _, err := object.ParseLocation(v)
		if err != nil || len(k) != 1+len(note.Digest{}) {
			return nil // check finds it
		}
		if have, ok := f.missing[loc.Segment]; !here[loc.Segment] && (!ok || loc.Offset > have.loc.Offset) {
			f.missing[loc.Segment] = placed{note.Digest(k[1:]), loc}
		}
		return ctx.Err()
	})
	for _, seg := range f.obj.Segments() {
		delete(f.missing, seg.ID) // it was begun after the first list, before the scan
	}
	return err
}

// list lists the copies of the missing segments.
func (f *finder) list(ctx context.Context) error {
	names, err := f.away.List(ctx, "segments/")
	if err != nil {
		return err
	}
	f.copies = map[uint64][]string{}
	for _, name := range names {
		if id, ok := segmentOf(name); ok && !f.missing[id].digest.IsZero() {
			f.copies[id] = append(f.copies[id], name)
		}
	}
	own := func(name string) int {
		if id, _ := incarnationOf(name); id == f.incarnation {
			return 0
		}
		return 1
	}
	for _, list := range f.copies {
		slices.SortStableFunc(list, func(a, b string) int { return own(a) - own(b) })
	}
	return nil
}

// segmentOf returns the number in the name of a copy, which copyName made.
func segmentOf(name string) (uint64, bool) {
	if _, ok := incarnationOf(name); !ok {
		return 0, false
	}
	number, _, ok := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], "-")
	id, err := strconv.ParseUint(number, 10, 64)
	return id, ok && err == nil
}

// find records the copy of a missing segment, if there is one.
func (f *finder) find(ctx context.Context, id uint64) (bool, error) {
	for _, name := range f.copies[id][:min(len(f.copies[id]), maxCandidates)] {
		c, err := f.away.Describe(ctx, name)
		if err == nil {
			c.Incarnation, _ = incarnationOf(name)
			err = f.verify(id, &c)
		}
		switch {
		case errors.Is(err, object.ErrLost) || errors.Is(err, object.ErrDamaged):
			f.log.Warn("a copy is not that of the segment whose row was lost", "segment", id, "copy", name, "err", err)
			continue
		case err != nil:
			return false, err
		}
		if err := f.record(id, c); err != nil {
			return false, err
		}
		f.obj.Eviction.Found(id, c.Size)
		return true, nil
	}
	return false, nil
}

// verify reads the object that is known of a missing segment from a copy.
func (f *finder) verify(id uint64, c *layout.Copy) error {
	p := f.missing[id]
	sum := sha256.Sum256(c.Head[:])
	if !strings.HasSuffix(c.Name, fmt.Sprintf("-%x", sum[:8])) || c.Size < p.loc.End() {
		return fmt.Errorf("%w: it is of another segment", object.ErrLost)
	}
	from := f.away.Open(*c)
	_, err := f.obj.Eviction.ReadFrom(from, p.loc, object.Digest(p.digest))
	return errors.Join(err, from.Close())
}
