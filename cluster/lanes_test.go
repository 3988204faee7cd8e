package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// laneWorld is the feed, the mate and the job of a replicator that has many databases in transfer.
type laneWorld struct {
	t  *testing.T
	r  *replicator
	mu sync.Mutex
	// last is the sequence number of each database's latest change. has is the one that the mate has.
	last, has map[note.DatabaseID]uint64
	now       uint64
	moved     chan struct{}
	saved     store.Cursor
	list      []store.Change

	under     map[note.DatabaseID]bool
	most      int
	takes     func(db note.DatabaseID) time.Duration
	fails     func(db note.DatabaseID) error // called when a send ends
	landed    map[note.DatabaseID]int
	dead      bool
	turns     int
	sends     int
	confirmed int
	awaits    bool
}

func newLaneWorld(t *testing.T, lanes int) *laneWorld {
	w := &laneWorld{
		t: t, last: map[note.DatabaseID]uint64{}, has: map[note.DatabaseID]uint64{}, moved: make(chan struct{}),
		under:  map[note.DatabaseID]bool{},
		takes:  func(note.DatabaseID) time.Duration { return time.Millisecond },
		fails:  func(note.DatabaseID) error { return nil },
		landed: map[note.DatabaseID]int{}, now: 1, list: []store.Change{{Seq: 1}},
	}
	w.r = newReplicator(note.UNID{1}, 0, 1, lanes, w, env.Real(slog.New(slog.DiscardHandler)).Clock, w,
		newQueueStats(nil, "X", "", nil))
	return w
}

// start runs the replicator until stop is called.
func (w *laneWorld) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.r.run(ctx, &running{
			spawn: func(f func()) { go f() }, every: time.Second,
			mate: func() (still, alive bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.turns++
				return true, !w.dead
			},
			failed: func(error) {},
		})
	}()
	return func() {
		cancel()
		<-done
	}
}

func (w *laneWorld) change(db note.DatabaseID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	w.last[db] = w.now
	w.list = append(w.list, store.Change{Database: db, Seq: w.now})
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *laneWorld) Feed(c store.Cursor, fn func(store.Change) bool) (store.Cursor, error) {
	w.mu.Lock()
	list := w.list
	w.mu.Unlock()
	for _, ch := range list[min(int(c.Seq), len(list)):] {
		if !fn(ch) {
			break
		}
		c.Seq = ch.Seq
	}
	return c, nil
}

func (w *laneWorld) Now() store.Cursor {
	w.mu.Lock()
	defer w.mu.Unlock()
	return store.Cursor{Incarnation: 1, Seq: w.now}
}

func (w *laneWorld) FeedMoved(c store.Cursor) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now > c.Seq {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return w.moved
}

func (w *laneWorld) SaveCursor(_ string, c store.Cursor) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for db, seq := range w.last {
		if seq <= c.Seq && w.has[db] < seq {
			w.t.Errorf("the cursor is saved at %d; change %d of %d is not at the mate", c.Seq, seq, db)
		}
	}
	w.saved = c
	return nil
}

func (w *laneWorld) LoadCursor(string) (store.Cursor, error) {
	return store.Cursor{Incarnation: 1, Seq: 1}, nil // not its first run
}

func (w *laneWorld) wants(_ note.UNID, db note.DatabaseID) (yes, queue bool) {
	return true, db >= 900
}

func (w *laneWorld) due(context.Context, note.UNID, note.DatabaseID) (bool, error) { return true, nil }

func (w *laneWorld) reached(note.UNID, note.DatabaseID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.confirmed++
}

func (w *laneWorld) awaited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.awaits
}

func (w *laneWorld) stands(note.DatabaseID) note.ModSeq { return note.ModSeq(w.Now().Seq) }

// cleared returns true when all earlier changes have reached the mate.
func (w *laneWorld) cleared(seq uint64) bool { return w.r.cleared(seq, nil) }

func (w *laneWorld) compare(context.Context, *replicator, note.DatabaseID) (note.DatabaseID, error) {
	return 0, nil
}

func (w *laneWorld) send(ctx context.Context, _ note.UNID, db note.DatabaseID, until note.ModSeq, _ bool) error {
	w.mu.Lock()
	if w.under[db] {
		w.t.Errorf("database %d is under way twice", db)
	}
	w.under[db] = true
	w.most = max(w.most, len(w.under))
	w.sends++
	seq := w.last[db]
	if until != 0 {
		seq = uint64(until)
		for _, ch := range w.list[:until] {
			if ch.Database < 900 && w.has[ch.Database] < ch.Seq && ch.Seq > 1 {
				w.t.Errorf("what queue %d removed up to %d goes before change %d of %d", db, until, ch.Seq, ch.Database)
			}
		}
	}
	d := w.takes(db)
	w.mu.Unlock()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.under, db)
	if w.dead {
		return fmt.Errorf("%w: x", errMate)
	}
	err := w.fails(db)
	if err == nil || errors.Is(err, errMate) { // errMate: the mate applied it, but its answer was lost
		w.has[db] = max(w.has[db], seq)
	}
	if err == nil {
		w.landed[db]++
	}
	return err
}

