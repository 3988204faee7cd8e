// Package note defines the basic types of Doublet: notes and their parts, ids, users and access lists. It also holds
// the pure rules by which copies of a note are compared and merged. It imports no other package of Doublet, and its
// functions depend only on their arguments.
package note

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// UNID names a note. It is the same in every replica and never changes.
type UNID [16]byte

// String returns 32 lower-case hex digits.
func (u UNID) String() string { return hex.EncodeToString(u[:]) }

// IsZero reports whether u names no note.
func (u UNID) IsZero() bool { return u == UNID{} }

// Compare orders UNIDs by their bytes.
func (u UNID) Compare(v UNID) int { return compareBytes(u[:], v[:]) }

// ParseUNID parses the output of String.
func ParseUNID(s string) (UNID, error) {
	var u UNID
	if len(s) != 32 {
		return u, fmt.Errorf("UNID %q is not 32 hex digits", s)
	}
	_, err := hex.Decode(u[:], []byte(s))
	if err != nil {
		return UNID{}, fmt.Errorf("UNID %q is not 32 hex digits", s)
	}
	return u, nil
}

// DeriveUNID returns a UNID that is the same whenever it is derived from the same parts: a hash over the parts, each
// with its length.
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

// DatabaseID names a database. All replicas of the database share it (in Domino: replica id).
type DatabaseID uint64

// String returns 16 upper-case hex digits, as Domino shows replica ids.
func (d DatabaseID) String() string { return fmt.Sprintf("%016X", uint64(d)) }

// ParseDatabaseID parses the output of String.
func ParseDatabaseID(s string) (DatabaseID, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("database id %q is not 16 hex digits", s)
	}
	return DatabaseID(v), nil
}

// ReplicaID names one replica of one database. Stamps contain it.
type ReplicaID uint64

// ID is a note's local number in one replica. Numbers ascend in the order of arrival and are never reused.
type ID uint64

// RecipeID is the local number of a stored message, shared by all notes of that message.
type RecipeID uint64

// Digest is the SHA-256 of something content-addressed.
type Digest [32]byte

// String returns 64 hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d names nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// ErrCorrupt means that bytes are not a valid encoding of this package.
var ErrCorrupt = errors.New("note: corrupt encoding")

// Class is the purpose of a note.
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
