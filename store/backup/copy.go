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
	"doublet/store/blob"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileKind is the way in which a file of the store changes.
type fileKind int

const (
	// once is a small file that differs each time, so every backup copies it.
	once fileKind = iota
	// immutable is a file that never changes under its name.
	immutable
	// growing is a file that is only appended to.
	growing
)

// chunk is the number of bytes read and written at a time. Small ones let the flushes of deliveries pass between them.
const chunk = 128 << 10

// pieceKey returns the start of a piece's name, which identifies the original: the file's name and, because numbers
// repeat after a restore, a part that distinguishes files with the same number. For a segment that is its header, which
// holds random bytes. Tables with the same keys and lengths may differ only in values, which do not affect their ends.
// The store's incarnation distinguishes these, so the first backup after a restore copies all tables. The lineage
// distinguishes copies from before the data folder returned to an older state.
func pieceKey(f io.ReaderAt, name string, size int64, kind fileKind, incarnation uint64,
	lineage string) (string, error) {
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

// maxYield bounds the time for which a backup waits after one chunk.
const maxYield = time.Second

// copier copies bytes, limits the rate, and reports progress.
type copier struct {
	ctx   context.Context
	env   *env.Env
	rate  int64
	stage string
	total uint64
	tell  func(Progress)
	// alive returns an error if the copying must end. It is nil if nothing else can end the copying.
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

// pass counts n bytes whose copying began at a time, and waits until more may be read. Without a rate, a backup waits
// as long as the copying of these bytes took. So other users of the same devices and processors have half of the time,
// and more if they slow the copying down.
func (c *copier) pass(n int, file string, began time.Time) error {
	c.mu.Lock()
	c.done += uint64(n)
	now := c.env.Clock.Now()
	var wait time.Duration
	if c.rate > 0 {
		if c.due.Before(now) {
			c.due = now // unused allowance is not made up for
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

// again lowers the progress by n bytes, which are copied again.
func (c *copier) again(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done -= uint64(n)
}

// part is a part of a file, as the source of a blob.
type part struct {
	c          *copier
	f          io.ReaderAt
	from, size int64
	name       string
	done       int64
	began      time.Time
}

// Read implements blob.Source.
func (p *part) Read(b []byte) (int, error) {
	if p.done == 0 {
		p.began = p.c.env.Clock.Now()
	}
	if b = b[:min(int64(len(b)), p.size-p.done, chunk)]; len(b) == 0 {
		return 0, io.EOF
	}
	n, err := p.f.ReadAt(b, p.from+p.done)
	if n < len(b) {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("it ends before offset %d", p.from+p.done+int64(len(b)))
		}
		return 0, err
	}
	p.done += int64(n)
	err = p.c.pass(n, p.name, p.began)
	p.began = p.c.env.Clock.Now()
	return n, err
}

// Reset implements blob.Source.
func (p *part) Reset() error {
	p.c.again(p.done)
	p.done = 0
	return nil
}

// digest is a source that computes the SHA-256 of what is read.
type digest struct {
	blob.Source
	h hash.Hash
}

func newDigest(from blob.Source) *digest { return &digest{from, sha256.New()} }

// Read implements blob.Source.
func (d *digest) Read(b []byte) (int, error) {
	n, err := d.Source.Read(b)
	_, _ = d.h.Write(b[:n])
	return n, err
}

// Reset implements blob.Source.
func (d *digest) Reset() error {
	d.h.Reset()
	return d.Source.Reset()
}

// stream copies n bytes of f into to, and returns their SHA-256. If to is nil, it only reads them.
func (c *copier) stream(f io.ReaderAt, n int64, to io.Writer, name string) ([]byte, error) {
	buf := c.files.Get().(*[]byte)
	defer c.files.Put(buf)
	from := newDigest(&part{c: c, f: f, size: n, name: name})
	if to == nil {
		to = io.Discard
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, *buf)
	return from.h.Sum(nil), err
}

// verify copies a piece into to, which may be nil. It returns ErrDamaged if the piece does not match its checksum.
func (c *copier) verify(r *repository, p Piece, to io.Writer) error {
	f, err := r.openPiece(c.ctx, &p)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := c.stream(f, p.Size, to, p.Name)
	if errors.Is(err, blob.ErrForged) {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, p.Name, err)
	}
	if err != nil {
		return fmt.Errorf("backup: %s: %w", p.Name, err)
	}
	if hex.EncodeToString(sum) != p.SHA256 {
		return fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, p.Name)
	}
	return nil
}

// readBack compares the blob of a piece with the SHA-256 of what was written.
func (c *copier) readBack(r *repository, p Piece, sent []byte) error {
	f, err := r.openStored(c.ctx, &p)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := c.stream(f, p.stored(), nil, p.Name)
	if err != nil {
		return fmt.Errorf("backup: %s: %w", p.Name, err)
	}
	if !bytes.Equal(sum, sent) {
		return fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, p.Name)
	}
	return nil
}

// create creates a file that is synced while it is written. A single flush of everything at the end would delay the
// flushes of other files.
func create(fs env.FS, path string) (env.File, error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: chunk}), nil
}

func writeFile(fs env.FS, path string, b []byte) error {
	f, err := create(fs, path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
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
