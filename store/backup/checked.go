package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/store"
	"doublet/store/blob"
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
	// CheckStored is CheckOpen for an encrypted backup without the private key: the pieces that were copied are
	// compared with what was written, and the store is not opened.
	CheckStored Level = "stored"
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
	// fresh holds the SHA-256 of the blobs that this backup has written, by the names of the pieces.
	fresh map[string][]byte
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
	if err := i.pieces(ctx, g); err != nil || i.level == CheckStored {
		return err
	}
	s, err := i.r.open(ctx, g, store.Options{CacheSize: 16 << 20, MemTableSize: 1 << 20, Indexes: i.indexes})
	if err != nil && (errors.Is(err, blob.ErrAway) || errors.Is(err, blob.ErrSealed) || ctx.Err() != nil) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	err = i.contents(ctx, s, g)
	return errors.Join(err, s.Close())
}

// pieces compares pieces with their checksums, or only their lengths if they are not read.
func (i *inspection) pieces(ctx context.Context, g *Generation) error {
	list, err := i.r.listPieces(ctx)
	if err != nil {
		return err
	}
	sizes := make(map[string]int64, len(list))
	for _, b := range list {
		sizes[b.Name] = b.Size
	}
	var errs []error
	seen := map[string]bool{}
	for _, f := range g.Files {
		for _, p := range f.Pieces {
			if seen[p.Name] {
				continue
			}
			seen[p.Name] = true
			switch err := i.piece(p, sizes); {
			case errors.Is(err, ErrDamaged):
				errs, i.bad = append(errs, err), append(i.bad, p.Name)
			case err != nil:
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// piece checks a piece, given the sizes of those that exist.
func (i *inspection) piece(p Piece, sizes map[string]int64) error {
	if i.level == CheckFull {
		return i.c.verify(i.r, p, nil)
	}
	if sent, ok := i.fresh[p.Name]; ok {
		return i.c.readBack(i.r, p, sent)
	}
	if size, ok := sizes[p.Name]; !ok || size != p.stored() {
		return wrongSize(&p, size, p.stored())
	}
	return nil
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
func (r *repository) conclude(ctx context.Context, g *Generation, i *inspection, found error) error {
	if found != nil && !errors.Is(found, ErrDamaged) {
		return found
	}
	g.Checked = Checked{Level: i.level, Time: r.env.Clock.Now().UTC()}
	if found == nil {
		g.Damage = nil
		return errors.Join(r.mark(ctx, g), r.healed(ctx, i.fresh))
	}
	g.Checked.Failed, g.Checked.Bad = found.Error()[:min(len(found.Error()), maxFailed)], i.bad
	g.Damage = g.Checked.damage()
	errs := []error{found, r.mark(ctx, g)}
	for n := range r.generations {
		if other := &r.generations[n]; other.Number != g.Number && other.Damage == nil && other.names(i.bad) {
			other.Checked = g.Checked
			errs = append(errs, r.mark(ctx, other))
		}
	}
	return errors.Join(errs...)
}

// healed removes the marks from generations whose damaged pieces have all been copied again, with the same bytes and
// names. These generations then count as not checked.
func (r *repository) healed(ctx context.Context, fresh map[string][]byte) error {
	var errs []error
	for n := range r.generations {
		g := &r.generations[n]
		left := slices.DeleteFunc(slices.Clone(g.Checked.Bad), func(name string) bool { return fresh[name] != nil })
		switch {
		case len(left) == len(g.Checked.Bad):
			continue
		case len(left) == 0:
			g.Checked = Checked{}
		default:
			g.Checked.Bad = left
		}
		g.Damage = g.Checked.damage()
		errs = append(errs, r.mark(ctx, g))
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

// mark writes the result of a check to a blob beside the manifest.
func (r *repository) mark(ctx context.Context, g *Generation) error {
	text, err := json.Marshal(g.Checked)
	if err == nil {
		err = r.place.Put(ctx, r.name(g.Number)+checkedSuffix, text)
	}
	if err != nil {
		return fmt.Errorf("backup: record the check: %w", err)
	}
	return nil
}

// marked reads the result of the last check of a generation. One that is missing or malformed counts as none.
func (r *repository) marked(ctx context.Context, number uint64, left *int64) (c Checked, err error) {
	text, err := r.content(ctx, r.name(number)+checkedSuffix, maxChecked, left)
	if errors.Is(err, blob.ErrAway) || err != nil && ctx.Err() != nil {
		return c, err
	}
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Checked{}, nil
	}
	return c, nil
}
