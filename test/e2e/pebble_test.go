package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	web "net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// authority is an ACME authority for tests: Debian's pebble, with pebble-challtestsrv as the public DNS, in which every
// name resolves to this machine.
type authority struct {
	t         *testing.T
	directory string
	root      string // file with the certificate of its own https
	manage    string // URL of the DNS server's management
	http, tls string // ports at which it validates
	api       *web.Client
	port      string // of its management
	resolver  string // address of the DNS server
	out       *program.Output
}

// pebble starts an authority.
func pebble(t *testing.T) *authority {
	t.Helper()
	paths := external.Need(t, "pebble", "pebble-challtestsrv")
	ports := program.FreePorts(t, 6)
	dir := t.TempDir()
	a := &authority{
		t: t, directory: "https://127.0.0.1:" + ports[0] + "/dir", root: filepath.Join(dir, "root.pem"),
		manage: "http://127.0.0.1:" + ports[3], http: ports[4], tls: ports[5], port: ports[1],
		resolver: "127.0.0.1:" + ports[2], out: &program.Output{},
	}
	pool := serverPair(t, a.root, filepath.Join(dir, "root.key"))
	a.api = &web.Client{Timeout: 10 * time.Second,
		Transport: &web.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	config := map[string]any{"pebble": map[string]any{
		"listenAddress": "127.0.0.1:" + ports[0], "managementListenAddress": "127.0.0.1:" + ports[1],
		"certificate": a.root, "privateKey": filepath.Join(dir, "root.key"),
		"httpPort": number(ports[4]), "tlsPort": number(ports[5]), "ocspResponderURL": "",
		"externalAccountBindingRequired": false,
	}}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	a.start(paths[1], "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dns01", "127.0.0.1:"+ports[2], "-management",
		"127.0.0.1:"+ports[3],
		"-http01", "", "-https01", "", "-tlsalpn01", "")
	a.start(paths[0], "-config", file, "-dnsserver", "127.0.0.1:"+ports[2])
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r, err := a.api.Get(a.directory)
		if err == nil {
			r.Body.Close()
			if r, err = web.Post(a.manage+"/clear-txt", "application/json",
				bytes.NewReader([]byte(`{"host":"x."}`))); err == nil {
				r.Body.Close()
				return a
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("pebble does not answer: %v\n%.2000s", err, a.out)
		}
	}
}

func (a *authority) start(name string, args ...string) {
	a.t.Helper()
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	c.Stdout, c.Stderr = a.out, a.out
	if err := c.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
}

// issuer returns the root certificate of the authority.
func (a *authority) issuer() *x509.CertPool {
	a.t.Helper()
	r, err := a.api.Get("https://127.0.0.1:" + a.port + "/roots/0")
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(raw) {
		a.t.Fatalf("root: %v %s", err, raw)
	}
	return pool
}

// dns posts to the DNS server's management.
func (a *authority) dns(path string, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := web.Post(a.manage+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Body.Close()
	if r.StatusCode != web.StatusOK {
		return fmt.Errorf("%s: %s", path, r.Status)
	}
	return nil
}

func number(port string) int {
	var n int
	_, _ = fmt.Sscan(port, &n)
	return n
}

// serverPair writes a self-signed certificate for 127.0.0.1 and its key.
func serverPair(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(certFile, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}
