package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"doublet/env"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// ErrAway means that an object is in a segment that was evicted, and that the place with its copy cannot be reached. A
// later attempt may succeed.
var ErrAway = errors.New("store: part of the data is in another place, which cannot be reached")

// Tier are the options of copies of sealed object segments in another place.
type Tier struct {
	// Copier returns the other place. Its copies are encrypted with keys.
	Copier func(e *env.Env, keys blob.Keys) Copier
	// Cache bounds the bytes of sealed segments that stay on disk. Above it, and below the floor of free space, those
	// are evicted that have a copy and were read least recently.
	Cache int64
}

// Copier writes and reads copies of segments in another place (store/tier). Its methods are safe for concurrent use.
type Copier interface {
	// Ship writes a copy of a segment of size bytes under a name, reads it back, and returns its row. The copy is
	// durable.
	Ship(ctx context.Context, name string, from io.ReaderAt, size int64) (layout.Copy, error)
	// Open opens a copy, as object.Elsewhere has it.
	Open(c layout.Copy) object.Source
	// Check returns object.ErrLost if the place does not have a copy as it was written.
	Check(ctx context.Context, c *layout.Copy) error
	// Describe returns the row of a copy whose row was lost, without its incarnation and checksum. The error is
	// object.ErrLost if the place does not have a copy of this store under that name.
	Describe(ctx context.Context, name string) (layout.Copy, error)
	// Fetch writes the segment of a copy into to. The error is object.ErrLost if the copy is not as it was written.
	Fetch(ctx context.Context, c *layout.Copy, to io.Writer) error
	// Remove removes a copy. It is no error if there is none.
	Remove(ctx context.Context, name string) error
	// List lists the names of all blobs that begin with prefix, Opens reports whether the keys open a copy.
	List(ctx context.Context, prefix string) ([]string, error)
	Opens(ctx context.Context, name string) (bool, error)
	// Put and Get write and read a small blob, as blob.Store has them.
	Put(ctx context.Context, name string, content []byte) error
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	Stats() object.CopyStats
	// Close ends all reads. Later ones fail with object.ErrAway.
	Close()
}

// metaCopyKey is the name of the private key to which copies are encrypted.
const metaCopyKey = "copykey"

// metaCopiesLost is the name of a row that is there while rows of copies are lost, which were not looked for yet.
const metaCopiesLost = "copieslost"

// tiers keeps copies of sealed segments in another place, and evicts segments that have one.
//
// A segment has a row (layout.Copy) from the moment when its copy was verified; the row is durable before the segment
// is evicted. When the segment is removed, the row is marked in the same flush that makes the new places of its objects
// durable; it goes when the copy has been removed.
type tiers struct {
	*core
	translog *transactionLog
	// keep is that of objects.
	keep *sync.RWMutex
	// away is nil if there is no other place.
	away     Copier
	unhealed unhealed
	// passing is held by the one pass that runs. It guards looked, the time of the last look at old copies.
	passing sync.Mutex
	looked  time.Time

	mu   sync.Mutex // guards the fields below
	rows map[uint64]layout.Copy
	// removed holds the segments that were rewritten since the store was opened. Their numbers are not given again, and
	// they get no copies.
	removed map[uint64]bool
	// damaged holds the segments whose files are damaged. The pass that runs, or the next one, heals them.
	damaged map[uint64]bool
	// lost holds the segments whose copies did not pass a check. The next pass writes them again. Until then their rows
	// stay: the check may have read wrong bytes of a copy that is whole and that a damaged file needs to be healed.
	lost map[uint64]bool
	// incomplete means that rows were lost. The next pass looks for the copies.
	incomplete bool
	// healed counts the files that were replaced by their copies.
	healed uint64
	// failures counts the passes that failed.
	failures uint64
}

