package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"
	"doublet/store/tier"
	"doublet/test/long"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// shaky is a place whose requests fail at random, and at one of which the power of the server may go.
type shaky struct {
	blob.Place
	rng *rand.Rand
	// percent of the requests fail.
	percent int
	// left is the number of requests until cut is called; negative is never. After it every request fails.
	left int
	cut  func()
}

// broken is the fault of one request.
type broken int

const (
	whole broken = iota
	failed
	changed
)

// request returns what happens to a request.
func (s *shaky) request() (broken, error) {
	away := fmt.Errorf("%w: 503", blob.ErrAway)
	if s.left == 0 {
		return failed, away
	}
	if s.left--; s.left == 0 {
		s.cut()
		if s.rng.IntN(2) == 0 {
			return failed, away
		}
		return whole, nil
	}
	switch n := s.rng.IntN(100); {
	case n < s.percent:
		return failed, away
	case n < s.percent*4/3:
		return changed, nil
	}
	return whole, nil
}

// Write implements blob.Place.
func (s *shaky) Write(ctx context.Context, dir string, from blob.Source, size int64, name func() string) error {
	what, err := s.request()
	if err != nil && s.rng.IntN(2) == 0 {
		return err // else it arrives and the answer is lost
	}
	if what == changed {
		from = &garbled{from}
	}
	return errors.Join(s.Place.Write(ctx, dir, from, size, name), err)
}

type garbled struct{ blob.Source }

// Read implements blob.Source.
func (g *garbled) Read(p []byte) (int, error) {
	b := make([]byte, len(p))
	n, err := g.Source.Read(b)
	if n > 0 {
		b[n/2] ^= 1
	}
	copy(p, b[:n])
	return n, err
}

// Remove implements blob.Place.
func (s *shaky) Remove(ctx context.Context, names ...string) error {
	if _, err := s.request(); err != nil {
		return err
	}
	return s.Place.Remove(ctx, names...)
}

// Open implements blob.Place.
func (s *shaky) Open(ctx context.Context, name string) (blob.Reader, error) {
	if _, err := s.request(); err != nil {
		return nil, err
	}
	r, err := s.Place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &shakyReader{r, s}, nil
}

type shakyReader struct {
	blob.Reader
	s *shaky
}

// ReadAt implements blob.Reader.
func (r *shakyReader) ReadAt(p []byte, off int64) (int, error) {
	what, err := r.s.request()
	if err != nil {
		return 0, err
	}
	n, err := r.Reader.ReadAt(p, off)
	if what == changed && n > 0 {
		p[n/2] ^= 1
	}
	return n, err
}

// tierModel does random operations on a store with copies of its segments, and on a map.
type tierModel struct {
	t     *testing.T
	f     *env.Fixture
	rng   *rand.Rand
	place *shaky
	// encrypted encrypts the files of the store.
	encrypted bool

	s     *Store
	db    note.DatabaseID
	mails map[note.ID][]byte
	// cuts counts power cuts, refused reads that failed.
	cuts, refused int
}

func (m *tierModel) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *tierModel) options() Options {
	o := crashOptions()
	copier := func(e *env.Env, keys blob.Keys) Copier { return tier.New(e, m.place, keys, 0) }
	o.Tier = &Tier{Copier: copier, Cache: m.rng.Int64N(2) * 300_000}
	return o
}

func (m *tierModel) open() {
	m.t.Helper()
	m.place.percent, m.place.left = 0, -1
	e := m.f.Env
	if m.encrypted {
		e, _ = EncryptedEnv(m.t, e)
	}
	var err error
	m.s, err = Open(e, "data", m.options())
	m.must(err)
}

func newTierModel(t *testing.T, seed uint64) *tierModel {
	t.Helper()
	files := vfs.NewMem()
	m := &tierModel{t: t, f: env.Test(t), rng: rand.New(rand.NewPCG(seed, 3)), encrypted: seed%2 == 1,
		mails: map[note.ID][]byte{}}
	m.must(files.MkdirAll("place", 0o700))
	m.place = &shaky{Place: blob.Folder(files, "place"), rng: m.rng}
	m.open()
	var err error
	m.db, err = m.s.CreateDatabase(note.System, Create{Title: "a", Kind: "a"})
	m.must(err)
	return m
}

