package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/test/long"
)

// lostLetter is a message in the model of TestRecoverModel.
type lostLetter struct {
	id      note.UNID
	size    uint64
	draft   bool
	folders map[note.UNID]bool
	left    map[note.UNID]int // when it left each folder last
	deleted time.Time         // zero while it is in a folder
	from    int               // the number of the departure before those of its deletion
}

// recovering is the model of TestRecoverModel: the messages of a mail file, and those that were deleted.
type recovering struct {
	w       *world
	rng     *rand.Rand
	letters []*lostLetter
	departs int
}

func (m *recovering) folders() map[string]note.UNID {
	m.w.t.Helper()
	list, err := m.w.mf.Folders(m.w.ctx)
	m.w.must(err)
	out := map[string]note.UNID{}
	for _, f := range list {
		out[f.Name] = f.UNID
	}
	return out
}

func (m *recovering) change(fn func(c *mailbox.Changing) error) {
	m.w.t.Helper()
	res, err := m.w.mf.Change(m.w.ctx, 1, func(c *mailbox.Changing, _ int) error { return fn(c) })
	m.w.must(err)
	m.w.must(res.Errs[0])
}

// leave takes a letter out of folders. A letter that is in none is deleted, and forgotten if it is not kept.
func (m *recovering) leave(l *lostLetter, trash note.UNID, folders ...note.UNID) {
	before, wasTrash := m.departs, l.folders[trash]
	for _, f := range folders {
		m.departs++
		l.left[f] = m.departs
		delete(l.folders, f)
	}
	if len(l.folders) > 0 {
		return
	}
	l.deleted, l.from = m.w.f.Env.Clock.Now(), before
	if l.draft && !wasTrash {
		m.forget(l)
	}
}

func (m *recovering) forget(l *lostLetter) {
	m.letters = slices.DeleteFunc(m.letters, func(x *lostLetter) bool { return x == l })
}

// origin returns the names of the folders that a letter goes back to.
func (m *recovering) origin(l *lostLetter, there map[string]note.UNID) (out []string) {
	last, at := mailbox.Inbox, 0
	for name, u := range there {
		switch n := l.left[u]; {
		case n == 0 || name == mailbox.UseTrash:
		case n > l.from:
			out = append(out, name)
		case n > at:
			last, at = name, n
		}
	}
	if out == nil {
		out = []string{last}
	}
	slices.Sort(out)
	return out
}

func (m *recovering) pick(which func(l *lostLetter) bool) *lostLetter {
	var list []*lostLetter
	for _, l := range m.letters {
		if which(l) {
			list = append(list, l)
		}
	}
	if list == nil {
		return nil
	}
	return list[m.rng.IntN(len(list))]
}

// uid returns the UID of a letter in a folder.
func (m *recovering) uid(v *mailbox.View, l *lostLetter) uint32 {
	m.w.t.Helper()
	var id note.ID
	m.w.must(m.w.mf.Read(m.w.ctx, func(d *mailbox.Reading) (err error) {
		id, err = d.Find(l.id)
		return err
	}))
	var uid uint32
	m.w.must(v.Fetch(m.w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
		func(x *mailbox.Message) (bool, error) {
			if x.ID == id {
				uid = x.UID
			}
			return false, nil
		}, func() error { return nil }))
	return uid
}

