package store

import (
	"context"
	"fmt"

	"doublet/note"
	"doublet/store/layout"
)

// rowsOf calls fn with the range of keys of a database's rows, without opening the database. The store does not close
// meanwhile.
func (cat *catalog) rowsOf(id note.DatabaseID, fn func(start, end []byte) error) error {
	if err := cat.dbs.enter(); err != nil {
		return err
	}
	defer cat.dbs.leave()
	cat.dbs.mu.Lock()
	num, ok := cat.dbs.number[id]
	cat.dbs.mu.Unlock()
	if !ok {
		return fmt.Errorf("%w: database %s", ErrNotFound, id)
	}
	prefix := layout.Prefix(num, 0)[:5]
	return fn(prefix, layout.After(prefix))
}

// DiskUsage estimates the bytes of a database's rows on disk: notes, revisions, folders, indexes and views. It counts
// neither rows that are still in memory and in the log alone, nor large parts of messages, which databases share.
func (cat *catalog) DiskUsage(id note.DatabaseID) (bytes uint64, err error) {
	err = cat.rowsOf(id, func(start, end []byte) error {
		bytes, err = cat.eng.EstimateDiskUsage(start, end)
		return engineError(err)
	})
	return bytes, err
}

// Compact rewrites the tables that hold rows of a database, so that deleted and replaced rows take no space on disk any
// more. Readers and writers go on meanwhile. Compact returns the DiskUsage before and after. If ctx ends, it stops;
// what it has rewritten stays so.
func (cat *catalog) Compact(ctx context.Context, id note.DatabaseID) (before, after uint64, err error) {
	err = cat.rowsOf(id, func(start, end []byte) error {
		if before, err = cat.eng.EstimateDiskUsage(start, end); err != nil {
			return engineError(err)
		}
		if err = cat.eng.Compact(ctx, start, end, false); err != nil {
			return engineError(err)
		}
		after, err = cat.eng.EstimateDiskUsage(start, end)
		return engineError(err)
	})
	return before, after, err
}
