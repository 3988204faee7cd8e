// Package compat holds small data folders of past releases. Every later release must read each of them unchanged and
// complete, and must be able to write to it.
//
// A folder vN is created once, by the release that introduces format N, with `go test ./test/compat -run TestMake -make
// N`. It is never changed afterwards.
package compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/dump"
	"doublet/store/layout"
	"doublet/wire/mime"
)

var version = flag.Int("make", 0, "make the data folder of this format version")

func open(t *testing.T, dir string) (*store.Store, *env.Env) {
	t.Helper()
	e := env.Real(slog.New(slog.DiscardHandler))
	s, err := store.Open(e, dir, store.Options{FloorBytes: -1, Ballast: -1,
		Indexes: append(directory.Indexes(), trace.Indexes()...)})
	if err != nil {
		t.Fatal(err)
	}
	return s, e
}

// describe prints the content of a store: every database as text, every message by its digest.
func describe(t *testing.T, s *store.Store) []byte {
	t.Helper()
	var out bytes.Buffer
	infos, err := s.Databases()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if err := dump.Database(&out, s, i.ID, dump.Options{Rows: true}); err != nil {
			t.Fatal(err)
		}
		err := s.Read(context.Background(), note.System, i.ID, func(r *store.Reader) error {
			var inner error
			err := r.Notes(0, func(id note.ID, _ *layout.Note) bool {
				n, err := r.Note(id)
				if err == nil && n.Recipe != 0 {
					var m *store.Stored
					if m, err = r.Message(n); err == nil {
						h := sha256.New()
						_, err = m.WriteTo(h)
						fmt.Fprintf(&out, "message of %s: %d bytes %x\n", n.UNID, m.Size(), h.Sum(nil))
					}
				}
				inner = err
				return err == nil
			})
			if err == nil {
				err = inner
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestReadsPastReleases(t *testing.T) {
	folders, err := filepath.Glob("v[0-9]*")
	if err != nil || len(folders) == 0 {
		t.Fatal("no data folder of a past release is here: ", err)
	}
	for _, f := range folders {
		if i, err := os.Stat(f); err != nil || !i.IsDir() {
			continue
		}
		t.Run(f, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(f)); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(f + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			s, e := open(t, dir)
			defer s.Close()
			if got := describe(t, s); !bytes.Equal(got, want) {
				t.Errorf("it reads differently now:\n%s", got)
			}
			sound(t, s)
			goOn(t, s, e)
			sound(t, s)
		})
	}
}

func sound(t *testing.T, s *store.Store) {
	t.Helper()
	rep, err := check.Run(context.Background(), s, check.Options{Deep: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Findings {
		t.Error(f)
	}
}

// goOn signs in, reads and writes, as the new release will.
func goOn(t *testing.T, s *store.Store, e *env.Env) {
	t.Helper()
	ctx := context.Background()
	d, err := directory.Open(s, e, password.New(e, 1, 4), directory.Options{Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	who, p, err := d.SignIns.Authenticate(ctx, "alice@example.com", "demo", "imap")
	if err != nil {
		t.Fatal(err)
	}
	mf := mailbox.New(s, e, mailbox.Options{}).File(who, p.MailDatabase)
	before, err := mf.Folder(ctx, mailbox.Inbox)
	if err != nil {
		t.Fatal(err)
	}
	if _, uid, err := mf.Append(ctx, mailbox.Inbox, []byte("Subject: new\r\n\r\nnew\r\n"), mailbox.Flags{},
		time.Unix(1, 0)); err != nil || uid < before.UIDNext {
		t.Errorf("a new message got UID %d, UIDNEXT was %d: %v", uid, before.UIDNext, err)
	}
}

// TestMake creates the data folder of a format. Without -make it only checks that this still works.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if *version > 0 {
		dir = fmt.Sprintf("v%d", *version)
	}
	s, e := open(t, dir)
	fill(t, s, e)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = open(t, dir)
	text := describe(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if *version > 0 {
		if err := os.WriteFile(dir+".txt", text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill creates a few of each kind of object that a store can hold.
func fill(t *testing.T, s *store.Store, e *env.Env) {
	t.Helper()
	ctx := context.Background()
	svc := mailbox.New(s, e, mailbox.Options{})
	d, err := directory.Open(s, e, password.New(e, 1, 4), directory.Options{Domain: "example.com"})
	must(t, err)
	defer d.Close()
	db, err := svc.Make(ctx, note.UNID{}, "Alice", 1<<30, 0)
	must(t, err)
	alice, err := d.People.Add(ctx, note.System, directory.PersonSpec{
		PersonFields: directory.PersonFields{FullName: []string{"Alice Liddell"}, ShortName: "alice", MailDatabase: db},
		Password:     "demo", Scram: true,
	})
	must(t, err)
	acl := note.ACL{}.With(note.Entry{ID: alice.ID, Level: note.Manager})
	must(t, setACL(s, db, acl))
	mf := svc.File(note.Who{Person: alice.ID}, db)
	fillMail(t, mf)
	fillDocuments(t, s)
}

func setACL(s *store.Store, db note.DatabaseID, acl note.ACL) error {
	return s.SetInfo(note.System, db, func(i *layout.Info) { i.ACL = acl })
}

func fillMail(t *testing.T, mf *mailbox.File) {
	t.Helper()
	ctx := context.Background()
	_, err := mf.Create(ctx, "Projects/Äpfel", "")
	must(t, err)
	for i := range 5 {
		raw := fmt.Appendf(nil,
			"From: a@example.com\r\nSubject: message %d\r\nMessage-ID: <%d@example.com>\r\n\r\nText %d.\r\n", i, i, i)
		_, _, err := mf.Append(ctx, mailbox.Inbox, raw, mailbox.Flags{Seen: i%2 == 0,
			Keywords: []string{mailbox.Flagged}}, time.Unix(int64(i), 0))
		must(t, err)
	}
	big := []byte("From: a@example.com\r\nSubject: large\r\nContent-Type: application/octet-stream\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\n")
	big = mime.AppendBase64Lines(big, bytes.Repeat([]byte("a large part. "), 3000), 76, true)
	_, _, err = mf.Append(ctx, "Projects/Äpfel", big, mailbox.Flags{Deleted: true}, time.Unix(9, 0))
	must(t, err)
	v, _, err := mf.Open(ctx, mailbox.Inbox, false)
	must(t, err)
	_, err = v.Copy(ctx, mailbox.Set{{Start: 1, Stop: 2}}, false, "Archive")
	must(t, err)
	_, err = v.Move(ctx, mailbox.Set{{Start: 3, Stop: 3}}, false, "Trash")
	must(t, err)
	_, err = v.Store(ctx, mailbox.Set{{Start: 4, Stop: 4}}, false,
		mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}}, func(*mailbox.Message) {})
	must(t, err)
	must(t, v.Expunge(ctx, nil))
}

// fillDocuments creates a database of documents with revisions, a conflict, an attachment, a tombstone (grave) and a
// stub.
func fillDocuments(t *testing.T, s *store.Store) {
	t.Helper()
	ctx := context.Background()
	db, err := s.CreateDatabase(note.System, store.Create{Title: "Documents", Kind: "documents"})
	must(t, err)
	o, err := s.Attach(ctx, []byte("an attachment"))
	must(t, err)
	defer o.Release()
	content := func(v int64) note.Content {
		return note.Content{Items: note.MakeItems(note.Item{Name: "Version", Value: note.Int(v)},
			note.Item{Name: "Tags", Value: note.TextList("a", "b")})}
	}
	update := func(fn func(w *store.Writer) error) {
		must(t, s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return fn(w)
		}))
	}
	update(func(w *store.Writer) error {
		w.Keep(o)
		c := content(1)
		c.Attachments = []note.Attachment{{Name: "a.txt", Type: "text/plain", Digest: o.Digest, Size: o.Size}}
		for i := range 3 {
			if _, err := w.Create(store.New{UNID: note.UNID{byte(i + 1)}, Content: c}); err != nil {
				return err
			}
		}
		return nil
	})
	update(func(w *store.Writer) error {
		r, err := w.Remote(1)
		if err != nil {
			return err
		}
		first := r.Tree[0].Rev
		mine, theirs := content(2), content(3)
		if _, err := w.Revise(1, first, mine, nil); err != nil {
			return err
		}
		node := note.Node{Rev: note.NextRevision(first, note.Document, false, &theirs), Parent: first,
			Changed: []string{"Version"}}
		r.Tree, r.Contents = note.Tree{node}, map[note.Revision]*note.Content{node.Rev: &theirs}
		_, err = w.Apply(r, nil)
		return err
	})
	update(func(w *store.Writer) error { return w.Destroy(2) })
	update(func(w *store.Writer) error { return w.Peers.Set(7, 1) })
	update(func(w *store.Writer) error { return w.Destroy(3) })
}
