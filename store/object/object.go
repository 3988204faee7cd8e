// Package object keeps content-addressed blobs in append-only, self-describing segment files.
//
// A blob is named by the SHA-256 of its content and found by its Location, the place of its record
// in a segment. The package knows no index, no references and no garbage: it appends, reads, scans
// and removes. Whoever uses it keeps the rows digest → Location, decides what is live, and can
// rebuild those rows by scanning the segments.
//
// Order of a durable write: Append, Sync of the Location that it returned, and only then a commit
// of what names the Location. A Location found in an index may still be on its way to the device
// (another writer's Sync has not returned): Sync it as well, which is free once it is durable.
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

// Location is the place of one record. It stays valid until its segment is removed.
type Location struct {
	Segment uint64
	Offset  uint32 // of the record in the segment file
	Stored  uint32 // bytes that the record takes in the file, its header included
	Size    uint32 // bytes of the uncompressed content
}

// End is the offset of the first byte after the record.
func (l Location) End() int64 { return int64(l.Offset) + int64(l.Stored) }

// LocationMaxLen is the greatest length of a Location in binary form.
const LocationMaxLen = 21

// Append appends the binary form, 4 to 21 bytes: four unsigned varints.
func (l Location) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, l.Segment)
	b = binary.AppendUvarint(b, uint64(l.Offset))
	b = binary.AppendUvarint(b, uint64(l.Stored))
	return binary.AppendUvarint(b, uint64(l.Size))
}

// ParseLocation reads the binary form from the start of b and returns the bytes after it.
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
	// ErrDamaged is the kind of every *DamageError: the record cannot be given back as it was written.
	ErrDamaged = errors.New("object: damaged")
	// ErrNotFound says that a Location's segment is not here. A reader that raced with a rewriting
	// looks the digest up again; a row that still names the segment names something lost.
	ErrNotFound = errors.New("object: no such segment")
	// ErrFailed says that an earlier flush to the device failed: what it held has an unknown fate,
	// so nothing more is accepted. Recovery is a restart of the process.
	ErrFailed = errors.New("object: flush failed, no further writes")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("object: closed")
	// ErrTooLarge says that a blob is over MaxSize.
	ErrTooLarge = errors.New("object: content too large")
	// ErrActive says that a segment is still being appended to.
	ErrActive = errors.New("object: segment is active")
	// ErrFormat says that a segment was written by a newer release.
	ErrFormat = errors.New("object: unknown segment format")
)

// DamageError says which record is damaged and how. errors.Is(err, ErrDamaged) holds.
type DamageError struct {
	Segment uint64
	Offset  int64
	Digest  Digest
	Reason  string
	Err     error // the file system's error where there is one
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("object: damaged: segment %d, offset %d, digest %s: %s", e.Segment, e.Offset, e.Digest, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes every DamageError one of the kind ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// Unwrap returns the file system's error.
func (e *DamageError) Unwrap() error { return e.Err }
