package crypt

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ID identifies a server key. It is derived from the key and reveals nothing of it.
type ID [8]byte

// String returns the id as 16 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Plain is the word in a key file, and in reports, for "not encrypted".
const Plain = "plain"

// Damaged is the word in reports for files whose header is damaged.
const Damaged = "damaged"

const (
	keyWord  = "key"
	keyBytes = 32
	// maxKeyFile bounds the size in bytes of a key file.
	maxKeyFile = 64 << 10
)

// Key is a server key. It encrypts the keys of files.
type Key struct {
	id   ID
	aead cipher.AEAD
}

// Keys are the server keys of a key file. New files are encrypted with the first one. The others decrypt older files.
// The zero value encrypts nothing.
type Keys struct {
	list []*Key
	// plain means that new files are not encrypted.
	plain bool
	// version counts the changes of the keys since the start.
	version int
}

// active returns the key of new files, or nil if they are not encrypted.
func (k *Keys) active() *Key {
	if k.plain || len(k.list) == 0 {
		return nil
	}
	return k.list[0]
}

// activeName returns the id of the key of new files, or Plain.
func (k *Keys) activeName() string {
	if a := k.active(); a != nil {
		return a.id.String()
	}
	return Plain
}

func (k *Keys) find(id ID) *Key {
	for _, key := range k.list {
		if key.id == id {
			return key
		}
	}
	return nil
}

func newKey(secret []byte) (*Key, error) {
	if len(secret) != keyBytes {
		return nil, fmt.Errorf("expected %d bytes in a key", keyBytes)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	k := &Key{}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("doublet encryption key id\x00"), secret...))
	copy(k.id[:], sum[:])
	return k, nil
}

// ParseKeys reads the text of a key file, the newest key first. A line is empty, a comment (#), "key" with 64
// hexadecimal digits, or the word "plain", which may only come before all keys. An error does not contain a key.
func ParseKeys(text []byte) (k Keys, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
			continue
		case len(words) == 1 && words[0] == Plain && len(k.list) == 0 && !k.plain:
			k.plain = true
			continue
		case len(words) != 2 || words[0] != keyWord:
			return Keys{}, fmt.Errorf("line %d: expected \"key\" and %d hexadecimal digits", n, 2*keyBytes)
		}
		secret, err := hex.DecodeString(words[1])
		if err != nil {
			return Keys{}, fmt.Errorf("line %d: a key has %d hexadecimal digits", n, 2*keyBytes)
		}
		key, err := newKey(secret)
		if err != nil {
			return Keys{}, fmt.Errorf("line %d: %w", n, err)
		}
		if k.find(key.id) != nil {
			return Keys{}, fmt.Errorf("line %d: key %s is there twice", n, key.id)
		}
		k.list = append(k.list, key)
	}
	if err := lines.Err(); err != nil {
		return Keys{}, err
	}
	if len(k.list) == 0 {
		return Keys{}, errors.New("no key: make one with doublet encryption key")
	}
	return k, nil
}

// NewKey returns a new key as lines of a key file.
func NewKey(e *env.Env) (string, error) {
	secret := make([]byte, keyBytes)
	e.Fill(secret)
	k, err := newKey(secret)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("# %s, made %s\n%s %s\n", k.id, e.Clock.Now().UTC().Format(time.DateOnly), keyWord,
		hex.EncodeToString(secret)), nil
}

// readKeyFile returns the text of a key file, and its keys.
func readKeyFile(files vfs.FS, path string) (text []byte, k Keys, err error) {
	f, size, err := env.OpenRegular(files, path)
	if err != nil {
		return nil, k, fmt.Errorf("encryption key file: %w", err)
	}
	defer func() { _ = f.Close() }()
	if size > maxKeyFile {
		return nil, k, fmt.Errorf("encryption key file %s: more than %d bytes", path, maxKeyFile)
	}
	if text, err = io.ReadAll(io.LimitReader(f, maxKeyFile)); err != nil {
		return nil, k, fmt.Errorf("encryption key file: %w", err)
	}
	if k, err = ParseKeys(text); err != nil {
		return nil, k, fmt.Errorf("encryption key file %s: %w", path, err)
	}
	return text, k, nil
}