func (m *recovering) step() {
	w, there := m.w, m.folders()
	names := slices.Sorted(maps.Keys(there))
	name := names[m.rng.IntN(len(names))]
	folder, trash := there[name], there[mailbox.UseTrash]
	in := m.pick(func(l *lostLetter) bool { return l.folders[folder] })
	live := m.pick(func(l *lostLetter) bool { return l.deleted.IsZero() })
	switch op := m.rng.IntN(12); {
	case op <= 3:
		m.add(folder)
	case op <= 5 && in != nil:
		m.expunge(name, in, op == 4)
		m.leave(in, trash, folder)
	case op == 6 && live != nil:
		m.change(func(c *mailbox.Changing) error {
			id, err := c.Find(live.id)
			if err != nil {
				return err
			}
			return c.Destroy(id)
		})
		m.leave(live, trash, slices.Collect(maps.Keys(live.folders))...)
	case op == 7 && live != nil && !live.folders[folder]:
		var drop []note.UNID
		if m.rng.IntN(2) == 0 {
			drop = slices.Collect(maps.Keys(live.folders))
		}
		m.change(func(c *mailbox.Changing) error {
			id, err := c.Find(live.id)
			if err != nil {
				return err
			}
			return c.SetFolders(id, []note.UNID{folder}, drop)
		})
		live.folders[folder] = true
		delete(live.left, folder)
		m.leave(live, trash, drop...)
	case op == 8 && strings.HasPrefix(name, "F"):
		w.must(w.mf.Delete(w.ctx, name))
		for _, l := range slices.Clone(m.letters) {
			if l.folders[folder] {
				m.leave(l, trash, folder)
			}
		}
	case op == 9:
		_, err := w.mf.Create(w.ctx, fmt.Sprint("F", m.rng.IntN(3)), "")
		if err != nil && !errors.Is(err, mailbox.ErrFolderExists) {
			w.t.Fatal(err)
		}
	case op == 10:
		m.recover(there)
	case op == 11:
		m.pass()
	}
}

func (m *recovering) add(folder note.UNID) {
	l := &lostLetter{draft: m.rng.IntN(5) == 0, folders: map[note.UNID]bool{folder: true}, left: map[note.UNID]int{}}
	raw := plain(m.rng.IntN(1000))
	l.size = uint64(len(raw))
	c, err := m.w.svc.Compose(m.w.ctx, []byte(raw))
	m.w.must(err)
	defer c.Release()
	x := mailbox.Imported{Composed: c, Folders: []note.UNID{folder}, Received: m.w.f.Env.Clock.Now()}
	if l.draft {
		x.Flags.Keywords = []string{mailbox.Draft}
	}
	m.change(func(c *mailbox.Changing) (err error) {
		l.id, err = c.Create(&x)
		return err
	})
	m.letters = append(m.letters, l)
}

// expunge removes a letter from a folder as IMAP does, or as POP3.
func (m *recovering) expunge(folder string, l *lostLetter, imap bool) {
	w := m.w
	v := w.open(folder)
	uid := m.uid(v, l)
	if !imap {
		w.must(v.Settle(w.ctx, nil, []uint32{uid}))
		return
	}
	set := mailbox.Set{{Start: uid, Stop: uid}}
	_, err := v.Store(w.ctx, set, true, mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}},
		func(*mailbox.Message) {})
	w.must(err)
	w.must(v.Expunge(w.ctx, set))
}

func (m *recovering) recover(there map[string]note.UNID) {
	l := m.pick(func(l *lostLetter) bool { return !l.deleted.IsZero() })
	if l == nil {
		return
	}
	alive := m.pick(func(l *lostLetter) bool { return l.deleted.IsZero() })
	ids := []note.UNID{l.id, {1}, l.id}
	if alive != nil {
		ids = append(ids, alive.id)
	}
	res, err := m.w.mf.Recover(m.w.ctx, ids)
	m.w.must(err)
	for i, r := range res {
		if want := i > 0; errors.Is(r.Err, mailbox.ErrNoMessage) != want || !want && r.Err != nil {
			m.w.t.Errorf("recover %d: %v", i, r.Err)
		}
	}
	for _, name := range m.origin(l, there) {
		l.folders[there[name]] = true
		delete(l.left, there[name])
	}
	l.deleted = time.Time{}
}

// pass lets some days pass, and purges.
func (m *recovering) pass() {
	m.w.f.Time.Advance(time.Duration(m.rng.IntN(5*24*3600)) * time.Second)
	n, err := m.w.svc.PurgeRecoverable(m.w.ctx, m.w.db, nil)
	m.w.must(err)
	had := len(m.letters)
	before := m.w.f.Env.Clock.Now().Add(-keepDeleted).Unix()
	m.letters = slices.DeleteFunc(m.letters, func(l *lostLetter) bool {
		return !l.deleted.IsZero() && l.deleted.Unix() <= before
	})
	if had-len(m.letters) != n {
		m.w.t.Errorf("purged %d, want %d", n, had-len(m.letters))
	}
}

