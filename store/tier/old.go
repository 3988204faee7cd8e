package tier

import (
	"context"
	"errors"
	"fmt"

	"doublet/store/blob"
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

// Put writes a small blob, durably and as a whole.
func (t *Tier) Put(ctx context.Context, name string, content []byte) error {
	return t.place.Put(ctx, name, content)
}

// Get reads a blob of at most limit bytes.
func (t *Tier) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	return t.place.Get(ctx, name, limit)
}
