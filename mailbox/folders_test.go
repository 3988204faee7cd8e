package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"inbox": "INBOX", "Inbox/a": "INBOX/a", "inboxes": "inboxes", "e\u0301": "é", "a/b": "a/b",
		"a/inbox": "a/inbox",
	} {
		if got, err := mailbox.Normalize(in); err != nil || got != want {
			t.Errorf("%q is %q, want %q: %v", in, got, want, err)
		}
	}
	for _, bad := range []string{"", "/", "a/", "/a", "a//b", "..", "a/./b", "a\x00", "a\nb", "\xff", "a\u2028",
		strings.Repeat("x", 1001), strings.Repeat("a/", 20) + "a"} {
		if got, err := mailbox.Normalize(bad); !errors.Is(err, mailbox.ErrBadName) {
			t.Errorf("%q is %q: %v", bad, got, err)
		}
	}
}

func names(w *world) []string {
	list, err := w.mf.Folders(w.ctx)
	w.must(err)
	var out []string
	for _, f := range list {
		n := f.Name
		if f.HasChildren {
			n += "+"
		}
		out = append(out, n)
	}
	return out
}

func TestFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	if got := names(w); !slices.Equal(got, []string{"INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"}) {
		t.Errorf("%v", got)
	}
	f, err := w.mf.Create(w.ctx, "inbox/x/y", "")
	w.must(err)
	if f.Name != "INBOX/x/y" || f.Subscribed || f.UIDNext != 1 {
		t.Errorf("%+v", f)
	}
	if got := names(w)[:4]; !slices.Equal(got, []string{"INBOX+", "INBOX/x+", "INBOX/x/y", "Archive"}) {
		t.Errorf("%v", got)
	}
	for _, c := range []struct {
		err  error
		want error
	}{
		{w.mf.Delete(w.ctx, "INBOX"), store.ErrDenied},
		{w.mf.Delete(w.ctx, "INBOX/x"), mailbox.ErrHasChildren},
		{w.mf.Delete(w.ctx, "none"), mailbox.ErrNoFolder},
		{w.mf.Rename(w.ctx, "Sent", "Trash"), mailbox.ErrFolderExists},
		{w.mf.Rename(w.ctx, "Sent", "Sent/below"), mailbox.ErrFolderExists},
		{w.mf.Rename(w.ctx, "none", "other"), mailbox.ErrNoFolder},
		{w.mf.Rename(w.ctx, "Sent", "a//b"), mailbox.ErrBadName},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%v, want %v", c.err, c.want)
		}
	}
	_, err = w.mf.Create(w.ctx, "Sent", "")
	if !errors.Is(err, mailbox.ErrFolderExists) {
		t.Error(err)
	}
	// Renaming INBOX moves its messages but not the folders below it.
	for i := range 3 {
		w.append("INBOX", plain(i), mailbox.Flags{Seen: i == 0})
	}
	w.must(w.mf.Rename(w.ctx, "INBOX", "old/mail"))
	if uids, _ := w.fresh("INBOX"); len(uids) != 0 {
		t.Errorf("INBOX still holds %v", uids)
	}
	if uids, flags := w.fresh("old/mail"); len(uids) != 3 || flags[uids[0]] != `\Seen` {
		t.Errorf("the new folder holds %v %v", uids, flags)
	}
	// Renaming includes the folders below; the UIDVALIDITY of a name never decreases.
	before, err := w.mf.Folder(w.ctx, "old/mail")
	w.must(err)
	w.must(w.mf.Rename(w.ctx, "old", "new"))
	after, err := w.mf.Folder(w.ctx, "new/mail")
	w.must(err)
	if after.UNID != before.UNID || after.Total != 3 || after.Unseen != 2 {
		t.Errorf("%+v became %+v", before, after)
	}
	v := w.open("new/mail")
	w.must(w.mf.Delete(w.ctx, "new/mail"))
	if err := v.Poll(w.ctx, true, nil); !errors.Is(err, mailbox.ErrFolderGone) {
		t.Error("a view of a deleted folder: ", err)
	}
	again, err := w.mf.Create(w.ctx, "new/mail", "")
	w.must(err)
	if again.UIDValidity <= after.UIDValidity || again.Total != 0 {
		t.Errorf("%+v after %+v", again, after)
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 500)
	big := plain(1) + strings.Repeat("x", 300)
	w.append("INBOX", big, mailbox.Flags{})
	_, _, err := w.mf.Append(w.ctx, "INBOX", []byte(big), mailbox.Flags{}, time.Unix(1, 0))
	if !errors.Is(err, mailbox.ErrOverQuota) {
		t.Error(err)
	}
	v := w.open("INBOX")
	all := mailbox.Set{{Start: 1, Stop: 0}}
	if _, err := v.Copy(w.ctx, all, true, "Archive"); err != nil {
		t.Error("a copy into another folder takes no room: ", err)
	}
	if _, err := v.Copy(w.ctx, all, true, "INBOX"); !errors.Is(err, mailbox.ErrOverQuota) {
		t.Error("a copy into the same folder: ", err)
	}
	// The message is also in Archive and stays there, so this would create a second note of it.
	if _, err := v.Move(w.ctx, all, true, "INBOX"); !errors.Is(err, mailbox.ErrOverQuota) {
		t.Error("a move into the same folder of what lies elsewhere, too: ", err)
	}
	w.must(w.mf.Delete(w.ctx, "Archive"))
	if _, err := v.Move(w.ctx, all, true, "INBOX"); err != nil {
		t.Error("a move into the same folder takes no room: ", err)
	}
	for raw, want := range map[string]error{"a\x00": mailbox.ErrBadMessage,
		strings.Repeat("x", 1<<20+1): mailbox.ErrTooBig} {
		if _, _, err := w.mf.Append(w.ctx, "INBOX", []byte(raw), mailbox.Flags{},
			time.Unix(1, 0)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	fl, err := mailbox.ParseFlags([]string{`\Seen`, `\RECENT`, `\Flagged`, "Work", "work", `\deleted`})
	if err != nil || string(fl.AppendIMAP(nil)) != `\Seen \Deleted \Flagged work` {
		t.Errorf("%s: %v", fl.AppendIMAP(nil), err)
	}
	for _, bad := range []string{`\Foo`, "", strings.Repeat("k", 256)} {
		if _, err := mailbox.ParseFlags([]string{bad}); !errors.Is(err, mailbox.ErrBadFlag) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestAsAnother checks that a person who may only read sets no flags, and that each person has their own \Seen.
func TestAsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.append("INBOX", plain(1), mailbox.Flags{})
	bob := note.UNID{7}
	other := w.svc.File(note.Who{Person: bob}, w.db)
	if _, _, err := other.Open(w.ctx, "INBOX", false); !errors.Is(err, mailbox.ErrNoFolder) {
		t.Error("a stranger opened it: ", err)
	}
	err := w.s.Update(w.ctx, w.who, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		wr, err := tx.Database(w.db)
		w.must(err)
		h, err := wr.FolderNamed("INBOX")
		w.must(err)
		acl := (note.ACL{}).With(note.Entry{ID: bob, Level: note.Reader}).With(note.Entry{ID: w.who.Person,
			Level: note.Manager})
		return wr.SetFolderACL(h.Note, &acl)
	})
	w.must(err)
	v, f, err := other.Open(w.ctx, "INBOX", false)
	w.must(err)
	if f.Unseen != 1 || v.MayChange() != nil {
		t.Errorf("%+v", f)
	}
	set := mailbox.Set{{Start: 1, Stop: 1}}
	w.must(v.Fetch(w.ctx, set, false, mailbox.FetchOptions{MarkSeen: true}, func(m *mailbox.Message) (bool, error) {
		if !m.FlagsChanged || !m.Flags().Seen {
			t.Error("not marked as seen")
		}
		return false, nil
	}, func() error { return nil }))
	if _, flags := w.fresh("INBOX"); flags[1] != "" {
		t.Errorf("alice sees bob's flags: %v", flags)
	}
	_, err = v.Store(w.ctx, set, false, mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}},
		func(*mailbox.Message) {})
	if !errors.Is(err, store.ErrDenied) {
		t.Error("a reader marked a message: ", err)
	}
}

