package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, root, file, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put(t, root, "serve/smtpd/data.go",
		"// Package smtpd is a door.\npackage smtpd\n\n// Implements: RFC 5321 §4.1.1.10 QUIT\n"+
			"\t// Implements: RFC 5321 §4.1.1.4 DATA | and more\nvar x = `\nImplements: nothing`\n")
	put(t, root, "client/smtp/data.go",
		"// Package smtp is a client.\npackage smtp\n// Implements: RFC 5321 §4.1.1.4 DATA | and more\r\n"+
			"// Implements: RFC 5321 §4.1.1.4 DATA | and more\n")
	put(t, root, "a.go", "// Package a is a.\npackage a\n// Implements: draft-murchison-sasl-login LOGIN\n"+
		"// Implements: RFC 9999 Whole\n// Implements: RFC 1870\n")
	put(t, root, "a_test.go", "package a\n// Implements: RFC 1 no test counts\n")
	put(t, root, "testdata/a.go", "package a\n// Implements: RFC 1 no data counts\n")
	put(t, root, "doc/deviations.md", "## Deviations\n\nNone.\n\n")
	if err := generate(root); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "doc/protocols.md"))
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw)
	at := 0
	for _, want := range []string{
		"| [RFC 1870](#rfc-1870-smtp-service-extension-for-message-size-declaration) | SMTP Service Extension for " +
			"Message Size Declaration | 1 |",
		"| [RFC 5321](#rfc-5321-simple-mail-transfer-protocol) | Simple Mail Transfer Protocol | 2 |",
		"| [RFC 9999](#rfc-9999) |  | 1 |",
		"| [draft-murchison-sasl-login](#draft-murchison-sasl-login) |",
		"## RFC 5321: Simple Mail Transfer Protocol\n\n<https://www.rfc-editor.org/rfc/rfc5321>",
		`| §4.1.1.4 | DATA \| and more | [client/smtp/data.go](../client/smtp/data.go), ` +
			`[serve/smtpd/data.go](../serve/smtpd/data.go) |`,
		"| §4.1.1.10 | QUIT | [serve/smtpd/data.go](../serve/smtpd/data.go) |",
		"|  | Whole | [a.go](../a.go) |",
		"## Deviations\n\nNone.\n",
	} {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("no %s after byte %d of\n%s", want, at, got)
		}
		at += i
	}
	if strings.Contains(got, "counts") || !strings.HasSuffix(got, "None.\n") {
		t.Error(got)
	}
	if raw, err := os.ReadFile(filepath.Join(root, "doc/config.md")); err != nil ||
		!strings.Contains(string(raw), "message_size") {
		t.Errorf("doc/config.md: %v", err)
	}
	if err := generate(root); err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(filepath.Join(root, "doc/protocols.md")); string(again) != got {
		t.Error("a second run gives another document")
	}
}

func TestBadMarks(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"// Implements:", "// Implements: SMTP", "//Implements: RFC 1 x", "// Implements: RFC 5321 § 4 x",
		"// Implements: RFC five x",
		"// Implements: RFC 5321  two blanks", "// Implements: RFC 05321 x", "// Implements: rfc 5321 x",
	} {
		if marks, err := marksOf("a.go", []byte("package a\n"+line+"\n")); err == nil ||
			!strings.HasPrefix(err.Error(), "a.go:2: ") {
			t.Errorf("%q gives %v, %v", line, marks, err)
		}
	}
}

func TestSectionOrder(t *testing.T) {
	t.Parallel()
	sorted := []string{"", "2", "2.1", "2.1.1", "2.2", "2.10", "10", "A", "A.1", "B"}
	for i := range sorted {
		for j := range sorted {
			got := compareSections(sorted[i], sorted[j])
			if (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("compare %q and %q: %d", sorted[i], sorted[j], got)
			}
		}
	}
}
