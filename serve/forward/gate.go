package forward

import (
	"context"
	"fmt"
	"sync"
	"time"

	"doublet/cluster"
	"doublet/note"
)

// gates count the commands that run in the databases that are open here, so that none of them is handed over to another
// member in the middle of a command.
type gates struct {
	mu sync.Mutex
	by map[note.DatabaseID]*gate
}

// gate is that of one database. It exists while a session has the database open, or while it is handed over.
type gate struct {
	mu      sync.Mutex
	users   int           // guarded by gates.mu
	working int           // commands that run
	closed  chan struct{} // is closed when commands may run again; nil: they may
	resting chan struct{} // is closed when no command runs any more; nil: nobody waits for that
	wakers  map[*Session]func()
}

// open returns the gate of a database, which close gives back.
func (g *gates) open(db note.DatabaseID) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == nil {
		g.by = make(map[note.DatabaseID]*gate)
	}
	x := g.by[db]
	if x == nil {
		x = &gate{wakers: make(map[*Session]func())}
		g.by[db] = x
	}
	x.users++
	return x
}

func (g *gates) close(db note.DatabaseID, x *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(g.by, db)
	}
}

// enter begins a command, or goes on with one, once the database is not being handed over. It returns false, and begins
// nothing, where ctx ends first.
func (g *gate) enter(ctx context.Context) bool {
	for {
		g.mu.Lock()
		closed := g.closed
		if closed == nil {
			g.working++
			g.mu.Unlock()
			return true
		}
		g.mu.Unlock()
		select {
		case <-closed:
		case <-ctx.Done():
			return false
		}
	}
}

// leave ends a command, or interrupts it while it waits for its client.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.working--; g.working == 0 && g.resting != nil {
		close(g.resting)
		g.resting = nil
	}
}

// rest waits until no command runs, and holds back those that come, until resume is called, which wakes the sessions
// that wait for their clients.
func (g *gate) rest(ctx context.Context) (resume func(), err error) {
	g.mu.Lock()
	if g.closed != nil {
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: the database is being handed over already", cluster.ErrBusy)
	}
	g.closed = make(chan struct{})
	resting := make(chan struct{})
	if g.working == 0 {
		close(resting)
	} else {
		g.resting = resting
	}
	g.mu.Unlock()
	select {
	case <-resting:
		return func() { g.reopen(true) }, nil
	case <-ctx.Done():
		g.reopen(false)
		return nil, fmt.Errorf("%w: commands of sessions are running: %w", cluster.ErrBusy, ctx.Err())
	}
}

func (g *gate) reopen(wake bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
	g.closed, g.resting = nil, nil
	if wake {
		for _, fn := range g.wakers {
			fn()
		}
	}
}

// watch has fn called when the database was handed over, until a nil fn ends that.
func (g *gate) watch(x *Session, fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fn == nil {
		delete(g.wakers, x)
	} else {
		g.wakers[x] = fn
	}
}

// restWithin bounds the time for which a hand-over waits for the commands that run, and holds back others.
const restWithin = 5 * time.Second

// Vacate waits until no command of a session or request runs in a database, and holds back those that come until resume
// is called. The cluster calls it before it hands the database over.
func (s *Service) Vacate(ctx context.Context, db note.DatabaseID) (resume func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	g := s.gates.open(db)
	reopen, err := g.rest(ctx)
	if err != nil {
		s.gates.close(db, g)
		return nil, err
	}
	return func() {
		reopen()
		s.gates.close(db, g)
	}, nil
}
