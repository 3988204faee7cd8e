package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileKind says how a file of the store changes.
type fileKind int

const (
	// once is a file that is copied with every backup: small, and another one each time.
	once fileKind = iota
	// immutable is one that never changes under its name.
	immutable
	// growing is one to which only is appended.
	growing
)

// chunk is how much is read and written at a time.
const chunk = 1 << 20

// pieceKey names what a piece is a copy of: the file's name and, since numbers come again after a
// restore, what tells files of one number apart. A segment's header holds random bytes. Tables of the
// same keys and lengths may differ in values alone, of which their ends say nothing: they are told apart
// by the store's incarnation too, so the first backup after a restore copies all tables. The lineage tells apart what was
// copied before the data folder was put back to an older state.
func pieceKey(f env.File, name string, size int64, kind fileKind, incarnation uint64, lineage string) (string, error) {
	from, n := int64(0), min(size, 64)
	if kind == immutable {
		n = min(size, 8<<10)
		from = size - n
	}
	if kind == once {
		return name, nil
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, from); err != nil && !(errors.Is(err, io.EOF)) {
		return "", err
	}
	if kind == immutable {
		b = binary.BigEndian.AppendUint64(b, incarnation)
	}
	b = append(b, lineage...)
	sum := sha256.Sum256(b)
	return name + "-" + hex.EncodeToString(sum[:8]), nil
}

// maxYield bounds how long one chunk makes a backup wait.
const maxYield = time.Second

// copier moves bytes, not faster than it may, and tells how far it is.
type copier struct {
	ctx   context.Context
	env   *env.Env
	rate  int64
	stage string
	total uint64
	tell  func(Progress)
	// alive says why the copying must end, if so; nil where nothing else can end it.
	alive func() error

	mu    sync.Mutex
	done  uint64
	due   time.Time
	files sync.Pool
}

func newCopier(ctx context.Context, e *env.Env, rate int64, stage string, total uint64, tell func(Progress)) *copier {
	return &copier{
		ctx: ctx, env: e, rate: rate, stage: stage, total: total, tell: tell, due: e.Clock.Now(),
		files: sync.Pool{New: func() any { b := make([]byte, chunk); return &b }},
	}
}

// pass counts n bytes whose copying began at a time, and waits until more may be read. Without a rate it
// waits as long as they took, where others wait for the same devices and processors: these have half of
// the time, and more the slower all of it gets.
func (c *copier) pass(n int, file string, began time.Time) error {
	c.mu.Lock()
	c.done += uint64(n)
	now := c.env.Clock.Now()
	var wait time.Duration
	if c.rate > 0 {
		if c.due.Before(now) {
			c.due = now // what was not used is not made up for
		}
		c.due = c.due.Add(time.Duration(float64(n) / float64(c.rate) * float64(time.Second)))
		wait = c.due.Sub(now)
	} else if c.alive != nil {
		wait = min(now.Sub(began), maxYield)
	}
	if c.tell != nil {
		c.tell(Progress{Stage: c.stage, Done: c.done, Total: c.total, File: file})
	}
	c.mu.Unlock()
	if c.alive != nil {
		if err := c.alive(); err != nil {
			return err
		}
	}
	if wait <= 0 {
		return c.ctx.Err()
	}
	select {
	case <-c.env.Clock.After(wait):
		return c.ctx.Err()
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// stream copies n bytes of f from an offset into to (nowhere, where it is nil) and returns their sum.
func (c *copier) stream(f io.ReaderAt, from, n int64, to io.Writer, name string) ([]byte, error) {
	buf := c.files.Get().(*[]byte)
	defer c.files.Put(buf)
	h := sha256.New()
	for n > 0 {
		began := c.env.Clock.Now()
		b := (*buf)[:min(n, chunk)]
		if _, err := f.ReadAt(b, from); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("it ends before offset %d", from+int64(len(b)))
			}
			return nil, err
		}
		if err := put(h, to, b); err != nil {
			return nil, err
		}
		from, n = from+int64(len(b)), n-int64(len(b))
		if err := c.pass(len(b), name, began); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}

func put(h hash.Hash, to io.Writer, b []byte) error {
	_, _ = h.Write(b)
	if to == nil {
		return nil
	}
	_, err := to.Write(b)
	return err
}

// verify copies a piece into to, and fails with ErrDamaged unless it is what was written.
func (c *copier) verify(dir string, p Piece, to io.Writer) error {
	path := c.env.FS.PathJoin(dir, p.Name)
	f, err := openPiece(c.env.FS, path, &p)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := c.stream(f, 0, p.Size, to, p.Name)
	if err != nil {
		return fmt.Errorf("backup: %s: %w", path, err)
	}
	want, err := hex.DecodeString(p.SHA256)
	if err != nil || !bytes.Equal(sum, want) {
		return fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, path)
	}
	return nil
}

// create makes a file whose bytes go to the device as they come: one flush of all of it at the end
// would keep the flushes of others waiting.
func create(fs env.FS, path string) (env.File, error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: chunk}), nil
}

func syncDir(fs env.FS, dir string) error {
	if dir == "" {
		return nil
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