// load reads the rows. A row that cannot be read is logged: its segment is then missing like one whose file is lost,
// until the first pass has found the copy.
func (t *tiers) load() error {
	t.rows, t.removed = map[uint64]layout.Copy{}, map[uint64]bool{}
	t.damaged, t.lost = map[uint64]bool{}, map[uint64]bool{}
	err := scan(t.eng, layout.Key(layout.SpaceTier), func(k, v []byte) error {
		c, err := layout.ReadCopy(v)
		if err != nil || len(k) != len(layout.CopyKey(0)) {
			t.log.Error("cannot read which segment has a copy", "key", fmt.Sprintf("%x", k), "err", err)
			t.incomplete = true
			return nil
		}
		t.rows[layout.Tail64(k)] = c
		return nil
	})
	if errors.Is(err, ErrDamaged) {
		t.log.Error("cannot read which segments have copies", "err", err)
		t.incomplete, err = true, nil
	}
	if err != nil || t.opt.Tier == nil {
		return err
	}
	if err := t.loadIncomplete(); err != nil {
		return err
	}
	key, err := t.key()
	if err != nil {
		return fmt.Errorf("store: key of the copies of segments: %w", err)
	}
	t.away = t.opt.Tier.Copier(t.env, key)
	return nil
}

// key returns the keys of the copies. It makes them if there are none.
func (t *tiers) key() (blob.Keys, error) {
	v, err := getValue(t.eng, layout.MetaKey(metaCopyKey))
	if errors.Is(err, ErrNotFound) {
		var identity string
		if identity, err = blob.NewIdentity(); err == nil {
			v = []byte(identity)
			err = engineError(t.eng.Set(layout.MetaKey(metaCopyKey), v, pebble.Sync))
		}
	}
	if err != nil {
		return blob.Keys{}, err
	}
	return blob.OwnKeys(string(v))
}

// reachable refuses a store with evicted segments if the place of their copies is not known.
func (t *tiers) reachable() error {
	n := t.obj.Stats().Away
	if n == 0 || t.away != nil || t.opt.Still {
		return nil
	}
	return fmt.Errorf("%w: %d segments are not on disk, only copies elsewhere: see the setting data.segments_archive",
		ErrDamaged, n)
}

// close ends all reads of copies.
func (t *tiers) close() {
	if t.away != nil {
		t.away.Close()
	}
}

// Copies implements object.Elsewhere.
func (t *tiers) Copies() (out []object.SegmentInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, c := range t.rows {
		if !c.Gone {
			out = append(out, object.SegmentInfo{ID: id, Size: c.Size, Sealed: true, Away: true})
		}
	}
	return out
}

// above returns the first number that no segment with a row has. A segment that was removed keeps its number until its
// copy is removed, too. If rows were lost, no segment has that number which the object index names, either, as far as
// the index can be read.
func (t *tiers) above() (next uint64) {
	for id := range t.rows {
		next = max(next, id+1)
	}
	if !t.incomplete {
		return next
	}
	err := scan(t.eng, layout.Key(layout.SpaceObject), func(_, v []byte) error {
		if loc, _, err := object.ParseLocation(v); err == nil {
			next = max(next, loc.Segment+1)
		}
		return nil
	})
	if err != nil {
		t.log.Error("cannot read all numbers of segments", "err", err)
	}
	return next
}

// Open implements object.Elsewhere.
func (t *tiers) Open(id uint64) (object.Source, error) {
	c, ok := t.row(id)
	switch {
	case !ok:
		return nil, object.ErrNotFound
	case t.away == nil:
		return nil, fmt.Errorf("%w: the setting data.segments_archive is empty", object.ErrAway)
	}
	return t.away.Open(c), nil
}

func (t *tiers) row(id uint64) (layout.Copy, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.rows[id]
	return c, ok
}

// put writes a row and does not flush it. The caller holds mu.
func (t *tiers) put(id uint64, c layout.Copy) error {
	t.rows[id] = c
	return engineError(t.eng.Set(layout.CopyKey(id), layout.AppendCopy(nil, &c), pebble.NoSync))
}

// drop removes a row.
func (t *tiers) drop(id uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rows, id)
	delete(t.lost, id)
	return engineError(t.eng.Delete(layout.CopyKey(id), pebble.NoSync))
}

// leave marks the copy of a segment that will be removed, also one that is not written yet. The mark is durable with
// the next flush of the log.
func (t *tiers) leave(id uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removed[id] = true
	c, ok := t.rows[id]
	if !ok || c.Gone {
		return nil
	}
	c.Gone = true
	return t.put(id, c)
}

// ErrShipping means that segments are being copied already.
var ErrShipping = errors.New("store: segments are being copied already")

