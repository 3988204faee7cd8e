package cluster

import (
	"time"

	"doublet/note"
)

// standing is one replica of a database as this server sees it.
type standing struct {
	server note.UNID
	slot   uint8
	self   bool
	// out says that it must not become primary: out of service, pending delete, damaged, or its server leaves.
	out bool
	// goes says that ours is pending delete; it is out, unless it is the last one that has everything.
	goes bool
	// live says that its server answers us, gone that nobody whom we hear has heard of it for long enough.
	live, gone bool
	// known says that it told its position since it came back, or since the primary was lost.
	known bool
	// lostData says that its disk was lost or set back: nobody may know the numbers that it assigned.
	lostData bool
	leads    bool
	// competed says that ours led beside a primary that survives, and has not stepped down before it yet.
	competed bool
	at       note.Ledger
}

// line says whose numbers a replica has or is being brought to: the primary of a term. Of two lines that parted
// the later survives.
type line struct {
	epoch, term uint32
}

func lineOf(l *note.Ledger) line {
	out := line{l.Epoch, l.Last.Term()}
	if l.Partial {
		out.term = max(out.term, l.High.Term())
	}
	return out
}

func (a line) before(b line) bool { return a.epoch < b.epoch || a.epoch == b.epoch && a.term < b.term }

func (a line) primary() uint8 { return uint8(a.term % note.Slots) }

// reach returns the MODSEQ up to which a replica knows everything.
func reach(l *note.Ledger) note.ModSeq {
	if l.Partial {
		return l.Complete
	}
	return l.Last
}

// behind reports whether replica a knows less than b.
func behind(a, b *note.Ledger) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && reach(a) < reach(b)
}

// parted reports whether each of two replicas has numbers that the other's line does not know. A report may be
// older than what has come from the mate since: then the mate only seems to be behind.
func parted(a, b *note.Ledger) bool { return !a.Prefix(b) && !b.Prefix(a) }

// question is what is known of a database when its primary is decided.
type question struct {
	// replicas are in the order of preference of the Cluster Database Directory.
	replicas []standing
	// starting says that this server started so lately that mates which it has not heard may only be late.
	starting bool
	// lostNumbers says that mates know numbers of our own term that are lost here: the term must not go on.
	lostNumbers bool
	// suspect says that our replica was set back with its store, or is filled for the first time and not
	// complete yet. It leads only after a live primary has begun a new term, or if nobody comes for long.
	suspect bool
	// waited is how long the database has had no live primary.
	waited time.Duration
}

// verdict is the action of this server for a database.
type verdict uint8

const (
	// rest: nothing. The primary is known and alive, or it is us and we lead.
	rest verdict = iota
	// wait: there is no primary now, and it is not our turn, or not yet.
	wait
	// ask: a live replica has not told its position.
	ask
	// resume: by the record we are the primary; go on in our term.
	resume
	// takeOver: become primary in a new term.
	takeOver
	// stop: another primary has survived, but none is there to step down before: assign no more numbers.
	stop
	// stepDown: another primary has survived; have it number again what we numbered.
	stepDown
)

var verdictWords = [...]string{"rest", "wait", "ask", "resume", "take over", "stop", "step down"}

func (v verdict) String() string { return verdictWords[v] }

// rankDelay is how much longer each next candidate waits. So a candidate that could lead and does not is passed
// over, and two do not act at the same time.
const rankDelay = 5 * time.Second

// patience is how long a live primary that does not lead is waited for: it may be catching up.
const patience = 20 * time.Second

// suspectPatience is how long a suspect replica waits for mates before it leads alone.
const suspectPatience = 5 * time.Minute

// decide returns what this server has to do about a database, and the server that it concerns. It is a pure
// function, and the only place with rules on who becomes primary:
//
//   - The replica whose slot stands in the highest term is primary by record, and stays it while it lives.
//   - If two lead, the later term survives; the other steps down.
//   - A primary that starts goes on in its term only if every other replica is alive, has all that it had, and
//     knows no more. If the others do not come in time, or have lost data, it begins a new term: they may have
//     led meanwhile.
//   - A replica whose disk was lost or set back does not lead before it has met a primary or waited for long.
//   - A replica that is pending delete leads only if no other live replica has what it has.
//   - If nobody hears the primary, the first replica in order among those that live and know most takes over
//     in a new term.
func decide(q *question) (verdict, note.UNID) {
	var self *standing
	for i := range q.replicas {
		if q.replicas[i].self {
			self = &q.replicas[i]
		}
	}
	if self == nil {
		return rest, note.UNID{}
	}
	own := lineOf(&self.at)
	top := own
	for i := range q.replicas {
		if r := &q.replicas[i]; r.live && r.known {
			if l := lineOf(&r.at); top.before(l) {
				top = l
			}
		}
	}
	for i := range q.replicas {
		r := &q.replicas[i]
		if r.self || !r.live || !r.known || !r.leads || lineOf(&r.at).before(top) {
			continue
		}
		if self.leads || self.competed || parted(&self.at, &r.at) {
			return stepDown, r.server
		}
		return rest, note.UNID{}
	}
	if self.leads {
		if own.before(top) {
			return stop, note.UNID{}
		}
		return rest, note.UNID{}
	}
	if self.out && !(self.goes && q.last(self)) || q.suspect && q.waited < suspectPatience {
		return wait, note.UNID{}
	}
	if own == top && top.primary() == self.slot {
		return q.ours(self), note.UNID{}
	}
	return q.theirs(self, top.primary()), note.UNID{}
}

// last reports whether nobody else has what our replica has: each other one is gone, or is alive and has lost
// it or not received all of it yet.
func (q *question) last(self *standing) bool {
	for i := range q.replicas {
		r := &q.replicas[i]
		lacks := r.live && r.known && (r.lostData || behind(&r.at, &self.at))
		if !r.self && !r.gone && !lacks {
			return false
		}
	}
	return true
}

// ours decides for a database of which we are the primary by record, and that nobody leads.
func (q *question) ours(self *standing) verdict {
	all, fresh := true, false
	for i := range q.replicas {
		r := &q.replicas[i]
		switch {
		case r.self:
		case r.live && !r.known:
			return ask
		case r.live && behind(&self.at, &r.at):
			return wait // it knows more of our own term: we receive that first
		case r.live && r.lostData:
			fresh = true
		case !r.live:
			all = false
		}
	}
	switch {
	case !all && q.starting:
		return wait
	case !all || fresh || q.lostNumbers || q.suspect:
		return takeOver
	}
	return resume
}

// theirs decides for a database whose primary by record has another slot.
func (q *question) theirs(self *standing, primary uint8) verdict {
	best := &self.at
	for i := range q.replicas {
		r := &q.replicas[i]
		may := r.live && !r.out && q.waited < patience || !r.live && (!r.gone || q.starting)
		if r.slot == primary && !r.self && may {
			return wait // it is alive and will lead, or it is not certain that it is dead
		}
		if r.live && !r.known {
			return ask
		}
		if r.live && !r.out && behind(best, &r.at) {
			best = &r.at
		}
	}
	if behind(&self.at, best) {
		return wait
	}
	rank := 0
	for i := range q.replicas {
		r := &q.replicas[i]
		if r.self {
			break
		}
		if r.live && !r.out && !behind(&r.at, best) {
			rank++
		}
	}
	if q.waited < time.Duration(rank)*rankDelay {
		return wait
	}
	return takeOver
}
