package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"doublet/env"
	"doublet/store"
)

// RestoreOptions of a restore. Of Options, Extra are the names of the extra files that are restored where they are missing:
// others of the backup are left out.
type RestoreOptions struct {
	Options
	// At is the generation, 0 the latest.
	At uint64
	// Replace allows the restore to replace a store that is there.
	Replace bool
	// Store are the settings of the store that is restored: where its parts go.
	Store store.Options
}

// The folders that a restore fills within those of the store, so that they are on the right device:
// staged until all of it is there and the old files are gone, then ready.
const (
	staged = "restoring"
	ready  = "restored"
	// foreign is what a file system keeps for itself at its root.
	foreign = "lost+found"
)

// Restore puts a generation into the data folder data. Everything is copied beside what is there and
// compared with its checksums first, and opened where it lies; only then, from one moment on, it replaces what is there: a
// restore that is interrupted before leaves the store as it was, one that is interrupted after is
// finished by the next Restore, whatever its generation. The store that comes out is another
// incarnation, and every database has taken its ledger over: no number is given twice.
func Restore(ctx context.Context, e *env.Env, dir, data string, o RestoreOptions) (g Generation, err error) {
	at := store.PlacesOf(e.FS, data, o.Store)
	s := &restore{env: e, ctx: ctx, at: at, o: o}
	unlock, err := s.lock()
	if err == nil {
		g, err = s.place(dir)
	}
	if err = errors.Join(err, unlock()); err != nil {
		return g, err
	}
	return g, s.rename()
}

