package mail

import (
	"time"

	"doublet/mail/queue"
)

// agenda schedules the work on the entries of mail.box: local work, and work for each remote destination. It is an
// in-memory index of the store with 16 bytes per appointment. Its size is bounded: appointments that do not fit are
// found by reading mail.box again when there is room.
//
// Appointments are not removed when they become invalid. Each update of an entry gives it a new generation, and
// appointments of older generations are ignored.
type agenda struct {
	gens  map[queue.Key]generation
	gen   uint32
	local appointments
	dests map[string]*destination
	// runnable lists the destinations for the next dispatch.
	runnable []*destination
	timers   timers
	// busy holds entries that are being sent. The value is true if an appointment was dropped because of that.
	busy    map[busyKey]bool
	refresh []queue.Key // entries to be read again

	limit int
	items int
	// full is set if appointments were left out; fullAt is the number of items at that time.
	full   bool
	fullAt int
	since0 time.Time
	clean  int // items after the last sweep
}

type busyKey struct {
	entry queue.Key
	dest  *destination
}

// maxAgenda is the maximum number of appointments in memory.
const maxAgenda = 2_500_000

// generation is the current generation of an entry: the number that its valid appointments have, and the rank of its
// urgency.
type generation struct {
	number uint32
	rank   uint8
}

// item is an appointment. Its key is the entry's key with the rank of its urgency in the top two bits.
type item struct {
	key uint64
	due uint32 // Unix seconds
	gen uint32
}

const rankShift = queue.KeyBits

// item returns an appointment for the entry k in the generation g.
func (g generation) item(k queue.Key) item {
	return item{key: uint64(k) | uint64(g.rank)<<rankShift, gen: g.number}
}

func (i *item) entry() queue.Key { return queue.Key(i.key &^ (3 << rankShift)) }

func readyBefore(a, b *item) bool {
	if ra, rb := a.key>>rankShift, b.key>>rankShift; ra != rb {
		return ra < rb
	}
	return a.due < b.due || a.due == b.due && a.key < b.key
}

func dueBefore(a, b *item) bool { return a.due < b.due || a.due == b.due && a.key < b.key }

// appointments is two heaps: ready holds appointments that are due, by urgency; later holds the others, by time.
type appointments struct{ ready, later []item }

func (q *appointments) size() int { return len(q.ready) + len(q.later) }

func (q *appointments) add(x item, now uint32) {
	if x.due <= now {
		q.ready = up(append(q.ready, x), readyBefore)
	} else {
		q.later = up(append(q.later, x), dueBefore)
	}
}

// ripen moves the appointments that have become due to ready.
func (q *appointments) ripen(now uint32) {
	for len(q.later) > 0 && q.later[0].due <= now {
		var x item
		x, q.later = pop(q.later, dueBefore)
		q.ready = up(append(q.ready, x), readyBefore)
	}
}

// keep drops the appointments for which fn returns false.
func (q *appointments) keep(fn func(*item) bool) (dropped int) {
	for _, h := range []struct {
		list   *[]item
		before func(a, b *item) bool
	}{{&q.ready, readyBefore}, {&q.later, dueBefore}} {
		old := *h.list
		var kept []item
		n := 0
		for i := range old {
			if fn(&old[i]) {
				n++
			}
		}
		if n == len(old) {
			continue
		}
		kept = make([]item, 0, n)
		for i := range old {
			if fn(&old[i]) {
				kept = up(append(kept, old[i]), h.before)
			}
		}
		dropped += len(old) - n
		*h.list = kept
	}
	return dropped
}

// up moves the last element of a heap to its place.
func up(h []item, before func(a, b *item) bool) []item {
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !before(&h[i], &h[p]) {
			break
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
	return h
}

// pop removes the first element of a heap. If the heap has become small, it frees memory.
func pop(h []item, before func(a, b *item) bool) (item, []item) {
	x, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && before(&h[c+1], &h[c]) {
			c++
		}
		if !before(&h[c], &h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	if cap(h) > 1024 && n < cap(h)/4 {
		h = append(make([]item, 0, cap(h)/2), h...)
	}
	return x, h
}

// work is the pending work on an entry: the time of local work, if any, and the work for destinations.
type work struct {
	local   time.Time
	urgency queue.Urgency
	out     []outWork
}

type outWork struct {
	dest string
	due  time.Time
}

func seconds(t time.Time) uint32 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s > 1<<32-1:
		return 1<<32 - 1
	default:
		return uint32(s)
	}
}

// ceil returns the first whole second at or after a time, so that nothing is done before it is due.
func ceil(t time.Time) uint32 {
	if t.Nanosecond() > 0 {
		t = t.Add(time.Second)
	}
	return seconds(t)
}

// dueFrom returns the second at which something is due: the current second if the time has passed.
func dueFrom(t, now time.Time) uint32 {
	if !t.After(now) {
		return seconds(now)
	}
	return ceil(t)
}

func (a *agenda) init() {
	a.gens, a.dests, a.busy = make(map[queue.Key]generation), make(map[string]*destination), make(map[busyKey]bool)
	if a.limit == 0 {
		a.limit = maxAgenda
	}
}

