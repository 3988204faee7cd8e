package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/archive"
	"doublet/store/blob"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNoMoment means that a backup folder cannot restore a moment.
var ErrNoMoment = archive.ErrNoMoment

// Moments returns the moments that can be restored from a backup folder, in ascending order.
func Moments(ctx context.Context, e *env.Env, dir string) ([]archive.Range, error) {
	r, err := openRepository(ctx, e, dir, blob.Keys{}, false)
	if err != nil {
		return nil, err
	}
	a, err := archive.Open(ctx, r.place, r.keys)
	if err != nil {
		return nil, err
	}
	usable, err := r.reached(ctx, a)
	return a.Ranges(pointsOf(usable)), err
}

// VerifyArchive reads the archive in a backup folder, and returns the moments that can be restored. The error names
// what is damaged or missing.
func VerifyArchive(ctx context.Context, e *env.Env, dir string, o Options) ([]archive.Range, error) {
	r, err := openRepository(ctx, e, dir, o.Keys, false)
	if err != nil {
		return nil, err
	}
	a, err := archive.Open(ctx, r.place, r.keys)
	if err != nil {
		return nil, err
	}
	usable, err := r.reached(ctx, a)
	if err != nil {
		return nil, err
	}
	list, err := a.Verify(ctx, r.points(), progressOf(o.Progress, "archive"))
	if list != nil {
		list = a.Ranges(pointsOf(usable))
	}
	return list, err
}

// progressOf returns a function that reports bytes as progress of a stage.
func progressOf(tell func(Progress), stage string) func(done, total int64) {
	return func(done, total int64) {
		if tell != nil {
			tell(Progress{Stage: stage, Done: uint64(done), Total: uint64(total)})
		}
	}
}

// points returns the places in the archive of the generations that can be used.
func (r *repository) points() []*archive.Point { return pointsOf(r.generations) }

func pointsOf(generations []Generation) (out []*archive.Point) {
	for _, g := range generations {
		if g.Damage == nil && g.Archive != nil {
			out = append(out, g.Archive)
		}
	}
	return out
}

