package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/blob"
	"doublet/store/check"
	"doublet/store/layout"
	"doublet/store/tier"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The model test does random operations on a store and on plain maps. It compares everything visible: notes, folders,
// counters, ranks, changes since any moment, the feed from any cursor, indexes.

var persons = []note.UNID{{1}, {2}, {3}}

type modelNote struct {
	subject  string
	keywords map[string]bool
	seen     map[note.UNID]bool
	members  map[note.ID]uint32 // folder → UID
	deleted  map[note.ID]bool
	raw      string // message
	attached string
	// foldered is set once the note has been in a folder.
	foldered bool
}

// size returns the size that counts towards the quota.
func (n *modelNote) size() uint64 {
	switch {
	case n.raw != "":
		return uint64(len(n.raw))
	case n.foldered:
		return uint64(len(note.Text(n.subject)) + len(n.attached))
	}
	return 0
}

// print returns a text that differs after every change of the note.
func (n *modelNote) print() string {
	return fmt.Sprint(n.subject, n.keywords, n.seen, n.members, n.deleted)
}

type modelDB struct {
	id      note.DatabaseID
	notes   map[note.ID]*modelNote
	folders map[note.ID]string
	graves  []note.UNID
	past    []past
}

// past is the state at a moment.
type past struct {
	mod    note.ModSeq
	seq    uint64
	cursor store.Cursor
	prints map[note.ID]string
	places map[[2]uint64]bool // folder, UID
}

type model struct {
	t   *testing.T
	f   *env.Fixture
	s   *store.Store
	rng *rand.Rand
	dbs []*modelDB
	ctx context.Context
	n   int
	// encrypted encrypts the store.
	encrypted bool
	// keyed gives databases keys of their own, and takes them away.
	keyed bool
	// place, if not nil, has copies of segments.
	place blob.Place
	// listed, if not 0, is the memory for listings in bytes.
	listed int64
}

func options() store.Options {
	return store.Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond,
		// One database is kept open: with more in use, they are opened and closed all the time.
		Databases: 1,
		Indexes: []store.Index{{Number: 3, Kind: "mail", Keys: func(_ note.Class, c *note.Content) [][]byte {
			if s := c.Items.Get("Subject").AsText(); s != "" {
				return [][]byte{[]byte(s)}
			}
			return nil
		}}},
	}
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) open() {
	o := options()
	o.OnFatal = func(err error) { m.t.Error(err) }
	var err error
	e := m.f.Env
	if m.encrypted {
		e, _ = store.EncryptedEnv(m.t, e)
	}
	if m.place != nil {
		copier := func(e *env.Env, keys blob.Keys) store.Copier { return tier.New(e, m.place, keys, 0) }
		o.Tier = &store.Tier{Copier: copier, Cache: m.rng.Int64N(200 << 10)}
	}
	if m.listed > 0 {
		o.Databases = 2 // both stay open, and so do their listings
	}
	m.s, err = store.Open(e, "data", o)
	m.must(err)
	if m.listed > 0 {
		store.LimitListings(m.s, m.listed)
	}
}

// evict gives the store a place with copies of segments. It evicts most of them.
func (m *model) evict() {
	files := vfs.NewMem()
	m.must(files.MkdirAll("place", 0o700))
	m.place = blob.Folder(files, "place")
}

func (m *model) update(fn func(ws ...*store.Writer) error, dbs ...*modelDB) error {
	var ids []note.DatabaseID
	for _, d := range dbs {
		ids = append(ids, d.id)
	}
	return m.s.Update(m.ctx, note.System, ids, func(tx *store.Tx) error {
		var ws []*store.Writer
		for _, id := range ids {
			w, err := tx.Database(id)
			if err != nil {
				return err
			}
			ws = append(ws, w)
		}
		return fn(ws...)
	})
}

func (m *model) read(d *modelDB, fn func(r *store.Reader) error) {
	m.t.Helper()
	m.must(m.s.Read(m.ctx, note.System, d.id, fn))
}

