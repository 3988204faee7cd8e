package crypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	_, err = h.Write(content)
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

// model is the plain file system that an FS is compared with.
type model struct {
	t     *testing.T
	r     *rand.Rand
	e     *env.Fixture
	f     *FS
	plain vfs.FS
	open  map[string][2]vfs.File // files that are being written
	size  map[string]int64
}

func (m *model) both(what string, op func(f vfs.FS) error) {
	m.t.Helper()
	a, b := op(m.f), op(m.plain)
	if (a == nil) != (b == nil) || errors.Is(a, fs.ErrNotExist) != errors.Is(b, fs.ErrNotExist) {
		m.t.Fatalf("%s: encrypted %v, plain %v", what, a, b)
	}
}

func (m *model) name() string { return fmt.Sprintf("data/notes/%d", m.r.IntN(6)) }

func (m *model) bytes() []byte {
	b := make([]byte, m.r.IntN(300))
	if m.r.IntN(10) == 0 {
		b = make([]byte, m.r.IntN(3*chunkSize))
	}
	for i := range b {
		b[i] = byte(m.r.Uint32())
	}
	return b
}

// write makes or appends to a file by one of the ways of vfs.FS, and may leave it open.
func (m *model) write() {
	name := m.name()
	pair, there := m.open[name]
	if !there {
		how := m.r.IntN(3)
		from := m.name()
		if m.open[from] != [2]vfs.File{} {
			return
		}
		m.size[name] = 0
		for i, f := range []vfs.FS{m.f, m.plain} {
			var err error
			switch how {
			case 0:
				pair[i], err = f.Create(name, vfs.WriteCategoryUnspecified)
			case 1:
				_ = f.Remove(name)
				pair[i], err = f.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
			case 2:
				_ = f.Remove(name)
				put(m.t, f, from, []byte("recycled"))
				if pair[i], err = f.ReuseForWrite(from, name, vfs.WriteCategoryUnspecified); err == nil && i == 1 {
					// The plain one keeps its content, which nobody may count on.
					err = errors.Join(pair[i].Close(), f.Remove(name))
					pair[i], _ = f.Create(name, vfs.WriteCategoryUnspecified)
				}
			}
			if err != nil {
				m.t.Fatal(err)
			}
		}
		m.open[name] = pair
	}
	b := m.bytes()
	for _, h := range pair {
		var n int
		var err error
		if n, err = h.Write(slices.Clone(b)); n != len(b) || err != nil {
			m.t.Fatal(n, err)
		}
		if err := h.Sync(); err != nil {
			m.t.Fatal(err)
		}
	}
	m.size[name] += int64(len(b))
}

