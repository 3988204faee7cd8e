// Package crypt encrypts the files of the store and of the full-text index on disk (encryption at rest): AES-256 in
// counter mode below the storage engine, a key for each file, wrapped by the server's key.
//
// Counter mode hides content and does not detect changes. The checksums of the engine's blocks and the digests of
// objects detect damage, as they do without encryption. Someone who can write to the disk can flip chosen bits and
// adjust a checksum that needs no key.
//
// A part of a file must not be written twice with different content, because both would be encrypted with the same key
// stream. The engine and the object store only append, and never to a file of an earlier process.
package crypt

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"doublet/env"
	"doublet/stat"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options are the options of an FS.
type Options struct {
	// Dir is the data folder. It holds the file MarkName.
	Dir string
	// Folders are the folders whose new files are encrypted, with the folders in them.
	Folders []string
	// Transient are folders in them that are removed soon. Rewrite passes them over.
	Transient []string
	// KeyFile is the path of the file with the server keys.
	KeyFile string
	// Rate is the number of bytes a second that Rewrite copies at most, 0 for no limit.
	Rate int64
	// Stats may be nil.
	Stats *stat.Tree
}

// FS is a file system in which the content of files is encrypted. Files that are not encrypted, such as those from
// before encryption was switched on, can be read, too.
type FS struct {
	vfs.FS
	env   *env.Env
	o     Options
	count counters

	// names is held for reading while a file is opened, created, removed or renamed, and for writing while Rewrite
	// replaces a file or the keys change.
	names sync.RWMutex
	keys  Keys // guarded by names

	// mu guards the following fields. It is locked after names.
	mu sync.Mutex
	// open has the files that are open, by path.
	open map[string]*node
	// copied is the path that Rewrite is copying; empty if its file was removed or replaced meanwhile.
	copied string

	mark mark
	// rewriting and rotating are held by the one Rewrite and the one Rotate that run.
	rewriting, rotating sync.Mutex
}

// node is a file with open handles.
type node struct {
	handles map[*file]struct{}
	writers int
}

// counters count bytes of content.
type counters struct {
	encrypted, decrypted, rewritten atomic.Uint64
	// left is the number of bytes that are not encrypted with the present key, as of the last pass of Rewrite.
	left atomic.Int64
}

// Open returns the file system e.FS with encryption by the keys of a key file. It fails with ErrNoKey if a file of the
// data folder needs a key that the key file does not have. It changes nothing on disk.
func Open(e *env.Env, o Options) (*FS, error) {
	_, keys, err := readKeyFile(e.FS, o.KeyFile)
	if err != nil {
		return nil, err
	}
	f := &FS{FS: e.FS, env: e, o: o, keys: keys, open: map[string]*node{}}
	if err := f.openMark(); err != nil {
		return nil, err
	}
	f.publish(o.Stats)
	return f, nil
}

func (f *FS) publish(t *stat.Tree) {
	if t == nil {
		return
	}
	counter := func(name, help string, n *atomic.Uint64) {
		t.CounterFunc("Database.Encryption."+name, help, func() float64 { return float64(n.Load()) })
	}
	counter("Encrypted.Bytes", "content that was encrypted and written, bytes", &f.count.encrypted)
	counter("Decrypted.Bytes", "content that was read and decrypted, bytes", &f.count.decrypted)
	counter("Rewritten.Bytes", "content of files that were rewritten with the present key, bytes", &f.count.rewritten)
	t.GaugeFunc("Database.Encryption.Left.Bytes",
		"content that is not encrypted with the present key, bytes; counted by the task Encryption",
		func() float64 { return float64(f.count.left.Load()) })
	t.GaugeFunc("Database.Encryption.Keys", "keys in the key file",
		func() float64 { return float64(len(f.present().list)) })
}

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// inside reports whether new files at a path are encrypted.
func (f *FS) inside(path string) bool {
	return slices.ContainsFunc(f.o.Folders, func(dir string) bool { return under(filepath.Clean(path), dir) })
}

func under(path, dir string) bool {
	return strings.HasPrefix(path, filepath.Clean(dir)+string(filepath.Separator))
}

// read reads the header of an open file.
func (f *FS) read(in vfs.File, path string) (s *stream, torn bool, err error) {
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, false, err
	}
	if s, torn, err = readHeader(in, info.Size(), &f.keys); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return s, torn && f.inside(path), err
}