// reached returns the generations from which the archive restores something. Their marks are in the log in the order
// of the backups, so that the archive has those before one that it has.
func (r *repository) reached(ctx context.Context, a *archive.Archive) (out []Generation, err error) {
	known := map[string]bool{} // timelines of which a mark was found
	for _, g := range slices.Backward(r.generations) {
		if g.Damage != nil || g.Archive == nil {
			continue
		}
		if _, ok := a.Range(g.Archive); !ok {
			continue
		}
		if t := g.Archive.Timeline; !known[t] {
			if known[t], err = a.Reached(ctx, g.Archive); err != nil {
				return nil, err
			}
			if !known[t] {
				continue
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// moment returns the latest generation from which a moment can be restored, and the archive.
func (r *repository) moment(ctx context.Context, to time.Time) (g Generation, a *archive.Archive, err error) {
	if a, err = archive.Open(ctx, r.place, r.keys); err != nil {
		return g, nil, err
	}
	usable, err := r.reached(ctx, a)
	if err != nil {
		return g, nil, err
	}
	var found []Generation
	for _, g := range usable {
		if have, ok := a.Range(g.Archive); ok && !to.Before(have.From) && !to.After(have.To) {
			found = append(found, g)
		}
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b Generation) int {
			return cmp.Or(a.Archive.Captured.Compare(b.Archive.Captured), cmp.Compare(a.Number, b.Number))
		}), a, nil
	}
	before, after := archive.Nearest(a.Ranges(pointsOf(usable)), to)
	text := func(t time.Time) string {
		if t.IsZero() {
			return "none"
		}
		return t.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")
	}
	return g, nil, fmt.Errorf("%w: %s; the nearest before it: %s; the nearest after it: %s", ErrNoMoment, text(to),
		text(before), text(after))
}

// segmentSet is the object segments of a store that is not open.
type segmentSet interface {
	// size returns the size and the key of a segment. It returns fs.ErrNotExist if there is none.
	size(id uint64) (n int64, key string, err error)
	// replace makes a segment that holds content.
	replace(id uint64, content []byte) error
	// add adds content at the end of a segment, which is at n.
	add(id uint64, n int64, content []byte) error
}

// headroom is the free space that a replay leaves on the devices of some folders. The engine ends the process when a
// device is full.
type headroom struct {
	fs    env.FS
	dirs  []string
	floor func(total uint64) uint64
	// unchecked is the number of bytes that were written since the space was looked at.
	unchecked int
}

const (
	// spare is the space above the floor for what the engine writes after a check: four memtables and their log.
	spare = 128 << 20
	// checkEvery is the number of bytes between two checks.
	checkEvery = 1 << 20
)

// has returns store.ErrNoSpace if there is too little room for n more bytes.
func (h *headroom) has(n uint64) error {
	for _, dir := range h.dirs {
		u, err := h.fs.GetDiskUsage(dir)
		if err != nil {
			continue // the file system cannot report its usage
		}
		if left := h.floor(u.TotalBytes) + spare; u.AvailBytes < left+n {
			return fmt.Errorf("%w: the restore to a moment needs %d bytes, %s has %d, of which %d stay free",
				store.ErrNoSpace, n, dir, u.AvailBytes, left)
		}
	}
	return nil
}

// write checks from time to time that there is room. It is called before n bytes are written.
func (h *headroom) write(n int) error {
	if h.unchecked += n; h.unchecked < checkEvery {
		return nil
	}
	h.unchecked = 0
	return h.has(checkEvery)
}

// replaying receives what an archive replays. It implements archive.Target.
type replaying struct {
	segmentSet
	room  *headroom
	apply func(batch []byte) error
}

// Batch implements archive.Target.
func (p *replaying) Batch(b []byte) error {
	if err := p.room.write(len(b)); err != nil {
		return err
	}
	return p.apply(b)
}

// Segment implements archive.Target.
func (p *replaying) Segment(id uint64, key string, from int64, content []byte) error {
	if err := p.room.write(len(content)); err != nil {
		return err
	}
	n, have, err := p.size(id)
	none := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !none:
		return fmt.Errorf("backup: restore segment %d: %w", id, err)
	case from == 0 && (none || have != key):
		err = p.replace(id, content)
	case none || have != key:
		return nil // the segment was removed before the backup was taken
	case from > n:
		return fmt.Errorf("%w: segment %d has %d bytes, the archive continues at %d", ErrDamaged, id, n, from)
	case from+int64(len(content)) > n:
		err = p.add(id, n, content[n-from:])
	default:
		return nil // the backup has it
	}
	if err != nil {
		return fmt.Errorf("backup: restore segment %d: %w", id, err)
	}
	return nil
}

// replay brings the store with the given folders from a generation to a moment, and leaves headroom.
func replay(ctx context.Context, e *env.Env, a *archive.Archive, g *Generation, to time.Time, at store.Places,
	o store.Options, into segmentSet, room *headroom, tell func(Progress)) error {
	o.IndexDir, o.SegmentsDir, o.LogDir = at.Index, at.Segments, ""
	return store.Replay(e, at.Data, o, func(apply func([]byte) error) error {
		return a.Replay(ctx, g.Archive, to, &replaying{into, room, apply}, progressOf(tell, "replay"))
	})
}

// segmentFiles are segments as files in a folder.
type segmentFiles struct {
	fs  env.FS
	dir string
}

func (s *segmentFiles) path(id uint64) string { return s.fs.PathJoin(s.dir, object.FileName(id)) }

func (s *segmentFiles) size(id uint64) (int64, string, error) {
	f, err := s.fs.Open(s.path(id))
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return segmentSize(f)
}

func segmentSize(f env.File) (int64, string, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	key, err := archive.SegmentKey(f)
	return info.Size(), key, err
}

func (s *segmentFiles) replace(id uint64, content []byte) error {
	return writeFile(s.fs, s.path(id), content)
}

func (s *segmentFiles) add(id uint64, n int64, content []byte) error {
	return appendFile(s.fs, s.path(id), n, content)
}

// appendFile writes content to a file at n, durably.
func appendFile(files env.FS, path string, n int64, content []byte) error {
	f, err := files.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, n)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// ScratchName is the folder in a data folder in which OpenMoment makes a store.
const ScratchName = "moment"

// OpenMoment opens the store as of a moment, like Open does for a generation. What the archive adds to the generation
// is written to a folder within the data folder of the store beside; release closes the store and removes it. ErrBusy
// means that another OpenMoment uses the folder, store.ErrNoSpace that the floor of beside does not leave enough room.
func OpenMoment(ctx context.Context, e *env.Env, dir string, keys blob.Keys, beside *store.Store, to time.Time,
	o store.Options, tell func(Progress)) (s *store.Store, g Generation, release func() error, err error) {
	r, err := openRepository(ctx, e, dir, keys, false)
	if err != nil {
		return nil, g, nil, err
	}
	g, a, err := r.moment(ctx, to)
	if err != nil {
		return nil, g, nil, err
	}
	data := beside.Places().Data
	room := &headroom{fs: e.FS, dirs: []string{data}, floor: beside.FloorOf}
	size, err := a.Size(g.Archive, to)
	if err == nil {
		err = room.has(uint64(size))
	}
	if err != nil {
		return nil, g, nil, err
	}
	lock, err := e.FS.Lock(e.FS.PathJoin(data, ScratchName+".lock"))
	if err != nil {
		return nil, g, nil, fmt.Errorf("%w: another restore to a moment is under way: %w", ErrBusy, err)
	}
	scratch := e.FS.PathJoin(data, ScratchName)
	clear := func() error { return errors.Join(e.FS.RemoveAll(scratch), lock.Close()) }
	if s, err = r.openMoment(ctx, a, &g, to, scratch, o, room, tell); err != nil {
		return nil, g, nil, errors.Join(err, clear())
	}
	return s, g, func() error { return errors.Join(s.Close(), clear()) }, nil
}

func (r *repository) openMoment(ctx context.Context, a *archive.Archive, g *Generation, to time.Time, scratch string,
	o store.Options, room *headroom, tell func(Progress)) (*store.Store, error) {
	if err := r.env.FS.RemoveAll(scratch); err != nil {
		return nil, fmt.Errorf("backup: open: %w", err)
	}
	m, err := r.mount(ctx, g, r.env.FS, scratch)
	if err != nil {
		return nil, err
	}
	inside := *r.env
	inside.FS = m
	o = mountedOptions(o)
	at := store.PlacesOf(m, scratch, o)
	tails := &mountedSegments{m: m, dir: at.Segments, tails: m.PathJoin(scratch, "tails")}
	if err := m.MkdirAll(tails.tails, 0o700); err != nil {
		return nil, fmt.Errorf("backup: open: %w", err)
	}
	if err := replay(ctx, &inside, a, g, to, at, o, tails, room, tell); err != nil {
		return nil, err
	}
	s, err := store.Open(&inside, scratch, o)
	if err != nil {
		return nil, fmt.Errorf("backup: open generation %d as of %s: %w", g.Number, to, err)
	}
	return s, nil
}

// mountedSegments are the segments of a mounted generation. What is added to one is in a file beside.
type mountedSegments struct {
	m          *mounted
	dir, tails string
}

func (s *mountedSegments) path(id uint64) string { return s.m.PathJoin(s.dir, object.FileName(id)) }

func (s *mountedSegments) size(id uint64) (int64, string, error) {
	f, err := s.m.Open(s.path(id))
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return segmentSize(f)
}

func (s *mountedSegments) replace(id uint64, content []byte) error {
	s.m.drop(s.path(id))
	return writeFile(s.m.FS, s.path(id), content)
}

func (s *mountedSegments) add(id uint64, n int64, content []byte) error {
	file, ok := s.m.file(s.path(id))
	if !ok {
		return appendFile(s.m.FS, s.path(id), n, content)
	}
	piece := Piece{Name: strconv.FormatUint(id, 10) + "-" + strconv.FormatInt(n, 10), Size: int64(len(content)),
		dir: s.tails}
	if err := writeFile(s.m.FS, s.m.PathJoin(s.tails, piece.Name), content); err != nil {
		return err
	}
	file.Size, file.Pieces = file.Size+piece.Size, append(slices.Clone(file.Pieces), piece)
	s.m.set(s.path(id), file)
	return nil
}