func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(7) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, f: env.TestRealTime(t), rng: rand.New(rand.NewPCG(seed, 42)), ctx: context.Background(),
				encrypted: seed == 4, keyed: seed >= 5,
				listed: []int64{1 << 20, 8 << 10, 1, 0, 64 << 10, 1 << 20, 8 << 10}[seed]}
			if seed == 3 || seed == 6 {
				m.evict()
			}
			m.open()
			for i := range 2 {
				id, err := m.s.CreateDatabase(note.System, store.Create{Title: fmt.Sprint(i), Kind: "mail"})
				m.must(err)
				d := &modelDB{id: id, notes: map[note.ID]*modelNote{}, folders: map[note.ID]string{}}
				m.dbs = append(m.dbs, d)
				for k := range 3 {
					m.createFolder(d, fmt.Sprint("F", k))
				}
			}
			for step := range 300 {
				m.step()
				for _, d := range m.dbs {
					_, err := store.CompareListings(m.s, d.id)
					m.must(err)
					if step%5 == 0 {
						m.compare(d)
					}
				}
			}
			m.check()
			if away := m.s.Objects().Stats().Away; (away > 0) != (m.place != nil) {
				t.Errorf("%d segments were evicted", away)
			}
			m.must(m.s.Close())
		})
	}
}

func (m *model) check() {
	rep, err := check.Run(m.ctx, m.s, check.Options{Deep: true})
	m.must(err)
	for _, f := range rep.Findings {
		m.t.Error(f)
	}
}

func (m *model) createFolder(d *modelDB, name string) {
	m.must(m.update(func(ws ...*store.Writer) error {
		id, err := ws[0].CreateFolder(name, "")
		d.folders[id] = name
		return err
	}, d))
}

func pick[K comparable, V any](m *model, from map[K]V, less func(a, b K) int) (k K, ok bool) {
	if len(from) == 0 {
		return k, false
	}
	keys := slices.SortedFunc(maps.Keys(from), less)
	return keys[m.rng.IntN(len(keys))], true
}

func byID(a, b note.ID) int { return int(int64(a) - int64(b)) }

func (m *model) step() {
	d := m.dbs[m.rng.IntN(len(m.dbs))]
	id, have := pick(m, d.notes, byID)
	folder, _ := pick(m, d.folders, byID)
	switch op := m.rng.IntN(20); {
	case op < 5 || !have:
		m.create(d, folder)
	case op == 5:
		m.revise(d, id)
	case op < 8:
		m.flags(d, id)
	case op == 8:
		m.mark(d, id)
	case op < 11:
		m.addTo(d, id, folder)
	case op < 13:
		m.removeFrom(d, id)
	case op == 13:
		m.destroy(d, id)
	case op == 14:
		m.copyAcross(d, id)
	case op == 15:
		m.folders(d, folder)
	case op == 16:
		m.fails(d, id)
	default:
		m.upkeep(d)
	}
}

func (m *model) raw() string {
	m.n++
	if m.rng.IntN(3) > 0 {
		return fmt.Sprintf("Subject: %d\r\n\r\nbody\r\n", m.rng.IntN(5))
	}
	b := make([]byte, 24<<10+m.rng.IntN(40<<10))
	for i := range b {
		b[i] = byte(m.rng.IntN(7) * i)
	}
	var text []byte
	line := []int{76, 64, 60, 74}[m.rng.IntN(4)]
	for e := base64.StdEncoding.EncodeToString(b); len(e) > 0; {
		n := min(line, len(e))
		text = append(append(text, e[:n]...), "\r\n"...)
		e = e[n:]
	}
	return "Subject: big\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\n" + string(text)
}

func items(subject string) note.Content {
	return note.Content{Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text(subject)})}
}

func (m *model) create(d *modelDB, folder note.ID) {
	n := &modelNote{
		subject: fmt.Sprint("s", m.rng.IntN(6)), keywords: map[string]bool{}, seen: map[note.UNID]bool{},
		members: map[note.ID]uint32{}, deleted: map[note.ID]bool{},
	}
	in := store.New{Content: items(n.subject), Thread: note.UNID{byte(m.rng.IntN(3))}, Date: 5}
	if m.rng.IntN(4) > 0 {
		n.raw = m.raw()
		raw := []byte(n.raw)
		msg, err := m.s.Prepare(m.ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), store.PartSize),
			m.meant(d)...)
		m.must(err)
		defer msg.Release()
		in.Message = msg
	}
	if m.rng.IntN(5) > 0 {
		in.Folders = []note.ID{folder}
	}
	if m.rng.IntN(3) == 0 {
		in.MarkDeleted = len(in.Folders) > 0
		in.Keywords, n.keywords["k0"] = []string{"k0"}, true
		in.SeenBy, n.seen[persons[0]] = persons[:1], true
	}
	var obj *store.Object
	if m.rng.IntN(5) == 0 {
		n.attached = fmt.Sprint("attachment ", m.rng.IntN(3))
		var err error
		obj, err = m.s.Attach(m.ctx, []byte(n.attached), m.meant(d)...)
		m.must(err)
		defer obj.Release()
		in.Content.Attachments = []note.Attachment{{Name: "a", Digest: obj.Digest, Size: obj.Size}}
	}
	m.must(m.update(func(ws ...*store.Writer) error {
		if obj != nil {
			ws[0].Keep(obj)
		}
		id, err := ws[0].Create(in)
		for _, f := range in.Folders {
			n.members[f], n.foldered = ws[0].UID(id, f), true
			n.deleted[f] = in.MarkDeleted
		}
		d.notes[id] = n
		return err
	}, d))
}