// remember enters an open file. The caller holds names.
func (f *FS) remember(path string, h *file) *file {
	path = filepath.Clean(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.open[path]
	if n == nil {
		n = &node{handles: map[*file]struct{}{}}
		f.open[path] = n
	}
	h.fs, h.n = f, n
	n.handles[h] = struct{}{}
	if h.writing {
		n.writers++
		if f.copied == path {
			f.copied = "" // the copy may lack what is written now
		}
	}
	return h
}

// forget removes a file that is closed.
func (f *FS) forget(h *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := h.n.handles[h]; !there {
		return
	}
	delete(h.n.handles, h)
	if h.writing {
		h.n.writers--
	}
	if len(h.n.handles) > 0 {
		return
	}
	for path, n := range f.open {
		if n == h.n {
			delete(f.open, path)
		}
	}
}

// left records that a path no longer names the file that it named. The caller holds names.
func (f *FS) left(path string) *node {
	path = filepath.Clean(path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.copied == path || strings.HasPrefix(f.copied, path+string(filepath.Separator)) {
		f.copied = ""
	}
	n := f.open[path]
	delete(f.open, path)
	return n
}

// named records that a path names a file. n may be nil. The caller holds names.
func (f *FS) named(path string, n *node) {
	f.left(path)
	if n != nil {
		f.mu.Lock()
		f.open[filepath.Clean(path)] = n
		f.mu.Unlock()
	}
}

// Create implements vfs.FS. The header of the new file is durable when Create returns. So a damaged header is never
// mistaken for a file whose creation was interrupted.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	k, err := f.keyFor(name)
	if err != nil {
		return nil, err
	}
	in, err := f.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	f.left(name)
	h := &file{inner: in, writing: true, sequential: true}
	if k != nil {
		if h.s, err = f.begin(in.Write, in, k); err != nil {
			return nil, errors.Join(err, in.Close(), f.FS.Remove(name))
		}
	}
	return f.remember(name, h), nil
}

// keyFor returns the key of a new file at a path, or nil if it is not encrypted. The caller holds names.
func (f *FS) keyFor(path string) (*Key, error) {
	if !f.inside(path) {
		return nil, nil
	}
	return f.keys.active(), f.mark.add(f.env.FS, f.keys.activeName())
}

// begin writes the header of a new file with a new key, durably.
func (f *FS) begin(write func([]byte) (int, error), in vfs.File, k *Key) (*stream, error) {
	var key [fileKeySize]byte
	f.env.Fill(key[:])
	s, err := newStream(key[:], k.id)
	if err == nil {
		_, err = write(s.header(f.env, k))
	}
	if err == nil {
		err = in.Sync()
	}
	return s, err
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	in, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	s, torn, err := f.read(in, name)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return f.remember(name, &file{inner: in, s: s, torn: torn, how: opts}), nil
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	in, err := f.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	h := &file{inner: in, writing: true}
	var torn bool
	if h.s, torn, err = f.read(in, name); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if torn {
		err := errors.Join(in.Close(), f.FS.Remove(name))
		if err == nil {
			in, err = f.FS.OpenReadWrite(name, category, opts...)
		}
		if err != nil {
			return nil, err
		}
		f.left(name)
		h.inner = in
	}
	if err := f.beginEmpty(name, h); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return f.remember(name, h), nil
}

// beginEmpty writes a header into a file that was opened for writing and is empty.
func (f *FS) beginEmpty(name string, h *file) error {
	info, err := h.inner.Stat()
	if err != nil || info.Size() > 0 {
		return err
	}
	k, err := f.keyFor(name)
	if err != nil || k == nil {
		return err
	}
	h.s, err = f.begin(func(b []byte) (int, error) { return h.inner.WriteAt(b, 0) }, h.inner, k)
	return err
}

// ReuseForWrite implements vfs.FS. It makes a new file, because a file must not be written twice with its key.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(oldname); err != nil {
		return nil, err
	}
	return f.Create(newname, category)
}

// Link implements vfs.FS.
func (f *FS) Link(oldname, newname string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	if err := f.FS.Link(oldname, newname); err != nil {
		return err
	}
	f.mu.Lock()
	n := f.open[filepath.Clean(oldname)]
	f.mu.Unlock()
	f.named(newname, n)
	return nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	if err := f.FS.Rename(oldname, newname); err != nil {
		return err
	}
	f.named(newname, f.left(oldname))
	return nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	if err := f.FS.Remove(name); err != nil {
		return err
	}
	f.left(name)
	return nil
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	err := f.FS.RemoveAll(name)
	f.left(name)
	return err
}

// Stat implements vfs.FS. The size is that of the content.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	info, err := f.FS.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return info, err
	}
	in, err := f.FS.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return info, nil // a file of someone else, and not one of the store
	}
	if err != nil {
		return nil, err
	}
	s, torn, err := f.read(in, name)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if s != nil || torn {
		return contentInfo{info}, nil
	}
	return info, nil
}
