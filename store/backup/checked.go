package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/store"
	"doublet/store/check"
)

// Level is the depth of a check of a generation.
type Level string

// The levels of a check.
const (
	// CheckOff checks nothing, by choice of the administrator.
	CheckOff Level = "off"
	// CheckOpen reads back the pieces that the backup copied, checks the lengths of all other pieces, and opens the
	// store of the generation directly.
	CheckOpen Level = "open"
	// CheckFull reads back every piece and checks every row of the store.
	CheckFull Level = "full"
)

// Checked is the result of the last check of a generation. It has a file of its own beside the manifest, because the
// manifest is written only once.
type Checked struct {
	// Level is empty if the generation was never checked, or if the check did not finish.
	Level Level     `json:"level"`
	Time  time.Time `json:"time"`
	// Failed describes the damage, if any. Bad lists the damaged pieces. The next backup copies them again, even if
	// files with their names exist.
	Failed string   `json:"failed,omitempty"`
	Bad    []string `json:"bad,omitempty"`
}

const (
	checkedSuffix = ".checked"
	// maxChecked bounds the size of that file, maxFailed the length of a description, both in bytes.
	maxChecked = 16 << 20
	maxFailed  = 4 << 10
)

// inspection is one check of a generation.
type inspection struct {
	r     *repository
	c     *copier
	level Level
	// fresh holds the names of the pieces that this backup has written.
	fresh map[string]bool
	// indexes are those of the store's settings.
	indexes []store.Index
	// bad holds the damaged pieces.
	bad []string
}

// run checks a generation. It returns ErrDamaged for anything that is wrong with the generation.
func (i *inspection) run(ctx context.Context, g *Generation) error {
	if i.level == CheckOff {
		return nil
	}
	if err := i.pieces(g); err != nil {
		return err
	}
	s, err := i.r.open(g, store.Options{CacheSize: 16 << 20, MemTableSize: 1 << 20, Indexes: i.indexes})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	err = i.contents(ctx, s, g)
	return errors.Join(err, s.Close())
}

// pieces compares pieces with their checksums, or only their lengths if they are not read.
func (i *inspection) pieces(g *Generation) error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range g.Files {
		for _, p := range f.Pieces {
			if seen[p.Name] {
				continue
			}
			seen[p.Name] = true
			var err error
			if i.level == CheckFull || i.fresh[p.Name] {
				err = i.c.verify(i.r.pieces(), p, nil)
			} else {
				err = i.r.present(p)
			}
			switch {
			case errors.Is(err, ErrDamaged):
				errs, i.bad = append(errs, err), append(i.bad, p.Name)
			case err != nil:
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// present checks that a piece exists with the right length.
func (r *repository) present(p Piece) error {
	path := r.env.FS.PathJoin(r.pieces(), p.Name)
	f, err := openPiece(r.env.FS, path, &p)
	if err != nil {
		return err
	}
	return f.Close()
}

// contents compares an open store with its manifest.
func (i *inspection) contents(ctx context.Context, s *store.Store, g *Generation) error {
	if s.Incarnation() != g.Incarnation || s.Horizon() < g.Horizon {
		return fmt.Errorf("%w: store has incarnation %d and ends at %d, manifest has %d and %d", ErrDamaged,
			s.Incarnation(), s.Horizon(), g.Incarnation, g.Horizon)
	}
	if _, err := s.Databases(); err != nil {
		return fmt.Errorf("%w: list of databases: %w", ErrDamaged, err)
	}
	if i.level != CheckFull {
		return nil
	}
	rep, err := check.Run(ctx, s, check.Options{Limit: 100})
	if err == nil && !rep.Clean() {
		err = fmt.Errorf("%w: %d findings in its rows, the first: %s", ErrDamaged, len(rep.Findings)+rep.More,
			rep.Findings[0])
	}
	return err
}

// conclude records the result of a check. If the check could not be done (the server stops), it records nothing. All
// generations that reference a damaged piece are marked.
func (r *repository) conclude(g *Generation, i *inspection, found error) error {
	if found != nil && !errors.Is(found, ErrDamaged) {
		return found
	}
	g.Checked = Checked{Level: i.level, Time: r.env.Clock.Now().UTC()}
	if found == nil {
		g.Damage = nil
		return errors.Join(r.mark(g), r.healed(i.fresh))
	}
	g.Checked.Failed, g.Checked.Bad = found.Error()[:min(len(found.Error()), maxFailed)], i.bad
	g.Damage = g.Checked.damage()
	errs := []error{found, r.mark(g)}
	for n := range r.generations {
		if other := &r.generations[n]; other.Number != g.Number && other.Damage == nil && other.names(i.bad) {
			other.Checked = g.Checked
			errs = append(errs, r.mark(other))
		}
	}
	return errors.Join(errs...)
}

// healed removes the marks from generations whose damaged pieces have all been copied again, with the same bytes and
// names. These generations then count as not checked.
func (r *repository) healed(fresh map[string]bool) error {
	var errs []error
	for n := range r.generations {
		g := &r.generations[n]
		left := slices.DeleteFunc(slices.Clone(g.Checked.Bad), func(name string) bool { return fresh[name] })
		switch {
		case len(left) == len(g.Checked.Bad):
			continue
		case len(left) == 0:
			g.Checked = Checked{}
		default:
			g.Checked.Bad = left
		}
		g.Damage = g.Checked.damage()
		errs = append(errs, r.mark(g))
	}
	return errors.Join(errs...)
}

func (g *Generation) names(pieces []string) bool {
	return slices.ContainsFunc(g.Files, func(f File) bool {
		return slices.ContainsFunc(f.Pieces, func(p Piece) bool { return slices.Contains(pieces, p.Name) })
	})
}

func (c *Checked) damage() error {
	if c.Failed == "" {
		return nil
	}
	return fmt.Errorf("%w: its check on %s failed: %s", ErrDamaged, c.Time.Format(time.RFC3339), c.Failed)
}

// mark writes the result of a check to a file beside the manifest.
func (r *repository) mark(g *Generation) error {
	text, err := json.Marshal(g.Checked)
	if err != nil {
		return fmt.Errorf("backup: record the check: %w", err)
	}
	path := r.env.FS.PathJoin(r.dir, tmp+"checked")
	err = writeFile(r.env.FS, path, text)
	if err == nil {
		err = r.env.FS.Rename(path, r.path(g.Number)+checkedSuffix)
	}
	if err == nil {
		err = syncDir(r.env.FS, r.dir)
	}
	if err != nil {
		return fmt.Errorf("backup: record the check: %w", err)
	}
	return nil
}

// marked reads the result of the last check of a generation. It ignores a file that cannot be read.
func (r *repository) marked(number uint64, left *int64) (c Checked) {
	text, err := r.content(r.path(number)+checkedSuffix, maxChecked, left)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Checked{}
	}
	return c
}
