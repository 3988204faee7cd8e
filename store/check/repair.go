package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// maxPasses bounds the passes of Repair. The repairs of one pass can only be compared with the rest of the store in the
// next pass.
const maxPasses = 12

// mendStep is the number of changes in one batch.
const mendStep = 5000

// Repair repairs what a check found, as far as notes and content determine the result. It rewrites or removes derived
// rows, recomputes counters, finds the copies of lost segments, replaces damaged segments by their copies, and fills
// the object index from the segments. It removes a note that cannot be repaired and lists it in Lost. The report
// returned holds what is left.
//
// Meanwhile no database serves. Databases that were changed serve again after the store was closed and opened
// (Report.Reopen), because their state in memory may be wrong; the others serve at once. A database with findings left
// stays out of service. No database gets, loses or changes its key meanwhile. Repair fails if another one runs.
func Repair(ctx context.Context, s *store.Store, found Report) (Report, error) {
	release, err := s.HoldKeys()
	if err != nil {
		return found, err
	}
	defer release()
	m := &mender{ctx: ctx, s: s, was: map[note.DatabaseID]layout.Info{}, changed: map[note.DatabaseID]bool{}}
	for _, f := range found.Findings {
		if f.Database != 0 {
			m.changed[f.Database] = true
		}
	}
	if err := m.cut(found); err != nil {
		return found, err
	}
	located, healed := m.heal(found.Damaged)
	if err := m.stop(); err != nil {
		return found, err
	}
	defer m.uncarry()
	rep, err := m.passes()
	rep.Found, rep.Healed = located, healed
	if err = errors.Join(err, m.restart(&rep)); err != nil || !found.Deep {
		return rep, err
	}
	// Passes check only rows. Whether findings of a deep check in objects are repaired, only another deep check can
	// tell.
	last, err := Run(ctx, s, Options{Deep: true})
	rep.Findings, rep.More, rep.Deep = last.Findings, last.More, true
	return rep, err
}

// mender writes the changes of the passes.
type mender struct {
	ctx     context.Context
	s       *store.Store
	was     map[note.DatabaseID]layout.Info
	changed map[note.DatabaseID]bool
	pending []change
	touched map[string]bool
	applied int
	lost    []Lost
	// carrier is a database through which rows of any database can be written. made means that it was created for this
	// purpose.
	carrier note.DatabaseID
	made    bool
}

// cut removes ranges that the engine cannot read from the index. Their rows are lost, and the passes repair the
// consequences.
func (m *mender) cut(found Report) error {
	if !slices.ContainsFunc(found.Findings, func(f Finding) bool { return f.Kind == Unreadable }) {
		return nil
	}
	cuts, err := m.s.CutDamage(m.ctx)
	for _, c := range cuts {
		what := fmt.Sprintf("rows between %x and %x", c.After, c.Before)
		if string(c.After) == string(c.Before) {
			what = fmt.Sprintf("the row %x", c.After)
		}
		for _, db := range c.Databases {
			m.changed[db] = true
			m.lost = append(m.lost, Lost{Database: db, Reason: what + " could not be read and were cut out"})
		}
		if c.Shared {
			m.lost = append(m.lost,
				Lost{Reason: what + ", which belong to no single database, could not be read and were cut out"})
		}
	}
	if err != nil {
		return fmt.Errorf("check: remove unreadable rows: %w", err)
	}
	return nil
}

// heal looks for copies of segments that are lost, replaces damaged segments by their copies, and returns the numbers
// of both. For the others the findings stay.
func (m *mender) heal(damaged []uint64) (found, healed int) {
	if len(damaged) > 0 {
		found, _ = m.s.FindSegments(m.ctx) // it logs a failure
	}
	for _, id := range damaged {
		if done, err := m.s.HealSegment(m.ctx, id); done && err == nil {
			healed++
		}
	}
	return found, healed
}

