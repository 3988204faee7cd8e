package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// makeCertificate writes a certificate and its key, as an administrator would provide them.
func makeCertificate(certFile, keyFile, name string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(24 * time.Hour), DNSNames: []string{name},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644))
}

func TestWritePrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"one", "another"} {
		if err := writePrivate(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		got, _ := os.ReadFile(path)
		if err != nil || info.Mode().Perm() != 0o600 || string(got) != text {
			t.Errorf("%v %v %q", err, info.Mode(), got)
		}
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if err := writePrivate(filepath.Join(path, "below"), nil); err == nil {
		t.Error("written below a file")
	}
}

// TestDoorsShowOneCertificate checks that STARTTLS, TLS and https show the same self-signed certificate, that https
// speaks HTTP/2, and that the verbs show the certificate.
func TestDoorsShowOneCertificate(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	doors, stop := startDemo(t, data)
	defer stop()
	file, err := os.ReadFile(filepath.Join(data, "selfsigned.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(file)
	c, err := tls.Dial("tcp", doors["imaps"], &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !bytes.Equal(c.ConnectionState().PeerCertificates[0].Raw, block.Bytes) {
		t.Error("imaps shows another certificate")
	}
	if info, err := os.Stat(filepath.Join(data, "selfsigned.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v %v", info, err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true}}
	r, err := web.Get("https://" + doors["https"] + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != 200 || r.Proto != "HTTP/2.0" || !bytes.Equal(r.TLS.PeerCertificates[0].Raw, block.Bytes) {
		t.Errorf("https: %d %s %s", r.StatusCode, r.Proto, body)
	}
	if code, out, errs := command(t, "", "certificate", "show", "--data", data); code != 0 ||
		!strings.Contains(out, "self-signed") || !strings.Contains(out, "localhost") {
		t.Errorf("certificate show: %d %s%s", code, out, errs)
	}
	if code, out, errs := command(t, "", "health", "--data", data); code != 0 || !strings.Contains(out, "ok") {
		t.Errorf("health: %d %s%s", code, out, errs)
	}
	if code, out, errs := command(t, "", "certificate", "renew", "--data", data); code != 0 {
		t.Errorf("certificate renew: %d %s%s", code, out, errs)
	}
	if now, err := os.ReadFile(filepath.Join(data, "selfsigned.pem")); err != nil || bytes.Equal(now, file) {
		t.Errorf("not renewed: %v", err)
	}
}
