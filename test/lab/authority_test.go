package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"doublet/test/external"
)

// openAuthority starts Debian's pebble, an ACME test authority. It resolves names in the stub zone and validates at
// ports 80 and 443 as a real authority does. openAuthority returns the file with the certificate of pebble's own HTTPS
// server.
func openAuthority(t *testing.T, dir string) (root string) {
	t.Helper()
	external.Need(t, "pebble")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "acme.example"},
		IPAddresses: []net.IP{net.ParseIP(netAddress)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(dir, "acme-root.pem")
	write(t, root, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, filepath.Join(dir, "acme.key"),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	write(t, filepath.Join(dir, "pebble.json"),
		fmt.Sprintf(`{"pebble": {"listenAddress": "%[1]s:14000", "managementListenAddress": "%[1]s:15000",
		"certificate": "%[2]s/acme-root.pem", "privateKey": "%[2]s/acme.key", "httpPort": 80, "tlsPort": 443,
		"ocspResponderURL": "", "externalAccountBindingRequired": false}}`, netAddress, dir))
	cmd := exec.Command("pebble", "-config", filepath.Join(dir, "pebble.json"), "-dnsserver", netAddress+":53")
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	log, err := os.Create(filepath.Join(dir, "pebble.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("the authority:\n%s", tail(b, 3000))
		}
	})
	wait(t, "the authority", func() (string, bool) {
		conn, err := net.DialTimeout("tcp", netAddress+":14000", time.Second)
		if err != nil {
			return err.Error(), false
		}
		return "", conn.Close() == nil
	})
	return root
}

// authorityRoots fetches the root certificate of the authority, which clients must trust.
func authorityRoots(t *testing.T, root string) string {
	t.Helper()
	pool := x509.NewCertPool()
	b, err := os.ReadFile(root)
	if err != nil || !pool.AppendCertsFromPEM(b) {
		t.Fatalf("read %s: %v", root, err)
	}
	client := &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := client.Get("https://" + netAddress + ":15000/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
