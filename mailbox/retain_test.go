package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory/retention"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
)

// aged adds a message with a subject that was delivered some days ago, and returns its UID.
func (w *world) aged(folder, subject string, days int, keywords ...string) uint32 {
	w.t.Helper()
	at := w.f.Env.Clock.Now().Add(-time.Duration(days) * 24 * time.Hour)
	_, uid, err := w.mf.Append(w.ctx, folder, []byte("From: a@example.com\r\nSubject: "+subject+"\r\n\r\nx\r\n"),
		mailbox.Flags{Keywords: keywords}, at)
	w.must(err)
	return uid
}

// where returns the folders of each message, by its subject: "old: INBOX, Lists".
func (w *world) where() (out []string) {
	w.t.Helper()
	names := map[note.UNID]string{}
	folders, err := w.mf.Folders(w.ctx)
	w.must(err)
	for _, f := range folders {
		names[f.UNID] = f.Name
	}
	found, err := w.mf.Query(w.ctx, &mailbox.Query{Limit: 1000})
	w.must(err)
	w.must(w.mf.Read(w.ctx, func(d *mailbox.Reading) error {
		for _, hit := range found.Hits {
			m, err := d.Email(hit.ID)
			w.must(err)
			var in []string
			for u := range m.Folders {
				in = append(in, names[u])
			}
			slices.Sort(in)
			out = append(out, subject(w, m)+": "+strings.Join(in, ", "))
		}
		return nil
	}))
	slices.Sort(out)
	return out
}

func subject(w *world, m *mailbox.Email) string {
	w.t.Helper()
	text, err := m.Envelope()
	w.must(err)
	e, err := imap.ParseEnvelope(text)
	w.must(err)
	return e.Subject
}

// named returns the UNID of the message with a subject.
func (w *world) named(text string) (u note.UNID) {
	w.t.Helper()
	found, err := w.mf.Query(w.ctx, &mailbox.Query{Limit: 1000})
	w.must(err)
	w.must(w.mf.Read(w.ctx, func(d *mailbox.Reading) error {
		for _, hit := range found.Hits {
			m, err := d.Email(hit.ID)
			w.must(err)
			if subject(w, m) == text {
				u = hit.UNID
			}
		}
		return nil
	}))
	if u.IsZero() {
		w.t.Fatalf("no message %q", text)
	}
	return u
}

func (w *world) change(fn func(c *mailbox.Changing) error) {
	w.t.Helper()
	res, err := w.mf.Change(w.ctx, 1, func(c *mailbox.Changing, _ int) error { return fn(c) })
	w.must(errors.Join(err, res.Errs[0]))
}

// would returns what EachRetained lists: "subject policy folders".
func (w *world) would(x *mailbox.Retention) (list []string, hold bool) {
	w.t.Helper()
	hold, err := w.svc.EachRetained(w.ctx, w.db, x, func(m *mailbox.Retained) error {
		list = append(list, fmt.Sprint(subject(w, m.Email), " ", m.Policy, " ", m.Folders))
		return nil
	})
	w.must(err)
	slices.Sort(list)
	return list, hold
}

