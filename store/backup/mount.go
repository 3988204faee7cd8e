package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/blob"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Open opens the store of a generation (0: the latest) directly, without copying it. It reads the files from the pieces
// when they are needed. What the store itself writes when it opens is kept in memory and discarded. The checksums of
// pieces are not verified; those of tables, blobs and segments are, as in any store. o provides the indexes and the
// size of the cache. Reads of a bucket end with ctx.
//
// The backup folder must not change until the store is closed. Prune of this generation would remove its files.
func Open(ctx context.Context, e *env.Env, dir string, keys blob.Keys, at uint64,
	o store.Options) (*store.Store, Generation, error) {
	r, err := openRepository(ctx, e, dir, keys, false)
	if err != nil {
		return nil, Generation{}, err
	}
	g, err := r.at(at)
	if err != nil {
		return nil, g, err
	}
	s, err := r.open(ctx, &g, o)
	return s, g, err
}

// open opens the store of a generation.
func (r *repository) open(ctx context.Context, g *Generation, o store.Options) (*store.Store, error) {
	const data = "data"
	m, err := r.mount(ctx, g, vfs.NewMem(), data)
	if err != nil {
		return nil, err
	}
	inside := *r.env
	inside.FS = m
	if o.KeyFiles == nil {
		o.KeyFiles = r.env.FS
	}
	s, err := store.Open(&inside, data, mountedOptions(o))
	if err != nil {
		return nil, fmt.Errorf("backup: open generation %d: %w", g.Number, err)
	}
	return s, nil
}

// mountedOptions returns the options of a store in a mounted file system.
func mountedOptions(o store.Options) store.Options {
	o.LogDir, o.IndexDir, o.SegmentsDir, o.FloorBytes, o.FloorPercent, o.Ballast, o.Still = "", "", "", -1, -1, -1, true
	o.KeepLog, o.Tier = 0, nil
	return o
}

// mount returns a file system that has the files of a generation in the data folder data, and everything else in files.
func (r *repository) mount(ctx context.Context, g *Generation, files vfs.FS, data string) (*mounted, error) {
	m := &mounted{FS: files, r: r, ctx: ctx, files: map[string]File{}}
	places := store.PlacesOf(m, data, store.Options{})
	for _, d := range []string{places.Index, places.Segments} {
		if err := m.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("backup: open: %w", err)
		}
	}
	for _, f := range g.Files {
		switch kind, name, _ := strings.Cut(f.Path, "/"); kind {
		case folderIndex:
			m.files[m.PathJoin(places.Index, name)] = f
		case folderSegments:
			m.files[m.PathJoin(places.Segments, name)] = f
		}
	}
	return m, nil
}

// mounted is a file system, in memory or on disk, that also contains the files of a generation, which can be read and
// removed.
type mounted struct {
	vfs.FS
	r   *repository
	ctx context.Context

	mu    sync.Mutex
	files map[string]File
}

// maxOpened bounds the size of a generation's file that is opened for writing, because it is copied into memory.
const maxOpened = 16 << 20

func (m *mounted) file(name string) (File, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[name]
	return f, ok
}

// set changes a file of the generation.
func (m *mounted) set(name string, f File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = f
}

// drop removes a file of the generation, and reports whether there was one.
func (m *mounted) drop(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.files[name]
	delete(m.files, name)
	return ok
}

// Unwrap implements FS. It returns nil, because the file system below does not contain the files of the generation.
func (m *mounted) Unwrap() vfs.FS { return nil }

// GetDiskUsage implements FS. Memory has no known limit.
func (m *mounted) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// Create implements FS.
func (m *mounted) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	m.drop(name)
	return m.FS.Create(name, c)
}

// Open implements FS.
func (m *mounted) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, ok := m.file(name)
	if !ok {
		return m.FS.Open(name, opts...)
	}
	out := &pieced{info: pieceInfo{name: m.PathBase(name), size: f.Size}}
	for _, p := range f.Pieces {
		part, err := m.piece(&p)
		if err != nil {
			return nil, errors.Join(err, out.Close())
		}
		out.parts = append(out.parts, part)
		out.ends = append(out.ends, out.end()+p.Size)
	}
	if out.end() != f.Size {
		return nil, errors.Join(fmt.Errorf("%w: the pieces of %s are not all of it", ErrDamaged, f.Path), out.Close())
	}
	for _, o := range opts {
		o.Apply(out)
	}
	return out, nil
}

