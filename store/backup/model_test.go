package backup

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
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// In the model, every operation also increments a counter in a note of the first database, in the same update. So a
// restored store shows its own moment. It must contain the operations up to that one, and no others.

type modelNote struct {
	raw      string
	keywords map[string]bool
}

type op struct {
	db     int // of dbs[1:]
	unid   note.UNID
	create string // the message
	flag   string
	delete bool
}

type model struct {
	t   *testing.T
	f   *env.Fixture
	s   *store.Store
	dbs []note.DatabaseID
	mu  sync.Mutex
	log []op
	// alive holds the notes of each database after the last operation.
	alive [3][]note.UNID
}

func storeOptions() store.Options {
	return store.Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: 256 << 10, CacheSize: 1 << 20,
		LogSyncInterval: 20 * time.Microsecond,
		OnFatal:         func(error) {},
	}
}

func openStore(t *testing.T, e *env.Env, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(e, dir, storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newModel(t *testing.T) *model {
	t.Helper()
	return newModelOn(t, func(*env.Env) {})
}

// newModelOn is newModel in an environment that with has changed.
func newModelOn(t *testing.T, with func(*env.Env)) *model {
	t.Helper()
	f := env.TestRealTime(t)
	with(f.Env)
	return newModelIn(t, f, storeOptions())
}

// newModelIn is newModel in a fixture, with options of the store.
func newModelIn(t *testing.T, f *env.Fixture, o store.Options) *model {
	t.Helper()
	m := &model{t: t, f: f}
	var err error
	if m.s, err = store.Open(f.Env, "data", o); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		id, err := m.s.CreateDatabase(note.System, store.Create{Title: fmt.Sprint("db ", i), Kind: "mail"})
		if err != nil {
			t.Fatal(err)
		}
		m.dbs = append(m.dbs, id)
	}
	err = m.s.Update(context.Background(), note.System, m.dbs, func(tx *store.Tx) error {
		for i, id := range m.dbs {
			w, err := tx.Database(id)
			if err != nil {
				return err
			}
			if i > 0 {
				_, err = w.CreateFolder("INBOX", "")
			} else {
				_, err = w.Create(store.New{Content: number(0)})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func number(n int) note.Content {
	return note.Content{Items: note.MakeItems(note.Item{Name: "N", Value: note.Int(int64(n))})}
}

func message(rng *rand.Rand) string {
	raw := []byte(fmt.Sprintf("From: a@example.com\r\nSubject: %d\r\nContent-Transfer-Encoding: base64\r\n\r\n",
		rng.Uint64()))
	body := make([]byte, 20)
	if rng.IntN(3) == 0 {
		body = make([]byte, 30_000+rng.IntN(30_000))
	}
	for i := 0; i+8 <= len(body); i += 8 {
		binary.LittleEndian.PutUint64(body[i:], rng.Uint64())
	}
	return string(mime.AppendBase64Lines(raw, body, 76, true))
}

// step does one operation.
func (m *model) step(rng *rand.Rand) error {
	ctx := context.Background()
	o := op{db: 1 + rng.IntN(2)}
	binary.BigEndian.PutUint64(o.unid[:], rng.Uint64()|1)
	raw := message(rng)
	msg, err := m.s.Prepare(ctx, []byte(raw), mime.SplitLeaves([]byte(raw), mime.Parse([]byte(raw), mime.DefaultLimits),
		store.PartSize))
	if err != nil {
		return err
	}
	defer msg.Release()
	what := rng.IntN(10)
	return m.s.Update(ctx, note.System, []note.DatabaseID{m.dbs[0], m.dbs[o.db]}, func(tx *store.Tx) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		count, err := tx.Database(m.dbs[0])
		if err != nil {
			return err
		}
		cur, err := count.Content(1)
		if err != nil {
			return err
		}
		win, _ := cur.Tree.Winner()
		if _, err := count.Revise(1, win.Rev, number(len(m.log)+1), nil); err != nil {
			return err
		}
		w, err := tx.Database(m.dbs[o.db])
		if err != nil {
			return err
		}
		alive := &m.alive[o.db]
		i := rng.IntN(len(*alive) + 1)
		if what < 5 || i == len(*alive) {
			o.create = raw
			_, err = w.Create(store.New{UNID: o.unid, Message: msg, Folders: []note.ID{1}})
			*alive = append(*alive, o.unid)
			m.log = append(m.log, o)
			return err
		}
		o.unid = (*alive)[i]
		id, err := w.Find(o.unid)
		if err != nil {
			return err
		}
		if what < 7 {
			o.delete = true
			*alive = slices.Delete(*alive, i, i+1)
			err = w.Destroy(id)
		} else {
			o.flag = fmt.Sprint("k", rng.IntN(3))
			err = w.SetKeyword(id, o.flag, true)
		}
		m.log = append(m.log, o)
		return err
	})
}

func (m *model) steps(n int, seed uint64) {
	m.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		if err := m.step(rng); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *model) done() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.log)
}

// stateAt returns the state after replaying a part of the log.
func (m *model) stateAt(n int) [3]map[note.UNID]*modelNote {
	var out [3]map[note.UNID]*modelNote
	for i := range out {
		out[i] = map[note.UNID]*modelNote{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.log[:n] {
		switch db := out[o.db]; {
		case o.create != "":
			db[o.unid] = &modelNote{o.create, map[string]bool{}}
		case o.delete:
			delete(db, o.unid)
		default:
			db[o.unid].keywords[o.flag] = true
		}
	}
	return out
}

// compare opens a restored store, determines its moment, and compares everything in it with the model.
func (m *model) compare(e *env.Env, dir string, least, most int) {
	m.t.Helper()
	m.compareWith(e, dir, least, most, func(*store.Options) {})
}

func (m *model) compareWith(e *env.Env, dir string, least, most int, with func(*store.Options)) {
	m.t.Helper()
	o := storeOptions()
	with(&o)
	s, err := store.Open(e, dir, o)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			m.t.Error(err)
		}
	}()
	m.compareNotes(s, least, most)
	rep, err := check.Run(context.Background(), s, check.Options{Deep: true})
	if err != nil || !rep.Clean() {
		m.t.Errorf("check of what was restored: %v %v", rep.Findings, err)
	}
	if s.Incarnation() == m.s.Incarnation() {
		m.t.Error("the incarnation is the old one")
	}
	m.newNumbers(s)
}

// compareNotes compares the notes of an open store with the model.
func (m *model) compareNotes(s *store.Store, least, most int) {
	m.t.Helper()
	at := -1
	err := s.Read(context.Background(), note.System, m.dbs[0], func(r *store.Reader) error {
		c, err := r.Content(1)
		if err == nil {
			at = int(c.Content.Items.Get("N").AsInt())
		}
		return err
	})
	if err != nil || at < least || at > most {
		m.t.Fatalf("the moment is %d, want one from %d to %d: %v", at, least, most, err)
	}
	for i, want := range m.stateAt(at) {
		if i > 0 {
			m.compareDatabase(s, m.dbs[i], want)
		}
	}
}

func (m *model) compareDatabase(s *store.Store, db note.DatabaseID, want map[note.UNID]*modelNote) {
	m.t.Helper()
	err := s.Read(context.Background(), note.System, db, func(r *store.Reader) error {
		got := 0
		var inner error
		err := r.Notes(2, func(id note.ID, n *layout.Note) bool {
			w := want[n.UNID]
			if w == nil {
				m.t.Errorf("note %s is there and was not", n.UNID)
				return true
			}
			got++
			var msg *store.Stored
			if msg, inner = r.Message(n); inner != nil {
				return false
			}
			var raw []byte
			if raw, inner = msg.AppendRange(nil, 0, msg.Size()); inner != nil {
				return false
			}
			keys := map[string]bool{}
			for k := range n.Keywords {
				keys[k] = true
			}
			if string(raw) != w.raw || !maps.Equal(keys, w.keywords) {
				m.t.Errorf("note %s is not what it was", n.UNID)
			}
			return true
		})
		if got != len(want) {
			m.t.Errorf("%d notes of %d", got, len(want))
		}
		return errors.Join(err, inner)
	})
	if err != nil {
		m.t.Error(err)
	}
}

// newNumbers delivers one more message. Its UID must be one that the old store cannot have assigned.
func (m *model) newNumbers(s *store.Store) {
	m.t.Helper()
	high := func(s *store.Store) (uid uint32) {
		_ = s.Read(context.Background(), note.System, m.dbs[1], func(r *store.Reader) error {
			f, err := r.Folder(1)
			if err == nil {
				uid = f.UIDNext - 1
			}
			return err
		})
		return uid
	}
	err := s.Update(context.Background(), note.System, m.dbs[1:2], func(tx *store.Tx) error {
		w, err := tx.Database(m.dbs[1])
		if err == nil {
			_, err = w.Create(store.New{Folders: []note.ID{1}})
		}
		return err
	})
	if old, now := high(m.s), high(s); err != nil || now <= old+1<<16 {
		m.t.Errorf("UID %d after the restore, %d before: %v", now, old, err)
	}
}

// put restores the backup to a data folder.
func (m *model) put(e *env.Env, at uint64, data string) {
	m.t.Helper()
	if _, err := Restore(context.Background(), e, "backup", data,
		RestoreOptions{At: at, Store: storeOptions()}); err != nil {
		m.t.Fatal(err)
	}
}
