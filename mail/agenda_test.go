package mail

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"doublet/env"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/test/long"
)

func newAgenda() *agenda {
	a := &agenda{}
	a.init()
	return a
}

func at(n int) time.Time { return env.TestStart.Add(time.Duration(n) * time.Second) }

func (a *agenda) here(id note.ID, due time.Time, u queue.Urgency) {
	a.set(queue.MakeKey(0, id), &work{local: due, urgency: u}, seconds(env.TestStart))
}

func TestAgendaLocal(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	a.here(1, at(3), queue.Normal)
	a.here(2, at(1), queue.Normal)
	a.here(1, at(2), queue.Normal) // earlier
	a.here(3, at(1), queue.Normal)
	a.here(3, time.Time{}, queue.Normal) // no local work
	a.here(5, at(2), queue.High)
	a.here(6, at(1), queue.Low)
	var got []note.ID
	for {
		k, due, ok := a.next(at(2))
		if !ok {
			if !due.IsZero() {
				t.Errorf("due %s", due)
			}
			break
		}
		got = append(got, k.Note())
	}
	if fmt.Sprint(got) != "[5 2 1 6]" {
		t.Error(got)
	}
	a.here(4, at(5), queue.Normal)
	if _, due, ok := a.next(at(0)); ok || !due.Equal(at(5)) {
		t.Error(due, ok)
	}
	if _, _, ok := a.next(at(5)); !ok || a.items != 0 {
		t.Errorf("%d appointments are left", a.items)
	}
}

// TestAgendaSendsOnce checks that an entry that is being sent is not taken again, whatever changes are read in the
// meantime, and that it is read again afterwards.
func TestAgendaSendsOnce(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	k := queue.MakeKey(3, 77)
	set := func() {
		a.set(k, &work{out: []outWork{{dest: "far.example"}, {dest: "near.example"}}}, seconds(at(0)))
	}
	set()
	far, near := a.dest("far.example"), a.dest("near.example")
	if got, ok := a.take(far, at(0)); !ok || got != k || got.Box() != 3 || got.Note() != 77 {
		t.Fatal(got, ok)
	}
	set()
	if _, ok := a.take(far, at(0)); ok {
		t.Error("taken twice")
	}
	if got, ok := a.take(near, at(0)); !ok || got != k {
		t.Error("another destination must wait for nobody")
	}
	a.done(k, far, false, false)
	if len(a.refresh) != 1 || a.beingSent(k) != true {
		t.Errorf("%v", a.refresh)
	}
	a.done(k, near, true, false)
	if len(a.gens) != 0 || a.beingSent(k) {
		t.Error("what is gone is remembered")
	}
}

// TestAgendaKeepsUrgency checks that a postponed entry is taken in the order of its own urgency, not as a normal one.
func TestAgendaKeepsUrgency(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	d := a.dest("far.example")
	now := seconds(at(0))
	urgencies := []queue.Urgency{queue.Low, queue.Normal, queue.High}
	for i, u := range urgencies {
		k := queue.MakeKey(0, note.ID(1+i))
		a.set(k, &work{local: at(0), urgency: u, out: []outWork{{dest: "far.example"}}}, now)
	}
	for _, take := range []struct {
		name string
		next func(at time.Time) (queue.Key, bool)
		dest *destination
	}{
		{"local", func(at time.Time) (queue.Key, bool) { k, _, ok := a.next(at); return k, ok }, nil},
		{"remote", func(at time.Time) (queue.Key, bool) { return a.take(d, at) }, d},
	} {
		for round := range 2 {
			var got []queue.Key
			for k, ok := take.next(at(round)); ok; k, ok = take.next(at(round)) {
				got = append(got, k)
			}
			if len(got) != 3 || got[0].Note() != 3 || got[1].Note() != 2 || got[2].Note() != 1 {
				t.Errorf("%s, round %d: %v", take.name, round, got)
			}
			for _, k := range got {
				if take.dest != nil {
					a.done(k, d, false, false)
				}
				a.readd(k, take.dest, seconds(at(round+1)), seconds(at(round)))
			}
		}
	}
}

// TestAgendaModel checks that the agenda returns the due work after any sequence of changes, with the latest version of
// each entry.
func TestAgendaModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	a := newAgenda()
	d := a.dest("far.example")
	due := map[queue.Key]int{}
	now := 0
	for range 20_000 {
		k := queue.MakeKey(r.IntN(queue.MaxBoxes), note.ID(r.IntN(200)))
		switch r.IntN(4) {
		case 0:
			a.set(k, &work{}, seconds(at(now)))
			delete(due, k)
		case 1:
			now++
			for {
				got, ok := a.take(d, at(now))
				if !ok {
					break
				}
				if want, there := due[got]; !there || want > now {
					t.Fatalf("%v was taken at %d, due %d (%v)", got, now, want, there)
				}
				delete(due, got)
				a.done(got, d, true, false)
			}
			for k, at := range due {
				if at <= now {
					t.Fatalf("%v was due at %d and not taken at %d", k, at, now)
				}
			}
		default:
			n := now + r.IntN(50)
			a.set(k, &work{out: []outWork{{dest: d.name, due: at(n)}}, urgency: queue.Urgency(r.IntN(3))},
				seconds(at(now)))
			due[k] = n
		}
		if a.items != d.size() || len(a.gens) != len(due) {
			t.Fatalf("%d appointments counted, %d there; %d entries, want %d", a.items, d.size(), len(a.gens), len(due))
		}
	}
}

// TestAgendaSpills checks that appointments beyond the limit are left out, first those of a destination with many of
// them, and found again when there is room.
func TestAgendaSpills(t *testing.T) {
	t.Parallel()
	a := newAgenda()
	a.limit = 1000
	for i := range 2000 {
		a.set(queue.MakeKey(0, note.ID(i)), &work{out: []outWork{{dest: "dead.example"}}}, seconds(at(0)))
	}
	if a.items > 600 || !a.full {
		t.Fatalf("%d appointments, full %v", a.items, a.full)
	}
	for i := range 100 {
		a.set(queue.MakeKey(1, note.ID(i)), &work{out: []outWork{{dest: "live.example"}}}, seconds(at(0)))
	}
	if n := a.dest("live.example").size(); n != 100 {
		t.Errorf("%d of 100 for a destination that is not to blame", n)
	}
	a.since0 = at(0)
	if a.spilled(at(1)) {
		t.Error("it is full still")
	}
	for range 400 {
		k, _ := a.take(a.dest("dead.example"), at(0))
		a.done(k, a.dest("dead.example"), true, false)
	}
	if !a.spilled(at(1)) {
		t.Error("there is room")
	}
	a.restart()
	if a.items != 0 || a.full || len(a.gens) != 0 {
		t.Errorf("%+v", a.items)
	}
}

// TestMillionWaiting measures the memory for a million messages that wait for 1,000 destinations.
func TestMillionWaiting(t *testing.T) {
	long.Test(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	a := newAgenda()
	var names [1000]string
	for i := range names {
		names[i] = fmt.Sprintf("d%d.example", i)
	}
	for i := range 1_000_000 {
		a.set(queue.MakeKey(0, note.ID(i+1)), &work{local: at(4 * 3600),
			out: []outWork{{dest: names[i%1000], due: at(i % 3600)}}}, seconds(at(0)))
	}
	after := heap()
	used := (after - before) >> 20
	t.Logf("%d MB for 1,000,000 messages", used)
	if used > 100 {
		t.Errorf("%d MB, at most 100", used)
	}
	runtime.KeepAlive(a)
}
