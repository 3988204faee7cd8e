package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// folder is a Place in a folder.
type folder struct {
	fs  env.FS
	dir string
	// writes is the number of calls of Write.
	writes atomic.Int64
}

// Folder returns the blobs in a folder. A name is a path below it.
func Folder(files env.FS, dir string) Place { return &folder{fs: files, dir: dir} }

const (
	// tmp ends the names of files that Put has begun, which List does not show.
	tmp = ".tmp"
	// tmpPrefix begins the names of files that Write has begun.
	tmpPrefix = "tmp-"
	// lockName is the file that Lock locks.
	lockName = "LOCK"
	// chunk is the number of bytes written at a time. A file is flushed after as many bytes, because a single flush of
	// everything at the end would delay the flushes of other files.
	chunk = 256 << 10
)

func (f *folder) path(name string) string {
	return f.fs.PathJoin(append([]string{f.dir}, strings.Split(name, "/")...)...)
}

// Put implements Store.
func (f *folder) Put(ctx context.Context, name string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := f.path(name)
	dir := f.fs.PathDir(path)
	if err := f.folder(dir); err != nil {
		return err
	}
	err := write(f.fs, path+tmp, content)
	if err == nil {
		err = f.fs.Rename(path+tmp, path)
	}
	if err == nil {
		err = syncDir(f.fs, dir)
	}
	if err != nil {
		return fmt.Errorf("blob: write %s: %w", path, err)
	}
	return nil
}

// Write implements Place.
func (f *folder) Write(ctx context.Context, dir string, from Source, size int64, name func() string) error {
	at := f.path(dir)
	if err := f.folder(at); err != nil {
		return err
	}
	begun := f.fs.PathJoin(at, tmpPrefix+strconv.FormatInt(f.writes.Add(1), 10))
	file, err := f.fs.Create(begun, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("blob: write %s: %w", begun, err)
	}
	to := vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: chunk})
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, min(size+1, chunk)))
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = f.fs.Rename(begun, f.fs.PathJoin(at, name()))
	}
	if err != nil {
		return fmt.Errorf("blob: write %s: %w", begun, err)
	}
	return nil
}

// Sync implements Place.
func (f *folder) Sync(_ context.Context, dir string) error {
	if err := syncDir(f.fs, f.path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("blob: flush %s: %w", f.path(dir), err)
	}
	return nil
}

// Lock implements Place.
func (f *folder) Lock(context.Context) (io.Closer, error) {
	if err := f.fs.MkdirAll(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("blob: make %s: %w", f.dir, err)
	}
	c, err := f.fs.Lock(f.fs.PathJoin(f.dir, lockName))
	if err != nil {
		return nil, err
	}
	if up := f.fs.PathDir(f.dir); up != "" {
		err = syncDir(f.fs, up)
	}
	if err = errors.Join(err, syncDir(f.fs, f.dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("blob: make %s: %w", f.dir, err), c.Close())
	}
	return c, nil
}

// Usage implements Place.
func (f *folder) Usage() (vfs.DiskUsage, error) { return f.fs.GetDiskUsage(f.dir) }

// folder makes a folder below the place if it does not exist.
func (f *folder) folder(dir string) error {
	if _, err := f.fs.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := f.mkdir(dir); err != nil {
		return fmt.Errorf("blob: make %s: %w", dir, err)
	}
	return nil
}

// mkdir makes a folder below dir durably. It does not make dir: a device that is not mounted must not be taken for an
// empty folder.
func (f *folder) mkdir(dir string) error {
	if dir == f.dir {
		return fs.ErrNotExist
	}
	up := f.fs.PathDir(dir)
	if _, err := f.fs.Stat(up); errors.Is(err, fs.ErrNotExist) {
		if err := f.mkdir(up); err != nil {
			return err
		}
	}
	return errors.Join(f.fs.MkdirAll(dir, 0o700), syncDir(f.fs, up))
}

func write(files env.FS, path string, content []byte) error {
	to, err := files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = to.Write(bytes.Clone(content)) // a file may change what it is given; the caller may try again with it
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

func syncDir(files env.FS, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Get implements Store.
func (f *folder) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, size, err := env.OpenRegular(f.fs, f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("blob: read %s: %w", name, err)
	}
	defer file.Close()
	if size > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes, of which at most %d are read", ErrTooLarge, name, size, limit)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(file, b); err != nil {
		return nil, fmt.Errorf("blob: read %s: %w", name, err)
	}
	return b, nil
}

// file is an open file of a folder.
type file struct {
	env.File
	size int64
}

// Size implements Reader.
func (f *file) Size() int64 { return f.size }

// Open implements Place.
func (f *folder) Open(_ context.Context, name string) (Reader, error) {
	open, size, err := env.OpenRegular(f.fs, f.path(name), vfs.RandomReadsOption)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	if err != nil {
		return nil, fmt.Errorf("blob: read %s: %w", name, err)
	}
	return &file{open, size}, nil
}

// List implements Store.
func (f *folder) List(ctx context.Context, prefix string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := f.fs.Stat(f.dir); err != nil {
		return nil, fmt.Errorf("blob: list %s: %w", f.dir, err) // not an empty store: it is away
	}
	dir, start := path.Split(prefix)
	out, err := f.list(dir, start)
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// list lists the blobs below dir, which is empty or ends with a slash, in files and folders whose names begin with
// start.
func (f *folder) list(dir, start string) (out []Info, err error) {
	names, err := f.fs.List(f.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("blob: list %s: %w", f.path(dir), err)
	}
	for _, base := range names {
		if !strings.HasPrefix(base, start) || strings.HasSuffix(base, tmp) {
			continue
		}
		info, err := f.fs.Stat(f.path(dir + base))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return out, fmt.Errorf("blob: list %s: %w", f.path(dir), err)
		case info.IsDir():
			more, err := f.list(dir+base+"/", "")
			if out = append(out, more...); err != nil {
				return out, err
			}
		default:
			out = append(out, Info{dir + base, info.Size()})
		}
	}
	return out, nil
}

// Remove implements Store.
func (f *folder) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.fs.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("blob: remove %s: %w", name, err)
		}
	}
	return nil
}
