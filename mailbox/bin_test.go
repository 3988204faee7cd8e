package mailbox_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

var allMessages = mailbox.Set{{Start: 1, Stop: 0}}

// bin opens the folder of deleted messages.
func (w *world) bin() *session {
	w.t.Helper()
	v, _, err := w.mf.Bin().Select(w.ctx, mailbox.RecoverableName, false, true)
	w.must(err)
	s := &session{w: w, v: v, folder: mailbox.RecoverableName}
	s.uids, s.flags = w.scan(v, allMessages)
	return s
}

// binNames returns the names of the folders that Bin shows to a person.
func (w *world) binNames(svc *mailbox.Service, who note.Who) (names []string) {
	w.t.Helper()
	list, err := svc.File(who, w.db).Bin().Folders(w.ctx)
	if errors.Is(err, store.ErrDenied) {
		return []string{"denied"}
	}
	w.must(err)
	for _, f := range list {
		if f.Rights != note.Lookup|note.Read || f.Deleted != 0 || f.Subscribed || f.SpecialUse != "" {
			w.t.Errorf("%+v", f)
		}
		names = append(names, f.Name)
	}
	return names
}

// TestBinView checks that a session with the folder of deleted messages open sees those that are deleted, recovered and
// purged, also after it has moved to another member.
func TestBinView(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	w.lose(plain(1))
	first, second := w.bin(), w.bin()
	w.f.Time.Advance(time.Hour)
	w.lose(plain(2))
	id := w.lose(plain(3))
	first.poll(true)
	_, err := w.mf.Recover(w.ctx, []note.UNID{id})
	w.must(err)
	first.poll(true)
	w.f.Time.Advance(keepDeleted - time.Minute)
	n, err := w.svc.PurgeRecoverable(w.ctx, w.db, nil)
	w.must(err)
	c, err := second.v.Carry(w.ctx)
	w.must(err)
	if second.v, _, err = w.mf.Bin().Resume(w.ctx, c); err != nil {
		t.Fatal(err)
	}
	first.poll(true)
	second.poll(true)
	want := w.bin()
	if n != 1 || len(want.uids) != 1 || want.flags[want.uids[0]] != "" {
		t.Errorf("%d purged, left are %v", n, want.flags)
	}
	for i, s := range []*session{first, second} {
		if !slices.Equal(s.uids, want.uids) || s.v.MayChange() != mailbox.ErrRecoverOnly {
			t.Errorf("session %d has %v, want %v", i, s.uids, want.uids)
		}
	}
}

// TestBinShown checks to whom Bin shows the folders of deleted messages, and under which names.
func TestBinShown(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	expect := func(svc *mailbox.Service, who note.Who, want ...string) {
		t.Helper()
		if got := w.binNames(svc, who); !slices.Equal(got, want) {
			t.Errorf("shown are %q, want %q", got, want)
		}
	}
	expect(w.svc, w.who)
	w.lose(plain(1))
	expect(w.svc, w.who, mailbox.RecoverableName)
	expect(mailbox.New(w.s, w.f.Env, mailbox.Options{}), w.who)
	manager := note.Who{Person: w.s.UNID()}
	w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: manager.Person, Level: note.Manager})
	}))
	expect(w.svc, manager, "denied")
	other := w.svc.File(manager, w.db)
	if _, _, err := other.Bin().Open(w.ctx, mailbox.RecoverableName, true); !errors.Is(err, store.ErrDenied) {
		t.Errorf("another manager opens it: %v", err)
	}
	if err := other.Bin().Subscribe(w.ctx, mailbox.RecoverableName, true); !errors.Is(err, store.ErrDenied) {
		t.Errorf("another manager subscribes: %v", err)
	}
	w.must(w.s.Update(w.ctx, note.System, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		wr, err := tx.Database(w.db)
		if err == nil {
			_, err = wr.CreateFolder(mailbox.Hidden+"recoverable 1-a", "")
		}
		return err
	}))
	expect(w.svc, w.who, mailbox.RecoverableName, mailbox.RecoverableName+" 1-a")
	_, err := w.mf.Create(w.ctx, mailbox.RecoverableName, "")
	w.must(err)
	expect(w.svc, w.who, mailbox.RecoverableName+" 1-a")
	if _, _, err := w.mf.Bin().Open(w.ctx, mailbox.RecoverableName, true); !errors.Is(err, mailbox.ErrNoFolder) {
		t.Errorf("the folder under the name of the person's own: %v", err)
	}
	own := w.open(mailbox.RecoverableName)
	c, err := own.Carry(w.ctx)
	w.must(err)
	w.must(w.mf.Rename(w.ctx, mailbox.RecoverableName, "Kept"))
	if _, _, err := w.mf.Bin().Resume(w.ctx, c); !errors.Is(err, mailbox.ErrFolderGone) {
		t.Errorf("the person's own folder continues as that of deleted messages: %v", err)
	}
}

