package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"doublet/env"
)

// List returns the generations of a backup folder, oldest first; one whose manifest cannot be used
// says so in Damage.
func List(e *env.Env, dir string) ([]Generation, error) {
	r, err := openRepository(e, dir, false)
	if err != nil {
		return nil, err
	}
	return r.generations, nil
}

// maxExtra bounds an extra file, in bytes.
const maxExtra = 16 << 20

// Extra reads a file that was kept with a generation beside the store: ErrNotFound where there is none.
func Extra(ctx context.Context, e *env.Env, dir string, at uint64, name string) ([]byte, error) {
	r, err := openRepository(e, dir, false)
	if err != nil {
		return nil, err
	}
	g, err := r.at(at)
	if err != nil {
		return nil, err
	}
	for _, f := range g.Files {
		if f.Path != folderExtra+"/"+name || f.Size > maxExtra {
			continue
		}
		var b bytes.Buffer
		c := newCopier(ctx, e, 0, "", 0, nil)
		for _, p := range f.Pieces {
			if err := c.verify(r.pieces(), p, &b); err != nil {
				return nil, err
			}
		}
		return b.Bytes(), nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
}

// Pruned is what Prune removed.
type Pruned struct {
	Generations []uint64
	Files       int
	Bytes       int64
}

// Prune keeps the latest generations and removes the others, with the pieces that only they need.
// Generations whose manifest is damaged do not count among those kept, and go with the old ones.
func Prune(e *env.Env, dir string, keep int) (out Pruned, err error) {
	if keep < 1 {
		return out, fmt.Errorf("backup: keep at least one generation")
	}
	r, err := openRepository(e, dir, true)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	cut, whole := 0, 0
	for i := len(r.generations) - 1; i >= 0 && cut == 0; i-- {
		if r.generations[i].Damage == nil {
			whole++
		}
		if whole == keep {
			cut = i
		}
	}
	if whole < keep {
		return out, nil
	}
	for _, g := range r.generations[:cut] {
		if err := e.FS.Remove(r.path(g.Number)); err != nil {
			return out, fmt.Errorf("backup: remove generation %d: %w", g.Number, err)
		}
		out.Generations = append(out.Generations, g.Number)
	}
	r.generations = r.generations[cut:]
	// The manifests are gone for good before what they name goes.
	if err := syncDir(e.FS, r.dir); err != nil {
		return out, fmt.Errorf("backup: %w", err)
	}
	out.Files, out.Bytes, err = r.collectGarbage()
	return out, err
}

// Verify reads every piece of a generation (0: the latest) and compares it with its checksum. What is
// wrong is named, all of it.
func Verify(ctx context.Context, e *env.Env, dir string, at uint64, o Options) (Generation, error) {
	r, err := openRepository(e, dir, false)
	if err != nil {
		return Generation{}, err
	}
	g, err := r.at(at)
	if err != nil {
		return g, err
	}
	c := newCopier(ctx, e, o.Rate, "verify", g.Bytes, o.Progress)
	var errs []error
	for _, f := range g.Files {
		for _, p := range f.Pieces {
			if err := c.verify(r.pieces(), p, nil); errors.Is(err, ErrDamaged) {
				errs = append(errs, err)
			} else if err != nil {
				return g, err
			}
		}
	}
	return g, errors.Join(errs...)
}
