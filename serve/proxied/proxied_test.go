package proxied

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"doublet/env"
)

var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	two      = append([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, loopback...)
)

// seen sends a request from a peer. It returns the client that the next handler sees, and the log.
func seen(o Options, peer string, secure bool, header http.Header) (client, log string) {
	var b bytes.Buffer
	h := New(env.Real(slog.New(slog.NewTextHandler(&b, nil))), o,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.RemoteAddr, " ", r.TLS != nil)
			if left := names(r.Header); left != "" {
				fmt.Fprint(w, " ", left)
			}
		}))
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr, r.Header, r.TLS = peer, http.Header{}, nil
	for name, values := range header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if secure {
		r.TLS = &tls.ConnectionState{}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String(), b.String()
}

func TestClient(t *testing.T) {
	t.Parallel()
	const here, nobody = "127.0.0.1:5", "0.0.0.0:0 false"
	xff := func(values ...string) http.Header {
		return http.Header{For: values, proto: {"https"}}
	}
	for _, c := range []struct {
		name   string
		o      Options
		peer   string
		secure bool
		header http.Header
		want   string
		logs   string
	}{
		{"nothing in front", Options{}, here, false, http.Header{}, here + " false", ""},
		{"nothing in front, TLS", Options{}, "192.0.2.1:5", true, http.Header{}, "192.0.2.1:5 true", ""},
		{"Unix socket", Options{}, "@", false, http.Header{}, "@ false", ""},
		{"unlisted on this machine", Options{}, here, false, xff("203.0.113.1"), nobody, "web.proxies"},
		{"unlisted on this machine, by any field", Options{}, here, false, http.Header{RealIP: {"203.0.113.1"}}, nobody,
			"web.proxies"},
		{"unlisted on this machine, by the protocol", Options{}, "[::1]:5", false, http.Header{proto: {"https"}},
			nobody, "web.proxies"},
		{"unlisted at a Unix socket", Options{}, "@", false, xff("203.0.113.1"), nobody, "web.proxies"},
		{"unlisted elsewhere", Options{}, "192.0.2.1:5", false, xff("127.0.0.1"), "192.0.2.1:5 false", "ignored"},
		{"unlisted elsewhere, TLS", Options{Proxies: loopback}, "192.0.2.1:5", true,
			http.Header{Forwarded: {"for=127.0.0.1;proto=http"}}, "192.0.2.1:5 true", "ignored"},

		{"listed", Options{Proxies: loopback}, here, false, xff("203.0.113.1"), "203.0.113.1:0 true", ""},
		{"listed, IPv6", Options{Proxies: loopback}, "[::1]:5", false, xff("2001:db8::1"), "[2001:db8::1]:0 true", ""},
		{"the client's own word is to the left", Options{Proxies: loopback}, here, false,
			xff("127.0.0.1, 198.51.100.9 , 203.0.113.1"), "203.0.113.1:0 true", ""},
		{"in a line of its own", Options{Proxies: loopback}, here, false, xff("127.0.0.1", "203.0.113.1"),
			"203.0.113.1:0 true", ""},
		{"two proxies", Options{Proxies: two}, here, false, xff("198.51.100.9, 203.0.113.1, 10.0.0.7"),
			"203.0.113.1:0 true", ""},
		{"in the clear at the proxy, TLS behind it", Options{Proxies: loopback}, here, true,
			http.Header{For: {"203.0.113.1"}, proto: {"http"}}, "203.0.113.1:0 false", ""},
		{"injected protocol", Options{Proxies: loopback}, here, false,
			http.Header{For: {"203.0.113.1"}, proto: {"https", "http"}}, "203.0.113.1:0 false", ""},
		{"no protocol", Options{Proxies: loopback}, here, true, http.Header{For: {"203.0.113.1"}},
			"203.0.113.1:0 false", proto},
		{"no client", Options{Proxies: loopback}, here, true, http.Header{proto: {"https"}}, nobody, "does not name"},
		{"another field", Options{Proxies: loopback}, here, false,
			http.Header{Forwarded: {"for=203.0.113.1;proto=https"}}, nobody, "proxy_header"},
		{"another field beside it", Options{Proxies: loopback}, here, false,
			http.Header{Forwarded: {"for=10.0.0.1;proto=https"}, RealIP: {"10.0.0.2"}, For: {"203.0.113.1"},
				proto: {"http"}},
			"203.0.113.1:0 false", ""},
		{"a client on the proxy's machine", Options{Proxies: loopback}, here, false, xff("127.0.0.1"),
			"0.0.0.0:0 true", ""},
		{"a client on the proxy's machine, mapped", Options{Proxies: nil, Field: For}, "192.0.2.1:5", false,
			xff("::ffff:127.0.0.1"), "192.0.2.1:5 false", "ignored"},
		{"no address", Options{Proxies: loopback}, here, false, xff("203.0.113.1, unknown"), "0.0.0.0:0 true", ""},
		{"rubbish", Options{Proxies: loopback}, here, false, xff("203.0.113.1, \x00"), "0.0.0.0:0 true", ""},

		{"Forwarded", Options{Proxies: loopback, Field: Forwarded}, here, false,
			http.Header{Forwarded: {`for=127.0.0.1;proto=https, for="[2001:db8::1]:99";proto=https`}},
			"[2001:db8::1]:0 true", ""},
		{"Forwarded in the clear", Options{Proxies: loopback, Field: Forwarded}, here, false,
			http.Header{Forwarded: {`for=127.0.0.1;proto=https, for=203.0.113.1;proto=http`}, proto: {"https"}},
			"203.0.113.1:0 false", ""},
		{"Forwarded by two", Options{Proxies: two, Field: Forwarded}, here, false,
			http.Header{Forwarded: {`for=203.0.113.1;proto=https`, `for=10.0.0.9;proto=http`}},
			"203.0.113.1:0 true", ""},
		{"Forwarded, swallowed", Options{Proxies: loopback, Field: Forwarded}, here, false,
			http.Header{Forwarded: {`for=10.0.0.1;x="`, `for=203.0.113.1;proto=http`}}, "203.0.113.1:0 false", ""},
		{"Forwarded, swallowed in one line", Options{Proxies: loopback, Field: Forwarded}, here, false,
			http.Header{Forwarded: {`for=10.0.0.1;proto=https;x=", for="[2001:db8::1]";proto=http`}}, nobody, ""},
		{"real IP", Options{Proxies: loopback, Field: RealIP}, here, false,
			http.Header{RealIP: {"203.0.113.1"}, For: {"10.0.0.1"}, proto: {"https"}}, "203.0.113.1:0 true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, log := seen(c.o, c.peer, c.secure, c.header)
			if got != c.want {
				t.Errorf("the door sees %q, want %q", got, c.want)
			}
			if c.logs == "" && log != "" || !strings.Contains(log, c.logs) {
				t.Errorf("logged %q, want %q", log, c.logs)
			}
		})
	}
}

// TestWarnings checks that there is one warning per address, for a bounded number of addresses.
func TestWarnings(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	h := New(env.Real(slog.New(slog.NewTextHandler(&b, nil))), Options{}, http.NotFoundHandler())
	for i := range 3 * maxWarned {
		for range 2 {
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:7", i/250, i%250)
			r.Header.Set(For, "127.0.0.1")
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if n := strings.Count(b.String(), "ignored"); n != maxWarned {
		t.Errorf("%d warnings, want %d", n, maxWarned)
	}
}
