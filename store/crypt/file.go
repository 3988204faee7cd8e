package crypt

import (
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is an open file. Its content is encrypted, unless s is nil.
type file struct {
	fs *FS
	n  *node
	// writing means that the file was opened for writing. Such a file is not replaced by a rewritten one.
	writing bool
	// sequential means that it was created, so that Write alone is allowed.
	sequential bool
	how        []vfs.OpenOption

	// mu guards the following fields of a file opened for reading, whose inner file Rewrite replaces.
	mu    sync.RWMutex
	inner vfs.File
	s     *stream
	// torn means that the file ends within its header, and has no content.
	torn   bool
	closed bool

	// readAt and writeAt are the positions of Read and Write, which are not called concurrently.
	readAt, writeAt int64
}

// base returns the offset of the content.
func (f *file) base() int64 {
	if f.s == nil && !f.torn {
		return 0
	}
	return HeaderSize
}

// chunkSize is the size in bytes of the pieces that are encrypted and written at a time.
const chunkSize = 128 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Close implements vfs.File.
func (f *file) Close() error {
	f.fs.forget(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.inner.Close()
}

// Read implements vfs.File.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.readAt)
	f.readAt += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fs.ErrInvalid
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.inner.ReadAt(p, at+f.base())
	if f.s != nil && n > 0 {
		f.s.xor(p[:n], p[:n], at)
		f.fs.count.decrypted.Add(uint64(n))
	}
	return n, err
}

// Write implements vfs.File. It does not modify p.
func (f *file) Write(p []byte) (n int, err error) {
	if !f.sequential {
		n, err = f.WriteAt(p, f.writeAt)
	} else {
		n, err = f.put(p, f.writeAt, func(b []byte, _ int64) (int, error) { return f.inner.Write(b) })
	}
	f.writeAt += int64(n)
	return n, err
}

// WriteAt implements vfs.File. A caller must not write different content at a place that has content: that would
// encrypt both with the same part of the key stream.
func (f *file) WriteAt(p []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fs.ErrInvalid
	}
	return f.put(p, at, func(b []byte, at int64) (int, error) { return f.inner.WriteAt(b, at+f.base()) })
}

// put encrypts p piece by piece and passes each to write with its offset.
func (f *file) put(p []byte, at int64, write func(b []byte, at int64) (int, error)) (n int, err error) {
	if f.s == nil {
		return write(p, at)
	}
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	for n < len(p) && err == nil {
		b := chunk[:min(len(p)-n, chunkSize)]
		f.s.xor(b, p[n:][:len(b)], at+int64(n))
		var done int
		done, err = write(b, at+int64(n))
		n += done
	}
	f.fs.count.encrypted.Add(uint64(n))
	return n, err
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(offset, length int64) error {
	return f.inner.Preallocate(offset+f.base(), length)
}

// Stat implements vfs.File. The size is that of the content.
func (f *file) Stat() (vfs.FileInfo, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	info, err := f.inner.Stat()
	if err != nil || f.base() == 0 {
		return info, err
	}
	return contentInfo{info}, nil
}

// Sync implements vfs.File.
func (f *file) Sync() error { return f.inner.Sync() }

// SyncTo implements vfs.File.
func (f *file) SyncTo(length int64) (bool, error) { return f.inner.SyncTo(length + f.base()) }

// SyncData implements vfs.File.
func (f *file) SyncData() error { return f.inner.SyncData() }

// Prefetch implements vfs.File.
func (f *file) Prefetch(offset, length int64) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.inner.Prefetch(offset+f.base(), length)
}

// Fd implements vfs.File.
func (f *file) Fd() uintptr {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.inner.Fd()
}

// contentInfo is the information on an encrypted file, with the size of its content.
type contentInfo struct{ vfs.FileInfo }

// Size implements vfs.FileInfo.
func (i contentInfo) Size() int64 { return max(0, i.FileInfo.Size()-HeaderSize) }
