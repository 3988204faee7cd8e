package mailbox

import (
	"cmp"
	"context"
	"math"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Resync tells a client that knew messages of the folder at a MODSEQ what it missed until the view was opened: gone is
// called with the UIDs that are gone, unless there are none, then fn and flush as by Fetch for what changed. Everything
// that it tells is of the moment of Open, as are Exists, UIDNext and ModSeq, however long telling it takes: what others
// do meanwhile is told by Poll. The client that breaks off behind it may go by ModSeq, or by any MODSEQ that it saw.
func (v *View) Resync(ctx context.Context, since uint64, known Set, gone func(Set), fn func(*Message) (pause bool, err error), flush func() error) error {
	vanished, err := v.VanishedSince(ctx, since, known)
	if err != nil {
		return err
	}
	// Those that were expunged since Open count among the messages of the session.
	if vanished = without(vanished, v.hidden); len(vanished) > 0 {
		gone(vanished)
	}
	if v.exists == 0 {
		return nil
	}
	if since > uint64(v.mod) {
		since = 0 // a state that was never given here: rather told too much than too little
	}
	return v.Fetch(ctx, known, true, FetchOptions{ChangedSince: since, ChangedUpTo: uint64(v.mod)}, fn, flush)
}

// VanishedSince returns the UIDs, among those that a client knows, that are gone since a MODSEQ
// (RFC 7162 section 3.2.5.2). Below the floor of what is remembered, or for a MODSEQ that this
// ledger never gave, it is every UID known that is absent. Those whose expunge the session is still to be
// told of are among them.
func (v *View) VanishedSince(ctx context.Context, modseq uint64, known Set) (Set, error) {
	var out Set
	err := v.f.read(ctx, func(r *store.Reader) error {
		if known == nil {
			known = Set{{1, math.MaxUint32}}
		}
		ranges, err := v.uids(r, known, true)
		if err != nil {
			return err
		}
		if err := v.sync(r); err != nil {
			return err
		}
		c := r.Counters()
		if note.ModSeq(modseq) < c.Floor || !c.Ledger.Knows(note.ModSeq(modseq)) {
			if out, err = v.absent(r, ranges); err == nil && (c.Ledger.Shared || len(c.Ledger.Ended) > 0) {
				out, err = v.neverGiven(r, out, known)
			}
			return err
		}
		var gone []uint32
		err = r.Changes(note.ModSeq(modseq), func(_ note.ModSeq, c layout.Change) bool {
			if c.Expunged && c.Folder == v.folder && inRanges(ranges, c.UID) {
				gone = append(gone, c.UID)
			}
			return true
		})
		slices.Sort(gone)
		for _, uid := range gone {
			out = appendUID(out, uid)
		}
		return err
	})
	return out, err
}

// without takes UIDs, ascending, out of a set that is ascending too.
func without(set Set, uids []uint32) Set {
	if len(uids) == 0 {
		return set
	}
	var out Set
	for _, g := range set {
		i, _ := slices.BinarySearch(uids, g.Start)
		for ; i < len(uids) && uids[i] <= g.Stop; i++ {
			if uids[i] > g.Start {
				out = append(out, Range{g.Start, uids[i] - 1})
			}
			g.Start = uids[i] + 1
		}
		if g.Start <= g.Stop && g.Start != 0 {
			out = append(out, g)
		}
	}
	return out
}

// neverGiven appends those of the UIDs that a client knows that are above all that were ever given here: they are those of a
// home that was lost before anybody else knew of them.
func (v *View) neverGiven(r *store.Reader, out, known Set) (Set, error) {
	f, err := r.Folder(v.folder)
	if err != nil {
		return out, err
	}
	var above []Range
	for _, g := range known {
		if lo, hi := max(min(g.Start, g.Stop), f.UIDNext, v.uidNext), max(g.Start, g.Stop); g.Start != 0 && g.Stop != 0 && lo <= hi {
			above = append(above, Range{lo, hi})
		}
	}
	slices.SortFunc(above, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, g := range above {
		if n := len(out); n > 0 && g.Start <= out[n-1].Stop {
			out[n-1].Stop = max(out[n-1].Stop, g.Stop)
			continue
		}
		out = append(out, g)
	}
	return out, nil
}

func (v *View) absent(r *store.Reader, ranges []Range) (Set, error) {
	var out Set
	for _, g := range ranges {
		next := g.Start
		err := r.Members(v.folder, g.Start, g.Stop, func(uid uint32, _ note.ID) bool {
			if uid > next {
				out = append(out, Range{next, uid - 1})
			}
			next = uid + 1
			return true
		})
		if err != nil {
			return nil, err
		}
		if next <= g.Stop && next != 0 {
			out = append(out, Range{next, g.Stop})
		}
	}
	return out, nil
}

func inRanges(ranges []Range, uid uint32) bool {
	i, ok := slices.BinarySearchFunc(ranges, uid, func(g Range, u uint32) int { return int(int64(g.Start) - int64(u)) })
	return ok || i > 0 && uid <= ranges[i-1].Stop
}
