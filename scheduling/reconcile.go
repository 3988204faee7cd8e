package scheduling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// Reconciler merges events of which a mail file has several versions, after a split of the cluster or a crash, and
// tells the others what stands: the organizer's calendar asks all attendees again, that of an attendee repeats the
// answer. It also sends the messages that a crash prevented. Events without an organizer keep the version that won.
type Reconciler struct {
	s     *Service
	times *mailbox.Timetable
	since map[note.DatabaseID]groupware.Moment // of the last look at a mail file that this server leads
	soon  map[note.DatabaseID]time.Time        // mail files in which a message may have to be sent again
}

// NewReconciler returns the Reconciler for the mail files of a store. It has one user, the task Reconcile.
func (s *Service) NewReconciler(st *store.Store) *Reconciler {
	return &Reconciler{s, mailbox.NewTimetable(s.env, st), map[note.DatabaseID]groupware.Moment{},
		map[note.DatabaseID]time.Time{}}
}

// Run looks at the mail files that have changed and whose primary is here. One that fails is looked at again in the
// next run, and does not stop the others.
func (r *Reconciler) Run(ctx context.Context) error { return r.times.Run(ctx, r.look, r.all) }

// look returns the time at which a mail file is to be looked at: when this server leads it, unless its calendars are as
// they were.
func (r *Reconciler) look(ctx context.Context, db note.DatabaseID) (time.Time, bool, error) {
	if !r.s.groupware.Leads(db) {
		delete(r.since, db)
		return time.Time{}, true, nil
	}
	now, err := r.s.groupware.File(note.System, db).Moments(ctx, groupware.Calendar)
	if last, known := r.since[db]; err != nil || !known || last != now.Entries {
		return time.Time{}, true, err
	}
	at, some := r.soon[db]
	return at, some, nil
}

func (r *Reconciler) all(ctx context.Context, due []note.DatabaseID, _ time.Time) error {
	var errs []error
	for _, db := range due {
		if err := r.file(ctx, db); err != nil && !errors.Is(err, store.ErrNotHome) && !errors.Is(err, errAgain) {
			errs = append(errs, fmt.Errorf("reconcile %s: %w", db, err))
		}
	}
	return errors.Join(errs...)
}

// file merges the events of one mail file. The Reserver does so for rooms.
func (r *Reconciler) file(ctx context.Context, db note.DatabaseID) error {
	f := r.s.groupware.File(note.System, db)
	// Until all is done: nothing may change in the mail file that would bring it here again.
	r.soon[db] = r.s.env.Clock.Now().Add(lookAgain)
	owner, err := f.Owner(ctx)
	if err != nil {
		return err
	}
	var now groupware.Moment
	if owner.IsZero() {
		var of groupware.Moments
		of, err = f.Moments(ctx, groupware.Calendar)
		now = of.Entries
	} else {
		now, err = r.s.merge(ctx, f, owner, false, r.since[db])
	}
	if errors.Is(err, errSoon) {
		return nil
	}
	if err == nil {
		r.since[db] = now
		delete(r.soon, db)
	}
	return err
}

// lookAgain is the time after which a mail file is looked at again in which a message may have to be sent.
const lookAgain = 15 * time.Second

// merge merges the events of a mail file that changed since a moment and have several versions. It returns the moment
// for the next call.
func (s *Service) merge(ctx context.Context, f *groupware.File, owner note.UNID, room bool,
	since groupware.Moment) (groupware.Moment, error) {
	list, now, soon, err := f.Torn(ctx, since)
	for i := range list {
		if err == nil {
			err = s.reconcile(ctx, f, owner, room, &list[i])
		}
	}
	if err == nil && soon {
		err = errSoon
	}
	return now, err
}

// errSoon reports that a mail file is to be looked at again, although nothing changes in it.
var errSoon = errors.New("scheduling: a message may have to be sent again")

// reconcile merges the versions of one event.
func (s *Service) reconcile(ctx context.Context, f *groupware.File, owner note.UNID, room bool,
	t *groupware.Torn) error {
	merged, err := itip.Merge(t.Versions)
	if err != nil {
		return nil //nolint:nilerr // a program of the owner wrote it so: the version that won stays
	}
	target := &Target{File: f, Owner: owner, torn: t}
	c := s.newChange(ctx, target)
	defer c.release()
	if len(t.Entries) > 0 {
		target.Place, c.old = t.Entries[0].Place, &t.Entries[0].Entry
	}
	part, err := roleOf(merged, c.me)
	if err != nil || part == bystander || t.Entries == nil && len(t.Versions) < 2 {
		return nil //nolint:nilerr // it concerns nobody else
	}
	was, now := merged, (*calendar.Object)(nil)
	if part == organizer {
		c.gone = t.Versions // each may have been cancelled where it was
		was, now, err = itip.Renew(merged, t.Versions)
	} else {
		now, err = itip.Repeat(merged, c.me, room || len(t.Versions) > 1, room)
	}
	if err == nil {
		err = c.settle(ctx, was, now, part)
	}
	return err
}

// settle writes one object in the place of the versions of an event, and sends the messages.
func (c *change) settle(ctx context.Context, was, now *calendar.Object, part role) error {
	t, after := c.t.torn, part
	if len(t.Entries) == 0 || t.Removed && part == organizer {
		now, after = nil, bystander
	}
	if err := c.rules(was, now, part, after); err != nil {
		return err
	}
	if len(t.Versions) == 1 && len(c.messages) == 0 {
		return nil // the program of the owner sends them
	}
	if err := c.address(ctx); err != nil {
		return err
	}
	_, err := c.run(ctx)
	if err == nil {
		c.s.stats.reconciled.Inc()
	}
	return err
}
