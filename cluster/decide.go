package cluster

import (
	"time"

	"doublet/note"
)

// standing is the state of one replica of a database as this server sees it.
type standing struct {
	server note.UNID
	slot   uint8
	self   bool
	// out means that it must not become primary: it is out of service, pending delete or damaged, or its server is
	// leaving.
	out bool
	// goes means that our replica is pending delete. It is out unless it is the last one with all data.
	goes bool
	// live means that its server answers us. gone means that neither we nor the members that answer us have heard from
	// it for DeadAfter.
	live, gone bool
	// known means that it has reported its position since it came back, or since the primary was lost.
	known bool
	// lostData means that its disk was lost or set back, so the numbers that it assigned may be unknown.
	lostData bool
	leads    bool
	// competed means that our replica was primary at the same time as the surviving primary, and has not stepped down
	// yet.
	competed bool
	at       note.Ledger
}

// line identifies a history of numbers by its epoch and term. A partial replica already has the line that it is being
// brought to. If two lines have diverged, the later one survives.
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

// reach returns the MODSEQ up to which a replica is complete.
func reach(l *note.Ledger) note.ModSeq {
	if l.Partial {
		return l.Complete
	}
	return l.Last
}

// behind reports whether replica a has fewer numbers than b.
func behind(a, b *note.Ledger) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && reach(a) < reach(b)
}

// parted reports whether the lines of two replicas have diverged: each has numbers that the other's line does not have.
// A report may be out of date; the mate then seems to be behind although it is not.
func parted(a, b *note.Ledger) bool { return !a.Prefix(b) && !b.Prefix(a) }

// question is the input for the election of a database's primary.
type question struct {
	// replicas are in the order of preference of the Cluster Database Directory.
	replicas []standing
	// starting means that this server started recently: a mate that it has not heard from may still be alive.
	starting bool
	// lostNumbers means that mates have numbers of our own term that are lost here, so the term must not continue.
	lostNumbers bool
	// suspect means that our replica was set back with its store, or is being filled for the first time. It leads only
	// after a live primary has begun a new term, or if no mate comes for a long time.
	suspect bool
	// waited is the time for which the database has had no live primary.
	waited time.Duration
}

// verdict is the action of this server for a database.
type verdict uint8

const (
	// rest means nothing to do: the primary is known and alive, or this server is the primary.
	rest verdict = iota
	// wait means that there is no primary now, and that it is not our turn, or not yet.
	wait
	// ask means that a live replica has not reported its position.
	ask
	// resume means to continue in our term, because we are the last known primary.
	resume
	// takeOver means to become primary in a new term.
	takeOver
	// stop means to assign no more numbers: another primary survives, but this server cannot reach it to step down.
	stop
	// stepDown means to follow the primary that has survived, which numbers our changes again.
	stepDown
)

var verdictWords = [...]string{"rest", "wait", "ask", "resume", "take over", "stop", "step down"}

func (v verdict) String() string { return verdictWords[v] }

// rankDelay is the additional delay of each further candidate. So a candidate that could lead but does not is skipped,
// and two candidates do not act at the same time.
const rankDelay = 5 * time.Second

// patience is the maximum wait for a live last primary that does not lead; it may be catching up.
const patience = 20 * time.Second

// suspectPatience is the time for which a suspect replica waits for mates before it leads alone.
const suspectPatience = 5 * time.Minute

// decide returns what this server must do for a database, and the server that it concerns. It is a pure function and
// the only place with rules for who becomes primary:
//
//   - The replica whose slot belongs to the highest term is the last known primary. It stays primary while it is alive.
//   - If two replicas lead, the one with the later term survives; the other steps down.
//   - A primary that restarts continues its term only if every other replica is alive, has all that it had, and has no
//     more. If a replica does not return in time or has lost data, the primary begins a new term, because another
//     replica may have led meanwhile.
//   - A replica whose disk was lost or set back does not lead until it has met a primary or has waited for a long time.
//   - A replica that is pending delete leads only if no other live replica has its data.
//   - If the last known primary is dead, a live replica with the most data takes over in a new term: the first in the
//     order of preference.
func decide(q *question) (verdict, note.UNID) {
	self := q.self()
	if self == nil {
		return rest, note.UNID{}
	}
	own := lineOf(&self.at)
	top := q.top(own)
	if r := q.leader(top); r != nil {
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
	if q.mayNotLead(self) {
		return wait, note.UNID{}
	}
	if own == top && top.primary() == self.slot {
		return q.ours(self), note.UNID{}
	}
	return q.theirs(self, top.primary()), note.UNID{}
}

// self returns the replica of this server, or nil.
func (q *question) self() *standing {
	for i := range q.replicas {
		if q.replicas[i].self {
			return &q.replicas[i]
		}
	}
	return nil
}

// top returns the latest line among own and those of the live replicas.
func (q *question) top(own line) line {
	for i := range q.replicas {
		if r := &q.replicas[i]; r.live && r.known {
			if l := lineOf(&r.at); own.before(l) {
				own = l
			}
		}
	}
	return own
}

// leader returns the first live replica of a mate that leads the line top, or nil.
func (q *question) leader(top line) *standing {
	for i := range q.replicas {
		if r := &q.replicas[i]; !r.self && r.live && r.known && r.leads && !lineOf(&r.at).before(top) {
			return r
		}
	}
	return nil
}

// last reports whether our replica is the only one with all its data. Each other replica must be gone, or be alive and
// either have lost data or not have received everything yet.
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

// ours decides for a database that no replica leads and whose last known primary is this server.
func (q *question) ours(self *standing) verdict {
	all, fresh := true, false
	for i := range q.replicas {
		r := &q.replicas[i]
		switch {
		case r.self:
		case !r.live:
			all = false
		case !r.known:
			return ask
		case behind(&self.at, &r.at):
			return wait // it has more of our own term, which we must receive first
		case r.lostData:
			fresh = true
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

// theirs decides for a database whose last known primary is another replica.
func (q *question) theirs(self *standing, primary uint8) verdict {
	best := &self.at
	for i := range q.replicas {
		r := &q.replicas[i]
		if r.slot == primary && !r.self && q.mayReturn(r) {
			return wait // it is alive and will lead, or it may still be alive
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
	if q.waited < time.Duration(q.before(best))*rankDelay {
		return wait
	}
	return takeOver
}

// mayNotLead reports whether this server's replica is out of service, or suspect and has not waited long enough.
func (q *question) mayNotLead(self *standing) bool {
	return self.out && !(self.goes && q.last(self)) || q.suspect && q.waited < suspectPatience
}

// mayReturn reports whether the last known primary may still lead, or lead soon.
func (q *question) mayReturn(r *standing) bool {
	if r.live {
		return !r.out && q.waited < patience
	}
	return !r.gone || q.starting
}

// before returns the number of live replicas before this server's in the order of preference that have everything.
func (q *question) before(best *note.Ledger) (n int) {
	for i := range q.replicas {
		r := &q.replicas[i]
		if r.self {
			break
		}
		if r.live && !r.out && !behind(&r.at, best) {
			n++
		}
	}
	return n
}
