// Package note holds the words of Doublet: a note and its parts, the identity of everything, who
// acts and what the access list grants, and the pure rules by which copies of a note compare and
// merge. It imports nothing of ours and touches nothing outside its arguments.
package note

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// UNID names a note, the same in every replica, for ever.
type UNID [16]byte

// String prints 32 lower-case hex digits.
func (u UNID) String() string { return hex.EncodeToString(u[:]) }

// IsZero says that no note is named.
func (u UNID) IsZero() bool { return u == UNID{} }

// Compare orders UNIDs by their bytes.
func (u UNID) Compare(v UNID) int { return compareBytes(u[:], v[:]) }

// ParseUNID reads what String prints.
func ParseUNID(s string) (UNID, error) {
	var u UNID
	if len(s) != 32 {
		return u, fmt.Errorf("a UNID is 32 hex digits, not %q", s)
	}
	_, err := hex.Decode(u[:], []byte(s))
	if err != nil {
		return UNID{}, fmt.Errorf("a UNID is 32 hex digits, not %q", s)
	}
	return u, nil
}

// DeriveUNID is the UNID of something that must get the same name however often it is made: the
// hash over its parts, each with its length.
func DeriveUNID(parts ...[]byte) UNID {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	var u UNID
	copy(u[:], h.Sum(nil))
	return u
}

// DatabaseID names a database; all replicas of it share the name (Domino: replica id).
type DatabaseID uint64

// String prints 16 upper-case hex digits, as Domino shows replica ids.
func (d DatabaseID) String() string { return fmt.Sprintf("%016X", uint64(d)) }

// ParseDatabaseID reads what String prints.
func ParseDatabaseID(s string) (DatabaseID, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("a database id is 16 hex digits, not %q", s)
	}
	return DatabaseID(v), nil
}

// ReplicaID names one replica of one database; it stands in stamps.
type ReplicaID uint64

// ID is a note's local number in one replica: ascending in the order of arrival, never reused.
type ID uint64

// RecipeID is the local number of a stored message, shared by all notes of that message.
type RecipeID uint64

// Digest is the SHA-256 of something content-addressed.
type Digest [32]byte

// String prints 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero says that nothing is named.
func (d Digest) IsZero() bool { return d == Digest{} }

// ErrCorrupt says that bytes are not what this package once wrote.
var ErrCorrupt = errors.New("note: corrupt encoding")

// Class says what a note is for.
type Class uint8

// The classes.
const (
	Document Class = iota + 1
	Folder
	Design
	Profile
	ACLNote
)

func (c Class) String() string {
	switch c {
	case Document:
		return "document"
	case Folder:
		return "folder"
	case Design:
		return "design"
	case Profile:
		return "profile"
	case ACLNote:
		return "acl"
	}
	return "class " + strconv.Itoa(int(c))
}

func compareBytes(a, b []byte) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			if a[i] < b[i] {
				return -1
			}
			return 1
		}
	}
	return len(a) - len(b)
}
