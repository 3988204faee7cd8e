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

// Resync reports to a client what it missed between a MODSEQ and the opening of the view. It calls gone with the UIDs
// that vanished, if any, and then fn and flush, like Fetch, for the messages that changed. All this describes the
// moment of Open, as do Exists, UIDNext and ModSeq, however long it takes; Poll reports later changes. A client that
// disconnects afterwards may resume with ModSeq, or with any MODSEQ that it saw.
func (v *View) Resync(ctx context.Context, since uint64, known Set, gone func(Set),
	fn func(*Message) (pause bool, err error), flush func() error) error {
	vanished, err := v.VanishedSince(ctx, since, known)
	if err != nil {
		return err
	}
	// Messages expunged since Open still belong to the session's messages.
	if vanished = without(vanished, v.hidden); len(vanished) > 0 {
		gone(vanished)
	}
	if v.exists == 0 {
		return nil
	}
	if since > uint64(v.mod) {
		since = 0 // a MODSEQ never assigned here: report everything
	}
	return v.Fetch(ctx, known, true, FetchOptions{ChangedSince: since, ChangedUpTo: uint64(v.mod)}, fn, flush)
}

// VanishedSince returns the UIDs in known that vanished since a MODSEQ (RFC 7162 section 3.2.5.2). If the MODSEQ is
// below the floor of the stored changes, or was never assigned by this ledger, it returns all UIDs in known that do not
// exist. The result includes expunges not yet announced to the session.
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

// without returns an ascending set without the given UIDs, which are ascending, too.
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

// neverGiven adds the UIDs in known that are above all UIDs ever assigned here. They were assigned by a primary that
// was lost before any other replica received them.
func (k *knowledge) neverGiven(r *store.Reader, out, known Set) (Set, error) {
	f, err := r.Folder(k.folder)
	if err != nil {
		return out, err
	}
	var above []Range
	for _, g := range known {
		if lo, hi := max(min(g.Start, g.Stop), f.UIDNext, k.uidNext), max(g.Start, g.Stop); g.Start != 0 &&
			g.Stop != 0 && lo <= hi {
			above = append(above, Range{lo, hi})
		}
	}
	slices.SortFunc(above, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	return merge(out, above), nil
}

func (o *opened) absent(r *store.Reader, ranges []Range) (Set, error) {
	var out Set
	for _, g := range ranges {
		next := g.Start
		err := r.Members(o.folder, g.Start, g.Stop, func(uid uint32, _ note.ID) bool {
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