// state describes the mail file as its owner sees it: each message with its folders, or with its deletion.
func (m *recovering) state() (got, want []string) {
	w, there := m.w, m.folders()
	var used uint64
	for _, l := range m.letters {
		if !l.deleted.IsZero() {
			want = append(want, fmt.Sprint(l.id, " deleted ", l.deleted.Unix(), l.size, m.origin(l, there)))
			continue
		}
		used += l.size
		for name, u := range there {
			if l.folders[u] {
				want = append(want, fmt.Sprint(l.id, " in ", name))
			}
		}
	}
	want = append(want, fmt.Sprint("used ", used))
	u, err := w.mf.Usage(w.ctx)
	w.must(err)
	got = append(got, fmt.Sprint("used ", u.Used))
	list, more, err := w.mf.Recoverable(w.ctx, time.Time{})
	w.must(err)
	if more || !slices.IsSortedFunc(list, func(a, b mailbox.Recoverable) int { return b.Deleted.Compare(a.Deleted) }) {
		w.t.Error("the list is cut off or not sorted")
	}
	for _, x := range list {
		var names []string
		for _, f := range x.Folders {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		got = append(got, fmt.Sprint(x.UNID, " deleted ", x.Deleted.Unix(), x.Size, names))
	}
	for name, u := range there {
		found, err := w.mf.Query(w.ctx, &mailbox.Query{Limit: 1000,
			Filter: mailbox.Filter{Kind: mailbox.FilterIn, Folders: []note.UNID{u}}})
		w.must(err)
		for _, hit := range found.Hits {
			got = append(got, fmt.Sprint(hit.UNID, " in ", name))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	return got, want
}

// TestRecoverModel deletes messages in every way, and restores and purges them, at random, and compares the mail file
// and the list of deleted messages with a model.
func TestRecoverModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(3, 20)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &recovering{w: newWorldOn(t, env.Test(t), 0), rng: rand.New(rand.NewPCG(seed, 1))}
			for i := range 400 {
				m.step()
				got, want := m.state()
				if !slices.Equal(got, want) {
					t.Fatalf("step %d: got\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// lose deletes a new message of the INBOX, and returns its UNID.
func (w *world) lose(raw string) note.UNID {
	w.t.Helper()
	uid := w.append(mailbox.Inbox, raw, mailbox.Flags{})
	w.must(w.open(mailbox.Inbox).Settle(w.ctx, nil, []uint32{uid}))
	list, _, err := w.mf.Recoverable(w.ctx, time.Time{})
	w.must(err)
	return list[0].UNID
}

// TestRecoverRights checks that only the owner and the server list and restore deleted messages, not even others with
// all rights in the mail file.
func TestRecoverRights(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	id := w.lose(plain(1))
	manager := note.Who{Person: w.s.UNID()}
	w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: manager.Person, Level: note.Manager})
	}))
	for _, who := range []note.Who{manager, {Person: w.s.UNID()}, {}} {
		other := w.svc.File(who, w.db)
		if list, _, err := other.Recoverable(w.ctx, time.Time{}); !errors.Is(err, store.ErrDenied) || list != nil {
			t.Errorf("%v lists %v: %v", who, list, err)
		}
		if _, err := other.Recover(w.ctx, []note.UNID{id}); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%v restores: %v", who, err)
		}
	}
	if res, err := w.mf.Recover(w.ctx, []note.UNID{{1}, id}); err != nil || res[1].Err != nil ||
		!errors.Is(res[0].Err, mailbox.ErrNoMessage) {
		t.Errorf("the owner: %+v, %v", res, err)
	}
}