// newRoomyModel returns a model that evicts nothing.
func newRoomyModel(t *testing.T) *tierModel {
	t.Helper()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
	return m
}

// failing calls fn while the place fails.
func (m *tierModel) failing(fn func()) {
	m.place.percent = m.rng.IntN(40)
	fn()
	m.place.percent = 0
	m.f.Time.Advance(time.Minute) // the pause after a failure ends
}

func (m *tierModel) create() {
	body := make([]byte, 40_000+m.rng.IntN(90_000))
	for i := range body {
		body[i] = "abcdefghijklmnopqrstuvwxyz0123456789 -+."[m.rng.IntN(40)]
	}
	raw := slices.Concat([]byte("Subject: a\r\n\r\n"), body)
	m.mails[createMail(m.t, m.s, m.db, raw)] = raw
}

func (m *tierModel) some() (id note.ID, ok bool) {
	ids := slices.Sorted(maps.Keys(m.mails))
	if len(ids) == 0 {
		return 0, false
	}
	return ids[m.rng.IntN(len(ids))], true
}

func (m *tierModel) destroy() {
	if id, ok := m.some(); ok {
		m.remove(id)
	}
}

func (m *tierModel) remove(id note.ID) {
	m.must(m.s.Update(context.Background(), note.System, []note.DatabaseID{m.db}, func(tx *Tx) error {
		w, err := tx.Database(m.db)
		if err == nil {
			err = w.Destroy(id)
		}
		return err
	}))
	delete(m.mails, id)
}

// read reads a message. Only if the place fails may it fail: as away, or as damaged if bytes were changed twice.
func (m *tierModel) read(id note.ID, may bool) {
	m.t.Helper()
	raw := m.mails[id]
	err := m.s.Read(context.Background(), note.System, m.db, func(r *Reader) error { return readBack(r, id, raw) })
	if err != nil && !(may && (errors.Is(err, ErrAway) || errors.Is(err, ErrDamaged))) {
		m.t.Fatalf("note %d: %v", id, err)
	}
	if errors.Is(err, ErrAway) {
		m.refused++
	}
}

// upkeep copies, evicts, sweeps and rewrites. Only if the place fails may it fail.
func (m *tierModel) upkeep(may bool) {
	m.t.Helper()
	ctx := context.Background()
	m.must(m.s.Objects().Seal())
	ship := m.s.ShipSegments(ctx)
	_, err := m.s.Sweep(ctx, 1000)
	_, rewrite := m.s.Rewrite(ctx)
	if m.place.left == 0 {
		return // the power is off
	}
	m.must(err)
	if !may {
		m.must(errors.Join(ship, rewrite))
	}
	away := errors.Is(rewrite, ErrAway) || errors.Is(rewrite, object.ErrAway)
	if !away && !errors.Is(rewrite, object.ErrDamaged) {
		m.must(rewrite)
	}
}

// cut cuts the power at a random request to the place.
func (m *tierModel) cut() {
	var after *env.Fixture
	m.place.left = 1 + m.rng.IntN(40)
	m.place.cut = func() { after = m.f.Crash(m.rng.IntN(3)*50, m.rng.Uint64()) }
	m.upkeep(true)
	if after == nil {
		after = m.f.Crash(m.rng.IntN(3)*50, m.rng.Uint64())
	} else {
		m.cuts++
	}
	m.place.left = 0
	_ = m.s.Close()
	m.f = after
	m.open()
}

// lose deletes a segment file that has a copy, while the store is closed.
func (m *tierModel) lose() {
	lost := m.copied()
	m.must(m.s.Close())
	for _, id := range lost {
		m.must(m.f.FS.Remove("data/objects/" + object.FileName(id)))
	}
	m.open()
}