func (m *model) close(name string) {
	for _, h := range m.open[name] {
		if h != nil {
			if err := h.Close(); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	delete(m.open, name)
}

// compare reads a random part of a file, and all of it.
func (m *model) compare(name string) {
	m.t.Helper()
	var got [2][]byte
	m.both("read "+name, func(f vfs.FS) (err error) {
		i := 0
		if f == m.plain {
			i = 1
		}
		got[i], err = readAll(f, name)
		return err
	})
	if !bytes.Equal(got[0], got[1]) {
		m.t.Fatalf("%s: %d bytes differ from %d", name, len(got[0]), len(got[1]))
	}
	if len(got[0]) == 0 {
		return
	}
	h, err := m.f.Open(name)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	at := m.r.IntN(len(got[1]))
	part := make([]byte, m.r.IntN(len(got[1])-at)+1)
	if n, err := h.ReadAt(part, int64(at)); n != len(part) || err != nil && !errors.Is(err, io.EOF) ||
		!bytes.Equal(part, got[1][at:][:n]) {
		m.t.Fatalf("%s: ReadAt(%d, %d): %d %v", name, len(part), at, n, err)
	}
	if info, err := h.Stat(); err != nil || info.Size() != int64(len(got[1])) {
		m.t.Fatalf("%s: Stat: %v", name, err)
	}
	if info, err := m.f.Stat(name); err != nil || info.Size() != int64(len(got[1])) {
		m.t.Fatalf("%s: Stat of the path: %v", name, err)
	}
}

func (m *model) step() {
	name, other := m.name(), m.name()
	_, writing := m.open[name]
	_, writingOther := m.open[other]
	switch k := m.r.IntN(20); {
	case k < 9:
		m.write()
	case k < 11:
		m.close(name)
	case k < 12 && !writingOther && name != other:
		m.both("rename", func(f vfs.FS) error { return f.Rename(name, other) })
		if pair, ok := m.open[name]; ok {
			m.open[other] = pair
			delete(m.open, name)
		}
	case k < 13 && !writing && !writingOther && name != other:
		m.both("link", func(f vfs.FS) error { _ = f.Remove(other); return f.Link(name, other) })
	case k < 14 && !writing:
		m.both("remove", func(f vfs.FS) error { return f.Remove(name) })
	case k < 15:
		if _, err := m.f.Rotate(); err != nil {
			m.t.Fatal(err)
		}
	case k < 17:
		if _, err := m.f.Rewrite(context.Background(), nil); err != nil {
			m.t.Fatal(err)
		}
		m.settled()
	case k < 18:
		for name := range m.open {
			m.close(name)
		}
		m.f = newFS(m.t, m.e) // a restart
	default:
		m.compare(name)
	}
}

// settled requires that every file needs the present key alone, also those that are being written.
func (m *model) settled() {
	m.t.Helper()
	s, err := m.f.Status()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, u := range s.Uses {
		if u.Key != s.Active {
			m.t.Fatalf("%d files need %s, such as %s", u.Files, u.Key, u.Example)
		}
	}
}

// TestModel compares an FS with a plain file system, over random histories with new keys, rewriting and restarts.
func TestModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			e := env.Test(t)
			m := &model{t: t, r: rand.New(rand.NewPCG(seed, 0)), e: e, f: newFS(t, e), plain: vfs.NewMem(),
				open: map[string][2]vfs.File{}, size: map[string]int64{}}
			if err := m.plain.MkdirAll("data/notes", 0o700); err != nil {
				t.Fatal(err)
			}
			for range 300 {
				m.step()
			}
			for i := range 6 {
				m.compare(fmt.Sprintf("data/notes/%d", i))
			}
		})
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
				t.Errorf("%q %v", b, err)
			}
			if names, _ := e.FS.List("data/notes"); slices.Contains(names, "a"+CopySuffix) {
				t.Error("the copy is left")
			}
		})
	}
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
	must(t, Needless(e.FS, dataDir))
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	first := string(get(t, e.FS, keyFile))

	if err := Needless(e.FS, dataDir); !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), f.present().list[0].id.String()) {
		t.Errorf("without a key file: %v", err)
	}
	before := snapshot(t, e.FS)
	writeKeys(t, e, newKeyLine(t, e))
	other := get(t, e.FS, keyFile)
	_, err := Open(e.Env, options())
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), f.present().list[0].id.String()) ||
		!strings.Contains(err.Error(), "data/notes/a") {
		t.Errorf("with another key: %v", err)
	}
	before[keyFile] = string(other)
	if after := snapshot(t, e.FS); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("a refused start changed files")
	}

	writeKeys(t, e, first)
	f = newFS(t, e)
	id, err := f.Rotate()
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
	must(t, Needless(e.FS, dataDir))
	if got := get(t, e.FS, "data/notes/a"); string(got) != "content" {
		t.Errorf("decrypted: %q", got)
	}
	if _, err := f.Rotate(); err != nil {
		t.Fatal(err)
	}
	put(t, f, "data/notes/b", []byte("again"))
	if err := Needless(e.FS, dataDir); !errors.Is(err, ErrNoKey) {
		t.Errorf("encrypted again: %v", err)
	}
}

// snapshot returns the content of all files.
func snapshot(t *testing.T, f vfs.FS) map[string]string {
	t.Helper()
	out := map[string]string{keyFile: string(get(t, f, keyFile)), MarkName: string(get(t, f, path.Join(dataDir, MarkName)))}
	must(t, walk(f, []string{dataDir}, func(name string, _ int64) error {
		out[name] = string(get(t, f, name))
		return nil
	}))
	return out
}

// TestCrash lets writes, flushes or renames of a rotation with rewriting fail, and cuts the power. Afterwards every file is whole.
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

