package store

import (
	"sync/atomic"

	"doublet/store/engine"

	"github.com/cockroachdb/pebble/v2"
)

// storeStats registers the statistics of the store, under Domino's names if Domino has one.
type storeStats struct{ pool poolPeak }

// poolPeak is the largest size of the buffer pool that was seen. The engine keeps none. The pool only grows until
// tables are removed, so its size is read after each compaction, before the blocks of the replaced tables leave the
// pool, and whenever the statistic is read.
type poolPeak struct{ bytes atomic.Int64 }

// seen raises the peak to a size if that is larger, and returns the peak.
func (p *poolPeak) seen(size int64) int64 {
	for {
		peak := p.bytes.Load()
		if size <= peak || p.bytes.CompareAndSwap(peak, size) {
			return max(peak, size)
		}
	}
}

func (st *storeStats) init(s *Store) {
	t := s.opt.Stats
	if t == nil {
		return
	}
	open := func() float64 {
		s.dbs.mu.Lock()
		defer s.dbs.mu.Unlock()
		return float64(len(s.dbs.open))
	}
	t.GaugeFunc("Database.DbCache.CurrentEntries", "databases kept open", open)
	t.GaugeFunc("Database.DbCache.MaxEntries", "databases kept open at most",
		func() float64 { return float64(s.opt.Databases) })
	t.CounterFunc("Database.DbCache.Hits", "opens of a database that was open",
		func() float64 { return float64(s.dbs.hits.Load()) })
	t.CounterFunc("Database.DbCache.InitialDbOpens", "opens of a database that was not",
		func() float64 { return float64(s.dbs.misses.Load()) })
	t.CounterFunc("Database.DbCache.Lookups", "opens of a database",
		func() float64 { return float64(s.dbs.hits.Load() + s.dbs.misses.Load()) })
	t.GaugeFunc("Database.DbCache.HighWaterMark", "databases that were kept open, at most so far",
		func() float64 { return float64(s.dbs.most.Load()) })
	t.CounterFunc("Database.DbCache.OvercrowdingRejections", "databases not kept open because too many were",
		func() float64 { return float64(s.dbs.crowded.Load()) })
	t.GaugeFunc("Database.FolderCache.Used", "bytes of lists of folders' members and of their rows in memory, at most",
		func() float64 { return float64(s.dbs.listed.bytes.Load()) })
	t.GaugeFunc("Database.FolderCache.Maximum", "bytes that these lists may take",
		func() float64 { return float64(s.dbs.listed.most) })
	t.CounterFunc("Database.FolderCache.Hits", "uses of 1,024 UIDs of a folder that were in memory",
		func() float64 { return float64(s.dbs.listed.hits.Load()) })
	t.CounterFunc("Database.FolderCache.Reads", "uses of 1,024 UIDs of a folder that had to be read",
		func() float64 { return float64(s.dbs.listed.reads.Load()) })
	t.CounterFunc("Database.FolderCache.Drops", "databases whose lists were dropped for lack of memory",
		func() float64 { return float64(s.dbs.listed.drops.Load()) })
	t.GaugeFunc("Database.Count", "databases", func() float64 {
		s.dbs.mu.Lock()
		defer s.dbs.mu.Unlock()
		return float64(len(s.dbs.number))
	})
	t.GaugeFunc("Database.Horizon", "sequence below which everything is durable",
		func() float64 { return float64(s.hz.durable()) })
	t.CounterFunc("Database.Space.Refused", "writes refused below the floor of free space",
		func() float64 { return float64(s.space.refused.Load()) })
	t.CounterFunc("Database.Feed.Reads", "reads of the feed of changes",
		func() float64 { return float64(s.feed.reads.Load()) })
	t.CounterFunc("Database.Feed.ReadsInMemory", "of these, reads of changes that are held in memory",
		func() float64 { return float64(s.feed.inMemory.Load()) })
	metric := func(f func(*pebble.Metrics) float64) func() float64 {
		return func() float64 {
			if s.closed.Load() {
				return 0
			}
			return f(s.eng.Metrics())
		}
	}
	t.GaugeFunc("Database.BufferPool.Maximum", "size of the buffer pool, bytes",
		func() float64 { return float64(s.opt.CacheSize) })
	t.GaugeFunc("Database.BufferPool.Used", "bytes of the buffer pool in use",
		metric(func(m *pebble.Metrics) float64 { return float64(m.BlockCache.Size) }))
	t.GaugeFunc("Database.BufferPool.Peak", "bytes of the buffer pool in use, at most so far",
		metric(func(m *pebble.Metrics) float64 { return float64(st.pool.seen(m.BlockCache.Size)) }))
	t.CounterFunc("Database.BufferPool.Reads", "blocks that were read into the buffer pool from disk",
		metric(func(m *pebble.Metrics) float64 { return float64(m.BlockCache.Misses) }))
	t.GaugeFunc("Database.BufferPool.PercentReadsInBuffer", "reads found in the buffer pool, percent",
		metric(func(m *pebble.Metrics) float64 {
			all := m.BlockCache.Hits + m.BlockCache.Misses
			if all == 0 {
				return 0
			}
			return 100 * float64(m.BlockCache.Hits) / float64(all)
		}))
	t.GaugeFunc("Database.RM.Log.Bytes", "bytes of the transaction log",
		metric(func(m *pebble.Metrics) float64 { return float64(m.WAL.Size) }))
	t.CounterFunc("Database.RM.Log.BytesWritten", "bytes written to the transaction log",
		metric(func(m *pebble.Metrics) float64 { return float64(m.WAL.BytesWritten) }))
	t.CounterFunc("Database.RM.Commits.Early", "changes that were acknowledged before the flush of the log",
		func() float64 { return float64(s.early.count.Load()) })
	t.GaugeFunc("Database.RM.Commits.Unflushed", "of these, changes whose flush is awaited",
		func() float64 { return float64(s.early.waiting()) })
	t.GaugeFunc("Database.Size", "bytes of the store's tables on disk",
		metric(func(m *pebble.Metrics) float64 { return float64(engine.DiskUsage(m)) }))
	t.GaugeFunc("Database.Compactions.Debt", "bytes that compactions still have to move",
		metric(func(m *pebble.Metrics) float64 { return float64(m.Compact.EstimatedDebt) }))
	s.tiers.publish()
	t.GaugeFunc("Database.DAOS.Objects.Bytes", "bytes of object segments on disk",
		func() float64 { return float64(s.obj.Stats().Bytes) })
	t.CounterFunc("Database.DAOS.Objects.Appended", "objects written",
		func() float64 { return float64(s.obj.Stats().Appends) })
	t.CounterFunc("Database.DAOS.Objects.RawBytes", "bytes of objects written, before compression",
		func() float64 { return float64(s.obj.Stats().RawBytes) })
	t.CounterFunc("Database.DAOS.Objects.StoredBytes",
		"bytes that were written for objects, after compression, with those that Compact moved",
		func() float64 { return float64(s.obj.Stats().StoredBytes) })
	t.CounterFunc("Database.DAOS.Objects.Shared", "parts of messages that were stored already",
		func() float64 { return float64(s.shared.Load()) })
	t.CounterFunc("Database.DAOS.Objects.SharedBytes", "bytes of parts of messages that were stored already",
		func() float64 { return float64(s.sharedBytes.Load()) })
	t.CounterFunc("Database.DAOS.Objects.Damaged", "damaged objects met",
		func() float64 { return float64(s.obj.Stats().Damaged) })
}
