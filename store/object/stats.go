package object

import "sync/atomic"

type counters struct {
	appends, copies, reads, rawBytes, storedBytes, syncs, syncWaits, damaged atomic.Uint64
}

// Stats is a snapshot of a store's counters since it was opened.
type Stats struct {
	Appends     uint64 // blobs appended
	Copies      uint64 // records moved by Copy
	Reads       uint64 // blobs and ranges read
	RawBytes    uint64 // content bytes appended
	StoredBytes uint64 // bytes that appends and copies wrote
	Syncs       uint64 // flushes of segment files
	SyncWaits   uint64 // calls of Sync that had to wait for the device
	Damaged     uint64 // damaged records met
	Segments    int    // segments
	Bytes       int64  // total size of those that have a file
	Away        int    // segments that were evicted
	AwayBytes   int64  // their total size
	OpenFiles   int    // segment files open for reading
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	c := &s.count
	st := Stats{
		Appends: c.appends.Load(), Copies: c.copies.Load(), Reads: c.reads.Load(),
		RawBytes: c.rawBytes.Load(), StoredBytes: c.storedBytes.Load(),
		Syncs: c.syncs.Load(), SyncWaits: c.syncWaits.Load(), Damaged: c.damaged.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Segments, st.OpenFiles = len(s.segments), s.handles.len()
	for _, g := range s.segments {
		if g.away {
			st.Away++
			st.AwayBytes += g.size
		} else {
			st.Bytes += g.size
		}
	}
	return st
}

// CopyStats counts what happened to copies of segments in another place since the start.
type CopyStats struct {
	Fetches      uint64 // reads of copies
	FetchedBytes uint64 // bytes that they returned
	Failed       uint64 // reads that failed
	Shipped      uint64 // copies written
	ShippedBytes uint64 // their bytes
	Recalled     uint64 // copies read as a whole
}