// TestSearch compares searches with a simple evaluation of random criteria.
func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	rng := rand.New(rand.NewPCG(9, 9))
	type msg struct {
		seq, uid           uint32
		seen, deleted, key bool
		size               int
		from, subject      string
		day                int
	}
	var all []msg
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 40 {
		m := msg{seen: rng.IntN(2) == 0, deleted: rng.IntN(3) == 0, key: rng.IntN(2) == 0, day: rng.IntN(4)}
		m.from, m.subject = fmt.Sprint("p", rng.IntN(3), "@example.com"), fmt.Sprint("Thema ", rng.IntN(4), " Übung")
		raw := fmt.Sprintf("From: %s\r\nSubject: %s\r\nDate: %s\r\n\r\nbody %d %s\r\n", m.from, m.subject,
			base.AddDate(0, 0, m.day).Format(time.RFC1123Z), i%5, strings.Repeat("x", rng.IntN(200)))
		m.size = len(raw)
		fl := mailbox.Flags{Seen: m.seen, Deleted: m.deleted}
		if m.key {
			fl.Keywords = []string{"$flagged"}
		}
		var err error
		_, m.uid, err = w.mf.Append(w.ctx, "INBOX", []byte(raw), fl, base.AddDate(0, 0, m.day).Add(23*time.Hour))
		w.must(err)
		m.seq = uint32(i + 1)
		all = append(all, m)
	}
	v := w.open("INBOX")
	var random func(depth int) (mailbox.Criteria, func(m *msg) bool)
	random = func(depth int) (mailbox.Criteria, func(m *msg) bool) {
		n := rng.IntN(40)
		a := uint32(rng.IntN(45) + 1)
		b := a + uint32(rng.IntN(10))
		day := base.AddDate(0, 0, rng.IntN(4))
		at := func(m *msg) time.Time { return base.AddDate(0, 0, m.day) }
		switch k := rng.IntN(15); {
		case k < 3 && depth > 0:
			x, fx := random(depth - 1)
			y, fy := random(depth - 1)
			switch k {
			case 0:
				return mailbox.Criteria{Test: mailbox.TestAll, All: []mailbox.Criteria{x, y}},
					func(m *msg) bool { return fx(m) && fy(m) }
			case 1:
				return mailbox.Criteria{Test: mailbox.TestAny, All: []mailbox.Criteria{x, y}},
					func(m *msg) bool { return fx(m) || fy(m) }
			}
			return mailbox.Criteria{Test: mailbox.TestNot, All: []mailbox.Criteria{x}},
				func(m *msg) bool { return !fx(m) }
		case k == 3:
			return mailbox.Criteria{Test: mailbox.TestSeen}, func(m *msg) bool { return m.seen }
		case k == 4:
			return mailbox.Criteria{Test: mailbox.TestDeleted}, func(m *msg) bool { return m.deleted }
		case k == 5:
			return mailbox.Criteria{Test: mailbox.TestKeyword, Text: "$flagged"}, func(m *msg) bool { return m.key }
		case k == 6:
			return mailbox.Criteria{Test: mailbox.TestLarger, Number: 150}, func(m *msg) bool { return m.size > 150 }
		case k == 7:
			return mailbox.Criteria{Test: mailbox.TestFrom, Text: "P1@EXAMPLE"},
				func(m *msg) bool { return m.from == "p1@example.com" }
		case k == 8:
			return mailbox.Criteria{Test: mailbox.TestSubject, Text: "thema 2 ü"},
				func(m *msg) bool { return strings.Contains(m.subject, " 2 ") }
		case k == 9:
			return mailbox.Criteria{Test: mailbox.TestBody, Text: fmt.Sprint("BODY ", n%5)},
				func(m *msg) bool { return int(m.seq-1)%5 == n%5 }
		case k == 10:
			return mailbox.Criteria{Test: mailbox.TestBefore, Day: day}, func(m *msg) bool { return at(m).Before(day) }
		case k == 11:
			return mailbox.Criteria{Test: mailbox.TestSentOn, Day: day}, func(m *msg) bool { return at(m).Equal(day) }
		case k == 12:
			return mailbox.Criteria{Test: mailbox.TestSince, Day: day}, func(m *msg) bool { return !at(m).Before(day) }
		case k == 13:
			return mailbox.Criteria{Test: mailbox.TestSeq, Set: mailbox.Set{{Start: b, Stop: a}}},
				func(m *msg) bool { return m.seq >= a && m.seq <= b }
		}
		return mailbox.Criteria{Test: mailbox.TestUID, Set: mailbox.Set{{Start: a, Stop: b}}},
			func(m *msg) bool { return m.uid >= a && m.uid <= b }
	}
	for range 400 {
		c, want := random(3)
		got, err := v.Search(context.Background(), &c, mailbox.SearchOptions{})
		w.must(err)
		var have, expect []uint32
		for _, m := range got {
			have = append(have, m.UID)
		}
		for i := range all {
			if want(&all[i]) {
				expect = append(expect, all[i].uid)
			}
		}
		if !slices.Equal(have, expect) {
			t.Fatalf("%+v finds %v, want %v", c, have, expect)
		}
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	raw := "From: Ann <a@example.com>\r\nTo: b@example.com\r\nSubject: Hi\r\nMessage-ID: <1@x>\r\n" +
		"Content-Type: multipart/mixed; boundary=b\r\n\r\n" +
		"--b\r\nContent-Type: text/plain\r\n\r\nHello there\r\n--b\r\nContent-Type: application/pdf\r\n\r\nPDF\r\n" +
		"--b--\r\n"
	w.append("INBOX", raw, mailbox.Flags{})
	w.append("INBOX", "Subject: Re: Hi\r\nIn-Reply-To: <1@x>\r\n\r\nyes\r\n", mailbox.Flags{})
	var threads []string
	w.must(w.open("INBOX").Fetch(w.ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			threads = append(threads, m.ThreadID())
			if m.Seq > 1 {
				return false, nil
			}
			e, err := m.Envelope()
			if err != nil || !strings.Contains(string(e), `"Hi"`) || !strings.Contains(string(e), `"Ann"`) {
				t.Errorf("envelope %s: %v", e, err)
			}
			s, err := m.BodyStructure()
			if err != nil || !strings.Contains(strings.ToLower(string(s)), `"application" "pdf"`) {
				t.Errorf("structure %s: %v", s, err)
			}
			p, err := m.Preview()
			if err != nil || p != "Hello there" {
				t.Errorf("preview %q: %v", p, err)
			}
			span, ok, err := m.Section([]int{2})
			if err != nil || !ok || raw[span.BodyStart:span.BodyEnd] != "PDF" {
				t.Errorf("part 2 is %+v %v: %v", span, ok, err)
			}
			st, err := m.Body()
			if err != nil {
				return false, err
			}
			b, err := st.AppendRange(nil, 0, st.Size())
			if string(b) != raw || m.Size() != int64(len(raw)) {
				t.Errorf("body %q: %v", b, err)
			}
			return false, err
		}, func() error { return nil }))
	if len(threads) != 2 || threads[0] != threads[1] {
		t.Errorf("threads %v", threads)
	}
}