func (w *world) retain(x *mailbox.Retention, want mailbox.RetainedSum) {
	w.t.Helper()
	sum, err := w.svc.Retain(w.ctx, w.db, x)
	w.must(err)
	if sum.TrashedBytes, sum.DeletedBytes = 0, 0; sum != want {
		w.t.Errorf("retained %+v, want %+v", sum, want)
	}
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.where(); !slices.Equal(got, want) {
		w.t.Errorf("the mail file holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (w *world) recoverable() int {
	w.t.Helper()
	list, _, err := w.mf.Recoverable(w.ctx, time.Time{})
	w.must(err)
	return len(list)
}

// standard are the policies of most tests.
var standard = &mailbox.Retention{Policies: []retention.Policy{
	{Folders: []string{"INBOX"}, Days: 90, Action: retention.Trash},
	{Folders: []string{"Lists", "Junk"}, Below: true, Days: 30, Action: retention.Delete},
	{Folders: []string{"Trash"}, Days: 30, Action: retention.Delete},
	{Labels: []string{"invoice"}, Days: 365, Action: retention.Keep},
}}

// TestRetain moves and deletes messages as policies say, and leaves drafts, flagged, snoozed and reminded ones alone.
// An IMAP session sees ordinary expunges.
func TestRetain(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	for _, name := range []string{"Lists", "Lists/go"} {
		_, err := w.mf.Create(w.ctx, name, "")
		w.must(err)
	}
	w.must(w.mf.Delete(w.ctx, mailbox.UseTrash)) // it is made again when it is needed
	w.aged("INBOX", "young", 89)
	old := w.aged("INBOX", "old", 90)
	w.aged("INBOX", "invoice", 364, "invoice")
	w.aged("INBOX", "old invoice", 366, "invoice")
	w.aged("INBOX", "flagged", 500, mailbox.Flagged)
	w.aged("INBOX", "draft", 500, mailbox.Draft)
	w.aged("Drafts", "written", 500)
	w.aged("INBOX", "asleep", 500)
	w.aged("INBOX", "reminded", 500)
	w.aged("INBOX", "both", 500)
	w.aged("INBOX", "waits", 500)
	w.aged("Lists/go", "news", 31)
	w.aged("Junk", "junk", 29)
	w.aged("Sent", "sent", 5000)
	soon := w.f.Env.Clock.Now().Add(time.Hour)
	asleep, reminded, both, waits := w.named("asleep"), w.named("reminded"), w.named("both"), w.named("waits")
	w.change(func(c *mailbox.Changing) error { return c.Snooze(asleep, soon) })
	w.change(func(c *mailbox.Changing) error { return c.Remind(reminded, soon) })
	w.change(func(c *mailbox.Changing) error {
		id, err := c.Find(both)
		if err != nil {
			return err
		}
		archive, err := c.ForUse(mailbox.UseArchive)
		if err != nil {
			return err
		}
		return c.SetFolders(id, []note.UNID{archive}, nil)
	})
	x := &mailbox.Retention{Policies: standard.Policies, Spare: func(*mailbox.Reading) (map[note.UNID]bool, error) {
		return map[note.UNID]bool{waits: true}, nil
	}}
	list, _ := w.would(x)
	if want := []string{"news 1 [Lists/go]", "old 0 [INBOX]", "old invoice 0 [INBOX]"}; !slices.Equal(list, want) {
		t.Errorf("it would touch %q, want %q", list, want)
	}
	s := w.session("INBOX")
	before := s.v.ModSeq()
	w.retain(x, mailbox.RetainedSum{Trashed: 2, Deleted: 1})
	stay := []string{"flagged: INBOX", "draft: INBOX", "written: Drafts", "asleep: Snoozed", "reminded: INBOX",
		"both: Archive, INBOX", "waits: INBOX", "sent: Sent"}
	w.expect(append([]string{"young: INBOX", "old: Trash", "invoice: INBOX", "old invoice: Trash", "junk: Junk"},
		stay...)...)
	s.poll(true)
	if slices.Contains(s.uids, old) {
		t.Error("the session was not told of the expunge")
	}
	gone, err := s.v.VanishedSince(w.ctx, before, mailbox.Set{{Start: old, Stop: old}})
	w.must(err)
	if len(gone) != 1 || w.recoverable() != 1 {
		t.Errorf("vanished: %v; %d can be recovered", gone, w.recoverable())
	}
	w.retain(x, mailbox.RetainedSum{})

	w.f.Time.Advance(29 * 24 * time.Hour) // in the Trash, days count from the move
	w.retain(x, mailbox.RetainedSum{Trashed: 2, Deleted: 1})
	w.expect(append([]string{"young: Trash", "old: Trash", "invoice: Trash", "old invoice: Trash"}, stay...)...)
	w.f.Time.Advance(24 * time.Hour)
	w.retain(x, mailbox.RetainedSum{Deleted: 2})
	w.expect(append([]string{"young: Trash", "invoice: Trash"}, stay...)...)
	if n := w.recoverable(); n != 4 { // nothing was purged yet
		t.Errorf("%d can be recovered", n)
	}
}

// TestRetainHold checks that a hold stops all policies, and that they act again after it.
func TestRetainHold(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	w.aged("INBOX", "old", 91)
	w.aged("Junk", "junk", 31)
	w.must(w.svc.Hold(w.ctx, w.db, true))
	if list, hold := w.would(standard); !hold || list != nil {
		t.Errorf("during a hold: %q, %v", list, hold)
	}
	w.retain(standard, mailbox.RetainedSum{})
	w.expect("old: INBOX", "junk: Junk")
	w.must(w.svc.Hold(w.ctx, w.db, false))
	w.retain(standard, mailbox.RetainedSum{Trashed: 1, Deleted: 1})
	w.expect("old: Trash")
}

// TestRetainAgain checks that the update tests each message again, because it may have changed since it was looked at.
func TestRetainAgain(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	w.aged("INBOX", "a", 91)
	w.aged("INBOX", "b", 91)
	a, looks := w.named("a"), 0
	w.retain(&mailbox.Retention{Policies: standard.Policies,
		Spare: func(*mailbox.Reading) (map[note.UNID]bool, error) {
			looks++
			return map[note.UNID]bool{a: looks == 2}, nil
		}}, mailbox.RetainedSum{Trashed: 1})
	w.expect("a: INBOX", "b: Trash")
	bad := errors.New("no list")
	_, err := w.svc.Retain(w.ctx, w.db, &mailbox.Retention{Policies: standard.Policies,
		Spare: func(*mailbox.Reading) (map[note.UNID]bool, error) { return nil, bad }})
	if !errors.Is(err, bad) {
		t.Errorf("an error of Spare: %v", err)
	}
	w.expect("a: INBOX", "b: Trash")
}

// TestRetainCrash stops Retain after its first update, cuts the power, and runs it again: no message is forgotten, and
// none is deleted twice.
func TestRetainCrash(t *testing.T) {
	t.Parallel()
	const many = 2300
	f := env.Test(t)
	options := store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 1 << 20,
		LogSyncInterval: 20 * time.Microsecond}
	open := func() *world {
		t.Helper()
		w := &world{t: t, f: f, ctx: context.Background(), who: note.Who{Person: note.UNID{1}}}
		var err error
		w.s, err = store.Open(f.Env, "data", options)
		w.must(err)
		w.svc = mailbox.New(w.s, f.Env, mailbox.Options{KeepDeleted: keepDeleted})
		return w
	}
	w := open()
	db, err := w.svc.Make(w.ctx, w.who.Person, "alice", 0, 0)
	w.must(err)
	w.db, w.mf = db, w.svc.File(w.who, db)
	w.fill("Junk", many)
	ctx, cancel := context.WithCancel(w.ctx)
	looks := 0
	sum, err := w.svc.Retain(ctx, db, &mailbox.Retention{Policies: standard.Policies,
		Spare: func(*mailbox.Reading) (map[note.UNID]bool, error) {
			if looks++; looks == 3 { // in the second update
				cancel()
			}
			return nil, nil
		}})
	if !errors.Is(err, context.Canceled) || sum.Deleted == 0 || sum.Deleted >= many {
		t.Fatalf("stopped: %+v, %v", sum, err)
	}
	f = f.Crash(50, 1)
	w.must(w.s.Close())
	again := open()
	defer func() { w.must(again.s.Close()) }()
	again.db, again.mf = db, again.svc.File(w.who, db)
	if got := again.total("Junk"); got != many-sum.Deleted {
		t.Errorf("%d messages are left after %+v", got, sum)
	}
	again.retain(standard, mailbox.RetainedSum{Deleted: many - sum.Deleted})
	again.retain(standard, mailbox.RetainedSum{})
	n := 0
	for more := true; more; {
		var list []mailbox.Recoverable
		list, more, err = again.mf.Recoverable(w.ctx, time.Time{})
		w.must(err)
		ids := make([]note.UNID, len(list))
		for i := range list {
			ids[i] = list[i].UNID
		}
		_, err = again.mf.Recover(w.ctx, ids)
		w.must(err)
		n += len(ids)
	}
	if got := again.total("Junk"); n != many || got != many {
		t.Errorf("%d of %d can be recovered, %d are back", n, many, got)
	}
}

// TestRetainKeep checks that messages which a policy keeps stay recoverable after the person has deleted them, by the
// folder that they go back to and beyond the quota, and that they are purged when their time is over.
func TestRetainKeep(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 150)
	lose := func(folder, text string, labels ...string) {
		t.Helper()
		uid := w.aged(folder, text, 10, labels...)
		w.must(w.open(folder).Settle(w.ctx, nil, []uint32{uid}))
	}
	left := func(keep *mailbox.Retention, purged int, want ...string) {
		t.Helper()
		if n, err := w.svc.PurgeRecoverable(w.ctx, w.db, keep); n != purged || err != nil {
			t.Errorf("%d purged, want %d: %v", n, purged, err)
		}
		list, _, err := w.mf.Recoverable(w.ctx, time.Time{})
		w.must(err)
		var got []string
		for _, x := range list {
			got = append(got, x.Subject)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q can be recovered, want %q", got, want)
		}
	}
	keep := &mailbox.Retention{Policies: []retention.Policy{
		{Folders: []string{"INBOX"}, Days: 100, Action: retention.Keep},
		{Labels: []string{"invoice"}, Days: 200, Action: retention.Keep},
		{Days: 5000, Action: retention.Delete},
	}}
	lose("Sent", "sent")
	lose("INBOX", "inbox")
	lose("Sent", "invoice", "invoice")
	uid := w.aged("INBOX", "via trash", 10)
	_, err := w.open("INBOX").Move(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true, "Trash")
	w.must(err)
	trash, err := w.open("Trash").UIDs(w.ctx)
	w.must(err)
	w.must(w.open("Trash").Settle(w.ctx, nil, trash))
	left(keep, 1, "inbox", "invoice", "via trash") // they need more room than the quota
	w.f.Time.Advance(keepDeleted + 75*24*time.Hour)
	left(keep, 0, "inbox", "invoice", "via trash") // 99 days old
	w.must(w.svc.Hold(w.ctx, w.db, true))
	w.f.Time.Advance(24 * time.Hour)
	left(keep, 0, "inbox", "invoice", "via trash")
	w.must(w.svc.Hold(w.ctx, w.db, false))
	left(keep, 2, "invoice")
	w.f.Time.Advance(99 * 24 * time.Hour)
	left(keep, 0, "invoice")
	w.f.Time.Advance(24 * time.Hour)
	left(keep, 1)
}

