package transfer

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"doublet/mailbox"

	"golang.org/x/sync/semaphore"
)

const (
	// memoryBytes is the memory for messages of all running imports and exports together.
	memoryBytes = 64 << 20
	// maxWeight is the maximum memory that one message reserves. A larger message counts as this much: if it took
	// everything, one slow source would stop all other imports and exports.
	maxWeight = memoryBytes / 2
	// unreserved is the size up to which a message is read before memory is reserved for it. A running import or export
	// has at most one such message, so most messages need no wait before their size is known.
	unreserved = 1 << 20
)

// memory is the budget of all running imports and exports.
type memory struct{ all *semaphore.Weighted }

func newMemory() *memory { return &memory{semaphore.NewWeighted(memoryBytes)} }

// reader returns a reservation for one goroutine that reads messages.
func (m *memory) reader() reservation { return reservation{of: m.all} }

// reservation is the memory that a reader of messages holds for the message that it reads now. Only the goroutine of
// the reader uses it, except for free.
type reservation struct {
	of   *semaphore.Weighted
	held int64
}

// weight returns the memory for a message of n bytes: its composed or converted form exists beside it for a while.
func weight(n int64) int64 { return min(2*n+4096, maxWeight) }

// need waits until the memory for a message of n bytes is reserved. It does not add to a smaller reservation but
// replaces it: two readers that wait with a part of the memory could wait for each other forever.
func (r *reservation) need(ctx context.Context, n int64) error {
	w := weight(n)
	if r.held >= w {
		return nil
	}
	r.release()
	if err := r.of.Acquire(ctx, w); err != nil {
		return err
	}
	r.held = w
	return nil
}

// keep reduces the reservation to the memory for a message of n bytes, or waits for that memory. The message then owns
// the memory: free returns it.
func (r *reservation) keep(ctx context.Context, n int64) (int64, error) {
	if err := r.need(ctx, n); err != nil {
		return 0, err
	}
	w := weight(n)
	r.of.Release(r.held - w)
	r.held = 0
	return w, nil
}

// free returns the memory that a message owns.
func (r *reservation) free(w int64) { r.of.Release(w) }

// release returns the memory for the message that is read now.
func (r *reservation) release() {
	r.of.Release(r.held)
	r.held = 0
}

// read reads a file with a message of at most limit bytes. It reserves memory by the size that the file states, and for
// limit bytes if the file turns out to be larger: the size in a zip file may be wrong.
func (r *reservation) read(ctx context.Context, f io.Reader, limit int64) ([]byte, error) {
	size := min(unreserved, limit)
	if s, ok := f.(interface{ Stat() (fs.FileInfo, error) }); ok {
		info, err := s.Stat()
		if err != nil {
			return nil, err
		}
		size = info.Size()
	}
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", mailbox.ErrTooBig, size, limit)
	}
	raw := make([]byte, 0, min(max(size, 0), unreserved)+1)
	for {
		n, err := f.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		switch {
		case err == io.EOF:
			return raw, nil
		case err != nil:
			return nil, err
		case len(raw) < cap(raw):
			continue
		}
		need, room := size, size
		if n := int64(len(raw)); n > limit {
			return nil, fmt.Errorf("%w: more than %d bytes", mailbox.ErrTooBig, limit)
		} else if n > size {
			need, room = limit, min(limit, 2*n)
		}
		if err := r.need(ctx, need); err != nil {
			return nil, err
		}
		raw = append(make([]byte, 0, room+1), raw...)
	}
}
