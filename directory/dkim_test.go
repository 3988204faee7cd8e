package directory

import (
	"strings"
	"testing"
	"time"

	"doublet/note"
)

func keysOf(w *world, who note.Who) []DKIMKey {
	w.t.Helper()
	list, err := w.DKIMKeys.Of(bg, who, "Example.COM")
	w.ok(err)
	return list
}

func TestDKIMKeys(t *testing.T) {
	t.Parallel()
	w := open(t)
	add := func(k DKIMKey) error {
		return w.DKIMKeys.Edit(bg, note.System, k.Domain,
			func(have []DKIMKey) ([]DKIMKey, error) { return append(have, k), nil })
	}
	w.ok(add(DKIMKey{Domain: "example.com", Selector: "s1", Algorithm: "rsa", State: KeyActive,
		Private: []byte("secret")}))
	w.ok(add(DKIMKey{Domain: "example.com", Selector: "s2", Algorithm: "ed25519", State: KeyNext,
		Private: []byte("secret 2")}))
	w.ok(add(DKIMKey{Domain: "example.com.org", Selector: "s1", Algorithm: "rsa", State: KeyActive,
		Private: []byte("other")}))
	w.want(add(DKIMKey{Domain: "example.com", Selector: "s1", Algorithm: "rsa", State: KeyActive,
		Private: []byte("x")}), ErrNameTaken)
	for _, bad := range []DKIMKey{
		{Domain: "example.com", Selector: "S3", Algorithm: "rsa", State: KeyActive, Private: []byte("x")},
		{Domain: "example.com", Selector: "-", Algorithm: "rsa", State: KeyActive, Private: []byte("x")},
		{Domain: "example.com", Selector: strings.Repeat("a", 64), Algorithm: "rsa", State: KeyActive,
			Private: []byte("x")},
		{Domain: "example.com", Selector: "s3", Algorithm: "rsa", State: "old", Private: []byte("x")},
		{Domain: "example.com", Selector: "s3", Algorithm: "rsa", State: KeyActive},
	} {
		w.want(add(bad), ErrInvalid)
	}
	list := keysOf(w, note.System)
	if len(list) != 2 || list[0].Selector != "s1" || string(list[1].Private) != "secret 2" || list[1].State != KeyNext {
		t.Fatalf("%+v", list)
	}
	w.fix.Time.Advance(time.Hour)
	w.ok(w.DKIMKeys.Edit(bg, note.System, "example.com", func(have []DKIMKey) ([]DKIMKey, error) {
		have[1].State = KeyActive
		return have[1:], nil
	}))
	w.end()
	w.start()
	list = keysOf(w, note.System)
	if len(list) != 1 || list[0].Selector != "s2" || list[0].State != KeyActive ||
		list[0].Changed.Sub(list[0].Created) != time.Hour {
		t.Fatalf("after the change and a restart: %+v", list)
	}
	if s := KeySelector(list, "rsa", time.Unix(0, 0)); s != "d19700101r" {
		t.Error(s)
	}
	if s := KeySelector([]DKIMKey{{Selector: "d19700101e"}}, "ed25519", time.Unix(0, 0)); s != "d19700101e2" {
		t.Error(s)
	}
}

// TestDKIMKeysAreSecret checks that no person gets a private key, and only administrators see keys at all.
func TestDKIMKeysAreSecret(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.ok(w.DKIMKeys.Edit(bg, note.System, "example.com", func([]DKIMKey) ([]DKIMKey, error) {
		return []DKIMKey{{Domain: "example.com", Selector: "s1", Algorithm: "rsa", State: KeyActive,
			Private: []byte("secret")}}, nil
	}))
	administrator := note.Who{Person: note.UNID{1}, Roles: []string{RoleAdmin}}
	if list := keysOf(w, administrator); len(list) != 1 || list[0].Private != nil {
		t.Errorf("%+v", list)
	}
	_, err := w.DKIMKeys.Of(bg, note.Who{Person: note.UNID{2}}, "example.com")
	w.want(err, ErrDenied)
	w.want(w.DKIMKeys.Edit(bg, note.Who{Person: note.UNID{2}}, "example.com", nil), ErrDenied)
}
