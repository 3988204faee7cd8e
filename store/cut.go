package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Cut is a range of unreadable rows that was removed from the index.
type Cut struct {
	// After is the last readable row before the range, Before the first one after it, as precisely as can be
	// determined. For a single row whose value is lost, both are its key.
	After, Before []byte
	// Databases holds the databases whose rows may have been in the range. Shared means that the range may have held
	// rows that belong to no single database.
	Databases []note.DatabaseID
	Shared    bool
}

// gap is a range between two keys, both exclusive, that holds no readable row.
type gap struct{ after, before []byte }

// salvageName is the name, in the index folder, of the table to which the readable rows of a damaged one are copied.
const salvageName = "salvage.tmp"

// damage handles damaged files of the engine. It removes the databases concerned from service, and cuts the damage out.
type damage struct {
	*core
	disk         *disk
	catalog      *catalog
	damagedFiles sync.Map
	// opened is closed when Open has finished. Damage that Open met is examined only then.
	opened chan struct{}
	// quarantined counts the goroutines that are still taking databases out of service.
	quarantined sync.WaitGroup
}

// DamagedFiles returns the number of damaged tables that the store has met since it opened and that are not cut out.
func (d *damage) DamagedFiles() (n int) {
	d.damagedFiles.Range(func(_, _ any) bool {
		n++
		return true
	})
	return n
}

// CutDamage removes the rows that the engine cannot read from the index, so that the rest can be served and compacted
// again. It copies the readable rows of a damaged table into a new table, which replaces the damaged one in one step.
// It removes a row if only the row's value is lost. Nothing else is written meanwhile. Afterwards check has to find and
// repair what is missing. The databases concerned must not serve before that.
func (d *damage) CutDamage(ctx context.Context) ([]Cut, error) {
	if err := d.dbs.enter(); err != nil {
		return nil, err
	}
	defer d.dbs.leave()
	unlock := d.lockAll()
	defer unlock()
	var cuts []Cut
	// A gap can hide another damaged table behind the first. Each pass removes the damage that the last one met.
	for range maxCutPasses {
		gaps, rows, err := d.survey(ctx)
		if err != nil || len(gaps)+len(rows) == 0 {
			return cuts, err
		}
		for _, g := range gaps {
			cuts = append(cuts, d.cutOf(g))
		}
		for _, k := range rows {
			cuts = append(cuts, d.cutOf(gap{k, k}))
			if err := d.eng.Delete(k, pebble.Sync); err != nil {
				return cuts, d.die(err)
			}
		}
		spans := d.damagedSpans(gaps)
		if len(gaps) > 0 && len(spans) == 0 {
			return cuts, fmt.Errorf("%w: rows from %x on cannot be read, and no table is known that holds them",
				ErrDamaged, gaps[0].after)
		}
		for _, span := range spans {
			if err := d.replace(ctx, span, gaps); err != nil {
				return cuts, fmt.Errorf("store: cut %x to %x: %w", span.Start, span.End, err)
			}
		}
	}
	return cuts, fmt.Errorf("%w: still after %d passes", ErrDamaged, maxCutPasses)
}

const maxCutPasses = 10

// lockAll blocks changes of every database, and the creation of databases. Databases that cannot be opened cannot
// change.
func (d *damage) lockAll() (unlock func()) {
	d.making.Lock()
	infos, _ := d.catalog.Databases()
	var held []*database
	for _, i := range infos {
		if db, err := d.dbs.acquire(i.ID); err == nil {
			db.write.Lock()
			held = append(held, db)
		}
	}
	return func() {
		d.making.Unlock()
		for _, db := range held {
			db.write.Unlock()
			d.dbs.release(db)
		}
	}
}