func (m *model) revise(d *modelDB, id note.ID) {
	n := d.notes[id]
	m.must(m.update(func(ws ...*store.Writer) error {
		c, err := ws[0].Content(id)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		next := c.Content
		n.subject = fmt.Sprint("s", m.rng.IntN(6), ".", m.n)
		m.n++
		next.Items = next.Items.With("Subject", note.Text(n.subject))
		if _, err := ws[0].Revise(id, note.Revision{Generation: 9}, next, nil); !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("revised above nothing: %w", err)
		}
		_, err = ws[0].Revise(id, win.Rev, next, nil)
		return err
	}, d))
}

func (m *model) flags(d *modelDB, id note.ID) {
	n := d.notes[id]
	k, p := fmt.Sprint("k", m.rng.IntN(3)), persons[m.rng.IntN(3)]
	n.keywords[k], n.seen[p] = !n.keywords[k], !n.seen[p]
	m.must(m.update(func(ws ...*store.Writer) error {
		return errors.Join(ws[0].SetKeyword(id, k, n.keywords[k]), ws[0].SetSeen(id, p, n.seen[p]))
	}, d))
}

func (m *model) mark(d *modelDB, id note.ID) {
	n := d.notes[id]
	for f := range n.members {
		n.deleted[f] = !n.deleted[f]
		m.must(m.update(func(ws ...*store.Writer) error { return ws[0].MarkDeleted(id, f, n.deleted[f]) }, d))
	}
}

func (m *model) addTo(d *modelDB, id, folder note.ID) {
	n := d.notes[id]
	err := m.update(func(ws ...*store.Writer) error {
		uid, err := ws[0].AddTo(id, folder)
		if err == nil {
			n.members[folder], n.foldered = uid, true
			n.deleted[folder] = false
		}
		return err
	}, d)
	if _, in := n.members[folder]; errors.Is(err, store.ErrExists) && in {
		return
	}
	m.must(err)
}

func (m *model) removeFrom(d *modelDB, id note.ID) {
	n := d.notes[id]
	f, ok := pick(m, n.members, byID)
	if !ok {
		return
	}
	m.must(m.update(func(ws ...*store.Writer) error { return ws[0].RemoveFrom(id, f) }, d))
	delete(n.members, f)
	delete(n.deleted, f)
	if len(n.members) == 0 {
		delete(d.notes, id)
	}
}

func (m *model) destroy(d *modelDB, id note.ID) {
	m.must(m.update(func(ws ...*store.Writer) error {
		row, err := ws[0].Note(id)
		if err != nil {
			return err
		}
		d.graves = append(d.graves, row.UNID)
		return ws[0].Destroy(id)
	}, d))
	delete(d.notes, id)
}

// copyAcross copies a note to the other database and removes it here, in one update.
func (m *model) copyAcross(d *modelDB, id note.ID) {
	to := m.dbs[0]
	if to == d {
		to = m.dbs[1]
	}
	folder, _ := pick(m, to.folders, byID)
	n := d.notes[id]
	c := *n
	c.members, c.deleted, c.seen, c.keywords = map[note.ID]uint32{}, map[note.ID]bool{}, map[note.UNID]bool{},
		maps.Clone(n.keywords)
	m.must(m.update(func(ws ...*store.Writer) error {
		copied, err := ws[1].CopyNote(ws[0], id, folder, note.UNID{})
		if err != nil {
			return err
		}
		c.members[folder], c.foldered = ws[1].UID(copied, folder), true
		c.deleted[folder] = false
		to.notes[copied] = &c
		return ws[0].Destroy(id)
	}, d, to))
	delete(d.notes, id)
}

