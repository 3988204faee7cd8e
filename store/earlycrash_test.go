package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
	"doublet/test/long"
	"doublet/wire/mime"
)

// In the crash test of early acknowledgement, writers add numbered entries to a database that acknowledges early, and
// now and then change another, local database, or tell a client of numbers. At a random moment the power fails. What is
// left of the early database is a prefix of its history, with each entry whole. It contains everything that was
// acknowledged before a change that waited for its flush, and everything that a reader saw.

const earlyWriters = 4

type earlyCrash struct {
	t            *testing.T
	f            *env.Fixture
	s            *Store
	early, local note.DatabaseID
	rng          *rand.Rand

	mu sync.Mutex
	// tried and acked are the last entries of each writer that were begun and acknowledged. floor is the last one that
	// must survive. locals counts the changes of the local database that were acknowledged to a writer, tries those
	// begun.
	tried, acked, floor, locals, tries [earlyWriters]int
	lost                               int // entries that were acknowledged and lost
}

func TestCrashEarly(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := &earlyCrash{t: t, f: env.TestRealTime(t), rng: rand.New(rand.NewPCG(seed, 3))}
			c.open()
			c.early, c.local = c.create(layout.AckEarly), c.create(layout.AckLocal)
			for round := range long.Pick(4, 12) {
				c.round(seed*1000 + uint64(round))
			}
			if err := c.s.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("%d acknowledged entries were lost", c.lost)
		})
	}
}

func (c *earlyCrash) open() {
	o := crashOptions()
	o.LogSyncInterval = 3 * time.Millisecond // so that crashes meet changes that are not flushed
	s, err := Open(c.f.Env, "data", o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.s = s
}

// create makes a database with one folder, note 1.
func (c *earlyCrash) create(ack layout.Ack) note.DatabaseID {
	id, err := c.s.CreateDatabase(note.System, Create{Kind: "mail", Ack: ack})
	if err == nil {
		err = c.s.Replicate(context.Background(), id, func(w *Writer) error {
			_, err := w.CreateFolder("F", "")
			return err
		})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *earlyCrash) round(seed uint64) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for n := range earlyWriters {
		wg.Add(1)
		go func() { defer wg.Done(); c.write(ctx, n, rand.New(rand.NewPCG(seed, uint64(n)))) }()
	}
	wg.Add(1)
	go func() { defer wg.Done(); c.read(ctx) }()
	time.Sleep(time.Duration(20+c.rng.IntN(80)) * time.Millisecond)
	c.mu.Lock()
	acked, floor, locals := c.acked, c.floor, c.locals
	c.mu.Unlock()
	after := c.f.Crash(c.rng.IntN(2)*50, seed)
	stop()
	wg.Wait()
	if err := c.s.Close(); err != nil {
		c.t.Error("close: ", err)
	}
	c.f = after
	c.open()
	early, local := c.entries(c.early), c.entries(c.local)
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range earlyWriters {
		if early[n] < floor[n] || early[n] > c.tried[n] {
			c.t.Errorf("writer %d: %d entries, want %d to %d", n, early[n], floor[n], c.tried[n])
		}
		if local[n] < locals[n] || local[n] > c.tries[n] {
			c.t.Errorf("writer %d: %d local entries, want %d to %d", n, local[n], locals[n], c.tries[n])
		}
		c.lost += max(acked[n]-early[n], 0)
	}
	c.tried, c.acked, c.floor, c.locals, c.tries = early, early, early, local, local
}

func entryID(writer, n int) note.UNID {
	u := note.UNID{0xE, byte(writer)}
	binary.BigEndian.PutUint64(u[8:], uint64(n))
	return u
}

// write adds entries until the context ends.
func (c *earlyCrash) write(ctx context.Context, n int, rng *rand.Rand) {
	for ctx.Err() == nil {
		c.mu.Lock()
		c.tried[n]++
		at, was := c.tried[n], c.tries[n]
		op := rng.IntN(12)
		if op == 0 {
			c.tries[n]++
		}
		c.mu.Unlock()
		if err := c.add(ctx, c.early, entryID(n, at), op == 1); err != nil {
			c.failed(ctx, err)
			return
		}
		c.mu.Lock()
		c.acked[n] = at
		c.mu.Unlock()
		if op == 0 {
			if err := c.add(ctx, c.local, entryID(n, was+1), false); err != nil {
				c.failed(ctx, err)
				return
			}
		}
		if op < 2 { // one log, in order: what a writer added before is durable too
			c.mu.Lock()
			c.floor[n] = max(c.floor[n], at)
			if op == 0 {
				c.locals[n] = was + 1
			}
			c.mu.Unlock()
		}
	}
}

func (c *earlyCrash) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		c.t.Error(err)
	}
}