// TestDamagedHeader damages each sector of a header.
func TestDamagedHeader(t *testing.T) {
	e := env.Test(t)
	f := newFS(t, e)
	put(t, f, "data/notes/a", []byte("content"))
	whole := get(t, e.FS, "data/notes/a")
	damage := func(at ...int) []byte {
		b := slices.Clone(whole)
		for _, i := range at {
			b[i] ^= 0x40
		}
		return b
	}
	for _, at := range []int{0, versionAt, idAt, nonceAt, keyAt, copySize - 1, secondCopy, secondCopy + keyAt} {
		put(t, e.FS, "data/notes/a", damage(at))
		if got, err := readAll(f, "data/notes/a"); string(got) != "content" || err != nil {
			t.Errorf("byte %d: %q %v", at, got, err)
		}
	}
	put(t, e.FS, "data/notes/a", damage(keyAt, secondCopy+keyAt))
	if _, err := f.Open("data/notes/a"); !errors.Is(err, ErrHeader) || !strings.Contains(err.Error(), "data/notes/a") {
		t.Errorf("both copies: %v", err)
	}
	put(t, e.FS, "data/notes/a", damage(idAt, secondCopy))
	if _, err := f.Open("data/notes/a"); !errors.Is(err, ErrNoKey) {
		t.Errorf("another key: %v", err)
	}
	put(t, e.FS, "data/notes/a", damage(versionAt, secondCopy))
	if _, err := f.Open("data/notes/a"); !errors.Is(err, ErrHeader) {
		t.Errorf("another version: %v", err)
	}
	// The creation of a file was interrupted.
	for _, torn := range [][]byte{make([]byte, 100), make([]byte, HeaderSize), whole[:300], {}} {
		put(t, e.FS, "data/notes/a", torn)
		if got, err := readAll(f, "data/notes/a"); len(got) != 0 || err != nil {
			t.Errorf("torn after %d: %q %v", len(torn), got, err)
		}
		if info, err := f.Stat("data/notes/a"); err != nil || info.Size() != 0 {
			t.Errorf("torn after %d: Stat %v", len(torn), err)
		}
		h, err := f.OpenReadWrite("data/notes/a", vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = h.WriteAt([]byte("anew"), 0)
		must(t, errors.Join(err, h.Close()))
		if got := get(t, f, "data/notes/a"); string(got) != "anew" || bytes.Contains(get(t, e.FS, "data/notes/a"), got) {
			t.Errorf("torn after %d, written anew: %q", len(torn), got)
		}
	}
	// Someone's mail has the magic word where the second copy would be.
	mail := append(make([]byte, 0, 8192), bytes.Repeat([]byte("m"), secondCopy)...)
	mail = append(append(mail, magic...), bytes.Repeat([]byte("\x01"), 5000)...)
	put(t, e.FS, "data/notes/mail", mail)
	if !bytes.Equal(get(t, f, "data/notes/mail"), mail) {
		t.Error("a file with the magic word inside cannot be read")
	}
}

func TestParseKeys(t *testing.T) {
	good := "key " + strings.Repeat("ab", 32)
	for _, c := range []struct{ text, want string }{
		{good, ""},
		{"# made\n\nplain\n" + good + "\n", ""},
		{"", "no key"},
		{"plain\n", "no key"},
		{good + "\nplain\n", "line 2"},
		{good + "\n" + good, "line 2"},
		{"key abcd", "64 hexadecimal digits"},
		{"key " + strings.Repeat("zz", 32), "64 hexadecimal digits"},
		{strings.Repeat("ab", 32), "line 1"},
	} {
		_, err := ParseKeys([]byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
		if err != nil && strings.Contains(err.Error(), "abab") {
			t.Errorf("the error has a key: %v", err)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	keys, err := ParseKeys([]byte("key " + strings.Repeat("ab", 32)))
	if err != nil {
		f.Fatal(err)
	}
	s, err := newStream(make([]byte, fileKeySize), keys.list[0].id)
	if err != nil {
		f.Fatal(err)
	}
	whole := s.header(&env.Env{Rand: env.Seeded(1)}, keys.list[0])
	f.Add(whole)
	f.Add(whole[:100])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		head := b[:min(len(b), HeaderSize)]
		s, torn, err := parseHeader(head, int64(len(b)), &keys)
		if s != nil && (torn || err != nil) || torn && (err != nil || len(b) > HeaderSize) {
			t.Fatal(s, torn, err)
		}
		if s != nil && !bytes.Equal(s.key[:], make([]byte, fileKeySize)) {
			t.Fatal("a forged header was accepted")
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte("plain\nkey " + strings.Repeat("ab", 32)))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKeys(b)
		if (err == nil) != (len(k.list) > 0) {
			t.Fatal(k, err)
		}
	})
}