// survey reads every row, and returns the gaps and the rows that have lost their value. Each read of a block with a
// wrong checksum takes the engine about a second, so survey reads such blocks as seldom as possible.
func (d *damage) survey(ctx context.Context) (gaps []gap, rows [][]byte, err error) {
	at := []byte{0}
	for {
		last, end, err := d.walk(ctx, at, nil, func(_, _ []byte) error { return nil })
		if err != nil {
			return nil, nil, err
		}
		switch end {
		case walkDone:
			return gaps, rows, nil
		case walkValue:
			lost, err := d.lostValues(last)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, lost...)
			at = append(slices.Clone(lost[len(lost)-1]), 0)
		case walkKey:
			next, err := d.resume(last)
			if err != nil {
				return nil, nil, err
			}
			if bytes.Compare(next, last) <= 0 {
				return nil, nil, fmt.Errorf("%w: rows behind %x cannot be read", ErrDamaged, last)
			}
			gaps = append(gaps, gap{last, next})
			at = next
		}
	}
}

// walkEnd is the way in which a walk ended.
type walkEnd int

const (
	walkDone  walkEnd = iota
	walkKey           // the row after the last one cannot be read
	walkValue         // the value of the last row cannot be read
)

// walk calls fn for the rows from lo up to hi, until one cannot be read, and returns the last key.
func (d *damage) walk(ctx context.Context, lo, hi []byte, fn func(k,
	v []byte) error) (last []byte, end walkEnd, err error) {
	last = slices.Clone(lo)
	it, err := d.eng.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return last, walkKey, unlessDamage(err)
	}
	defer func() { _ = it.Close() }() // its error was handled above
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		last = append(last[:0], it.Key()...)
		v, err := it.ValueAndErr()
		if err != nil {
			return last, walkValue, unlessDamage(err)
		}
		if err := fn(last, v); err != nil {
			return last, walkDone, err
		}
		if n++; n&0xFFF == 0 && ctx.Err() != nil {
			return last, walkDone, ctx.Err()
		}
	}
	if err := it.Error(); err != nil {
		return last, walkKey, unlessDamage(err)
	}
	return last, walkDone, nil
}

func unlessDamage(err error) error {
	if pebble.IsCorruptionError(err) {
		return nil
	}
	return engineError(err)
}

// resume returns the first readable key of a damaged table after the damage. It searches from the end of the table.
func (d *damage) resume(after []byte) ([]byte, error) {
	var span pebble.KeyRange
	d.damagedFiles.Range(func(_, v any) bool {
		if k := v.(pebble.KeyRange); k.Start != nil && bytes.Compare(after, k.End) < 0 &&
			(span.Start == nil || bytes.Compare(k.Start, span.Start) < 0) {
			span = k
		}
		return true
	})
	if span.Start == nil {
		return nil, fmt.Errorf("%w: the row behind %x cannot be read, and no table is known that holds it",
			ErrDamaged, after)
	}
	next := span.End
	it, err := d.eng.NewIter(&pebble.IterOptions{LowerBound: append(slices.Clone(after), 0), UpperBound: span.End})
	if err != nil {
		return next, unlessDamage(err)
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		next = append([]byte(nil), it.Key()...)
	}
	err = unlessDamage(it.Error())
	_ = it.Close() // its error was handled above
	return next, err
}

// valueRun bounds the number of rows that are given up for one damaged block of values.
const valueRun = 4096

