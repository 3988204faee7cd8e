package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"doublet/note"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// unhealed holds the segments that are damaged and that no copy can replace. One stays while the object index names
// something in its damage: until a mate has mended that, or nothing refers to it any more.
type unhealed struct {
	*core

	mu       sync.Mutex // guards segments
	segments map[uint64][]placed
}

// placed is an object and its place.
type placed struct {
	digest note.Digest
	loc    object.Location
}

// unhealedObjects bounds the objects of a segment that unhealed remembers. When they are gone, the segment is examined
// again, and others may be found.
const unhealedObjects = 100

// add adds a segment with the objects that its damage hit, unless none of them is there any more.
func (u *unhealed) add(id uint64, hit []placed) {
	first := !u.has(id)
	u.mu.Lock()
	u.segments[id] = slices.Clone(hit[:min(len(hit), unhealedObjects)])
	u.mu.Unlock()
	if u.lasts(id) && first {
		u.log.Error("a segment is damaged and no copy can replace it", "segment", id, "objects", len(hit))
	}
}

func (u *unhealed) remove(id uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.segments, id)
}

func (u *unhealed) has(id uint64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.segments[id] != nil
}

func (u *unhealed) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.segments)
}

// review removes the segments that nothing in their damage is left of.
func (u *unhealed) review() {
	u.mu.Lock()
	ids := slices.Collect(maps.Keys(u.segments))
	u.mu.Unlock()
	for _, id := range ids {
		u.lasts(id)
	}
}

// lasts reports whether an object that unhealed remembers of a segment still has its place there. It removes the
// segment if none has.
func (u *unhealed) lasts(id uint64) bool {
	u.mu.Lock()
	list := u.segments[id]
	u.mu.Unlock()
	for _, p := range list {
		if have, err := u.locate(u.eng, p.digest); err == nil && have == p.loc ||
			err != nil && !errors.Is(err, ErrNotFound) {
			return true
		}
	}
	u.remove(id)
	return false
}

// objectsIn calls fn with each object that the index places in a segment. It reads the whole object index.
func objectsIn(ctx context.Context, r pebble.Reader, id uint64, fn func(placed) error) error {
	prefix := layout.Key(layout.SpaceObject)
	return scan(r, prefix, func(k, v []byte) error {
		loc, _, err := object.ParseLocation(v)
		if err != nil || len(k) != len(prefix)+len(note.Digest{}) {
			return fmt.Errorf("%w: object index", ErrDamaged)
		}
		if err := ctx.Err(); err != nil || loc.Segment != id {
			return err
		}
		return fn(placed{note.Digest(k[len(prefix):]), loc})
	})
}

// hits reports whether an object lies in one of some damaged ranges of its segment.
func (p placed) hits(damaged []object.DamagedRange) bool {
	return slices.ContainsFunc(damaged, func(r object.DamagedRange) bool {
		return r.From < p.loc.End() && r.To > int64(p.loc.Offset)
	})
}