// ShipSegments brings the copies of segments up to date: it removes those of removed segments, finds copies whose rows
// cannot be read, heals damaged segments, copies sealed segments that have none, and recalls and evicts segments. After
// a failure it goes on with the other segments, unless the other place is away; the error joins all failures. What it
// has done stays done. It is no failure if a segment is damaged and no copy can replace it: that is logged once, and
// counted (Database.DAOS.Copies.Unhealed). It does nothing without Options.Tier, and fails with ErrShipping if another
// call runs. Readers and writers go on meanwhile.
func (o *objects) ShipSegments(ctx context.Context) error {
	if err := o.dbs.enter(); err != nil {
		return err
	}
	defer o.dbs.leave()
	t := o.tiers
	if t.away == nil {
		return nil
	}
	if !t.passing.TryLock() {
		return ErrShipping
	}
	defer t.passing.Unlock()
	err := t.pass(ctx)
	if err != nil && ctx.Err() == nil {
		t.mu.Lock()
		t.failures++
		t.mu.Unlock()
	}
	return err
}

func (t *tiers) pass(ctx context.Context) error {
	failed := t.clean(ctx) // a place may refuse to remove, and still take copies
	failed = errors.Join(failed, findIncomplete(ctx, t))
	t.unhealed.review()
	unhealed := t.healAll(ctx)
	for _, seg := range t.obj.Segments() {
		if err := errors.Join(ctx.Err(), t.alive()); err != nil {
			return errors.Join(failed, unhealed, err)
		}
		if !seg.Sealed || seg.Away || t.copied(seg) || t.unhealed.has(seg.ID) {
			continue
		}
		if err := t.ship(ctx, seg); err != nil {
			failed = errors.Join(failed, fmt.Errorf("store: copy segment %d: %w", seg.ID, err))
			if errors.Is(err, blob.ErrAway) {
				return errors.Join(failed, unhealed)
			}
		}
		if unhealed == nil { // copying many segments takes hours
			unhealed = t.healAll(ctx)
		}
	}
	return errors.Join(failed, unhealed, t.recall(ctx), t.evict(ctx))
}