// TestBinQuota checks that recovering copies and moves count against the quota, also in several parts. Purge meanwhile
// takes nothing that is recovered, also if a later part fails.
func TestBinQuota(t *testing.T) {
	t.Parallel()
	const many = 1500
	for _, x := range []struct {
		fit   int
		move  bool
		moved int
	}{
		{many, false, many}, {many - 1, false, 1000}, {800, false, 0},
		{many, true, many}, {many - 1, true, 1000}, {800, true, 0},
	} {
		t.Run(fmt.Sprint(x.fit, x.move), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			size := w.fill(mailbox.Inbox, many)
			v := w.open(mailbox.Inbox)
			_, err := v.Store(w.ctx, allMessages, true,
				mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}}, func(*mailbox.Message) {})
			w.must(err)
			w.must(v.Expunge(w.ctx, nil))
			w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) { i.Quota = uint64(x.fit) * size }))
			s := w.bin()
			purge := func(_, _ uint64) {
				n, err := w.svc.PurgeRecoverable(w.ctx, w.db, nil)
				if err != nil || n != 0 {
					t.Errorf("%d purged: %v", n, err)
				}
			}
			res, err := s.v.CopyTo(w.ctx, allMessages, true, w.mf, mailbox.UseArchive, x.move, purge)
			if x.moved < many != errors.Is(err, mailbox.ErrOverQuota) {
				t.Error(err)
			}
			if err != nil && len(res.Source) > 0 != (x.moved > 0) {
				t.Errorf("the result is %v", res)
			}
			s.poll(true)
			if n := w.total(mailbox.UseArchive); n != x.moved || len(s.uids) != many-x.moved {
				t.Errorf("%d recovered, %d left, want %d and %d", n, len(s.uids), x.moved, many-x.moved)
			}
			u, err := w.mf.Usage(w.ctx)
			if err != nil || u.Used != uint64(x.moved)*size {
				t.Errorf("%d bytes used: %v", u.Used, err)
			}
		})
	}
}

// TestBinTargets checks where deleted messages can be recovered to: into folders in which the person may store, of the
// same mail file, without the flag \Deleted.
func TestBinTargets(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	w.lose(plain(1))
	w.must(w.mf.SetAccess(w.ctx, mailbox.UseArchive, w.who.Person,
		func(note.Rights) note.Rights { return note.Lookup | note.Read | note.Administer }, false))
	other, err := w.svc.Make(w.ctx, w.who.Person, "other", 0, 0)
	w.must(err)
	s := w.bin()
	for _, move := range []bool{false, true} {
		for _, x := range []struct {
			to   *mailbox.File
			name string
			want error
		}{
			{w.mf, mailbox.UseArchive, store.ErrDenied},
			{w.mf, "None", mailbox.ErrNoFolder},
			{w.mf.Bin(), mailbox.RecoverableName, store.ErrDenied},
			{w.svc.File(w.who, other), mailbox.Inbox, mailbox.ErrRecoverOnly},
		} {
			if _, err := s.v.CopyTo(w.ctx, allMessages, true, x.to, x.name, move, nil); !errors.Is(err, x.want) {
				t.Errorf("to %s: %v, want %v", x.name, err, x.want)
			}
		}
	}
	// A replica moves the message while another one deletes it: it is in both folders.
	w.must(w.s.Update(w.ctx, note.System, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		wr, err := tx.Database(w.db)
		if err != nil {
			return err
		}
		h, err := wr.FolderNamed(mailbox.UseSent)
		if err != nil {
			return err
		}
		id, err := wr.Member(s.v.FolderID(), s.uids[0])
		if err == nil {
			_, err = wr.AddTo(id, h.Note)
		}
		return err
	}))
	seen := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Seen: true, Keywords: []string{"work"}}}
	_, err = w.open(mailbox.UseSent).Store(w.ctx, allMessages, true, seen, func(*mailbox.Message) {})
	w.must(err)
	uids, flags := w.fresh(mailbox.UseSent)
	res, err := s.v.CopyTo(w.ctx, allMessages, true, w.mf, mailbox.UseSent, false, nil)
	w.must(err)
	if s.poll(true); len(s.uids) != 0 {
		t.Errorf("%v are left", s.uids)
	}
	now, left := w.fresh(mailbox.UseSent)
	if len(uids) != 1 || !slices.Equal(now, uids) || !maps.Equal(left, flags) || len(res.Dest) != 1 ||
		res.Dest[0].Start != uids[0] {
		t.Errorf("recovered are %v at %v, want %v", left, res.Dest, flags)
	}
}
