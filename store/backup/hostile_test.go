package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// forged is a backup on the disk that an attacker has changed, with valid checksums.
type forged struct {
	t    *testing.T
	env  *env.Env
	root string
}

func newForged(t *testing.T) *forged {
	t.Helper()
	f := &forged{t: t, env: env.Real(slog.New(slog.DiscardHandler)), root: t.TempDir()}
	s := openStore(t, f.env, f.at("data"))
	id, err := s.CreateDatabase(note.System, store.Create{Title: "db", Kind: "mail"})
	if err == nil {
		err = s.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
			w, err := tx.Database(id)
			for n := 0; err == nil && n < 200; n++ {
				_, err = w.Create(store.New{Content: number(n)})
			}
			return err
		})
	}
	if err == nil {
		err = os.WriteFile(f.at("settings"), []byte("settings"), 0o600)
	}
	if err == nil {
		_, err = Take(context.Background(), f.env, s, f.at("backup"), Options{Extra: []string{f.at("settings")}})
	}
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *forged) at(name string) string { return filepath.Join(f.root, name) }

func (f *forged) manifest() string { return f.at("backup/generation-000001") }

// change changes the manifest.
func (f *forged) change(edit func(g *Generation)) {
	f.t.Helper()
	text, err := os.ReadFile(f.manifest())
	if err != nil {
		f.t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(text), "\n")
	var g Generation
	if err := json.Unmarshal([]byte(body), &g); err != nil {
		f.t.Fatal(err)
	}
	edit(&g)
	out, err := json.Marshal(&g)
	if err != nil {
		f.t.Fatal(err)
	}
	f.sign(out)
}

// sign writes a manifest with its checksum.
func (f *forged) sign(body []byte) {
	f.t.Helper()
	sum := sha256.Sum256(body)
	if err := os.WriteFile(f.manifest(), append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...),
		0o600); err != nil {
		f.t.Fatal(err)
	}
}

// piece adds a piece with some content.
func (f *forged) piece(name string, content []byte) Piece {
	f.t.Helper()
	if err := os.WriteFile(f.at("backup/pieces/"+name), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return Piece{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

func (f *forged) restore(to string) error {
	_, err := Restore(context.Background(), f.env, f.at("backup"), f.at(to),
		RestoreOptions{Options: Options{Extra: []string{"settings"}}, Store: storeOptions()})
	return err
}

// files returns the files outside of the backup and the folder that is restored to.
func (f *forged) files(but string) (out []string) {
	f.t.Helper()
	err := filepath.WalkDir(f.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == f.at("backup") || path == f.at(but) {
			return errors.Join(err, filepath.SkipDir)
		}
		out = append(out, path)
		return nil
	})
	if err != nil && !errors.Is(err, filepath.SkipDir) {
		f.t.Fatal(err)
	}
	return out
}

// TestRestoreForgedManifest restores backups whose manifests lead to other places, or claim things that no store has.
// Each must be refused, and must leave nothing outside of the data folder.
func TestRestoreForgedManifest(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(f *forged, g *Generation){
		"path upwards": func(f *forged, g *Generation) {
			g.Files = append(g.Files, File{Path: "index/../../../evil", Size: 4,
				Pieces: []Piece{f.piece("p", []byte("evil"))}})
		},
		"extra upwards": func(f *forged, g *Generation) {
			g.Files = append(g.Files, File{Path: "extra/..", Size: 4, Pieces: []Piece{f.piece("p", []byte("evil"))}})
		},
		"no file of a store": func(f *forged, g *Generation) {
			g.Files = append(g.Files, File{Path: "index/authorized_keys", Size: 4,
				Pieces: []Piece{f.piece("p", []byte("evil"))}})
		},
		"folder of the restore": func(f *forged, g *Generation) {
			g.Files = append(g.Files, File{Path: "index/" + staged, Size: 4,
				Pieces: []Piece{f.piece("p", []byte("evil"))}})
		},
		"piece upwards": func(f *forged, g *Generation) {
			p := f.piece("../evil-piece", []byte("evil"))
			p.Name = "../evil-piece"
			g.Files = append(g.Files, File{Path: "index/1.sst", Size: 4, Pieces: []Piece{p}})
		},
		"sizes that overflow": func(f *forged, g *Generation) {
			p := f.piece("p", []byte("evil"))
			p.Size = math.MaxInt64
			g.Files = append(g.Files, File{Path: "index/1.sst", Size: -2, Pieces: []Piece{p, p}})
		},
		"files that overflow": func(f *forged, g *Generation) {
			p := f.piece("p", []byte("evil"))
			p.Size = math.MaxInt64
			g.Files = append(g.Files, File{Path: "index/1.sst", Size: p.Size, Pieces: []Piece{p}},
				File{Path: "index/2.sst", Size: p.Size, Pieces: []Piece{p}})
		},
		"one piece a million times": func(f *forged, g *Generation) {
			p := f.piece("p", make([]byte, 1<<20))
			g.Files = append(g.Files, File{Path: "extra/settings", Size: 1 << 30,
				Pieces: slices.Repeat([]Piece{p}, 1<<10)})
		},
		"more than a disk": func(f *forged, g *Generation) {
			p := f.piece("p", []byte("evil"))
			if runtime.GOOS == "windows" {
				f.t.Skip("NTFS allocates the space that Truncate adds to a file")
			}
			if err := os.Truncate(f.at("backup/pieces/p"), 1<<43); err != nil {
				f.t.Fatal(err)
			}
			p.Size = 1 << 43
			g.Files = append(g.Files, File{Path: "index/1.sst", Size: p.Size, Pieces: []Piece{p}})
		},
		"piece that is cut": func(f *forged, g *Generation) {
			if err := os.Truncate(f.at("backup/pieces/"+g.Files[0].Pieces[0].Name), 1); err != nil {
				f.t.Fatal(err)
			}
		},
		"piece with another checksum": func(f *forged, g *Generation) {
			g.Files[0].Pieces[0].SHA256 = strings.Repeat("0", 64)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForged(t)
			f.change(func(g *Generation) { edit(f, g) })
			before := f.files("to")
			err := f.restore("to")
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("restored: %v", err)
			}
			t.Log(err)
			if after := f.files("to"); !slices.Equal(before, after) {
				t.Errorf("files: %q, and before %q", after, before)
			}
		})
	}
}