// reason is the reason of a database that a repair has taken out of service. If the database was waiting for deletion,
// waited and the reason of that follow.
const (
	reason = "being repaired; if that was interrupted, run doublet check --repair again"
	waited = "; it waits for deletion: "
)

// outOfRepair returns the description as it was before a repair took the database out of service. ok is false if none
// did: a repair that has ended has put the database back, so one that shows its reason was interrupted.
func outOfRepair(s *store.Store, i *layout.Info) (was layout.Info, ok bool) {
	was = *i
	rest, ok := strings.CutPrefix(i.Reason, reason)
	if !ok || i.State != layout.OutOfService {
		return was, false
	}
	if was.State, was.Reason = layout.InService, ""; strings.HasPrefix(rest, waited) {
		was.State, was.Reason = layout.PendingDelete, rest[len(waited):]
	}
	if s.Locked(i) {
		was.MarkLocked()
	}
	return was, true
}

// stop removes every database from service, also those that wait for deletion, so that only repair changes anything.
func (m *mender) stop() error {
	var ids []note.DatabaseID
	err := m.s.Inspect(func(r pebble.Reader) error {
		c := &checker{ctx: m.ctx, s: m.s, r: r, rep: &Report{}}
		err := c.list()
		for _, e := range c.dbs {
			ids = append(ids, e.id)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("check: list databases: %w", err)
	}
	for _, id := range ids {
		err := m.s.SetInfo(note.System, id, func(i *layout.Info) {
			m.was[id], _ = outOfRepair(m.s, i)
			switch i.State {
			case layout.InService:
				i.State, i.Reason = layout.OutOfService, reason
			case layout.PendingDelete:
				i.State, i.Reason = layout.OutOfService, reason+waited+i.Reason
			}
		})
		if err == nil && m.carrier == 0 {
			m.carrier = id
		}
		// A database that cannot be opened is out of service already.
	}
	if m.carrier != 0 {
		return nil
	}
	m.made = true
	m.carrier, err = m.s.CreateDatabase(note.System, store.Create{Title: "repair", Kind: "repair", Queue: true})
	return err
}

func (m *mender) uncarry() {
	if m.made {
		_ = m.s.RemoveDatabase(note.System, m.carrier)
	}
}

func (m *mender) passes() (Report, error) {
	for pass := 1; ; pass++ {
		rep := Report{Passes: pass}
		m.touched = map[string]bool{}
		before := m.applied
		c := &checker{ctx: m.ctx, s: m.s, rep: &rep, mend: m.mend}
		err := c.once()
		if err == nil {
			err = m.refind(c.wanted)
		}
		err = errors.Join(err, m.flush())
		for _, l := range rep.Lost {
			if !slices.Contains(m.lost, l) {
				m.lost = append(m.lost, l)
			}
		}
		rep.Lost, rep.Applied = m.lost, m.applied
		if err != nil || m.applied == before || pass == maxPasses {
			return rep, err
		}
	}
}

// mend applies the changes of one finding, all or none. If another finding of this pass has changed one of the rows,
// the next pass checks them again.
func (m *mender) mend(db note.DatabaseID, changes []change) error {
	for _, ch := range changes {
		if m.touched[string(ch.key)] {
			return nil
		}
	}
	if db != 0 {
		m.changed[db] = true
	}
	for _, ch := range changes {
		m.touched[string(ch.key)] = true
		ch.key = slices.Clone(ch.key)
		m.pending = append(m.pending, ch)
	}
	m.applied += len(changes)
	if len(m.pending) < mendStep {
		return nil
	}
	return m.flush()
}

func (m *mender) flush() error {
	if len(m.pending) == 0 {
		return nil
	}
	err := m.s.Derive(m.carrier, func(_ pebble.Reader, _ uint32, b *pebble.Batch) error {
		var errs []error
		for _, ch := range m.pending {
			switch {
			case ch.set:
				errs = append(errs, b.Set(ch.key, ch.value, nil))
			case ch.to != nil:
				errs = append(errs, b.DeleteRange(ch.key, ch.to, nil))
			default:
				errs = append(errs, b.Delete(ch.key, nil))
			}
		}
		return errors.Join(errs...)
	})
	m.pending = nil
	if err != nil {
		return fmt.Errorf("check: write repairs: %w", err)
	}
	return nil
}

// refind searches the segments for objects that are missing in the index.
func (m *mender) refind(wanted map[note.Digest]bool) error {
	for _, seg := range m.s.Objects().Segments() {
		if len(wanted) == 0 {
			return nil
		}
		err := m.s.Objects().Scan(seg.ID, object.ScanOptions{}, func(od object.Digest, loc object.Location) error {
			d := note.Digest(od)
			if !wanted[d] || m.s.Objects().Verify(loc, od) != nil {
				return m.ctx.Err()
			}
			delete(wanted, d)
			key, value := layout.Key(layout.SpaceObject, d[:]), loc.Append(nil)
			have := errors.New("none")
			_ = m.s.Inspect(func(r pebble.Reader) error {
				v, closer, err := r.Get(key)
				if err == nil && string(v) == string(value) {
					have = nil
				}
				if err == nil {
					_ = closer.Close()
				}
				return nil
			})
			if have == nil {
				return nil // it is there already: its location is not what is wrong
			}
			return m.mend(0, []change{put(key, value)})
		})
		if err != nil && !errors.Is(err, object.ErrDamaged) {
			return fmt.Errorf("check: look for objects: %w", err)
		}
	}
	return nil
}

// adopt finds the databases that an interrupted repair has left out of service, and that stop did not reach: they could
// not be opened, or were missing in the list.
func (m *mender) adopt() error {
	return m.s.Inspect(func(r pebble.Reader) error {
		c := &checker{ctx: context.WithoutCancel(m.ctx), s: m.s, r: r, rep: &Report{}}
		if err := c.list(); err != nil {
			return err
		}
		for _, e := range c.dbs {
			if _, known := m.was[e.id]; known {
				continue
			}
			v, _, err := c.get(layout.Prefix(e.num, layout.KindInfo))
			if err != nil {
				return err
			}
			i, err := layout.ReadInfo(v)
			if err != nil {
				continue // a finding
			}
			if was, ok := outOfRepair(m.s, i); ok {
				m.was[e.id], m.changed[e.id] = was, true
			}
		}
		return nil
	})
}

// restart returns the databases to service that have no findings left.
func (m *mender) restart(rep *Report) error {
	left := map[note.DatabaseID]int{}
	for _, f := range rep.Findings {
		left[f.Database]++
	}
	errs := []error{m.adopt()}
	var changed []note.DatabaseID
	for id, was := range m.was {
		if m.changed[id] {
			changed = append(changed, id)
			continue
		}
		errs = append(errs,
			m.s.SetInfo(note.System, id, func(i *layout.Info) { i.State, i.Reason = was.State, was.Reason }))
	}
	rep.Reopen = len(m.changed) > 0
	if len(changed) == 0 {
		return errors.Join(errs...)
	}
	slices.Sort(changed)
	// The wait for this write also covers all repairs before it.
	errs = append(errs, m.s.SetInfo(note.System, m.carrier, func(*layout.Info) {}))
	errs = append(errs, m.s.Derive(m.carrier, func(r pebble.Reader, _ uint32, b *pebble.Batch) error {
		for _, id := range changed {
			info := m.was[id]
			switch {
			case left[id] > 0:
				info.State, info.Reason = layout.OutOfService, fmt.Sprintf("%d findings of doublet check are left",
					left[id])
			case info.State == layout.OutOfService:
				info.State, info.Reason = layout.InService, ""
			}
			if err := b.Set(layout.Prefix(info.Number, layout.KindInfo), layout.AppendInfo(nil, &info),
				nil); err != nil {
				return err
			}
		}
		return nil
	}))
	return errors.Join(errs...)
}
