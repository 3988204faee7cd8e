package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/archive"
	"doublet/store/blob"
	"doublet/test/long"
)

// target is a store of blobs that fails while away is set. What failed may have arrived.
type target struct {
	blob.Store
	rng  *rand.Rand
	away bool
	// stalled lets Put wait until its caller gives up. It is called when Put waits.
	stalled func()
}

var errAway = errors.New("503 slow down")

func (t *target) Put(ctx context.Context, name string, content []byte) error {
	if t.stalled != nil {
		t.stalled()
		<-ctx.Done()
		return ctx.Err()
	}
	if !t.away {
		return t.Store.Put(ctx, name, content)
	}
	if t.rng.IntN(4) == 0 {
		_ = t.Store.Put(ctx, name, content)
	}
	return errAway
}

func (t *target) List(ctx context.Context, dir string) ([]blob.Info, error) {
	if t.away {
		return nil, errAway
	}
	return t.Store.List(ctx, dir)
}

// recorded is a run whose state is known at each time.
type recorded struct {
	*model
	rng    *rand.Rand
	target *target
	ship   *archive.Shipper
	o      archive.Options
	// place is the place of the archive and of the backups. to encrypts what is written there, from decrypts it.
	place    string
	to, from blob.Keys
	// times holds, in ascending order, times and the number of operations that were done at each.
	times []doneAt
}

type doneAt struct {
	at time.Time
	n  int
}

func archivedOptions() store.Options {
	o := storeOptions()
	o.KeepLog, o.MemTableSize = 1<<30, 64<<10
	return o
}

func newRecorded(t *testing.T, seed uint64) *recorded {
	t.Helper()
	return newRecordedWith(t, seed, archivedOptions())
}

func newRecordedWith(t *testing.T, seed uint64, o store.Options) *recorded {
	t.Helper()
	return newRecordedIn(t, seed, o, "backup", blob.Keys{}, blob.Keys{})
}

// newRecordedIn is newRecordedWith with a place and its keys.
func newRecordedIn(t *testing.T, seed uint64, o store.Options, place string, to, from blob.Keys) *recorded {
	t.Helper()
	return newRecordedOn(t, env.Test(t), seed, o, place, to, from)
}

// newRecordedOn is newRecordedIn in a fixture.
func newRecordedOn(t *testing.T, f *env.Fixture, seed uint64, o store.Options, place string,
	to, from blob.Keys) *recorded {
	t.Helper()
	r := &recorded{model: newModelIn(t, f, o), rng: rand.New(rand.NewPCG(seed, 18)), place: place, to: to,
		from: from}
	r.o.Keys = to
	if err := r.f.FS.MkdirAll("backup", 0o700); err != nil {
		t.Fatal(err)
	}
	r.o.Base = func(ctx context.Context) error {
		if r.target.away {
			return errAway
		}
		_, err := Take(ctx, r.f.Env, r.s, r.place, Options{Keys: r.to})
		return err
	}
	r.open()
	return r
}

// open makes the shipper of the store.
func (r *recorded) open() {
	away := r.target != nil && r.target.away
	place, err := blob.Open(r.f.Env, r.place)
	if err != nil {
		r.t.Fatal(err)
	}
	r.target = &target{Store: place, rng: r.rng, away: away}
	r.ship = archive.NewShipper(r.f.Env, r.s, r.target, r.o)
}

