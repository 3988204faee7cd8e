package crypt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2"
)

// Errors of encrypted files.
var (
	// ErrNoKey means that a file is encrypted with a key that the key file does not have.
	ErrNoKey = errors.New("missing encryption key")
	// ErrHeader means that the header of an encrypted file is damaged, or of a newer version. To the engine it is
	// damage of the file.
	ErrHeader = errors.New("unreadable header of an encrypted file")
)

const (
	// HeaderSize is the number of bytes before the content of an encrypted file. It is a block of the disk, so that
	// content that is aligned stays aligned.
	HeaderSize = 4096
	// secondCopy is the offset of the second copy of the header. A damaged sector hits one of them.
	secondCopy = HeaderSize / 2

	magic   = "\x8eDBLTENC"
	version = 1

	// Offsets in a copy of the header. The bytes before nonceAt are authenticated with the file's key.
	versionAt = len(magic)
	idAt      = 16
	nonceAt   = idAt + 8
	keyAt     = nonceAt + 12
	copySize  = keyAt + fileKeySize + 16

	fileKeySize = 32
)

// stream is the key stream of one file: AES-256 in counter mode, with a key that no other file has. The counter begins
// at zero and counts blocks of 16 bytes of content, so that any part can be read alone.
type stream struct {
	key   [fileKeySize]byte
	block cipher.Block
	id    ID // the server key that wraps key
}

func newStream(key []byte, id ID) (*stream, error) {
	s := &stream{id: id}
	copy(s.key[:], key)
	var err error
	s.block, err = aes.NewCipher(key)
	return s, err
}

// xor encrypts or decrypts src, which begins at offset at of the content, into dst.
func (s *stream) xor(dst, src []byte, at int64) {
	var counter, skipped [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], uint64(at/aes.BlockSize))
	ctr := cipher.NewCTR(s.block, counter[:])
	if skip := at % aes.BlockSize; skip > 0 {
		ctr.XORKeyStream(skipped[:skip], skipped[:skip])
	}
	ctr.XORKeyStream(dst, src)
}

// header returns the header of a file with this stream, whose key is wrapped with k.
func (s *stream) header(e *env.Env, k *Key) []byte {
	b := make([]byte, HeaderSize)
	h := b[:copySize]
	copy(h, magic)
	h[versionAt] = version
	copy(h[idAt:], k.id[:])
	e.Fill(h[nonceAt:keyAt])
	k.aead.Seal(h[:keyAt], h[nonceAt:keyAt], s.key[:], h[:nonceAt])
	copy(b[secondCopy:], h)
	return b
}

// readHeader reads the header of a file of size bytes, as parseHeader.
func readHeader(in io.ReaderAt, size int64, keys *Keys) (s *stream, torn bool, err error) {
	head := make([]byte, min(HeaderSize, size))
	if _, err = in.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("read the header: %w", err)
	}
	return parseHeader(head, size, keys)
}

// parseHeader reads the header at the start of a file. head has the file's first HeaderSize bytes, or all of a shorter
// file. It returns nil if the file is not encrypted. torn means that the file ends within its header, so that its
// creation was interrupted and it never had content.
//
// Content that is not encrypted may have anything in the place of the second copy. So that copy counts only if it is
// whole.
func parseHeader(head []byte, size int64, keys *Keys) (s *stream, torn bool, err error) {
	blank := len(head) > 0 && len(bytes.TrimLeft(head, "\x00")) == 0
	if len(head) < HeaderSize {
		return nil, blank || bytes.HasPrefix(head, []byte(magic)), nil
	}
	first, errFirst := parseCopy(head[:copySize], keys)
	if first != nil {
		return first, false, nil
	}
	if second, _ := parseCopy(head[secondCopy:][:copySize], keys); second != nil {
		return second, false, nil
	}
	return nil, blank && size == HeaderSize, errFirst
}

// parseCopy reads one copy of a header. It returns nil if there is none.
func parseCopy(h []byte, keys *Keys) (*stream, error) {
	if !bytes.HasPrefix(h, []byte(magic)) {
		return nil, nil
	}
	if v := h[versionAt]; v != version {
		return nil, fmt.Errorf("%w: version %d: %w", ErrHeader, v, pebble.ErrCorruption)
	}
	id := ID(h[idAt:nonceAt])
	k := keys.find(id)
	if k == nil {
		return nil, &noKey{id}
	}
	key, err := k.aead.Open(nil, h[nonceAt:keyAt], h[keyAt:copySize], h[:nonceAt])
	if err != nil {
		return nil, fmt.Errorf("%w: it does not match key %s: %w", ErrHeader, id, pebble.ErrCorruption)
	}
	return newStream(key, id)
}

// noKey is ErrNoKey with the id of the key.
type noKey struct{ id ID }

func (e *noKey) Error() string { return fmt.Sprintf("%v %s", ErrNoKey, e.id) }

func (e *noKey) Unwrap() error { return ErrNoKey }
