package mailbox_test

import (
	"testing"

	"doublet/mailbox"
)

// TestVanishedAfterRestore tests a client that saw a message come and go on a branch of the store that was lost. The
// client's MODSEQ is below the new term, but not part of our history. So it receives all UIDs that do not exist, and
// all flags again.
func TestVanishedAfterRestore(t *testing.T) {
	w := newWorld(t, 0)
	w.append(mailbox.Inbox, plain(1), mailbox.Flags{})
	v := w.open(mailbox.Inbox)
	remembered := v.ModSeq() + 5 // assigned by the lost branch after the backup
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