// TestRecoverDenied checks that a person without the right to expunge keeps nothing in the bin: the deletion fails as a
// whole.
func TestRecoverDenied(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	uid := w.append(mailbox.Inbox, plain(1), mailbox.Flags{Deleted: true})
	reader := note.Who{Person: w.s.UNID()}
	w.must(w.mf.SetAccess(w.ctx, mailbox.Inbox, reader.Person,
		func(note.Rights) note.Rights { return note.Lookup | note.Read | note.DeleteMark }, false))
	f := w.svc.File(reader, w.db)
	v, _, err := f.Open(w.ctx, mailbox.Inbox, false)
	w.must(err)
	set := mailbox.Set{{Start: uid, Stop: uid}}
	if err := v.Expunge(w.ctx, set); !errors.Is(err, store.ErrDenied) {
		t.Errorf("expunge: %v", err)
	}
	_, err = w.open(mailbox.Inbox).Store(w.ctx, set, true,
		mailbox.StoreOp{Mode: mailbox.Remove, Flags: mailbox.Flags{Deleted: true}}, func(*mailbox.Message) {})
	w.must(err)
	found, err := w.mf.Query(w.ctx, &mailbox.Query{Limit: 1})
	w.must(err)
	res, err := f.Change(w.ctx, 1, func(c *mailbox.Changing, _ int) error {
		id, err := c.Find(found.Hits[0].UNID)
		if err != nil {
			return err
		}
		return c.Destroy(id)
	})
	if err != nil || !errors.Is(res.Errs[0], store.ErrDenied) {
		t.Errorf("destroy: %v, %v", res.Errs, err)
	}
	if uids, _ := w.fresh(mailbox.Inbox); len(uids) != 1 {
		t.Error("the message is gone")
	}
	if list, _, err := w.mf.Recoverable(w.ctx, time.Time{}); err != nil || len(list) != 0 {
		t.Errorf("%v is in the bin: %v", list, err)
	}
}

// TestHold checks that a hold keeps deleted messages where they are not kept otherwise, and beyond the quota and the
// time.
func TestHold(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 200)
	svc := mailbox.New(w.s, w.f.Env, mailbox.Options{})
	purged := func(svc *mailbox.Service, want int) {
		t.Helper()
		if n, err := svc.PurgeRecoverable(w.ctx, w.db, nil); n != want || err != nil {
			t.Errorf("%d purged, want %d: %v", n, want, err)
		}
	}
	w.must(svc.Hold(w.ctx, w.db, true))
	w.must(svc.Hold(w.ctx, w.db, true))
	w.mf = svc.File(w.who, w.db)
	for i := range 5 {
		w.lose(plain(i))
		w.f.Time.Advance(keepDeleted)
	}
	purged(w.svc, 0)
	purged(svc, 0)
	if on, err := svc.Held(w.ctx, w.db); !on || err != nil {
		t.Errorf("held: %v, %v", on, err)
	}
	w.must(svc.Hold(w.ctx, w.db, false))
	if on, err := svc.Held(w.ctx, w.db); on || err != nil {
		t.Errorf("held: %v, %v", on, err)
	}
	purged(svc, 5)
}

// TestRecoverTrashByName deletes a message and a draft from a Trash that has the name without the special use, as
// clients create it. Both can be restored to the INBOX.
func TestRecoverTrashByName(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	m := &recovering{w: w}
	if trash, ok := m.folders()[mailbox.UseTrash]; ok {
		m.change(func(c *mailbox.Changing) error { return c.DeleteFolder(trash, true) })
	}
	m.change(func(c *mailbox.Changing) error {
		_, err := c.CreateFolder(note.UNID{}, mailbox.UseTrash, "", true)
		return err
	})
	draft, err := mailbox.ParseFlags([]string{`\Draft`})
	w.must(err)
	w.append(mailbox.Inbox, plain(1), mailbox.Flags{})
	last := w.append(mailbox.Inbox, plain(2), draft)
	_, err = w.open(mailbox.Inbox).CopyTo(w.ctx, mailbox.Set{{Start: 1, Stop: last}}, true, w.mf, mailbox.UseTrash,
		true, nil)
	w.must(err)
	uids, _ := w.fresh(mailbox.UseTrash)
	w.must(w.open(mailbox.UseTrash).Settle(w.ctx, nil, uids))
	list, _, err := w.mf.Recoverable(w.ctx, time.Time{})
	w.must(err)
	if len(list) != 2 {
		t.Errorf("%d of %d can be restored", len(list), len(uids))
	}
	for i := range list {
		if to := list[i].Folders; len(to) != 1 || to[0].Name != mailbox.Inbox {
			t.Errorf("%s goes back to %+v", list[i].Subject, to)
		}
	}
}

