package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fingerprintOf returns the SHA-256 fingerprint of the certificate of a door.
func fingerprintOf(t *testing.T, address string) string {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sum := sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}

// TestReplicate copies a mail file into a folder that is created for it. The owner exists there, and changes to the
// copy are replicated back.
func TestReplicate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, laptop := filepath.Join(dir, "server"), filepath.Join(dir, "laptop")
	made(t, data)
	log := newLines()
	startServe(t, log, nil, "--data", data)
	https := log.door(t, "https")
	box := filepath.Join(dir, "mbox")
	write := func(subject string) {
		t.Helper()
		if err := os.WriteFile(box, []byte("From a@example.org Mon Jan  5 09:00:00 2026\nSubject: "+subject+
			"\n\nbody\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	must := func(in string, args ...string) string {
		t.Helper()
		code, out, errs := command(t, in, args...)
		if code != 0 {
			t.Fatalf("%v: %d %s %s", args, code, out, errs)
		}
		return out
	}
	write("one")
	must("", "import", "mbox", box, "--user", "admin", "--data", data)
	copied := []string{"replicate", "https://" + https, "--user", "admin", "--fingerprint", fingerprintOf(t, https),
		"--data", laptop}
	if out := must("secret\n", copied...); !strings.Contains(out, "Administrator") || !strings.Contains(out, "yes") {
		t.Errorf("%s", out)
	}
	if out := must("", "db", "show", "admin", "--data", laptop); !strings.Contains(out, "INBOX") ||
		!strings.Contains(out, "Administrator=Manager") {
		t.Errorf("the copy: %s", out)
	}
	write("two")
	must("", "import", "mbox", box, "--user", "admin", "--data", laptop)
	must("secret\n", copied...)
	if out := must("", "db", "show", "admin", "--json", "--data", data); !strings.Contains(out,
		`"name":"INBOX","messages":2`) {
		t.Errorf("at the server: %s", out)
	}
	if out := must("", "replica", "history", "--data", laptop); !strings.Contains(out, https) {
		t.Errorf("%s", out)
	}
	if code, _, errs := command(t, "wrong\n", copied...); code != exitFailed ||
		!strings.Contains(errs, "rejects this name and password") {
		t.Errorf("a wrong password: %d %s", code, errs)
	}
	if code, _, errs := command(t, "", "replicate", "https://"+https, "--data", laptop); code != exitUsage ||
		!strings.Contains(errs, "--user") {
		t.Errorf("without a user: %d %s", code, errs)
	}
	text, err := os.ReadFile(filepath.Join(laptop, "doublet.toml"))
	if err != nil || !strings.Contains(string(text), `imap = "127.0.0.1:2143"`) ||
		!strings.Contains(string(text), `smtp = "off"`) {
		t.Errorf("settings of the copy: %v", err)
	}
}
