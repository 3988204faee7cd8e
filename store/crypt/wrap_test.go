package crypt

import (
	"errors"
	"testing"

	"doublet/env"
)

// TestWrap wraps a secret. Only the key that wrapped it opens it, only for what it was made for, and only unchanged.
func TestWrap(t *testing.T) {
	t.Parallel()
	e := env.Test(t)
	read := func(text string) Keys {
		t.Helper()
		writeKeys(t, e, text)
		k, err := ReadKeyFile(e.FS, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	old, line := newKeyLine(t, e), newKeyLine(t, e)
	first := read(old)
	both := read(line + old)
	other := read(line)
	b, err := first.Wrap(e.Env, []byte("secret"), []byte("ada"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := both.Unwrap(b, []byte("ada")); err != nil || string(got) != "secret" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := other.Unwrap(b, []byte("ada")); !errors.Is(err, ErrNoKey) {
		t.Error("opened with another key: ", err)
	}
	if _, err := first.Unwrap(b, []byte("bob")); !errors.Is(err, ErrHeader) {
		t.Error("opened for another purpose: ", err)
	}
	for i := range b {
		bad := append([]byte(nil), b...)
		bad[i] ^= 1
		if _, err := first.Unwrap(bad, []byte("ada")); err == nil {
			t.Errorf("opened with byte %d changed", i)
		}
		if _, err := first.Unwrap(b[:i], []byte("ada")); err == nil {
			t.Errorf("opened with %d bytes", i)
		}
	}
	if id, ok := WrappedBy(b); !ok || id != first.active().id {
		t.Errorf("wrapped by %s", id)
	}
	plain := read(Plain + "\n" + line)
	if _, err := plain.Wrap(e.Env, []byte("secret"), nil); err == nil {
		t.Error("wrapped without a key")
	}
}
