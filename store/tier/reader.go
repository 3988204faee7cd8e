package tier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"
)

// Open opens a copy for reading. It does not wait for the place; the first read does. Reads fail with object.ErrAway if
// a later one may succeed. Other errors mean that the copy is damaged.
func (t *Tier) Open(c layout.Copy) object.Source { return &reader{t: t, c: c} }

// reader is an open copy. It fetches one part at a time.
type reader struct {
	t *Tier
	c layout.Copy

	mu  sync.Mutex // held during a fetch
	cur *connection
}

// connection is an open blob, which a failed read ends.
type connection struct {
	ctx    context.Context
	cancel context.CancelFunc
	plain  blob.Reader // nil until the first fetch
}

// ReadAt implements io.ReaderAt. The start of the segment is read from the row.
func (r *reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off > r.c.Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > r.c.Size-off
	if short {
		p = p[:r.c.Size-off]
	}
	if off+int64(len(p)) <= layout.HeadSize {
		n = copy(p, r.c.Head[off:])
	} else if n, err = r.pieces(p, off); err != nil {
		return n, err
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// pieces fetches p in parts of at most chunk bytes, each within the time limit.
func (r *reader) pieces(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.piece(p[n:min(len(p), n+chunk)], off+int64(n))
		n += k
	}
	return n, err
}

// piece fetches all of p. It tries a second time if the bytes were changed on the way.
func (r *reader) piece(p []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.t.count.fetches.Add(1)
	for range 2 {
		if n, err = r.fetch(p, off); err == nil {
			r.t.count.fetchedBytes.Add(uint64(n))
			return n, nil
		}
		r.drop()
		if !different(err) {
			break
		}
	}
	return n, r.t.failed(err)
}

// fetch fetches all of p once. The caller holds mu.
func (r *reader) fetch(p []byte, off int64) (n int, err error) {
	leave, err := r.t.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	if r.cur == nil {
		r.cur = &connection{}
		r.cur.ctx, r.cur.cancel = context.WithCancel(r.t.closed)
	}
	c := r.cur
	stop := r.t.env.Clock.AfterFunc(patience, c.cancel)
	if c.plain == nil {
		c.plain, err = r.t.open(c.ctx, &r.c)
	}
	if err == nil {
		n, err = c.plain.ReadAt(p, off)
	}
	if n == len(p) {
		err = nil
	}
	if !stop() && err == nil {
		r.drop() // its context has ended just now
	}
	return n, err
}

// drop ends the connection. The caller holds mu.
func (r *reader) drop() {
	if r.cur == nil {
		return
	}
	r.cur.cancel()
	if r.cur.plain != nil {
		_ = r.cur.plain.Close() // it is read-only
	}
	r.cur = nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
	return nil
}

// errPause means that a read failed a moment ago.
var errPause = errors.New("tier: no read so soon after one that failed")

// enter waits for a slot. After a failed read it fails for a while.
func (t *Tier) enter() (leave func(), err error) {
	select {
	case t.slots <- struct{}{}:
	default:
		select {
		case t.slots <- struct{}{}:
		case <-t.env.Clock.After(patience):
			return nil, errors.New("too many reads at once")
		case <-t.closed.Done():
			return nil, t.closed.Err()
		}
	}
	leave = func() { <-t.slots }
	if t.env.Clock.Now().UnixNano() < t.away.Load() {
		leave()
		return nil, errPause
	}
	return leave, nil
}

// different reports whether an error means that a copy is not what was written, and not that it could not be read.
func different(err error) bool {
	for _, away := range []error{blob.ErrAway, blob.ErrNotFound, context.Canceled} {
		if errors.Is(err, away) {
			return false
		}
	}
	return errors.Is(err, ErrDifferent) || errors.Is(err, blob.ErrForged) || errors.Is(err, blob.ErrDamaged) ||
		errors.Is(err, blob.ErrSealed)
}

// failed counts a failed read and returns its error. A copy that the place does not have is away: the place may be
// another one than it should be, and nobody must give up the objects in it.
func (t *Tier) failed(err error) error {
	t.count.failed.Add(1)
	if different(err) {
		return err
	}
	if !errors.Is(err, errPause) && !errors.Is(err, blob.ErrNotFound) {
		t.away.Store(t.env.Clock.Now().Add(pause).UnixNano())
	}
	return fmt.Errorf("%w: %w", object.ErrAway, err)
}
