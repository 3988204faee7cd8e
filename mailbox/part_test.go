package mailbox_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// TestBatches checks that every batch except the lowest has the requested size, and that the batches cover all UIDs
// down to 1 without gaps or overlaps.
func TestBatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	if got, err := w.open("INBOX").Batches(w.ctx, 5, 0, 0); err != nil || got != nil {
		t.Error("empty folder:", got, err)
	}
	for i := range 60 {
		w.append([]string{"INBOX", "Sent"}[i%7/6], plain(i), mailbox.Flags{Deleted: i%11 == 3})
	}
	w.must(w.open("INBOX").Expunge(w.ctx, nil))
	uids, _ := w.fresh("INBOX")
	v := w.open("INBOX")
	for size := uint32(1); size < 60; size++ {
		all, err := v.Batches(w.ctx, size, 0, 0)
		w.must(err)
		if want := (len(uids) + int(size) - 1) / int(size); len(all) != want {
			t.Fatalf("size %d: %v, want %d", size, all, want)
		}
		high := uids[len(uids)-1]
		for i, b := range all {
			count := 0
			for _, uid := range uids {
				if uid <= b.Start && uid >= b.Stop {
					count++
				}
			}
			last := i == len(all)-1
			if b.Start != high || last && b.Stop != 1 || !last && count != int(size) || count == 0 {
				t.Fatalf("size %d: batch %d of %v has %d messages", size, i+1, all, count)
			}
			high = b.Stop - 1
			one, err := v.Batches(w.ctx, size, uint32(i+1), uint32(i+1))
			if err != nil || len(one) != 1 || one[0] != b {
				t.Fatalf("size %d: batch %d alone is %v, want %v", size, i+1, one, b)
			}
		}
		if got, err := v.Batches(w.ctx, size, uint32(len(all)+1), 1000); err != nil || got != nil {
			t.Fatal("beyond the last:", got, err)
		}
	}
}

// TestPart compares Part with slices of a list of UIDs, for random sets and ranges.
func TestPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for i := range 60 {
		w.append([]string{"INBOX", "Sent"}[i%7/6], plain(i), mailbox.Flags{Deleted: i%11 == 3})
	}
	w.must(w.open("INBOX").Expunge(w.ctx, nil))
	uids, _ := w.fresh("INBOX")
	v := w.open("INBOX")
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		var set mailbox.Set
		in := map[uint32]bool{}
		for range 1 + random.IntN(4) {
			g := mailbox.Range{Start: 1 + random.Uint32N(80), Stop: 1 + random.Uint32N(80)}
			set = append(set, g)
			for uid := min(g.Start, g.Stop); uid <= max(g.Start, g.Stop); uid++ {
				in[uid] = true
			}
		}
		var named []uint32
		for _, uid := range uids {
			if in[uid] {
				named = append(named, uid)
			}
		}
		r := imap.Partial{Start: 1 + random.Uint32N(20), Stop: 1 + random.Uint32N(20), FromEnd: random.IntN(2) == 0}
		lo, hi := r.Bounds(len(named))
		part, err := v.Part(w.ctx, set, true, r.Bounds)
		w.must(err)
		var got []uint32
		for _, uid := range named {
			for _, g := range part {
				if uid >= g.Start && uid <= g.Stop {
					got = append(got, uid)
				}
			}
		}
		if !slices.Equal(got, named[lo:hi]) {
			t.Fatalf("%v of %v: %v, want %v", r, set, got, named[lo:hi])
		}
	}
}
