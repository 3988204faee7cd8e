// Package backup copies a store, running or not, as of one moment, and restores it.
//
// A backup folder holds generations. A generation is a manifest that lists every file of the store at that moment as a
// sequence of pieces. Pieces are files in the folder, or objects in a bucket, that are written once, never changed, and
// shared by the generations that need them:
//
//	generation-000007          the manifest: a line with its checksum, then JSON
//	generation-000007.checked  the result of its last check
//	pieces/000123.sst-…        a table or blob file of the engine, whole
//	pieces/000000000005.seg-…  a part of an object segment, from an offset to the end of what was durable
//	writer                     the mark of the last backup
//	LOCK
//
// A piece's name ends with the SHA-256 of its bytes. The part before it identifies the original, so that the next
// backup finds the piece without reading the original: tables never change, and segments only grow. A piece is durable
// before it gets its name, all pieces before the manifest gets its name, and the manifest is written last. So a backup
// that is interrupted does not affect older generations, and the next backup reuses the pieces that it left.
//
// With a recipient (Options.Keys), pieces are encrypted. Manifests are not: a server without the private key needs them
// for the next backup.
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
	"doublet/store/archive"
	"doublet/store/blob"
	"doublet/store/object"
)

// Errors that callers test for.
var (
	// ErrDamaged means that a backup differs from what was written: a checksum does not match, or a piece is missing.
	ErrDamaged = errors.New("backup: damaged")
	// ErrNotFound means that the generation does not exist, or that there is none at all.
	ErrNotFound = errors.New("backup: no such generation")
	// ErrNotEmpty means that a restore would replace an existing store without RestoreOptions.Replace.
	ErrNotEmpty = errors.New("backup: the folder is not empty")
	// ErrForeign means that a restore would remove files that do not belong to the store.
	ErrForeign = errors.New("backup: the folder holds other files")
	// ErrBusy means that another process uses the backup folder.
	ErrBusy = errors.New("backup: the backup folder is in use")
)

// Options are the options of a backup.
type Options struct {
	// Rate bounds the bytes read per second. With 0, a backup leaves half of the time to users of the store; a
	// verification or a restore runs as fast as possible.
	Rate int64
	// Program is the name of the version that writes.
	Program string
	// Extra lists small files outside the store that are saved with it: the configuration. Missing ones are skipped.
	Extra []string
	// Progress is called from time to time. Several goroutines may call it, but only one at a time.
	Progress func(Progress)
	// Keys encrypt the pieces of a backup, and decrypt those of a restore or a verification.
	Keys blob.Keys
	// Check is the level of the check after a backup; empty means CheckOpen.
	Check Level
	// Indexes are the declared indexes of the store that is verified. Take uses those of its store.
	Indexes []store.Index
	// floor replaces the store's own floor of free space in tests.
	floor func(total uint64) uint64
}

// Progress describes how far a backup, a verification or a restore is.
type Progress struct {
	Stage string
	// Done and Total are numbers of bytes. For a backup, Total covers only the bytes to copy.
	Done, Total uint64
	// File is the name of the file that was finished last.
	File string
}

// copiers is the number of files copied at a time if there is a rate: while one is flushed to the device, another is
// read. Without a rate one file is copied at a time, which leaves a processor to the users.
const copiers = 2

// Take makes a backup of an open store in dir, and returns its new generation. It changes nothing that an earlier
// generation references. Then it checks the generation as o.Check requires. If the check fails, it marks the generation
// and returns ErrDamaged.
func Take(ctx context.Context, e *env.Env, s *store.Store, dir string, o Options) (g Generation, err error) {
	if o.Check == CheckFull && o.Keys.Seals() && !o.Keys.Opens() {
		return g, fmt.Errorf("backup: the check %s: %w", CheckFull, blob.ErrSealed)
	}
	r, err := openRepository(ctx, e, dir, o.Keys, true)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if r.have, err = r.listPieces(ctx); err != nil {
		return g, err
	}
	t := &taking{r: r, s: s, o: o, fresh: map[string][]byte{}}
	if g, err = t.take(ctx); err != nil {
		return g, err
	}
	if err := t.check(ctx, &g); err != nil {
		return g, err
	}
	// Remove what interrupted backups left. A file that cannot be removed is tried again next time.
	_, _, err = r.collectGarbage(ctx)
	return g, err
}

// taking is a running backup.
type taking struct {
	r *repository
	s *store.Store
	o Options
	// fresh holds the SHA-256 of the blobs that it has written, by the names of the pieces.
	fresh map[string][]byte
	alive func() error
}

