package mail

import (
	"sync"

	"doublet/env"
	"doublet/mail/queue"
	"doublet/note"
)

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

// board is the state of the router that its goroutines share.
type board struct {
	bells
	mu sync.Mutex // guards progress
	// moved is signaled when inFlight, unsettled, lanes or idle have changed.
	moved *sync.Cond
	progress
}

// progress is what the router has to do and is doing.
type progress struct {
	agenda  agenda
	edition uint64 // of the routes that the agenda was made with
	// since is the MODSEQ up to which each mail.box has been read, by index. settlers write outcomes into them.
	since    map[int]note.ModSeq
	settlers map[int]*settler

	inFlight  int // entries that lanes work on
	unsettled int // entries sent and not yet changed
	lanes     int
	idle      []*lane
	starved   []*destination
}

func newBoard(e *env.Env, bells bells) *board {
	b := &board{bells: bells, progress: progress{since: make(map[int]note.ModSeq), settlers: make(map[int]*settler)}}
	b.moved = sync.NewCond(&b.mu)
	b.agenda.init()
	b.agenda.since0 = e.Clock.Now()
	return b
}

// readAnew forgets all appointments, to be read again from every mail.box.
func (w *progress) readAnew() {
	w.agenda.restart()
	clear(w.since)
}

// settler returns the settler of a mail.box.
func (w *progress) settler(box int) *settler {
	o := w.settlers[box]
	if o == nil {
		o = &settler{}
		w.settlers[box] = o
	}
	return o
}

// unwritten returns the number of messages that are sent and not yet settled.
func (w *progress) unwritten() int {
	n := w.unsettled
	for _, o := range w.settlers {
		n += len(o.stuck)
	}
	return n
}

// bells wake the two goroutines of the router: for what is delivered here, and for what is sent.
type bells struct{ wakeLocal, wakeOut chan struct{} }

func newBells() bells { return bells{make(chan struct{}, 1), make(chan struct{}, 1)} }

func (b bells) ring() {
	nudge(b.wakeLocal)
	nudge(b.wakeOut)
}