// TestRetainKeepGone checks that a policy keeps what was in a folder that the person has deleted since: with it, before
// it, or through the Trash; and what was deleted from the Trash, from that time on.
func TestRetainKeepGone(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	_, err := w.mf.Create(w.ctx, "Contracts", "")
	w.must(err)
	keep := &mailbox.Retention{Policies: []retention.Policy{
		{Folders: []string{"Contracts"}, Days: 500, Action: retention.Keep},
		{Folders: []string{"Trash"}, Days: 100, Action: retention.Keep}}}
	left := func(purged, want int) {
		t.Helper()
		n, err := w.svc.PurgeRecoverable(w.ctx, w.db, keep)
		w.must(err)
		if got := w.recoverable(); n != purged || got != want {
			t.Errorf("%d purged, %d can be recovered; want %d and %d", n, got, purged, want)
		}
	}
	move := func(from string, uid uint32, to string) {
		t.Helper()
		_, err := w.open(from).Move(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true, to)
		w.must(err)
	}
	empty := func(folder string) {
		t.Helper()
		uids, err := w.open(folder).UIDs(w.ctx)
		w.must(err)
		w.must(w.open(folder).Settle(w.ctx, nil, uids))
	}
	move("Contracts", w.aged("Contracts", "through the Trash", 10), "Trash")
	move("Contracts", w.aged("Contracts", "moved away", 10), "INBOX")
	empty("Trash")
	empty("INBOX")
	uid := w.aged("Contracts", "alone", 10)
	w.must(w.open("Contracts").Settle(w.ctx, nil, []uint32{uid}))
	w.aged("Contracts", "with the folder", 10)
	w.must(w.mf.Delete(w.ctx, "Contracts"))
	w.aged("Trash", "trash", 90)
	empty("Trash")
	w.f.Time.Advance(keepDeleted + 24*time.Hour)
	left(1, 4) // moved away
	w.f.Time.Advance(100*24*time.Hour - keepDeleted)
	left(1, 3) // trash
	w.f.Time.Advance(388 * 24 * time.Hour)
	left(0, 3) // 499 days old
	w.f.Time.Advance(24 * time.Hour)
	left(3, 0)
}