// TestLanes checks that as many databases are in transfer as there are lanes, that a slow database and one that always
// fails do not delay others, and that changes during a transfer are sent in the next one.
func TestLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLaneWorld(t, maxLanes)
		w.takes = func(db note.DatabaseID) time.Duration {
			if db == 1 {
				return time.Minute
			}
			return 10 * time.Millisecond
		}
		w.fails = func(db note.DatabaseID) error {
			if db == 2 {
				return errors.New("poisoned")
			}
			return nil
		}
		defer w.start()()
		for db := range note.DatabaseID(100) {
			w.change(db + 1)
		}
		began := time.Now()
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		w.mu.Lock()
		for db := note.DatabaseID(3); db <= 100; db++ {
			if w.has[db] != w.last[db] {
				t.Errorf("database %d waits after %v", db, time.Since(began))
			}
		}
		if w.most != maxLanes {
			t.Errorf("%d databases were under way at a time, there are %d lanes", w.most, maxLanes)
		}
		w.mu.Unlock()
		if db, since, _ := w.r.doing(); db != 1 || !since.Equal(began) {
			t.Errorf("under way longest: %d since %v", db, since)
		}
		if n := w.r.depth(); n != 2 {
			t.Errorf("%d databases wait", n)
		}
		// It changes twice during the transfer, so it is sent exactly once more.
		w.change(1)
		w.change(1)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.has[1] != w.last[1] || w.landed[1] != 2 {
			t.Errorf("the slow one came %d times, up to %d of %d", w.landed[1], w.has[1], w.last[1])
		}
		if w.confirmed != 98+2 {
			t.Errorf("%d times a mate had something", w.confirmed)
		}
	})
}

// TestGather checks that changes that follow each other at once are sent together, that none waits longer than
// gatherFor, and that none waits while somebody waits for the mate.
func TestGather(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		awaits bool
		hurry  time.Duration // after the first change; 0: never
		sends  int
		at     time.Duration // of the first send, after the first change
	}{
		{"nobody waits", false, 0, 2, gatherFor},
		{"somebody waits", true, 0, 4, 0},
		{"somebody begins to wait", false, gatherFor * 3 / 8, 3, gatherFor * 3 / 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLaneWorld(t, maxLanes)
				w.awaits = c.awaits
				var began time.Time
				var first time.Duration
				w.takes = func(note.DatabaseID) time.Duration {
					if w.sends == 1 {
						first = time.Since(began)
					}
					return 0
				}
				defer w.start()()
				time.Sleep(1500 * time.Millisecond) // its first step is over, and no step is due
				began = time.Now()
				if c.hurry != 0 {
					time.AfterFunc(c.hurry, w.r.hurry.fire)
				}
				for _, db := range []note.DatabaseID{1, 2, 1, 1} {
					w.change(db)
					time.Sleep(gatherFor / 4)
				}
				time.Sleep(10 * gatherFor)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.sends != c.sends || first != c.at {
					t.Errorf("%d sends, the first after %v; want %d, %v", w.sends, first, c.sends, c.at)
				}
				if w.has[1] != w.last[1] || w.has[2] != w.last[2] {
					t.Error("a change did not come")
				}
			})
		})
	}
}

// TestLanesOfMany checks that the replicators for a mate leave credits for other requests.
func TestLanesOfMany(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ workers, requests, want int }{{1, 64, 32}, {2, 64, 24}, {4, 64, 12}, {16, 64, 3},
		{1, 32, 24}, {1, 8, 6}, {1, 1, 1}, {16, 8, 1}} {
		if got := lanes(c.workers, c.requests); got != c.want {
			t.Errorf("%d replicators with %d requests have %d lanes each, want %d", c.workers, c.requests, got, c.want)
		}
	}
}

