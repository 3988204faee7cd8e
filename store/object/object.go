// Package object stores content-addressed blobs in append-only, self-describing segment files.
//
// A blob is named by the SHA-256 of its content and found by its Location, the position of its record in a segment. The
// package has no index, no references and no garbage collection: it appends, reads, scans and removes. The caller keeps
// the rows digest → Location, decides which blobs are live, and can rebuild those rows by scanning the segments.
//
// A durable write is done in this order: Append, Sync of the returned Location, and only then a commit of the rows that
// hold the Location. A Location found in an index may not be on the device yet, if another writer's Sync has not
// returned. Sync it too; that costs nothing once it is durable.
package object

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Digest is the SHA-256 of a blob's uncompressed content.
type Digest [sha256.Size]byte

// Sum returns the digest of content.
func Sum(content []byte) Digest { return sha256.Sum256(content) }

// String returns the digest in lower-case hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MaxSize is the largest content of one blob, in bytes.
const MaxSize = 1<<31 - 1

// maxSegment bounds segment numbers: their file names have twelve digits.
const maxSegment = 999_999_999_999

// Location is the position of one record. It stays valid until its segment is removed.
type Location struct {
	Segment uint64
	Offset  uint32 // of the record in the segment file
	Stored  uint32 // bytes that the record takes in the file, its header included
	Size    uint32 // bytes of the uncompressed content
}

// End returns the offset of the first byte after the record.
func (l Location) End() int64 { return int64(l.Offset) + int64(l.Stored) }

// LocationMaxLen is the maximum length of a Location in binary form, in bytes.
const LocationMaxLen = 21

// Append appends the binary form, 4 to 21 bytes: four unsigned varints.
func (l Location) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, l.Segment)
	b = binary.AppendUvarint(b, uint64(l.Offset))
	b = binary.AppendUvarint(b, uint64(l.Stored))
	return binary.AppendUvarint(b, uint64(l.Size))
}

// ParseLocation parses the binary form at the start of b and returns the bytes after it.
func ParseLocation(b []byte) (Location, []byte, error) {
	var v [4]uint64
	for i := range v {
		n := 0
		v[i], n = binary.Uvarint(b)
		if n <= 0 || (i > 0 && v[i] > 1<<32-1) {
			return Location{}, nil, errBadLocation
		}
		b = b[n:]
	}
	if v[0] > maxSegment {
		return Location{}, nil, errBadLocation
	}
	return Location{v[0], uint32(v[1]), uint32(v[2]), uint32(v[3])}, b, nil
}

var errBadLocation = errors.New("object: bad location")

var (
	// ErrDamaged matches every *DamageError: the record cannot be returned as it was written.
	ErrDamaged = errors.New("object: damaged")
	// ErrNotFound means that a Location's segment does not exist. After a race with a rewrite, looking up the digest
	// again finds the new Location. If the row still has the same segment, the blob is lost.
	ErrNotFound = errors.New("object: no such segment")
	// ErrFailed means that an earlier flush to the device failed. It is not known which of its data is on the device,
	// so nothing more is accepted. Restart the process to recover.
	ErrFailed = errors.New("object: flush failed, no further writes")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("object: closed")
	// ErrTooLarge means that a blob is larger than MaxSize.
	ErrTooLarge = errors.New("object: content too large")
	// ErrActive means that a segment is still being appended to.
	ErrActive = errors.New("object: segment is active")
	// ErrFormat means that a segment was written by a newer release.
	ErrFormat = errors.New("object: unknown segment format")
	// ErrAway means that the copy of an evicted segment cannot be read for now. A later attempt may succeed.
	ErrAway = errors.New("object: the copy of the segment cannot be reached")
	// ErrLost means that the other place does not have the copy of a segment as it was written.
	ErrLost = errors.New("object: the copy of the segment is lost")
)

// DamageError describes a damaged record. It matches ErrDamaged.
type DamageError struct {
	Segment uint64
	Offset  int64
	Digest  Digest
	Reason  string
	Err     error // the file system's error, if any
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("object: damaged: segment %d, offset %d, digest %s: %s", e.Segment, e.Offset, e.Digest, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// Unwrap returns the file system's error.
func (e *DamageError) Unwrap() error { return e.Err }
