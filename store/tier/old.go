package tier

import (
	"context"
	"errors"
	"fmt"

	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"
)

// List lists the names of all blobs that begin with prefix.
func (t *Tier) List(ctx context.Context, prefix string) ([]string, error) {
	list, err := t.place.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("tier: list copies: %w", err)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names, nil
}

// Opens reports whether a copy is encrypted with the keys of this place. A damaged copy may not be.
func (t *Tier) Opens(ctx context.Context, name string) (bool, error) {
	w := t.watch(ctx)
	defer w.end()
	r, err := t.place.Open(w.ctx, name)
	if err == nil {
		s := &sealed{Reader: r}
		if r, err = t.keys.UnsealReader(s); err == nil {
			return true, r.Close()
		}
		err = s.cause(err)
	}
	if different(err) || errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	return false, fmt.Errorf("tier: open %s: %w", name, err)
}

// Describe returns the row of a copy, without the incarnation that wrote it and without its checksum, which only Ship
// computes and compares. It reads the start and the end of the copy, which authenticates its length. The error is
// object.ErrLost if there is no copy that the keys of this place open.
func (t *Tier) Describe(ctx context.Context, name string) (layout.Copy, error) {
	w := t.watch(ctx)
	defer w.end()
	c := layout.Copy{Name: name}
	r, err := t.place.Open(w.ctx, name)
	if err == nil {
		c.Stored = r.Size()
		s := &sealed{Reader: r}
		if r, err = t.keys.UnsealReader(s); err == nil {
			if c.Size = r.Size(); c.Size <= layout.HeadSize {
				err = fmt.Errorf("%w: it has %d bytes", ErrDifferent, c.Size)
			} else {
				_, err = r.ReadAt(c.Head[:], 0)
			}
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			err = s.cause(err)
		}
	}
	switch {
	case err == nil:
		return c, nil
	case different(err) || errors.Is(err, blob.ErrNotFound):
		err = fmt.Errorf("%w: %w", object.ErrLost, err)
	}
	return c, fmt.Errorf("tier: describe %s: %w", name, err)
}

// Put writes a small blob, durably and as a whole.
func (t *Tier) Put(ctx context.Context, name string, content []byte) error {
	return t.place.Put(ctx, name, content)
}

// Get reads a blob of at most limit bytes.
func (t *Tier) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	return t.place.Get(ctx, name, limit)
}
