package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// ErrUnerased means that Erase could not remove all yet.
var ErrUnerased = errors.New("what was there before db encrypt is not gone from the disk yet, compact again later")

// erasure is the progress of Erase, a row of the store.
type erasure struct {
	// segment is above the numbers of all segments from before, file above those of all files of the engine. 0 means
	// that it is not known yet.
	segment, file uint64
	erased        bool
}

// metaErased is the name of the row of an erasure. It is there from the moment when a database was encrypted, also
// after that database is removed or decrypted.
const metaErased = "erased"

// readErasure reads how far Erase is. there reports whether the row exists. What another incarnation of the store has
// erased may be there again.
func readErasure(s *Store) (e erasure, there bool, err error) {
	v, err := getValue(s.eng, layout.MetaKey(metaErased))
	switch {
	case errors.Is(err, ErrNotFound):
		return e, false, nil
	case err != nil:
		return e, false, err
	case len(v) != 25 || binary.BigEndian.Uint64(v) != s.incarnation:
		return e, true, nil
	}
	return erasure{segment: binary.BigEndian.Uint64(v[8:]), file: binary.BigEndian.Uint64(v[16:]),
		erased: v[24] == 1}, true, nil
}

// row returns the row of an erasure of an incarnation of the store.
func (e *erasure) row(incarnation uint64) []byte {
	v := binary.BigEndian.AppendUint64(nil, incarnation)
	v = binary.BigEndian.AppendUint64(v, e.segment)
	v = append(binary.BigEndian.AppendUint64(v, e.file), 0)
	if e.erased {
		v[len(v)-1] = 1
	}
	return v
}

// Erase removes from the disk what databases with keys of their own held before they were encrypted. It rewrites the
// segments with garbage, all tables and values of the engine and its log, as far as they are from before. What is done
// is not done again by the next Erase. It fails with ErrUnerased if a snapshot, a backup or the archive of the log
// keeps something. If nothing was encrypted since it succeeded, it does nothing. progress gets the stage, and the
// number of steps that are done.
func Erase(ctx context.Context, s *Store, progress func(stage string, done uint64)) error {
	if err := s.dbs.enter(); err != nil {
		return err
	}
	defer s.dbs.leave()
	s.erasing.Lock()
	defer s.erasing.Unlock()
	x := &eraser{s: s, ctx: ctx, progress: progress}
	if due, err := x.begin(); err != nil || !due {
		return err
	}
	for _, step := range []func() error{x.segments, x.tables, x.files, x.end} {
		if err := step(); err != nil {
			return fmt.Errorf("store: erase: %w", engineOrOwn(err))
		}
	}
	return nil
}

// eraser is one run of Erase.
type eraser struct {
	s        *Store
	ctx      context.Context
	progress func(string, uint64)
	erasure
	settled uint64 // keying.settled when it began
	done    uint64
}

// begin reports whether there is something to erase.
func (x *eraser) begin() (due bool, err error) {
	if err := x.s.keying.begin(); err != nil {
		return false, err
	}
	defer x.s.keying.end()
	x.settled = x.s.keying.settled
	var there bool
	if x.erasure, there, err = readErasure(x.s); err != nil || there {
		return !x.erased, err
	}
	// Databases that were encrypted by a release without this row.
	err = x.s.Infos(func(i *layout.Info) { due = due || i.Key != nil && i.Key.Settled && !i.Key.Leaving })
	return due, err
}

// put writes how far the erasure is, and returns the number that the engine gave to that. If another database was
// encrypted meanwhile, it fails: the next run begins anew.
func (x *eraser) put() (pebble.SeqNum, error) {
	if err := x.s.keying.begin(); err != nil {
		return 0, err
	}
	defer x.s.keying.end()
	if x.s.keying.settled != x.settled {
		return 0, fmt.Errorf("%w: another database was encrypted meanwhile", ErrUnerased)
	}
	b := x.s.eng.NewBatch()
	defer b.Close()
	set(b, layout.MetaKey(metaErased), x.row(x.s.incarnation))
	err := b.Commit(pebble.Sync)
	return b.SeqNum(), err
}

// step is called before each piece of work.
func (x *eraser) step(stage string) error {
	x.progress(stage, x.done)
	x.done++
	return errors.Join(x.ctx.Err(), x.s.space.admit())
}

