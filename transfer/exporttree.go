package transfer

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"strings"

	"doublet/env"
)

// exportTree is the destination of an export: a folder, or one archive file. Paths use slashes and are relative to the
// top of the export. Only one file is open at a time, apart from indexes.
type exportTree interface {
	// create creates a file and the folders above it.
	create(path string) (io.WriteCloser, error)
	// index creates a file that is written while other files are open. It is closed when no other file is open.
	index(path string) (io.WriteCloser, error)
	// mkdir creates a folder, which may stay empty.
	mkdir(path string) error
	// close ends the export. err is the error that interrupted it, or nil.
	close(err error) error
}

// isArchive reports whether a path names an archive file rather than a folder.
func isArchive(path string) bool {
	return len(path) > len(".zip") && strings.EqualFold(path[len(path)-len(".zip"):], ".zip")
}

// newExportTree begins an export at a path that must not exist or must be empty: a zip file if the name ends in .zip,
// otherwise a folder.
func (j *Job) newExportTree(path string) (exportTree, error) {
	files := j.env.FS
	if !isArchive(path) {
		return newFolderOut(files, path)
	}
	if _, err := files.Stat(path); err == nil {
		return nil, fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	if err := files.MkdirAll(files.PathDir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := files.Create(path+partSuffix, "doublet-export")
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	return &archiveOut{fs: files, path: path, file: f, out: out, zip: zip.NewWriter(out)}, nil
}

// under returns the file system path of a path in a tree.
func under(files env.FS, root, path string) string {
	return files.PathJoin(append([]string{root}, strings.Split(path, "/")...)...)
}

// below joins two paths of a tree. "" is the top, which is the Maildir of INBOX.
func below(path, rest string) string {
	if path == "" {
		return rest
	}
	return path + "/" + rest
}

// folderOut is an export to a folder.
type folderOut struct {
	fs   env.FS
	root string
}

func newFolderOut(files env.FS, path string) (exportTree, error) {
	switch info, err := files.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.IsDir(): // listing a pipe would block until it has a writer
		return nil, fmt.Errorf("%s is not a folder: %w", path, fs.ErrExist)
	default:
		names, err := files.List(path)
		if err != nil {
			return nil, err
		}
		if len(names) > 0 {
			return nil, fmt.Errorf("%s is not empty: %w", path, fs.ErrExist)
		}
	}
	return &folderOut{files, path}, files.MkdirAll(path, 0o700)
}

func (t *folderOut) create(path string) (io.WriteCloser, error) {
	path = under(t.fs, t.root, path)
	if err := t.fs.MkdirAll(t.fs.PathDir(path), 0o700); err != nil {
		return nil, err
	}
	return t.fs.Create(path, "doublet-export")
}

func (t *folderOut) index(path string) (io.WriteCloser, error) { return t.create(path) }
func (t *folderOut) mkdir(path string) error {
	return t.fs.MkdirAll(under(t.fs, t.root, path), 0o700)
}
func (t *folderOut) close(err error) error { return err }

// partSuffix is appended to the name of an incomplete file.
const partSuffix = ".part"

// archiveOut is an export to a zip file. The file gets its final name when it is complete.
type archiveOut struct {
	fs   env.FS
	path string
	file io.WriteCloser
	out  *bufio.Writer
	zip  *zip.Writer
}

// keptOpen is an entry of the archive. Its Close does nothing, because the next entry ends it.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

func (t *archiveOut) create(path string) (io.WriteCloser, error) {
	w, err := t.zip.Create(path)
	return keptOpen{w}, err
}

func (t *archiveOut) mkdir(path string) error {
	_, err := t.zip.Create(path + "/")
	return err
}

func (t *archiveOut) index(path string) (io.WriteCloser, error) {
	x := &packedIndex{t: t, path: path, sum: crc32.NewIEEE()}
	var err error
	x.pack, err = flate.NewWriter(&x.packed, flate.DefaultCompression)
	return x, err
}

// packedIndex is a file of the archive that is compressed in memory until it is closed.
type packedIndex struct {
	t      *archiveOut
	path   string
	packed bytes.Buffer
	pack   *flate.Writer
	sum    hash.Hash32
	size   uint64
}

func (x *packedIndex) Write(p []byte) (int, error) {
	x.sum.Write(p)
	x.size += uint64(len(p))
	return x.pack.Write(p)
}

func (x *packedIndex) Close() error {
	if err := x.pack.Close(); err != nil {
		return err
	}
	w, err := x.t.zip.CreateRaw(&zip.FileHeader{
		Name: x.path, Method: zip.Deflate, CRC32: x.sum.Sum32(), CompressedSize64: uint64(x.packed.Len()),
		UncompressedSize64: x.size,
	})
	if err != nil {
		return err
	}
	_, err = x.packed.WriteTo(w)
	return err
}

func (t *archiveOut) close(err error) error {
	part := t.path + partSuffix
	if err == nil {
		err = errors.Join(t.zip.Close(), t.out.Flush())
	}
	if err = errors.Join(err, t.file.Close()); err == nil {
		err = t.fs.Rename(part, t.path)
	}
	if err != nil {
		return errors.Join(err, t.fs.Remove(part))
	}
	return nil
}

// importTree is the source of an import: a folder, or one archive file.
type importTree interface {
	open(path string) (io.ReadCloser, error)
	close() error
}

// openExport opens the export at a path.
func (j *Job) openExport(path string) (importTree, error) {
	files := j.env.FS
	info, err := files.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		tree, err := env.OpenTree(files, path)
		if err != nil {
			return nil, err
		}
		return &folderIn{tree}, nil
	}
	f, size, err := env.OpenRegular(files, path)
	if err != nil {
		return nil, err
	}
	head := &directoryReader{ReaderAt: f, left: maxDirectory}
	z, err := zip.NewReader(head, size)
	head.left = math.MaxInt64
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s is neither a folder nor a zip file: %w", ErrInvalid, path, err),
			f.Close())
	}
	t := &archiveIn{file: f, entries: make(map[string]*zip.File, len(z.File))}
	for _, e := range z.File {
		t.entries[e.Name] = e
	}
	return t, nil
}

// maxDirectory is the maximum size of a zip file's directory, which is kept in memory. It is enough for about 1,000,000
// messages.
const maxDirectory = 128 << 20

// directoryReader limits the number of bytes read while the directory of a zip file is read.
type directoryReader struct {
	io.ReaderAt
	left int64
}

func (r *directoryReader) ReadAt(p []byte, from int64) (int, error) {
	if r.left -= int64(len(p)); r.left < 0 {
		return 0, fmt.Errorf("its directory exceeds %d bytes", maxDirectory)
	}
	return r.ReaderAt.ReadAt(p, from)
}

type folderIn struct{ *env.Tree }

func (t *folderIn) open(path string) (io.ReadCloser, error) { return t.Open(path) }
func (t *folderIn) close() error                            { return t.Close() }

type archiveIn struct {
	file    io.Closer
	entries map[string]*zip.File
}

func (t *archiveIn) open(path string) (io.ReadCloser, error) {
	e := t.entries[path]
	if e == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return e.Open()
}

func (t *archiveIn) close() error { return t.file.Close() }
