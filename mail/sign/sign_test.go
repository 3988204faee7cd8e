package sign

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/dkim"
)

var bg = context.Background()

const message = "From: Ann <ann@example.com>\r\nTo: bob@example.net\r\nSubject: hello\r\n\r\nHello.\r\n"

func open(t testing.TB) (*directory.Directory, *Signer, *env.Fixture) {
	t.Helper()
	f := env.Test(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: directory.Indexes()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := directory.Open(s, f.Env, password.New(f.Env, 1, 10), directory.Options{Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, New(f.Env, d, stat.New(f.Clock)), f
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// signedBy returns the selectors of the signatures that verify with the published keys.
func signedBy(t testing.TB, d *directory.Directory, s *Signer, now time.Time) []string {
	t.Helper()
	h, err := s.Header(bg, "Example.COM", []byte(message))
	ok(t, err)
	keys, err := d.DKIMKeys.Of(bg, note.System, "example.com")
	ok(t, err)
	published := map[string]string{}
	for i := range keys {
		name, text, err := Record(&keys[i])
		ok(t, err)
		published[name] = text
	}
	var out []string
	m := dkim.New(append(h, message...))
	for _, one := range m.Signatures(10) {
		k, err := dkim.ParseKey([]string{published[one.KeyName()]})
		if err == nil {
			err = m.Verify(one, k, now)
		}
		if err != nil {
			t.Errorf("%s: %v", one.Selector, err)
		}
		out = append(out, one.Selector)
	}
	return out
}

func TestRotation(t *testing.T) {
	t.Parallel()
	d, s, f := open(t)
	now := f.Clock.Now
	if got := signedBy(t, d, s, now()); got != nil {
		t.Errorf("without keys: %v", got)
	}
	made, err := Ensure(bg, d, note.System, "example.com", now())
	ok(t, err)
	if again, err := Ensure(bg, d, note.System, "example.com", now()); err != nil || again || !made {
		t.Errorf("made %v, then %v %v", made, again, err)
	}
	first := signedBy(t, d, s, now())
	if want := []string{"d20260105r", "d20260105e"}; !sameSet(first, want) {
		t.Errorf("signed by %v, want %v", first, want)
	}
	// A new key does not sign before its record can be published.
	ok(t, Prepare(bg, d, note.System, "example.com", now()))
	ok(t, Prepare(bg, d, note.System, "example.com", now()))
	if got := signedBy(t, d, s, now()); !sameSet(got, first) {
		t.Errorf("after the first step: %v", got)
	}
	late, err := Add(bg, d, note.System, "example.com", RSA, "late", directory.KeyNext, now())
	ok(t, err)
	ok(t, Switch(bg, d, note.System, "example.com", []string{"d20260105r2", "d20260105e2"}))
	if states := statesOf(t, d); states != "2 active 2 retired" {
		t.Errorf("%s: a key whose record nobody looked for signs", states)
	}
	ok(t, d.DKIMKeys.Edit(bg, note.System, "example.com", func(have []directory.DKIMKey) ([]directory.DKIMKey, error) {
		return slices.DeleteFunc(have, func(k directory.DKIMKey) bool { return k.Selector == late.Selector }), nil
	}))
	second := signedBy(t, d, s, now())
	if want := []string{"d20260105r2", "d20260105e2"}; !sameSet(second, want) {
		t.Errorf("after the second step: %v, want %v", second, want)
	}
	// Without new keys, Switch does nothing.
	ok(t, Switch(bg, d, note.System, "example.com", []string{"d20260105r2", "d20260105e2"}))
	if got := signedBy(t, d, s, now()); !sameSet(got, second) {
		t.Errorf("after a third: %v", got)
	}
	if states := statesOf(t, d); states != "2 active 2 retired" {
		t.Errorf("%s: the old keys stay published", states)
	}
	f.Time.Advance(keepRetired)
	ok(t, Prepare(bg, d, note.System, "example.com", now()))
	if states := statesOf(t, d); states != "2 active 0 retired" {
		t.Errorf("%s: the old keys go in the end", states)
	}
}

func statesOf(t *testing.T, d *directory.Directory) string {
	t.Helper()
	keys, err := d.DKIMKeys.Of(bg, note.System, "example.com")
	ok(t, err)
	count := map[directory.KeyState]int{}
	for _, k := range keys {
		count[k.State]++
	}
	return strings.Join([]string{string('0' + rune(count[directory.KeyActive])), "active",
		string('0' + rune(count[directory.KeyRetired])), "retired"}, " ")
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

func TestAdd(t *testing.T) {
	t.Parallel()
	d, s, f := open(t)
	for _, bad := range []string{"dsa", ""} {
		if _, err := Add(bg, d, note.System, "example.com", bad, "", directory.KeyActive, f.Clock.Now()); err == nil {
			t.Errorf("algorithm %q", bad)
		}
	}
	k, err := Add(bg, d, note.System, "example.com", Ed25519, "mine", directory.KeyActive, f.Clock.Now())
	ok(t, err)
	if got := signedBy(t, d, s, f.Clock.Now()); !sameSet(got, []string{"mine"}) || k.Selector != "mine" {
		t.Errorf("%v", got)
	}
	if h, err := s.Header(bg, "example.com", []byte("Subject: nobody\r\n\r\n")); err != nil || h != nil {
		t.Errorf("without an author: %q %v", h, err)
	}
	if h, err := s.Header(bg, "example.org", []byte(message)); err != nil || h != nil {
		t.Errorf("of a stranger: %q %v", h, err)
	}
}

func BenchmarkHeader(b *testing.B) {
	for _, algorithm := range Algorithms {
		b.Run(algorithm, func(b *testing.B) {
			d, s, f := open(b)
			_, err := Add(bg, d, note.System, "example.com", algorithm, "", directory.KeyActive, f.Clock.Now())
			ok(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Header(bg, "example.com", []byte(message)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
