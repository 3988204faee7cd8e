package store

import (
	"fmt"
	"slices"
	"sync"

	"doublet/note"
	"doublet/store/layout"
)

// infoWatchers are notified when a database is created or removed, or when its description changes.
type infoWatchers struct {
	mu   sync.Mutex
	list []func(note.DatabaseID)
}

// WatchInfos calls fn with every database that is created or removed or whose Info changes, after the change is
// durable, as long as the store is open. fn must be quick. When fn looks up the database, the state may already be
// newer.
func (cat *catalog) WatchInfos(fn func(note.DatabaseID)) {
	cat.infos.mu.Lock()
	defer cat.infos.mu.Unlock()
	cat.infos.list = append(cat.infos.list, fn)
}

func (cat *catalog) infoChanged(id note.DatabaseID) {
	cat.infos.mu.Lock()
	list := slices.Clone(cat.infos.list)
	cat.infos.mu.Unlock()
	for _, fn := range list {
		fn(id)
	}
}

// Infos calls fn with the description of each database, in no order. It opens no database but reads one row of each. It
// waits until what it reads is durable. It skips a damaged row; Databases reports it.
func (cat *catalog) Infos(fn func(*layout.Info)) error {
	if err := cat.dbs.enter(); err != nil {
		return err
	}
	defer cat.dbs.leave()
	cat.dbs.mu.Lock()
	nums := make([]uint32, 0, len(cat.dbs.byNum))
	for num := range cat.dbs.byNum {
		nums = append(nums, num)
	}
	cat.dbs.mu.Unlock()
	slices.Sort(nums)
	snap := cat.eng.NewSnapshot()
	defer snap.Close()
	if err := cat.hz.wait(cat.hz.taken()); err != nil {
		return err
	}
	for _, num := range nums {
		if err := cat.alive(); err != nil {
			return err
		}
		v, err := getValue(snap, layout.Prefix(num, layout.KindInfo))
		if err != nil {
			continue
		}
		i, err := layout.ReadInfo(v)
		if err != nil {
			cat.env.Log.Error("store: damaged row", "err", fmt.Errorf("%w: info of database %d", ErrDamaged, num))
			continue
		}
		fn(i)
	}
	return nil
}
