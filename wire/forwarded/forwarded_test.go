package forwarded

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	a := netip.MustParseAddr
	for line, want := range map[string][]Hop{
		`for=192.0.2.60;proto=http;by=203.0.113.43`:     {{a("192.0.2.60"), "http"}},
		`For="[2001:db8:cafe::17]:4711"`:                {{a("2001:db8:cafe::17"), ""}},
		`for=192.0.2.43, for=198.51.100.17;proto=HTTPS`: {{a("192.0.2.43"), ""}, {a("198.51.100.17"), "https"}},
		`for="_gazonk"`:                   {{}},
		`for=unknown;proto=https`:         {{netip.Addr{}, "https"}},
		`for="192.0.2.1:80" ; proto=http`: {{a("192.0.2.1"), "http"}},
		`for=192.0.2.1:80`:                {{a("192.0.2.1"), ""}},
		`for="\1\9\2.0.2.1"`:              {{a("192.0.2.1"), ""}},
		`for="[::ffff:192.0.2.1]"`:        {{a("192.0.2.1"), ""}},
		` , for=192.0.2.1 ,, `:            {{a("192.0.2.1"), ""}},
		`host="a,b;c\"";for=192.0.2.1`:    {{a("192.0.2.1"), ""}},
		``:                                nil,
	} {
		got, err := Parse(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", line, got, err, want)
		}
	}
	// The client's part comes before the proxy's and must not hide it.
	for _, line := range []string{
		`for="203.0.113.9, for=192.0.2.1`, `for=203.0.113.9;x=", for="[2001:db8::1]";proto=http`, `for`, `for=`, `=x`,
		`for=1.2.3.4 x`,
		`for=1.2.3.4;for=5.6.7.8`, `for="a"b`, `for="a\`, "for=\x00", `f r=1.2.3.4`,
	} {
		if got, err := Parse(line); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v %v", line, got, err)
		}
	}
}

func TestNode(t *testing.T) {
	for s, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", " 192.0.2.1:9 ": "192.0.2.1", "2001:db8::1": "2001:db8::1",
		"[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:1": "2001:db8::1",
		"::ffff:127.0.0.1": "127.0.0.1", "fe80::1%eth0": "fe80::1",
	} {
		if got := Node(s); got != netip.MustParseAddr(want) {
			t.Errorf("%q: %v", s, got)
		}
	}
	for _, s := range []string{"", "unknown", "_x", "localhost", "[192.0.2.1]", "192.0.2.1:x", "192.0.2.01", "127.1",
		"0x7f.1"} {
		if got := Node(s); got.IsValid() {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`for=192.0.2.60;proto=http, for="[2001:db8::1]:4711"`)
	f.Fuzz(func(t *testing.T, line string) {
		hops, err := Parse(line)
		if err != nil {
			return
		}
		// The element that a proxy adds to a valid line is the last hop, whatever precedes it.
		again, err := Parse(line + ", for=192.0.2.1;proto=https")
		if err != nil || len(again) != len(hops)+1 ||
			again[len(hops)] != (Hop{netip.MustParseAddr("192.0.2.1"), "https"}) {
			t.Errorf("%q: %v, then %v %v", line, hops, again, err)
		}
	})
}