// TestHoldKeepsVersions checks that during a hold, and only then, drafts that are deleted, messages that are replaced,
// and messages that are moved to the mail file of somebody else can be restored.
func TestHoldKeepsVersions(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, env.Test(t), 0)
	other, err := w.svc.Make(w.ctx, note.UNID{9}, "bob", 0, 0)
	w.must(err)
	there := w.svc.File(note.System, other)
	draft, err := mailbox.ParseFlags([]string{`\Draft`})
	w.must(err)
	for n, on := range []bool{false, true} {
		w.must(w.svc.Hold(w.ctx, w.db, on))
		uid := w.append(mailbox.Inbox, plain(3*n), draft)
		w.must(w.open(mailbox.Inbox).Settle(w.ctx, nil, []uint32{uid}))
		uid = w.append(mailbox.Inbox, plain(3*n+1), draft)
		_, uid, err = w.open(mailbox.Inbox).Replace(w.ctx, uid, w.mf, mailbox.Inbox,
			&mailbox.Incoming{Raw: []byte(plain(3*n + 2)), Date: w.f.Clock.Now()})
		w.must(err)
		system := w.svc.File(note.System, w.db)
		v, _, err := system.Open(w.ctx, mailbox.Inbox, false)
		w.must(err)
		_, err = v.CopyTo(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true, there, mailbox.Inbox, true, nil)
		w.must(err)
		var kept []string
		list, _, err := w.mf.Recoverable(w.ctx, time.Time{})
		w.must(err)
		for i := range list {
			kept = append(kept, list[i].Subject)
		}
		slices.Sort(kept)
		if want := map[bool]string{true: "m 3,m 4,m 5"}[on]; strings.Join(kept, ",") != want {
			t.Errorf("hold %v: %q can be restored, want %q", on, kept, want)
		}
	}
}

// TestDeleteOnFullDevice checks that a message is deleted while the store takes nothing new, although the bin cannot be
// made.
func TestDeleteOnFullDevice(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	f.Faults.SetSpace(1 << 30)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: 100 << 20, FloorPercent: 1, Ballast: -1,
		MemTableSize: 1 << 20, CacheSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	w := &world{t: t, f: f, s: s, ctx: context.Background(), who: note.Who{Person: note.UNID{1}}}
	w.svc = mailbox.New(s, f.Env, mailbox.Options{KeepDeleted: keepDeleted})
	w.db, err = w.svc.Make(w.ctx, w.who.Person, "alice", 0, 0)
	w.must(err)
	w.mf = w.svc.File(w.who, w.db)
	for _, kept := range []int{0, 1} {
		uid := w.append(mailbox.Inbox, plain(1), mailbox.Flags{})
		if kept == 0 {
			f.Faults.SetSpace(60 << 20)
			f.Time.Advance(2 * time.Second)
		}
		w.must(w.open(mailbox.Inbox).Settle(w.ctx, nil, []uint32{uid}))
		list, _, err := w.mf.Recoverable(w.ctx, time.Time{})
		w.must(err)
		if uids, _ := w.fresh(mailbox.Inbox); len(uids) != 0 || len(list) != kept {
			t.Errorf("%d in the INBOX, %d can be restored, want %d", len(uids), len(list), kept)
		}
		f.Faults.SetSpace(1 << 30)
		f.Time.Advance(2 * time.Second)
	}
}
