package admin

import (
	"context"
	"testing"

	"doublet/groupware"
	"doublet/note"
)

// card is the contact of withContact.
const card = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:a\r\nFN:Ann\r\nEND:VCARD\r\n"

// withContact adds Ada, with a contact in the entry a.vcf.
func withContact(t *testing.T, s *Running) *groupware.File {
	t.Helper()
	ctx := context.Background()
	must[User](t, s, "user add", UserAdd{Name: "Ada"})
	p, err := s.Directory.Names.PersonNamed(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	f := s.Groupware.File(note.Who{Person: p.ID}, p.MailDatabase)
	if err := f.Ensure(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Put(ctx, groupware.AddressBook, groupware.DefaultContacts, "a.vcf", []byte(card),
		groupware.Condition{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCalendarRestore brings removed entries back: to where they were, and to another collection where that is gone.
func TestCalendarRestore(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	f := withContact(t, s)
	const book, contacts = groupware.AddressBook, groupware.DefaultContacts
	if list := must[[]CalendarRow](t, s, "calendar list", CalendarOf{"ada"}); len(list) != 3 ||
		list[2].Name != contacts || list[2].Entries != 1 {
		t.Fatalf("%+v", list)
	}
	if err := f.Remove(ctx, book, contacts, "a.vcf", groupware.Condition{}); err != nil {
		t.Fatal(err)
	}
	gone := must[[]RemovedEntry](t, s, "calendar removed", CalendarOf{"ada"})
	if len(gone) != 1 || gone[0].From != contacts || gone[0].Subject != "Ann" || gone[0].Removed.IsZero() {
		t.Fatalf("%+v", gone)
	}
	must[Done](t, s, "calendar restore", CalendarRestore{Person: "ada", ID: gone[0].ID})
	if e, err := f.Entry(ctx, book, contacts, "a.vcf"); err != nil || string(e.Text) != card ||
		!e.Removed.IsZero() {
		t.Fatal(e, err)
	}
	err := f.Change(ctx, func(c *groupware.Changing) error {
		if err := c.Create(book, "other", groupware.Properties{}); err != nil {
			return err
		}
		return c.Delete(book, contacts)
	})
	if err != nil {
		t.Fatal(err)
	}
	gone = must[[]RemovedEntry](t, s, "calendar removed", CalendarOf{"ada"})
	if len(gone) != 1 || gone[0].From != "" {
		t.Fatalf("%+v", gone)
	}
	again := CalendarRestore{Person: "ada", ID: gone[0].ID}
	if _, err := Do[Done](ctx, Direct{s}, "calendar restore", again); err == nil {
		t.Fatal("restored into a collection that is gone")
	}
	again.To = "other"
	must[Done](t, s, "calendar restore", again)
	if e, err := f.Entry(ctx, book, "other", "a.vcf"); err != nil || e.UID != "a" {
		t.Fatal(e, err)
	}
}