// take copies the present state of the store into a new generation.
func (t *taking) take(ctx context.Context) (g Generation, err error) {
	e := t.r.env
	began := e.Clock.Now()
	point, err := archive.Next(e, t.s.Places().Data, t.s.Incarnation())
	if err != nil {
		return g, err
	}
	m, err := t.s.Capture(ctx)
	if err != nil {
		return g, fmt.Errorf("backup: %w", err)
	}
	if point != nil {
		point.Captured, point.Mark = e.Clock.Now().UTC(), m.Mark
	}
	defer func() { err = errors.Join(err, m.Release()) }()
	t.alive = m.Alive
	g = Generation{
		Number: t.r.last() + 1, Program: t.o.Program, Format: m.Format, Incarnation: m.Incarnation, Horizon: m.Horizon,
		Began: began.UTC(), Archive: point,
	}
	// Only one moment exists at a time, so no other backup of this store changes its marks meanwhile.
	marks, err := t.r.marks(ctx, t.s.Places().Data, m.Incarnation)
	if err != nil {
		return g, err
	}
	p := &plan{r: t.r, m: m, fresh: t.fresh, lineage: marks.next.Lineage}
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
	if err := t.r.begin(ctx, marks); err != nil {
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
	return g, t.r.commit(ctx, &g)
}

// check checks the new generation. Meanwhile the store runs normally, because the moment was released.
func (t *taking) check(ctx context.Context, g *Generation) error {
	level := cmp.Or(t.o.Check, CheckOpen)
	if level == CheckOpen && t.r.keys.Seals() && !t.r.keys.Opens() {
		level = CheckStored
	}
	total := g.Copied
	if level == CheckFull {
		total = g.Bytes
	}
	c := newCopier(ctx, t.r.env, t.o.Rate, "check", total, t.o.Progress)
	c.alive = t.alive
	i := &inspection{r: t.r, c: c, level: level, fresh: t.fresh, indexes: t.s.Indexes()}
	if err := t.r.conclude(ctx, g, i, i.run(ctx, g)); err != nil {
		return fmt.Errorf("backup: generation %d failed verification, older ones are kept: %w", g.Number, err)
	}
	return nil
}

// plan holds the work of one backup.
type plan struct {
	r       *repository
	m       *store.Moment
	files   []*planned
	missing uint64 // bytes to copy
	lineage string // of the pieces

	mu sync.Mutex
	// fresh holds the SHA-256 of the blobs that were written, by the names of the pieces.
	fresh map[string][]byte
}

// planned is a file of the store, with the pieces that the backup folder has, and the offset from which the rest is
// copied.
type planned struct {
	File
	source string
	open   func() (object.Source, error)
	// key is the start of the names of its pieces.
	key  string
	from int64
	todo bool
}

// collect lists the files of the moment and finds the pieces that exist already.
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
		if err := p.addFile(folderIndex+"/"+name, path, kind); err != nil {
			return err
		}
	}
	for _, g := range p.m.Segments {
		name := object.FileName(g.ID)
		open := func() (object.Source, error) { return p.m.Open(g.ID) }
		if err := p.add(folderSegments+"/"+name, name, g.Size, growing, open); err != nil {
			return err
		}
	}
	for _, path := range extra {
		if _, err := fs.Stat(path); err != nil {
			continue
		}
		if err := p.addFile(folderExtra+"/"+fs.PathBase(path), path, once); err != nil {
			return err
		}
	}
	return nil
}

// addFile plans a whole file.
func (p *plan) addFile(path, source string, kind fileKind) error {
	info, err := p.r.env.FS.Stat(source)
	if err != nil {
		return fmt.Errorf("backup: %s: %w", source, err)
	}
	return p.add(path, source, info.Size(), kind,
		func() (object.Source, error) { return p.r.env.FS.Open(source) })
}

// add plans size bytes of what open opens. source names it.
func (p *plan) add(path, source string, size int64, kind fileKind, open func() (object.Source, error)) error {
	f, err := open()
	if err != nil {
		return fmt.Errorf("backup: open %s: %w", source, err)
	}
	defer f.Close()
	out := &planned{File: File{Path: path, Size: size}, source: source, open: open}
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
	for range n {
		wg.Add(1)
		p.r.env.Go("backup", func() {
			defer wg.Done()
			for f := range todo {
				if fail(nil) {
					continue
				}
				piece, sent, err := p.r.piece(c, f)
				if err == nil {
					f.Pieces = append(f.Pieces, piece)
					p.wrote(piece.Name, sent)
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

func (p *plan) wrote(name string, sent []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh != nil {
		p.fresh[name] = sent
	}
}

// Took returns the duration of a backup.
func (g *Generation) Took() time.Duration { return g.Ended.Sub(g.Began) }
