// Package backup copies a store, running or not, as it stood at one moment, and puts it back.
//
// A backup folder holds generations. Each is a manifest that names every file of the store at its
// moment as a row of pieces; pieces are files in the folder that are written once, never changed,
// and shared by the generations that need them:
//
//	generation-000007          the manifest: a line with its checksum, then JSON
//	generation-000007.checked  how it was checked after it was taken, and what came of it
//	pieces/000123.sst-…        a table or blob file of the engine, whole
//	pieces/000000000005.seg-…  a part of an object segment, from an offset to what was durable
//	writer                     the mark of the last backup
//	LOCK
//
// A piece's name ends with the SHA-256 of its bytes; what stands before says what it is a copy of, so
// that the next backup finds it without reading the original: tables never change, segments only
// grow. A piece is durable before it gets its name, all pieces before the manifest gets its own, and
// the manifest is written last: a backup that is interrupted leaves the older generations whole, and
// the next one takes up the pieces that it left.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/store"
)

// The kinds of error that callers branch on.
var (
	// ErrDamaged says that a backup is not what was written: a checksum differs, a piece is missing.
	ErrDamaged = errors.New("backup: damaged")
	// ErrNotFound says that there is no such generation, or none at all.
	ErrNotFound = errors.New("backup: no such generation")
	// ErrNotEmpty says that a restore would replace what is there, and was not told to.
	ErrNotEmpty = errors.New("backup: the folder is not empty")
	// ErrForeign says that a restore would remove something that is not the store's.
	ErrForeign = errors.New("backup: the folder holds other files")
	// ErrBusy says that another process works in the backup folder.
	ErrBusy = errors.New("backup: the backup folder is in use")
)

// Options of a backup.
type Options struct {
	// Rate bounds the bytes read a second; 0: a backup leaves half of the time to whoever uses the store,
	// all else goes as fast as it can.
	Rate int64
	// Program names the version that writes.
	Program string
	// Extra are small files beside the store that are kept with it: the configuration. One that is not
	// there is passed over.
	Extra []string
	// Progress is told from time to time. It may be called by several goroutines, one at a time.
	Progress func(Progress)
	// Check is the level at which a backup is checked after it was taken; empty is CheckOpen.
	Check Level
	// Indexes are those of the settings of the store that is verified; Take has those of its store.
	Indexes []store.Index
	// floor overrides the store's own floor of free space, in tests.
	floor func(total uint64) uint64
}

// Progress says how far a backup, a verification or a restore has come.
type Progress struct {
	Stage string
	// Done and Bytes are of Total; of a backup, what has to be copied.
	Done, Total uint64
	// File is the one that was finished last.
	File string
}

// copiers is how many files are copied at a time where there is a rate: while one is flushed to the
// device another is read. Without one it is one, which leaves a processor to the users.
const copiers = 2

// Take makes a backup of an open store in dir, and returns its new generation. Nothing of dir that an
// earlier generation names is touched. Then the generation is checked, as o.Check says: one that fails is
// marked, and is an error that is ErrDamaged.
func Take(ctx context.Context, e *env.Env, s *store.Store, dir string, o Options) (g Generation, err error) {
	r, err := openRepository(e, dir, true)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	t := &taking{r: r, s: s, o: o, fresh: map[string]bool{}}
	if g, err = t.take(ctx); err != nil {
		return g, err
	}
	if err := t.check(ctx, &g); err != nil {
		return g, err
	}
	// Leftovers of interrupted backups; what cannot be removed is tried again next time.
	_, _, err = r.collectGarbage()
	return g, err
}

// taking is one backup under way.
type taking struct {
	r *repository
	s *store.Store
	o Options
	// fresh are the pieces that it has written.
	fresh map[string]bool
	alive func() error
}

// take copies the store as it stands into a new generation.
func (t *taking) take(ctx context.Context) (g Generation, err error) {
	e := t.r.env
	began := e.Clock.Now()
	m, err := t.s.Capture(ctx)
	if err != nil {
		return g, fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, m.Release()) }()
	t.alive = m.Alive
	g = Generation{
		Number: t.r.last() + 1, Program: t.o.Program, Format: m.Format, Incarnation: m.Incarnation, Horizon: m.Horizon, Began: began.UTC(),
	}
	lineage, err := t.r.begin(t.s.Places().Data, m.Incarnation)
	if err != nil {
		return g, err
	}
	p := &plan{r: t.r, m: m, fresh: t.fresh, lineage: lineage}
	if err := p.collect(t.o.Extra); err != nil {
		return g, err
	}
	floor := t.s.FloorOf
	if t.o.floor != nil {
		floor = t.o.floor
	}
	if err := t.r.room(p.missing, floor); err != nil {
		return g, err
	}
	c := newCopier(ctx, e, t.o.Rate, "copy", p.missing, t.o.Progress)
	c.alive = m.Alive
	if err := p.copy(c); err != nil {
		return g, err
	}
	for _, f := range p.files {
		g.Files = append(g.Files, f.File)
		g.Bytes += uint64(f.Size)
	}
	g.Copied, g.Ended = p.missing, e.Clock.Now().UTC()
	return g, t.r.commit(&g)
}

