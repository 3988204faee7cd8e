package crypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

const (
	dataDir = "data"
	keyFile = "keys"
)

// newFS returns an encrypted file system over a fixture, with a new key file if there is none.
func newFS(t *testing.T, e *env.Fixture) *FS {
	t.Helper()
	if _, err := e.FS.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
		writeKeys(t, e, newKeyLine(t, e))
	}
	f, err := Open(e.Env, options())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.MkdirAll("data/notes", 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

func options() Options {
	return Options{Dir: dataDir, Folders: []string{"data/notes", "data/objects/"}, KeyFile: keyFile}
}

func newKeyLine(t *testing.T, e *env.Fixture) string {
	t.Helper()
	line, err := NewKey(e.Env)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func writeKeys(t *testing.T, e *env.Fixture, text string) {
	t.Helper()
	if err := writeFile(e.FS, keyFile, []byte(text)); err != nil {
		t.Fatal(err)
	}
	dir, err := e.FS.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, f vfs.FS, name string, content []byte) {
	t.Helper()
	h, err := f.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Write(slices.Clone(content)) // Write may modify what it gets
	if err := errors.Join(err, h.Sync(), h.Close()); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, f vfs.FS, name string) []byte {
	t.Helper()
	b, err := readAll(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readAll(f vfs.FS, name string) ([]byte, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(h)
	return b, errors.Join(err, h.Close())
}

func TestContentIsHidden(t *testing.T) {
	e := env.Test(t)
	f := newFS(t, e)
	text := bytes.Repeat([]byte("attack at dawn. "), 20_000)
	put(t, f, "data/notes/a", text)
	put(t, f, "data/notes/b", text)
	put(t, f, "data/outside", text)
	if got := get(t, f, "data/notes/a"); !bytes.Equal(got, text) {
		t.Error("content differs")
	}
	a, b := get(t, e.FS, "data/notes/a"), get(t, e.FS, "data/notes/b")
	if bytes.Contains(a, []byte("attack")) || len(a) != len(text)+HeaderSize {
		t.Errorf("content is not hidden, or has %d bytes", len(a))
	}
	if bytes.Equal(a[HeaderSize:], b[HeaderSize:]) || bytes.Equal(a[HeaderSize:][:16], a[HeaderSize+16:][:16]) {
		t.Error("equal content is equal on disk")
	}
	if !bytes.Equal(get(t, e.FS, "data/outside"), text) {
		t.Error("a file outside the folders is encrypted")
	}
	// Old files can be read, and the caller's bytes are not modified.
	put(t, e.FS, "data/notes/old", text)
	if !bytes.Equal(get(t, f, "data/notes/old"), text) {
		t.Error("a file that is not encrypted cannot be read")
	}
	for name, want := range map[string]int64{"data/notes/a": int64(len(text)), "data/notes/old": int64(len(text))} {
		if info, err := f.Stat(name); err != nil || info.Size() != want {
			t.Errorf("Stat(%s): %v %v", name, info.Size(), err)
		}
	}
}

// TestOpenHandleOutlivesRewrite reads through handles that were open before their file was rewritten, removed or
// renamed.
func TestOpenHandleOutlivesRewrite(t *testing.T) {
	e := env.Test(t)
	put(t, e.FS, mustDir(t, e, "data/notes")+"/plain", []byte("from before"))
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	var open []vfs.File
	for _, name := range []string{"a", "a", "plain"} {
		h, err := f.Open("data/notes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, h)
	}
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	p, err := f.Rewrite(context.Background(), nil)
	if err != nil || p.Files != 2 || p.Bytes != int64(len("contentfrom before")) || p.Left != 0 {
		t.Fatalf("%+v %v", p, err)
	}
	if err := f.Remove("data/notes/a"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"content", "content", "from before"} {
		b, err := io.ReadAll(open[i])
		if string(b) != want || err != nil {
			t.Errorf("handle %d: %q %v", i, b, err)
		}
		if err := open[i].Close(); err != nil {
			t.Error(err)
		}
	}
	if len(f.open) != 0 {
		t.Errorf("%d files are taken for open", len(f.open))
	}
	if p, err := f.Rewrite(context.Background(), nil); err != nil || p.Files != 0 {
		t.Errorf("a second pass: %+v %v", p, err)
	}
}

func mustDir(t *testing.T, e *env.Fixture, dir string) string {
	t.Helper()
	if err := e.FS.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRewriteMeetsRemoval removes, replaces and reopens a file while it is copied. The copy must not bring it back.
func TestRewriteMeetsRemoval(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *FS)
		want string
	}{
		{"removed", func(t *testing.T, f *FS) { must(t, f.Remove("data/notes/a")) }, ""},
		{"folder removed", func(t *testing.T, f *FS) { must(t, f.RemoveAll("data/notes")) }, ""},
		{"renamed away", func(t *testing.T, f *FS) { must(t, f.Rename("data/notes/a", "data/notes/b")) }, ""},
		{"created", func(t *testing.T, f *FS) { put(t, f, "data/notes/a", []byte("new")) }, "new"},
		{"renamed over", func(t *testing.T, f *FS) {
			put(t, f, "data/notes/0", []byte("other"))
			must(t, f.Rename("data/notes/0", "data/notes/a"))
		}, "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := env.Test(t)
			f := newFS(t, e)
			put(t, f, "data/notes/a", bytes.Repeat([]byte("x"), 3*chunkSize))
			if _, err := f.Rotate(); err != nil {
				t.Fatal(err)
			}
			once := false
			_, err := f.Rewrite(context.Background(), func(int64) {
				if !once {
					once = true
					c.do(t, f)
				}
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			b, err := readAll(f, "data/notes/a")
			if string(b) != c.want || (c.want == "") != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%.100q %v", b, err)
			}
			if names, _ := e.FS.List("data/notes"); slices.Contains(names, copyOf("a")) {
				t.Error("the copy is left")
			}
		})
	}
}

// syncing is a file system that calls before when a copy is synced.
type syncing struct {
	vfs.FS
	before func()
}

func (s *syncing) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	if err != nil || !strings.HasSuffix(name, CopySuffix) {
		return f, err
	}
	return &syncedCopy{f, s}, nil
}

type syncedCopy struct {
	vfs.File
	fs *syncing
}

func (f *syncedCopy) SyncData() error {
	f.fs.before()
	return f.File.SyncData()
}

// TestRewriteMeetsAppend appends to a file when its copy is complete. The copy must not replace it.
func TestRewriteMeetsAppend(t *testing.T) {
	e := env.Test(t)
	w := &syncing{FS: e.FS, before: func() {}}
	e.FS = w
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	copied := false
	w.before = func() {
		if !copied {
			return
		}
		copied = false
		h, err := f.OpenReadWrite("data/notes/a", vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = h.WriteAt([]byte("more"), 7)
		must(t, errors.Join(err, h.Close()))
	}
	_, err := f.Rewrite(context.Background(), func(int64) { copied = true })
	must(t, err)
	if b := get(t, f, "data/notes/a"); string(b) != "contentmore" {
		t.Errorf("%q", b)
	}
}

// TestRewriteLeavesRoom checks that no copy is made on a device that is nearly full, where the engine needs the room.
func TestRewriteLeavesRoom(t *testing.T) {
	e := env.Test(t)
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	e.Faults.SetSpace(leastRoom)
	if p, err := f.Rewrite(context.Background(), nil); !env.IsNoSpace(err) || p.Files != 0 {
		t.Errorf("%+v %v, want no space", p, err)
	}
	e.Faults.SetSpace(2 * leastRoom)
	if p, err := f.Rewrite(context.Background(), nil); err != nil || p.Files != 1 {
		t.Errorf("%+v %v", p, err)
	}
	if b := get(t, f, "data/notes/a"); string(b) != "content" {
		t.Errorf("%q", b)
	}
}

// TestCopyOfMarker is interrupted before the copy of a marker of the engine replaces it. The engine reads every name
// that begins like that of a marker, so the copy must have another one.
func TestCopyOfMarker(t *testing.T) {
	e := env.Test(t)
	f := newFS(t, e)
	m, _, err := atomicfs.LocateMarker(f, "data/notes", "manifest")
	must(t, err)
	must(t, errors.Join(m.Move("MANIFEST-000001"), m.Close()))
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	e.Faults.FailFrom(env.OpRename, 1, nil)
	if _, err := f.Rewrite(context.Background(), nil); !errors.Is(err, env.ErrInjected) {
		t.Fatal(err)
	}
	e.Faults.Heal()
	names, err := e.FS.List("data/notes")
	must(t, err)
	copies := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, CopySuffix) })
	if len(copies) != 1 || strings.HasPrefix(copies[0], "marker.") {
		t.Errorf("the copies %q", copies)
	}
	if p, err := f.Rewrite(context.Background(), nil); err != nil || p.Files != 1 {
		t.Errorf("%+v %v", p, err)
	}
	if v, err := atomicfs.ReadMarker(f, "data/notes", "manifest"); v != "MANIFEST-000001" || err != nil {
		t.Errorf("%q %v", v, err)
	}
}

// TestRewriteGoesOn rewrites the files behind one that cannot be read.
func TestRewriteGoesOn(t *testing.T) {
	e := env.Test(t)
	f := newFS(t, e)
	for _, name := range []string{"a", "b", "c"} {
		put(t, f, "data/notes/"+name, bytes.Repeat([]byte(name), 9000))
	}
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	e.Faults.FailFiles(env.OpRead, func(name string) bool { return strings.HasSuffix(name, "/b") }, nil)
	p, err := f.Rewrite(context.Background(), nil)
	if !errors.Is(err, env.ErrInjected) || p.Files != 2 || p.Left != 1 {
		t.Errorf("%+v %v", p, err)
	}
	e.Faults.Heal()
	if p, err := f.Rewrite(context.Background(), nil); err != nil || p.Files != 1 {
		t.Errorf("%+v %v", p, err)
	}
	(&model{t: t, f: f}).settled()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeys covers what a start finds: missing, wrong and removed keys, and decryption.
func TestKeys(t *testing.T) {
	e := env.Test(t)
	must(t, CheckPlain(e.FS, dataDir))
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	first := string(get(t, e.FS, keyFile))

	id := f.present().list[0].id
	if err := CheckPlain(e.FS, dataDir); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("without a key file: %v", err)
	}
	before := snapshot(t, e.FS)
	writeKeys(t, e, newKeyLine(t, e))
	other := get(t, e.FS, keyFile)
	_, err := Open(e.Env, options())
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), id.String()) ||
		!strings.Contains(err.Error(), "data/notes/a") {
		t.Errorf("with another key: %v", err)
	}
	before[keyFile] = string(other)
	if after := snapshot(t, e.FS); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("a refused start changed files")
	}

	writeKeys(t, e, first)
	f = newFS(t, e)
	id, err = f.Rotate()
	must(t, err)
	rotated := string(get(t, e.FS, keyFile))
	keys := f.present()
	if !strings.HasSuffix(rotated, first) || keys.activeName() != id.String() {
		t.Fatal("rotate lost the first key or does not use the new one")
	}
	newest := strings.TrimSuffix(rotated, first)
	writeKeys(t, e, newest)
	if _, err := Open(e.Env, options()); !errors.Is(err, ErrNoKey) {
		t.Errorf("a needed key was removed: %v", err)
	}
	writeKeys(t, e, rotated)
	f = newFS(t, e)
	if _, err := f.Rewrite(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	writeKeys(t, e, newest)
	f = newFS(t, e)
	if got := get(t, f, "data/notes/a"); string(got) != "content" {
		t.Errorf("%q", got)
	}

	// The mark is lost: the files themselves say which keys they need.
	must(t, e.FS.Remove("data/"+MarkName))
	writeKeys(t, e, first)
	if _, err := Open(e.Env, options()); !errors.Is(err, ErrNoKey) {
		t.Errorf("without the mark: %v", err)
	}

	writeKeys(t, e, "plain\n"+newest)
	f = newFS(t, e)
	if p, err := f.Rewrite(context.Background(), nil); err != nil || p.Files != 1 {
		t.Fatalf("decrypt: %+v %v", p, err)
	}
	must(t, CheckPlain(e.FS, dataDir))
	if got := get(t, e.FS, "data/notes/a"); string(got) != "content" {
		t.Errorf("decrypted: %q", got)
	}
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	put(t, f, "data/notes/b", []byte("again"))
	if err := CheckPlain(e.FS, dataDir); !errors.Is(err, ErrNoKey) {
		t.Errorf("encrypted again: %v", err)
	}
}

