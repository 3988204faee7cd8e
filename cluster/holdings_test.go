package cluster

import (
	"testing"

	"doublet/note"
)

// TestHeldLead checks that a server resets the state of its term when it stops leading. competed remains set until the
// server has stepped down or leads again.
func TestHeldLead(t *testing.T) {
	t.Parallel()
	one := note.UNID{1}
	h := &held{leads: true, yielded: map[note.UNID]note.ModSeq{one: 5}, outlived: map[note.UNID]uint64{one: 7}}
	h.lead(true)
	if h.yielded[one] != 5 || h.outlived[one] != 7 {
		t.Error("a primary has forgotten what it did")
	}
	h.competed = true
	h.lead(false)
	if h.yielded[one] != 0 || h.outlived[one] != 0 || !h.competed {
		t.Errorf("leads no more: %+v", h)
	}
	h.lead(true)
	if h.competed || !h.leads {
		t.Errorf("leads again: %+v", h)
	}
}
