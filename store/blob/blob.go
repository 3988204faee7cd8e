// Package blob stores named files that are written whole: in a folder, or in a bucket of an S3-compatible store. It
// encrypts them with the key of the administrator.
package blob

import (
	"context"
	"errors"
	"io"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors that callers test for.
var (
	// ErrNotFound means that there is no blob of a name.
	ErrNotFound = errors.New("blob: not found")
	// ErrTooLarge means that a blob has more bytes than the caller reads.
	ErrTooLarge = errors.New("blob: too large")
	// ErrDamaged means that a blob differs from what was written, each time that it was read.
	ErrDamaged = errors.New("blob: content does not match its checksum")
	// ErrAway means that an S3-compatible store did not answer as it should. The same call may succeed later.
	ErrAway = errors.New("blob: the store is away")
)

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
	// Get reads a blob. It returns ErrTooLarge if the blob has more than limit bytes. A folder has no checksums, so
	// that it never returns ErrDamaged.
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	// List lists the blobs whose names begin with prefix, in ascending order of their names.
	List(ctx context.Context, prefix string) ([]Info, error)
	// Remove removes blobs, in any order. It is no error if one does not exist. After an error, some may be removed.
	Remove(ctx context.Context, names ...string) error
}

// Place is a Store that also holds blobs of any size, and that one process at a time changes.
type Place interface {
	Store
	// Write writes a blob into dir. It reads size bytes, from the start and perhaps twice, and then calls name for the
	// last part of the name, which may depend on what was read. The blob is whole, but its name is durable only after
	// Sync. After an error or a crash, dir may hold another blob, with a part of the content.
	Write(ctx context.Context, dir string, from Source, size int64, name func() string) error
	// Sync makes the names of the blobs durable that were written into dir or removed from it.
	Sync(ctx context.Context, dir string) error
	// Open opens a blob for reading. Reads end with ctx.
	Open(ctx context.Context, name string) (Reader, error)
	// Lock makes the place if it is a folder that does not exist, and locks it against other changes: a folder against
	// those of all processes, a bucket against those of this process.
	Lock(ctx context.Context) (io.Closer, error)
	// Usage returns the usage of the device. The error is vfs.ErrUnsupported if it is unknown.
	Usage() (vfs.DiskUsage, error)
}

// Source is content that can be read again.
type Source interface {
	io.Reader
	// Reset returns to the start.
	Reset() error
}

// Reader is an open blob. Several goroutines may call ReadAt.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size returns the size of the blob in bytes.
	Size() int64
}

// Open returns the place that text names: an S3 URL (see IsS3), or a folder, which need not exist.
func Open(e *env.Env, text string) (Place, error) {
	if IsS3(text) {
		return openS3(e, text)
	}
	return Folder(e.FS, text), nil
}
