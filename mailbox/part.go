package mailbox

import (
	"context"

	"doublet/store"
)

// Part returns the UIDs of a slice of a set: those with lo ≤ index < hi, in order of UID. It calls bounds with the size
// of the set to get lo and hi. It reads counters, not messages.
//
// Implements: RFC 9394 §3.3 PARTIAL of FETCH
func (v *View) Part(ctx context.Context, set Set, byUID bool, bounds func(count int) (lo, hi int)) (Set, error) {
	var out Set
	err := v.f.read(ctx, func(r *store.Reader) error {
		ranges, err := v.uids(r, set, byUID)
		if err != nil {
			return err
		}
		type stretch struct{ rank, count uint32 }
		parts, total := make([]stretch, len(ranges)), 0
		for i, g := range ranges {
			from, err := r.Rank(v.folder, g.Start)
			if err != nil {
				return err
			}
			to, err := r.Rank(v.folder, min(g.Stop, v.uidNext-1)+1)
			if err != nil {
				return err
			}
			parts[i] = stretch{from, to - from}
			total += int(to - from)
		}
		lo, hi := bounds(total)
		for i := 0; i < len(parts) && hi > 0; i++ {
			p := parts[i]
			if first, last := max(lo, 0), min(hi, int(p.count)); first < last {
				g := Range{}
				if g.Start, err = r.At(v.folder, p.rank+uint32(first)); err != nil {
					return err
				}
				if g.Stop, err = r.At(v.folder, p.rank+uint32(last)-1); err != nil {
					return err
				}
				out = append(out, g)
			}
			lo, hi = lo-int(p.count), hi-int(p.count)
		}
		return nil
	})
	return out, err
}

// Batches divides the UIDs of the folder into ranges of size messages each, highest first. Start of a range is its
// highest UID. It returns the ranges from first to last, counted from 1; a last of 0 means all. The lowest range
// extends down to UID 1 and holds the remaining messages.
//
// Implements: RFC 10022 §3 UIDBATCHES
func (o *opened) Batches(ctx context.Context, size, first, last uint32) (Set, error) {
	var out Set
	err := o.f.read(ctx, func(r *store.Reader) error {
		h, err := r.Folder(o.folder)
		if err != nil || h.Total == 0 {
			return err
		}
		count := (h.Total-1)/size + 1
		first = max(first, 1)
		if last == 0 || last > count {
			last = count
		}
		if first > last {
			return nil
		}
		high, err := r.At(o.folder, h.Total-1-(first-1)*size)
		if first > 1 && err == nil {
			// Extend the range up to the batch before, so that there is no gap.
			if high, err = r.At(o.folder, h.Total-(first-1)*size); err == nil {
				high--
			}
		}
		for n := first; n <= last && err == nil; n++ {
			low := uint32(1)
			if n < count {
				if low, err = r.At(o.folder, h.Total-n*size); err != nil {
					break
				}
			}
			out = append(out, Range{high, low})
			high = low - 1
		}
		return err
	})
	return out, err
}
