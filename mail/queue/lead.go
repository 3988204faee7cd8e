package queue

import (
	"sync"
	"time"

	"doublet/note"
)

// StandIn is the time that a cluster member waits before it processes another server's mail.box whose home has moved
// here. A server that only restarts is back by then, and has the record of the messages that it sent last.
const StandIn = 5 * time.Second

// HomePoll is the maximum time between two checks by a cluster member of the databases that it leads.
const HomePoll = time.Second

// lead records whether this server processes the entries of a mail.box. A standalone server always leads its own
// databases. In a cluster the home of the database (its primary replica) leads.
type lead struct {
	mu    sync.Mutex
	leads bool
	// due is the time when the work begins, in Unix seconds. It is 0 while the home is elsewhere, and in the server's
	// own databases.
	due int64
	// vacating counts the callers that are about to move the home away. The work does not begin while it is above 0.
	vacating int
	// sum is the contribution of the entries to the gauges, while a replicated mail.box is led here.
	sum Tally
}

func (l *lead) now() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

// look updates the lead from the current home of the database. If the lead ends, the caller subtracts sum from the
// gauges.
func (l *lead) look(home, own bool, now time.Time) (begins, ends bool, sum Tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !home:
		l.due = 0
	case l.due == 0 && !own:
		l.due = now.Add(StandIn).Unix()
	}
	leads := home && l.vacating == 0 && l.due <= now.Unix()
	begins, ends = leads && !l.leads, !leads && l.leads
	if ends {
		sum = l.end()
	}
	l.leads = leads
	return begins, ends, sum
}

// end ends the lead, resets the sum and returns its old value.
func (l *lead) end() Tally {
	sum := l.sum
	l.leads, l.sum = false, Tally{}
	return sum
}

// vacate ends the lead until resume is called. ended is false if the mail.box was not led here.
func (l *lead) vacate() (ended bool, sum Tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vacating++
	ended = l.leads
	return ended, l.end()
}

func (l *lead) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vacating--
}

// count adds t to the sum. While the mail.box is led elsewhere, it adds nothing and returns false.
func (l *lead) count(t Tally) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads {
		l.sum = l.sum.Plus(t)
	}
	return l.leads
}

// Vacate ends the work on a mail.box whose home is about to move to another server. The work begins again after resume,
// if the home is still here. mine is false if db is not a replicated mail.box.
func (q *Queue) Vacate(db note.DatabaseID) (b *Box, resume func(), mine bool) {
	b = q.Boxes.find(db)
	if b == nil || !b.Replicated() {
		return nil, nil, false
	}
	if ended, sum := b.lead.vacate(); ended {
		q.ended(b, sum)
	}
	return b, func() {
		b.lead.resume()
		q.changed()
	}, true
}

func (q *Queue) ended(b *Box, sum Tally) {
	q.gauges.add(Tally{}.minus(sum))
	q.env.Log.Info("mail: stop routing mail.box", "database", b.ID.String(), "owner", b.Owner.String())
}
