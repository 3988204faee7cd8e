package mailbox_test

import (
	"errors"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// fill adds n messages to a folder in one update, and returns the size of each.
func (w *world) fill(folder string, n int) (size uint64) {
	w.t.Helper()
	raw := []byte(plain(1))
	m, err := w.s.Prepare(w.ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), store.PartSize))
	w.must(err)
	defer m.Release()
	w.must(w.s.Update(w.ctx, note.System, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		wr, err := tx.Database(w.db)
		if err != nil {
			return err
		}
		h, err := wr.FolderNamed(folder)
		for i := 0; i < n && err == nil; i++ {
			_, err = wr.Create(store.New{Message: m, Folders: []note.ID{h.Note}, Date: 1})
		}
		return err
	}))
	return uint64(len(raw))
}

func (w *world) total(folder string) int {
	w.t.Helper()
	f, err := w.mf.Folder(w.ctx, folder)
	w.must(err)
	return int(f.Total)
}

// TestPieces copies, moves and deletes more messages than one update can change.
func TestPieces(t *testing.T) {
	t.Parallel()
	const many = 1500
	w := newWorld(t, 0)
	fill, total := w.fill, w.total
	size := fill("INBOX", many)
	all := mailbox.Set{{Start: 1, Stop: 0}}
	v := w.open("INBOX")
	// Copies into the same folder are new notes, which count against the quota. There is room for those of the first
	// part and some of the second.
	quota := func(q uint64) { w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) { i.Quota = q })) }
	quota((many + 1200) * size)
	if _, err := v.Copy(w.ctx, all, true, "INBOX"); !errors.Is(err, mailbox.ErrOverQuota) {
		t.Errorf("a copy that does not fit: %v", err)
	}
	if n := total("INBOX"); n != many {
		t.Errorf("a copy that failed left %d messages of %d", n, many)
	}
	quota(0)
	_, err := w.mf.Create(w.ctx, "Big", "")
	w.must(err)
	v = w.open("INBOX")
	r, err := v.Copy(w.ctx, all, true, "Big")
	if err != nil || total("Big") != many || len(r.Source) != 1 || len(r.Dest) != 1 || r.UIDValidity == 0 {
		t.Errorf("copy: %+v, %v", r, err)
	}
	_, err = w.mf.Create(w.ctx, "Moved", "")
	w.must(err)
	r, err = v.Move(w.ctx, all, true, "Moved")
	if err != nil || total("Moved") != many || total("INBOX") != 0 || len(r.Dest) != 1 {
		t.Errorf("move: %+v, %v", r, err)
	}
	fill("Moved", 5100)
	w.must(w.mf.Delete(w.ctx, "Moved"))
	if _, err := w.mf.Folder(w.ctx, "Moved"); !errors.Is(err, mailbox.ErrNoFolder) {
		t.Errorf("a large folder that was deleted: %v", err)
	}
	if n := total("Big"); n != many {
		t.Errorf("%d messages of %d are in the other folder", n, many)
	}
}

// TestHidden simulates a power failure just after the deletion of a large folder began. Nobody sees the folder any
// more, its name is free, and PurgeDeleted removes the rest.
func TestHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	before, err := w.mf.Create(w.ctx, "Big", "")
	w.must(err)
	w.fill("Big", 20)
	watcher := w.session("Big")
	v := watcher.v
	w.must(mailbox.Hide(w.ctx, w.mf, "Big"))
	for _, mf := range []*mailbox.File{w.mf, w.svc.File(note.System, w.db)} {
		list, err := mf.Folders(w.ctx)
		w.must(err)
		for _, f := range list {
			if f.ID == before.ID {
				t.Errorf("it is listed as %q", f.Name)
			}
		}
		if _, err := mf.Folder(w.ctx, "Big"); !errors.Is(err, mailbox.ErrNoFolder) {
			t.Errorf("by its name: %v", err)
		}
	}
	if err := v.Poll(w.ctx, true, watcher); !errors.Is(err, mailbox.ErrFolderGone) {
		t.Errorf("a session that looks into it: %v", err)
	}
	if _, err := v.Copy(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, "INBOX"); err == nil {
		t.Error("a session copies out of it")
	}
	again, err := w.mf.Create(w.ctx, "Big", "")
	w.must(err)
	if again.UIDValidity <= before.UIDValidity || again.Total != 0 {
		t.Errorf("a new one of that name: %+v", again)
	}
	if n, err := w.svc.PurgeDeleted(w.ctx, w.db); n != 1 || err != nil {
		t.Errorf("purged %d: %v", n, err)
	}
	if n, err := w.svc.PurgeDeleted(w.ctx, w.db); n != 0 || err != nil {
		t.Errorf("then purged %d: %v", n, err)
	}
	w.must(w.s.Read(w.ctx, note.System, w.db, func(r *store.Reader) error {
		return r.Notes(1, func(_ note.ID, n *layout.Note) bool {
			if n.Class == note.Document && !n.Hidden() {
				t.Error("a message is left")
			}
			return true
		})
	}))
	if list, _, err := w.mf.Recoverable(w.ctx, time.Time{}); err != nil || len(list) != 20 ||
		list[0].Folders[0].Name != mailbox.Inbox {
		t.Errorf("%d can be recovered: %v", len(list), err)
	}
}