func (m *model) folders(d *modelDB, folder note.ID) {
	m.n++
	switch m.rng.IntN(3) {
	case 0:
		m.createFolder(d, fmt.Sprint("N", m.n))
	case 1:
		d.folders[folder] = fmt.Sprint("R", m.n)
		m.must(m.update(func(ws ...*store.Writer) error { return ws[0].RenameFolder(folder, d.folders[folder]) }, d))
	case 2:
		if len(d.folders) < 3 {
			return
		}
		m.must(m.update(func(ws ...*store.Writer) error {
			for _, id := range slices.SortedFunc(maps.Keys(d.notes), byID) {
				n := d.notes[id]
				if _, in := n.members[folder]; !in {
					continue
				}
				if err := ws[0].DeleteFolder(folder); !errors.Is(err, store.ErrExists) {
					return fmt.Errorf("deleted a folder with members: %w", err)
				}
				if err := ws[0].RemoveFrom(id, folder); err != nil {
					return err
				}
				delete(n.members, folder)
				delete(n.deleted, folder)
				if len(n.members) == 0 {
					delete(d.notes, id)
				}
			}
			return ws[0].DeleteFolder(folder)
		}, d))
		delete(d.folders, folder)
	}
}

// fails makes many changes and then fails or panics. None of them may remain.
func (m *model) fails(d *modelDB, id note.ID) {
	bad := errors.New("no")
	defer func() {
		if r := recover(); r != nil && r != bad {
			panic(r)
		}
	}()
	err := m.update(func(ws ...*store.Writer) error {
		w := ws[0]
		_, err := w.CreateFolder("never", "")
		err = errors.Join(err, w.SetKeyword(id, "never", true), w.Destroy(id))
		_, cerr := w.Create(store.New{Content: items("never")})
		if err = errors.Join(err, cerr); err != nil {
			m.t.Error(err)
		}
		if m.rng.IntN(2) == 0 {
			panic(bad)
		}
		return bad
	}, d)
	if !errors.Is(err, bad) {
		m.t.Errorf("failed with %v", err)
	}
}

func (m *model) upkeep(d *modelDB) {
	if m.keyed && m.rng.IntN(3) == 0 {
		m.rekey(d)
	}
	switch m.rng.IntN(6) {
	case 0:
		m.must(m.s.Maintain(m.ctx, d.id))
	case 1:
		_, err := m.s.Sweep(m.ctx, 1000)
		m.must(err)
		_, err = m.s.Rewrite(m.ctx)
		m.must(err)
		if m.place != nil {
			m.must(errors.Join(m.s.Objects().Seal(), m.s.ShipSegments(m.ctx)))
		}
	case 2:
		m.must(m.s.SetInfo(note.System, d.id, func(i *layout.Info) { i.Title = fmt.Sprint(m.rng.IntN(9)) }))
	case 3:
		m.must(m.update(func(ws ...*store.Writer) error { return ws[0].Peers.Set(7, uint64(m.rng.IntN(1000))) }, d))
	case 4:
		m.must(m.s.Trim())
	case 5:
		m.must(m.s.Close())
		m.open()
	}
}

