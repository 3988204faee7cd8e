package mailbox_test

import (
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
)

// TestWaker checks that a snoozed message comes back unread and as a new one, once, also if the server is restarted
// meanwhile.
func TestWaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.append("INBOX", "Subject: old\r\n\r\n", mailbox.Flags{Seen: true})
	w.append("INBOX", "Subject: new\r\n\r\n", mailbox.Flags{Seen: true})
	ids := func() (list []note.UNID) {
		w.must(w.mf.Read(w.ctx, func(d *mailbox.Reading) error {
			all, err := d.Snoozed()
			for _, s := range all {
				list = append(list, s.Email)
			}
			return err
		}))
		return list
	}
	snooze := func(folder string, number uint32, until time.Time) {
		t.Helper()
		var u note.UNID
		w.must(w.open(folder).Fetch(w.ctx, mailbox.Set{{Start: number, Stop: number}}, false, mailbox.FetchOptions{},
			func(m *mailbox.Message) (bool, error) {
				u, _ = note.ParseUNID(m.EmailID()[1:])
				return false, nil
			}, func() error { return nil }))
		res, err := w.mf.Change(w.ctx, 1, func(c *mailbox.Changing, _ int) error { return c.Snooze(u, until) })
		w.must(err)
		w.must(res.Errs[0])
	}
	waker := w.svc.NewWaker()
	w.must(waker.Run(w.ctx))
	now := w.f.Env.Clock.Now()
	snooze("INBOX", 1, now.Add(time.Hour))
	w.must(waker.Run(w.ctx))
	if n := len(ids()); n != 1 {
		t.Fatal(n)
	}
	w.reopen()
	snooze("INBOX", 1, now.Add(-time.Second)) // a time that has passed
	waker = w.svc.NewWaker()
	w.must(waker.Run(w.ctx))
	w.must(waker.Run(w.ctx))
	if n := len(ids()); n != 1 {
		t.Fatal(n)
	}
	uids, flags := w.fresh("INBOX")
	if len(uids) != 1 || uids[0] < 3 || flags[uids[0]] != "" {
		t.Errorf("%v %v", uids, flags)
	}
	if uids, _ := w.fresh(mailbox.UseSnoozed); len(uids) != 1 {
		t.Error(uids)
	}
}

// TestWakerOfTwoFolders wakes a message that both sides of a split snoozed: it is in the folder of each.
func TestWakerOfTwoFolders(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	w.append("INBOX", "Subject: both\r\n\r\n", mailbox.Flags{Seen: true})
	m := &recovering{w: w}
	m.change(func(c *mailbox.Changing) error {
		one, err := c.ForUse(mailbox.UseSnoozed)
		if err != nil {
			return err
		}
		return c.MoveFolder(one, note.UNID{}, "Asleep")
	})
	m.change(func(c *mailbox.Changing) error {
		_, err := c.CreateFolder(note.UNID{}, mailbox.UseSnoozed, "", true)
		return err
	})
	var u note.UNID
	w.must(w.open("INBOX").Fetch(w.ctx, mailbox.Set{{Start: 1, Stop: 1}}, false, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			u, _ = note.ParseUNID(m.EmailID()[1:])
			return false, nil
		}, func() error { return nil }))
	m.change(func(c *mailbox.Changing) error { return c.Snooze(u, w.f.Env.Clock.Now().Add(time.Minute)) })
	folders := m.folders()
	m.change(func(c *mailbox.Changing) error {
		id, err := c.Find(u)
		if err != nil {
			return err
		}
		return c.SetFolders(id, []note.UNID{folders["Asleep"], folders[mailbox.UseSnoozed]}, nil)
	})
	w.f.Time.Advance(time.Hour)
	w.must(w.svc.NewWaker().Run(w.ctx))
	for name, want := range map[string]int{"INBOX": 1, "Asleep": 0, mailbox.UseSnoozed: 0} {
		if uids, _ := w.fresh(name); len(uids) != want {
			t.Errorf("%s has %v", name, uids)
		}
	}
}