// set replaces the appointments of an entry.
func (a *agenda) set(k queue.Key, w *work, now uint32) {
	if w.local.IsZero() && len(w.out) == 0 {
		delete(a.gens, k)
		return
	}
	a.gen++
	added := false
	g := generation{a.gen, uint8(w.urgency.Rank())}
	x := g.item(k)
	if !w.local.IsZero() && a.admit(&a.local) {
		x.due = ceil(w.local)
		a.local.add(x, now)
		a.items++
		added = true
	}
	for _, o := range w.out {
		d := a.dest(o.dest)
		if !a.admit(&d.appointments) {
			continue
		}
		x.due = now
		if !o.due.IsZero() {
			x.due = ceil(o.due)
		}
		d.add(x, now)
		a.items++
		added = true
		a.arrange(d)
	}
	if !added {
		delete(a.gens, k)
		return
	}
	a.gens[k] = g
	if a.items > 2*a.clean+10_000 {
		a.sweep()
	}
}

// admit reports whether there is room for another appointment in q. One destination may not use more than half of the
// limit.
func (a *agenda) admit(q *appointments) bool {
	if a.items < a.limit && (a.items < a.limit/2 || q.size() < a.limit/2) {
		return true
	}
	if !a.full {
		a.full, a.fullAt = true, a.items
	}
	return false
}

// valid reports whether an appointment is of the current generation of its entry.
func (a *agenda) valid(x *item) bool { return a.gens[x.entry()].number == x.gen }

// sweep removes invalid appointments.
func (a *agenda) sweep() {
	a.items -= a.local.keep(a.valid)
	for _, d := range a.dests {
		a.items -= d.keep(a.valid)
		a.forgetIdle(d)
	}
	a.clean = a.items
}

// restart removes all appointments, so that the caller reads mail.box again.
func (a *agenda) restart() {
	clear(a.gens)
	a.gens = make(map[queue.Key]generation)
	a.local = appointments{}
	for _, d := range a.dests {
		d.appointments = appointments{}
		a.forgetIdle(d)
	}
	a.items, a.clean, a.full = 0, 0, false
}

// forget invalidates the appointments of the entries of a mail.box.
func (a *agenda) forget(box int) {
	for k := range a.gens {
		if k.Box() == box {
			delete(a.gens, k)
		}
	}
}

// sendingOf reports whether an entry of a mail.box is being sent, or is sent and not yet settled.
func (a *agenda) sendingOf(box int) bool {
	for b := range a.busy {
		if b.entry.Box() == box {
			return true
		}
	}
	return false
}

// spilled reports whether appointments were left out and it is time to read mail.box again.
func (a *agenda) spilled(now time.Time) bool {
	if !a.full {
		return false
	}
	if a.items < a.fullAt-a.limit/4 || now.Sub(a.since0) >= 10*time.Minute {
		a.since0 = now
		return true
	}
	return false
}

// next removes and returns the first local appointment that is due now. If none is due, it returns the time of the next
// one, or zero.
func (a *agenda) next(now time.Time) (k queue.Key, due time.Time, ok bool) {
	sec := seconds(now)
	a.local.ripen(sec)
	for len(a.local.ready) > 0 {
		var x item
		x, a.local.ready = pop(a.local.ready, readyBefore)
		a.items--
		if a.valid(&x) {
			return x.entry(), time.Time{}, true
		}
	}
	for len(a.local.later) > 0 && !a.valid(&a.local.later[0]) {
		_, a.local.later = pop(a.local.later, dueBefore)
		a.items--
	}
	if len(a.local.later) == 0 {
		return 0, time.Time{}, false
	}
	return 0, time.Unix(int64(a.local.later[0].due), 0).UTC(), false
}

// take removes and returns the first due appointment of a destination. The entry is busy until done is called.
func (a *agenda) take(d *destination, now time.Time) (queue.Key, bool) {
	d.ripen(seconds(now))
	for len(d.ready) > 0 {
		var x item
		x, d.ready = pop(d.ready, readyBefore)
		a.items--
		k := x.entry()
		if !a.valid(&x) {
			continue
		}
		b := busyKey{k, d}
		if _, sending := a.busy[b]; sending {
			a.busy[b] = true
			continue
		}
		a.busy[b] = false
		d.busy++
		return k, true
	}
	return 0, false
}

// done ends what take began. gone means that the entry no longer exists. again requests another read of the entry.
func (a *agenda) done(k queue.Key, d *destination, gone, again bool) {
	b := busyKey{k, d}
	dropped := a.busy[b]
	delete(a.busy, b)
	d.busy--
	switch {
	case gone:
		delete(a.gens, k)
	case again || dropped:
		a.refresh = append(a.refresh, k)
	}
	a.arrange(d)
}

// beingSent reports whether an entry is being sent.
func (a *agenda) beingSent(k queue.Key) bool {
	for b := range a.busy {
		if b.entry == k {
			return true
		}
	}
	return false
}
