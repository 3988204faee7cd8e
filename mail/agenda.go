package mail

import (
	"time"

	"doublet/mail/queue"
)

// agenda knows which entries of mail.box are due when, for this server and for each destination
// elsewhere. It is an index in memory of what stands in the store, 16 bytes for an appointment, and
// bounded: what does not fit is found again by reading mail.box once there is room.
//
// Appointments are not taken back. An entry has a generation, a new one each time that it is seen,
// and appointments of an older one mean nothing.
type agenda struct {
	gens  map[queue.Key]uint32
	gen   uint32
	local appointments
	dests map[string]*destination
	// runnable have something due, and may have another lane.
	runnable []*destination
	timers   timers
	// busy are being sent. The value says that an appointment was dropped for that.
	busy    map[busyKey]bool
	refresh []queue.Key // to be looked at again

	limit int
	items int
	// full says that appointments were left out, when there were so many, at that time.
	full   bool
	fullAt int
	since0 time.Time
	clean  int // items after stale ones were last thrown away
}

type busyKey struct {
	entry queue.Key
	dest  *destination
}

// maxAgenda bounds the appointments in memory.
const maxAgenda = 2_500_000

// item is an appointment. Its key is an entry's, with the rank of its urgency in the top two bits.
type item struct {
	key uint64
	due uint32 // Unix seconds
	gen uint32
}

const rankShift = queue.KeyBits

func (i *item) entry() queue.Key { return queue.Key(i.key &^ (3 << rankShift)) }

func readyBefore(a, b *item) bool {
	if ra, rb := a.key>>rankShift, b.key>>rankShift; ra != rb {
		return ra < rb
	}
	return a.due < b.due || a.due == b.due && a.key < b.key
}

func dueBefore(a, b *item) bool { return a.due < b.due || a.due == b.due && a.key < b.key }

// appointments holds appointments: those that are due by urgency, the others by time.
type appointments struct{ ready, later []item }

func (q *appointments) size() int { return len(q.ready) + len(q.later) }

func (q *appointments) add(x item, now uint32) {
	if x.due <= now {
		q.ready = up(append(q.ready, x), readyBefore)
	} else {
		q.later = up(append(q.later, x), dueBefore)
	}
}

// ripen moves what has become due.
func (q *appointments) ripen(now uint32) {
	for len(q.later) > 0 && q.later[0].due <= now {
		var x item
		x, q.later = pop(q.later, dueBefore)
		q.ready = up(append(q.ready, x), readyBefore)
	}
}

// keep drops the appointments that fn does not want.
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

// pop takes the first element out of a heap. One that has become small gives its memory back.
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

// work is what is to be done for an entry: something here at a time, if any, and at destinations.
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

// ceil is the first whole second at or behind a time: nothing is done before it is due.
func ceil(t time.Time) uint32 {
	if t.Nanosecond() > 0 {
		t = t.Add(time.Second)
	}
	return seconds(t)
}

// dueFrom is the second at which something is due, at once where the time has come.
func dueFrom(t, now time.Time) uint32 {
	if !t.After(now) {
		return seconds(now)
	}
	return ceil(t)
}

func (a *agenda) init() {
	a.gens, a.dests, a.busy = make(map[queue.Key]uint32), make(map[string]*destination), make(map[busyKey]bool)
	if a.limit == 0 {
		a.limit = maxAgenda
	}
}

// set replaces what is known of an entry.
func (a *agenda) set(k queue.Key, w *work, now uint32) {
	if w.local.IsZero() && len(w.out) == 0 {
		delete(a.gens, k)
		return
	}
	a.gen++
	added := false
	x := item{key: uint64(k) | w.urgency.Rank()<<rankShift, gen: a.gen}
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
	a.gens[k] = a.gen
	if a.items > 2*a.clean+10_000 {
		a.sweep()
	}
}

// admit says whether there is room for another appointment. One destination may not take the room
// of all.
func (a *agenda) admit(q *appointments) bool {
	if a.items < a.limit && (a.items < a.limit/2 || q.size() < a.limit/2) {
		return true
	}
	if !a.full {
		a.full, a.fullAt = true, a.items
	}
	return false
}

// sweep throws appointments away that mean nothing any more.
func (a *agenda) sweep() {
	valid := func(x *item) bool { return a.gens[x.entry()] == x.gen }
	a.items -= a.local.keep(valid)
	for _, d := range a.dests {
		a.items -= d.keep(valid)
		a.forgetIdle(d)
	}
	a.clean = a.items
}

// restart forgets all appointments, to be read again from mail.box.
func (a *agenda) restart() {
	clear(a.gens)
	a.gens = make(map[queue.Key]uint32)
	a.local = appointments{}
	for _, d := range a.dests {
		d.appointments = appointments{}
		a.forgetIdle(d)
	}
	a.items, a.clean, a.full = 0, 0, false
}

// forget forgets what is to be done for the entries of a box.
func (a *agenda) forget(box int) {
	for k := range a.gens {
		if k.Box() == box {
			delete(a.gens, k)
		}
	}
}

// sendingOf says whether an entry of a box is on its way to anybody, or sent and not yet settled.
func (a *agenda) sendingOf(box int) bool {
	for b := range a.busy {
		if b.entry.Box() == box {
			return true
		}
	}
	return false
}

// spilled says that appointments were left out and that it is time to look for them.
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

// next takes the local appointment that is due first, if it is due now; else it says when the first
// one is.
func (a *agenda) next(now time.Time) (k queue.Key, due time.Time, ok bool) {
	sec := seconds(now)
	a.local.ripen(sec)
	for len(a.local.ready) > 0 {
		var x item
		x, a.local.ready = pop(a.local.ready, readyBefore)
		a.items--
		if a.gens[x.entry()] == x.gen {
			return x.entry(), time.Time{}, true
		}
	}
	for len(a.local.later) > 0 && a.gens[a.local.later[0].entry()] != a.local.later[0].gen {
		_, a.local.later = pop(a.local.later, dueBefore)
		a.items--
	}
	if len(a.local.later) == 0 {
		return 0, time.Time{}, false
	}
	return 0, time.Unix(int64(a.local.later[0].due), 0).UTC(), false
}

// take takes what is due first at a destination. It is busy until done.
func (a *agenda) take(d *destination, now time.Time) (queue.Key, bool) {
	d.ripen(seconds(now))
	for len(d.ready) > 0 {
		var x item
		x, d.ready = pop(d.ready, readyBefore)
		a.items--
		k := x.entry()
		if a.gens[k] != x.gen {
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

// done ends what take began. again asks to look at the entry once more.
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

// beingSent says whether an entry is on its way to anybody.
func (a *agenda) beingSent(k queue.Key) bool {
	for b := range a.busy {
		if b.entry == k {
			return true
		}
	}
	return false
}
