package listen

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// whoAmI sends the client its address as the server sees it, and echoes a line.
func whoAmI(c *Conn) {
	c.PrintString(c.RemoteAddr().String() + " " + c.RemoteIP().String())
	if c.Local() {
		c.PrintString(" local")
	}
	c.PrintString("\n")
	if c.Await(time.Minute) == nil {
		if line, err := c.ReadLine(100, time.Minute); err == nil {
			c.Print(line)
		}
	}
}

func TestProxied(t *testing.T) {
	t.Parallel()
	_, st, a := openDoor(t, testEnv(), Options{Proxies: loopback}, Door{Name: "who", Serve: whoAmI})
	for header, want := range map[string]string{
		"PROXY TCP4 192.0.2.9 198.51.100.1 4711 25\r\n": "192.0.2.9:4711 " +
			"192.0.2.9\n",
		"PROXY TCP6 2001:db8::9 2001:db8::1 4711 25\r\n": "[2001:db8::9]" +
			":4711 2001:db8::9\n",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x09\xc6\x33\x64\x01\x12\x67\x00\x19": "192.0.2.9:4711 " +
			"192.0.2.9\n",
		// A client behind a proxy is never local, whatever the header says.
		"PROXY TCP4 127.0.0.1 127.0.0.1 4711 25\r\n": "127.0.0.1:4711 127.0.0.1\n",
	} {
		c := dial(t, a)
		// The first command comes in the same packet.
		_, _ = io.WriteString(c, header+"hello\n")
		expect(t, c, want+"hello\n")
		expectEnd(t, c)
	}
	// A health check by the balancer itself.
	c := dial(t, a)
	_, _ = io.WriteString(c, "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00x\n")
	expect(t, c, c.LocalAddr().String()+" 127.0.0.1 local\nx\n")
	for _, hostile := range []string{
		"EHLO there.example.org\r\n", "PROXY TCP4 192.0.2.9\r\nEHLO x\r\n", "PROXY " + strings.Repeat("x", 200),
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + strings.Repeat("x", 3000),
	} {
		c := dial(t, a)
		_, _ = io.WriteString(c, hostile)
		_, err := c.Read(make([]byte, 1))
		if err == nil {
			t.Errorf("%.40q: answered", hostile)
		}
	}
	if n := st.get("Server.Listen.Proxy.Errors"); n != 4 {
		t.Errorf("%d refused", n)
	}
}

