package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
)

// fakeFeed is a feed in memory.
type fakeFeed struct {
	changes []store.Change // changes[i] has sequence number i+1
	cut     uint64
	saved   map[string]store.Cursor
}

func (f *fakeFeed) Feed(c store.Cursor, fn func(store.Change) bool) (store.Cursor, error) {
	if c.Seq < f.cut {
		return c, store.ErrFeedCut
	}
	for _, ch := range f.changes {
		if ch.Seq <= c.Seq {
			continue
		}
		if !fn(ch) {
			return c, nil
		}
		c.Seq = ch.Seq
	}
	return c, nil
}

func (f *fakeFeed) Now() store.Cursor {
	return store.Cursor{Incarnation: 1, Seq: uint64(len(f.changes))}
}

func (f *fakeFeed) SaveCursor(name string, c store.Cursor) error {
	f.saved[name] = c
	return nil
}

func (f *fakeFeed) LoadCursor(name string) (store.Cursor, error) {
	c := f.saved[name]
	c.Incarnation = 1
	return c, nil
}

func (f *fakeFeed) FeedMoved(store.Cursor) <-chan struct{} { return nil }

func (f *fakeFeed) change(db note.DatabaseID) uint64 {
	seq := uint64(len(f.changes) + 1)
	f.changes = append(f.changes, store.Change{Database: db, Seq: seq})
	return seq
}

// fakeMate records the sequence number up to which it has each database.
type fakeMate struct {
	t     *testing.T
	feed  *fakeFeed
	rng   *rand.Rand
	has   map[note.DatabaseID]uint64
	fails map[note.DatabaseID]bool
	dead  bool
	// others are databases of which there is nothing to send. settled counts the calls of reached for them.
	others  map[note.DatabaseID]bool
	settled int
	safe    uint64 // the sequence number up to which removals from queues are cleared
	// during, if set, is called while a database is being sent.
	during func(db note.DatabaseID)
	r      *replicator
}

func (m *fakeMate) wants(_ note.UNID, db note.DatabaseID) (yes, queue bool) {
	return db != 99, db >= 50
}

// due is true for all but the databases that others change here.
func (m *fakeMate) due(_ context.Context, _ note.UNID, db note.DatabaseID) (bool, error) {
	return !m.others[db], nil
}

func (m *fakeMate) send(_ context.Context, _ note.UNID, db note.DatabaseID, until note.ModSeq, _ bool) error {
	if m.dead {
		return fmt.Errorf("%w: x", errMate)
	}
	seq := uint64(len(m.feed.changes))
	if until != 0 {
		seq = uint64(until)
		if seq > m.safe {
			m.t.Fatalf("queue %d went up to %d, safe is %d", db, seq, m.safe)
		}
	}
	if m.during != nil {
		m.during(db)
	}
	if m.fails[db] {
		return errors.New("poisoned")
	}
	m.has[db] = max(m.has[db], seq)
	return nil
}

func (m *fakeMate) reached(_ note.UNID, db note.DatabaseID) {
	if m.others[db] {
		m.settled++
	}
}

func (m *fakeMate) awaited() bool { return false }

func (m *fakeMate) stands(note.DatabaseID) note.ModSeq { return note.ModSeq(len(m.feed.changes)) }

func (m *fakeMate) cleared(seq uint64) bool { return seq <= m.safe }

func (m *fakeMate) compare(_ context.Context, r *replicator, from note.DatabaseID) (note.DatabaseID, error) {
	if m.dead {
		return from, errMate
	}
	// Compare three databases at a time, and queue those that the mate lacks.
	last := map[note.DatabaseID]uint64{}
	for _, ch := range m.feed.changes {
		last[ch.Database] = ch.Seq
	}
	for db := from; db < 60; db++ {
		if db >= from+3 {
			return db, nil
		}
		if last[db] > m.has[db] && r.mine(db) {
			r.touch(db, db >= 50)
		}
	}
	return 0, nil
}

func (m *fakeMate) start(worker, workers int) {
	m.r = newReplicator(note.UNID{1}, worker, workers, 1, m.feed, env.NewManual(env.TestStart), m,
		newQueueStats(nil, "X", "", nil))
}

