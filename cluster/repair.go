package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
	"doublet/store/layout"
)

// damaged begins the reason for which the store takes a database out of service that it cannot read.
const damaged = "damaged"

// fresh asks the home of databases, all of the same replicas, to put a term between what it has numbered and
// what it will: of the numbers that the replica here once gave some may be lost with a disk or set back
// with it, and none of them may be given again.
func (n *Node) fresh(ctx context.Context, e *Entry, dbs []note.DatabaseID) error {
	err := fmt.Errorf("%w: nobody who lives has it", ErrNoHome)
	for _, server := range n.alive(e) {
		if _, err = n.ask(ctx, server, verbFresh, appendDatabases(dbs)); err == nil {
			return nil
		}
	}
	return err
}

// answerFresh is the home's part.
func (n *Node) answerFresh(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
	dbs, err := readDatabases(body)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	p := n.peers[from]
	var life uint64
	if p != nil {
		life = p.hello.incarnation
	}
	n.mu.Unlock()
	if life == 0 {
		return nil, bus.Refuse(codeLater, "the server has not said hello")
	}
	for _, db := range dbs {
		if err := n.mayReplicate(from, db); err != nil {
			return nil, err
		}
		if !n.leadsNow(db) {
			return nil, bus.Refuse(codeNotHome, ErrNoHome.Error())
		}
		if err := n.outlive(ctx, db, from, life); err != nil {
			return nil, err
		}
	}
	if err := n.noteLife(ctx, from, life, dbs); err != nil {
		return nil, err
	}
	return []byte{Version}, nil
}

// outlive puts what will be numbered here above all that a mate's replica, which is lost, may have numbered as home
// after it had been heard of last. What was numbered here since is numbered again, if it lies below. For one life of the mate
// that is done once, however often it asks: each time costs two terms and millions of UIDs.
func (n *Node) outlive(ctx context.Context, db note.DatabaseID, mate note.UNID, life uint64) error {
	before, err := n.stood(ctx, db)
	if err != nil {
		return err
	}
	n.mu.Lock()
	h, e := n.held[db], n.catalog.entries[db]
	r, on := e.on(mate)
	if h == nil || !on {
		n.mu.Unlock()
		return errLater
	}
	if h.outlived[mate] == life {
		n.mu.Unlock()
		return nil
	}
	n.mu.Unlock()
	from, err := n.synced(ctx, db, r)
	if err != nil {
		return err
	}
	if err := n.newTerms(ctx, db, termsBetween); err != nil {
		return err
	}
	if err := n.store.Heal(ctx, db, ghost(&from, &before, r.Slot, true)); err != nil {
		return err
	}
	n.mu.Lock()
	if h := n.held[db]; h != nil {
		if h.outlived == nil {
			h.outlived = map[note.UNID]uint64{}
		}
		h.outlived[mate] = life
	}
	n.mu.Unlock()
	n.touchAll(db)
	_, err = n.stood(ctx, db)
	return err
}

// How many terms are left out for what an earlier life of a replica may have begun: where a home lives that
// knows all but the last, and where nobody does.
const (
	termsBetween = 2
	termsAlone   = 32
)

