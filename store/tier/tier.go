// Package tier copies sealed object segments to another place, such as a bucket of an S3-compatible store, and reads
// them there.
//
// A copy is encrypted with a key of the store, whether or not its files are encrypted on disk. The encryption is
// authenticated: a reader gets what was written, or an error.
package tier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"
)

const (
	// patience is the time that one read of a copy may take. After it the read fails with object.ErrAway.
	patience = 30 * time.Second
	// pause is the time after a failed read in which reads fail at once, so that readers do not queue for a place that
	// stalls.
	pause = 5 * time.Second
	// stalled is the time without progress after which the writing or checking of a copy ends. A bucket reads a part of
	// 16 MB at once and then sends it, which counts as no progress: a slow line needs minutes for it. A connection that
	// does not move fails much earlier (blob).
	stalled = 30 * time.Minute
	// fetches bounds the copies that are read at a time.
	fetches = 8
	// chunk is the number of bytes read at a time.
	chunk = 1 << 20
)

// ErrDifferent means that a copy differs from what was written.
var ErrDifferent = errors.New("tier: copy differs from its segment")

// Tier is a place with copies of segments. Its methods are safe for concurrent use.
type Tier struct {
	env   *env.Env
	place blob.Place
	keys  blob.Keys
	rate  int64
	slots chan struct{}
	// closed ends all reads.
	closed context.Context
	close  context.CancelFunc
	// away is the time in Unix nanoseconds until which reads fail at once.
	away atomic.Int64

	count counters
}

type counters struct{ fetches, fetchedBytes, failed, shipped, shippedBytes, recalled atomic.Uint64 }

// New returns a place whose copies are encrypted with keys. Writing and checking of copies reads at most rate bytes a
// second; 0 is no limit.
func New(e *env.Env, place blob.Place, keys blob.Keys, rate int64) *Tier {
	t := &Tier{env: e, place: place, keys: keys, rate: rate, slots: make(chan struct{}, fetches)}
	t.closed, t.close = context.WithCancel(context.Background())
	return t
}

// Close ends all reads. Later ones fail with object.ErrAway.
func (t *Tier) Close() { t.close() }

// Stats returns the counters.
func (t *Tier) Stats() object.CopyStats {
	c := &t.count
	return object.CopyStats{Fetches: c.fetches.Load(), FetchedBytes: c.fetchedBytes.Load(), Failed: c.failed.Load(),
		Shipped: c.shipped.Load(), ShippedBytes: c.shippedBytes.Load(), Recalled: c.recalled.Load()}
}

// Ship writes a copy of a segment of size bytes under a name, reads it back, and returns its row. The copy is durable.
func (t *Tier) Ship(ctx context.Context, name string, from io.ReaderAt, size int64) (c layout.Copy, err error) {
	c = layout.Copy{Name: name, Size: size, Stored: t.keys.SealedSize(size)}
	if _, err := from.ReadAt(c.Head[:], 0); err != nil {
		return c, fmt.Errorf("tier: read the segment: %w", err)
	}
	w := t.watch(ctx)
	defer w.end()
	plain := &source{w: w, r: io.NewSectionReader(from, 0, size)}
	to := &hashed{Source: t.keys.SealSource(plain), h: sha256.New()}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	err = t.place.Write(w.ctx, dir, to, c.Stored, func() string { return base })
	if err == nil {
		err = t.place.Sync(w.ctx, dir)
	}
	if err != nil {
		return c, fmt.Errorf("tier: write %s: %w", name, err)
	}
	to.h.Sum(c.Sum[:0])
	if err := t.readBack(w, &c); err != nil {
		return c, err
	}
	t.count.shipped.Add(1)
	t.count.shippedBytes.Add(uint64(c.Stored))
	return c, nil
}

// readBack compares a copy with the checksum of what was written.
func (t *Tier) readBack(w *watch, c *layout.Copy) error {
	r, err := t.stored(w.ctx, c)
	if err != nil {
		return fmt.Errorf("tier: read back %s: %w", c.Name, err)
	}
	h := sha256.New()
	_, err = io.CopyBuffer(h, &source{w: w, r: io.NewSectionReader(r, 0, c.Stored)}, make([]byte, chunk))
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("tier: read back %s: %w", c.Name, err)
	}
	if !bytes.Equal(h.Sum(nil), c.Sum[:]) {
		return fmt.Errorf("%w: %s does not match its checksum", ErrDifferent, c.Name)
	}
	return nil
}

