package store

import (
	"fmt"
	"slices"
	"sync"

	"doublet/note"
	"doublet/store/layout"
)

// infoWatchers are told which databases were made, changed or removed as a whole.
type infoWatchers struct {
	mu   sync.Mutex
	list []func(note.DatabaseID)
}

// WatchInfos calls fn, after the change is durable, with every database that is made or removed or
// whose Info changes, as long as the store is open. fn must be quick. What it looks up by then may be
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

// Infos calls fn with what each database is, in no order, and opens none of them: it reads one row
// of each. A row that is damaged is left out; Databases names it.
func (cat *catalog) Infos(fn func(*layout.Info)) error {
	cat.dbs.mu.Lock()
	nums := make([]uint32, 0, len(cat.dbs.byNum))
	for num := range cat.dbs.byNum {
		nums = append(nums, num)
	}
	cat.dbs.mu.Unlock()
	slices.Sort(nums)
	for _, num := range nums {
		if err := cat.alive(); err != nil {
			return err
		}
		v, err := getValue(cat.eng, layout.Prefix(num, layout.KindInfo))
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
