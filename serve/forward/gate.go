package forward

import (
	"context"
	"fmt"
	"sync"
	"time"

	"doublet/cluster"
	"doublet/note"
)

// gates counts the commands that run in each open database, so that a database is not handed over to another member
// during a command.
type gates struct {
	mu sync.Mutex
	by map[note.DatabaseID]*gate
}

// gate is the gate of one database. It exists while a session uses the database, or while the database is handed over.
type gate struct {
	mu      sync.Mutex
	users   int           // guarded by gates.mu
	working int           // running commands
	closed  chan struct{} // closed when commands may run again; nil: they may
	resting chan struct{} // closed when no command runs any more; nil: nobody waits
	wakers  map[*Session]func()
}

// open returns the gate of a database. The caller must release it with close.
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

// enter begins or resumes a command, after any hand-over of the database. It returns false, without beginning, if ctx
// ends first.
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

// leave ends a command, or suspends it while it waits for its client.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.working--; g.working == 0 && g.resting != nil {
		close(g.resting)
		g.resting = nil
	}
}

// rest waits until no command runs, and blocks new commands until resume is called. resume also wakes the sessions that
// wait for their clients.
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

// watch registers fn to be called after each hand-over of the database. A nil fn removes the registration.
func (g *gate) watch(x *Session, fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if fn == nil {
		delete(g.wakers, x)
	} else {
		g.wakers[x] = fn
	}
}

// restWithin is the maximum time for which a hand-over waits for running commands and blocks others.
const restWithin = 5 * time.Second

// Vacate waits until no command of a session or request runs in a database, and blocks new ones until resume is called.
// The cluster calls it before it hands the database over.
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
