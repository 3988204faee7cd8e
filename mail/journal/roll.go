package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Current returns the database that takes new entries. It begins a new one when the bound of the current one is
// reached. Errors: ErrFailed.
func (j *Journal) Current(ctx context.Context) (note.DatabaseID, error) {
	c := j.current.Load()
	if c == nil || j.due(c.opened, c.bytes.Load()) {
		var err error
		if c, err = j.roll(ctx); err != nil {
			return 0, j.failed(err)
		}
	}
	// An administrator may have taken it out of service. The update would fail without naming the database.
	if i, err := j.store.Info(c.id); err != nil || i.State != layout.InService {
		return 0, j.failed(errors.Join(err, fmt.Errorf("database %s is %s", c.id, i.State)))
	}
	return c.id, nil
}

func (j *Journal) failed(err error) error {
	j.stat.failures.Inc()
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// due reports whether a database has reached a bound.
func (j *Journal) due(opened time.Time, bytes uint64) bool {
	if j.opt.RollSize > 0 && bytes >= j.opt.RollSize {
		return true
	}
	day := func(t time.Time) int64 { return t.Unix() / 86400 }
	return j.opt.RollDays > 0 && day(j.env.Clock.Now())-day(opened) >= int64(j.opt.RollDays)
}

// roll finds the current database, and begins a new one if there is none or its bound is reached.
func (j *Journal) roll(ctx context.Context) (*current, error) {
	j.rolling.Lock()
	defer j.rolling.Unlock()
	if c := j.current.Load(); c != nil && !j.due(c.opened, c.bytes.Load()) {
		return c, nil // another goroutine was faster
	}
	last, fresh, lost, err := j.newest(ctx)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		return nil, fmt.Errorf("current database %s: %w", lost.info.ID, lost.err)
	}
	if last != nil && last.head.closed.IsZero() && slices.Equal(last.head.keys, j.recipients()) &&
		!(j.due(last.head.opened, last.head.bytes) && last.head.number > 0) {
		if j.due(last.head.opened, last.head.bytes) { // empty: it begins again today
			last.head.opened = j.env.Clock.Now().UTC().Truncate(time.Millisecond)
		}
		return j.use(last.info.ID, &last.head), nil
	}
	return j.begin(ctx, last, fresh)
}