func (m *tierModel) step() {
	switch n := m.rng.IntN(25); {
	case n < 8:
		m.create()
	case n < 12:
		m.destroy()
	case n < 14:
		m.failing(func() {
			for range 3 {
				if id, ok := m.some(); ok {
					m.read(id, true)
				}
			}
			m.create() // never waits for the place
		})
	case n < 16:
		m.failing(func() { m.upkeep(true) })
	case n < 18:
		m.upkeep(false)
	case n < 20:
		m.cut()
	case n < 21:
		m.lose()
	case n < 22:
		m.must(m.s.Close())
		m.open()
	case n < 23:
		m.damage(m.copied())
	default:
		if id, ok := m.some(); ok {
			m.read(id, false)
		}
	}
}

// TestTiers does random operations with failures of the place and power cuts. Every message can be read in the end, and
// the place has the copies of the segments and nothing else.
func TestTiers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := newTierModel(t, seed)
			evicted := 0
			for range long.Pick(120, 600) {
				m.step()
				evicted = max(evicted, m.s.Objects().Stats().Away)
			}
			m.must(m.s.Close())
			m.open()
			for id := range m.mails {
				m.read(id, false)
			}
			for range 3 { // segments that are copied, rewritten, and whose copies are removed
				m.upkeep(false)
			}
			m.must(m.s.ShipSegments(context.Background()))
			m.sameNames()
			m.must(m.s.Close())
			if evicted == 0 || m.cuts == 0 || m.refused == 0 {
				t.Errorf("%d segments evicted, %d power cuts, %d reads refused", evicted, m.cuts, m.refused)
			}
		})
	}
}

// sameNames compares what is at the place with the segments.
func (m *tierModel) sameNames() {
	m.t.Helper()
	var want, have []string
	for _, seg := range m.s.Objects().Segments() {
		if c, ok := m.s.tiers.row(seg.ID); ok {
			want = append(want, c.Name)
		}
	}
	list, err := m.place.List(context.Background(), "segments/")
	m.must(err)
	for _, b := range list {
		if !strings.Contains(b.Name, "tmp-") {
			have = append(have, b.Name)
		}
	}
	if !slices.Equal(have, want) || len(have) != len(m.s.tiers.rows) {
		m.t.Errorf("at the place: %v, want %v", have, want)
	}
}

// evictAll returns a store with some messages whose segments are all evicted.
func evictAll(t *testing.T, o func(*Options)) *tierModel {
	t.Helper()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(o)
	for range 3 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.must(m.s.ShipSegments(context.Background()))
	if st := m.s.Objects().Stats(); st.Away != 3 || st.Bytes != 0 {
		t.Fatalf("%+v", st)
	}
	return m
}

// reopen opens the store with options that o changes.
func (m *tierModel) reopen(o func(*Options)) {
	m.t.Helper()
	opt := m.options()
	opt.Tier.Cache = 0
	if o != nil {
		o(&opt)
	}
	var err error
	m.s, err = Open(m.f.Env, "data", opt)
	m.must(err)
}

// TestOpenWithoutPlace opens a store with evicted segments without their place: it is refused and stays as it is.
func TestOpenWithoutPlace(t *testing.T) {
	t.Parallel()
	m := evictAll(t, nil)
	m.must(m.s.Close())
	if _, err := Open(m.f.Env, "data", crashOptions()); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "data.segments_archive") {
		t.Fatal(err)
	}
	m.open()
	for id := range m.mails {
		m.read(id, false)
	}
	m.must(m.s.Close())
}

// TestAwayIsMended reads while the place is away. A mate that has the object helps; without one the object is not taken
// for lost.
func TestAwayIsMended(t *testing.T) {
	t.Parallel()
	var mate map[note.Digest][]byte
	var m *tierModel
	m = evictAll(t, func(o *Options) {
		o.Mend = func(d note.Digest) error {
			if mate[d] == nil {
				return ErrNotFound
			}
			return m.s.MendObject(context.Background(), ObjectRef{d, uint64(len(mate[d]))}, mate[d])
		}
	})
	defer m.s.Close()
	m.place.left = 0
	for id := range m.mails {
		m.read(id, true)
	}
	if m.refused != len(m.mails) {
		t.Errorf("%d of %d reads were refused", m.refused, len(m.mails))
	}
	mate = map[note.Digest][]byte{}
	for _, raw := range m.mails {
		body := raw[len("Subject: a\r\n\r\n"):]
		mate[note.Digest(object.Sum(body))] = body
	}
	for id := range m.mails {
		m.read(id, false)
	}
}

