package layout

import (
	"encoding/binary"

	"doublet/note"
	"doublet/note/pack"
)

// Sealed is the value of a row, or a part of it, that is encrypted with the key of a database. What is outside the
// encryption is authenticated.
type Sealed struct {
	Database note.DatabaseID
	// Key identifies the key. A database that lost its key and got another one may still have rows of the first.
	Key uint64
	// Names are the names of the objects that the content names.
	Names []note.Digest
	// Head is everything before Nonce. Text is the content, encrypted and authenticated.
	Head, Nonce, Text []byte
}

// SealedNonce is the length of Sealed.Nonce in bytes.
const SealedNonce = 12

// sealedMark is the number 127 in two bytes. Numbers are written in as few bytes as possible, so no row begins with it.
const sealedMark = "\xff\x00"

// AppendSealedHead appends what comes before the nonce of a sealed value.
func AppendSealedHead(dst []byte, db note.DatabaseID, key uint64, names []note.Digest) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, sealedMark...), uint64(db))
	dst = binary.BigEndian.AppendUint64(dst, key)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, d := range names {
		dst = append(dst, d[:]...)
	}
	return dst
}

// IsSealed reports whether a value is sealed.
func IsSealed(b []byte) bool {
	return len(b) >= len(sealedMark) && string(b[:len(sealedMark)]) == sealedMark
}

// ReadSealed decodes a value for which IsSealed holds. The result aliases b.
func ReadSealed(b []byte) (s Sealed, err error) {
	if !IsSealed(b) {
		return s, note.ErrCorrupt
	}
	r := reader{pack.Reader{B: b[len(sealedMark):]}}
	s.Database, s.Key = note.DatabaseID(r.Uint64()), r.Uint64()
	for range r.Count(len(note.Digest{})) {
		var d note.Digest
		r.Fixed(d[:])
		s.Names = append(s.Names, d)
	}
	if r.Bad || len(r.B) < SealedNonce {
		return s, note.ErrCorrupt
	}
	s.Head, s.Nonce, s.Text = b[:len(b)-len(r.B)], r.B[:SealedNonce], r.B[SealedNonce:]
	return s, nil
}

// StepSealed comes after the name and the size in a recipe that is sealed, and before the sealed value.
const StepSealed = 3

// ReadSealedRecipe decodes the recipe of a message that is sealed. name is that of the message's digest. ok is false
// if the recipe is not sealed.
func ReadSealedRecipe(b []byte) (name note.Digest, size uint64, s Sealed, ok bool) {
	if len(b) < len(name) {
		return name, 0, s, false
	}
	name = note.Digest(b[:len(name)])
	size, k := binary.Uvarint(b[len(name):])
	at := len(name) + k
	if k <= 0 || at >= len(b) || b[at] != StepSealed {
		return name, 0, s, false
	}
	s, err := ReadSealed(b[at+1:])
	return name, size, s, err == nil
}
