package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/backup"
	"doublet/store/check"
	"doublet/store/layout"
)

// picture describes a database: folders, messages in order of UID, documents.
func picture(t *testing.T, s *store.Store, db note.DatabaseID) (out []string, validity map[string]uint32) {
	t.Helper()
	validity = map[string]uint32{}
	err := s.Read(context.Background(), note.System, db, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			validity[f.Name] = f.UIDValidity
			items, err := r.FolderItems(f.Note)
			if err != nil {
				return err
			}
			line := fmt.Sprintf("folder %s use %q subscribed %v acl %v %v", f.Name, f.SpecialUse, f.Subscribed,
				f.HasACL, f.ACL)
			for _, it := range items {
				if strings.Contains(it.Name, ".") {
					line += fmt.Sprintf(" %s=%q", it.Name, it.Value.AsBinary())
				}
			}
			out = append(out, line)
			err = r.Members(f.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
				row, bad := r.Note(id)
				if bad != nil {
					t.Error(bad)
					return false
				}
				out = append(out, "  "+f.Name+" "+pictureOf(t, r, id, row, f.Note))
				return true
			})
			if err != nil {
				return err
			}
		}
		return r.Notes(0, func(id note.ID, row *layout.Note) bool {
			if row.Class != note.Folder && len(row.Members) == 0 {
				out = append(out, "document "+pictureOf(t, r, id, row, 0))
			}
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, validity
}

func pictureOf(t *testing.T, r *store.Reader, id note.ID, row *layout.Note, folder note.ID) string {
	t.Helper()
	m, _ := row.Member(folder)
	line := fmt.Sprintf("%s class %v author %s date %d thread %s deleted %v in %d:", row.UNID, row.Class,
		row.Author, row.Date, row.Thread, m.Deleted, len(row.Members))
	for _, it := range row.State {
		if it.Kind == note.Keyword || it.Kind == note.Seen {
			line += fmt.Sprintf(" %v %x=%v", it.Kind, it.Key, it.Value)
		}
	}
	c, err := r.Content(id)
	if err != nil {
		t.Fatal(err)
	}
	line += fmt.Sprintf(" items %q", note.AppendContent(nil,
		&note.Content{Items: c.Content.Items, Attachments: c.Content.Attachments}))
	for _, a := range c.Content.Attachments {
		b, err := r.Object(id, a.Digest, nil)
		if err != nil {
			t.Fatal(err)
		}
		line += fmt.Sprintf(" attached %q", b)
	}
	if row.Recipe != 0 {
		msg, err := r.Message(row)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := msg.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		line += " " + b.String()
	}
	return line
}

// furnish fills a mail file with one of everything.
func furnish(t *testing.T, s *Service, p *directory.Person, other note.UNID) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	f := s.mailbox.File(note.Who{Person: p.ID}, p.MailDatabase)
	for i := range 120 {
		text := strings.Repeat(fmt.Sprintf("line %d\r\n", i), 1+i%50*200)
		fl := mailbox.Flags{Seen: i%2 == 0, Deleted: i%17 == 0}
		if i%3 == 0 {
			fl.Keywords = []string{"$Work"}
		}
		_, _, err := f.Append(ctx, "INBOX", fmt.Appendf(nil, "Subject: %d\r\nMessage-ID: <%d@x>\r\n\r\n%s", i, i,
			text), fl, time.Unix(1_700_000_000+int64(i), 0))
		ok(err)
	}
	_, err := f.Create(ctx, "Projects", "")
	ok(err)
	_, err = f.Create(ctx, "Projects/Deep", "")
	ok(err)
	v, _, err := f.Open(ctx, "INBOX", false)
	ok(err)
	_, err = v.Copy(ctx, mailbox.Set{{Start: 50, Stop: 60}}, false, "Projects/Deep")
	ok(err)
	_, err = v.Move(ctx, mailbox.Set{{Start: 3, Stop: 5}}, false, "Projects/Deep")
	ok(err)
	_, err = v.Move(ctx, mailbox.Set{{Start: 100, Stop: 101}}, false, "Archive")
	ok(err)
	ok(f.SetAnnotations(ctx, "Projects", []mailbox.Annotation{{Name: "/shared/comment", Value: "for all"},
		{Name: "/private/comment", Value: "mine"}}))
	ok(f.SetAccess(ctx, "Projects", other,
		func(note.Rights) note.Rights { return note.Lookup | note.Read | note.KeepSeen }, false))
	at, err := s.store.Attach(ctx, []byte("an attachment"))
	ok(err)
	defer at.Release()
	ok(s.store.Update(ctx, note.System, []note.DatabaseID{p.MailDatabase}, func(tx *store.Tx) error {
		w, err := tx.Database(p.MailDatabase)
		if err != nil {
			return err
		}
		w.Keep(at)
		_, err = w.Create(store.New{Class: note.Profile, Summary: []byte("short"), Content: note.Content{
			Items:       note.MakeItems(note.Item{Name: "Form", Value: note.Text("Test")}),
			Attachments: []note.Attachment{{Name: "a.txt", Type: "text/plain", Digest: at.Digest, Size: at.Size}},
		}})
		if err != nil {
			return err
		}
		folder, err := w.FolderNamed("Projects")
		if err != nil {
			return err
		}
		var id note.ID
		err = w.Members(folder.Note, 0, ^uint32(0), func(_ uint32, n note.ID) bool { id = n; return false })
		if id != 0 && err == nil {
			err = w.SetSeen(id, other, true)
		}
		return err
	}))
	// Another person writes there.
	_, _, err = s.mailbox.File(note.Who{Person: p.ID}, p.MailDatabase).Append(ctx, "Projects",
		[]byte("Subject: a\r\n\r\nb\r\n"), mailbox.Flags{}, time.Unix(1_600_000_000, 0))
	ok(err)
}

