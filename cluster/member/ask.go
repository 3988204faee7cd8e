package member

import (
	"context"
	"errors"
	"sync"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/note"
)

// ErrAlone reports that the server is in no cluster.
var ErrAlone = errors.New("server is in no cluster")

// errStarting rejects a server that joins before the services here are open.
var errStarting = errors.New("server that issued the token is still starting: retry in a minute")

// Confirm waits until another member has a change, for databases that require it. It is the store's Options.Confirm.
func (m *Member) Confirm(ctx context.Context, ids []note.DatabaseID, seq uint64) error {
	if n := m.Node(); n != nil {
		return n.Acks.Confirm(ctx, ids, seq)
	}
	return nil
}

// Permit rejects a change that no other member could confirm. It is the store's Options.Admit.
func (m *Member) Permit(ctx context.Context, ids []note.DatabaseID) error {
	if n := m.Node(); n != nil {
		return n.Acks.Admit(ctx, ids)
	}
	return nil
}

// Mend fetches an object that the store cannot read from another member. It is the store's Options.Mend.
func (m *Member) Mend(d note.Digest) error {
	if n := m.Node(); n != nil {
		return n.Mending.Mend(context.Background(), d)
	}
	return ErrAlone
}

// Repair runs the task Repair, which fetches unreadable parts of the store from another member.
func (m *Member) Repair(ctx context.Context) error {
	n := m.Node()
	if n == nil {
		return nil
	}
	_, err := n.Repairs.Repair(ctx)
	return err
}

// admit admits a server that joins the cluster, and adds it to the members of the bus.
func (m *Member) admit(ctx context.Context, x bus.Member, a pki.Applicant) (pki.Admission, error) {
	s := m.services.Load()
	if s == nil {
		return pki.Admission{}, errStarting
	}
	admission, err := s.Admit(ctx, x, a)
	if _, b := m.Joined(); err == nil && b != nil {
		b.SetMembers(admission.Members)
	}
	return admission, err
}

func (m *Member) vacate(ctx context.Context, db note.DatabaseID) (func(), error) {
	if s := m.services.Load(); s != nil {
		return s.Vacate(ctx, db)
	}
	return func() {}, nil
}

func (m *Member) users() int {
	if s := m.services.Load(); s != nil {
		return s.Users()
	}
	return 0
}

// Handle registers the handler of a verb on the bus, or as soon as there is a bus. It implements forward.Handlers.
func (m *Member) Handle(verb string, fn bus.Handler) {
	m.handlers.add(func(b bus.Bus) { b.Handle(verb, fn) })
}

// HandleStream registers the handler of a verb of streams on the bus, or as soon as there is a bus.
func (m *Member) HandleStream(verb string, fn bus.StreamHandler) {
	m.handlers.add(func(b bus.Bus) { b.HandleStream(verb, fn) })
}

// handlers holds the handlers of the services until there is a bus. It is safe for concurrent use.
type handlers struct {
	mu      sync.Mutex
	bus     bus.Bus // nil before open
	waiting []func(bus.Bus)
}

func (h *handlers) add(register func(bus.Bus)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bus == nil {
		h.waiting = append(h.waiting, register)
		return
	}
	register(h.bus)
}

func (h *handlers) open(b bus.Bus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bus = b
	for _, register := range h.waiting {
		register(b)
	}
	h.waiting = nil
}
