package backup

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/blob"
	"doublet/store/check"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// everything returns the contents of a store's databases: messages and flags by UNID.
func everything(t *testing.T, s *store.Store, dbs []note.DatabaseID) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, id := range dbs {
		err := s.Read(context.Background(), note.System, id, func(r *store.Reader) error {
			var bad error
			err := r.Notes(0, func(nid note.ID, n *layout.Note) bool {
				var b bytes.Buffer
				if n.Recipe != 0 {
					var m *store.Stored
					if m, bad = r.Message(n); bad == nil {
						_, bad = m.WriteTo(&b)
					}
				}
				for _, it := range n.State {
					b.WriteString(it.Key)
				}
				out[n.UNID.String()] = b.String()
				return bad == nil
			})
			return errors.Join(err, bad)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestOpen checks that the store of a generation can be read directly, whatever pieces the generations share and
// however the store has changed since. It also checks that this does not change the backup, and that a damaged piece is
// found.
func TestOpen(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	rng := rand.New(rand.NewPCG(5, 5))
	work := func(n int) {
		for range n {
			m.step(rng)
		}
	}
	var want []map[string]string
	for range 3 {
		work(150)
		if _, err := Take(context.Background(), m.f.Env, m.s, "backup", Options{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, everything(t, m.s, m.dbs))
	}
	work(150)
	before := files(t, m.f.FS, "backup")
	for i := range want {
		o := storeOptions()
		s, g, err := Open(context.Background(), m.f.Env, "backup", blob.Keys{}, uint64(i+1), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := everything(t, s, m.dbs); g.Number != uint64(i+1) || !maps.Equal(got, want[i]) {
			t.Errorf("generation %d: %d notes, want %d", g.Number, len(got), len(want[i]))
		}
		rep, err := check.Run(context.Background(), s, check.Options{Deep: true})
		if err != nil || len(rep.Findings) > 0 {
			t.Errorf("%v, %v", err, rep.Findings)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := files(t, m.f.FS, "backup"); !maps.Equal(before, after) {
		t.Error("the backup has changed")
	}
	_, _, err := Open(context.Background(), m.f.Env, "backup", blob.Keys{}, 9, storeOptions())
	if !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	// A piece is too short, or missing.
	name := ""
	for n := range before {
		if strings.Contains(n, ".sst-") {
			name = n
		}
	}
	if err := m.f.FS.Remove(name); err != nil {
		t.Fatal(err)
	}
	found := false
	for i := range want {
		s, _, err := Open(context.Background(), m.f.Env, "backup", blob.Keys{}, uint64(i+1), storeOptions())
		if err != nil {
			found = true
			continue
		}
		rep, err := check.Run(context.Background(), s, check.Options{Deep: true})
		found = found || err != nil || len(rep.Findings) > 0
		_ = s.Close()
	}
	if !found {
		t.Errorf("nobody misses %s", name)
	}
}

// files returns the files of a folder, with their bytes.
func files(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		path := fs.PathJoin(dir, n)
		info, err := fs.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			maps.Copy(out, files(t, fs, path))
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, info.Size())
		if len(b) > 0 {
			if _, err := f.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		out[path] = string(b)
		_ = f.Close()
	}
	return out
}
