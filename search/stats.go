package search

import "doublet/stat"

// Stats receives the statistics of the search; nil discards them.
type Stats = *stat.Tree

// counters holds the statistics of the search.
type counters struct {
	notes, text, attachments  *stat.Counter
	encrypted, broken, beyond *stat.Counter
	queries, looked, helped   *stat.Counter
	failed, remade            *stat.Counter
	segments, merged          *stat.Counter
	query                     *stat.Histogram
}

func (c *counters) init(s *Service, t Stats) {
	if t == nil {
		t = stat.New(s.env.Clock)
	}
	c.notes = t.Counter("FullText.Notes.Indexed", "notes whose text was indexed")
	c.text = t.Counter("FullText.Text.Bytes", "bytes of text that were indexed")
	c.attachments = t.Counter("FullText.Attachments.Read", "messages whose attachments were read")
	c.encrypted = t.Counter("FullText.Skipped.Encrypted", "parts that were left out because they are encrypted")
	c.broken = t.Counter("FullText.Skipped.Broken", "parts and messages that were left out because they cannot be read")
	c.beyond = t.Counter("FullText.Skipped.Beyond", "texts that were cut, or left out, because they go beyond a limit")
	c.queries = t.Counter("FullText.Queries", "queries that the index was asked")
	c.looked = t.Counter("FullText.Queries.Looked", "texts that were read because the index could not decide")
	c.helped = t.Counter("FullText.Queries.Helped",
		"times that a query had a processor more to read texts on")
	c.failed = t.Counter("FullText.Queries.Failed",
		"queries that the index could not answer, and that were answered without it")
	c.remade = t.Counter("FullText.Index.Remade", "damaged indexes that were built again")
	c.segments = t.Counter("FullText.Segments.Written", "segments written")
	c.merged = t.Counter("FullText.Segments.Merged", "segments that were merged from others")
	c.query = t.Histogram("FullText.Queries.Time", "time of a query", stat.Seconds)
	t.GaugeFunc("FullText.Behind", "changes of the store that the index has not seen", func() float64 {
		n, _ := s.Lag()
		return float64(n)
	})
	t.GaugeFunc("FullText.Behind.Seconds", "for how long the index has been behind, seconds", func() float64 {
		_, d := s.Lag()
		return d.Seconds()
	})
	t.GaugeFunc("FullText.Databases.Off", "databases whose full text is switched off: searches read their texts",
		func() float64 { return float64(s.off.Load()) })
	t.GaugeFunc("FullText.Index.Bytes", "bytes that the index takes on disk", func() float64 {
		if x := s.index(); x != nil {
			return float64(x.Size())
		}
		return 0
	})
}

func (c *counters) skipped(a *analysed) {
	c.text.Add(a.bytes)
	c.encrypted.Add(uint64(a.skipped.Encrypted))
	c.broken.Add(uint64(a.skipped.Broken))
	c.beyond.Add(uint64(a.skipped.Beyond))
}

// read counts a note whose text was indexed.
func (c *counters) read(a *analysed) {
	c.notes.Inc()
	c.skipped(a)
}

// readAttachments counts a message whose attachments were read.
func (c *counters) readAttachments(a *analysed) {
	c.attachments.Inc()
	c.skipped(a)
}