// restart stops the store, with or without a power cut, and opens it again.
func (r *recorded) restart(crash bool) {
	r.t.Helper()
	if crash {
		r.f = r.f.Crash(r.rng.IntN(3)*50, r.rng.Uint64())
	} else if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
	var err error
	if r.s, err = store.Open(r.f.Env, "data", archivedOptions()); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

func isAway(err error) bool { return errors.Is(err, errAway) || errors.Is(err, blob.ErrAway) }

func (r *recorded) turn() {
	r.t.Helper()
	if err := r.ship.Turn(context.Background()); err != nil && !isAway(err) {
		r.t.Fatal(err)
	}
}

func (r *recorded) base() {
	r.t.Helper()
	if err := r.ship.Base(context.Background()); err != nil && !isAway(err) {
		r.t.Fatal(err)
	}
}

// second does the operations of about one second.
func (r *recorded) second() {
	r.t.Helper()
	for range r.rng.IntN(3) {
		if err := r.step(r.rng); err != nil {
			r.t.Fatal(err)
		}
	}
	r.times = append(r.times, doneAt{r.f.Time.Now(), r.done()})
	r.f.Time.Advance(time.Duration(1 + r.rng.Int64N(int64(2*time.Second))))
}

// tidy does what the server does in quiet hours.
func (r *recorded) tidy() {
	r.t.Helper()
	ctx := context.Background()
	_, err := r.s.Sweep(ctx, 50)
	err = errors.Join(err, r.s.Objects().Seal())
	_, err2 := r.s.Rewrite(ctx)
	if err = errors.Join(err, err2, r.s.Trim()); err != nil {
		r.t.Fatal(err)
	}
}

// end brings the archive up to date.
func (r *recorded) end() {
	r.t.Helper()
	r.target.away = false
	r.turn()
	r.f.Time.Advance(time.Minute)
	r.turn()
}

func (r *recorded) moments() []archive.Range {
	r.t.Helper()
	list, err := Moments(context.Background(), r.f.Env, r.place)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func within(list []archive.Range, at time.Time) bool {
	for _, r := range list {
		if !at.Before(r.From) && !at.After(r.To) {
			return true
		}
	}
	return false
}

// restore restores a moment and compares it with the model.
func (r *recorded) restore(d doneAt) {
	r.t.Helper()
	dir := fmt.Sprint("restored", r.rng.Uint64())
	_, err := Restore(context.Background(), r.f.Env, r.place, dir,
		RestoreOptions{Options: Options{Keys: r.from}, To: d.at, Store: storeOptions()})
	if err != nil {
		r.t.Fatalf("%s: %v", d.at, err)
	}
	r.compare(r.f.Env, dir, d.n, d.n)
}

// TestMoments restores random moments of random runs, with crashes, restarts, a target that is away from time to time,
// segments that are rewritten, and backups at any time. Each must equal the model.
func TestMoments(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(4, 8)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRecorded(t, seed)
			r.turn()
			r.base()
			first := len(r.times)
			for range 150 {
				r.second()
				switch n := r.rng.IntN(100); {
				case n < 40:
					r.turn()
				case n < 43:
					r.base()
				case n < 46:
					r.restart(true)
				case n < 48:
					r.restart(false)
				case n < 53:
					r.target.away = !r.target.away
				case n < 60:
					r.tidy()
				}
			}
			r.end()
			list := r.moments()
			if len(list) != 1 {
				t.Errorf("the archive has gaps: %v", list)
			}
			for range 8 {
				d := r.times[first+r.rng.IntN(len(r.times)-first)]
				if !within(list, d.at) {
					t.Errorf("%s is not in %v", d.at, list)
					continue
				}
				r.restore(d)
			}
			if have, err := VerifyArchive(context.Background(), r.f.Env, "backup", Options{}); err != nil ||
				fmt.Sprint(have) != fmt.Sprint(list) {
				t.Errorf("verify: %v %v, want %v", have, err, list)
			}
		})
	}
}

// TestMomentBetween restores a moment between two changes within one second.
func TestMomentBetween(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 1)
	r.turn()
	r.base()
	var times []doneAt
	for range 5 {
		r.steps(1, r.rng.Uint64())
		times = append(times, doneAt{r.f.Time.Now(), r.done()})
		r.f.Time.Advance(time.Microsecond)
	}
	r.end()
	for _, d := range times {
		r.restore(d)
	}
}