// TestNotTrusted checks that a header from an untrusted address is ordinary, malformed input.
func TestNotTrusted(t *testing.T) {
	t.Parallel()
	_, _, a := openDoor(t, testEnv(), Options{Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		Door{Name: "who", Serve: whoAmI})
	c := dial(t, a)
	_, _ = io.WriteString(c, "PROXY TCP4 192.0.2.9 198.51.100.1 4711 25\r\n")
	expect(t, c, c.LocalAddr().String()+" 127.0.0.1 local\nPROXY TCP4 192.0.2.9 198.51.100.1 4711 25\r\n")
}

// TestProxiedAreCounted checks that connections through a balancer count for the client, not for the balancer.
func TestProxiedAreCounted(t *testing.T) {
	t.Parallel()
	_, st, a := openDoor(t, testEnv(), Options{Proxies: loopback, MaxPerAddress: 1},
		Door{Name: "who", Busy: "busy\n", Serve: whoAmI})
	come := func(from, want string) {
		c := dial(t, a)
		_, _ = io.WriteString(c, "PROXY TCP4 "+from+" 198.51.100.1 4711 25\r\n")
		expect(t, c, want)
	}
	come("192.0.2.9", "192.0.2.9:4711")
	come("192.0.2.9", "busy\n")
	come("192.0.2.10", "192.0.2.10:4711")
	come("127.0.0.1", "127.0.0.1:4711")
	come("127.0.0.1", "busy\n")
	if n := st.get("Server.Listen.Refused.Client"); n != 2 {
		t.Errorf("%d refused", n)
	}
}

func testCertificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// TestProxiedTLS checks that the header comes before the handshake, in one packet with its beginning.
func TestProxiedTLS(t *testing.T) {
	t.Parallel()
	_, _, a := openDoor(t, testEnv(), Options{Proxies: loopback},
		Door{Name: "who", TLS: testCertificate(t), Implicit: true, Serve: whoAmI})
	c := tls.Client(&prefixed{Conn: dial(t, a), prefix: "PROXY TCP4 192.0.2.9 198.51.100.1 4711 25\r\n"},
		&tls.Config{InsecureSkipVerify: true})
	expect(t, c, "192.0.2.9:4711 192.0.2.9\n")
}

// prefixed sends a prefix together with the first write.
type prefixed struct {
	net.Conn
	prefix string
}

func (p *prefixed) Write(b []byte) (int, error) {
	whole := append([]byte(p.prefix), b...)
	p.prefix = ""
	_, err := p.Conn.Write(whole)
	return len(b), err
}

// TestListen runs net/http behind a door, with the door's limits and the client's address.
func TestListen(t *testing.T) {
	t.Parallel()
	s := New(testEnv(), Options{Proxies: loopback, MaxPerAddress: 1}, nil)
	l, err := s.Listen(Door{Name: "web", Network: "tcp", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	get := func() net.Conn {
		c := dial(t, l.Addr())
		_, _ = io.WriteString(c, "PROXY TCP4 192.0.2.9 198.51.100.1 4711 80\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
		return c
	}
	first := get()
	b := make([]byte, 4096)
	n, _ := first.Read(b)
	if !strings.HasSuffix(string(b[:n]), "192.0.2.9:4711") {
		t.Errorf("answer %q", b[:n])
	}
	if n, err := get().Read(b); err == nil {
		t.Errorf("a second connection of the client: %q", b[:n])
	}
	if l := s.Load(); l.Connections != 1 || l.Passed != 1 || l.PeakPassed != 1 {
		t.Errorf("%+v", l)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := web.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if l := s.Load(); l.Passed != 0 || l.PeakPassed != 1 {
		t.Errorf("after the end: %+v", l)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
	shutdown(t, s)
}

// TestRelay checks that a web proxy may send a header or speak HTTP at once, and its connections do not count as one
// client's. At a door without relays the header is still required.
func TestRelay(t *testing.T) {
	t.Parallel()
	s := New(testEnv(), Options{Proxies: loopback, MaxPerAddress: 1}, nil)
	serve := func(d Door) net.Addr {
		l, err := s.Listen(d)
		if err != nil {
			t.Fatal(err)
		}
		web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			_, _ = io.WriteString(w, "from "+r.RemoteAddr)
		})}
		go func() { _ = web.Serve(l) }()
		t.Cleanup(func() { _ = web.Close() })
		return l.Addr()
	}
	get := func(at net.Addr, header string) string {
		c := dial(t, at)
		_, _ = io.WriteString(c, header+"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		return string(b[:n])
	}
	at := serve(Door{Name: "web", Network: "tcp", Address: "127.0.0.1:0", Relays: loopback})
	for range 3 {
		if got := get(at, ""); !strings.Contains(got, "from 127.0.0.1:") {
			t.Errorf("a relay: %q", got)
		}
	}
	if got := get(at, "PROXY TCP4 192.0.2.9 198.51.100.1 4711 80\r\n"); !strings.HasSuffix(got, "from 192.0.2.9:4711") {
		t.Errorf("with a header: %q", got)
	}
	if got := get(at, "PROXY TCP4 127.0.0.1 198.51.100.1 4711 80\r\n"); !strings.HasSuffix(got, "from 0.0.0.0:4711") {
		t.Errorf("a header that names this machine: %q", got)
	}
	if got := get(serve(Door{Name: "mail", Network: "tcp", Address: "127.0.0.1:0"}), ""); got != "" {
		t.Errorf("at a door without relays: %q", got)
	}
}
