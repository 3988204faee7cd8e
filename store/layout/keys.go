// Package layout defines the map of keys of the store and the encoding of its rows, as described in doc/store.md. The
// store writes through it, and the packages below the store (check, dump, view) read through it. No other package knows
// the format of a key.
package layout

import (
	"encoding/binary"

	"doublet/note"
)

// FormatVersion is the version of the keys and encodings of this package. A store with a newer version is refused;
// every older one can be read. Format 2 added keywords to the rows of folders, format 3 databases with a key of their
// own.
const FormatVersion = 3

// FormatPlain is the version of a store in which no database ever had a key of its own.
const FormatPlain = 2

// Space is the first byte of a key. It selects the kind of data that the row belongs to.
type Space byte

// The spaces of the whole server.
const (
	SpaceMeta       Space = 0x01 // name → value: format, incarnation, ceilings
	SpaceDatabase   Space = 0x02 // database id (8) → number, info
	SpaceFeed       Space = 0x03 // sequence (8) → feed entry
	SpaceCursor     Space = 0x04 // consumer name → cursor
	SpaceRecipe     Space = 0x05 // recipe id (8) → recipe
	SpaceRecipeRef  Space = 0x06 // recipe id (8), database number (4), note id (8) → nothing
	SpaceRecipeHash Space = 0x07 // digest (32) → recipe id
	SpaceObject     Space = 0x08 // digest (32) → location
	SpaceObjectRef  Space = 0x09 // digest (32), 'r' recipe id (8) | 'n' number (4) note id (8) → nothing
	SpaceSweep      Space = 0x0A // 'r' recipe id (8) | 'o' digest (32) → nothing: may have lost its last reference
	// SpaceJournal, SpaceMate and SpaceBackup are reserved for the journal copy, cluster mates and backup.
	SpaceJournal Space = 0x0B
	SpaceMate    Space = 0x0C
	SpaceTier    Space = 0x0D // segment (8) → its copy in another place
	SpaceBackup  Space = 0x0E
	// SpaceData holds the rows of the databases: number (4), kind (1), rest.
	SpaceData Space = 0x10
)

// Kind is the kind of a row of a database.
type Kind byte

// The rows of a database.
const (
	KindInfo       Kind = 'i' // → info: description of the database
	KindCounters   Kind = 'm' // → counters: ledger, next note id, sizes
	KindNote       Kind = 'n' // note id (8) → identity, state, ledger numbers
	KindContent    Kind = 'c' // note id (8) → revision tree, content of the winner, summary
	KindLeaf       Kind = 'x' // note id (8), revision (24) → content of a leaf that did not win
	KindUNID       Kind = 'u' // UNID (16) → note id, or a grave (deleted for good)
	KindSequence   Kind = 's' // sequence (8) → note id: one row per note, at its latest change
	KindUnnumbered Kind = 'y' // sequence (8) → note id: changes that no home (primary) has numbered
	KindModSeq     Kind = 'q' // MODSEQ (8) → change
	KindFolder     Kind = 'h' // folder note id (8) → folder head
	KindMember     Kind = 'f' // folder note id (8), UID (4) → note id
	KindChunk      Kind = 'k' // folder note id (8), UID / 1,024 (4) → counters of that chunk
	KindDeleted    Kind = 'e' // folder note id (8), UID (4) → nothing: marked \Deleted
	KindThread     Kind = 't' // thread id (16), note id (8) → nothing
	KindName       Kind = 'z' // folder name → highest UIDVALIDITY ever shown under it
	KindPeer       Kind = 'p' // replica id (8) → how far a known replica has read
	// Views are identified by a number. 1–255 are the indexes that are part of every write. A user's view has the note
	// id of its design note with the top bit set, so the two cannot collide.
	// index number (8), key, 0x00, note id (8) → nothing; view number (8), generation (1), sort key, note id (8) [,
	// revision (24)] → entry
	KindView     Kind = 'v'
	KindViewNote Kind = 'w' // view number (8), generation (1), note id (8) → the ends of its entries' keys
	// view number (8) → definition, cursor, totals; view number (8), generation (1), category → its totals
	KindViewMeta Kind = 'V'
)

// ChunkShift makes chunks of 1,024 UIDs.
const ChunkShift = 10

// Key returns the start of a key in a space of the server.
func Key(s Space, parts ...[]byte) []byte {
	k := append(make([]byte, 0, 48), byte(s))
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

// NumberKey returns a key that consists of a number in a space of the server.
func NumberKey(s Space, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), byte(s)), n)
}