// TestMomentRefused asks for moments that the archive lacks. The error names the nearest ones.
func TestMomentRefused(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 2)
	r.f.Time.Advance(time.Hour)
	r.turn()
	r.base()
	for range 20 {
		r.second()
	}
	r.end()
	list := r.moments()
	for _, at := range []time.Time{list[0].From.Add(-time.Second), list[0].To.Add(time.Second)} {
		_, err := Restore(context.Background(), r.f.Env, "backup", "other",
			RestoreOptions{To: at, Store: storeOptions()})
		near := list[0].From
		if at.After(list[0].To) {
			near = list[0].To
		}
		if !errors.Is(err, ErrNoMoment) || !strings.Contains(err.Error(), near.UTC().Format("15:04:05.999999999")) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestMomentInterrupted ends the context while the archive is replayed.
func TestMomentInterrupted(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 8)
	r.turn()
	r.base()
	for range 5 {
		r.second()
		r.turn()
	}
	to := r.times[len(r.times)-1].at
	r.end()
	ctx, cancel := context.WithCancel(context.Background())
	_, _, _, err := OpenMoment(ctx, r.f.Env, r.place, r.from, r.s, to, storeOptions(), func(Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	if _, err := r.f.FS.Stat("data/" + ScratchName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was replayed stays: %v", err)
	}
}

// TestMomentLeavesFloor opens a moment while the device has too little room, from the start and then during the replay.
// It is refused, and what it wrote is removed.
func TestMomentLeavesFloor(t *testing.T) {
	t.Parallel()
	o := archivedOptions()
	o.FloorBytes, o.FloorPercent = 64<<20, -1
	r := newRecordedWith(t, 9, o)
	r.turn()
	r.base()
	for range 20 {
		r.steps(10, r.rng.Uint64())
		r.f.Time.Advance(time.Second)
		r.turn()
	}
	to := r.f.Time.Now()
	r.end()
	floor := o.FloorBytes + spare
	open := func(tell func(Progress)) error {
		_, _, release, err := OpenMoment(context.Background(), r.f.Env, r.place, r.from, r.s, to, storeOptions(), tell)
		if err == nil {
			err = release()
		}
		if _, serr := r.f.FS.Stat("data/" + ScratchName); !errors.Is(serr, fs.ErrNotExist) {
			t.Errorf("what was replayed stays: %v", serr)
		}
		return err
	}
	r.f.Faults.SetSpace(floor + 64<<10)
	if err := open(func(Progress) { t.Error("the replay began") }); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("too little from the start: %v", err)
	}
	steps := 0
	r.f.Faults.SetSpace(floor + 1<<30)
	if err := open(func(Progress) { steps++ }); err != nil {
		t.Error(err)
	}
	met := 0
	if err := open(func(Progress) {
		met++
		r.f.Faults.SetSpace(floor - 1)
	}); !errors.Is(err, store.ErrNoSpace) || met == 0 || met >= steps {
		t.Errorf("too little after the first step: %d of %d steps, %v", met, steps, err)
	}
}

// shifted is a clock that can be set.
type shifted struct {
	env.Clock
	by atomic.Int64
}

// Now implements env.Clock.
func (s *shifted) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// TestClockSetBack sets the clock back by 30 s before a backup. The backup holds changes with times later than it. They
// are in what is restored from it, and of later changes those up to the moment. A backup whose end is not archived yet
// restores nothing, and is not offered: an earlier one restores what the clock showed before it was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 1)
	clock := &shifted{Clock: r.f.Env.Clock}
	r.f.Env.Clock = clock
	r.turn()
	r.base()
	change := func() doneAt {
		r.steps(2, r.rng.Uint64())
		d := doneAt{clock.Now(), r.done()}
		r.f.Time.Advance(time.Second)
		return d
	}
	var before []doneAt
	for range 30 {
		before = append(before, change())
	}
	r.turn()
	clock.by.Store(int64(-30 * time.Second))
	r.f.Time.Advance(5 * time.Second)
	change()
	r.base()
	between := change()
	r.restore(before[20]) // before the archive has the end of the second backup
	r.turn()
	last := change()
	r.f.Time.Advance(time.Minute)
	change()
	r.end()
	r.restore(between)
	r.restore(last)
}

// TestClockSetBackFirst sets the clock back before the first backup. Nothing is offered before the archive has its end.
func TestClockSetBackFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRecorded(t, 2)
	clock := &shifted{Clock: r.f.Env.Clock}
	r.f.Env.Clock = clock
	r.steps(5, 1)
	r.f.Time.Advance(time.Minute)
	r.turn()
	clock.by.Store(int64(-30 * time.Second))
	r.base()
	r.f.Time.Advance(time.Second)
	r.steps(2, 2)
	at := doneAt{clock.Now(), r.done()}
	if list := r.moments(); len(list) != 0 {
		t.Errorf("offered: %v", list)
	}
	_, err := Restore(ctx, r.f.Env, r.place, "early", RestoreOptions{To: at.at, Store: storeOptions()})
	if !errors.Is(err, ErrNoMoment) {
		t.Errorf("before the archive has the end of the backup: %v", err)
	}
	r.end()
	if list, err := VerifyArchive(ctx, r.f.Env, r.place, Options{}); err != nil || !within(list, at.at) {
		t.Errorf("offered: %v, %v", list, err)
	}
	r.restore(at)
}