// entryMessage returns the message of an entry: every eighth has an object.
func entryMessage(u note.UNID) []byte {
	raw := []byte("Subject: " + u.String() + "\r\n\r\n")
	if u[15]%8 == 0 {
		raw = append(raw, strings.Repeat(u.String()+"\r\n", 1200)...)
	}
	return raw
}

func (c *earlyCrash) add(ctx context.Context, db note.DatabaseID, u note.UNID, told bool) error {
	raw := entryMessage(u)
	m, err := c.s.Prepare(ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), PartSize))
	if err != nil {
		return err
	}
	defer m.Release()
	return c.s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *Tx) error {
		open := tx.Database
		if told {
			open = tx.Home
		}
		w, err := open(db)
		if err == nil {
			_, err = w.Create(New{UNID: u, Message: m, Keywords: []string{"k"}, Folders: []note.ID{1}})
		}
		return err
	})
}

// read raises the floors to what it sees.
func (c *earlyCrash) read(ctx context.Context) {
	for ctx.Err() == nil {
		var last [earlyWriters]int
		c.mu.Lock()
		tried := c.tried
		c.mu.Unlock()
		err := c.s.Read(ctx, note.System, c.early, func(r *Reader) error {
			for n, at := range tried {
				for ; at > 0; at-- {
					if _, err := r.Find(entryID(n, at)); err == nil {
						last[n] = at
						break
					}
				}
			}
			return nil
		})
		if err != nil {
			c.failed(ctx, err)
			return
		}
		c.mu.Lock()
		for n := range last {
			c.floor[n] = max(c.floor[n], last[n])
		}
		c.mu.Unlock()
	}
}

// entries returns the number of entries of each writer in a database. It checks that the notes are a prefix of the
// database's history, and that each is whole.
func (c *earlyCrash) entries(db note.DatabaseID) (count [earlyWriters]int) {
	err := c.s.Read(context.Background(), note.System, db, func(r *Reader) error {
		last := note.ID(1) // the folder
		var inner error
		err := r.Notes(2, func(id note.ID, row *layout.Note) bool {
			n := int(row.UNID[1])
			if last++; id != last {
				c.t.Errorf("database %s: note %d follows note %d", db, id, last-1)
				last = id
			}
			if count[n]++; row.UNID != entryID(n, count[n]) {
				c.t.Errorf("database %s: entry %d of writer %d is %s", db, count[n], n, row.UNID)
			}
			inner = c.whole(r, id, row)
			return inner == nil
		})
		return errors.Join(err, inner)
	})
	if err != nil {
		c.t.Error("after the crash: ", err)
	}
	return count
}

func (c *earlyCrash) whole(r *Reader, id note.ID, row *layout.Note) error {
	if len(row.Members) != 1 {
		return fmt.Errorf("note %d is in %v", id, row.Members)
	}
	if got, err := r.Member(1, row.Members[0].UID); err != nil || got != id {
		return fmt.Errorf("note %d: its UID leads to %d, %w", id, got, err)
	}
	m, err := r.Message(row)
	if err != nil {
		return err
	}
	raw, err := m.AppendRange(nil, 0, m.Size())
	if want := string(entryMessage(row.UNID)); err != nil || string(raw) != want {
		return fmt.Errorf("note %d has %d bytes, want %d, %w", id, len(raw), len(want), err)
	}
	return nil
}