// check looks at the new generation: the store goes on meanwhile, and holds nothing back for it.
func (t *taking) check(ctx context.Context, g *Generation) error {
	level := cmp.Or(t.o.Check, CheckOpen)
	total := g.Copied
	if level == CheckFull {
		total = g.Bytes
	}
	c := newCopier(ctx, t.r.env, t.o.Rate, "check", total, t.o.Progress)
	c.alive = t.alive
	i := &inspection{r: t.r, c: c, level: level, fresh: t.fresh, indexes: t.s.Indexes()}
	if err := t.r.conclude(g, i, i.run(ctx, g)); err != nil {
		return fmt.Errorf("backup: generation %d was taken and failed its check: the older ones stay: %w", g.Number, err)
	}
	return nil
}

// plan is what one backup has to do.
type plan struct {
	r       *repository
	m       *store.Moment
	files   []*planned
	missing uint64 // bytes that have to be copied
	lineage string // of the pieces

	mu sync.Mutex
	// fresh are the names of the pieces that were copied.
	fresh map[string]bool
}

// planned is a file of the store: the pieces that the backup folder has, and where the copying of the
// rest begins.
type planned struct {
	File
	source string
	// key begins the names of its pieces.
	key  string
	from int64
	todo bool
}

// collect lists the files of the moment and finds which pieces are there already.
func (p *plan) collect(extra []string) error {
	fs := p.r.env.FS
	names, err := fs.List(p.m.Index)
	if err != nil {
		return fmt.Errorf("backup: list the checkpoint: %w", err)
	}
	for _, name := range names {
		path := fs.PathJoin(p.m.Index, name)
		kind := once
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob") {
			kind = immutable
		}
		if err := p.add(folderIndex+"/"+name, path, -1, kind); err != nil {
			return err
		}
	}
	for _, g := range p.m.Segments {
		path := p.m.Path(g.ID)
		if err := p.add(folderSegments+"/"+fs.PathBase(path), path, g.Size, growing); err != nil {
			return err
		}
	}
	for _, path := range extra {
		if _, err := fs.Stat(path); err != nil {
			continue
		}
		if err := p.add(folderExtra+"/"+fs.PathBase(path), path, -1, once); err != nil {
			return err
		}
	}
	return nil
}

// add plans a file of size bytes (all of it where negative).
func (p *plan) add(path, source string, size int64, kind fileKind) error {
	f, err := p.r.env.FS.Open(source)
	if err != nil {
		return fmt.Errorf("backup: open %s: %w", source, err)
	}
	defer f.Close()
	if size < 0 {
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("backup: %s: %w", source, err)
		}
		size = info.Size()
	}
	out := &planned{File: File{Path: path, Size: size}, source: source}
	p.files = append(p.files, out)
	if size == 0 {
		return nil
	}
	if out.key, err = pieceKey(f, p.r.env.FS.PathBase(source), size, kind, p.m.Incarnation, p.lineage); err != nil {
		return fmt.Errorf("backup: read %s: %w", source, err)
	}
	switch kind {
	case immutable:
		if have, ok := p.r.find(out.key, 0, size); ok && have.Size == size {
			out.Pieces, out.from = []Piece{have}, size
		}
	case growing:
		for out.from < size {
			have, ok := p.r.find(out.key, out.from, size-out.from)
			if !ok {
				break
			}
			out.Pieces = append(out.Pieces, have)
			out.from += have.Size
		}
	}
	out.todo = out.from < size
	p.missing += uint64(size - out.from)
	return nil
}

// copy copies what is missing, several files at a time.
func (p *plan) copy(c *copier) error {
	todo := make(chan *planned)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	fail := func(err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = errors.Join(failed, err)
		}
		return failed != nil
	}
	n := copiers
	if c.rate == 0 {
		n = 1
	}
	for i := range n {
		wg.Add(1)
		p.r.env.Go("backup", func() {
			defer wg.Done()
			for f := range todo {
				if fail(nil) {
					continue
				}
				piece, err := p.r.piece(c, i, f)
				if err == nil {
					f.Pieces = append(f.Pieces, piece)
					p.wrote(piece.Name)
				} else {
					err = fmt.Errorf("backup: copy %s: %w", f.source, err)
				}
				fail(err)
			}
		})
	}
	for _, f := range p.files {
		if f.todo && !fail(nil) {
			todo <- f
		}
	}
	close(todo)
	wg.Wait()
	return failed
}

func (p *plan) wrote(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh != nil {
		p.fresh[name] = true
	}
}

// Took is how long a backup ran.
func (g *Generation) Took() time.Duration { return g.Ended.Sub(g.Began) }