// TestLanesRandom makes databases slow, transfers fail, answers get lost and the mate die. Finally the mate must have
// everything. No database may be in transfer twice, no removal from a queue may overtake another change, and the cursor
// may not pass a change that is missing at the mate.
func TestLanesRandom(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 30; seed++ {
		synctest.Test(t, func(t *testing.T) {
			rng, mates := rand.New(rand.NewPCG(seed, 9)), rand.New(rand.NewPCG(seed, 10)) // w.mu protects mates
			w := newLaneWorld(t, 1+int(seed%3)*15)
			healed := false
			w.takes = func(note.DatabaseID) time.Duration {
				return time.Duration(mates.IntN(30)) * time.Millisecond
			}
			w.fails = func(db note.DatabaseID) error {
				switch {
				case healed:
				case mates.IntN(40) == 0:
					return fmt.Errorf("%w: the answer is lost", errMate)
				case db%7 == 0 && mates.IntN(3) > 0:
					return errors.New("poisoned")
				}
				return nil
			}
			defer w.start()()
			for range 400 {
				db := note.DatabaseID(1 + rng.IntN(50))
				if rng.IntN(10) == 0 {
					db = 900 + note.DatabaseID(rng.IntN(2))
				}
				w.change(db)
				if rng.IntN(30) == 0 {
					w.r.touch(db, db >= 900)
				}
				w.mu.Lock()
				w.dead = rng.IntN(50) == 0
				wait := time.Duration(rng.IntN(4)) * time.Millisecond
				w.mu.Unlock()
				time.Sleep(wait)
			}
			w.mu.Lock()
			healed, w.dead = true, false
			w.mu.Unlock()
			time.Sleep(time.Hour)
			synctest.Wait()
			if !w.r.idle() {
				t.Errorf("seed %d: %d wait", seed, w.r.depth())
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for db, seq := range w.last {
				if w.has[db] < seq {
					t.Errorf("seed %d: change %d of %d never came", seed, seq, db)
				}
			}
			if w.most > w.r.lanes {
				t.Errorf("seed %d: %d under way, %d lanes", seed, w.most, w.r.lanes)
			}
			if w.saved.Seq != w.now {
				t.Errorf("seed %d: the cursor is saved at %d of %d", seed, w.saved.Seq, w.now)
			}
		})
	}
}

// TestReplicatorRests checks that a waiting replicator checks once per interval and does nothing else. A busy loop
// would hang synctest.Wait and thus the test.
func TestReplicatorRests(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(w *laneWorld){
		"nothing to do":    func(w *laneWorld) {},
		"a mate is silent": func(w *laneWorld) { w.dead = true },
		"one fails": func(w *laneWorld) {
			w.fails = func(note.DatabaseID) error { return errors.New("poisoned") }
		},
		"lanes are full": func(w *laneWorld) {
			w.takes = func(note.DatabaseID) time.Duration { return 24 * time.Hour }
		},
		"a queue waits": func(w *laneWorld) { // forever: earlier changes of other databases never arrive
			w.change(900)
			w.takes = func(note.DatabaseID) time.Duration { return 24 * time.Hour }
		},
		"no more room": func(w *laneWorld) {
			for db := range note.DatabaseID(maxWaiting + maxTake) {
				w.r.waiting[db+1000] = &task{db: db + 1000, retry: time.Now().Add(24 * time.Hour)}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLaneWorld(t, maxLanes)
				set(w)
				for db := range note.DatabaseID(100) {
					w.change(db + 1)
				}
				defer w.start()()
				time.Sleep(10 * maxRetry) // failed databases have reached the longest pause
				synctest.Wait()
				turns := func() (n, sends int) {
					w.mu.Lock()
					defer w.mu.Unlock()
					return w.turns, w.sends
				}
				before, sent := turns()
				time.Sleep(100 * time.Second)
				synctest.Wait()
				after, more := turns()
				// One turn for each second, and one for each database that was retried and failed.
				if n := after - before; n < 99 || n > 101+2*(more-sent) {
					t.Errorf("%d turns in 100 s, %d databases were sent", n, more-sent)
				}
				if name != "one fails" && more != sent {
					t.Errorf("%d databases were sent", more-sent)
				}
			})
		})
	}
}

// TestConfirmations checks that a waiter is woken only by its own database, and that no waiter remains registered.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	var c confirmations
	s, stop := c.wait([]note.DatabaseID{1, 2})
	next := s.next()
	c.fire(3)
	select {
	case <-next:
		t.Error("woken by another database")
	default:
	}
	c.fire(2)
	select {
	case <-next:
	default:
		t.Error("not woken")
	}
	stop()
	if len(c.by) != 0 {
		t.Errorf("%d databases are waited for", len(c.by))
	}
}

// TestKnowledge checks that the cache of a mate's replicas is limited, and discarded when the mate restarts.
func TestKnowledge(t *testing.T) {
	t.Parallel()
	var k knowledge
	one := k.of(1)
	for db := range note.DatabaseID(maxKnown) {
		k.of(db + 2)
		if k.of(1) != one {
			t.Fatalf("forgotten after %d others though it is used", db)
		}
	}
	for db := range note.DatabaseID(3 * maxKnown) {
		k.of(db + 2)
	}
	if n := len(k.now) + len(k.old); n > 2*maxKnown {
		t.Errorf("%d are remembered", n)
	}
	one = k.of(1)
	k.forget()
	if k.of(1) == one {
		t.Error("remembered of a mate that started anew")
	}
}
