package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/archive"
	"doublet/store/blob"
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

// Piece is a blob of the backup place.
type Piece struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Stored is the size of the blob if it is encrypted. Size and SHA256 are those of the plain text.
	Stored int64 `json:"stored,omitempty"`

	// dir is the folder of a piece that is not in the backup place.
	dir string
}

// stored returns the size of the blob in bytes.
func (p *Piece) stored() int64 { return cmp.Or(p.Stored, p.Size) }

const (
	folderIndex    = "index"
	folderSegments = "segments"
	folderExtra    = "extra"

	piecesName = "pieces"
	lockName   = "LOCK"
	prefix     = "generation-"
	magic      = "doublet-backup 1 "
)

// repository is an open backup place.
type repository struct {
	env   *env.Env
	place blob.Place
	keys  blob.Keys
	// dir is the name of the place.
	dir  string
	lock io.Closer
	// have holds the existing pieces in ascending order of their names.
	have []blob.Info
	// sizes holds the stored lengths of pieces according to the generations.
	sizes map[string]int64
	// bad holds the pieces that a check found damaged.
	bad map[string]bool
	// generations holds those with a manifest, including damaged ones, in ascending order.
	generations []Generation
}

// openRepository opens the place that dir names. With change, it creates a folder if needed, and locks the place.
func openRepository(ctx context.Context, e *env.Env, dir string, keys blob.Keys, change bool) (*repository, error) {
	place, err := blob.Open(e, dir)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	r := &repository{env: e, place: place, keys: keys, dir: dir}
	if change {
		if r.lock, err = place.Lock(ctx); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrBusy, r.dir, err)
		}
	}
	if err := r.read(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *repository) close() error {
	if r.lock == nil {
		return nil
	}
	return r.lock.Close()
}

// name returns the name of a manifest.
func (r *repository) name(number uint64) string { return fmt.Sprintf("%s%06d", prefix, number) }

// listPieces lists the pieces, with their names within their folder, in ascending order.
func (r *repository) listPieces(ctx context.Context) ([]blob.Info, error) {
	list, err := r.place.List(ctx, piecesName+"/")
	if err != nil {
		return nil, fmt.Errorf("backup: list %s: %w", r.dir, err)
	}
	for i := range list {
		list[i].Name = strings.TrimPrefix(list[i].Name, piecesName+"/")
	}
	return list, nil
}

func (r *repository) read(ctx context.Context) error {
	list, err := r.place.List(ctx, prefix)
	if err != nil {
		return fmt.Errorf("backup: list %s: %w", r.dir, err)
	}
	left := int64(maxManifests)
	for _, b := range list {
		n, err := strconv.ParseUint(strings.TrimPrefix(b.Name, prefix), 10, 64)
		if err != nil || b.Name != r.name(n) {
			continue
		}
		g, err := r.manifest(ctx, b.Name, &left)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		g.Number, g.Damage, g.unread = n, err, err != nil
		if g.Checked, err = r.marked(ctx, n, &left); err != nil {
			return err
		}
		if !g.unread {
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
				r.sizes[p.Name] = p.stored()
			}
		}
	}
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

// pieceName returns the name of a piece of n bytes: key, offset in the original, SHA-256. That of an encrypted one also
// has its length and the recipients, so that the next backup uses it only if it encrypts to the same ones.
func (r *repository) pieceName(key string, from, n int64, sum []byte) string {
	name := fmt.Sprintf("%s-%d-%x", key, from, sum)
	if r.keys.Seals() {
		name += fmt.Sprintf(".%d.%s.age", n, r.keys.Tag())
	}
	return name
}

// find returns the longest piece of at most limit bytes that begins at an offset of an original.
func (r *repository) find(key string, from, limit int64) (best Piece, ok bool) {
	head := fmt.Sprintf("%s-%d-", key, from)
	i, _ := slices.BinarySearchFunc(r.have, head, func(b blob.Info, name string) int {
		return strings.Compare(b.Name, name)
	})
	for ; i < len(r.have) && strings.HasPrefix(r.have[i].Name, head); i++ {
		if p, usable := r.usable(r.have[i], head); usable && p.Size <= limit && p.Size > best.Size {
			best, ok = p, true
		}
	}
	return best, ok
}

// usable returns an existing piece whose name begins with head. ok is false if a backup must not use it: a truncated
// one, one that a check found damaged, one that is not encrypted to the recipients.
func (r *repository) usable(b blob.Info, head string) (p Piece, ok bool) {
	sum, rest, sealed := strings.Cut(b.Name[len(head):], ".")
	raw, err := hex.DecodeString(sum)
	want, known := r.sizes[b.Name]
	if err != nil || len(raw) != sha256.Size || sealed != r.keys.Seals() || r.bad[b.Name] || known && want != b.Size {
		return p, false
	}
	p = Piece{Name: b.Name, Size: b.Size, SHA256: sum}
	if sealed {
		digits, tag, _ := strings.Cut(rest, ".")
		p.Stored = b.Size
		p.Size, err = strconv.ParseInt(digits, 10, 64)
		ok = err == nil && p.Size > 0 && tag == r.keys.Tag()+".age" && r.keys.SealedSize(p.Size) == b.Size
		return p, ok
	}
	return p, true
}

// piece copies the missing part of a file, and returns the SHA-256 of the blob.
func (r *repository) piece(c *copier, f *planned) (p Piece, sent []byte, err error) {
	src, err := f.open()
	if err != nil {
		return p, nil, err
	}
	defer src.Close()
	n := f.Size - f.from
	plain := newDigest(&part{c: c, f: src, from: f.from, size: n, name: f.Path})
	stored := newDigest(r.keys.SealSource(plain))
	size := r.keys.SealedSize(n)
	err = r.place.Write(c.ctx, piecesName, stored, size, func() string {
		sum := plain.h.Sum(nil)
		p = Piece{Name: r.pieceName(f.key, f.from, n, sum), Size: n, SHA256: hex.EncodeToString(sum)}
		return p.Name
	})
	if size != n {
		p.Stored = size
	}
	return p, stored.h.Sum(nil), err
}

// commit writes a generation. It makes the names of the pieces durable first, then the manifest.
func (r *repository) commit(ctx context.Context, g *Generation) error {
	if err := r.place.Sync(ctx, piecesName); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	body, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("backup: manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	text := append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...)
	if err := r.place.Put(ctx, r.name(g.Number), text); err != nil {
		return fmt.Errorf("backup: write manifest: %w", err)
	}
	r.generations = append(r.generations, *g)
	return nil
}

// room refuses a backup that would leave less free space than the floor on the device of the backup folder. A partial
// backup is useless, and the data may be on the same device.
func (r *repository) room(need uint64, floor func(total uint64) uint64) error {
	u, err := r.place.Usage()
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
func (r *repository) collectGarbage(ctx context.Context) (files int, freed int64, err error) {
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
	list, err := r.listPieces(ctx)
	if err != nil {
		return 0, 0, err
	}
	var names []string
	for _, b := range list {
		if !named[b.Name] {
			names, freed = append(names, piecesName+"/"+b.Name), freed+b.Size
		}
	}
	if err := r.place.Remove(ctx, names...); err != nil {
		return 0, 0, fmt.Errorf("backup: remove: %w", err)
	}
	return len(names), freed, nil
}
