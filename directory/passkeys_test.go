package directory

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"doublet/directory/passkey"
	"doublet/note"
)

// TestPasskeys checks that people add and remove their own passkeys, within the limits, and that they persist.
func TestPasskeys(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice, bob := w.add("Alice", "alice"), w.add("Bob", "bob")
	self := note.Who{Person: alice.ID}
	of := func(id string) passkey.Credential {
		return passkey.Credential{ID: []byte(id), Key: bytes.Repeat([]byte{7}, 77), Counter: 1<<32 - 1,
			BackupEligible: true}
	}
	have := func(want int) Person {
		t.Helper()
		p, err := w.Names.Person(bg, alice.ID)
		w.ok(err)
		if len(p.Passkeys) != want {
			t.Fatalf("%d passkeys, want %d", len(p.Passkeys), want)
		}
		return p
	}
	k, err := w.Passkeys.Add(bg, self, alice.ID, "  alice@phone \t 1 ", of("one"))
	w.ok(err)
	if k.Name != "alice@phone 1" || !k.Created.Equal(w.fix.Clock.Now().Truncate(1e9)) {
		t.Errorf("%+v", k)
	}
	for what, add := range map[string]func() error{
		"another person": func() error { return w.addPasskey(note.Who{Person: bob.ID}, alice.ID, "x", of("two")) },
		"nobody":         func() error { return w.addPasskey(note.Who{}, alice.ID, "x", of("two")) },
		"removing": func() error {
			return w.Passkeys.Remove(bg, note.Who{Person: bob.ID}, alice.ID, k.ID)
		},
	} {
		if err := add(); err == nil {
			t.Errorf("%s: no error", what)
		} else {
			w.want(err, ErrDenied)
		}
	}
	for _, name := range []string{"", " \n", "a\x00", "a\u0007b", "\xff", strings.Repeat("ü", 51)} {
		w.want(w.addPasskey(self, alice.ID, name, of("two")), ErrInvalid)
	}
	w.want(w.addPasskey(self, alice.ID, "the same", of("one")), ErrInvalid)
	w.want(w.addPasskey(self, alice.ID, "x", passkey.Credential{Key: []byte("key")}), ErrInvalid)
	w.want(w.addPasskey(self, alice.ID, "x", passkey.Credential{ID: []byte("id")}), ErrInvalid)
	w.want(w.addPasskey(self, alice.ID, "x", of(strings.Repeat("x", maxCredentialID+1))), ErrInvalid)
	w.ok(w.addPasskey(self, alice.ID, "long", of(strings.Repeat("x", maxCredentialID))))
	for i := range MaxPasskeys - 2 {
		w.ok(w.addPasskey(self, alice.ID, "more", of(fmt.Sprint(i))))
	}
	w.want(w.addPasskey(self, alice.ID, "too many", of("two")), ErrInvalid)
	w.ok(w.addPasskey(note.System, bob.ID, "of another person", of("one")))
	w.end()
	w.start()
	p := have(MaxPasskeys)
	got, ok := p.PasskeyOf([]byte("one"))
	if want := of("one"); !ok || got.ID != k.ID || got.Name != k.Name || !got.Created.Equal(k.Created) ||
		!bytes.Equal(got.Key, want.Key) || got.Counter != want.Counter || !got.BackupEligible {
		t.Errorf("%+v %v", got, ok)
	}
	w.want(w.Passkeys.Remove(bg, self, alice.ID, "00"), ErrNotFound)
	w.ok(w.Passkeys.Remove(bg, self, alice.ID, k.ID))
	w.want(w.Passkeys.Remove(bg, self, alice.ID, k.ID), ErrNotFound)
	p = have(MaxPasskeys - 1)
	if _, ok := p.PasskeyOf([]byte("one")); ok || p.HasPasskey(k.ID) {
		t.Error("a removed passkey is still there")
	}
	// Items that cannot be read are no passkeys. Nobody may read the item of one.
	for _, list := range [][]string{nil, {"n", "1", "AA", "AA", "1"}, {"n", "x", "AA", "AA", "1", "0"},
		{"n", "1", "!", "AA", "1", "0"}, {"n", "1", "AA", "!", "1", "0"}, {"n", "1", "AA", "AA", "-1", "0"}} {
		if _, ok := readPasskey("1", note.TextList(list...)); ok {
			t.Errorf("%q is a passkey", list)
		}
	}
	if !SecretItem(itemPasskey + k.ID) {
		t.Error("the item is no secret")
	}
}

func (w *world) addPasskey(who note.Who, person note.UNID, name string, c passkey.Credential) error {
	_, err := w.Passkeys.Add(bg, who, person, name, c)
	return err
}