// compare reads everything and compares it with the model.
func (m *model) compare(d *modelDB) {
	t := m.t
	m.read(d, func(r *store.Reader) error {
		count, size := 0, uint64(0)
		prints := map[note.ID]string{}
		places := map[[2]uint64]bool{}
		subjects := map[string][]note.ID{}
		m.must(r.Notes(0, func(id note.ID, row *layout.Note) bool {
			if row.Class != note.Document {
				return true
			}
			n := d.notes[id]
			if n == nil {
				t.Fatalf("note %d should not be", id)
			}
			m.compareNote(r, id, row, n)
			count++
			size += n.size()
			prints[id] = n.print()
			subjects[n.subject] = append(subjects[n.subject], id)
			for f, uid := range n.members {
				places[[2]uint64{uint64(f), uint64(uid)}] = true
			}
			return true
		}))
		if count != len(d.notes) {
			t.Fatalf("%d notes, want %d", count, len(d.notes))
		}
		c := r.Counters()
		if int(c.Notes) != count+len(d.folders) || c.Size != size {
			t.Fatalf("counters say %d notes of %d bytes, want %d and %d folders of %d", c.Notes, c.Size, count,
				len(d.folders), size)
		}
		for s, ids := range subjects {
			if got, err := r.Lookup(3, []byte(s)); err != nil || !slices.Equal(got, ids) {
				t.Fatalf("index: %s leads to %v, want %v: %v", s, got, ids, err)
			}
		}
		if heads := r.Folders(); len(heads) != len(d.folders) {
			t.Fatalf("%d folders, want %d", len(heads), len(d.folders))
		}
		for _, h := range r.Folders() {
			m.compareFolder(r, h, d)
		}
		for _, u := range d.graves {
			if _, err := r.Find(u); err == nil {
				id, _ := r.Find(u)
				if _, err := r.Note(id); !errors.Is(err, store.ErrNotFound) {
					t.Fatalf("a destroyed note is back: %v", err)
				}
			}
		}
		m.comparePast(r, d, prints, places)
		d.past = append(d.past, past{c.Ledger.Last, c.Seq, store.Cursor{Incarnation: m.s.Incarnation(), Seq: c.Seq},
			prints, places})
		return nil
	})
}

func (m *model) compareNote(r *store.Reader, id note.ID, row *layout.Note, n *modelNote) {
	t := m.t
	for k, on := range n.keywords {
		if slices.Contains(slices.Collect(row.Keywords), k) != on {
			t.Fatalf("note %d: keyword %s is not %v", id, k, on)
		}
	}
	for p, on := range n.seen {
		if row.SeenBy(p) != on {
			t.Fatalf("note %d: seen is not %v", id, on)
		}
	}
	if len(row.Members) != len(n.members) {
		t.Fatalf("note %d is in %v, want %v", id, row.Members, n.members)
	}
	for _, mem := range row.Members {
		if n.members[mem.Folder] != mem.UID || n.deleted[mem.Folder] != mem.Deleted {
			t.Fatalf("note %d: %v, want %v %v", id, mem, n.members, n.deleted)
		}
	}
	c, err := r.Content(id)
	if err != nil || c.Content.Items.Get("Subject").AsText() != n.subject {
		t.Fatalf("note %d: content %v, want %s: %v", id, c, n.subject, err)
	}
	if n.attached != "" {
		got, err := r.Object(id, c.Content.Attachments[0].Digest, nil)
		if err != nil || string(got) != n.attached {
			t.Fatalf("note %d: attachment %q, want %q: %v", id, got, n.attached, err)
		}
	}
	if n.raw == "" {
		return
	}
	st, err := r.Message(row)
	m.must(err)
	off := m.rng.Int64N(int64(len(n.raw)) + 2)
	length := []int64{0, 1, 100, 1 << 40, 1<<63 - 1, m.rng.Int64N(int64(len(n.raw)))}[m.rng.IntN(6)]
	got, err := st.AppendRange(nil, off, length)
	want := ""
	if off < int64(len(n.raw)) {
		want = n.raw[off:]
		want = want[:min(length, int64(len(want)))]
	}
	if err != nil || string(got) != want {
		t.Fatalf("note %d: range %d+%d of %d is %d bytes, want %d: %v", id, off, length, len(n.raw), len(got),
			len(want), err)
	}
	var whole bytes.Buffer
	if _, err := st.WriteTo(&whole); err != nil || whole.String() != n.raw {
		t.Fatalf("note %d: message changed: %v", id, err)
	}
}