// lock keeps servers away from the data folder, and from an index elsewhere, which the settings of
// another data folder may name too.
func (s *restore) lock() (unlock func() error, err error) {
	var held []io.Closer
	unlock = func() error {
		var err error
		for _, c := range held {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	for _, dir := range []string{s.at.Data, s.at.Index} {
		if err := s.env.FS.MkdirAll(dir, 0o700); err != nil {
			return unlock, fmt.Errorf("backup: make %s: %w", dir, err)
		}
		c, err := s.env.FS.Lock(s.env.FS.PathJoin(dir, lockName))
		if err != nil {
			return unlock, fmt.Errorf("%s is in use by another process: %w", dir, err)
		}
		held = append(held, c)
	}
	return unlock, nil
}

// restore is one restore under way.
type restore struct {
	env *env.Env
	ctx context.Context
	at  store.Places
	o   RestoreOptions
}

func (s *restore) marker() string { return s.env.FS.PathJoin(s.at.Data, store.RestoringName) }

// place puts the files where they belong.
func (s *restore) place(dir string) (Generation, error) {
	fs := s.env.FS
	r, missing := openRepository(s.env, dir, false)
	g, err := s.interrupted(r)
	if err != nil {
		return g, err
	}
	if g.Number == 0 {
		if missing != nil {
			return g, missing
		}
		if err := s.empty(); err != nil {
			return g, err
		}
		if g, err = r.at(s.o.At); err != nil {
			return g, err
		}
		if err := s.stage(r, &g); err != nil {
			return g, err
		}
		// What was staged is what was written, byte for byte; it must also be a store.
		i := &inspection{r: r, level: CheckOpen, indexes: s.o.Store.Indexes}
		if err := i.run(s.ctx, &g); err != nil {
			return g, fmt.Errorf("backup: restore: nothing was replaced: %w", err)
		}
		// From here on what was there is given up.
		halfway := s.marker() + ".new"
		err := writeFile(fs, halfway, fmt.Appendf(nil, "%d\n", g.Number))
		if err == nil {
			err = errors.Join(fs.Rename(halfway, s.marker()), syncDir(fs, s.at.Data))
		}
		if err != nil {
			return g, fmt.Errorf("backup: restore: %w", err)
		}
	}
	if err := s.clearLog(); err != nil {
		return g, fmt.Errorf("backup: restore: clear the old log: %w", err)
	}
	for _, d := range []string{s.at.Index, s.at.Segments} {
		if err := s.swap(d); err != nil {
			return g, fmt.Errorf("backup: restore: %w", err)
		}
	}
	return g, nil
}

// interrupted says which generation an earlier restore has begun to put in place, if any. All of it is here:
// the backup, which r is if it can be read, is not needed any more.
func (s *restore) interrupted(r *repository) (g Generation, err error) {
	f, err := s.env.FS.Open(s.marker())
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("backup: restore: %w", err)
	}
	defer f.Close()
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	if _, err := fmt.Sscanf(string(b[:n]), "%d", &g.Number); err != nil || g.Number == 0 {
		return Generation{}, fmt.Errorf("%w: %s cannot be read", ErrDamaged, s.marker())
	}
	if r == nil {
		return g, nil
	}
	if have, err := r.at(g.Number); err == nil {
		g = have
	}
	return g, nil
}

// empty refuses to replace a store without having been told.
func (s *restore) empty() error {
	if s.o.Replace {
		return s.replaceable()
	}
	for _, dir := range []string{s.at.Index, s.at.Segments, s.at.Log} {
		names, err := s.list(dir)
		if err != nil {
			return fmt.Errorf("backup: restore: %w", err)
		}
		if len(names) > 0 && !slices.Equal(names, []string{staged}) {
			return fmt.Errorf("%w: %s", ErrNotEmpty, dir)
		}
	}
	return nil
}

// replaceable refuses to remove what is not the store of this data folder: the index of another one, to which
// settings that came with a backup may lead; a backup; somebody else's files.
func (s *restore) replaceable() error {
	made, err := store.Made(s.env.FS, s.at.Data)
	if err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	for _, dir := range []string{s.at.Index, s.at.Segments} {
		names, err := s.list(dir)
		if err != nil {
			return fmt.Errorf("backup: restore: %w", err)
		}
		foreign := func(n string) bool { return !store.OwnFile(n) && n != staged && n != ready }
		if i := slices.IndexFunc(names, foreign); i >= 0 {
			return fmt.Errorf("%w: %s is not a file of the store: move it away", ErrForeign, s.env.FS.PathJoin(dir, names[i]))
		}
		elsewhere := dir != s.env.FS.PathJoin(s.at.Data, s.env.FS.PathBase(dir))
		if elsewhere && !made && len(names) > 0 && !slices.Equal(names, []string{staged}) {
			return fmt.Errorf("%w: %s holds files of a store, and %s has none: empty it if they are of no use", ErrForeign, dir, s.at.Data)
		}
	}
	return nil
}

// stage copies the generation's files beside where they will be, comparing checksums, and makes them
// durable.
func (s *restore) stage(r *repository, g *Generation) error {
	fs := s.env.FS
	dirs := map[string]string{
		folderIndex: fs.PathJoin(s.at.Index, staged), folderSegments: fs.PathJoin(s.at.Segments, staged), folderExtra: s.at.Data,
	}
	for _, d := range []string{dirs[folderIndex], dirs[folderSegments]} {
		if err := fs.RemoveAll(d); err != nil {
			return fmt.Errorf("backup: restore: %w", err)
		}
		if err := fs.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("backup: restore: %w", err)
		}
	}
	if err := s.room(g); err != nil {
		return err
	}
	c := newCopier(s.ctx, s.env, s.o.Rate, "restore", g.Bytes, s.o.Progress)
	for _, f := range g.Files {
		kind, name, _ := strings.Cut(f.Path, "/")
		path := fs.PathJoin(dirs[kind], name)
		if kind == folderExtra && !s.wanted(path) {
			continue
		}
		to := path
		if kind == folderExtra {
			to += ".new" // a torn one must not be taken for one that was there
		}
		err := s.file(c, r, f, to)
		if err == nil && to != path {
			err = fs.Rename(to, path)
		}
		if err != nil {
			return err
		}
	}
	for _, d := range []string{dirs[folderIndex], dirs[folderSegments], s.at.Data} {
		up := fs.PathDir(d)
		if err := errors.Join(syncDir(fs, d), syncDir(fs, up), syncDir(fs, fs.PathDir(up))); err != nil {
			return fmt.Errorf("backup: restore: %w", err)
		}
	}
	return nil
}

