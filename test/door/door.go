// Package door opens a door (a protocol server) for its tests: on loopback, with or without a certificate, for clients
// that are local or appear to be remote.
package door

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/serve/listen"
)

// Options control At.
type Options struct {
	// TLS sets up a certificate, for STARTTLS or, with Implicit, for TLS from the first byte.
	TLS, Implicit bool
	// Far makes all clients appear to come from another machine.
	Far bool
	// Stats is passed to listen.New; it may be nil.
	Stats listen.Stats
	// Left is called after the door is closed, to check for leftovers; it may be nil.
	Left func()
}

// Open is an open door.
type Open struct {
	listen.Door
	Front *listen.Server
	Addr  net.Addr
}

// At opens a door whose fields Name, Serve and Busy are set, and closes it at the end of the test.
func At(t testing.TB, e *env.Env, d listen.Door, o Options) *Open {
	t.Helper()
	if o.Far {
		Far(e)
	}
	d.Network, d.Address = "tcp", "127.0.0.1:0"
	if o.TLS {
		d.TLS, d.Implicit = &tls.Config{Certificates: []tls.Certificate{Certificate()}}, o.Implicit
	}
	front := listen.New(e, listen.Options{}, o.Stats)
	l, err := front.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := front.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if o.Left != nil {
			o.Left()
		}
	})
	return &Open{d, front, l.Addr()}
}

// Far makes the clients of all later listeners of an environment appear to come from 192.0.2.7.
func Far(e *env.Env) {
	e.Listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return farListener{l}, err
	}
}

type farListener struct{ net.Listener }

func (l farListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return farConn{c}, err
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711} }

// Certificate returns a self-signed certificate for localhost that is valid for an hour.
var Certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// ClientTLS is a client configuration that accepts the certificate.
var ClientTLS = &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}