// stored opens a copy as it is stored, and checks its length.
func (t *Tier) stored(ctx context.Context, c *layout.Copy) (blob.Reader, error) {
	r, err := t.place.Open(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	if n := r.Size(); n != c.Stored {
		return nil, errors.Join(fmt.Errorf("%w: %s has %d bytes of %d", ErrDifferent, c.Name, n, c.Stored), r.Close())
	}
	return r, nil
}

// open opens a copy as the segment. It authenticates its start and its end.
func (t *Tier) open(ctx context.Context, c *layout.Copy) (blob.Reader, error) {
	stored, err := t.stored(ctx, c)
	if err != nil {
		return nil, err
	}
	s := &sealed{Reader: stored}
	r, err := t.keys.UnsealReader(s)
	if err != nil {
		return nil, s.cause(err)
	}
	if n := r.Size(); n != c.Size {
		return nil, errors.Join(fmt.Errorf("%w: %s has %d bytes of %d", ErrDifferent, c.Name, n, c.Size), r.Close())
	}
	return &unsealed{r, s}, nil
}

// sealed is a copy as it is stored. It remembers why a read failed, because the decryption does not always return the
// cause.
type sealed struct {
	blob.Reader
	mu  sync.Mutex
	err error
}

// ReadAt implements blob.Reader.
func (s *sealed) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Reader.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

// cause returns the error of a failed read, if there was one, and else err.
func (s *sealed) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return err
}

// unsealed is a copy as the segment. It is not used any more after an error.
type unsealed struct {
	blob.Reader
	stored *sealed
}

// ReadAt implements blob.Reader.
func (u *unsealed) ReadAt(p []byte, off int64) (int, error) {
	n, err := u.Reader.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.stored.cause(err)
	}
	return n, err
}

// Check reports an error unless a copy is there, as long as it was, with the start of its segment. The error is
// object.ErrLost if the place does not have the copy as it was written.
func (t *Tier) Check(ctx context.Context, c *layout.Copy) error {
	err := t.compare(ctx, c)
	switch {
	case err == nil:
		return nil
	case different(err) || errors.Is(err, blob.ErrNotFound):
		return fmt.Errorf("tier: check %s: %w: %w", c.Name, object.ErrLost, err)
	}
	return fmt.Errorf("tier: check %s: %w", c.Name, err)
}

// compare opens a copy and compares the start of its segment.
func (t *Tier) compare(ctx context.Context, c *layout.Copy) error {
	w := t.watch(ctx)
	defer w.end()
	r, err := t.open(w.ctx, c)
	if err != nil {
		return err
	}
	var head [layout.HeadSize]byte
	_, err = r.ReadAt(head[:], 0)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if head != c.Head {
		return fmt.Errorf("%w: it is of another segment", ErrDifferent)
	}
	return nil
}

// Fetch writes the segment of a copy into to. The error is object.ErrLost if the copy is not as it was written.
func (t *Tier) Fetch(ctx context.Context, c *layout.Copy, to io.Writer) error {
	w := t.watch(ctx)
	defer w.end()
	r, err := t.open(w.ctx, c)
	if err == nil {
		from := &source{w: w, r: io.NewSectionReader(r, 0, c.Size)}
		_, err = io.CopyBuffer(struct{ io.Writer }{to}, from, make([]byte, chunk))
		err = errors.Join(err, r.Close())
	}
	switch {
	case err == nil:
		t.count.recalled.Add(1)
		return nil
	case different(err):
		return fmt.Errorf("tier: read %s: %w: %w", c.Name, object.ErrLost, err)
	}
	return fmt.Errorf("tier: read %s: %w", c.Name, err)
}

// Remove removes a copy. It is no error if there is none.
func (t *Tier) Remove(ctx context.Context, name string) error {
	w := t.watch(ctx)
	defer w.end()
	err := t.place.Remove(w.ctx, name)
	if err == nil {
		err = t.place.Sync(w.ctx, path.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("tier: remove %s: %w", name, err)
	}
	return nil
}