// TestTargetAway lets the target fail for an hour. What happened in that hour can be restored afterwards.
func TestTargetAway(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 3)
	r.turn()
	r.base()
	r.target.away = true
	for start := r.f.Time.Now(); r.f.Time.Now().Sub(start) < time.Hour; r.f.Time.Advance(20 * time.Second) {
		r.second()
		r.turn()
		if r.rng.IntN(30) == 0 {
			r.restart(true)
		}
	}
	r.end()
	list := r.moments()
	if len(list) != 1 {
		t.Fatalf("the archive has gaps: %v", list)
	}
	for range 3 {
		r.restore(r.times[r.rng.IntN(len(r.times))])
	}
}

// TestTargetStalls lets the target not answer. The shipper gives up after a time and tries again later.
func TestTargetStalls(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 6)
	r.turn()
	r.base()
	r.steps(5, 1)
	want := doneAt{r.f.Time.Now(), r.done()}
	r.target.stalled = func() { r.f.Time.Advance(time.Hour) }
	if err := r.ship.Turn(context.Background()); !errors.Is(err, context.Canceled) {
		t.Errorf("the target stalls: %v", err)
	}
	r.target.stalled = nil
	r.end()
	r.restore(want)
}

// TestTargetFull lets the target be full: backups fail, the log waits, and nothing is missing once there is room.
func TestTargetFull(t *testing.T) {
	t.Parallel()
	r := newRecorded(t, 7)
	r.turn()
	r.base()
	full := env.WithFaults(r.f.Mem)
	full.FailFrom(env.OpWrite, 1, env.ErrNoSpace)
	r.target.Store = blob.Folder(full, "backup")
	for range 40 {
		r.second()
		if err := r.ship.Turn(context.Background()); err != nil && !env.IsNoSpace(err) {
			t.Fatal(err)
		}
	}
	during := r.times[20]
	if within(r.moments(), during.at) {
		t.Error("a full target took the log")
	}
	r.target.Store = blob.Folder(r.f.FS, "backup")
	r.end()
	r.restore(during)
}

// TestGap lets more of the log wait than the bound. The archive gets a gap and begins anew; only moments in the gap are
// lost, and they are refused.
func TestGap(t *testing.T) {
	t.Parallel()
	o := archivedOptions()
	o.KeepLog = 300 << 10
	r := newRecordedWith(t, 4, o)
	r.turn()
	r.base()
	for range 30 {
		r.second()
	}
	r.turn()
	before := r.times[20]
	r.f.Time.Advance(time.Minute)
	r.target.away = true
	var during doneAt
	for range 400 {
		r.second()
		r.turn()
		if kept, _, err := r.s.KeptLog(); err != nil || kept > 300<<10 {
			t.Fatalf("%d bytes of the log are kept: %v", kept, err)
		}
		during = r.times[len(r.times)-1]
	}
	r.target.away = false
	r.turn()
	r.base()
	for range 30 {
		r.second()
	}
	after := r.times[len(r.times)-1]
	r.end()
	list := r.moments()
	if len(list) != 2 || within(list, during.at) {
		t.Fatalf("%v, with %s", list, during.at)
	}
	r.restore(before)
	r.restore(after)
}

// TestArchiveDamage changes and removes steps. Verify names them and says what can still be restored; a restore that
// meets them is refused and replaces nothing.
func TestArchiveDamage(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		r := newRecorded(t, 5)
		r.turn()
		r.base()
		for range 60 {
			r.second()
			r.turn()
		}
		r.end()
		whole := r.moments()
		ctx := context.Background()
		list, err := r.target.List(ctx, "archive")
		if err != nil || len(list) < 20 {
			t.Fatal(list, err)
		}
		name := list[len(list)/2].Name
		content, err := r.target.Get(ctx, name, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)-1] ^= 1
		if err = r.target.Put(ctx, name, content); lost {
			err = r.target.Remove(ctx, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		have, err := VerifyArchive(ctx, r.f.Env, "backup", Options{})
		if !errors.Is(err, archive.ErrDamaged) || len(have) != 1 || !have[0].To.Before(whole[0].To) {
			t.Fatalf("verify: %v %v", have, err)
		}
		for _, d := range r.times {
			if within(have, d.at) && r.rng.IntN(10) == 0 {
				r.restore(d)
			}
		}
		last := r.times[len(r.times)-1].at
		_, err = Restore(ctx, r.f.Env, "backup", "data2", RestoreOptions{To: last, Store: storeOptions()})
		if want := map[bool]error{false: archive.ErrDamaged, true: ErrNoMoment}[lost]; !errors.Is(err, want) {
			t.Errorf("restore: %v, want %v", err, want)
		}
	}
}
