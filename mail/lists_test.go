package mail

import (
	"slices"
	"testing"
	"time"

	"doublet/mail/scripts"
	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
)

// TestEarlyLists reads the lists of a mail file in the form of early builds, one item for a list, and changes them: no
// entry is lost.
func TestEarlyLists(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	p := w.person("anna")
	f := w.files.File(note.Who{Person: p.ID, System: true}, p.MailDatabase)
	now := w.fix.Clock.Now()
	one, two := note.UNID{1}, note.UNID{2}
	change := func(fn func(c *mailbox.Changing) error) {
		t.Helper()
		res, err := f.Change(bg, 1, func(c *mailbox.Changing, _ int) error { return fn(c) })
		w.ok(err)
		w.ok(res.Errs[0])
	}
	early := func(profile, list string, lines ...string) {
		t.Helper()
		change(func(c *mailbox.Changing) error {
			items := note.MakeItems(note.Item{Name: list, Value: note.TextList(lines...)})
			return c.PutProfile(f.ProfileID(profile), items)
		})
	}
	early("BlockedSenders", "Senders", "@a.example", "b@b.example")
	early("SieveScripts", "Scripts", one.String()+" my rules", two.String()+" away")
	early("Submissions", "List", one.String()+" 100", two.String()+" 200")
	_, _, err := f.Append(bg, mailbox.Inbox, []byte("Subject: x\r\n\r\nx\r\n"), mailbox.Flags{}, now)
	w.ok(err)
	found, err := f.Query(bg, &mailbox.Query{Limit: 1})
	w.ok(err)
	letter := found.Hits[0].UNID
	change(func(c *mailbox.Changing) error { return c.Snooze(letter, now.Add(time.Hour)) })
	early("Snoozed", "Messages", letter.String()+" 4102444800")

	change(func(c *mailbox.Changing) error {
		blocked, err := c.BlockedSenders()
		w.ok(err)
		w.ok(c.SetBlockedSenders(append(blocked, "c@c.example")))
		e, err := scripts.Edit(f, c)
		w.ok(err)
		w.ok(e.Rename("away", "gone"))
		list, err := submission.Read(c.Reading, f, time.Unix(0, 0))
		w.ok(err)
		return list.Put(c, []submission.Entry{{ID: note.UNID{3}, SendAt: 300}}, nil)
	})
	w.ok(f.Read(bg, func(d *mailbox.Reading) error {
		blocked, err := d.BlockedSenders()
		w.ok(err)
		if !slices.Equal(blocked, []string{"@a.example", "b@b.example", "c@c.example"}) {
			t.Error(blocked)
		}
		list, err := scripts.Read(f, d)
		w.ok(err)
		if s := list.Scripts; len(s) != 2 || s[0].ID != two || s[0].Name != "gone" || s[1].ID != one ||
			s[1].Name != "my rules" {
			t.Error(s)
		}
		sent, err := submission.Read(d, f, now)
		w.ok(err)
		if e := sent.Entries; len(e) != 3 || e[0].ID != one || e[1].SendAt != 200 || e[2].SendAt != 300 {
			t.Error(e)
		}
		snoozed, err := d.Snoozed()
		w.ok(err)
		if len(snoozed) != 1 || snoozed[0].Until.Unix() != 4102444800 {
			t.Error(snoozed)
		}
		return nil
	}))
}