// lostValues returns the rows from key on whose values lie in the same damaged block. Separated values are stored in
// the order of their keys. It looks ahead in growing steps, then halves them.
func (d *damage) lostValues(key []byte) ([][]byte, error) {
	var keys [][]byte
	it, err := d.eng.NewIter(&pebble.IterOptions{LowerBound: key})
	if err != nil {
		return nil, engineError(err)
	}
	for ok := it.First(); ok && len(keys) < valueRun; ok = it.Next() {
		if v := it.LazyValue(); v.Fetcher != nil || len(keys) == 0 {
			keys = append(keys, append([]byte(nil), it.Key()...))
		}
	}
	_ = it.Close()
	sound := func(i int) bool {
		if i >= len(keys) {
			return true
		}
		_, closer, err := d.eng.Get(keys[i])
		if err == nil {
			_ = closer.Close()
		}
		return err == nil
	}
	bad, good := 0, 1
	for !sound(good) {
		bad, good = good, good*2
	}
	for good-bad > 1 {
		if mid := (bad + good) / 2; sound(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
	return keys[:min(good, len(keys))], nil
}

func (d *damage) cutOf(g gap) Cut {
	c := Cut{After: g.after, Before: g.before}
	c.Databases = d.databasesWithin(g.after, g.before)
	c.Shared = len(g.after) == 0 || layout.Space(g.after[0]) != layout.SpaceData
	return c
}

// damagedSpans returns the bounds of the damaged tables that hold gaps. Overlapping bounds are merged.
func (d *damage) damagedSpans(gaps []gap) []pebble.KeyRange {
	var spans []pebble.KeyRange
	d.damagedFiles.Range(func(_, v any) bool {
		span := v.(pebble.KeyRange)
		if span.Start != nil && slices.ContainsFunc(gaps, func(g gap) bool {
			return bytes.Compare(span.Start, g.before) <= 0 && bytes.Compare(g.after, span.End) <= 0
		}) {
			spans = append(spans, span)
		}
		return true
	})
	slices.SortFunc(spans, func(a, b pebble.KeyRange) int { return bytes.Compare(a.Start, b.Start) })
	var out []pebble.KeyRange
	for _, span := range spans {
		if n := len(out); n > 0 && bytes.Compare(span.Start, out[n-1].End) <= 0 {
			if bytes.Compare(out[n-1].End, span.End) < 0 {
				out[n-1].End = span.End
			}
			continue
		}
		out = append(out, span)
	}
	return out
}

// replace copies the readable rows of a range into a new table, which replaces the range in one step.
func (d *damage) replace(ctx context.Context, span pebble.KeyRange, gaps []gap) (err error) {
	path := d.env.FS.PathJoin(d.disk.indexDir(), salvageName)
	rows, err := d.salvage(ctx, span, gaps, path)
	if err != nil {
		return err
	}
	// An archive of the log that lacks the cut must end before it.
	breaks, err := d.metaUint(metaBreaks)
	if err == nil {
		err = d.eng.Set(layout.MetaKey(metaBreaks), uint64Bytes(breaks+1), pebble.Sync)
	}
	if err != nil {
		return engineError(err)
	}
	if rows == 0 {
		err = d.eng.Excise(ctx, span)
	} else {
		_, err = d.eng.IngestAndExcise(ctx, []string{path}, nil, nil, span)
	}
	if err == nil {
		d.damagedFiles.Range(func(path, v any) bool {
			if k := v.(pebble.KeyRange); k.Start != nil && bytes.Compare(k.Start, span.Start) >= 0 &&
				bytes.Compare(k.End, span.End) <= 0 {
				d.damagedFiles.Delete(path)
			}
			return true
		})
	}
	if rmErr := d.env.FS.Remove(path); rmErr != nil && err == nil && !isNotExist(rmErr) {
		err = rmErr
	}
	return engineError(err)
}

// salvage writes the readable rows of a range, those outside the gaps, to a table.
func (d *damage) salvage(ctx context.Context, span pebble.KeyRange, gaps []gap, path string) (rows int, err error) {
	f, err := d.env.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f),
		sstable.WriterOptions{TableFormat: d.eng.TableFormat()})
	copyRows := func(lo, hi []byte) error {
		if bytes.Compare(lo, hi) >= 0 {
			return nil
		}
		_, end, err := d.walk(ctx, lo, hi, func(k, v []byte) error {
			rows++
			return w.Set(k, v)
		})
		if err == nil && end == walkValue {
			err = fmt.Errorf("%w: a value that could be read before", ErrDamaged)
		}
		return err
	}
	at := span.Start
	for _, g := range gaps {
		if err == nil && bytes.Compare(g.before, span.Start) > 0 && bytes.Compare(g.after, span.End) < 0 {
			err = copyRows(at, append(slices.Clone(g.after), 0))
			at = g.before
		}
	}
	if err == nil {
		err = copyRows(at, span.End)
	}
	return rows, errors.Join(err, w.Close())
}
