package dkim

import (
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"strings"
	"testing"
)

const unsealed = "From: Ann <ann@one.example>\r\nTo: list@two.example\r\nSubject: hello\r\n\r\nHi.\r\n"

// TestSealChain checks that a chain of hops that change and seal the message verifies. It also covers changes after the
// last hop, a chain that had failed on arrival, and a chain with the maximum of 50 sets.
func TestSealChain(t *testing.T) {
	t.Parallel()
	key, record := rsaKey(t)
	seal := func(message string, passed bool) (string, error) {
		m := New([]byte(message))
		head := []byte("DKIM-Signature: v=1; a=rsa-sha256; d=x; s=x; h=From; bh=; b=\r\n")
		m.Prepend(head)
		h, err := m.AppendSeal(nil, &Seal{Signer: Signer{Domain: "one.example", Selector: "s", Key: key},
			Results: "mx.one.example;\r\n\tspf=pass", Passed: passed}, now)
		return string(h) + string(head) + message, err
	}
	message := unsealed
	var err error
	for i := range maxSets {
		if message, err = seal(strings.Replace(message, "Subject: ", "Subject: [list] ", 1), true); err != nil {
			t.Fatalf("set %d: %v", i+1, err)
		}
		if i > 3 && i < 48 {
			continue
		}
		if err := checkChain(message, record); err != nil || New([]byte(message)).Chain().Len() != i+1 {
			t.Fatalf("set %d: %v", i+1, err)
		}
		for _, x := range [][2]string{{"Hi.", "Ho."}, {"[list] hello", "hello"}, {"spf=pass", "spf=fail"},
			{"d=x; s=x", "d=y; s=x"}} {
			if changed := strings.Replace(message, x[0], x[1], 1); checkChain(changed, record) == nil {
				t.Errorf("set %d: passes with %s", i+1, x[1])
			}
		}
	}
	if h, err := seal(message, true); !errors.Is(err, ErrNotSealed) {
		t.Errorf("a set beyond the last one: %v\n%.200s", err, h)
	}
}

// TestSealFailed checks that the set on a failed chain records the failure and covers only itself, and that no further
// set is added.
func TestSealFailed(t *testing.T) {
	t.Parallel()
	key, record := rsaKey(t)
	s := &Seal{Signer: Signer{Domain: "one.example", Selector: "s", Key: key}, Results: "mx.one.example; none",
		Passed: true}
	first, err := New([]byte(unsealed)).AppendSeal(nil, s, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		message string
		passed  bool
		set     string
	}{
		"did not pass":    {string(first) + unsealed, false, "i=2;"},
		"lacks a field":   {strings.Replace(string(first), "ARC-Seal", "X-Seal", 1) + unsealed, true, "i=2;"},
		"has no instance": {"ARC-Seal: cv=none\r\n" + unsealed, true, "i=2;"},
	} {
		s.Passed = x.passed
		h, err := New([]byte(x.message)).AppendSeal(nil, s, now)
		if err != nil || !strings.Contains(string(h), "ARC-Seal: "+x.set) || !strings.Contains(string(h), "cv=fail") {
			t.Errorf("%s: %v\n%s", name, err, h)
			continue
		}
		// Verify the last set as if it were the only one.
		alone := New(append(h, unsealed...)).Chain()
		k, err := ParseKey([]string{record})
		if err != nil {
			t.Fatal(err)
		}
		one := Chain{sets: alone.sets[len(alone.sets)-1:]}
		if err := one.VerifySeal(1, k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Passed = true
		if _, err := New([]byte(string(h)+x.message)).AppendSeal(nil, s, now); !errors.Is(err, ErrNotSealed) {
			t.Errorf("%s: sealed again: %v", name, err)
		}
	}
	for name, m := range map[string]string{"no author": "Subject: x\r\n\r\n",
		"a chain too long": strings.Repeat("ARC-Seal: i=1; b="+strings.Repeat("A", 15<<10)+"\r\n", 20) + unsealed} {
		if _, err := New([]byte(m)).AppendSeal(nil, s, now); !errors.Is(err, ErrNotSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Signer.Key = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if _, err := New([]byte(unsealed)).AppendSeal(nil, s, now); !errors.Is(err, ErrNotSealed) {
		t.Errorf("an Ed25519 key: %v", err)
	}
}

// rsaKey returns a key and its record.
func rsaKey(t *testing.T) (*rsa.PrivateKey, string) {
	t.Helper()
	record, err := Record(testRSA.Public())
	if err != nil {
		t.Fatal(err)
	}
	return testRSA, record
}
