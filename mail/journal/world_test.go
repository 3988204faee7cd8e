package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/check"

	"filippo.io/age"
)

var bg = context.Background()

// world is a journal over a store in memory.
type world struct {
	t    *testing.T
	fix  *env.Fixture
	db   *store.Store
	dir  *directory.Directory
	j    *Journal
	tree *stat.Tree
	opt  Options
	n    int // messages written
}

func open(t *testing.T, o Options) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), opt: o}
	w.start()
	t.Cleanup(func() {
		r, err := check.Run(bg, w.db, check.Options{Deep: true})
		w.ok(err)
		for _, f := range r.Findings {
			t.Errorf("check: %s", f)
		}
		w.stop()
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.db, err = store.Open(w.fix.Env, "data", store.Options{FloorPercent: -1, Ballast: -1,
		Indexes: append(directory.Indexes(), Indexes()...), LogSyncInterval: 50 * time.Microsecond,
		OnFatal: func(error) {}})
	w.ok(err)
	w.dir, err = directory.Open(w.db, w.fix.Env, password.New(w.fix.Env, 1, 10),
		directory.Options{Domain: "example.com"})
	w.ok(err)
	o := w.opt
	w.tree = stat.New(w.fix.Clock)
	o.On, o.Stats = true, w.tree
	w.j, err = Open(w.db, w.fix.Env, w.dir, o)
	w.ok(err)
}

func (w *world) stop() {
	w.dir.Close()
	w.ok(w.db.Close())
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) message(i int) (*Message, []byte) {
	raw := fmt.Appendf(nil, "From: eve@far.example\r\nSubject: secret plan %d\r\n\r\nThe body of %d.\r\n", i, i)
	return &Message{ID: note.DeriveUNID(fmt.Append(nil, i)), Again: true, Time: w.fix.Clock.Now(),
		MessageID: fmt.Sprintf("<%d@far.example>", i), From: "eve@far.example", Outside: true,
		Recipients: []Recipient{{Address: fmt.Sprintf("p%d@example.com", i%3), Person: note.UNID{1}}},
		Details:    Details{Client: "192.0.2.1", Hidden: []string{"boss@example.com"}}}, raw
}

// write journals a message.
func (w *world) write(m *Message, raw []byte) error {
	s, err := w.j.Seal(bg, m, raw)
	if err != nil || s == nil {
		return err
	}
	defer s.Release()
	for {
		id, err := w.j.Choose(bg, s)
		if err != nil {
			return err
		}
		err = w.db.Update(bg, note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
			x, err := tx.Database(id)
			if err != nil {
				return err
			}
			return w.j.Append(x, s, nil)
		})
		if Rolled(err) {
			continue
		}
		if err == nil {
			w.j.Wrote(s)
		}
		return err
	}
}

// add journals n new messages.
func (w *world) add(n int) {
	w.t.Helper()
	for range n {
		w.n++
		m, raw := w.message(w.n)
		w.ok(w.write(m, raw))
		w.fix.Time.Advance(time.Second)
	}
}

func (w *world) databases() []Database {
	w.t.Helper()
	list, err := w.j.Databases(bg)
	w.ok(err)
	return list
}

// search returns the numbers of the entries that a query selects.
func (w *world) search(db note.DatabaseID, q Query) (out []uint64) {
	w.t.Helper()
	w.ok(w.j.Search(bg, note.System, db, &q, func(e *Entry) (bool, error) {
		out = append(out, e.Number)
		return true, nil
	}))
	return out
}

func (w *world) verify(db note.DatabaseID) []string {
	w.t.Helper()
	r, err := w.j.Verify(bg, db, func(uint64) {})
	w.ok(err)
	return lines(r)
}

func lines(r Report) []string {
	out := []string{}
	for _, f := range r.Findings {
		out = append(out, f.String())
	}
	return out
}

// plain returns the decrypted message of an entry.
func (w *world) plain(db note.DatabaseID, n uint64, keys ...age.Identity) (*Details, []byte, error) {
	w.t.Helper()
	_, content, err := w.j.Entry(bg, note.System, db, n)
	w.ok(err)
	var b bytes.Buffer
	_, err = content.WriteTo(&b)
	w.ok(err)
	return Unseal(b.Bytes(), keys...)
}

func (w *world) isErr(err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Fatalf("error %v, want %v", err, want)
	}
}
