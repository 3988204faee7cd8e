package crypt

import (
	"fmt"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ReadKeyFile reads a key file: see ParseKeys.
func ReadKeyFile(files vfs.FS, path string) (Keys, error) {
	_, k, err := readKeyFile(files, path)
	return k, err
}

const (
	wrapNonce = len(ID{})
	wrapKey   = wrapNonce + 12
)

// Wrap encrypts and authenticates a secret with the first key. What it was made for authenticates it, too.
func (k *Keys) Wrap(e *env.Env, secret, made []byte) ([]byte, error) {
	key := k.active()
	if key == nil {
		return nil, fmt.Errorf("key file: the word %s, where a key is needed", Plain)
	}
	b := append(make([]byte, 0, wrapKey+len(secret)+key.aead.Overhead()), key.id[:]...)
	b = b[:wrapKey]
	e.Fill(b[wrapNonce:])
	return key.aead.Seal(b, b[wrapNonce:], secret, append(b[:wrapNonce:wrapNonce], made...)), nil
}

// Unwrap returns the secret that Wrap has encrypted. The error is ErrNoKey if the key is not there.
func (k *Keys) Unwrap(b, made []byte) ([]byte, error) {
	id, ok := WrappedBy(b)
	if !ok {
		return nil, fmt.Errorf("%w: a wrapped key of %d bytes", ErrHeader, len(b))
	}
	key := k.find(id)
	if key == nil {
		return nil, &noKey{id}
	}
	secret, err := key.aead.Open(nil, b[wrapNonce:wrapKey], b[wrapKey:], append(b[:wrapNonce:wrapNonce], made...))
	if err != nil {
		return nil, fmt.Errorf("%w: it does not match key %s", ErrHeader, id)
	}
	return secret, nil
}

// WrappedBy returns the id of the key that wraps a secret.
func WrappedBy(b []byte) (id ID, ok bool) {
	if len(b) < wrapKey {
		return id, false
	}
	return ID(b[:wrapNonce]), true
}
