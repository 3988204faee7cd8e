package reach

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"doublet/env"
)

// names maps hosts to their addresses.
type names map[string][]string

func (n names) Addresses(_ context.Context, name string) (out []netip.Addr, _ bool, err error) {
	list, known := n[name]
	if !known {
		return nil, false, errors.New("no such name")
	}
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, false, nil
}

// TestDial checks that only allowed addresses of a host are dialled, in whatever notation.
func TestDial(t *testing.T) {
	t.Parallel()
	e := env.Test(t).Env
	var dialled []string
	e.Dial = func(_, address string, _ time.Duration) (net.Conn, error) {
		dialled = append(dialled, address)
		return nil, errors.New("nobody answers")
	}
	g := New(e, names{
		"inside": {"127.0.0.1", "::1", "10.0.0.1", "::ffff:169.254.169.254"},
		"both":   {"192.168.1.1", "8.8.8.8", "10.9.0.1"}, "school": {"10.9.0.7"}, "none": {},
		"hidden": {"fe80::1", "fd00::1", "0.0.0.0", "100.64.0.1", "8.8.4.4"}, // more than the number of tries
	}, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")})
	for host, want := range map[string]string{
		"inside": "", "both": "8.8.8.8:443 10.9.0.1:443", "school": "10.9.0.7:443", "none": "", "hidden": "",
		"nowhere": "", "127.0.0.1": "", "10.9.1.1": "10.9.1.1:443",
		"[::1]": "", "[::ffff:127.0.0.1]": "", "[::ffff:8.8.8.8]": "8.8.8.8:443", "[fe80::1%eth0]": "",
		"2130706433": "", "0x7f.1": "",
	} {
		dialled = nil
		_, err := g.Dial(context.Background(), "tcp", host+":443")
		if got := strings.Join(dialled, " "); got != want || err == nil {
			t.Errorf("%s: %q, want %q; %v", host, got, want, err)
		}
	}
	if _, err := g.Dial(context.Background(), "tcp", "inside:443"); !errors.Is(err, ErrAddress) {
		t.Errorf("%v", err)
	}
	if _, err := g.Dial(context.Background(), "tcp", "8.8.8.8"); err == nil {
		t.Error("without a port")
	}
}

// TestPublic checks that addresses of this machine, of private networks, and of networks that lead to these are not
// public.
func TestPublic(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"127.0.0.1", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "fe80::1", "fd00::1", "0.0.0.0", "::", "100.64.0.1",
		"224.0.0.1", "ff02::1", "255.255.255.255", "198.18.0.1", "192.0.2.1", "203.0.113.9", "2001:db8::1",
		"64:ff9b::a00:1", "::ffff:0:a00:1", "fec0::1", "2002:a00:1::", "2001::1", "240.0.0.1", "192.0.0.8",
	} {
		if Public(netip.MustParseAddr(a)) {
			t.Errorf("%s is public", a)
		}
	}
	for _, a := range []string{"8.8.8.8", "1.1.1.1", "2606:4700::1111", "172.15.0.1", "100.128.0.1", "::ffff:8.8.8.8"} {
		if !Public(netip.MustParseAddr(a)) {
			t.Errorf("%s is not public", a)
		}
	}
}

func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://push.example/x", "https://[::1]:443/", "https://127.0.0.1", "https://0x7f.1/",
		"https://①②⑦.0.0.1/", "https://a:b@c/", "https://example.com:65536/"} {
		f.Add(s)
	}
	g := New(nil, nil, nil)
	f.Fuzz(func(t *testing.T, s string) {
		if g.Check(s) != nil {
			return
		}
		r, err := http.NewRequest("POST", s, nil)
		if err != nil || r.URL.Scheme != "https" || r.URL.User != nil {
			t.Fatal(s, err)
		}
		if a, err := netip.ParseAddr(r.URL.Hostname()); err == nil && !Public(a) {
			t.Fatal(s)
		}
	})
}
