package cluster

import (
	"testing"

	"doublet/note"
)

// TestHeldLead: what a home has done for mates it has done on the line that it led: it forgets it when it leads no more. That it
// led beside another home it remembers until it has told that one, or leads again.
func TestHeldLead(t *testing.T) {
	t.Parallel()
	one := note.UNID{1}
	h := &held{leads: true, yielded: map[note.UNID]note.ModSeq{one: 5}, outlived: map[note.UNID]uint64{one: 7}}
	h.lead(true)
	if h.yielded[one] != 5 || h.outlived[one] != 7 {
		t.Error("a home has forgotten what it did")
	}
	h.beside = true
	h.lead(false)
	if h.yielded[one] != 0 || h.outlived[one] != 0 || !h.beside {
		t.Errorf("who leads no more: %+v", h)
	}
	h.lead(true)
	if h.beside || !h.leads {
		t.Errorf("who leads again: %+v", h)
	}
}
