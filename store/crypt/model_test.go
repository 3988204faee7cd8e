package crypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