// newest returns the newest database with a head, a database that has no head yet, because a crash came after its
// creation, and a newer one that cannot be read: that is the current one.
func (j *Journal) newest(ctx context.Context) (last *listed, fresh note.DatabaseID, lost *listed, err error) {
	list, err := j.list(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	var known []earlier
	for i := range list {
		switch l := &list[i]; {
		case l.err == nil:
			last = l
			known = append(known, earlier{l.info.ID, l.head.closed})
		case errors.Is(l.err, store.ErrNotFound):
			fresh = l.info.ID
		case last == nil || l.info.Created >= last.info.Created: // those without a readable head come last
			lost = l
		}
	}
	j.earlier.Store(&known)
	return last, fresh, lost, nil
}

// RollOver closes the current database and begins a new one at once, also when the current one cannot be read. It
// returns the new one.
func (j *Journal) RollOver(ctx context.Context) (note.DatabaseID, error) {
	j.rolling.Lock()
	defer j.rolling.Unlock()
	last, fresh, _, err := j.newest(ctx)
	if err != nil {
		return 0, err
	}
	c, err := j.begin(ctx, last, fresh)
	if err != nil {
		return 0, err
	}
	return c.id, nil
}

func (j *Journal) use(id note.DatabaseID, h *head) *current {
	c := &current{id: id, opened: h.opened}
	c.bytes.Store(h.bytes)
	j.current.Store(c)
	return c
}

// begin closes the last database and begins a new one, which continues its chain. fresh is a database without a head,
// or 0.
func (j *Journal) begin(ctx context.Context, last *listed, id note.DatabaseID) (*current, error) {
	if last != nil && !last.head.closed.IsZero() {
		closed := *last
		closed.info.State = layout.OutOfService // nothing is to be written there
		last = &closed
	}
	now := j.env.Clock.Now().UTC().Truncate(time.Millisecond)
	acl, err := j.access(ctx)
	if err != nil {
		return nil, err
	}
	if id == 0 {
		title := "Journal " + now.Format("2006-01-02 15:04")
		if id, err = j.store.CreateDatabase(note.System, store.Create{Title: title, Kind: Kind, ACL: acl}); err != nil {
			return nil, err
		}
	}
	h := head{series: now.UnixMilli(), opened: now, keys: j.recipients()}
	names := []note.DatabaseID{id}
	if last != nil && last.info.State == layout.InService {
		names = append(names, last.info.ID)
	}
	err = j.store.Update(ctx, note.System, names, func(tx *store.Tx) error {
		if last != nil {
			h.series, h.previous = max(h.series, last.head.series+1), last.info.ID
			h.origin = last.head.hash
		}
		if len(names) > 1 {
			w, err := tx.Database(last.info.ID)
			if err != nil {
				return err
			}
			old, err := readHead(&w.Reader) // it may have grown since it was listed
			if err != nil {
				return err
			}
			h.origin, old.closed = old.hash, now
			if err := w.Put(headID, note.Profile, old.content()); err != nil {
				return err
			}
		}
		h.origin = originOf(id, h.previous, h.origin)
		h.hash = h.origin
		w, err := tx.Database(id)
		if err != nil {
			return err
		}
		return w.Put(headID, note.Profile, h.content())
	})
	if err != nil {
		return nil, err
	}
	j.stat.rolled.Inc()
	j.env.Log.Info("journal: new database", "database", id.String(), "previous", h.previous.String(), "hash",
		h.origin.String())
	return j.use(id, &h), nil
}

// originOf returns the hash with which the chain of a database begins. It covers the last hash of the database before.
func originOf(id, previous note.DatabaseID, last Hash) Hash {
	b := binary.BigEndian.AppendUint64([]byte(originPrefix), uint64(id))
	b = binary.BigEndian.AppendUint64(b, uint64(previous))
	return sha256.Sum256(append(b, last[:]...))
}

// access returns the access list of a new database. A name that does not exist is logged and left out, so that a person
// who was removed does not stop the mail.
func (j *Journal) access(ctx context.Context) (note.ACL, error) {
	acl := note.ACL{Default: note.NoAccess}
	for _, name := range j.opt.Readers {
		t, err := j.dir.Names.Lookup(ctx, name)
		if err != nil {
			j.env.Log.Error("journal: reader in journal.readers is not in the access list of the new database; "+
				"db set DATABASE --access 'NAME=Reader' adds one", "name", name, "err", err)
			continue
		}
		acl = acl.With(note.Entry{ID: t.ID, Level: note.Reader})
	}
	return acl, nil
}

// Remove removes a closed database for good.
func (j *Journal) Remove(ctx context.Context, id note.DatabaseID) error {
	j.rolling.Lock()
	defer j.rolling.Unlock()
	list, err := j.list(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(l listed) bool { return l.info.ID == id })
	switch {
	case i < 0:
		return fmt.Errorf("journal %s: %w", id, store.ErrNotFound)
	case list[i].open():
		return ErrOpen
	}
	if err := j.store.RemoveDatabase(note.System, id); err != nil {
		return err
	}
	if j.stat != nil {
		j.stat.removed.Inc()
	}
	return nil
}

// Expire removes the closed databases whose last entry is older than Options.Keep, and returns them.
func (j *Journal) Expire(ctx context.Context) ([]Database, error) {
	if j.opt.Keep <= 0 {
		return nil, nil
	}
	list, err := j.Databases(ctx)
	if err != nil {
		return nil, err
	}
	var out []Database
	var errs []error
	for _, d := range list {
		if d.Err != nil || d.Closed.IsZero() || j.env.Clock.Now().Sub(d.Closed) < j.opt.Keep {
			continue
		}
		if err := j.Remove(ctx, d.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}