// piece opens a piece, which may be in a folder of this machine.
func (m *mounted) piece(p *Piece) (blob.Reader, error) {
	if p.dir == "" {
		return m.r.openPiece(m.ctx, p)
	}
	return blob.Folder(m.r.env.FS, p.dir).Open(m.ctx, p.Name)
}

// OpenReadWrite implements FS. It first copies a file of the generation into memory.
func (m *mounted) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, ok := m.file(name)
	if !ok {
		return m.FS.OpenReadWrite(name, c, opts...)
	}
	if f.Size > maxOpened {
		return nil, fmt.Errorf("backup: %s is opened for writing: %w", f.Path, fs.ErrPermission)
	}
	from, err := m.Open(name)
	if err != nil {
		return nil, err
	}
	to, err := m.FS.Create(name, c)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	if err = errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	m.drop(name)
	return m.FS.OpenReadWrite(name, c, opts...)
}

// Remove implements FS.
func (m *mounted) Remove(name string) error {
	if m.drop(name) {
		return nil
	}
	return m.FS.Remove(name)
}

// Rename implements FS.
func (m *mounted) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.files[from]; ok {
		delete(m.files, from)
		m.files[to] = f
		return nil
	}
	delete(m.files, to)
	return m.FS.Rename(from, to)
}

// Link implements FS.
func (m *mounted) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.files[from]; ok {
		m.files[to] = f
		return nil
	}
	return m.FS.Link(from, to)
}

// List implements FS.
func (m *mounted) List(dir string) ([]string, error) {
	names, err := m.FS.List(dir)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.files {
		if m.PathDir(path) == m.PathJoin(dir) && !slices.Contains(names, m.PathBase(path)) {
			names = append(names, m.PathBase(path))
		}
	}
	return names, nil
}

// Stat implements FS.
func (m *mounted) Stat(name string) (vfs.FileInfo, error) {
	f, ok := m.file(name)
	if !ok {
		return m.FS.Stat(name)
	}
	return pieceInfo{name: m.PathBase(name), size: f.Size}, nil
}

// pieced is an open file of a generation: its pieces in sequence.
type pieced struct {
	parts []blob.Reader
	ends  []int64
	info  pieceInfo
	pos   int64
}

// pieceInfo describes a file of a generation.
type pieceInfo struct {
	name string
	size int64
}

func (i pieceInfo) Name() string           { return i.name }
func (i pieceInfo) Size() int64            { return i.size }
func (i pieceInfo) Mode() fs.FileMode      { return 0o600 }
func (i pieceInfo) ModTime() time.Time     { return time.Time{} }
func (i pieceInfo) IsDir() bool            { return false }
func (i pieceInfo) Sys() any               { return nil }
func (i pieceInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

func (f *pieced) end() int64 {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

func (f *pieced) ReadAt(p []byte, off int64) (n int, err error) {
	for i, end := range f.ends {
		if off >= end || len(p) == 0 {
			continue
		}
		begin := int64(0)
		if i > 0 {
			begin = f.ends[i-1]
		}
		k := int(min(int64(len(p)), end-off))
		got, err := f.parts[i].ReadAt(p[:k], off-begin)
		n += got
		if got < k {
			return n, errors.Join(err, io.ErrUnexpectedEOF)
		}
		off, p = off+int64(got), p[got:]
	}
	if len(p) > 0 {
		return n, io.EOF
	}
	return n, nil
}

func (f *pieced) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *pieced) Close() error {
	var err error
	for _, p := range f.parts {
		err = errors.Join(err, p.Close())
	}
	return err
}

func (f *pieced) Stat() (vfs.FileInfo, error)        { return f.info, nil }
func (f *pieced) Write([]byte) (int, error)          { return 0, fs.ErrPermission }
func (f *pieced) WriteAt([]byte, int64) (int, error) { return 0, fs.ErrPermission }
func (f *pieced) Preallocate(int64, int64) error     { return fs.ErrPermission }
func (f *pieced) Sync() error                        { return nil }
func (f *pieced) SyncTo(int64) (bool, error)         { return true, nil }
func (f *pieced) SyncData() error                    { return nil }
func (f *pieced) Prefetch(int64, int64) error        { return nil }
func (f *pieced) Fd() uintptr                        { return vfs.InvalidFd }
