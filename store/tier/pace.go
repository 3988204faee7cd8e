package tier

import (
	"context"
	"hash"
	"io"
	"sync"
	"time"

	"doublet/store/blob"
)

// watch limits the rate of a transfer, and ends its context after a time without progress.
type watch struct {
	t      *Tier
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex // guards the fields below
	stop func() bool
	due  time.Time
}

// watch begins a transfer. The caller calls end.
func (t *Tier) watch(ctx context.Context) *watch {
	w := &watch{t: t, due: t.env.Clock.Now()}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.stop = t.env.Clock.AfterFunc(stalled, w.cancel)
	return w
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	w.cancel()
}

// moved records that n bytes were read, and waits until more may be read.
func (w *watch) moved(n int) error {
	clock := w.t.env.Clock
	w.mu.Lock()
	now := clock.Now()
	if w.due.Before(now) {
		w.due = now // unused allowance is not made up for
	}
	if w.t.rate > 0 {
		w.due = w.due.Add(time.Duration(float64(n) / float64(w.t.rate) * float64(time.Second)))
	}
	wait := w.due.Sub(now)
	w.stop()
	w.stop = clock.AfterFunc(stalled+wait, w.cancel)
	w.mu.Unlock()
	if wait <= 0 {
		return w.ctx.Err()
	}
	select {
	case <-clock.After(wait):
	case <-w.ctx.Done():
	}
	return w.ctx.Err()
}

// source is a part of a transfer, as the source of a blob.
type source struct {
	w *watch
	r *io.SectionReader
}

// Read implements blob.Source.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), chunk)])
	if n > 0 {
		if err := s.w.moved(n); err != nil {
			return n, err
		}
	}
	return n, err
}

// Reset implements blob.Source.
func (s *source) Reset() error {
	_, err := s.r.Seek(0, io.SeekStart)
	return err
}

// hashed is a source that computes the SHA-256 of what is read.
type hashed struct {
	blob.Source
	h hash.Hash
}

// Read implements blob.Source.
func (s *hashed) Read(p []byte) (int, error) {
	n, err := s.Source.Read(p)
	_, _ = s.h.Write(p[:n])
	return n, err
}

// Reset implements blob.Source.
func (s *hashed) Reset() error {
	s.h.Reset()
	return s.Source.Reset()
}
