package store

import "doublet/store/object"

// totals are the numbers of copies and of bytes.
type totals struct {
	copies, bytes, lag float64
	failures, healed   uint64
}

func (t *tiers) totals() (sum totals) {
	segments := t.obj.Segments()
	t.mu.Lock()
	defer t.mu.Unlock()
	sum.failures, sum.healed = t.failures, t.healed
	for _, c := range t.rows {
		if !c.Gone {
			sum.copies++
			sum.bytes += float64(c.Stored)
		}
	}
	for _, seg := range segments {
		if seg.Sealed && !t.hasCopy(seg) {
			sum.lag += float64(seg.Size)
		}
	}
	return sum
}

// publish registers the statistics.
func (t *tiers) publish() {
	if t.away == nil || t.opt.Stats == nil {
		return
	}
	gauge := func(name, help string, fn func() float64) {
		t.opt.Stats.GaugeFunc("Database.DAOS.Copies."+name, help, fn)
	}
	counter := func(name, help string, fn func(object.CopyStats) uint64) {
		t.opt.Stats.CounterFunc("Database.DAOS.Copies."+name, help,
			func() float64 { return float64(fn(t.away.Stats())) })
	}
	gauge("Segments", "segments with a copy at data.segments_archive", func() float64 { return t.totals().copies })
	gauge("Bytes", "bytes of these copies", func() float64 { return t.totals().bytes })
	gauge("Lag.Bytes", "bytes of full segments without a copy yet", func() float64 { return t.totals().lag })
	gauge("Evicted.Segments", "segments that are not on disk any more, only their copies",
		func() float64 { return float64(t.obj.Stats().Away) })
	gauge("Evicted.Bytes", "bytes of these segments", func() float64 { return float64(t.obj.Stats().AwayBytes) })
	t.opt.Stats.CounterFunc("Database.DAOS.Copies.Failures", "runs of the task Segments that failed",
		func() float64 { return float64(t.totals().failures) })
	t.opt.Stats.CounterFunc("Database.DAOS.Copies.Healed", "damaged segments that were replaced by their copies",
		func() float64 { return float64(t.totals().healed) })
	gauge("Unhealed", "damaged segments that no copy can replace",
		func() float64 { return float64(t.unhealed.count()) })
	counter("Written", "copies written", func(s object.CopyStats) uint64 { return s.Shipped })
	counter("WrittenBytes", "bytes of copies written", func(s object.CopyStats) uint64 { return s.ShippedBytes })
	counter("Recalled", "segments that came back to the disk", func(s object.CopyStats) uint64 { return s.Recalled })
	counter("Fetches", "reads of copies", func(s object.CopyStats) uint64 { return s.Fetches })
	counter("FetchedBytes", "bytes that these reads returned",
		func(s object.CopyStats) uint64 { return s.FetchedBytes })
	counter("FetchFailures", "reads of copies that failed", func(s object.CopyStats) uint64 { return s.Failed })
}
