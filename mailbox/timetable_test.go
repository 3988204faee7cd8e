package mailbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// TestTimetable checks when a task is called for a mail file: when its time has come, again after a failure to read the
// time, and not while it is out of service.
func TestTimetable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	fix := env.Test(t)
	clock := fix.Clock
	times := mailbox.NewTimetable(fix.Env, w.s)
	var next time.Time
	var bad error
	looks, works := 0, 0
	run := func(wantLooks, wantWorks int) {
		t.Helper()
		looks, works = 0, 0
		err := times.Run(w.ctx, func(_ context.Context, db note.DatabaseID) (time.Time, bool, error) {
			if db == w.db {
				looks++
				err := w.s.Read(w.ctx, note.System, db, func(*store.Reader) error { return bad })
				return next, !next.IsZero(), err
			}
			return time.Time{}, false, nil
		}, func(_ context.Context, due []note.DatabaseID, _ time.Time) error {
			works += len(due)
			return nil
		})
		if looks != wantLooks || works != wantWorks || !errors.Is(err, bad) {
			t.Fatalf("%d looks, %d calls, %v; want %d and %d", looks, works, err, wantLooks, wantWorks)
		}
	}
	change := func() { w.append("INBOX", "Subject: x\r\n\r\n", mailbox.Flags{}) }
	run(1, 0) // nothing to do
	run(0, 0) // nothing changed
	next = clock.Now().Add(time.Hour)
	change()
	run(1, 0)
	next = clock.Now()
	change()
	run(2, 1)
	bad = errors.New("cannot be read")
	run(1, 1) // the time has passed, so it is due without a look
	fix.Time.Advance(10 * time.Minute)
	run(1, 1) // a failure is due again after a while, without a change
	bad = nil
	run(0, 0)
	fix.Time.Advance(10 * time.Minute)
	run(1, 1)
	serve := func(state layout.DatabaseState) {
		t.Helper()
		w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) { i.State = state }))
	}
	serve(layout.PendingDelete)
	run(0, 0)
	serve(layout.InService)
	run(1, 1)
	serve(layout.OutOfService)
	times = mailbox.NewTimetable(fix.Env, w.s)
	run(1, 0)
	run(0, 0)
	serve(layout.InService)
	run(1, 1)
	next = time.Time{}
	change()
	run(1, 0)
	run(0, 0)
}
