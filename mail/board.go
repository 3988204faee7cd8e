package mail

import (
	"doublet/note"
	"sync"

	"doublet/env"
	"doublet/mail/queue"
)

// readAnew forgets all appointments, to be read again from every mail.box, under the lock.
func (s *board) readAnew() {
	s.agenda.restart()
	clear(s.since)
}

// ended forgets what is known of the entries of a mail.box that is led elsewhere now.
func (s *board) ended(b *queue.Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, b.Index)
	s.agenda.forget(b.Index)
}

// underway says that an entry is being sent.
func (s *board) underway(k queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agenda.beingSent(k)
}

// board is what the router knows of its work: the agenda, and what is under way.
type board struct {
	bells
	queue *queue.Queue

	// mu guards what follows; moved tells that inFlight, unsettled, lanes or idle have changed.
	mu    sync.Mutex
	moved *sync.Cond
	// since is up to where changes of each mail.box have been seen, settlers write outcomes, by index.
	since     map[int]note.ModSeq
	settlers  map[int]*settler
	agenda    agenda
	edition   uint64 // of the routes that the agenda was made with
	inFlight  int    // entries that lanes work on
	unsettled int    // entries sent and not yet changed
	lanes     int
	idle      []*lane
	starved   []*destination
}

func newBoard(e *env.Env, q *queue.Queue, bells bells) *board {
	b := &board{bells: bells, queue: q, since: make(map[int]note.ModSeq), settlers: make(map[int]*settler)}
	b.moved = sync.NewCond(&b.mu)
	b.agenda.init()
	b.agenda.since0 = e.Clock.Now()
	return b
}

// bells wake the two goroutines of the router: for what is delivered here, and for what is sent.
type bells struct{ wakeLocal, wakeOut chan struct{} }

func newBells() bells { return bells{make(chan struct{}, 1), make(chan struct{}, 1)} }

func (b bells) ring() {
	nudge(b.wakeLocal)
	nudge(b.wakeOut)
}
