package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// keepDeleted is the time for which deleted messages can be restored.
const keepDeleted = 14 * 24 * time.Hour

// withDeleted adds Ada, and deletes n messages of hers.
func withDeleted(t *testing.T, s *Running, n int) *mailbox.File {
	t.Helper()
	ctx := context.Background()
	must[User](t, s, "user add", UserAdd{Name: "Ada"})
	p, err := s.Directory.Names.PersonNamed(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	f := s.Mailbox.File(note.Who{Person: p.ID}, p.MailDatabase)
	var uids mailbox.Set
	for i := range n {
		raw := fmt.Sprintf("From: b@example.com\r\nSubject: m %d\r\n\r\nx\r\n", i)
		_, uid, err := f.Append(ctx, mailbox.Inbox, []byte(raw), mailbox.Flags{Deleted: true}, time.Unix(1e9, 0))
		if err != nil {
			t.Fatal(err)
		}
		uids = append(uids, mailbox.Range{Start: uid, Stop: uid})
	}
	v, _, err := f.Open(ctx, mailbox.Inbox, false)
	if err == nil {
		err = v.Expunge(ctx, uids)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func inboxOf(t *testing.T, f *mailbox.File) uint32 {
	t.Helper()
	x, err := f.Folder(context.Background(), mailbox.Inbox)
	if err != nil {
		t.Fatal(err)
	}
	return x.Total
}

// TestDeleted lists deleted messages and restores them, one by its id and then all of a time. There are more of them
// than one list holds.
func TestDeleted(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const n = mailbox.MaxRecoverable + 20
	f := withDeleted(t, s, n)
	list := must[[]DeletedMessage](t, s, "deleted list", DeletedList{Person: "ada", Since: "1d"})
	if len(list) != mailbox.MaxRecoverable || list[0].From != "b@example.com" || list[0].Folder != mailbox.Inbox ||
		!strings.HasPrefix(list[0].Subject, "m ") || list[0].Size == 0 {
		t.Fatalf("%d: %+v", len(list), list[0])
	}
	out := must[Done](t, s, "deleted restore", DeletedRestore{Person: "ada", ID: []string{list[3].ID}})
	if got := inboxOf(t, f); got != 1 || out.Done != "1 messages restored" {
		t.Errorf("%d in the INBOX: %v", got, out)
	}
	_, err := Do[Done](context.Background(), Direct{s}, "deleted restore",
		DeletedRestore{Person: "ada", ID: []string{list[3].ID, list[4].ID}})
	if Kind(err) != "not found" || inboxOf(t, f) != 2 {
		t.Errorf("one of two: %v", err)
	}
	must[Done](t, s, "deleted restore", DeletedRestore{Person: "ada", Since: "1d"})
	if got := inboxOf(t, f); got != n {
		t.Errorf("%d in the INBOX, want %d", got, n)
	}
}

// TestPurgeMessages checks that Purge deletes messages for good after their time, but none during a hold.
func TestPurgeMessages(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	withDeleted(t, s, 2)
	must[Done](t, s, "user hold", UserHold{"ada", "on"})
	if _, err := Do[Done](ctx, Direct{s}, "user remove", Named{"ada"}); Kind(err) != "usage" {
		t.Errorf("removed during a hold: %v", err)
	}
	// The hold of a file out of service cannot be read.
	database := must[User](t, s, "user show", Named{"ada"}).Database
	for _, on := range []bool{false, true} {
		must[Database](t, s, "db set", DatabaseSet{Name: database, Service: &on})
		if _, err := Do[Done](ctx, Direct{s}, "user remove", Named{"ada"}); Kind(err) != "usage" {
			t.Errorf("removed during a hold, in service %v: %v", on, err)
		}
	}
	for _, x := range []struct {
		days, purged int
		hold         string
		kept         float64
	}{{15, 0, "on", 2}, {13, 0, "off", 2}, {15, 2, "off", 0}, {15, 0, "off", 0}} {
		must[Done](t, s, "user hold", UserHold{"ada", x.hold})
		late, then := *s.System, *s.Env
		then.Clock = lateClock{s.Env.Clock, time.Duration(x.days) * 24 * time.Hour}
		late.Env = &then
		late.Mailbox = mailbox.New(s.Store, &then, mailbox.Options{KeepDeleted: keepDeleted})
		out, err := late.Purge(ctx)
		if err != nil || out.Messages != x.purged {
			t.Errorf("after %d days, hold %s: %+v, %v", x.days, x.hold, out, err)
		}
		kept := late.Stats.Snapshot("Mail.KeptDeleted")
		if len(kept) != 2 || kept[1].Value != x.kept || (kept[0].Value > 0) != (x.kept > 0) {
			t.Errorf("after %d days, hold %s: %v are kept", x.days, x.hold, kept)
		}
	}
	must[Done](t, s, "user remove", Named{"ada"})
}
