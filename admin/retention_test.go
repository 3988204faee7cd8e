package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// oldMail adds messages of 2001 to the INBOX of a mail file, with these subjects.
func oldMail(t *testing.T, f *mailbox.File, subjects ...string) {
	t.Helper()
	for _, s := range subjects {
		raw := []byte("Subject: " + s + "\r\n\r\nx\r\n")
		_, _, err := f.Append(context.Background(), mailbox.Inbox, raw, mailbox.Flags{}, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// personFile returns the mail file of a person.
func personFile(t *testing.T, s *Running, name string) *mailbox.File {
	t.Helper()
	p, err := s.Directory.Names.PersonNamed(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Mailbox.File(note.Who{Person: p.ID}, p.MailDatabase)
}

// waits makes the only message of a mail file one that waits for its time to be sent.
func waits(t *testing.T, s *Running, f *mailbox.File) {
	t.Helper()
	ctx := context.Background()
	found, err := f.Query(ctx, &mailbox.Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := s.Env.Clock.Now().Add(time.Hour).Unix()
	res, err := f.Change(ctx, 1, func(c *mailbox.Changing, _ int) error {
		list, err := submission.Read(c.Reading, f, s.Env.Clock.Now())
		if err != nil {
			return err
		}
		x := &submission.Record{ID: s.Store.UNID(), Email: found.Hits[0].UNID, SendAt: at}
		return errors.Join(x.Put(c), list.Put(c, []submission.Entry{{ID: x.ID, SendAt: at}}, nil))
	})
	if err = errors.Join(err, res.Errs[0]); err != nil {
		t.Fatal(err)
	}
}

// TestRetention applies policies for everyone and for a group to mail files: a test shows what the run does. Holds,
// scheduled messages and databases that receive mail are left alone.
func TestRetention(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	for _, name := range []string{"ada", "bob", "cy", "dan"} {
		must[User](t, s, "user add", UserAdd{Name: name})
		oldMail(t, personFile(t, s, name), "one of "+name)
	}
	must[MailIn](t, s, "mailin add", MailInAdd{Name: "Sales", Address: "sales@example.com"})
	sales, err := (&Call{System: s.System}).database("Sales")
	if err != nil {
		t.Fatal(err)
	}
	oldMail(t, s.Mailbox.File(note.System, sales.ID), "an order")
	must[Group](t, s, "group add", GroupAdd{Name: "Inner", Member: []string{"bob"}, Kind: "mail"})
	must[Group](t, s, "group add", GroupAdd{Name: "Crew", Member: []string{"Inner"}, Kind: "multi"})
	must[Done](t, s, "user hold", UserHold{"cy", "on"})
	waits(t, s, personFile(t, s, "dan"))
	must[RetentionPolicy](t, s, "retention add", RetentionAdd{Name: "all", Days: 90, Action: "trash", Off: true})
	must[RetentionPolicy](t, s, "retention add",
		RetentionAdd{Name: "crew", Days: 365, Action: "delete", For: []string{"Crew"}})

	try := func(a RetentionTry) (out []string) {
		t.Helper()
		r := must[RetentionTest](t, s, "retention test", a)
		for _, m := range r.Messages {
			if m.Folder != mailbox.Inbox || m.Size == 0 || m.ID == "" || m.Delivered.Year() != 2001 {
				t.Errorf("%+v", m)
			}
			out = append(out, m.Person+": "+m.Subject+", "+m.Policy+" "+m.Action)
		}
		for _, p := range r.People {
			if p.Held {
				out = append(out, p.Person+" is on hold")
			}
		}
		return out
	}
	equal := func(got []string, want string) {
		t.Helper()
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	equal(try(RetentionTry{}), "bob: one of bob, crew delete")
	equal(try(RetentionTry{Off: true, People: []string{"ada", "cy"}}), "ada: one of ada, all trash; cy is on hold")
	equal(try(RetentionTry{Off: true, People: []string{"dan"}}), "")

	run := func(people ...string) RetentionDone {
		t.Helper()
		out := must[RetentionDone](t, s, "retention run", RetentionRun{People: people})
		out.Bytes = 0
		return out
	}
	if out := run("ada"); out != (RetentionDone{}) {
		t.Errorf("ada: %+v", out)
	}
	must[RetentionPolicy](t, s, "retention set", RetentionSet{Name: "all", Off: new(bool)})
	if out := run(); out != (RetentionDone{MailFiles: 4, Trashed: 1, Deleted: 1}) {
		t.Errorf("all: %+v", out)
	}
	for name, want := range map[string]uint32{"ada": 0, "bob": 0, "cy": 1, "dan": 1} {
		if got := inboxOf(t, personFile(t, s, name)); got != want {
			t.Errorf("%s has %d messages in the INBOX", name, got)
		}
	}
	if got := inboxOf(t, s.Mailbox.File(note.System, sales.ID)); got != 1 {
		t.Errorf("Sales has %d messages", got)
	}
	list := must[[]DeletedMessage](t, s, "deleted list", DeletedList{Person: "bob"})
	if len(list) != 1 || list[0].Subject != "one of bob" {
		t.Errorf("bob can restore %+v", list)
	}
	for name, want := range map[string]float64{"Trashed": 1, "Deleted": 1, "Failures": 0} {
		if e := s.Stats.Snapshot("Mail.Retention." + name); len(e) != 1 || e[0].Value != want {
			t.Errorf("%s: %+v", name, e)
		}
	}
	must[Done](t, s, "user remove", Named{"ada"})
	oldMail(t, s.Mailbox.File(note.System, personDatabase(t, s, "ada")), "late")
	if out := run(); out.Trashed != 0 {
		t.Errorf("a person who was removed: %+v", out)
	}
	stop, cancel := context.WithCancel(ctx)
	cancel()
	_, err = Do[RetentionDone](stop, Direct{s}, "retention run", RetentionRun{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped run: %v", err)
	}
}

// personDatabase returns the mail file of somebody who was removed.
func personDatabase(t *testing.T, s *Running, title string) note.DatabaseID {
	t.Helper()
	list, err := s.Store.Databases()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Kind == mailbox.Kind && strings.EqualFold(i.Title, title) {
			return i.ID
		}
	}
	t.Fatal(store.ErrNotFound)
	return 0
}

// TestRetentionLeads checks that a server leaves mail files alone that another one leads.
func TestRetentionLeads(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	must[User](t, s, "user add", UserAdd{Name: "ada"})
	f := personFile(t, s, "ada")
	oldMail(t, f, "old")
	must[RetentionPolicy](t, s, "retention add", RetentionAdd{Name: "all", Days: 90, Action: "trash"})
	if err := s.Store.Share(ctx, f.Database(), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Store.Follow(ctx, f.Database()); err != nil {
		t.Fatal(err)
	}
	if out := must[RetentionDone](t, s, "retention run", RetentionRun{}); out != (RetentionDone{}) {
		t.Errorf("%+v", out)
	}
	if r := must[RetentionTest](t, s, "retention test", RetentionTry{}); len(r.Messages) != 1 {
		t.Errorf("a test at a replica: %+v", r)
	}
}

// TestPurgeKept checks that Purge leaves deleted messages that a policy of their owner keeps, also after the owner was
// removed, and those of nobody else.
func TestPurgeKept(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	withDeleted(t, s, 2)
	must[User](t, s, "user add", UserAdd{Name: "Bob"})
	must[RetentionPolicy](t, s, "retention add", RetentionAdd{Name: "law", Days: 36500, Action: "keep",
		For: []string{"ada"}})
	f := personFile(t, s, "bob")
	oldMail(t, f, "gone")
	v, _, err := f.Open(ctx, mailbox.Inbox, false)
	if err == nil {
		err = v.Settle(ctx, nil, []uint32{1})
	}
	if err != nil {
		t.Fatal(err)
	}
	purged := func(want int) {
		t.Helper()
		late, then := *s.System, *s.Env
		then.Clock = lateClock{s.Env.Clock, 15 * 24 * time.Hour}
		late.Env = &then
		late.Mailbox = mailbox.New(s.Store, &then, mailbox.Options{KeepDeleted: keepDeleted})
		if out, err := late.Purge(ctx); err != nil || out.Messages != want {
			t.Errorf("%+v, %v, want %d", out, err, want)
		}
	}
	purged(1)
	must[Done](t, s, "user remove", Named{"ada"})
	purged(0)
	must[Done](t, s, "user undo", Named{"ada"})
	off := true
	must[RetentionPolicy](t, s, "retention set", RetentionSet{Name: "law", Off: &off})
	purged(2)
}
