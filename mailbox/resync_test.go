package mailbox_test

import (
	"fmt"
	"slices"
	"testing"

	"doublet/mailbox"
)

// missed collects the output of Resync.
type missed struct {
	gone    mailbox.Set
	fetched []uint32
	highest uint64
}

func (w *world) resync(v *mailbox.View, since uint64, known mailbox.Set) (m missed) {
	w.t.Helper()
	w.must(v.Resync(w.ctx, since, known, func(s mailbox.Set) { m.gone = s }, func(x *mailbox.Message) (bool, error) {
		m.fetched, m.highest = append(m.fetched, x.UID), max(m.highest, x.ModSeq())
		return true, nil
	}, func() error { return nil }))
	return m
}

// TestResync checks that Resync reports the moment at which the view was opened, whatever others expunge, change and
// add meanwhile. A client that disconnects after it can resume with any MODSEQ that it received, and misses nothing.
//
// Implements: RFC 7162 §3.2.5 what SELECT tells is of one moment
func TestResync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var last uint32
	for i := range 6 {
		last = w.append("INBOX", plain(i), mailbox.Flags{Deleted: true})
	}
	known := mailbox.Set{{Start: 1, Stop: last}}
	other := w.open("INBOX")
	marks := 0
	mark := func(uid uint32) {
		t.Helper()
		marks++
		_, err := other.Store(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true,
			mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{fmt.Sprintf("k%d", marks)}}},
			func(*mailbox.Message) {})
		w.must(err)
	}
	since := other.ModSeq()
	w.must(other.Expunge(w.ctx, mailbox.Set{{Start: 2, Stop: 2}}))
	mark(1)
	mark(3)
	v := w.open("INBOX") // counts five messages
	w.must(other.Expunge(w.ctx, mailbox.Set{{Start: 4, Stop: 5}}))
	mark(3)
	mark(6)
	w.append("INBOX", plain(7), mailbox.Flags{})
	for _, c := range []struct {
		since   uint64
		fetched []uint32
		// the second MODSEQ was never assigned: report all absent UIDs and all messages
	}{{since, []uint32{1}}, {since + 1000, []uint32{1}}} {
		got := w.resync(v, c.since, known)
		if !slices.Equal(got.gone, mailbox.Set{{Start: 2, Stop: 2}}) || !slices.Equal(got.fetched, c.fetched) ||
			got.highest > v.ModSeq() {
			t.Errorf("since %d: %+v, at %d", c.since, got, v.ModSeq())
		}
	}
	// Resume with the MODSEQ received.
	again := w.resync(w.open("INBOX"), v.ModSeq(), known)
	if !slices.Equal(again.gone, mailbox.Set{{Start: 4, Stop: 5}}) || !slices.Equal(again.fetched, []uint32{3, 6}) {
		t.Errorf("%+v", again)
	}
	// Or continue the session: Poll reports the changes, but the session does not know the new message yet.
	s := &told{}
	w.must(v.Poll(w.ctx, true, s))
	if v.Exists() != 4 || len(s.gone) != 2 || !slices.Equal(s.changed, []uint32{3, 6}) {
		t.Errorf("%d messages, told of %v, %v", v.Exists(), s.gone, s.changed)
	}
}

// TestPollInOrder checks that changes are reported in order of their MODSEQs, and none above a pending expunge.
//
// Implements: RFC 7162 §3.2.5 no MODSEQ above an expunge that is held back
func TestPollInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for i := range 4 {
		w.append("INBOX", plain(i), mailbox.Flags{Deleted: i == 0})
	}
	v, other := w.open("INBOX"), w.open("INBOX")
	mark := func(uid uint32, keyword string) {
		_, err := other.Store(w.ctx, mailbox.Set{{Start: uid, Stop: uid}}, true,
			mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Keywords: []string{keyword}}},
			func(*mailbox.Message) {})
		w.must(err)
	}
	mark(4, "a")
	mark(2, "b")
	s := &told{}
	w.must(v.PollInOrder(w.ctx, s))
	if !slices.Equal(s.changed, []uint32{4, 2}) {
		t.Errorf("told of %v", s.changed)
	}
	before := v.ModSeq()
	mark(3, "c")
	w.must(other.Expunge(w.ctx, nil))
	mark(2, "d")
	s = &told{}
	w.must(v.PollInOrder(w.ctx, s))
	if n, upTo := v.Pending(); len(s.changed) > 0 || n != 1 || upTo != before {
		t.Errorf("told of %v, %d wait, up to %d after %d", s.changed, n, upTo, before)
	}
	w.must(v.Poll(w.ctx, true, s))
	if !slices.Equal(s.gone, []uint32{1}) || !slices.Equal(s.changed, []uint32{3, 2}) {
		t.Errorf("told of %v, %v", s.gone, s.changed)
	}
}