// TestCopyRenamed renames a folder during a copy in parts. The whole copy arrives under the new name. A copy that fails
// leaves nothing behind.
func TestCopyRenamed(t *testing.T) {
	t.Parallel()
	const many = 4500
	w := newWorld(t, 0)
	w.fill("INBOX", many)
	_, err := w.mf.Create(w.ctx, "A", "")
	w.must(err)
	v := w.open("INBOX")
	type result struct {
		r   mailbox.CopyResult
		err error
	}
	done := make(chan result, 1)
	go func() {
		r, err := v.Copy(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, "A")
		done <- result{r, err}
	}()
	for w.total("A") == 0 { // others see all of the first part at once
	}
	w.must(w.mf.Rename(w.ctx, "A", "B"))
	if got := <-done; got.err != nil || len(got.r.Dest) != 1 || got.r.Dest[0].Stop-got.r.Dest[0].Start != many-1 {
		t.Errorf("%+v, %v", got.r, got.err)
	}
	if n := w.total("B"); n != many {
		t.Errorf("%d messages of %d", n, many)
	}
	if _, err := w.mf.Folder(w.ctx, "A"); !errors.Is(err, mailbox.ErrNoFolder) {
		t.Errorf("the old name: %v", err)
	}
}

// TestRenameInbox renames a large INBOX, which moves its messages into a new folder.
func TestRenameInbox(t *testing.T) {
	t.Parallel()
	const many = 2000 // twice the most that one update moves
	w := newWorld(t, 0)
	w.fill("INBOX", many)
	w.must(w.mf.Rename(w.ctx, "INBOX", "Old/Mail"))
	if old, in := w.total("Old/Mail"), w.total("INBOX"); old != many || in != 0 {
		t.Errorf("%d messages moved, %d stayed", old, in)
	}
	w.fill("INBOX", 3)
	if err := w.mf.Rename(w.ctx, "INBOX", "Old/Mail"); !errors.Is(err, mailbox.ErrFolderExists) ||
		w.total("INBOX") != 3 {
		t.Errorf("into one that is there: %v", err)
	}
}

// TestCopyAcross copies and moves more messages than one update can change into another person's mail file.
func TestCopyAcross(t *testing.T) {
	t.Parallel()
	const many = 1500
	w := newWorld(t, 0)
	size := w.fill("INBOX", many)
	bob := note.Who{Person: w.s.UNID()}
	db, err := w.svc.Make(w.ctx, bob.Person, "bob", 0, 0)
	w.must(err)
	quota := func(q uint64) {
		w.must(w.s.SetInfo(note.System, db, func(i *layout.Info) {
			i.Quota = q
			i.ACL = i.ACL.With(note.Entry{ID: w.who.Person, Level: note.Manager})
		}))
	}
	quota(1200 * size)
	there := w.svc.SharedFile(w.who, db, "Other Users/bob/")
	theirs := func() int {
		f, err := there.Folder(w.ctx, "Other Users/bob/INBOX")
		w.must(err)
		return int(f.Total)
	}
	all := mailbox.Set{{Start: 1, Stop: 0}}
	v := w.open("INBOX")
	if _, err := v.CopyTo(w.ctx, all, true, there, "Other Users/bob/INBOX", false, nil); !errors.Is(err,
		mailbox.ErrOverQuota) || theirs() != 0 {
		t.Errorf("a copy that does not fit: %v, %d messages there", err, theirs())
	}
	r, err := v.CopyTo(w.ctx, all, true, there, "Other Users/bob/INBOX", true, nil)
	if !errors.Is(err, mailbox.ErrOverQuota) || theirs() != 1000 || w.total("INBOX") != many-1000 ||
		len(r.Source) != 1 || r.Source[0].Stop != 1000 {
		t.Errorf("a move that does not fit: %v, %+v, %d messages there", err, r, theirs())
	}
	quota(0)
	r, err = v.CopyTo(w.ctx, all, true, there, "Other Users/bob/INBOX", true, nil)
	if err != nil || theirs() != many || w.total("INBOX") != 0 || len(r.Dest) != 1 {
		t.Errorf("a move: %v, %+v, %d messages there", err, r, theirs())
	}
}

// TestNumberedAnew gives a folder a name that has already had a higher UIDVALIDITY. A session with the old UIDVALIDITY
// is told that the folder is gone.
func TestNumberedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for _, name := range []string{"A", "B", "C"} {
		_, err := w.mf.Create(w.ctx, name, "")
		w.must(err)
	}
	w.must(w.mf.Delete(w.ctx, "B"))
	_, err := w.mf.Create(w.ctx, "B", "")
	w.must(err)
	w.must(w.mf.Delete(w.ctx, "B"))
	same, other := w.session("C"), w.session("A")
	w.must(w.mf.Rename(w.ctx, "C", "D"))
	w.must(w.mf.Rename(w.ctx, "A", "B"))
	w.must(same.v.Poll(w.ctx, true, same))
	if err := other.v.Poll(w.ctx, true, other); !errors.Is(err, mailbox.ErrFolderGone) {
		t.Errorf("under another UIDVALIDITY: %v", err)
	}
	if _, err := other.v.Copy(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, "D"); !errors.Is(err,
		mailbox.ErrFolderGone) {
		t.Errorf("copies out of it: %v", err)
	}
}
