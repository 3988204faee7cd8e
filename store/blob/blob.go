// Package blob stores named files that are written whole, in a folder.
package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotFound means that there is no blob of a name.
var ErrNotFound = errors.New("blob: not found")

// Info describes a blob.
type Info struct {
	Name string
	Size int64
}

// Store is a set of named blobs. Names consist of parts separated by slashes. An error other than ErrNotFound may pass:
// the store may be away, slow or full.
type Store interface {
	// Put writes a blob, durably and as a whole: after an error it has its old content, its new content, or does not
	// exist if it did not before.
	Put(ctx context.Context, name string, content []byte) error
	// Get reads a blob. It refuses to read more than limit bytes.
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	// List lists the blobs whose names begin with dir and a slash, in ascending order of their names.
	List(ctx context.Context, dir string) ([]Info, error)
	// Remove removes a blob. It is no error if there is none.
	Remove(ctx context.Context, name string) error
}

// folder is a Store in a folder.
type folder struct {
	fs  env.FS
	dir string
}

// Folder returns the blobs in a folder. A name is a path below it.
func Folder(files env.FS, dir string) Store { return &folder{files, dir} }

const tmp = ".tmp"

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
	if _, err := f.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := f.mkdir(dir); err != nil {
			return fmt.Errorf("blob: make %s: %w", dir, err)
		}
	}
	err := write(f.fs, path+tmp, content)
	if err == nil {
		err = f.fs.Rename(path+tmp, path)
	}
	if err == nil {
		err = sync(f.fs, dir)
	}
	if err != nil {
		return fmt.Errorf("blob: write %s: %w", path, err)
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
	return errors.Join(f.fs.MkdirAll(dir, 0o700), sync(f.fs, up))
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

func sync(files env.FS, dir string) error {
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
		return nil, fmt.Errorf("blob: %s has %d bytes, of which at most %d are read", name, size, limit)
	}
	var b bytes.Buffer
	b.Grow(int(size))
	if _, err := io.Copy(&b, file); err != nil {
		return nil, fmt.Errorf("blob: read %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// List implements Store.
func (f *folder) List(ctx context.Context, dir string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := f.fs.Stat(f.dir); err != nil {
		return nil, fmt.Errorf("blob: list %s: %w", f.dir, err) // not an empty store: it is away
	}
	out, err := f.list(dir)
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

func (f *folder) list(dir string) (out []Info, err error) {
	names, err := f.fs.List(f.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("blob: list %s: %w", dir, err)
	}
	for _, base := range names {
		name := dir + "/" + base
		info, err := f.fs.Stat(f.path(name))
		switch {
		case errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(name, tmp):
		case err != nil:
			return out, fmt.Errorf("blob: list %s: %w", dir, err)
		case info.IsDir():
			more, err := f.list(name)
			if out = append(out, more...); err != nil {
				return out, err
			}
		default:
			out = append(out, Info{name, info.Size()})
		}
	}
	return out, nil
}

// Remove implements Store.
func (f *folder) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.fs.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("blob: remove %s: %w", name, err)
	}
	return nil
}
