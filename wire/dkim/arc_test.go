package dkim

import (
	"os"
	"strings"
	"testing"
)

// sealed returns a message with two ARC sets made by dkimpy, and the record of their key.
func sealed(t testing.TB) (message, record string) {
	t.Helper()
	for _, x := range []struct {
		to   *string
		name string
	}{{&message, "arc.eml"}, {&record, "arc.key"}} {
		b, err := os.ReadFile("testdata/" + x.name)
		if err != nil {
			t.Fatal(err)
		}
		*x.to = string(b)
	}
	return message, record
}

// checkChain verifies a chain as a receiver does.
func checkChain(message, record string) error {
	m := New([]byte(message))
	c := m.Chain()
	if c.Err != nil || c.Len() == 0 {
		return c.Err
	}
	k, err := ParseKey([]string{record})
	if err != nil {
		return err
	}
	if err := m.Verify(c.Message(), k, now); err != nil {
		return err
	}
	for n := c.Len(); n > 0; n-- {
		if err := c.VerifySeal(n, k); err != nil {
			return err
		}
	}
	return nil
}

// TestChain checks that a chain made by dkimpy passes, and fails after any change.
func TestChain(t *testing.T) {
	t.Parallel()
	message, record := sealed(t)
	if err := checkChain(message, record); err != nil || New([]byte(message)).Chain().Len() != 2 {
		t.Fatal(err)
	}
	if c := New([]byte("From: a@b\r\n\r\n")).Chain(); c.Len() != 0 || c.Err != nil {
		t.Error("a chain without sets")
	}
	newest := message[:strings.LastIndex(message[:strings.Index(message, "i=1;")], "ARC-Seal")]
	for name, x := range map[string][2]string{
		"body": {"Hi.", "Ho."}, "signed field": {"[list] hello", "[list] money"},
		"results of the first": {"spf=pass", "spf=fail"},
		"a set is missing":     {newest, ""}, "an instance is skipped": {"i=1;", "i=3;"},
		"an instance of 0":     {"i=1;", "i=0;"},
		"an instance too high": {"i=1;", "i=51;"}, "no instance": {"i=1;", ""}, "two of an instance": {"i=2;", "i=1;"},
		"cv of the newest": {"cv=pass", "cv=fail"}, "cv of the first": {"cv=none", "cv=pass"},
		"unknown algorithm": {"a=rsa-sha256", "a=rsa-sha1"},
		"field twice":       {"ARC-Seal:", "ARC-Seal: i=2; a=rsa-sha256; cv=pass; d=a; s=a; b=AA==\r\nARC-Seal:"},
	} {
		changed := strings.Replace(message, x[0], x[1], 1)
		err := checkChain(changed, record)
		if changed == message || err == nil && name != "a set is missing" {
			t.Errorf("%s: %v", name, err)
		}
		if name == "a set is missing" && err == nil {
			t.Error("the first set covers a subject that was changed behind it")
		}
	}
	long := strings.Repeat("ARC-Seal: i=1; b="+strings.Repeat("A", 15<<10)+"\r\n", 20)
	if New([]byte(long+message)).Chain().Err == nil {
		t.Error("a chain without bounds")
	}
}

func FuzzChain(f *testing.F) {
	message, record := sealed(f)
	f.Add(message)
	f.Add("ARC-Seal: i=50; cv=pass\r\nARC-Message-Signature: i=1\r\nARC-Authentication-Results: i=1")
	f.Fuzz(func(_ *testing.T, message string) {
		_ = checkChain(message, record)
	})
}
