package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/crypt"
	"doublet/test/long"
	"doublet/wire/mime"
)

// In the crash test, writers move pairs of notes from version to version, one note in each of two databases. Each
// version determines content, keywords, \Seen and folder, all written in one update. Readers record what they saw. At a
// random moment the power fails, and a random part of the unflushed data is lost. Afterwards every pair must be whole
// and at the same version in both databases. That version must not be below anything acknowledged or seen, nor above
// what was attempted.

type pair struct {
	mu        sync.Mutex
	unid      [2]note.UNID
	attempted int
	acked     int
	seen      int
	gone      bool // destroyed, durably
	dying     bool
}

type crashRun struct {
	t     *testing.T
	f     *env.Fixture
	s     *Store
	db    [2]note.DatabaseID
	rng   *rand.Rand
	pairs []*pair
	mu    sync.Mutex
	uids  map[[2]uint64]note.UNID // (folder, UID) ever shown, per database
	// encrypted encrypts the store; files is its file system then.
	encrypted bool
	files     *crypt.FS
}

var person = note.UNID{1, 2, 3}

func crashOptions() Options {
	return Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: 256 << 10, CacheSize: 1 << 20,
		LogSyncInterval: 50 * time.Microsecond,
		OnFatal:         func(error) {},
	}
}

func TestCrash(t *testing.T) {
	rounds := long.Pick(2, 6)
	for seed := uint64(1); seed <= 4; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := &crashRun{t: t, f: env.TestRealTime(t), rng: rand.New(rand.NewPCG(seed, 1)),
				uids: map[[2]uint64]note.UNID{}, encrypted: seed > 2}
			c.open()
			c.create()
			for round := range rounds {
				c.round(seed*1000 + uint64(round))
			}
			if err := c.s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func (c *crashRun) open() {
	e := c.f.Env
	if c.encrypted {
		e, c.files = EncryptedEnv(c.t, e)
	}
	s, err := Open(e, "data", crashOptions())
	if err != nil {
		c.t.Fatal(err)
	}
	c.s = s
}

func (c *crashRun) create() {
	for i := range c.db {
		id, err := c.s.CreateDatabase(note.System, Create{Title: fmt.Sprint("db ", i), Kind: "mail"})
		if err != nil {
			c.t.Fatal(err)
		}
		c.db[i] = id
		err = c.s.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *Tx) error {
			w, err := tx.Database(id)
			for n := 0; n < 3 && err == nil; n++ {
				_, err = w.CreateFolder(fmt.Sprint("F", n), "")
			}
			return err
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	for range 12 {
		c.pairs = append(c.pairs, c.newPair())
	}
}

func (c *crashRun) newPair() *pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &pair{}
	for i := range p.unid {
		binary.BigEndian.PutUint64(p.unid[i][:], c.rng.Uint64())
		binary.BigEndian.PutUint64(p.unid[i][8:], c.rng.Uint64())
	}
	return p
}

func (c *crashRun) round(seed uint64) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Add(2)
		go func() { defer wg.Done(); c.write(ctx, n, rand.New(rand.NewPCG(seed, uint64(n)))) }()
		go func() { defer wg.Done(); c.read(ctx, rand.New(rand.NewPCG(seed, uint64(100+n)))) }()
	}
	if seed%2 == 0 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for ctx.Err() == nil {
				if _, err := c.s.Sweep(ctx, 100); err != nil && ctx.Err() == nil {
					c.t.Error("sweep: ", err)
				}
				if err := c.s.Trim(); err != nil {
					c.t.Error("trim: ", err)
				}
			}
		}()
	}
	if c.encrypted {
		wg.Add(1)
		go func() { defer wg.Done(); rotating(ctx, c.t, c.files) }()
	}
	time.Sleep(time.Duration(30+c.rng.IntN(120)) * time.Millisecond)
	// Everything acknowledged or seen before this moment must survive.
	type floor struct {
		version int
		gone    bool
	}
	floors := map[*pair]floor{}
	for _, p := range c.pairs {
		p.mu.Lock()
		floors[p] = floor{max(p.acked, p.seen), p.gone}
		p.mu.Unlock()
	}
	c.mu.Lock()
	shown := maps.Clone(c.uids) // UIDs that are shown from here on belong to a timeline that the crash discards
	c.mu.Unlock()
	after := c.f.Crash(c.rng.IntN(2)*50, seed)
	stop()
	wg.Wait()
	if err := c.s.Close(); err != nil {
		c.t.Error("close: ", err)
	}
	c.f, c.uids = after, shown
	c.open()
	for i, p := range c.pairs {
		c.verify(p, floors[p].version, floors[p].gone)
		if p.gone {
			c.pairs[i] = c.newPair()
		}
	}
	c.counters()
}

