package libraries

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// linked returns both ends of a connection over TLS 1.3 on loopback.
func linked(t *testing.T) (client, server net.Conn) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.(*tls.Conn).Handshake()
		}
		if err == nil {
			accepted <- c
		}
	}()
	trusting := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the certificate was made above
	client, err = tls.Dial("tcp", l.Addr().String(), trusting)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

const (
	bulk  = 512 << 20
	chunk = 32 << 10
)

// transfer writes bulk bytes in pieces as a repair does, and returns the rate in MB/s.
func transfer(t *testing.T, w io.WriteCloser, r io.Reader) float64 {
	t.Helper()
	begun := time.Now()
	go func() {
		b := make([]byte, chunk)
		for range bulk / chunk {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
		_ = w.Close()
	}()
	n, err := io.Copy(io.Discard, r)
	if n != bulk {
		t.Fatalf("%d bytes, %v", n, err)
	}
	return bulk / 1e6 / time.Since(begun).Seconds()
}

// TestStreams compares streams of yamux, which share a connection, with connections that carry one stream each, as
// ours do.
func TestStreams(t *testing.T) {
	open := func(client, server *yamux.Session) (w, r *yamux.Stream) {
		w, err := client.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		r, err = server.AcceptStream()
		if err != nil {
			t.Fatal(err)
		}
		return w, r
	}
	session := func() (client, server *yamux.Session) {
		c, s := linked(t)
		client, err := yamux.Client(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		server, err = yamux.Server(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); server.Close() })
		return client, server
	}
	for range 3 {
		c, s := linked(t)
		alone := transfer(t, c, s)
		w, r := open(session())
		shared := transfer(t, w, r)
		t.Logf("alone %.0f MB/s, yamux %.0f MB/s", alone, shared)
	}

	// A stream that a handler refuses, or ends because of an error, looks like one that ended well. Ours carries a code
	// and a text: a transfer that broke off must not be taken for a whole one.
	w, r := open(session())
	_, _ = r.Write([]byte("half of it"))
	_ = r.Close()
	got, err := io.ReadAll(w)
	n, writing := w.Write([]byte("x"))
	t.Logf("from a stream that ended early: %q, %v; write: %d, %v", got, err, n, writing)
	if err != nil || writing != nil {
		t.Error("yamux reports the end of a stream by its other side: compare again")
	}
}
