package env

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SlowSync wraps fs so that every flush to the device takes at least d longer, as on a disk without a power-protected
// cache.
func SlowSync(fs FS, clock Clock, d time.Duration) FS {
	return &slowFS{FS: fs, clock: clock, d: d}
}

type slowFS struct {
	FS
	clock Clock
	d     time.Duration
}

func (s *slowFS) wrap(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &slowFile{File: f, fs: s}, nil
}

func (s *slowFS) Create(name string, c vfs.DiskWriteCategory) (File, error) {
	return s.wrap(s.FS.Create(name, c))
}

func (s *slowFS) ReuseForWrite(old, new string, c vfs.DiskWriteCategory) (File, error) {
	return s.wrap(s.FS.ReuseForWrite(old, new, c))
}

func (s *slowFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (File, error) {
	return s.wrap(s.FS.OpenReadWrite(name, c, o...))
}

func (s *slowFS) OpenDir(name string) (File, error) { return s.wrap(s.FS.OpenDir(name)) }

func (s *slowFS) Unwrap() FS { return s.FS }

type slowFile struct {
	File
	fs *slowFS
}

func (f *slowFile) Sync() error {
	f.fs.clock.Sleep(f.fs.d)
	return f.File.Sync()
}

func (f *slowFile) SyncData() error {
	f.fs.clock.Sleep(f.fs.d)
	return f.File.SyncData()
}
