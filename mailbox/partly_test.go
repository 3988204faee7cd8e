package mailbox_test

import (
	"errors"
	"testing"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// TestMovesBetweenParts checks that an operation is not reported as not begun if the mail file moves after its first
// part: the new home would execute it again as a whole. An operation that has changed nothing is.
func TestMovesBetweenParts(t *testing.T) {
	t.Parallel()
	all := mailbox.Set{{Start: 1, Stop: 0}}
	flag := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{"k"}}}
	conditional := flag
	conditional.UnchangedSince, conditional.HasUnchangedSince = 1<<62, true
	for name, run := range map[string]func(w *world, v *mailbox.View, leave func()) error{
		"copy": func(w *world, v *mailbox.View, leave func()) error {
			_, err := v.CopyTo(w.ctx, all, true, w.mf, "Archive", false, func(_, _ uint64) { leave() })
			return err
		},
		"move": func(w *world, v *mailbox.View, leave func()) error {
			_, err := v.CopyTo(w.ctx, all, true, w.mf, "Archive", true, func(_, _ uint64) { leave() })
			return err
		},
		"conditional store": func(w *world, v *mailbox.View, leave func()) error {
			_, err := v.Store(w.ctx, all, true, conditional, func(*mailbox.Message) { leave() })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.must(w.s.Share(w.ctx, w.db, 0))
			for i := range 64 {
				w.append("INBOX", plain(i), mailbox.Flags{})
			}
			for range 4 { // 1024 messages: two parts
				_, err := w.open("INBOX").Copy(w.ctx, all, true, "INBOX")
				w.must(err)
			}
			v, left := w.open("INBOX"), false
			leave := func() {
				if !left {
					left = true
					w.must(w.s.Follow(w.ctx, w.db))
				}
			}
			if err := run(w, v, leave); !left || !errors.Is(err, mailbox.ErrPartly) ||
				errors.Is(err, store.ErrNotHome) {
				t.Errorf("moved between the parts (%v): %v", left, err)
			}
			if err := run(w, v, leave); !errors.Is(err, store.ErrNotHome) {
				t.Errorf("moved before: %v", err)
			}
		})
	}
}

// manyMessages returns a shared mail file with n messages in a folder. The mail file moves away after
// the first commit for which when returns true; then left is true.
func manyMessages(t *testing.T, folder string, n int, when func(w *world) bool) (w *world, left *bool) {
	w, left = newWorld(t, 0), new(bool)
	w.must(w.s.Share(w.ctx, w.db, 0))
	w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) { i.Ack = layout.AckCluster }))
	if folder != mailbox.Inbox {
		_, err := w.mf.Create(w.ctx, folder, "")
		w.must(err)
	}
	w.fill(folder, n)
	w.committed = func() {
		if !*left && when(w) {
			*left = true
			w.must(w.s.Follow(w.ctx, w.db))
		}
	}
	return w, left
}

// TestDeleteMoves checks the deletion of a large folder whose mail file moves after the folder was hidden: the deletion
// succeeds, because the folder is gone, and the new home removes the messages.
func TestDeleteMoves(t *testing.T) {
	t.Parallel()
	w, left := manyMessages(t, "Big", mailbox.DeletePiece+1, func(w *world) bool {
		_, err := w.mf.Folder(w.ctx, "Big")
		return errors.Is(err, mailbox.ErrNoFolder)
	})
	if err := w.mf.Delete(w.ctx, "Big"); err != nil || !*left {
		t.Fatalf("moved %v: %v", *left, err)
	}
	w.must(w.s.Lead(w.ctx, w.db, store.LeadOptions{}))
	if n, err := w.svc.PurgeDeleted(w.ctx, w.db); n != 1 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
}

// TestRenameInboxMoves checks the renaming of a large INBOX whose mail file moves after the first part: it must not be
// executed again, because the new folder exists.
func TestRenameInboxMoves(t *testing.T) {
	t.Parallel()
	w, left := manyMessages(t, "INBOX", 1001, func(w *world) bool {
		_, err := w.mf.Folder(w.ctx, "Old")
		return err == nil
	})
	if err := w.mf.Rename(w.ctx, "INBOX", "Old"); !*left || !errors.Is(err, mailbox.ErrPartly) {
		t.Errorf("moved %v: %v", *left, err)
	}
}

// TestCreateMoves checks the creation of a folder in another person's mail file that moves before the subscriptions to
// a former folder of that name are restored: it must not be executed again, because the folder exists.
func TestCreateMoves(t *testing.T) {
	t.Parallel()
	w, left := manyMessages(t, "Team", 1, func(w *world) bool {
		_, err := w.mf.Folder(w.ctx, "Team/New")
		return err == nil
	})
	guest := w.guest(note.UNID{})
	w.grant("Team", guest.Who().Person, note.Lookup|note.Read|note.Create)
	there := w.svc.SharedFile(guest.Who(), w.db, "other/")
	if _, err := there.Create(w.ctx, "other/Team/New", ""); !*left || !errors.Is(err, mailbox.ErrPartly) {
		t.Errorf("moved %v: %v", *left, err)
	}
	if _, err := there.Create(w.ctx, "other/Team/Newer", ""); !errors.Is(err, store.ErrNotHome) {
		t.Errorf("moved before: %v", err)
	}
}
