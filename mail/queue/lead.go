package queue

import (
	"sync"
	"time"

	"doublet/note"
)

// StandIn is how long a member of a cluster leaves the mail.box of another server alone after its home has moved
// here: a server that restarts is back by then, with what it had sent last.
const StandIn = 5 * time.Second

// HomePoll bounds the time between two looks of a member of a cluster at which databases it leads.
const HomePoll = time.Second

// lead records whether this server works on the entries of a mail.box. A server that is alone leads its own always;
// in a cluster the home of the database leads.
type lead struct {
	mu    sync.Mutex
	leads bool
	// due is when the work begins, in Unix seconds; 0 while the home is elsewhere.
	due int64
	// vacating counts callers that are about to move the home away. Nothing new begins while it is above 0.
	vacating int
	// sum is what the entries of a replicated mail.box add to the gauges while it is led here.
	sum Tally
}

func (l *lead) now() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

// look compares the lead with the home of the database. When it ends, sum is what the gauges lose.
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

// end forgets the sum and returns it.
func (l *lead) end() Tally {
	sum := l.sum
	l.leads, l.sum = false, Tally{}
	return sum
}

// vacate ends the lead until resume is called. ended is false when it was not led here.
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

// count adds to the sum. It returns false, and adds nothing, while the mail.box is led elsewhere.
func (l *lead) count(t Tally) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads {
		l.sum = l.sum.Plus(t)
	}
	return l.leads
}

// Vacate ends the work on a mail.box whose home is about to move to another server. The work begins again after
// resume, if the home is still here. mine is false for databases that are not replicated mail.box databases.
func (q *Queue) Vacate(db note.DatabaseID) (b *Box, resume func(), mine bool) {
	b = q.box(db)
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
