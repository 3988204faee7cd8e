package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestBuilt checks that the built files match the sources.
func TestBuilt(t *testing.T) {
	names := []string{"index.html", "package-lock.json", "package.json", "tsconfig.json", "tsconfig.sw.json",
		"vite.config.ts"}
	for _, dir := range []string{"public", "src"} {
		err := fs.WalkDir(os.DirFS("."), dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(append(append([]byte(name+"\x00"), b...), 0))
	}
	built, err := fs.ReadFile(Client(), "SOURCES")
	if err != nil || strings.TrimSpace(string(built)) != hex.EncodeToString(h.Sum(nil)) {
		t.Error("web/dist was built from other sources: run make web")
	}
}

// TestSize checks the bytes of compressed script that every page begins with. test/e2e/web/load.test.mjs counts the
// rest of the first 60,000: the texts of a language, and the tabs above the list.
func TestSize(t *testing.T) {
	const most = 54_000
	page, err := fs.ReadFile(Client(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`/(assets/[^"]+\.js)"`).FindAllSubmatch(page, -1)
	if len(names) < 2 {
		t.Fatalf("index.html names %d scripts", len(names))
	}
	var b bytes.Buffer
	for _, name := range names {
		script, err := fs.ReadFile(Client(), string(name[1]))
		if err != nil {
			t.Fatal(err)
		}
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // cannot fail with this level
		_, _ = z.Write(script)
		_ = z.Close()
	}
	if b.Len() > most {
		t.Errorf("the first scripts have %d bytes, more than %d", b.Len(), most)
	}
}

// TestTexts checks that every language has all texts, with the same placeholders.
func TestTexts(t *testing.T) {
	texts := Texts()
	if len(texts) < 3 {
		t.Fatal(len(texts))
	}
	for language, all := range texts {
		for key, en := range texts["en"] {
			if all[key] == "" {
				t.Errorf("%s does not say %s", language, key)
			}
			for _, value := range []string{"{0}", "{1}", "{2}"} {
				if strings.Contains(en, value) != strings.Contains(all[key], value) {
					t.Errorf("%s: %s in %s", language, value, key)
				}
			}
		}
		if len(all) != len(texts["en"]) {
			t.Errorf("%s has %d texts, en %d", language, len(all), len(texts["en"]))
		}
	}
}