// TestLostCopy loses and changes copies before their segments are evicted. They are written again.
func TestLostCopy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	for range 2 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.must(m.s.ShipSegments(ctx))
	list, err := m.place.List(ctx, "")
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	m.must(errors.Join(m.place.Remove(ctx, list[0].Name), m.place.Put(ctx, list[1].Name, make([]byte, list[1].Size))))
	m.must(m.s.Close())
	m.reopen(nil)
	m.must(m.s.ShipSegments(ctx))
	if n := m.s.Objects().Stats().Away; n != 0 {
		t.Fatalf("%d segments were evicted without a copy", n)
	}
	m.must(m.s.ShipSegments(ctx))
	if n := m.s.Objects().Stats().Away; n != 2 {
		t.Errorf("%d segments were evicted", n)
	}
	for id := range m.mails {
		m.read(id, false)
	}
	m.must(m.s.Close())
}

// TestEvictionOrder evicts what was read least recently, and nothing while a backup copies segments or the archive of
// the log needs them.
func TestEvictionOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	var ids []note.ID
	for range 3 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	ids = slices.Sorted(maps.Keys(m.mails))
	m.must(m.s.ShipSegments(ctx))
	m.read(ids[2], false)
	m.read(ids[0], false)
	m.s.opt.Tier.Cache = m.s.Objects().Stats().Bytes - 1
	at, err := m.s.Capture(ctx)
	m.must(err)
	m.must(m.s.ShipSegments(ctx))
	if n := m.s.Objects().Stats().Away; n != 0 {
		t.Errorf("%d segments were evicted during a backup", n)
	}
	m.must(at.Release())
	var away []uint64
	for range 3 {
		m.must(m.s.ShipSegments(ctx))
		for _, seg := range m.s.Objects().Segments() {
			if seg.Away && !slices.Contains(away, seg.ID) {
				away = append(away, seg.ID)
			}
		}
		m.s.opt.Tier.Cache = m.s.Objects().Stats().Bytes - 1
	}
	if !slices.Equal(away, []uint64{2, 3, 1}) {
		t.Errorf("evicted in the order %v", away)
	}
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.KeepLog = 1 << 30 })
	m.create()
	m.must(m.s.Objects().Seal())
	m.must(m.s.ShipSegments(ctx))
	if st := m.s.Objects().Stats(); st.Away != 3 {
		t.Errorf("a segment that is not archived was evicted: %+v", st)
	}
	m.must(m.s.Close())
}

// TestEvictBelowFloor evicts more than the cache demands while the device has too little free space.
func TestEvictBelowFloor(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.Tier.Cache, o.FloorBytes = 1<<40, 1<<30 })
	m.create()
	m.must(m.s.Objects().Seal())
	m.f.Faults.SetSpace(1<<30 + 64<<20)
	m.must(m.s.ShipSegments(ctx))
	if n := m.s.Objects().Stats().Away; n != 0 {
		t.Errorf("%d segments were evicted above the floor", n)
	}
	m.f.Faults.SetSpace(1<<30 - 200<<20)
	m.must(m.s.ShipSegments(ctx))
	m.must(m.s.ShipSegments(ctx))
	if n := m.s.Objects().Stats().Away; n != 1 {
		t.Errorf("%d segments are evicted below the floor", n)
	}
	m.f.Faults.SetSpace(-1)
	m.must(m.s.ShipSegments(ctx))
	if n := m.s.Objects().Stats().Away; n != 0 {
		t.Errorf("%d segments stay evicted above the floor", n)
	}
	m.must(m.s.Close())
}

