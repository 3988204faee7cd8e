// Package engine holds the settings that all Pebble engines of a server share.
package engine

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

// stopWrites is the number of memtables at which writes wait. The engine keeps one more file of its log for use again.
const stopWrites = 4

// Share sets the settings that measurements showed to suit all engines (doc/performance.md). Values of at least
// separate bytes are stored in blob files: such a file is written once, at the flush, and not again by every compaction
// of the keys.
func Share(o *pebble.Options, separate int, compression func() *block.CompressionProfile) {
	o.FormatMajorVersion = pebble.FormatValueSeparation
	o.MemTableStopWritesThreshold = stopWrites
	o.L0CompactionThreshold = 4
	o.LBaseMaxBytes = 64 << 20
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].Compression = compression
	}
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{
			Enabled:               true,
			MinimumSize:           separate,
			MaxBlobReferenceDepth: 10,
			RewriteMinimumAge:     5 * time.Minute,
			TargetGarbageRatio:    0.3,
		}
	}
}

// DiskUsage returns the bytes of an engine's files. Pebble 2.1 does not count the blob files that were there when it
// was opened, and subtracts them when they go.
func DiskUsage(m *pebble.Metrics) uint64 {
	return m.DiskSpaceUsage() - m.BlobFiles.Local.LiveSize + m.BlobFiles.LiveSize
}