func (m *fakeMate) clock() *env.Manual { return m.r.clock.(*env.Manual) }

// check compares the state of the replicator with that of the mate.
func (m *fakeMate) check(where string) {
	m.t.Helper()
	last := map[note.DatabaseID]uint64{}
	for _, ch := range m.feed.changes {
		last[ch.Database] = ch.Seq
		if m.r.passed(ch.Database, ch.Seq) && m.r.mine(ch.Database) && ch.Database != 99 &&
			m.has[ch.Database] < ch.Seq {
			m.t.Fatalf("%s: change %d of %d is said to have passed; the mate has %d", where, ch.Seq, ch.Database,
				m.has[ch.Database])
		}
	}
	saved := m.feed.saved[cursorName(m.r.mate, m.r.worker, m.r.workers)].Seq
	for db, seq := range last {
		if db != 99 && m.r.mine(db) && !m.r.sweeping && m.has[db] < seq {
			first := uint64(0)
			for _, ch := range m.feed.changes {
				if ch.Database == db && ch.Seq > m.has[db] {
					first = ch.Seq
					break
				}
			}
			if t := m.r.waiting[db]; saved >= first && (t == nil || !t.touched) {
				m.t.Fatalf("%s: the cursor is saved at %d, change %d of %d has not passed", where, saved, first, db)
			}
		}
	}
}

func TestReplicatorRandom(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 300; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := &fakeMate{t: t, rng: rng, feed: &fakeFeed{saved: map[string]store.Cursor{}},
			has:   map[note.DatabaseID]uint64{},
			fails: map[note.DatabaseID]bool{}}
		worker, workers := rng.IntN(2), 2
		m.start(worker, workers)
		any := func() note.DatabaseID {
			if rng.IntN(5) == 0 {
				return note.DatabaseID(50 + rng.IntN(2))
			}
			if rng.IntN(20) == 0 {
				return 99 // a database that the mate does not have
			}
			return note.DatabaseID(1 + rng.IntN(12))
		}
		m.during = func(note.DatabaseID) {
			if rng.IntN(4) == 0 {
				m.feed.change(any())
			}
			if rng.IntN(10) == 0 {
				m.r.touch(note.DatabaseID(1+rng.IntN(12)), false)
			}
		}
		step := func() {
			_, err := m.r.step(context.Background(), inline)
			if err != nil && !errors.Is(err, errMate) {
				t.Fatal(err)
			}
			m.check(fmt.Sprint("seed ", seed))
		}
		for range 150 {
			switch rng.IntN(12) {
			case 0, 1, 2, 3:
				m.feed.change(any())
			case 4:
				m.fails[any()] = true
			case 5:
				clear(m.fails)
			case 6:
				m.dead = rng.IntN(2) == 0
			case 7:
				m.safe = uint64(len(m.feed.changes))
			case 8:
				m.clock().Advance(time.Duration(rng.IntN(20)) * time.Second)
			case 9:
				if rng.IntN(6) == 0 { // a restart
					m.start(worker, workers)
				}
				if rng.IntN(12) == 0 {
					m.feed.cut = uint64(len(m.feed.changes))
				}
			default:
				step()
			}
		}
		m.dead, m.during, m.fails = false, nil, map[note.DatabaseID]bool{}
		m.safe = uint64(len(m.feed.changes))
		for range 40 {
			m.clock().Advance(maxRetry)
			step()
		}
		if !m.r.idle() {
			t.Fatalf("seed %d: not idle: %d wait, sweeping %v, read %d of %d", seed, m.r.depth(), m.r.sweeping,
				m.r.read.Seq, len(m.feed.changes))
		}
		for _, ch := range m.feed.changes {
			if m.r.mine(ch.Database) && ch.Database != 99 && m.has[ch.Database] < ch.Seq {
				t.Fatalf("seed %d: change %d of %d never came", seed, ch.Seq, ch.Database)
			}
		}
	}
}

