// Package external is for tests that use programs nobody here wrote: swaks, mutt, mbsync. Where
// one is missing the test is skipped, but in CI (EXTERNAL=required) it fails.
package external

import (
	"os"
	"os/exec"
	"testing"
)

// Programs are those that a test may need, each with the Debian package that has it. `make test`
// says which of them are missing.
var Programs = map[string]string{
	"swaks":   "swaks",
	"msmtp":   "msmtp",
	"mutt":    "mutt",
	"neomutt": "neomutt",
	"mbsync":  "isync",
	"curl":    "curl",
	"python3": "python3",
	// The system's, which has Debian's modules.
	"/usr/bin/python3": "python3",

	"dovecot":               "dovecot-imapd",
	"/usr/lib/dovecot/lmtp": "dovecot-lmtpd",
	"fetchmail":             "fetchmail",
	"getmail":               "getmail6",
	"offlineimap":           "offlineimap3",
	"slapd":                 "slapd",

	"pebble":              "pebble",
	"pebble-challtestsrv": "pebble",
	"dpkg-deb":            "dpkg",
	"lintian":             "lintian",
	"strip":               "binutils",
	"systemd-analyze":     "systemd",
	"ip":                  "iproute2",
	"nft":                 "nftables",
	"qemu-aarch64-static": "qemu-user-static",
	"postfix":             "postfix",
	"rspamd":              "rspamd",
	"opendkim":            "opendkim",
	"nginx":               "nginx",
	"node":                "nodejs",
	"chromium":            "chromium",
	"w3m":                 "w3m",
	"lynx":                "lynx",
	"script":              "bsdutils", // a terminal for lynx
}

// Need skips the test unless every program is there, or fails it if EXTERNAL=required. It
// returns their paths in order.
func Need(t testing.TB, programs ...string) []string {
	t.Helper()
	var paths []string
	for _, p := range programs {
		debian, known := Programs[p]
		if !known {
			t.Fatalf("external: %s is not in external.Programs: add it there", p)
		}
		path, err := exec.LookPath(p)
		if err == nil {
			paths = append(paths, path)
			continue
		}
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf("external: %s is missing (Debian package %s) and EXTERNAL=required", p, debian)
		}
		t.Skipf("external: %s is missing (Debian package %s)", p, debian)
	}
	return paths
}
