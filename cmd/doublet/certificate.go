package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	"doublet/cmd/doublet/config"
	"doublet/serve/certs"
)

// openCertificates opens the certificates of the doors.
func (h *server) openCertificates() (err error) {
	c := &h.cfg
	o := certs.Options{
		Name: c.Server.Name, Dir: c.Data.Dir, Certificate: c.TLS.Certificate, Key: c.TLS.Key, Folder: c.TLS.Folder,
		Warn:         c.TLS.WarnBefore.Duration,
		WritePrivate: writePrivate, Stats: h.system.Stats,
	}
	if c.ACME.Enabled {
		if o.ACME, err = h.authority(); err != nil {
			return err
		}
	}
	if h.certs, err = certs.Open(h.env, o); err != nil {
		return err
	}
	h.running.Certificates = h.certs
	return nil
}

// authority returns the ACME authority of the configuration.
func (h *server) authority() (*certs.ACME, error) {
	c := &h.cfg.ACME
	a := &certs.ACME{
		Directory: c.Directory, Email: c.Email, KeyID: c.KeyID, MACKey: c.MACKey, Agent: "Doublet/" + version(),
		Names: h.certificateNames,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			at, _, err := h.system.DNS.Addresses(ctx, host)
			return at, err
		},
	}
	for _, word := range strings.Fields(c.Challenges) {
		switch word {
		case "http-01":
			a.HTTP = h.cfg.Doors.HTTP != config.Off
		case "tls-alpn-01":
			a.ALPN = h.cfg.Doors.HTTPS != config.Off
		default:
			return nil, &config.Error{Where: "configuration", Key: "acme.challenges",
				Err: fmt.Errorf("%q is neither http-01 nor tls-alpn-01", word)}
		}
	}
	if c.DNSCommand != "" {
		a.DNS = dnsCommand(c.DNSCommand)
	}
	if c.Root != "" {
		raw, err := os.ReadFile(c.Root)
		if err != nil {
			return nil, fmt.Errorf("acme.root: %w", err)
		}
		if a.Roots = x509.NewCertPool(); !a.Roots.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("acme.root: no certificate in %s", c.Root)
		}
	}
	return a, nil
}

// certificateNames returns the server's name and the configured names of each local domain.
func (h *server) certificateNames(ctx context.Context) ([]string, error) {
	domains, err := h.system.Directory.Domains.List(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{h.cfg.Server.Name}
	for _, word := range strings.Fields(h.cfg.ACME.Names) {
		if strings.Contains(word, ".") {
			names = append(names, word)
			continue
		}
		for _, d := range domains {
			names = append(names, word+"."+d)
		}
	}
	return slices.Compact(names), nil
}

// dnsCommand returns a function that runs a program to change the DNS zone. An error includes the program's output.
func dnsCommand(path string) func(ctx context.Context, action, name, value string) error {
	return func(ctx context.Context, action, name, value string) error {
		out, err := exec.CommandContext(ctx, path, action, name, value).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s %s: %w: %s", path, action, name, err,
				strings.TrimSpace(string(out[:min(len(out), 500)])))
		}
		return nil
	}
}

// writePrivate is replaceFile for a file that only this account may read.
func writePrivate(path string, data []byte) error { return replaceFile(path, 0o600, data) }

// reloadCertificate reads the certificate files again.
func (h *server) reloadCertificate() {
	if err := h.certs.Reload(); err != nil {
		h.env.Log.Error("cannot reload the certificate: the previous one stays in use", "error", err)
		return
	}
	h.certs.Look()
	leaf := h.certs.Leaf(h.cfg.Server.Name)
	h.env.Log.Info("certificate reloaded", "subject", leaf.Subject.String(), "until", leaf.NotAfter)
}
