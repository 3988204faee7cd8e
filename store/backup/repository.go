package backup

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/archive"
)

// Generation is one backup: the store at one moment.
type Generation struct {
	Number uint64 `json:"number"`
	// Program is the version that wrote it. Format is the format of the store.
	Program     string `json:"program"`
	Format      uint64 `json:"format"`
	Incarnation uint64 `json:"incarnation"`
	// Horizon is a sequence up to which the generation contains everything.
	Horizon uint64    `json:"horizon"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	// Bytes is the size of what it restores, Copied the number of bytes that the backup had to copy.
	Bytes  uint64 `json:"bytes"`
	Copied uint64 `json:"copied"`
	Files  []File `json:"files"`
	// Archive is its place in the archive of the log, nil if the store was not archived.
	Archive *archive.Point `json:"archive,omitempty"`
	// Checked is the result of its last check.
	Checked Checked `json:"-"`
	// Damage is set if the generation cannot be used, because its manifest is unusable or its check failed.
	Damage error `json:"-"`

	// unread means that the manifest is unusable, so its pieces are not known.
	unread bool
}

// File is a file of the store, made of pieces in sequence.
type File struct {
	// Path is "index/…", "segments/…" or "extra/…".
	Path   string  `json:"path"`
	Size   int64   `json:"size"`
	Pieces []Piece `json:"pieces,omitempty"`
}

// Piece is a file of the backup folder.
type Piece struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	// dir is the folder of a piece that is not in the backup folder.
	dir string
}

const (
	folderIndex    = "index"
	folderSegments = "segments"
	folderExtra    = "extra"

	piecesName = "pieces"
	lockName   = "LOCK"
	prefix     = "generation-"
	magic      = "doublet-backup 1 "
	tmp        = "tmp-"
)

// repository is an open backup folder.
type repository struct {
	env  *env.Env
	dir  string
	lock io.Closer
	// have holds the names of the existing pieces, sorted.
	have []string
	// sizes holds the lengths of pieces according to the generations.
	sizes map[string]int64
	// bad holds the pieces that a check found damaged.
	bad map[string]bool
	// generations holds those with a manifest, including damaged ones, in ascending order.
	generations []Generation
}

// openRepository opens dir. With change, it creates dir if needed, and locks it.
func openRepository(e *env.Env, dir string, change bool) (*repository, error) {
	r := &repository{env: e, dir: dir}
	err := error(nil)
	if change {
		err = r.make()
	}
	if err == nil {
		err = r.read()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *repository) make() (err error) {
	fs := r.env.FS
	if err := fs.MkdirAll(r.pieces(), 0o700); err != nil {
		return fmt.Errorf("backup: make %s: %w", r.dir, err)
	}
	if r.lock, err = fs.Lock(fs.PathJoin(r.dir, lockName)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBusy, r.dir, err)
	}
	for _, d := range []string{fs.PathDir(r.dir), r.dir} {
		if err := syncDir(fs, d); err != nil {
			return fmt.Errorf("backup: make %s: %w", r.dir, err)
		}
	}
	return nil
}

func (r *repository) close() error {
	if r.lock == nil {
		return nil
	}
	return r.lock.Close()
}

func (r *repository) pieces() string { return r.env.FS.PathJoin(r.dir, piecesName) }

func (r *repository) path(number uint64) string {
	return r.env.FS.PathJoin(r.dir, fmt.Sprintf("%s%06d", prefix, number))
}

func (r *repository) read() error {
	names, err := r.env.FS.List(r.dir)
	if err != nil {
		return fmt.Errorf("backup: list %s: %w", r.dir, err)
	}
	left := int64(maxManifests)
	for _, name := range names {
		digits, ok := strings.CutPrefix(name, prefix)
		n, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		g, err := r.manifest(r.env.FS.PathJoin(r.dir, name), &left)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		g.Number, g.Damage, g.unread = n, err, err != nil
		if g.Checked = r.marked(n, &left); !g.unread {
			g.Damage = g.Checked.damage()
		}
		r.generations = append(r.generations, g)
	}
	slices.SortFunc(r.generations, func(a, b Generation) int { return cmp.Compare(a.Number, b.Number) })
	r.sizes, r.bad = make(map[string]int64), make(map[string]bool)
	for _, g := range r.generations {
		for _, name := range g.Checked.Bad {
			r.bad[name] = true
		}
		for _, f := range g.Files {
			for _, p := range f.Pieces {
				r.sizes[p.Name] = p.Size
			}
		}
	}
	r.have, err = r.env.FS.List(r.pieces())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backup: list %s: %w", r.dir, err)
	}
	slices.Sort(r.have)
	return nil
}

func (r *repository) last() uint64 {
	if n := len(r.generations); n > 0 {
		return r.generations[n-1].Number
	}
	return 0
}

// at returns a generation; 0 is the latest one without damage.
func (r *repository) at(number uint64) (Generation, error) {
	for _, g := range slices.Backward(r.generations) {
		switch {
		case g.Number == number:
			return g, g.Damage
		case number == 0 && g.Damage == nil:
			return g, nil
		}
	}
	if last := len(r.generations) - 1; number == 0 && last >= 0 {
		return Generation{}, fmt.Errorf("%w: %s has no complete generation; the latest: %w", ErrNotFound, r.dir,
			r.generations[last].Damage)
	}
	if number == 0 {
		return Generation{}, fmt.Errorf("%w: %s has no generation", ErrNotFound, r.dir)
	}
	return Generation{}, fmt.Errorf("%w: %d in %s", ErrNotFound, number, r.dir)
}

// readable is at for a check: it also returns a generation that failed a check.
func (r *repository) readable(number uint64) (Generation, error) {
	for _, g := range slices.Backward(r.generations) {
		if !g.unread && (number == 0 || g.Number == number) {
			return g, nil
		}
	}
	return r.at(number)
}

// pieceName returns the name of a piece: key, offset in the original, SHA-256.
func pieceName(key string, from int64, sum []byte) string {
	return fmt.Sprintf("%s-%d-%x", key, from, sum)
}

// find returns the longest piece of at most limit bytes that begins at an offset of an original.
func (r *repository) find(key string, from, limit int64) (best Piece, ok bool) {
	head := fmt.Sprintf("%s-%d-", key, from)
	i, _ := slices.BinarySearch(r.have, head)
	for ; i < len(r.have) && strings.HasPrefix(r.have[i], head); i++ {
		name := r.have[i]
		sum := name[len(head):]
		info, err := r.env.FS.Stat(r.env.FS.PathJoin(r.pieces(), name))
		if err != nil || len(sum) != 2*sha256.Size || info.Size() > limit || info.Size() <= best.Size ||
			!r.agrees(name, info.Size()) {
			continue
		}
		best, ok = Piece{Name: name, Size: info.Size(), SHA256: sum}, true
	}
	return best, ok
}

// agrees reports whether a piece has the length that generations give for it and was not found damaged by a check. A
// truncated piece must not be reused.
func (r *repository) agrees(name string, size int64) bool {
	want, ok := r.sizes[name]
	return (!ok || want == size) && !r.bad[name]
}

// piece copies the missing part of a file.
func (r *repository) piece(c *copier, worker int, f *planned) (p Piece, err error) {
	src, err := r.env.FS.Open(f.source)
	if err != nil {
		return p, err
	}
	defer src.Close()
	path := r.env.FS.PathJoin(r.pieces(), tmp+strconv.Itoa(worker))
	dst, err := create(r.env.FS, path)
	if err != nil {
		return p, err
	}
	n := f.Size - f.from
	sum, err := c.stream(src, f.from, n, dst, f.Path)
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return p, err
	}
	p = Piece{Name: pieceName(f.key, f.from, sum), Size: n, SHA256: hex.EncodeToString(sum)}
	return p, r.env.FS.Rename(path, r.env.FS.PathJoin(r.pieces(), p.Name))
}

// commit writes a generation. It makes the names of the pieces durable first, then the manifest.
func (r *repository) commit(g *Generation) error {
	if err := syncDir(r.env.FS, r.pieces()); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	body, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("backup: manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	text := append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...)
	path := r.env.FS.PathJoin(r.dir, tmp+"manifest")
	if err := writeFile(r.env.FS, path, text); err != nil {
		return fmt.Errorf("backup: write manifest: %w", err)
	}
	if err := r.env.FS.Rename(path, r.path(g.Number)); err != nil {
		return fmt.Errorf("backup: write manifest: %w", err)
	}
	if err := syncDir(r.env.FS, r.dir); err != nil {
		return fmt.Errorf("backup: write manifest: %w", err)
	}
	r.generations = append(r.generations, *g)
	return nil
}

func writeFile(fs env.FS, path string, b []byte) error {
	f, err := create(fs, path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// room refuses a backup that would leave less free space than the floor on the device of the backup folder. A partial
// backup is useless, and the data may be on the same device.
func (r *repository) room(need uint64, floor func(total uint64) uint64) error {
	u, err := r.env.FS.GetDiskUsage(r.dir)
	if err != nil {
		return nil // the file system cannot report its usage
	}
	if left := floor(u.TotalBytes); u.AvailBytes < need || u.AvailBytes-need < left {
		return fmt.Errorf("%w: the backup needs %d bytes, %s has %d, of which %d stay free", store.ErrNoSpace, need,
			r.dir, u.AvailBytes, left)
	}
	return nil
}

// collectGarbage removes pieces that no generation references. While there is a damaged manifest it removes nothing,
// because the pieces of that generation are not known.
func (r *repository) collectGarbage() (files int, freed int64, err error) {
	named := map[string]bool{}
	for _, g := range r.generations {
		if g.unread {
			return 0, 0, nil
		}
		for _, f := range g.Files {
			for _, p := range f.Pieces {
				named[p.Name] = true
			}
		}
	}
	names, err := r.env.FS.List(r.pieces())
	if err != nil {
		return 0, 0, fmt.Errorf("backup: list %s: %w", r.dir, err)
	}
	for _, name := range names {
		if named[name] {
			continue
		}
		path := r.env.FS.PathJoin(r.pieces(), name)
		info, err := r.env.FS.Stat(path)
		if err != nil {
			return files, freed, fmt.Errorf("backup: %w", err)
		}
		if err := r.env.FS.Remove(path); err != nil {
			return files, freed, fmt.Errorf("backup: remove: %w", err)
		}
		files, freed = files+1, freed+info.Size()
	}
	return files, freed, nil
}