// TestRestoreDatabase checks that one mail file is restored from a backup, beside the current one or in its place,
// while the server runs. Other people's mail files do not change.
func TestRestoreDatabase(t *testing.T) {
	t.Parallel()
	s := newService(t)
	person := func(name string) directory.Person { return named(t, s, name) }
	add(t, s, "Ada", "ada")
	add(t, s, "Bob", "bob")
	if err := s.store.SetInfo(note.System, person("ada").MailDatabase,
		func(i *layout.Info) { i.Quota = 100 << 20 }); err != nil {
		t.Fatal(err)
	}
	ada, bob := person("ada"), person("bob")
	furnish(t, s, &ada, bob.ID)
	furnish(t, s, &bob, ada.ID)
	want, old := picture(t, s.store, ada.MailDatabase)
	info, err := s.store.Info(ada.MailDatabase)
	if err != nil {
		t.Fatal(err)
	}
	takeBackup(t, s)
	// Damage the mail file.
	f := s.mailbox.File(note.Who{Person: ada.ID}, ada.MailDatabase)
	if err := f.Delete(context.Background(), "Projects/Deep"); err != nil {
		t.Fatal(err)
	}
	if v, _, err := f.Open(context.Background(), "INBOX", false); err != nil || v.Expunge(context.Background(),
		nil) != nil {
		t.Fatal(err)
	}
	if err := s.mailbox.Hold(context.Background(), ada.MailDatabase, true); err != nil {
		t.Fatal(err)
	}
	if _, err := s.job().Restore(context.Background(), &Backup{Name: "ada", Dir: "backup"}); !errors.Is(err,
		ErrInvalid) {
		t.Errorf("replaced during a hold: %v", err)
	}
	if err := s.mailbox.Hold(context.Background(), ada.MailDatabase, false); err != nil {
		t.Fatal(err)
	}
	spoilt, _ := picture(t, s.store, ada.MailDatabase)
	if slices.Equal(spoilt, want) {
		t.Fatal("nothing is spoilt")
	}
	bobs, _ := picture(t, s.store, bob.MailDatabase)

	copied := must[Restored](t)(s.job().Restore(context.Background(), &Backup{Name: "ada", Dir: "backup",
		As: "Ada as she was"}))
	place := must[Restored](t)(s.job().Restore(context.Background(), &Backup{Name: "ada", Dir: "backup"}))
	for _, r := range []Restored{copied, place} {
		id := r.Database
		got, validity := picture(t, s.store, id)
		if !slices.Equal(got, want) {
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Fatalf("%s: %d of %d lines; line %d is\n%.900s\nand was\n%.900s", id, len(got), len(want), i,
						append(got, "")[i], want[i])
				}
			}
			t.Fatalf("%s: %d lines, want %d", id, len(got), len(want))
		}
		now, err := s.store.Info(id)
		if err != nil || now.Quota != info.Quota || now.Owner != info.Owner ||
			fmt.Sprint(now.ACL) != fmt.Sprint(info.ACL) || id == ada.MailDatabase {
			t.Errorf("%+v, was %+v", now, info)
		}
		for name, v := range validity {
			if v < old[name] {
				t.Errorf("%s: UIDVALIDITY %d after %d", name, v, old[name])
			}
		}
	}
	now := person("ada")
	title := func(id note.DatabaseID) string { return must[layout.Info](t)(s.store.Info(id)).Title }
	if title(copied.Database) != "Ada as she was" || copied.Replaced != 0 || title(place.Database) != info.Title ||
		place.Replaced != ada.MailDatabase || now.MailDatabase != place.Database || place.Notes < 122 {
		t.Errorf("%+v\n%+v\n%s", copied, place, now.MailDatabase)
	}
	if after, _ := picture(t, s.store, bob.MailDatabase); !slices.Equal(after, bobs) {
		t.Error("somebody else's mail file has changed")
	}
	// The replaced database can be restored.
	if i, err := s.store.Info(ada.MailDatabase); err != nil || i.State != layout.PendingDelete {
		t.Errorf("%+v, %v", i, err)
	}
	if err := s.store.SetInfo(note.System, ada.MailDatabase,
		func(i *layout.Info) { i.State, i.Reason = layout.InService, "" }); err != nil {
		t.Fatal(err)
	}
	if again, _ := picture(t, s.store, ada.MailDatabase); !slices.Equal(again, spoilt) {
		t.Error("what was replaced is not what it was")
	}
	// The next restore in place finds the former mail file, although the person has another one now.
	if again, err := s.job().Restore(context.Background(), &Backup{Name: "ada", Dir: "backup"}); err != nil ||
		again.Replaced != now.MailDatabase {
		t.Errorf("%+v, %v", again, err)
	}
	rep, err := check.Run(context.Background(), s.store, check.Options{Deep: true})
	if err != nil || len(rep.Findings) > 0 {
		t.Errorf("%v, %v", err, rep.Findings)
	}
	for _, c := range []struct {
		from Backup
		want error
	}{
		{Backup{Name: "nobody", Dir: "backup"}, store.ErrNotFound}, {Backup{Name: "ada", Dir: "elsewhere"},
			fs.ErrNotExist},
		{Backup{Name: "ada", Dir: "backup", At: 9}, backup.ErrNotFound}, {Backup{Name: directory.ID.String(),
			Dir: "backup", As: "x"}, ErrInvalid},
	} {
		if _, err := s.job().Restore(context.Background(), &c.from); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.from, err, c.want)
		}
	}
}