// TestRestoredStoreCopiesAgain gives the store a new incarnation. The copies of the old one may be needed by it: they
// stay, and new ones are written.
func TestRestoredStoreCopiesAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newRoomyModel(t)
	m.create()
	m.must(m.s.Objects().Seal())
	m.must(m.s.ShipSegments(ctx))
	m.must(m.s.Rebranch())
	m.must(m.s.ShipSegments(ctx))
	list, err := m.place.List(ctx, "segments/")
	if err != nil || len(list) != 2 {
		t.Errorf("%v %v", list, err)
	}
	m.must(m.s.Close())
}

// hooked calls fn before it writes the next blob, and refuses to remove any while keeps is set.
type hooked struct {
	blob.Place
	fn    func()
	keeps bool
}

// Write implements blob.Place.
func (h *hooked) Write(ctx context.Context, dir string, from blob.Source, size int64, name func() string) error {
	if fn := h.fn; fn != nil {
		h.fn = nil
		fn()
	}
	return h.Place.Write(ctx, dir, from, size, name)
}

// Remove implements blob.Place.
func (h *hooked) Remove(ctx context.Context, names ...string) error {
	if h.keeps {
		return errors.New("403 AccessDenied")
	}
	return h.Place.Remove(ctx, names...)
}

// TestRewriteMeetsShip rewrites a segment while it is copied: before the copying begins the rewriting has marked the
// segment and not removed it yet, or does both afterwards. Neither a row nor a copy of it stays.
func TestRewriteMeetsShip(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, marked := range []bool{true, false} {
		m := newTierModel(t, 0)
		m.must(m.s.Close())
		h := &hooked{Place: m.place.Place}
		m.place.Place = h
		m.reopen(func(o *Options) { o.Tier.Cache = 1 << 40 })
		m.create()
		m.must(m.s.Objects().Seal())
		m.destroy()
		if marked {
			m.must(m.s.tiers.leave(1))
			m.must(m.s.ShipSegments(ctx))
			m.must(m.s.obj.Remove(1))
		} else {
			h.fn = func() { m.must(errors.Join(m.s.tiers.leave(1), m.s.obj.Remove(1))) }
			m.must(m.s.ShipSegments(ctx))
		}
		if c, ok := m.s.tiers.row(1); ok == marked || ok && !c.Gone {
			t.Errorf("marked before %v: row %v, gone %v", marked, ok, c.Gone)
		}
		m.must(m.s.ShipSegments(ctx))
		if list, err := m.place.List(ctx, "segments/"); err != nil || len(list) != 0 {
			t.Errorf("marked before %v: copies %v, %v", marked, list, err)
		}
		m.must(m.s.Close())
		s, err := Open(m.f.Env, "data", crashOptions()) // as without the place
		m.must(err)
		m.must(s.Close())
	}
}

// TestUnreadableSegment loses the file of a segment that has no copy yet. The other segments are copied and evicted.
func TestUnreadableSegment(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(nil)
	for range 3 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.must(m.f.FS.Remove("data/objects/" + object.FileName(1)))
	m.must(m.s.ShipSegments(ctx))
	if !m.s.tiers.unhealed.has(1) {
		t.Error("nobody is told that segment 1 is lost")
	}
	if n := m.s.Objects().Stats().Away; n != 2 {
		t.Errorf("%d segments are evicted", n)
	}
	m.must(m.s.Close())
}

// TestRemoveRefused lets the place refuse to remove copies. Segments are copied and evicted all the same, and copies of
// removed ones go when the place permits it.
func TestRemoveRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	h := &hooked{Place: m.place.Place, keeps: true}
	m.place.Place = h
	m.reopen(nil)
	for range 2 {
		m.create()
		m.must(m.s.Objects().Seal())
	}
	m.must(m.s.ShipSegments(ctx))
	for range 2 {
		m.destroy()
	}
	for range 3 {
		_, err := m.s.Sweep(ctx, 100)
		m.must(err)
	}
	_, err := m.s.Rewrite(ctx)
	m.must(err)
	m.create()
	m.must(m.s.Objects().Seal())
	if err := m.s.ShipSegments(ctx); err == nil || strings.Count(err.Error(), "403") != 2 {
		t.Errorf("two copies could not be removed: %v", err)
	}
	if n := m.s.Objects().Stats().Away; n != 1 {
		t.Errorf("%d segments are evicted", n)
	}
	h.keeps = false
	m.must(m.s.ShipSegments(ctx))
	m.sameNames()
	m.must(m.s.Close())
}

