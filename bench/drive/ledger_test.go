package drive

import (
	"slices"
	"testing"

	"doublet/bench/ledger"
	"doublet/bench/workload"
)

// TestLedgerOfWhatWasDone checks that an OK to a command about a UID that is gone acknowledges nothing, and that the
// server must keep every effect that it reported.
func TestLedgerOfWhatWasDone(t *testing.T) {
	t.Parallel()
	const id = "m@far.example"
	for _, c := range []struct {
		name    string
		do      workload.Verb
		says    script
		broken  bool // found breaks what was acknowledged
		flagged bool
	}{
		{"deleted", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)",
			"S * 1 FETCH (UID 10 FLAGS (\\Deleted))", "S $T OK", "C UID EXPUNGE 10", "S * 1 EXPUNGE", "S $T OK"},
			true, false},
		{"nothing marked", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)", "S $T OK", "C UID EXPUNGE 10",
			"S * 1 EXPUNGE", "S $T OK"}, false, false},
		{"another marked", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)",
			"S * 1 FETCH (UID 9 FLAGS (\\Deleted))", "S $T OK", "C UID EXPUNGE 10", "S * 1 EXPUNGE", "S $T OK"},
			false, false},
		{"nothing expunged", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)",
			"S * 1 FETCH (UID 10 FLAGS (\\Deleted))", "S $T OK", "C UID EXPUNGE 10", "S $T OK"}, false, false},
		{"moved", workload.Move, script{"C UID MOVE 10 Archive", "S * 1 EXPUNGE", "S $T OK"}, true, false},
		{"nothing moved", workload.Move, script{"C UID MOVE 10 Archive", "S $T OK"}, false, false},
		{"flagged", workload.Update, script{"C UID STORE 10 +FLAGS (\\Flagged)",
			"S * 1 FETCH (UID 10 FLAGS (\\Flagged))", "S $T OK"}, true, false},
		{"flagged, and it is", workload.Update, script{"C UID STORE 10 +FLAGS (\\Flagged)",
			"S * 1 FETCH (UID 10 FLAGS (\\Flagged))", "S $T OK"}, false, true},
		{"nothing flagged", workload.Update, script{"C UID STORE 10 +FLAGS (\\Flagged)", "S $T OK"}, false, false},
	} {
		w, _ := against(t, after(greeting, c.says))
		w.Ledger = ledger.New()
		s := open(t, w)
		s.open, s.exists, s.top, s.known, s.ids = true, 1, 1, []uint32{10}, map[uint32]string{10: id}
		if _, err := act(s, c.do); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.do == workload.Delete && slices.Contains(s.known, 10) {
			t.Errorf("%s: it is still known", c.name)
		}
		w.Ledger.Added(s.u.Address, id, nil)
		v := w.Ledger.Check("x",
			map[string][]ledger.Message{s.u.Address: {{Folder: ledger.Inbox, ID: id, Flagged: c.flagged}}})
		if (v.Lost+v.Doubled+v.Resurrected > 0) != c.broken {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}
