package layout

import (
	"encoding/binary"

	"doublet/note/pack"
)

// HeadSize is the number of bytes at the start of a segment that a Copy holds. They identify the segment.
const HeadSize = 64

// maxCopyName bounds the length of the name of a copy, in bytes.
const maxCopyName = 1000

// Copy is the row of a sealed object segment that has a copy elsewhere (data.segments_archive).
type Copy struct {
	// Incarnation is that of the store when it wrote the copy.
	Incarnation uint64
	// Name is that of the blob, which is encrypted. Stored is its size in bytes, Sum its SHA-256.
	Name   string
	Stored int64
	Sum    [32]byte
	// Size is the size of the segment in bytes, and Head its start.
	Size int64
	Head [HeadSize]byte
	// Gone means that the segment was removed. The row stays until the blob is removed, too.
	Gone bool
}

// CopyKey returns the key of the row of a segment's copy.
func CopyKey(segment uint64) []byte { return NumberKey(SpaceTier, segment) }

// AppendCopy appends the encoded row.
func AppendCopy(dst []byte, c *Copy) []byte {
	gone := byte(0)
	if c.Gone {
		gone = 1
	}
	dst = appendString(binary.AppendUvarint(append(dst, gone), c.Incarnation), c.Name)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(c.Stored)), uint64(c.Size))
	return append(append(dst, c.Sum[:]...), c.Head[:]...)
}

// ReadCopy decodes the row.
func ReadCopy(b []byte) (Copy, error) {
	r := reader{pack.Reader{B: b}}
	c := Copy{Gone: r.Bool(), Incarnation: r.Uvarint(), Name: r.Word(maxCopyName), Stored: int64(r.Uvarint()),
		Size: int64(r.Uvarint())}
	r.Fixed(c.Sum[:])
	r.Fixed(c.Head[:])
	if c.Name == "" || c.Stored <= 0 || c.Size <= HeadSize {
		r.Spoil()
	}
	return c, r.end()
}