// snapshot returns the content of all files.
func snapshot(t *testing.T, f vfs.FS) map[string]string {
	t.Helper()
	out := map[string]string{keyFile: string(get(t, f, keyFile)),
		MarkName: string(get(t, f, path.Join(dataDir, MarkName)))}
	must(t, walk(f, []string{dataDir}, func(name string, _ int64) error {
		out[name] = string(get(t, f, name))
		return nil
	}))
	return out
}

// TestCrash lets writes, flushes or renames of a rotation with rewriting fail, and cuts the power. Afterwards every
// file is whole.
func TestCrash(t *testing.T) {
	for n := range 60 {
		op := []env.Op{env.OpCreate, env.OpWrite, env.OpSync, env.OpRename}[n%4]
		after := n/4 + 1
		e := env.Test(t)
		put(t, e.FS, mustDir(t, e, "data/notes")+"/plain", bytes.Repeat([]byte("p"), 5000))
		f := newFS(t, e)
		put(t, f, "data/notes/a", bytes.Repeat([]byte("a"), 9000))
		w, err := f.Create("data/notes/w", vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = w.Write([]byte("being written"))
		must(t, errors.Join(err, w.Sync()))
		for _, dir := range []string{"data/notes", "data", ""} {
			must(t, syncDir(e.FS, dir))
		}
		e.Faults.FailFrom(op, after, nil)
		_, _ = f.Rotate()
		_, _ = f.Rewrite(context.Background(), nil)
		e = e.Crash(n*37%101, uint64(n))
		f, err = Open(e.Env, options())
		if err != nil {
			t.Fatalf("%s %d: %v", op, after, err)
		}
		for name, want := range map[string]string{"plain": strings.Repeat("p", 5000), "a": strings.Repeat("a", 9000),
			"w": "being written"} {
			if got, err := readAll(f, "data/notes/"+name); string(got) != want || err != nil {
				t.Fatalf("%s %d: %s has %d bytes, %v", op, after, name, len(got), err)
			}
		}
		if _, err := f.Rewrite(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		(&model{t: t, f: f}).settled()
	}
}

// BenchmarkXor measures the encryption of a block of the engine, and of a chunk of an object.
func BenchmarkXor(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, chunkSize} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, err := newStream(make([]byte, fileKeySize), ID{})
			if err != nil {
				b.Fatal(err)
			}
			from, to := make([]byte, size), make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				s.xor(to, from, 5)
			}
		})
	}
}