// wanted reports that an extra file is restored: it is one of those that are asked for, and settings that are there stay.
func (s *restore) wanted(path string) bool {
	if !slices.Contains(s.o.Extra, s.env.FS.PathBase(path)) {
		return false
	}
	_, err := s.env.FS.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// room refuses a restore that a device has no room for.
func (s *restore) room(g *Generation) error {
	need := map[string]int64{}
	for _, f := range g.Files {
		kind, _, _ := strings.Cut(f.Path, "/")
		need[map[string]string{folderIndex: s.at.Index, folderSegments: s.at.Segments}[kind]] += f.Size
	}
	for _, dir := range []string{s.at.Index, s.at.Segments} {
		if u, err := s.env.FS.GetDiskUsage(dir); err == nil && u.AvailBytes < uint64(need[dir]) {
			return fmt.Errorf("%w: %s needs %d bytes and has %d", store.ErrNoSpace, dir, need[dir], u.AvailBytes)
		}
	}
	return nil
}

func (s *restore) file(c *copier, r *repository, f File, path string) error {
	dst, err := create(s.env.FS, path)
	if err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	for _, p := range f.Pieces {
		if err == nil {
			err = c.verify(r.pieces(), p, dst)
		}
	}
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("backup: restore %s: %w", f.Path, err)
	}
	return nil
}

// swap replaces what a folder holds by what was staged in it. The folder itself stays: it may be where
// a device is mounted. Done again, it goes on where it was interrupted: while the staged folder has its
// first name, what stands beside it is old and goes; once it has its second, files come out of it.
func (s *restore) swap(dir string) error {
	fs := s.env.FS
	first, second := fs.PathJoin(dir, staged), fs.PathJoin(dir, ready)
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, staged) {
		for _, name := range names {
			if name != staged && name != foreign {
				if err := fs.RemoveAll(fs.PathJoin(dir, name)); err != nil {
					return err
				}
			}
		}
		if err := syncDir(fs, dir); err != nil {
			return err
		}
		if err := errors.Join(fs.Rename(first, second), syncDir(fs, dir)); err != nil {
			return err
		}
	} else if !slices.Contains(names, ready) {
		return nil // in place already
	}
	if names, err = fs.List(second); err != nil {
		return err
	}
	for _, name := range names {
		if err := fs.Rename(fs.PathJoin(second, name), fs.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(fs, dir), fs.RemoveAll(second), syncDir(fs, dir))
}

// clearLog removes the old store's log where it has a folder of its own: it is not this store's. Once
// the index is in place the log may be the restored store's, and stays.
func (s *restore) clearLog() error {
	fs := s.env.FS
	names, err := s.list(s.at.Index)
	if err != nil || s.at.Log == s.at.Index || !slices.Contains(names, staged) && !slices.Contains(names, ready) {
		return err
	}
	if names, err = s.list(s.at.Log); err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			err = errors.Join(err, fs.Remove(fs.PathJoin(s.at.Log, name)))
		}
	}
	return errors.Join(err, syncDir(fs, s.at.Log))
}

// list lists a folder that need not be there.
func (s *restore) list(dir string) ([]string, error) {
	names, err := s.env.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == foreign || n == lockName }), err
}

// rename gives the restored store its new incarnation; then it is a store like any.
func (s *restore) rename() (err error) {
	o := s.o.Store
	o.Restoring = true
	st, err := store.Open(s.env, s.at.Data, o)
	if err != nil {
		return fmt.Errorf("backup: open what was restored: %w", err)
	}
	err = st.Rebranch()
	if err = errors.Join(err, st.Close()); err != nil {
		return fmt.Errorf("backup: new incarnation: %w", err)
	}
	if err := s.env.FS.Remove(s.marker()); err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	if err := syncDir(s.env.FS, s.at.Data); err != nil {
		return fmt.Errorf("backup: restore: %w", err)
	}
	return nil
}