func (m *model) compareFolder(r *store.Reader, h *layout.Folder, d *modelDB) {
	t := m.t
	byUID := map[uint32]note.ID{}
	seen := map[note.UNID]uint32{}
	var deleted uint32
	var size uint64
	for id, n := range d.notes {
		uid, in := n.members[h.Note]
		if !in {
			continue
		}
		byUID[uid] = id
		size += n.size()
		if n.deleted[h.Note] {
			deleted++
		}
		for p, on := range n.seen {
			if on {
				seen[p]++
			}
		}
	}
	if d.folders[h.Note] != h.Name || int(h.Total) != len(byUID) || h.Deleted != deleted || h.Size != size {
		t.Fatalf("folder %s: %+v; want %s with %d, %d deleted, %d bytes", h.Name, h, d.folders[h.Note], len(byUID),
			deleted, size)
	}
	uids := slices.Sorted(maps.Keys(byUID))
	for _, p := range persons {
		if layout.SeenBy(h.Seen, p) != seen[p] {
			t.Fatalf("folder %s: seen %v, want %v", h.Name, h.Seen, seen)
		}
		first := uint32(0)
		for _, u := range uids {
			if !d.notes[byUID[u]].seen[p] {
				first = u
				break
			}
		}
		if got, err := r.FirstUnseen(h.Note, p); got != first || (first == 0) != errors.Is(err, store.ErrNotFound) {
			t.Fatalf("folder %s: first unseen %d, want %d: %v", h.Name, got, first, err)
		}
	}
	i := 0
	m.must(r.Members(h.Note, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
		if i >= len(uids) || uid != uids[i] || id != byUID[uid] || uid >= h.UIDNext {
			t.Fatalf("folder %s: member %d is UID %d, note %d; want %v", h.Name, i, uid, id, uids)
		}
		if row, err := r.Note(id); err != nil || len(row.Members) != len(d.notes[id].members) {
			t.Fatalf("note %d is in %v, want %v: %v", id, row, d.notes[id].members, err)
		}
		if rank, err := r.Rank(h.Note, uid); err != nil || int(rank) != i {
			t.Fatalf("rank of %d is %d, want %d: %v", uid, rank, i, err)
		}
		if at, err := r.At(h.Note, uint32(i)); err != nil || at != uid {
			t.Fatalf("at %d is %d, want %d: %v", i, at, uid, err)
		}
		i++
		return true
	}))
	if i != len(uids) {
		t.Fatalf("folder %s: %d members, want %d", h.Name, i, len(uids))
	}
}

// comparePast checks that a client with the state of any earlier moment hears of every difference from the present one.
func (m *model) comparePast(r *store.Reader, d *modelDB, prints map[note.ID]string, places map[[2]uint64]bool) {
	if len(d.past) == 0 {
		return
	}
	t, p := m.t, d.past[m.rng.IntN(len(d.past))]
	told, gone := map[note.ID]bool{}, map[[2]uint64]bool{}
	m.must(r.Changes(p.mod, func(mod note.ModSeq, c layout.Change) bool {
		if c.Expunged {
			gone[[2]uint64{uint64(c.Folder), uint64(c.UID)}] = true
			return true
		}
		if told[c.Note] || mod <= p.mod {
			t.Fatalf("change %d of note %d since %d", mod, c.Note, p.mod)
		}
		told[c.Note] = true
		return true
	}))
	since := map[note.ID]bool{}
	m.must(r.Since(p.seq, func(_ uint64, id note.ID) bool { since[id] = true; return true }))
	fed := m.feed(p.cursor, d.id)
	for id, print := range prints {
		if p.prints[id] != print && (!told[id] || !since[id] || fed != nil && !fed[id]) {
			t.Fatalf("note %d changed since %d and %d: told %v, by sequence %v, feed %v", id, p.mod, p.seq, told[id],
				since[id], fed[id])
		}
	}
	for id := range p.prints {
		if prints[id] == "" && fed != nil && !fed[id] {
			t.Fatalf("note %d went, and the feed does not say so", id)
		}
	}
	for place := range p.places {
		if !places[place] && !gone[place] {
			t.Fatalf("UID %v went, and no change says so", place)
		}
		if places[place] && gone[place] {
			t.Fatalf("UID %v is there and was said to be gone", place)
		}
	}
}

// feed reads in small steps, so that cursors also point within commits. It returns nil if the feed was cut.
func (m *model) feed(c store.Cursor, db note.DatabaseID) map[note.ID]bool {
	out := map[note.ID]bool{}
	for {
		n, last := 0, uint64(0)
		next, err := m.s.Feed(c, func(ch store.Change) bool {
			if ch.Seq <= last || ch.Seq <= c.Seq {
				m.t.Fatalf("feed goes back: %d after %d", ch.Seq, max(last, c.Seq))
			}
			if n++; n > 2 {
				return false
			}
			last = ch.Seq
			if ch.Database == db {
				out[ch.Note] = true
			}
			return true
		})
		if errors.Is(err, store.ErrFeedCut) {
			return nil
		}
		m.must(err)
		c = next
		if n <= 2 {
			break
		}
	}
	select {
	case <-m.s.FeedMoved(c):
		m.t.Fatal("all was read, and still there is said to be more")
	default:
	}
	return out
}