// TestTierStatistics checks the statistics of copies.
func TestTierStatistics(t *testing.T) {
	t.Parallel()
	stats := stat.New(env.Test(t).Clock)
	m := evictAll(t, func(o *Options) { o.Stats = stats })
	for id := range m.mails {
		m.read(id, false)
	}
	m.create()
	m.must(m.s.Objects().Seal())
	m.place.percent = 100
	if err := m.s.ShipSegments(context.Background()); err == nil {
		t.Error("no error")
	}
	v := map[string]float64{}
	for _, e := range stats.Snapshot("Database.DAOS.Copies.*") {
		v[strings.TrimPrefix(e.Name, "Database.DAOS.Copies.")] = e.Value
	}
	for name, want := range map[string]float64{"Segments": 3, "Evicted.Segments": 3, "Failures": 1, "Written": 3,
		"FetchFailures": 0} {
		if v[name] != want {
			t.Errorf("%s is %v, want %v", name, v[name], want)
		}
	}
	for _, name := range []string{"Bytes", "Evicted.Bytes", "Lag.Bytes", "WrittenBytes", "Fetches", "FetchedBytes"} {
		if v[name] <= 0 {
			t.Errorf("%s is %v", name, v[name])
		}
	}
	m.must(m.s.Close())
}

// TestCopiesAreEncrypted looks for the text of a message at the place.
func TestCopiesAreEncrypted(t *testing.T) {
	t.Parallel()
	m := newTierModel(t, 0)
	m.must(m.s.Close())
	m.reopen(func(o *Options) { o.NoCompression = true })
	raw := []byte("Subject: a\r\n\r\n" + strings.Repeat("a text that nobody else may read\r\n", 3000))
	m.mails[createMail(t, m.s, m.db, raw)] = raw
	m.must(m.s.Objects().Seal())
	m.must(m.s.ShipSegments(context.Background()))
	list, err := m.place.List(context.Background(), "")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	b, err := m.place.Get(context.Background(), list[0].Name, 1<<30)
	if err != nil || bytes.Contains(b, []byte("nobody else")) {
		t.Errorf("the copy of %d bytes can be read: %v", len(b), err)
	}
	if c, ok := m.s.tiers.row(1); !ok || c.Head == [layout.HeadSize]byte{} {
		t.Errorf("%+v", c)
	}
	m.must(m.s.Close())
}

// TestRecall reads evicted segments until they come back, and then gives the cache room for all.
func TestRecall(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := evictAll(t, nil)
	ids := slices.Sorted(maps.Keys(m.mails))
	m.read(ids[0], false)
	m.must(m.s.ShipSegments(ctx))
	if st := m.s.Objects().Stats(); st.Away != 3 {
		t.Errorf("recalled without room: %+v", st)
	}
	for _, seg := range m.s.Objects().Segments() {
		m.s.opt.Tier.Cache = max(m.s.opt.Tier.Cache, seg.Size)
	}
	m.read(ids[1], false)
	m.read(ids[1], false)
	m.must(m.s.ShipSegments(ctx))
	if list := m.s.Objects().Segments(); list[1].Away || !list[2].Away {
		t.Errorf("the one that was read: %+v, one that was not: %+v", list[1], list[2])
	}
	m.s.opt.Tier.Cache = 1 << 30
	m.place.percent = 100
	if err := m.s.ShipSegments(ctx); err == nil {
		t.Error("no error though the place fails")
	}
	m.place.percent = 0
	m.must(m.s.ShipSegments(ctx))
	if st := m.s.Objects().Stats(); st.Away != 0 {
		t.Errorf("the cache has room for all: %+v", st)
	}
	m.place.left = 0
	for id := range m.mails {
		m.read(id, false)
	}
	m.must(m.s.Close())
}
