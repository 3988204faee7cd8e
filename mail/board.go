package mail

import (
	"sync"

	"doublet/env"
	"doublet/mail/queue"
	"doublet/note"
)

// ended forgets the entries of a mail.box that is now led elsewhere.
func (s *board) ended(b *queue.Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.since, b.Index)
	s.agenda.forget(b.Index)
}

// underway reports whether an entry is being sent.
func (s *board) underway(k queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agenda.beingSent(k)
}

// board is the state that the goroutines of the router share.
type board struct {
	bells
	mu sync.Mutex // guards progress
	// moved is signaled when inFlight, unsettled, lanes or idle has changed.
	moved *sync.Cond
	progress
}

// progress is the router's pending and current work.
type progress struct {
	agenda  agenda
	edition uint64 // of the routes with which the agenda was built
	// since is the MODSEQ up to which each mail.box has been read, by index. settlers write the outcomes to them.
	since    map[int]note.ModSeq
	settlers map[int]*settler

	inFlight  int // entries that lanes are sending
	unsettled int // entries whose outcome is not yet written
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

// readAnew forgets all appointments, so that every mail.box is read again.
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

// unwritten returns the number of sent messages whose outcome is not yet written.
func (w *progress) unwritten() int {
	n := w.unsettled
	for _, o := range w.settlers {
		n += len(o.stuck)
	}
	return n
}

// bells wake the two goroutines of the router, for local delivery and for sending.
type bells struct{ wakeLocal, wakeOut chan struct{} }

func newBells() bells { return bells{make(chan struct{}, 1), make(chan struct{}, 1)} }

func (b bells) ring() {
	nudge(b.wakeLocal)
	nudge(b.wakeOut)
}