// newTerms lets a database that is led here go on some terms later, and in a new block of UIDs.
func (n *Node) newTerms(ctx context.Context, db note.DatabaseID, count int) error {
	err := n.store.Replicate(ctx, db, func(w *store.Writer) error {
		for range count {
			if err := w.TakeOver(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, err = n.stood(ctx, db)
	}
	if err == nil {
		n.touchAll(db)
	}
	return err
}

// cleanse has databases here made as good as any whose store is in another life than when they were whole.
func (n *Node) cleanse(ctx context.Context) error {
	n.mu.Lock()
	var led []note.DatabaseID
	by := map[note.UNID][]note.DatabaseID{}
	for _, db := range n.heldIDs() {
		switch h := n.held[db]; {
		case !h.stained || h.busy:
		case h.leads:
			led = append(led, db)
		default:
			if home := n.homeOf(h); !home.IsZero() && len(by[home]) < maxPositions {
				by[home] = append(by[home], db)
			}
		}
	}
	n.mu.Unlock()
	var errs []error
	if len(led) > 0 {
		errs = append(errs, n.noteLife(ctx, n.self, n.store.Incarnation(), led)) // it leads in a term of its own since
	}
	for _, home := range n.Mates() {
		if len(by[home]) == 0 {
			continue
		}
		if _, err := n.ask(ctx, home, verbFresh, appendDatabases(by[home])); err != nil && !errors.Is(err, errMate) && !errors.Is(err, bus.ErrRefused) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Repair looks for databases that the store cannot read, and fetches them from a mate: what is still
// readable of them goes there first. It says how many it began with.
func (n *Node) Repair(ctx context.Context) (int, error) {
	var list []layout.Info
	err := n.store.Infos(func(i *layout.Info) {
		if i.State == layout.OutOfService && strings.HasPrefix(i.Reason, damaged) && n.clustered(i) {
			list = append(list, *i)
		}
	})
	done := 0
	errs := []error{err}
	for i := range list {
		ok, err := n.repairOne(ctx, &list[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("repair database %s: %w", list[i].ID, err))
		}
		if ok {
			done++
		}
	}
	return done, errors.Join(errs...)
}

// repairOne replaces a damaged replica. Another must lead: what is here is not needed any more then, but for
// what nobody has numbered.
func (n *Node) repairOne(ctx context.Context, i *layout.Info) (bool, error) {
	n.mu.Lock()
	h, e := n.held[i.ID], n.catalog.entries[i.ID]
	var home note.UNID
	if h != nil && !h.leads {
		home = n.homeOf(h)
	}
	n.mu.Unlock()
	if h == nil || e == nil || home.IsZero() {
		return false, nil
	}
	if !n.take(i.ID) {
		return false, nil
	}
	defer n.release(i.ID)
	if err := n.salvage(ctx, i.ID, home); err != nil {
		return false, err
	}
	if err := n.fresh(ctx, e, []note.DatabaseID{i.ID}); err != nil {
		return false, err
	}
	if err := n.store.RemoveDatabase(note.System, i.ID); err != nil {
		return false, err
	}
	n.mu.Lock()
	n.unhold(i.ID)
	n.stale = true
	n.mu.Unlock()
	n.log(slog.LevelWarn, "a damaged database comes anew from a mate", "database", i.ID.String(), "from", n.name(home))
	n.wake.fire()
	return true, nil
}

// salvage sends the home what can still be read and nobody has numbered. The damaged parts are lost; that is
// told, and does not keep the rest.
func (n *Node) salvage(ctx context.Context, db note.DatabaseID, home note.UNID) error {
	state := func(s layout.DatabaseState) error {
		return n.store.SetInfo(note.System, db, func(i *layout.Info) { i.State = s })
	}
	if err := state(layout.PendingDelete); err != nil { // the server itself may read it so
		return err
	}
	res, err := replica.Send(ctx, n.reps.As(note.System), n.remote(home), db, replica.SendOptions{From: n.name(n.self), To: n.name(home)})
	if back := state(layout.OutOfService); back != nil {
		return back
	}
	if errors.Is(err, bus.ErrNoServer) || errors.Is(err, bus.ErrNoAnswer) {
		return err
	}
	if err != nil || len(res.Refused) > 0 {
		n.log(slog.LevelError, "of a damaged database something could not be read", "database", db.String(), "notes", len(res.Refused), "err", err)
	}
	return nil
}

// mending bounds the work for objects that are missing: each is looked for once at a time, and one that nobody has not
// again for a while.
type mending struct {
	mu     sync.Mutex
	under  map[note.Digest]chan struct{}
	failed map[note.Digest]time.Time
}

// How long whoever reads waits for an object from a mate; for how long one that nobody has is not looked for; how many
// of those are remembered.
const (
	mendWithin  = 10 * time.Second
	mendAgain   = time.Minute
	maxUnmended = 10_000
)

// Mend fetches an object that is missing or damaged here from a mate, and puts it in its place.
func (n *Node) Mend(ctx context.Context, d note.Digest) error {
	m := &n.mending
	for {
		m.mu.Lock()
		other := m.under[d]
		if other == nil {
			break
		}
		m.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := n.store.ObjectSize(d); err == nil {
			return nil
		}
	}
	if at, ok := m.failed[d]; ok && n.now().Sub(at) < mendAgain {
		m.mu.Unlock()
		return fmt.Errorf("%w: no mate had object %s", store.ErrNotFound, d)
	}
	if m.under == nil {
		m.under = map[note.Digest]chan struct{}{}
	}
	if m.failed == nil || len(m.failed) >= maxUnmended {
		m.failed = map[note.Digest]time.Time{}
	}
	done := make(chan struct{})
	m.under[d] = done
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, mendWithin)
	defer cancel()
	err := n.mend(ctx, d)
	m.mu.Lock()
	delete(m.under, d)
	delete(m.failed, d)
	if err != nil {
		m.failed[d] = n.now()
	}
	m.mu.Unlock()
	close(done)
	if err != nil {
		n.stat.unrepaired.Inc()
		n.log(slog.LevelError, "an object is missing or damaged, and no mate gave it", "object", d.String(), "err", err)
	}
	return err
}

func (n *Node) mend(ctx context.Context, d note.Digest) error {
	last := fmt.Errorf("%w: no mate has object %s", store.ErrNotFound, d)
	for _, mate := range n.Mates() {
		n.mu.Lock()
		p := n.peers[mate]
		alive := p != nil && p.alive
		n.mu.Unlock()
		if !alive {
			continue
		}
		err := n.mendFrom(ctx, mate, d)
		if err == nil {
			n.stat.repaired.Inc()
			n.log(slog.LevelWarn, "an object came from a mate", "object", d.String(), "from", n.name(mate))
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			last = err
		}
	}
	return last
}

func (n *Node) mendFrom(ctx context.Context, mate note.UNID, d note.Digest) error {
	ctx, cancel := n.limited(ctx)
	defer cancel()
	answer, err := n.bus.Request(ctx, mate, verbObject, d[:])
	if err != nil {
		return remoteError(err)
	}
	if len(answer) != 8 {
		return errFormat
	}
	size := binary.BigEndian.Uint64(answer)
	if size > maxObject {
		return fmt.Errorf("%w: object %s of %d bytes", replica.ErrTooLarge, d, size)
	}
	s, err := n.bus.Stream(ctx, mate, verbObject, d[:])
	if err != nil {
		return remoteError(err)
	}
	defer s.Close()
	defer deadline(ctx, s)()
	if err := s.CloseWrite(); err != nil {
		return remoteError(err)
	}
	b, err := io.ReadAll(io.LimitReader(s, int64(size)+1))
	if err != nil {
		return remoteError(err)
	}
	return n.store.MendObject(ctx, store.ObjectRef{Digest: d, Size: size}, b)
}

// maxObject bounds an object that is held in memory.
const maxObject = 1 << 30