// TestRestoreExtra checks that only the requested extra files are restored.
func TestRestoreExtra(t *testing.T) {
	t.Parallel()
	f := newForged(t)
	f.change(func(g *Generation) {
		for _, name := range []string{"RESTORING", "LOCK", "STORE", "key.pem"} {
			g.Files = append(g.Files, File{Path: "extra/" + name, Size: 4,
				Pieces: []Piece{f.piece("p", []byte("evil"))}})
		}
	})
	if err := f.restore("to"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(f.at("to/settings")); string(text) != "settings" {
		t.Errorf("the settings: %q, %v", text, err)
	}
	for _, name := range []string{"RESTORING", "LOCK", "STORE", "key.pem"} {
		if text, _ := os.ReadFile(f.at("to/" + name)); string(text) == "evil" {
			t.Errorf("%s came out of the backup", name)
		}
	}
}

// TestManifestBomb reads manifests whose JSON would take many times its length in memory if it were decoded at once.
func TestManifestBomb(t *testing.T) { // not parallel: it measures what is allocated
	f := newForged(t)
	const size = 12 << 20
	for name, body := range map[string]string{
		"files": `{"number":1,"files":[` + strings.Repeat("{},", size/3) + `{}]}`,
		"pieces": `{"number":1,"files":[{"path":"index/1.sst","size":0,"pieces":[` +
			strings.Repeat("{},", size/3) + `{}]}]}`,
	} {
		f.sign([]byte(body))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, err := List(context.Background(), f.env, f.at("backup"))
		runtime.ReadMemStats(&after)
		if err != nil || len(list) != 1 || !errors.Is(list[0].Damage, ErrDamaged) {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*size {
			t.Errorf("%s: reading %d MB took %d MB", name, size>>20, took>>20)
		}
	}
	// A manifest above the maximum size is not read.
	if err := os.Truncate(f.manifest(), maxManifest+1); err != nil {
		t.Fatal(err)
	}
	if list, err := List(context.Background(), f.env, f.at("backup")); err != nil || len(list) != 1 ||
		!errors.Is(list[0].Damage, ErrDamaged) {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestRestoreForgedStore changes bytes of the store in a backup, and the checksums with them. The store is opened or
// refused; the program must not crash.
func TestRestoreForgedStore(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	f := newForged(t)
	original, err := os.ReadFile(f.manifest())
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := range 60 {
		f.change(func(g *Generation) {
			file := &g.Files[rng.IntN(len(g.Files))]
			if len(file.Pieces) == 0 {
				return
			}
			raw, err := os.ReadFile(f.at("backup/pieces/" + file.Pieces[0].Name))
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + rng.IntN(4) {
				raw[rng.IntN(len(raw))] ^= byte(1 + rng.IntN(255))
			}
			if rng.IntN(4) == 0 {
				raw = raw[:1+rng.IntN(len(raw))]
			}
			file.Pieces = []Piece{f.piece("forged", raw)}
			file.Size = int64(len(raw))
		})
		to := fmt.Sprint("to", n)
		if err := f.restore(to); err != nil {
			refused++
		}
		if err := errors.Join(os.RemoveAll(f.at(to)), os.WriteFile(f.manifest(), original, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 60 refused", refused)
	if refused == 0 {
		t.Error("nothing was refused")
	}
	if err := f.restore("whole"); err != nil {
		t.Errorf("the backup as it was taken: %v", err)
	}
}
