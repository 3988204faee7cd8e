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
	"doublet/store/check"
)

type world struct {
	t   *testing.T
	f   *env.Fixture
	s   *store.Store
	svc *mailbox.Service
	who note.Who
	db  note.DatabaseID
	mf  *mailbox.File
	ctx context.Context
	// committed, if set, is called after each commit in a database that requires a mate's confirmation.
	committed func()
}

// keepDeleted is the time for which deleted messages can be recovered.
const keepDeleted = 14 * 24 * time.Hour

// newWorld creates a store with one mail file. The store is checked when the test ends.
func newWorld(t *testing.T, quota uint64) *world {
	t.Helper()
	return newWorldOn(t, env.TestRealTime(t), quota)
}

func newWorldOn(t *testing.T, f *env.Fixture, quota uint64) *world {
	t.Helper()
	w := &world{t: t, f: f, ctx: context.Background()}
	var err error
	w.s, err = store.Open(w.f.Env, "data", store.Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond,
		Indexes: mailbox.Indexes(),
		OnFatal: func(err error) { t.Error(err) },
		Confirm: func(context.Context, []note.DatabaseID, uint64) error {
			if w.committed != nil {
				w.committed()
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rep, err := check.Run(w.ctx, w.s, check.Options{Deep: true})
		if err != nil {
			t.Error(err)
		}
		for _, f := range rep.Findings {
			t.Error(f)
		}
		if err := w.s.Close(); err != nil {
			t.Error(err)
		}
	})
	w.svc = mailbox.New(w.s, w.f.Env, mailbox.Options{MessageSize: 1 << 20, KeepDeleted: keepDeleted})
	w.who = note.Who{Person: w.s.UNID()}
	if w.db, err = w.svc.Make(w.ctx, w.who.Person, "alice", quota, 0); err != nil {
		t.Fatal(err)
	}
	w.mf = w.svc.File(w.who, w.db)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) append(folder string, raw string, fl mailbox.Flags) uint32 {
	w.t.Helper()
	_, uid, err := w.mf.Append(w.ctx, folder, []byte(raw), fl, time.Unix(1_700_000_000, 0))
	w.must(err)
	return uid
}

func (w *world) open(folder string) *mailbox.View {
	w.t.Helper()
	v, _, err := w.mf.Open(w.ctx, folder, false)
	w.must(err)
	return v
}

func plain(i int) string {
	return fmt.Sprintf("From: a@example.com\r\nSubject: m %d\r\n\r\nbody %d\r\n", i, i)
}

// fresh returns the UIDs and flags that a session opening the folder now sees.
func (w *world) fresh(folder string) ([]uint32, map[uint32]string) {
	w.t.Helper()
	return w.scan(w.open(folder), mailbox.Set{{Start: 1, Stop: 0}})
}

func (w *world) scan(v *mailbox.View, set mailbox.Set) (uids []uint32, flags map[uint32]string) {
	w.t.Helper()
	flags = map[uint32]string{}
	err := v.Fetch(w.ctx, set, false, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		uids = append(uids, m.UID)
		flags[m.UID] = string(m.Flags().AppendIMAP(nil))
		return false, nil
	}, func() error { return nil })
	w.must(err)
	return uids, flags
}

// session is an IMAP session of a simple client: an array of UIDs by sequence number.
type session struct {
	w      *world
	v      *mailbox.View
	folder string
	uids   []uint32
	flags  map[uint32]string
}

func (w *world) session(folder string) *session {
	s := &session{w: w, v: w.open(folder), folder: folder}
	s.uids, s.flags = w.scan(s.v, mailbox.Set{{Start: 1, Stop: 0}})
	if int(s.v.Exists()) != len(s.uids) {
		w.t.Fatalf("opened with %d, found %d", s.v.Exists(), len(s.uids))
	}
	return s
}

func (s *session) Expunge(seq, uid uint32) {
	if seq == 0 || int(seq) > len(s.uids) || s.uids[seq-1] != uid {
		s.w.t.Fatalf("EXPUNGE %d for UID %d, but the session counts %v", seq, uid, s.uids)
	}
	s.uids = slices.Delete(s.uids, int(seq)-1, int(seq))
	delete(s.flags, uid)
}