// AppendPrefix appends the prefix of a kind of row of database number db.
func AppendPrefix(dst []byte, db uint32, k Kind) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, byte(SpaceData)), db)
	return append(dst, byte(k))
}

// Prefix returns the prefix of a kind of row of a database.
func Prefix(db uint32, k Kind) []byte { return AppendPrefix(make([]byte, 0, 40), db, k) }

// IDKey returns the key of a row that is identified by one number: a note id, a sequence or a MODSEQ.
func IDKey(db uint32, k Kind, id uint64) []byte {
	return binary.BigEndian.AppendUint64(Prefix(db, k), id)
}

// NoteKey returns the key of a note's row.
func NoteKey(db uint32, k Kind, id note.ID) []byte { return IDKey(db, k, uint64(id)) }

// FolderUIDKey returns the key of a row of a folder that is identified by UID or chunk.
func FolderUIDKey(db uint32, k Kind, folder note.ID, uid uint32) []byte {
	return binary.BigEndian.AppendUint32(NoteKey(db, k, folder), uid)
}

// UNIDKey returns the key of the row UNID → note id.
func UNIDKey(db uint32, u note.UNID) []byte { return append(Prefix(db, KindUNID), u[:]...) }

// ThreadKey returns the key of a note's entry in its thread.
func ThreadKey(db uint32, thread note.UNID, id note.ID) []byte {
	return binary.BigEndian.AppendUint64(append(Prefix(db, KindThread), thread[:]...), uint64(id))
}

// LeafKey returns the key of a conflict leaf's content.
func LeafKey(db uint32, id note.ID, r note.Revision) []byte {
	k := binary.BigEndian.AppendUint64(NoteKey(db, KindLeaf, id), r.Generation)
	return append(k, r.Hash[:]...)
}

// RecipeRefKey returns the key of a note's reference to a recipe.
func RecipeRefKey(r note.RecipeID, db uint32, id note.ID) []byte {
	k := binary.BigEndian.AppendUint32(NumberKey(SpaceRecipeRef, uint64(r)), db)
	return binary.BigEndian.AppendUint64(k, uint64(id))
}

// ObjectByRecipe returns the key of a recipe's reference to an object.
func ObjectByRecipe(d note.Digest, r note.RecipeID) []byte {
	return binary.BigEndian.AppendUint64(append(Key(SpaceObjectRef, d[:]), 'r'), uint64(r))
}

// ObjectByNote returns the key of a note's reference to an attachment's object.
func ObjectByNote(d note.Digest, db uint32, id note.ID) []byte {
	k := binary.BigEndian.AppendUint32(append(Key(SpaceObjectRef, d[:]), 'n'), db)
	return binary.BigEndian.AppendUint64(k, uint64(id))
}

// SweepRecipe returns the key that marks a recipe that may have lost its last reference.
func SweepRecipe(r note.RecipeID) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(SpaceSweep), 'r'}, uint64(r))
}

// SweepObject returns the key that marks an object that may have lost its last reference.
func SweepObject(d note.Digest) []byte {
	return append([]byte{byte(SpaceSweep), 'o'}, d[:]...)
}

// MetaKey returns the key of a named value of the store.
func MetaKey(name string) []byte { return append([]byte{byte(SpaceMeta)}, name...) }

// After returns the first key after all keys that start with prefix, or nil if there is none.
func After(prefix []byte) []byte {
	k := append([]byte(nil), prefix...)
	for i := len(k) - 1; i >= 0; i-- {
		if k[i]++; k[i] != 0 {
			return k[:i+1]
		}
	}
	return nil
}

// Tail64 returns the number in a key's last 8 bytes, or 0 for a shorter key.
func Tail64(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key[len(key)-8:])
}

// Tail32 returns the number in a key's last 4 bytes, or 0 for a shorter key.
func Tail32(key []byte) uint32 {
	if len(key) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(key[len(key)-4:])
}

// Split splits a key of SpaceData into its parts. ok is false for other keys.
func Split(key []byte) (db uint32, k Kind, rest []byte, ok bool) {
	if len(key) < 6 || Space(key[0]) != SpaceData {
		return 0, 0, nil, false
	}
	return binary.BigEndian.Uint32(key[1:]), Kind(key[5]), key[6:], true
}
