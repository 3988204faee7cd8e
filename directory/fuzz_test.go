package directory

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"alice@example.com", `"a b\"c"@x.de`, "a+b@xn--mller-kva.de", "ü@ü.ü", "a@[IPv6:::1]",
		"@", "a@b@c", "K@\u212a.com", "a@xn--", "a@xn--a-\u0308.b", "İ@İ.tr", "ǅ@ß.de", "a@xn--0zwm56d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		key := a.Key()
		if !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0 || strings.Count(a.Domain, "@") > 0 {
			t.Fatalf("%q: key %q", s, key)
		}
		// Normalizing twice changes nothing.
		if d, err := normalDomain(a.Domain); a.Domain[0] != '[' && (err != nil || d != a.Domain) {
			t.Fatalf("%q: domain %q again is %q, %v", s, a.Domain, d, err)
		}
		if l := lower(lower(a.Local)); l != lower(a.Local) {
			t.Fatalf("%q: local part %q again is %q", s, lower(a.Local), l)
		}
		again, err := parseAddress(strings.ToLower(s))
		if isASCII(s) && (err != nil || again.Key() != key) {
			t.Fatalf("%q: lower case gives %q, %v", s, again.Key(), err)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"Alice Smith", "  a\tb ", "É", "e\u0301", "İstanbul", "\u212a", "ẞ", "a\u200db", "\xff",
		"a\x00", "Ω\u0345"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := NormalName(s)
		if err != nil {
			return
		}
		again, err := NormalName(n)
		if len(n) <= maxName && (err != nil || again != n) {
			t.Fatalf("%q: %q again is %q, %v", s, n, again, err)
		}
		if strings.IndexByte(n, 0) >= 0 || strings.IndexByte(n, '@') >= 0 || strings.Contains(n, "  ") {
			t.Fatalf("%q: %q", s, n)
		}
		clean, err := cleanName(s)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := NormalName(clean); err != nil || m != n {
			t.Fatalf("%q: as stored it is %q, %v", s, m, err)
		}
	})
}

func FuzzPunycode(f *testing.F) {
	for _, s := range []string{"mller-kva", "0zwm56d", "", "-", "a-", "99999999", "zzzzzzzzzzz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if out, ok := decodePunycode(s); ok && utf8.ValidString(s) && (!utf8.ValidString(out) || len(out) > 4*len(s)) {
			t.Fatalf("%q: %q", s, out)
		}
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte(people))
	f.Add([]byte("fullname\n\"\n"))
	f.Add([]byte("shortname,quota\na,1KB\n\n\nb,2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows := 0
		_ = ReadPeople(bytes.NewReader(b), func(line int, spec PersonSpec, err error) error {
			if rows++; rows > len(b) || line < 1 {
				t.Fatalf("row %d at line %d", rows, line)
			}
			if err == nil {
				fields := spec.clone()
				_ = checkPerson(&fields, nil)
			}
			return nil
		})
	})
}

func TestPunycode(t *testing.T) {
	t.Parallel()
	// RFC 3492 section 7.1.
	for in, want := range map[string]string{
		"ihqwcrb4cv8a8dqg056pqjye":       "他们为什么不说中文",
		"ihqwctvzc91f659drss3x8bo0yb":    "他們爲什麽不說中文",
		"proprostnemluvesky-uyb24dma41a": "pročprostěnemluvíčesky",
		"mller-kva":                      "müller",
	} {
		if got, ok := decodePunycode(in); !ok || got != want {
			t.Errorf("%s: %s %v, want %s", in, got, ok, want)
		}
	}
	for in, want := range map[string]string{"XN--MLLER-KVA.De": "müller.de", "xn--a.de": "xn--a.de",
		"MÜLLER.DE": "müller.de", "a.b": "a.b"} {
		if got, err := NormalDomain(in); err != nil || got != want {
			t.Errorf("%s: %s %v", in, got, err)
		}
	}
}
