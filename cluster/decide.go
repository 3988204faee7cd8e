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
	// out: it may not become home (out of service, pending delete, damaged, or its server leaves).
	out bool
	// goes: ours is pending delete, and so out, unless it is the last that has what all should.
	goes bool
	// live: its server answers us. gone: nobody whom we hear has heard of it for long enough.
	live, gone bool
	// known: it told where it stands since it came to life, or since the home was lost.
	known bool
	// bereft: it has lost what it had, or was set back: what it numbered before nobody may know.
	bereft bool
	leads  bool
	// beside: ours led beside a home that survives, and has not stepped down before it yet.
	beside bool
	at     note.Ledger
}

// line is which home's numbers a replica has, or is being brought to: of two that parted the later
// survives.
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

func (a line) home() uint8 { return uint8(a.term % note.Slots) }

// reach is up to where a replica knows everything.
func reach(l *note.Ledger) note.ModSeq {
	if l.Partial {
		return l.Complete
	}
	return l.Last
}

// behind says whether a replica knows less than another.
func behind(a, b *note.Ledger) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && reach(a) < reach(b)
}

// parted says whether each of two replicas has numbers that the other's line does not know. What a mate told may be
// older than what has come from it since: then it only seems to be behind.
func parted(a, b *note.Ledger) bool { return !a.Prefix(b) && !b.Prefix(a) }

// question is what is known of a database when it is decided who leads it.
type question struct {
	// replicas are in the order of preference of the Cluster Database Directory.
	replicas []standing
	// starting: this server has started so lately that mates which it has not heard of may only be late.
	starting bool
	// unsure: mates know numbers of our own term that we had lost; the term may not go on.
	unsure bool
	// stained: of the numbers that our replica gave in an earlier life nobody may know here. It does not lead
	// before a home that lives has put a term between, or nobody has come for long. Nor does one that is filled for the
	// first time and has not been whole yet.
	stained bool
	// waited is how long the database has had no home that lives.
	waited time.Duration
}

// verdict is what this server has to do about a database.
type verdict uint8

const (
	// rest: nothing; the home is known and lives, or it is us and we lead.
	rest verdict = iota
	// wait: there is no home now, and it is not for us, or not yet, to be it.
	wait
	// ask: a replica that lives has not said where it stands.
	ask
	// resume: the record says that we are home; go on in our term.
	resume
	// takeOver: become home in a new term.
	takeOver
	// stop: another home has survived, but none is there to step down before: number nothing more.
	stop
	// stepDown: another home has survived; hand it our numbers to be numbered again.
	stepDown
)

var verdictWords = [...]string{"rest", "wait", "ask", "resume", "take over", "stop", "step down"}

func (v verdict) String() string { return verdictWords[v] }

// rankDelay is how much longer each next candidate waits, so that one that could lead and does not
// is passed over, and two do not jump at the same time.
const rankDelay = 5 * time.Second

// patience is how long a home that lives and does not lead is waited for: it may be catching up.
const patience = 20 * time.Second

// stainedPatience is how long a replica that was set back with its disk waits for mates before it leads alone.
const stainedPatience = 5 * time.Minute

// decide says what this server has to do about a database, and toward which server. It is a pure
// function: the rules of who is home stand here and nowhere else.
//
//   - The replica whose slot stands in the highest term is home by record, and stays it while it lives.
//   - Where two lead, the later term survives; the other steps down.
//   - One that starts goes on in its term only if every other replica lives, has all that it had, and none
//     knows of more. If the others do not come in time, or have lost what they had, it begins a new term:
//     they may have led meanwhile.
//   - One whose disk was lost or set back does not lead before it has met a home, or has waited for long.
//   - One that is pending delete leads only where no other that lives has what it has.
//   - A home that nobody hears is followed by the first replica in order, of those that live and know
//     most, in a new term.
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
		if self.leads || self.beside || parted(&self.at, &r.at) {
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
	if self.out && !(self.goes && q.last(self)) || q.stained && q.waited < stainedPatience {
		return wait, note.UNID{}
	}
	if own == top && top.home() == self.slot {
		return q.ours(self), note.UNID{}
	}
	return q.theirs(self, top.home()), note.UNID{}
}

// last says whether nobody else has what our replica has: each other one lives and has lost it, or has not got all of it yet,
// or is gone.
func (q *question) last(self *standing) bool {
	for i := range q.replicas {
		if r := &q.replicas[i]; !r.self && !r.gone && !(r.live && r.known && (r.bereft || behind(&r.at, &self.at))) {
			return false
		}
	}
	return true
}

// ours decides for a database whose record says that we are its home, and that nobody leads.
func (q *question) ours(self *standing) verdict {
	all, fresh := true, false
	for i := range q.replicas {
		r := &q.replicas[i]
		switch {
		case r.self:
		case r.live && !r.known:
			return ask
		case r.live && behind(&self.at, &r.at):
			return wait // it knows more of our own term: that comes here first
		case r.live && r.bereft:
			fresh = true
		case !r.live:
			all = false
		}
	}
	switch {
	case !all && q.starting:
		return wait
	case !all || fresh || q.unsure || q.stained:
		return takeOver
	}
	return resume
}

// theirs decides for a database whose home by record has another slot.
func (q *question) theirs(self *standing, home uint8) verdict {
	best := &self.at
	for i := range q.replicas {
		r := &q.replicas[i]
		if r.slot == home && !r.self && (r.live && !r.out && q.waited < patience || !r.live && (!r.gone || q.starting)) {
			return wait // it lives and will lead, or it is not sure that it is dead
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
