package mailbox_test

import (
	"testing"

	"doublet/mailbox"
)

// TestVanishedAfterRestore: a client saw a message come and go on a branch of the store that was
// lost. Its MODSEQ lies below the new term, but not on our history: it is told of every UID that is
// absent, and gets every flag again.
func TestVanishedAfterRestore(t *testing.T) {
	w := newWorld(t, 0)
	w.append(mailbox.Inbox, plain(1), mailbox.Flags{})
	v := w.open(mailbox.Inbox)
	remembered := v.ModSeq() + 5 // what the lost branch gave after the backup was taken
	w.must(w.s.Rebranch())
	w.append(mailbox.Inbox, plain(2), mailbox.Flags{})
	v = w.open(mailbox.Inbox)
	gone, err := v.VanishedSince(w.ctx, remembered, mailbox.Set{{Start: 1, Stop: 3}})
	w.must(err)
	if len(gone) != 1 || gone[0] != (mailbox.Range{Start: 2, Stop: 3}) {
		t.Errorf("vanished: %v, want 2:3", gone)
	}
	told := 0
	w.must(v.Fetch(w.ctx, mailbox.Set{{Start: 1}}, true, mailbox.FetchOptions{ChangedSince: remembered},
		func(*mailbox.Message) (bool, error) { told++; return false, nil }, func() error { return nil }))
	if told != 2 {
		t.Errorf("told of %d messages, want both", told)
	}
}