func (s *session) Exists(n uint32) {
	if int(n) < len(s.uids) {
		s.w.t.Fatalf("EXISTS %d below the %d known", n, len(s.uids))
	}
	for len(s.uids) < int(n) {
		s.uids = append(s.uids, 0) // the session reads the UID later
	}
}

func (s *session) Changed(m *mailbox.Message) {
	s.same(m)
	s.flags[m.UID] = string(m.Flags().AppendIMAP(nil))
}

// same checks that a sequence number stands for the message that the session expects.
func (s *session) same(m *mailbox.Message) {
	if m.Seq == 0 || int(m.Seq) > len(s.uids) || s.uids[m.Seq-1] != m.UID && s.uids[m.Seq-1] != 0 {
		s.w.t.Fatalf("FETCH %d is UID %d, but the session counts %v", m.Seq, m.UID, s.uids)
	}
}

func (s *session) poll(expunges bool) {
	s.w.t.Helper()
	s.w.must(s.v.Poll(s.w.ctx, expunges, s))
	first := slices.Index(s.uids, 0)
	if first < 0 {
		return
	}
	uids, flags := s.w.scan(s.v, mailbox.Set{{Start: uint32(first + 1), Stop: 0}})
	if len(uids) != len(s.uids)-first { // a message came and went again: the next Poll reports it
		for len(uids) < len(s.uids)-first {
			uids = append(uids, 0)
		}
		s.w.t.Fatalf("new messages %v do not fill %v", uids, s.uids)
	}
	copy(s.uids[first:], uids)
	maps.Copy(s.flags, flags)
}

// fetch reads by sequence number before any Poll: the numbers must keep their meaning.
func (s *session) fetch(rng *rand.Rand) {
	if len(s.uids) == 0 {
		return
	}
	seq := uint32(rng.IntN(len(s.uids)) + 1)
	stop := min(seq+uint32(rng.IntN(3)), uint32(len(s.uids)))
	set := mailbox.Set{{Start: stop, Stop: seq}}
	err := s.v.Fetch(s.w.ctx, set, false, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		if m.Seq < seq || m.Seq > stop {
			s.w.t.Fatalf("asked for %d:%d, got %d", seq, stop, m.Seq)
		}
		s.same(m)
		return rng.IntN(2) == 0, nil
	}, func() error { return nil })
	s.w.must(err)
	found, err := s.v.Search(s.w.ctx, &mailbox.Criteria{Test: mailbox.TestSeq, Set: set}, mailbox.SearchOptions{})
	s.w.must(err)
	for _, m := range found {
		if s.uids[m.Seq-1] != m.UID {
			s.w.t.Fatalf("SEARCH says %d is UID %d, not %d", m.Seq, m.UID, s.uids[m.Seq-1])
		}
	}
	uids, err := s.v.Translate(s.w.ctx, mailbox.Set{{Start: seq, Stop: seq}}, false)
	s.w.must(err)
	if len(uids) != 1 || uids[0].Start != s.uids[seq-1] {
		s.w.t.Fatalf("number %d is %v, not UID %d", seq, uids, s.uids[seq-1])
	}
}

func (s *session) store(rng *rand.Rand) {
	if len(s.uids) == 0 {
		return
	}
	seq := uint32(rng.IntN(len(s.uids)) + 1)
	all := []mailbox.Flags{{Seen: true}, {Deleted: true}, {Keywords: []string{"$flagged"}},
		{Keywords: []string{"$answered", "x"}}}
	op := mailbox.StoreOp{Mode: mailbox.StoreMode(rng.IntN(3) + 1), Flags: all[rng.IntN(len(all))]}
	_, err := s.v.Store(s.w.ctx, mailbox.Set{{Start: seq, Stop: seq}}, false, op,
		func(m *mailbox.Message) { s.Changed(m) })
	s.w.must(err)
}

func TestViewModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			runSessions(t, newWorld(t, 0), rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func runSessions(t *testing.T, w *world, rng *rand.Rand) {
	for i := range 20 {
		w.append("INBOX", plain(i), mailbox.Flags{})
	}
	sessions := []*session{w.session("INBOX"), w.session("INBOX"), w.session("INBOX"), w.session("Archive")}
	for step := range 250 {
		s := sessions[rng.IntN(len(sessions))]
		other := map[string]string{"INBOX": "Archive", "Archive": "INBOX"}[s.folder]
		switch rng.IntN(12) {
		case 0, 1:
			w.append(s.folder, plain(step), mailbox.Flags{Seen: rng.IntN(2) == 0})
		case 2, 3:
			s.store(rng)
		case 4:
			w.must(s.v.Expunge(w.ctx, nil))
		case 5:
			if n := len(s.uids); n > 0 {
				seq := uint32(rng.IntN(n) + 1)
				dest := []string{other, s.folder}[rng.IntN(2)]
				move := s.v.Move
				if rng.IntN(2) == 0 {
					move = s.v.Copy
				}
				there, _ := w.fresh(s.folder)
				gone := !slices.Contains(there, s.uids[seq-1])
				res, err := move(w.ctx, mailbox.Set{{Start: seq, Stop: seq}}, false, dest)
				if gone != errors.Is(err, mailbox.ErrExpunged) {
					t.Fatalf("UID %d, gone %v: %v", s.uids[seq-1], gone, err)
				}
				if gone {
					continue
				}
				w.must(err)
				if len(res.Source) > 1 || len(res.Source) == 1 && res.Source[0].Start != s.uids[seq-1] {
					t.Fatalf("moved %v, not UID %d", res.Source, s.uids[seq-1])
				}
			}
		case 6, 7:
			s.fetch(rng)
		case 8, 9:
			s.poll(false)
		default:
			s.poll(true)
			uids, flags := w.fresh(s.folder)
			if !slices.Equal(uids, s.uids) || !maps.Equal(flags, s.flags) {
				t.Fatalf("step %d: after a poll the session has\n%v %v\na fresh scan\n%v %v", step, s.uids, s.flags,
					uids, flags)
			}
		}
	}
}

// TestVanishedSince compares VanishedSince with the UIDs that existed at a MODSEQ and do not exist now.
func TestVanishedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	rng := rand.New(rand.NewPCG(3, 3))
	type moment struct {
		mod  uint64
		uids []uint32
	}
	var past []moment
	for i := range 40 {
		for range 3 {
			w.append("INBOX", plain(i), mailbox.Flags{Deleted: rng.IntN(2) == 0})
		}
		v := w.open("INBOX")
		uids, _ := w.scan(v, mailbox.Set{{Start: 1, Stop: 0}})
		past = append(past, moment{v.ModSeq(), uids})
		if rng.IntN(3) == 0 {
			w.must(v.Expunge(w.ctx, nil))
		}
	}
	verify := func() {
		v := w.open("INBOX")
		now, _ := w.scan(v, mailbox.Set{{Start: 1, Stop: 0}})
		for _, p := range past {
			var known mailbox.Set
			for _, u := range p.uids {
				known = append(known, mailbox.Range{Start: u, Stop: u})
			}
			got, err := v.VanishedSince(w.ctx, p.mod, known)
			w.must(err)
			var want, have []uint32
			for _, u := range p.uids {
				if !slices.Contains(now, u) {
					want = append(want, u)
				}
			}
			for _, g := range got {
				for u := g.Start; u <= g.Stop; u++ {
					have = append(have, u)
				}
			}
			if !slices.Equal(want, have) {
				t.Fatalf("since %d vanished %v, want %v", p.mod, have, want)
			}
		}
	}
	verify()
	v := w.open("INBOX")
	_, err := v.Store(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, false,
		mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}}, func(*mailbox.Message) {})
	w.must(err)
	w.must(v.Expunge(w.ctx, nil))
	verify() // also for an empty folder
	if got, err := w.open("INBOX").VanishedSince(w.ctx, 1<<60, mailbox.Set{{Start: 1, Stop: 50}}); err != nil ||
		len(got) != 1 || got[0] != (mailbox.Range{Start: 1, Stop: 50}) {
		t.Errorf("for a MODSEQ never given: %v, %v", got, err)
	}
}

func TestUnchangedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for i := range 3 {
		w.append("INBOX", plain(i), mailbox.Flags{})
	}
	v, o := w.open("INBOX"), w.open("INBOX")
	mod := v.ModSeq()
	flag := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{"a"}}}
	_, err := o.Store(w.ctx, mailbox.Set{{Start: 2, Stop: 2}}, true, flag, func(*mailbox.Message) {})
	w.must(err)
	flag.UnchangedSince, flag.HasUnchangedSince = mod, true
	var told []uint32
	failed, err := v.Store(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, flag,
		func(m *mailbox.Message) { told = append(told, m.UID) })
	w.must(err)
	if !slices.Equal(told, []uint32{1, 3}) || !slices.Equal(failed, mailbox.Set{{Start: 2, Stop: 2}}) {
		t.Errorf("told %v, failed %v", told, failed)
	}
	// Setting flags that are already set, and copying into the same folder, do not change the message's MODSEQ.
	before := v.ModSeq()
	var mods []uint64
	look := func() {
		mods = nil
		w.must(v.Fetch(w.ctx, mailbox.Set{{Start: 1, Stop: 1}}, true, mailbox.FetchOptions{},
			func(m *mailbox.Message) (bool, error) {
				mods = append(mods, m.ModSeq())
				return false, nil
			}, func() error { return nil }))
	}
	look()
	was := mods[0]
	flag.HasUnchangedSince = false
	_, err = v.Store(w.ctx, mailbox.Set{{Start: 1, Stop: 1}}, true, flag, func(*mailbox.Message) {})
	w.must(err)
	_, err = v.Copy(w.ctx, mailbox.Set{{Start: 1, Stop: 1}}, true, "INBOX")
	w.must(err)
	if look(); mods[0] != was || before > was {
		t.Errorf("MODSEQ %d became %d", was, mods[0])
	}
}

// TestKeywordsRemembered checks that a note remembers cleared keywords, up to a limit.
func TestKeywordsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	uid := w.append("INBOX", "Subject: x\r\n\r\n", mailbox.Flags{})
	v := w.open("INBOX")
	store := func(mode mailbox.StoreMode, keywords ...string) error {
		_, err := v.Store(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true,
			mailbox.StoreOp{Mode: mode, Flags: mailbox.Flags{Keywords: keywords}}, func(*mailbox.Message) {})
		return err
	}
	for i := range 10 {
		list := make([]string, 100)
		for k := range list {
			list[k] = fmt.Sprintf("k%03d", 100*i+k)
		}
		w.must(store(mailbox.Add, list...))
		w.must(store(mailbox.Remove, list...))
	}
	if err := store(mailbox.Add, "one-more"); !errors.Is(err, mailbox.ErrBadFlag) {
		t.Errorf("the 1,001st keyword: %v", err)
	}
	w.must(store(mailbox.Add, "k000", "k999"))
}

type told struct{ gone, changed []uint32 }

func (s *told) Expunge(_, uid uint32)      { s.gone = append(s.gone, uid) }
func (s *told) Exists(uint32)              {}
func (s *told) Changed(m *mailbox.Message) { s.changed = append(s.changed, m.UID) }

// TestStoreTellsOthersChanges checks that Store marks messages that others changed since the session's last Poll. A
// silent STORE must report these changes.
//
// Implements: RFC 9051 §6.4.6 .SILENT and changes from elsewhere
func TestStoreTellsOthersChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for i := range 3 {
		w.append("INBOX", plain(i), mailbox.Flags{})
	}
	mine, other := w.open("INBOX"), w.open("INBOX")
	store := func(v *mailbox.View, keyword string, uid uint32) (elsewhere []uint32) {
		_, err := v.Store(w.ctx, mailbox.Set{{Start: uid, Stop: 0}}, true,
			mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{keyword}}},
			func(m *mailbox.Message) {
				if m.FlagsChanged {
					elsewhere = append(elsewhere, m.UID)
				}
			})
		w.must(err)
		return elsewhere
	}
	if got := store(mine, "a", 1); got != nil {
		t.Error("nobody changed", got)
	}
	if got := store(mine, "b", 1); got != nil {
		t.Error("only this session changed", got)
	}
	store(other, "c", 2)
	if got := store(mine, "d", 1); !slices.Equal(got, []uint32{2, 3}) {
		t.Errorf("others changed 2 and 3: %v", got)
	}
	if got := store(mine, "e", 1); got != nil {
		t.Error("told already", got)
	}
}