// clean removes the copies of segments that were removed. Those of another incarnation stay for now: the store that
// this one was restored from may need them (removeOld).
func (t *tiers) clean(ctx context.Context) (failed error) {
	t.mu.Lock()
	rows := maps.Clone(t.rows)
	t.mu.Unlock()
	for _, seg := range t.obj.Segments() {
		delete(rows, seg.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		c := rows[id]
		if !c.Gone {
			continue
		}
		name := c.Name
		if c.Incarnation != t.incarnation { // a copy of ours may have been interrupted (send)
			name = t.copyName(id, &c)
		}
		err := t.away.Remove(ctx, name)
		if err == nil {
			err = t.drop(id)
		}
		failed = errors.Join(failed, err)
		if errors.Is(err, blob.ErrAway) || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// copied reports whether a segment has a copy of this incarnation that is not known to be lost.
func (t *tiers) copied(seg object.SegmentInfo) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasCopy(seg)
}

// hasCopy is copied for a caller that holds mu.
func (t *tiers) hasCopy(seg object.SegmentInfo) bool {
	c, ok := t.rows[seg.ID]
	return ok && !c.Gone && c.Incarnation == t.incarnation && c.Size == seg.Size && !t.lost[seg.ID]
}

// ship copies a segment. One that is damaged is healed first: it must not take the place of an older copy, which may be
// the only one that is whole.
func (t *tiers) ship(ctx context.Context, seg object.SegmentInfo) error {
	t.mu.Lock()
	removed := t.removed[seg.ID]
	t.mu.Unlock()
	if removed {
		return nil // its file stayed by a fault of the disk
	}
	if ok, err := t.sound(ctx, seg); errors.Is(err, object.ErrNotFound) {
		return nil // it was rewritten
	} else if !ok {
		return err
	}
	from, err := t.obj.OpenSegment(seg.ID)
	if errors.Is(err, object.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := t.send(ctx, seg, from)
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	return t.record(seg.ID, c)
}

// copyName returns the name of a copy of this incarnation. It has a part that tells apart segments with the same
// number, of which a data folder that returned to an older state may have several.
func (t *tiers) copyName(id uint64, c *layout.Copy) string {
	sum := sha256.Sum256(c.Head[:])
	return fmt.Sprintf("segments/%016x/%012d-%x", t.incarnation, id, sum[:8])
}

// send writes the copy of a segment. Before, it records that the copy may exist, so that one that was interrupted is
// removed if its segment is, and one that is written over is not taken for whole. The row of a copy of another
// incarnation stays until the new copy is complete, so that the old one can be read until then. clean then finds the
// new one by its name.
func (t *tiers) send(ctx context.Context, seg object.SegmentInfo, from object.Source) (layout.Copy, error) {
	c := layout.Copy{Incarnation: t.incarnation, Stored: seg.Size, Size: seg.Size, Gone: true}
	if _, err := from.ReadAt(c.Head[:], 0); err != nil {
		return c, err
	}
	c.Name = t.copyName(seg.ID, &c)
	if old, ok := t.row(seg.ID); !ok || old.Gone || old.Size != seg.Size || old.Incarnation == t.incarnation {
		if err := t.record(seg.ID, c); err != nil {
			return c, err
		}
	}
	c, err := t.away.Ship(ctx, c.Name, from, seg.Size)
	c.Incarnation = t.incarnation
	return c, err
}

// record writes a row durably. If the segment was removed meanwhile, its copy goes too.
func (t *tiers) record(id uint64, c layout.Copy) error {
	t.mu.Lock()
	c.Gone = c.Gone || t.removed[id]
	delete(t.lost, id)
	err := t.put(id, c)
	t.mu.Unlock()
	if err == nil {
		err = engineError(t.eng.LogData(nil, pebble.Sync))
	}
	if err != nil {
		return t.die(err)
	}
	return nil
}

// recall brings evicted segments back to the disk: those of which as much was read as they have, and all if the cache
// has room for all segments.
func (t *tiers) recall(ctx context.Context) (failed error) {
	segments := t.obj.Segments()
	var all int64
	for _, seg := range segments {
		all += seg.Size
	}
	cache := t.opt.Tier.Cache
	for _, seg := range segments {
		wanted := all <= cache || seg.Fetched >= seg.Size && seg.Size <= cache
		c, ok := t.row(seg.ID)
		if !seg.Away || !wanted || !ok || !t.space.forSegments(seg.Size) || ctx.Err() != nil {
			continue
		}
		err := t.obj.Eviction.Recall(seg.ID, func(w io.Writer) error { return t.away.Fetch(ctx, &c, w) })
		if !errors.Is(err, object.ErrNotFound) { // else it was rewritten
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// evict evicts the segments that were read least recently, until the others fit into the cache and their device has the
// floor of free space.
func (t *tiers) evict(ctx context.Context) (failed error) {
	var list []object.SegmentInfo
	var total int64
	for _, seg := range t.obj.Segments() {
		if seg.Sealed && !seg.Away {
			list, total = append(list, seg), total+seg.Size
		}
	}
	slices.SortFunc(list, func(a, b object.SegmentInfo) int {
		return cmp.Or(cmp.Compare(a.Used, b.Used), cmp.Compare(a.ID, b.ID))
	})
	for _, seg := range list {
		if total <= t.opt.Tier.Cache && t.space.forSegments(0) || ctx.Err() != nil {
			break
		}
		if !t.copied(seg) || t.translog.awaited(seg) {
			continue
		}
		done, err := t.evictOne(ctx, seg.ID)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("store: evict segment %d: %w", seg.ID, err))
			if errors.Is(err, blob.ErrAway) {
				break
			}
		}
		if done {
			total -= seg.Size
		}
	}
	return errors.Join(failed, ctx.Err())
}

// evictOne evicts a segment if its copy is still there, and no backup or rewrite uses its file.
func (t *tiers) evictOne(ctx context.Context, id uint64) (done bool, err error) {
	c, _ := t.row(id)
	if err := t.away.Check(ctx, &c); errors.Is(err, object.ErrLost) {
		t.log.Error("the copy of a segment did not pass its check, it is written again", "segment", id, "err", err)
		t.mu.Lock()
		t.lost[id] = true
		t.mu.Unlock()
		return false, nil
	} else if err != nil {
		return false, err
	}
	if !t.keep.TryLock() {
		return false, nil
	}
	defer t.keep.Unlock()
	err = t.obj.Eviction.Evict(id)
	if errors.Is(err, object.ErrNotFound) {
		return false, nil // it was rewritten
	}
	return err == nil, err
}
