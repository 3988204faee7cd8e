package env

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotRegular means that a path does not name a regular file. A device or a pipe may never end, and a link may lead
// anywhere.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a regular file that may have been put there by someone else, and returns its size in bytes. It
// follows a symbolic link to a regular file.
func OpenRegular(files FS, path string, how ...vfs.OpenOption) (File, int64, error) {
	// Opening a pipe blocks until it has a writer, so check the kind first.
	info, err := files.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	f, err := files.Open(path, how...)
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Tree reads a folder that was filled by someone else. It reads nothing outside the folder and follows no symbolic
// link, not even one that is created while the folder is read.
type Tree struct {
	files FS
	dir   string
	root  *os.Root // nil if files is not the disk
}

// OpenTree opens the folder dir, which may itself be a symbolic link.
func OpenTree(files FS, dir string) (*Tree, error) {
	t := &Tree{files: files, dir: dir}
	if vfs.Root(files) != vfs.Default {
		return t, nil
	}
	info, err := files.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	// A pipe may replace the folder after the check above. The separator makes opening it fail instead of block.
	t.root, err = os.OpenRoot(dir + string(filepath.Separator))
	return t, err
}

// Close closes the folder.
func (t *Tree) Close() error {
	if t.root == nil {
		return nil
	}
	return t.root.Close()
}

// Open opens the regular file at a path within the folder.
func (t *Tree) Open(path string) (io.ReadCloser, error) {
	if !filepath.IsLocal(path) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	if t.root == nil {
		f, _, err := OpenRegular(t.files, t.files.PathJoin(t.dir, path))
		return f, err
	}
	if info, err := t.reach(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	// The owner of the folder may replace the file after the check above. O_NONBLOCK keeps the opening of a pipe from
	// blocking.
	f, err := t.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reach returns information on the file at a path. It fails if the file, or a folder on the way to it, is a symbolic
// link.
func (t *Tree) reach(path string) (info fs.FileInfo, err error) {
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if info, err = t.root.Lstat(path[:i]); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%w: %s is a symbolic link, which is not followed", ErrNotRegular, path[:i])
		}
	}
	return info, nil
}

// Stat returns information on the file at a path within the folder. For a symbolic link it describes the link itself.
// "." is the folder.
func (t *Tree) Stat(path string) (fs.FileInfo, error) {
	if !filepath.IsLocal(path) {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrInvalid}
	}
	if t.root == nil {
		return t.files.Stat(t.files.PathJoin(t.dir, path))
	}
	return t.root.Lstat(path)
}

// List returns the names in a folder within the folder. It fails with ENOTDIR if the path names something else.
func (t *Tree) List(path string) ([]string, error) {
	if !filepath.IsLocal(path) {
		return nil, &fs.PathError{Op: "list", Path: path, Err: fs.ErrInvalid}
	}
	if t.root == nil {
		return t.files.List(t.files.PathJoin(t.dir, path))
	}
	if info, err := t.reach(path); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &fs.PathError{Op: "list", Path: path, Err: syscall.ENOTDIR}
	}
	// The owner of the folder may replace it with a pipe after the check above.
	d, err := t.root.OpenFile(path, openFolder, 0)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}