// sweepRows bounds what one step of sweep removes.
const sweepRows = 10_000

// sweep removes messages and objects without references, and waits until none is left. Those that a delivery uses
// meanwhile stay, and later steps would take them for live ones.
func (x *eraser) sweep() error {
	for n := 1; n > 0; {
		if err := x.step("sweep"); err != nil {
			return err
		}
		var err error
		if n, err = x.s.Sweep(x.ctx, sweepRows); err != nil {
			return err
		}
	}
	err := x.await(func() (bool, error) {
		if _, err := x.s.Sweep(x.ctx, sweepRows); err != nil {
			return false, err
		}
		return x.s.empty(layout.Key(layout.SpaceSweep))
	})
	if err != nil {
		return fmt.Errorf("messages without references are in use: %w", err)
	}
	return nil
}

// segments removes messages and objects without references, and rewrites the segments from before that have garbage.
func (x *eraser) segments() error {
	if x.segment == 0 {
		if err := x.sweep(); err != nil {
			return err
		}
		if err := x.s.obj.Seal(); err != nil {
			return err
		}
		x.segment = 1
		for _, seg := range x.s.obj.Segments() {
			x.segment = max(x.segment, seg.ID+1)
		}
		if _, err := x.put(); err != nil {
			return err
		}
	}
	due := func(seg object.SegmentInfo, live int64) bool {
		return seg.ID < x.segment && live < seg.Records()
	}
	if err := x.step("segments"); err != nil {
		return err
	}
	if _, err := x.s.rewrite(x.ctx, due); err != nil {
		return err
	}
	live, err := x.s.live(x.ctx)
	if err != nil {
		return err
	}
	left := 0
	for _, seg := range x.s.obj.Segments() {
		if due(seg, live[seg.ID]) {
			left++
		}
	}
	if left > 0 {
		return fmt.Errorf("%w: %d segments are in use", ErrUnerased, left)
	}
	if err := x.await(func() (none bool, err error) {
		left, err = object.Unlisted(x.s.obj, x.segment)
		return left == 0, err
	}); err != nil {
		return fmt.Errorf("%d files of segments are in use: %w", left, err)
	}
	return nil
}

// tables removes the rows from before from all tables.
func (x *eraser) tables() error {
	if x.file != 0 {
		return nil
	}
	seq, err := x.put()
	if err != nil {
		return err
	}
	if err := x.await(func() (bool, error) {
		m := x.s.eng.Metrics().Snapshots
		return m.Count == 0 || m.EarliestSeqNum > seq, nil
	}); err != nil {
		return fmt.Errorf("still read by a backup, a check or a reader: %w", err)
	}
	if err := x.s.renewal.Merge(x.ctx, x.s.eng, func() error { return x.step("rows") }); err != nil {
		return err
	}
	if x.file, err = x.s.renewal.Mark(); err == nil {
		_, err = x.put()
	}
	return err
}

// files rewrites what lies in files of the engine from before, and waits until they are gone.
func (x *eraser) files() error {
	if err := x.s.renewal.Renew(x.ctx, x.s.eng, x.file, func() error { return x.step("values") }); err != nil {
		return err
	}
	var left int
	err := x.await(func() (none bool, err error) {
		left, err = x.s.renewal.Left(x.file)
		if linked, lerr := x.s.there(x.s.env.FS.PathJoin(x.s.indexDir(), CheckpointName)); linked || lerr != nil {
			left, err = left+1, errors.Join(err, lerr) // a backup reads files that the engine has no use for
		}
		return left == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d files are in use: %w", left, err)
	}
	return nil
}

// end records that all is erased. Before, it flushes the folders, so that no power cut brings a file back.
func (x *eraser) end() error {
	for _, dir := range append(x.s.engineDirs(), x.s.segmentsDir()) {
		if err := syncDir(x.s.env.FS, dir); err != nil {
			return err
		}
	}
	x.erased = true
	_, err := x.put()
	return err
}

// The bounds of await.
const (
	awaitStep  = 100 * time.Millisecond
	awaitSteps = 100
)

// await waits for 10 s at most until what the engine does in the background is done.
func (x *eraser) await(done func() (bool, error)) error {
	for n := 0; ; n++ {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		if n == awaitSteps {
			return ErrUnerased
		}
		select {
		case <-x.s.env.Clock.After(awaitStep):
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}
}