// TestPending checks that the MODSEQ from Pending is below the first expunge not announced yet.
//
// Implements: RFC 7162 §3.2.5
func TestPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for i := range 3 {
		w.append("INBOX", plain(i), mailbox.Flags{})
	}
	v := w.open("INBOX")
	before := v.ModSeq()
	if n, upTo := v.Pending(); n != 0 || upTo != before {
		t.Error(n, upTo)
	}
	_, err := w.open("INBOX").Move(w.ctx, mailbox.Set{{Start: 2, Stop: 2}}, false, "Trash")
	w.must(err)
	w.append("INBOX", plain(4), mailbox.Flags{})
	_, err = w.open("INBOX").Move(w.ctx, mailbox.Set{{Start: 1, Stop: 1}}, false, "Trash")
	w.must(err)
	w.must(v.Poll(w.ctx, false, nobody{}))
	n, upTo := v.Pending()
	if n != 2 || upTo < before || upTo >= v.ModSeq() {
		t.Error(n, upTo, before, v.ModSeq())
	}
	// A client that resumes with it receives the expunges.
	gone, err := w.open("INBOX").VanishedSince(w.ctx, upTo, nil)
	if err != nil || len(gone) != 1 || gone[0] != (mailbox.Range{Start: 1, Stop: 2}) {
		t.Error(gone, err)
	}
	w.must(v.Poll(w.ctx, true, nobody{}))
	if n, upTo := v.Pending(); n != 0 || upTo != v.ModSeq() {
		t.Error(n, upTo)
	}
}

type nobody struct{}

func (nobody) Expunge(uint32, uint32)   {}
func (nobody) Exists(uint32)            {}
func (nobody) Changed(*mailbox.Message) {}

// TestFirstUnseen checks that FirstUnseen finds an unseen message near the end, or the first of all, and returns 0
// otherwise.
func TestFirstUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	first := func() uint32 {
		n, err := w.open("INBOX").FirstUnseen(w.ctx)
		w.must(err)
		return n
	}
	mark := func(uid uint32, seen bool) {
		mode := mailbox.Add
		if !seen {
			mode = mailbox.Remove
		}
		_, err := w.open("INBOX").Store(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true,
			mailbox.StoreOp{Mode: mode, Flags: mailbox.Flags{Seen: true}}, func(*mailbox.Message) {})
		w.must(err)
	}
	if n := first(); n != 0 {
		t.Error("empty:", n)
	}
	for i := range 100 {
		w.append("INBOX", plain(i), mailbox.Flags{Seen: i > 2})
	}
	if n := first(); n != 0 {
		t.Error("too far back:", n)
	}
	for uid := range uint32(3) {
		mark(uid+1, true)
	}
	if n := first(); n != 0 {
		t.Error("all seen:", n)
	}
	for _, uid := range []uint32{100, 37, 60} {
		mark(uid, false)
		if n := first(); n != min(uid, map[uint32]uint32{100: 100, 37: 37, 60: 37}[uid]) {
			t.Errorf("%d unseen: %d", uid, n)
		}
	}
	mark(36, false)
	if n := first(); n != 0 {
		t.Error("one of four is too far back:", n)
	}
	for uid := range uint32(100) {
		mark(uid+1, false)
	}
	if n := first(); n != 1 {
		t.Error("nothing seen:", n)
	}
}

// TestFetchHoldsNothing checks that a view, which may be open for days, keeps no memory of the summaries that it
// fetched.
func TestFetchHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.append("INBOX", "Subject: one\r\n\r\nx", mailbox.Flags{})
	v := w.open("INBOX")
	for range 2 {
		w.must(v.Fetch(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
			func(m *mailbox.Message) (bool, error) {
				e, err := m.Envelope()
				if !strings.Contains(string(e), `"one"`) || v.Scratch() == 0 {
					t.Errorf("envelope %s, %d bytes", e, v.Scratch())
				}
				return false, err
			}, func() error { return nil }))
		if n := v.Scratch(); n != 0 {
			t.Errorf("%d bytes are held after the fetch", n)
		}
	}
}
