package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/archive"
)

// RestoreOptions are the options of a restore. Extra of Options lists the names of the extra files to restore if they
// do not exist. Other extra files of the backup are not restored.
type RestoreOptions struct {
	Options
	// At is the number of the generation, 0 for the latest.
	At uint64
	// To is the moment to restore, with the latest generation that can; the zero time means the moment of the
	// generation.
	To time.Time
	// Replace permits the restore to replace an existing store.
	Replace bool
	// Store holds the settings of the restored store, including its folders.
	Store store.Options
}

// A restore fills these folders within those of the store, so that they are on the right device. The name is staged
// until everything has been copied and the old files are removed, then ready.
const (
	staged = "restoring"
	ready  = "restored"
	// foreign is a folder that the file system keeps at its root.
	foreign = "lost+found"
)

// Restore restores a generation to the data folder data. It first copies all files to staging folders, compares them
// with their checksums, and opens the store in the backup as a test. Only then does it replace the present store. If it
// is interrupted before that point, the present store is unchanged. If it is interrupted after it, the next Restore
// finishes it, whatever generation that one names. The restored store has a new incarnation, and every database has
// taken its ledger over, so that no number is assigned twice.
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

// lock locks the data folder against servers. It also locks an index in another folder, because the settings of another
// data folder may name the same one.
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

// restore is a running restore.
type restore struct {
	env *env.Env
	ctx context.Context
	at  store.Places
	o   RestoreOptions
}

func (s *restore) marker() string { return s.env.FS.PathJoin(s.at.Data, store.RestoringName) }

// place puts the files in their final folders.
func (s *restore) place(dir string) (Generation, error) {
	r, missing := openRepository(s.ctx, s.env, dir, s.o.Keys, false)
	g, err := s.interrupted(r)
	if err != nil {
		return g, err
	}
	if g.Number == 0 {
		if missing != nil {
			return g, missing
		}
		if g, err = s.prepare(r); err != nil {
			return g, err
		}
		// From here on the present store is given up.
		if err := s.mark(g.Number); err != nil {
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

// prepare stages the files of the generation to restore, with the log up to the moment to restore, and checks them.
func (s *restore) prepare(r *repository) (g Generation, err error) {
	if err := s.empty(); err != nil {
		return g, err
	}
	var log *archive.Archive
	if s.o.To.IsZero() {
		g, err = r.at(s.o.At)
	} else {
		g, log, err = r.moment(s.ctx, s.o.To)
	}
	if err != nil {
		return g, err
	}
	if err := s.stage(r, &g); err != nil {
		return g, err
	}
	if log != nil {
		if err := s.replay(log, &g); err != nil {
			return g, fmt.Errorf("backup: restore: nothing was replaced: %w", err)
		}
	}
	// The staged files equal what was written, byte for byte. They must also form a working store.
	i := &inspection{r: r, level: CheckOpen, indexes: s.o.Store.Indexes}
	if err := i.run(s.ctx, &g); err != nil {
		return g, fmt.Errorf("backup: restore: nothing was replaced: %w", err)
	}
	return g, nil
}

// mark records durably that a generation is being put in place: see interrupted.
func (s *restore) mark(number uint64) error {
	fs, halfway := s.env.FS, s.marker()+".new"
	if err := writeFile(fs, halfway, fmt.Appendf(nil, "%d\n", number)); err != nil {
		return err
	}
	return errors.Join(fs.Rename(halfway, s.marker()), syncDir(fs, s.at.Data))
}

// interrupted returns the generation that an earlier restore has begun to put in place, if any. All its files are
// staged, so the backup is no longer needed. r is the backup if it can be read.
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

// empty refuses to replace an existing store without Replace.
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

// replaceable refuses to remove anything that is not the store of this data folder: the index of another one, which the
// settings in a backup may name; a backup; other files.
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
			return fmt.Errorf("%w: %s is not a file of the store: move it away", ErrForeign,
				s.env.FS.PathJoin(dir, names[i]))
		}
		elsewhere := dir != s.env.FS.PathJoin(s.at.Data, s.env.FS.PathBase(dir))
		if elsewhere && !made && len(names) > 0 && !slices.Equal(names, []string{staged}) {
			return fmt.Errorf("%w: %s holds files of a store and %s does not: empty it if you do not need them",
				ErrForeign, dir, s.at.Data)
		}
	}
	return nil
}

// stage copies the generation's files to the staging folders, verifies their checksums, and makes them durable.
func (s *restore) stage(r *repository, g *Generation) error {
	fs := s.env.FS
	dirs := map[string]string{
		folderIndex: fs.PathJoin(s.at.Index, staged), folderSegments: fs.PathJoin(s.at.Segments, staged),
		folderExtra: s.at.Data,
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
			to += ".new" // so that a torn file is not taken for one that existed before
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

// replay brings the staged store to the moment to restore.
func (s *restore) replay(log *archive.Archive, g *Generation) error {
	fs := s.env.FS
	at := store.Places{Data: s.at.Data, Index: fs.PathJoin(s.at.Index, staged),
		Segments: fs.PathJoin(s.at.Segments, staged)}
	none := func(uint64) uint64 { return 0 } // the server does not run: there is no floor
	room := &headroom{fs: fs, dirs: []string{at.Index, at.Segments}, floor: none}
	err := replay(s.ctx, s.env, log, g, s.o.To, at, s.o.Store, &segmentFiles{fs, at.Segments}, room, s.o.Progress)
	return errors.Join(err, syncDir(fs, at.Index), syncDir(fs, at.Segments))
}

// wanted reports whether an extra file is restored: it was requested, and does not exist yet.
func (s *restore) wanted(path string) bool {
	if !slices.Contains(s.o.Extra, s.env.FS.PathBase(path)) {
		return false
	}
	_, err := s.env.FS.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// room refuses a restore for which a device has not enough room.
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
			err = c.verify(r, p, dst)
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

// swap replaces the contents of a folder by the files staged in it. The folder itself stays, because it may be a mount
// point. After an interruption, swap can be called again and continues. While the staging folder has its first name,
// everything beside it is old and is removed. Once it has its second name, its files are moved out.
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
		return nil // the files are in place already
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

// clearLog removes the old store's log if it has a folder of its own. Once the index is in place, the log may be that
// of the restored store, and stays.
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
	// What waited there for an archive belongs to the old store, too.
	err = errors.Join(err, fs.RemoveAll(fs.PathJoin(s.at.Log, store.KeptName)))
	return errors.Join(err, syncDir(fs, s.at.Log))
}

// list returns the names in a folder, or none if the folder does not exist.
func (s *restore) list(dir string) ([]string, error) {
	names, err := s.env.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == foreign || n == lockName }), err
}

// rename sets a new incarnation of the restored store. After that it is a normal store.
func (s *restore) rename() (err error) {
	o := s.o.Store
	o.Restoring = true
	st, err := store.Open(s.env, s.at.Data, o)
	if err != nil {
		return fmt.Errorf("backup: open the restored store: %w", err)
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
