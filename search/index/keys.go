package index

import (
	"encoding/binary"

	"doublet/note"
)

// The first byte of a key is its space. The database's id (8 bytes) follows, so that all data of a database is in a few
// ranges. Numbers are big-endian.
//
//	01 name                        the index itself: format, cursor
//	02 db                          the database's State
//	03 db build(4) note(8) kind    a record: the words of a piece that is in no segment yet
//	04 db segment(4) term          a block of the segment's dictionary, by its first term
//	05 db segment(4) chunk(4)      a chunk of the segment's postings
//	06 db segment(4) ordinal(4)    a block of the segment's documents, by the first ordinal
//	07 db build(4) note(8)         a note whose attachments are not read yet
//	08 db build(4) note(8)         the message that the note had when it was read
//	09 db segment(4) bucket(4)     a row of the segment's pairs, by the first bucket
const (
	spaceMeta byte = iota + 1
	spaceState
	spaceRecord
	spaceTerms
	spacePosts
	spaceDocs
	spaceLate
	spaceMessage
	spacePairs
)

// Format is the version of the storage format and of the rules for words. An index of another version is built again,
// but not one of version unpaired, which has the same segments, some without pairs. Programs that write that version
// build one of this version again, because their merges lose pairs. When Format rises, unpaired goes.
const (
	Format   = 3
	unpaired = 2
)

func dbKey(space byte, db note.DatabaseID) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 40), space), uint64(db))
}

func partKey(space byte, db note.DatabaseID, part uint32) []byte {
	return binary.BigEndian.AppendUint32(dbKey(space, db), part)
}

func recordKey(db note.DatabaseID, build uint32, id note.ID, kind byte) []byte {
	return append(binary.BigEndian.AppendUint64(partKey(spaceRecord, db, build), uint64(id)), kind)
}

func lateKey(db note.DatabaseID, build uint32, id note.ID) []byte {
	return binary.BigEndian.AppendUint64(partKey(spaceLate, db, build), uint64(id))
}

func messageKey(db note.DatabaseID, build uint32, id note.ID) []byte {
	return binary.BigEndian.AppendUint64(partKey(spaceMessage, db, build), uint64(id))
}

func metaKey(name string) []byte { return append([]byte{spaceMeta}, name...) }

// after returns the first key after all keys that begin with prefix.
func after(prefix []byte) []byte {
	out := append([]byte(nil), prefix...)
	for i := len(out) - 1; i >= 0; i-- {
		if out[i]++; out[i] != 0 {
			return out[:i+1]
		}
	}
	return nil
}
