package object

import (
	"encoding/binary"
	"hash/crc32"
)

// The format of a segment file, all numbers little-endian:
//
//	segment = segment header (64 bytes), record …
//	record  = header (56 bytes: magic, flags, sizes, digest, checksums), table, body
//	table   = per block of the content: stored length | rawBlock (4), CRC-32C of the stored bytes (4)
//	body    = the blocks, each stored raw or as one zstd frame
//
// A block is 128 KB of content (the last one less). It is compressed and has a checksum of its own, so that a range of
// a large blob can be read, verified and unpacked without the rest. The CRC of a header is seeded with the segment's
// number, so that a record is never taken for one of another segment.
const (
	segmentMagic   = "DoubletS"
	segmentVersion = 1
	segmentHeader  = 64

	recordHeader = 56
	tableEntry   = 8
	blockSize    = 128 << 10
	rawBlock     = 1 << 31
)

// recordMagic is at the start of every record. Its bytes are rare in text and in headers of compressed formats.
var recordMagic = [4]byte{0xD7, 0x0B, 0x1E, 0xC7}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// header is the decoded header of a record.
type header struct {
	size   uint32 // of the content
	stored uint32 // of the whole record
	digest Digest
	table  uint32 // CRC-32C of the table
	// named means that the digest is a name of the caller's, not that of the content.
	named bool
}

// flagNamed is the flag of a header whose digest is a name. A reader rejects unknown flags.
const flagNamed = 1

// blocks returns the number of blocks of a content of size bytes.
func blocks(size uint32) int { return int((uint64(size) + blockSize - 1) / blockSize) }

// headLen returns the length of header and table of a content of size bytes.
func headLen(size uint32) int { return recordHeader + tableEntry*blocks(size) }

// blockLen returns the content length of block i.
func blockLen(size uint32, i int) int {
	return int(min(int64(size)-int64(i)*blockSize, blockSize))
}

// put writes the header into b as that of a record in the given segment.
func (h *header) put(b []byte, segment uint64) {
	copy(b, recordMagic[:])
	var flags uint32
	if h.named {
		flags |= flagNamed
	}
	binary.LittleEndian.PutUint32(b[4:], flags)
	binary.LittleEndian.PutUint32(b[8:], h.size)
	binary.LittleEndian.PutUint32(b[12:], h.stored)
	copy(b[16:48], h.digest[:])
	binary.LittleEndian.PutUint32(b[48:], h.table)
	binary.LittleEndian.PutUint32(b[52:], headerSum(b, segment))
}

func headerSum(b []byte, segment uint64) uint32 {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], segment)
	return crc32.Update(sum(id[:]), castagnoli, b[:52])
}

// parseHeader decodes a record header of the given segment. ok is false if b does not begin with one.
func parseHeader(b []byte, segment uint64) (h header, ok bool) {
	if len(b) < recordHeader || [4]byte(b[:4]) != recordMagic {
		return h, false
	}
	flags := binary.LittleEndian.Uint32(b[4:])
	if binary.LittleEndian.Uint32(b[52:]) != headerSum(b, segment) || flags&^flagNamed != 0 {
		return h, false
	}
	h.named = flags&flagNamed != 0
	h.size = binary.LittleEndian.Uint32(b[8:])
	h.stored = binary.LittleEndian.Uint32(b[12:])
	h.table = binary.LittleEndian.Uint32(b[48:])
	copy(h.digest[:], b[16:48])
	head := uint64(headLen(h.size))
	return h, h.size <= MaxSize && uint64(h.stored) >= head && uint64(h.stored) <= head+uint64(h.size)
}

// entry is one row of the table.
type entry struct {
	stored uint32
	raw    bool
	sum    uint32
}

func putEntry(b []byte, e entry) {
	n := e.stored
	if e.raw {
		n |= rawBlock
	}
	binary.LittleEndian.PutUint32(b, n)
	binary.LittleEndian.PutUint32(b[4:], e.sum)
}

func tableRow(table []byte, i int) entry {
	b := table[i*tableEntry:]
	n := binary.LittleEndian.Uint32(b)
	return entry{stored: n &^ rawBlock, raw: n&rawBlock != 0, sum: binary.LittleEndian.Uint32(b[4:])}
}

// checkTable verifies the table against the header: its checksum, every block's length, and their total.
func checkTable(h *header, table []byte) bool {
	if sum(table) != h.table {
		return false
	}
	total := uint64(headLen(h.size))
	for i := range blocks(h.size) {
		e := tableRow(table, i)
		n := uint32(blockLen(h.size, i))
		if e.stored > n || (e.raw && e.stored != n) {
			return false
		}
		total += uint64(e.stored)
	}
	return total == uint64(h.stored)
}

// putSegmentHeader writes a segment's header into b. The nonce distinguishes two files with the same number.
func putSegmentHeader(b []byte, id uint64, nonce [16]byte) {
	clear(b[:segmentHeader])
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint32(b[8:], segmentVersion)
	binary.LittleEndian.PutUint64(b[16:], id)
	copy(b[24:40], nonce[:])
	binary.LittleEndian.PutUint32(b[60:], sum(b[:60]))
}

// checkSegmentHeader returns the version. ok is false if the header is damaged or that of another segment.
func checkSegmentHeader(b []byte, id uint64) (version uint32, ok bool) {
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic ||
		binary.LittleEndian.Uint32(b[60:]) != sum(b[:60]) || binary.LittleEndian.Uint64(b[16:]) != id {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[8:]), true
}
