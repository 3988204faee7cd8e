package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/env"
	"doublet/store/archive"
	"doublet/store/blob"
)

// List returns the generations of a backup folder, oldest first. If a manifest cannot be used, its generation has
// Damage set.
func List(ctx context.Context, e *env.Env, dir string) ([]Generation, error) {
	r, err := openRepository(ctx, e, dir, blob.Keys{}, false)
	if err != nil {
		return nil, err
	}
	return r.generations, nil
}

// maxExtra bounds the size of an extra file, in bytes.
const maxExtra = 16 << 20

// Extra reads an extra file that was saved with a generation. If there is none, it returns ErrNotFound.
func Extra(ctx context.Context, e *env.Env, dir string, keys blob.Keys, at uint64, name string) ([]byte, error) {
	r, err := openRepository(ctx, e, dir, keys, false)
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
			if err := c.verify(r, p, &b); err != nil {
				return nil, err
			}
		}
		return b.Bytes(), nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
}

// Pruned lists what Prune removed.
type Pruned struct {
	Generations []uint64
	Files       int
	Bytes       int64
	// Uncounted holds the generations that were kept but do not count towards the number to keep.
	Uncounted []uint64
}

// Prune keeps the latest generations and removes the others, with the pieces that only they need. Generations that are
// damaged or were never checked do not count towards keep. They are removed when they are older than those kept. So an
// unusable backup never replaces a usable one.
func Prune(ctx context.Context, e *env.Env, dir string, keep int) (out Pruned, err error) {
	if keep < 1 {
		return out, fmt.Errorf("backup: keep at least one generation")
	}
	return change(ctx, e, dir, true, func(r *repository) (Pruned, error) {
		cut, whole := 0, 0
		for i := len(r.generations) - 1; i >= 0 && cut == 0; i-- {
			if g := &r.generations[i]; g.counts() {
				whole++
			} else {
				out.Uncounted = append(out.Uncounted, g.Number)
			}
			if whole == keep {
				cut = i
			}
		}
		if whole < keep {
			return out, nil
		}
		return r.remove(ctx, r.generations[:cut], out)
	})
}

// counts reports whether a generation is known to be good: its check succeeded, or was left out by choice.
func (g *Generation) counts() bool { return g.Damage == nil && g.Checked.Level != "" }

// change opens a backup place for fn, and with lock locks it.
func change(ctx context.Context, e *env.Env, dir string, lock bool,
	fn func(*repository) (Pruned, error)) (out Pruned, err error) {
	r, err := openRepository(ctx, e, dir, blob.Keys{}, lock)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return fn(r)
}

// remove removes generations, then the pieces and the parts of the archive that no other one needs. It adds to out.
func (r *repository) remove(ctx context.Context, list []Generation, out Pruned) (Pruned, error) {
	gone := map[uint64]bool{}
	for _, g := range list {
		err := r.place.Remove(ctx, r.name(g.Number), r.name(g.Number)+checkedSuffix)
		if err != nil {
			return out, fmt.Errorf("backup: remove generation %d: %w", g.Number, err)
		}
		gone[g.Number], out.Generations = true, append(out.Generations, g.Number)
	}
	r.generations = slices.DeleteFunc(slices.Clone(r.generations), func(g Generation) bool { return gone[g.Number] })
	// The manifests must be removed durably before their pieces are removed.
	if err := r.place.Sync(ctx, ""); err != nil {
		return out, fmt.Errorf("backup: %w", err)
	}
	var err error
	if out.Files, out.Bytes, err = r.collectGarbage(ctx); err != nil {
		return out, err
	}
	steps, bytes, err := r.thin(ctx)
	out.Files, out.Bytes = out.Files+steps, out.Bytes+bytes
	return out, err
}

// thin removes the parts of the archive that no generation needs. A damaged generation may be mended by the next
// backup, and keeps its part until it is removed.
func (r *repository) thin(ctx context.Context) (steps int, bytes int64, err error) {
	var points []*archive.Point
	for _, g := range r.generations {
		if g.unread {
			return 0, 0, nil // its place in the archive is not known
		}
		if g.Archive != nil {
			points = append(points, g.Archive)
		}
	}
	a, err := archive.Open(ctx, r.place, r.keys)
	if err != nil {
		return 0, 0, err
	}
	return a.Thin(ctx, points)
}

// Verify reads every piece of a generation (0: the latest) and compares it with its checksum. It also checks the rows
// of the store in it. The error names everything that is wrong. The result is recorded, unless the backup folder is in
// use or cannot be written to.
func Verify(ctx context.Context, e *env.Env, dir string, at uint64, o Options) (g Generation, err error) {
	r, err := openRepository(ctx, e, dir, o.Keys, false)
	if err != nil {
		return g, err
	}
	if g, err = r.readable(at); err != nil {
		return g, err
	}
	i := &inspection{r: r, c: newCopier(ctx, e, o.Rate, "verify", g.Bytes, o.Progress), level: CheckFull,
		indexes: o.Indexes}
	found := i.run(ctx, &g)
	if r.lock, err = r.place.Lock(ctx); err != nil {
		return g, found
	}
	err = r.conclude(ctx, &g, i, found)
	return g, errors.Join(err, r.close())
}