// message is the message of every version of a pair: large enough to make an object.
func message(p *pair) []byte {
	raw := []byte("From: a@example.com\r\nSubject: " + p.unid[0].String() +
		"\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	return mime.AppendBase64Lines(raw, slices.Repeat(p.unid[0][:], 2100), 76, true)
}

func (c *crashRun) write(ctx context.Context, n int, rng *rand.Rand) {
	for ctx.Err() == nil {
		p := c.pairs[n+4*rng.IntN(3)]
		p.mu.Lock()
		if p.gone || p.dying {
			p.mu.Unlock()
			continue
		}
		from := p.acked
		p.attempted = from + 1
		p.dying = from > 3 && rng.IntN(60) == 0
		dying := p.dying
		p.mu.Unlock()
		err := c.step(ctx, p, from, dying)
		if err != nil {
			if ctx.Err() == nil {
				c.t.Errorf("step from %d: %v", from, err)
			}
			return
		}
		p.mu.Lock()
		p.acked, p.gone = from+1, dying
		p.mu.Unlock()
	}
}

// step moves a pair from a version to the next, or destroys it.
func (c *crashRun) step(ctx context.Context, p *pair, from int, destroy bool) error {
	var m *Message
	if from == 0 {
		raw := message(p)
		var err error
		if m, err = c.s.Prepare(ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits),
			PartSize)); err != nil {
			return err
		}
		defer m.Release()
	}
	return c.s.Update(ctx, note.System, c.db[:], func(tx *Tx) error {
		for i, db := range c.db {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			switch {
			case destroy:
				var id note.ID
				if id, err = w.Find(p.unid[i]); err == nil {
					err = w.Destroy(id)
				}
			case from == 0:
				_, err = w.Create(New{
					UNID: p.unid[i], Message: m, Content: note.Content{Items: version(1)}, Keywords: []string{"k1"},
					SeenBy: []note.UNID{person}, Folders: []note.ID{folderOf(1)},
				})
			default:
				err = c.advance(w, p.unid[i], from+1)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func folderOf(v int) note.ID { return note.ID(v%3 + 1) }

func version(v int) note.Items {
	return note.MakeItems(note.Item{Name: "Version", Value: note.Int(int64(v))})
}

func (c *crashRun) advance(w *Writer, unid note.UNID, to int) error {
	id, err := w.Find(unid)
	if err != nil {
		return err
	}
	content, err := w.Content(id)
	if err != nil {
		return err
	}
	win, _ := content.Tree.Winner()
	_, err = w.Revise(id, win.Rev, note.Content{Items: version(to)}, nil)
	_, err2 := w.AddTo(id, folderOf(to))
	return errors.Join(err, err2,
		w.SetKeyword(id, fmt.Sprint("k", to-1), false), w.SetKeyword(id, fmt.Sprint("k", to), true),
		w.SetSeen(id, person, to%2 == 1), w.RemoveFrom(id, folderOf(to-1)))
}

// look reads one half of a pair and checks that it is whole. Version 0 is a note that is not there.
func (c *crashRun) look(p *pair, i int) (v int, err error) {
	err = c.s.Read(context.Background(), note.System, c.db[i], func(r *Reader) error {
		id, err := r.Find(p.unid[i])
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if errors.Is(err, ErrGrave) {
			v = -1
			return nil
		}
		if err != nil {
			return err
		}
		n, err := r.Note(id)
		if err != nil {
			return err
		}
		content, err := r.Content(id)
		if err != nil {
			return err
		}
		v = int(content.Content.Items.Get("Version").AsInt())
		if got := slices.Collect(n.Keywords); len(got) != 1 || got[0] != fmt.Sprint("k", v) {
			c.t.Errorf("version %d has keywords %v", v, got)
		}
		if n.SeenBy(person) != (v%2 == 1) {
			c.t.Errorf("version %d: seen is %v", v, n.SeenBy(person))
		}
		if len(n.Members) != 1 || n.Members[0].Folder != folderOf(v) {
			c.t.Errorf("version %d lies in %v", v, n.Members)
			return nil
		}
		if got, err := r.Member(folderOf(v), n.Members[0].UID); err != nil || got != id {
			c.t.Errorf("version %d: UID leads to note %d, not %d: %v", v, got, id, err)
		}
		c.shown(uint64(i)<<32|uint64(n.Members[0].Folder), uint64(n.Members[0].UID), p.unid[i])
		m, err := r.Message(n)
		if err != nil {
			return err
		}
		raw, err := m.AppendRange(nil, 0, m.Size())
		if string(raw) != string(message(p)) {
			c.t.Errorf("version %d: the message changed: %d bytes, %v", v, len(raw), err)
		}
		return err
	})
	return v, err
}

// shown checks that a UID never stands for another note.
func (c *crashRun) shown(folder, uid uint64, u note.UNID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := [2]uint64{folder, uid}
	if have, ok := c.uids[k]; ok && have != u {
		c.t.Errorf("UID %d stood for %s and stands for %s", uid, have, u)
	}
	c.uids[k] = u
}

func (c *crashRun) read(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		p := c.pairs[rng.IntN(len(c.pairs))]
		v, err := c.look(p, rng.IntN(2))
		if err != nil {
			if ctx.Err() == nil {
				c.t.Error("read: ", err)
			}
			return
		}
		p.mu.Lock()
		if v < 0 {
			p.gone = true
		} else {
			p.seen = max(p.seen, v)
		}
		p.mu.Unlock()
	}
}

func (c *crashRun) verify(p *pair, floor int, gone bool) {
	a, err := c.look(p, 0)
	if err != nil {
		c.t.Error("after the crash: ", err)
	}
	b, err := c.look(p, 1)
	if err != nil {
		c.t.Error("after the crash: ", err)
	}
	if a != b {
		c.t.Errorf("the halves parted: %d and %d", a, b)
	}
	switch {
	case a < 0:
		if !p.dying && !p.gone {
			c.t.Error("destroyed without being asked")
		}
		p.gone = true
		return
	case gone:
		c.t.Errorf("a note that was destroyed is back at version %d", a)
	case a < floor:
		c.t.Errorf("lost: at version %d, but %d was acknowledged or seen", a, floor)
	case a > p.attempted:
		c.t.Errorf("at version %d, but only %d was attempted", a, p.attempted)
	}
	p.acked, p.seen, p.attempted, p.dying, p.gone = a, a, a, false, false
}

// counters compares what folders say of themselves with their members.
func (c *crashRun) counters() {
	for _, db := range c.db {
		err := c.s.Read(context.Background(), note.System, db, func(r *Reader) error {
			for _, f := range r.Folders() {
				n, seen := uint32(0), uint32(0)
				err := r.Members(f.Note, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
					if rank, err := r.Rank(f.Note, uid); err != nil || rank != n {
						c.t.Errorf("rank of %d is %d, %v; want %d", uid, rank, err, n)
					}
					if at, err := r.At(f.Note, n); err != nil || at != uid {
						c.t.Errorf("UID at %d is %d, %v; want %d", n, at, err, uid)
					}
					row, err := r.Note(id)
					if err == nil && row.SeenBy(person) {
						seen++
					}
					n++
					return true
				})
				if err != nil || f.Total != n {
					c.t.Errorf("folder %s: total %d, members %d, %v", f.Name, f.Total, n, err)
				}
				var said uint32
				for _, s := range f.Seen {
					said += s.Count
				}
				if said != seen {
					c.t.Errorf("folder %s: seen %d, counted %d", f.Name, said, seen)
				}
			}
			return nil
		})
		if err != nil {
			c.t.Error(err)
		}
	}
}