// TestPoisoned makes one database fail forever: the others must be sent.
func TestPoisoned(t *testing.T) {
	t.Parallel()
	m := &fakeMate{t: t, feed: &fakeFeed{saved: map[string]store.Cursor{}}, has: map[note.DatabaseID]uint64{},
		fails: map[note.DatabaseID]bool{3: true}}
	m.start(0, 1)
	for i := range 100 {
		m.feed.change(note.DatabaseID(1 + i%10))
		if _, err := m.r.step(context.Background(), inline); err != nil {
			t.Fatal(err)
		}
		m.clock().Advance(10 * time.Millisecond)
	}
	for range 10 {
		if _, err := m.r.step(context.Background(), inline); err != nil {
			t.Fatal(err)
		}
	}
	for db := note.DatabaseID(1); db <= 10; db++ {
		if want := db != 3; m.r.passed(db, 100) != want {
			t.Errorf("database %d has passed: %v", db, !want)
		}
	}
	if n := m.r.depth(); n != 1 {
		t.Errorf("%d databases wait", n)
	}
	if saved := m.feed.saved[cursorName(m.r.mate, 0, 1)]; saved.Seq != 2 {
		t.Errorf("the cursor is saved at %d, the poisoned database changed first at 3", saved.Seq)
	}
}

// TestNothingDue checks that a change of which there is nothing to send counts as received by the mate without a
// transfer, unless its database waits for another reason.
func TestNothingDue(t *testing.T) {
	t.Parallel()
	m := &fakeMate{t: t, feed: &fakeFeed{saved: map[string]store.Cursor{}}, has: map[note.DatabaseID]uint64{},
		others: map[note.DatabaseID]bool{3: true}}
	m.start(0, 1)
	step := func() {
		t.Helper()
		for range 50 { // until all are compared
			if _, err := m.r.step(context.Background(), inline); err != nil {
				t.Fatal(err)
			}
		}
	}
	step()
	theirs, ours := m.feed.change(3), m.feed.change(4)
	if m.r.passed(3, theirs) {
		t.Error("passed before it was read")
	}
	step()
	if !m.r.passed(3, theirs) || m.settled != 1 || m.has[3] != 0 {
		t.Errorf("passed %v, settled %d times, the mate was sent %d", m.r.passed(3, theirs), m.settled, m.has[3])
	}
	if m.has[4] < ours {
		t.Error("another database was not sent")
	}
	m.r.touch(3, false)
	again := m.feed.change(3)
	step()
	if m.has[3] < again || !m.r.passed(3, again) {
		t.Errorf("touched, and the mate was sent %d of %d", m.has[3], again)
	}
	if !m.r.idle() {
		t.Errorf("%d wait", m.r.depth())
	}
}

func TestQueueStatistics(t *testing.T) {
	t.Parallel()
	tree := stat.New(env.NewManual(env.TestStart))
	all := newQueueStats(tree, "Replica.Cluster", "", nil)
	one := newQueueStats(tree, "Replica.Cluster.Mate.B", " on B", all)
	for range 4 {
		one.arrived()
	}
	all.sample()
	one.replicated(2 * time.Second)
	one.replicated(4 * time.Second)
	one.left(2)
	all.sample()
	one.fail()
	want := map[string]float64{
		"Replica.Cluster.WorkQueueDepth": 2, "Replica.Cluster.WorkQueueDepth.Avg": 3,
		"Replica.Cluster.WorkQueueDepth.Max": 4,
		"Replica.Cluster.SecondsOnQueue":     4, "Replica.Cluster.SecondsOnQueue.Avg": 3,
		"Replica.Cluster.SecondsOnQueue.Max": 4,
		"Replica.Cluster.Successful":         2, "Replica.Cluster.Failed": 1,
		"Replica.Cluster.Mate.B.WorkQueueDepth":     2,
		"Replica.Cluster.Mate.B.SecondsOnQueue.Avg": 3,
	}
	for _, e := range tree.Snapshot("") {
		if v, ok := want[e.Name]; ok && v != e.Value {
			t.Errorf("%s is %v, want %v", e.Name, e.Value, v)
		}
		delete(want, e.Name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}

// depth returns the number of databases that wait.
func (r *replicator) depth() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}