// takeBackup backs up the store into the folder backup.
func takeBackup(t *testing.T, s *Service) {
	t.Helper()
	must[backup.Generation](t)(backup.Take(context.Background(), s.env, s.store, "backup",
		backup.Options{Indexes: s.store.Indexes()}))
}

// TestRestoreLargerThanLimit checks that a restore copies a message that exceeds the size limit of today.
func TestRestoreLargerThanLimit(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ada := add(t, s, "Ada", "ada")
	file := s.mailbox.File(note.Who{Person: ada.ID}, ada.MailDatabase)
	raw := []byte("Subject: large\r\n\r\n" + strings.Repeat("0123456789abcde\n", 10_000))
	if _, _, err := file.Append(context.Background(), "INBOX", raw, mailbox.Flags{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	want, _ := picture(t, s.store, ada.MailDatabase)
	takeBackup(t, s)
	s.mailbox = mailbox.New(s.store, s.env, mailbox.Options{MessageSize: 1000})
	restored := must[Restored](t)(s.job().Restore(context.Background(), &Backup{Name: "ada", Dir: "backup",
		As: "Ada as she was"}))
	if got, _ := picture(t, s.store, restored.Database); !slices.Equal(got, want) {
		t.Errorf("got %.300v\nwant %.300v", got, want)
	}
}

// TestRestoreBreaksOff checks that a restore that fails in the middle leaves nothing behind.
func TestRestoreBreaksOff(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ada, bob := add(t, s, "Ada", "ada"), add(t, s, "Bob", "bob")
	furnish(t, s, &ada, bob.ID)
	takeBackup(t, s)
	before, err := s.store.Databases()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err = s.Job(note.System, func(p Progress) {
		if p.Stage == "restore" {
			cancel()
		}
	}).Restore(ctx, &Backup{Name: "ada", Dir: "backup"})
	if err == nil {
		t.Fatal("it did not break off")
	}
	after, err := s.store.Databases()
	now, _ := s.directory.Names.PersonNamed(context.Background(), "ada")
	if err != nil || len(after) != len(before) || now.MailDatabase != ada.MailDatabase {
		t.Errorf("%d databases, %d before, %v", len(after), len(before), err)
	}
}
