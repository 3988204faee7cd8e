package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
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

// TestSize checks that the script of the first page stays small.
func TestSize(t *testing.T) {
	names, err := fs.Glob(Client(), "assets/index-*.js")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if info, err := fs.Stat(Client(), names[0]); err != nil || info.Size() > 200_000 {
		t.Errorf("%s has %d bytes (%v)", names[0], info.Size(), err)
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
