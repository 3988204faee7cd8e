package check

import (
	"doublet/note"
	"doublet/store/layout"
)

// numbers holds the counters of a database, and the highest numbers that its rows use.
type numbers struct {
	scope
	counters layout.Counters
	noCount  bool // the counters are lost

	live, size uint64 // of the notes that exist
	highSeq    uint64
	highMod    note.ModSeq
	highUID    uint32
	highNote   note.ID
	lastTime   int64
	expunged   uint64
	// newMod is the last MODSEQ given to the expunges of what repair removed.
	newMod note.ModSeq
}

func (x *numbers) readCounters() error {
	v, ok, err := x.get(x.prefix(layout.KindCounters))
	if err != nil {
		return err
	}
	if ok {
		x.counters, err = layout.ReadCounters(v)
	}
	x.noCount = !ok || err != nil
	return nil
}

// freeMod returns a MODSEQ above every known one. The next pass raises the ledger to it.
func (x *numbers) freeMod() note.ModSeq {
	x.newMod = max(x.newMod, x.counters.Ledger.Last, x.highMod) + 1
	return x.newMod
}

// top returns the highest MODSEQ that may exist. A replica that has received only a part of a run of its home's pages
// may have rows above its own last MODSEQ.
func (x *numbers) top() note.ModSeq {
	l := &x.counters.Ledger
	if l.Partial {
		return max(l.Last, l.Complete, l.High)
	}
	return l.Last
}

// expunge returns the change that tells clients of a membership that repair had to end.
func (x *numbers) expunge(c layout.Change) change {
	c.Expunged, c.Time = true, x.lastTime
	return put(layout.IDKey(x.num, layout.KindModSeq, uint64(x.freeMod())), layout.AppendChange(nil, &c))
}

func (x *numbers) peers() error {
	return x.scan(x.prefix(layout.KindPeer), func(k, v []byte) error {
		p, err := layout.ReadPeer(v)
		switch {
		case err != nil || len(k) != 14:
			x.report(PeerRow, k, []change{drop(k)}, "cannot be read")
		case !x.noCount && p.Passed > x.counters.Seq:
			x.report(PeerRow, k, []change{drop(k)}, "has passed sequence %d, the database stands at %d", p.Passed,
				x.counters.Seq)
		}
		return nil
	})
}

// checkCounters runs last, when everything that the counters count has been read.
func (x *numbers) checkCounters() error {
	key := x.prefix(layout.KindCounters)
	want := x.counters
	want.Notes, want.Size, want.Expunged = x.live, x.size, x.expunged
	var wrong []string
	if x.noCount {
		wrong = []string{"missing or not readable"}
		want = layout.Counters{Notes: x.live, Size: x.size, Expunged: x.expunged}
	}
	if want.Seq < x.highSeq {
		wrong, want.Seq = append(wrong, "sequence"), x.highSeq
	}
	if x.top() < x.highMod {
		wrong, want.Ledger.Last = append(wrong, "last MODSEQ"), x.highMod
	}
	if want.Ledger.UID < x.highUID {
		wrong, want.Ledger.UID = append(wrong, "last UID"), x.highUID
	}
	if want.NextNote <= x.highNote {
		wrong, want.NextNote = append(wrong, "next note id"), x.highNote+1
	}
	if x.noCount {
		// The last numbers assigned are not known: continue as after the loss of a home.
		want.NextNote += 1 << 16
		if err := want.Ledger.TakeOver(); err != nil {
			x.report(Counters, key, nil, "cannot be rebuilt: %v", err)
			return nil
		}
	} else {
		for _, n := range []struct {
			name       string
			have, want uint64
		}{
			{"notes", x.counters.Notes, want.Notes}, {"size", x.counters.Size, want.Size},
			{"expunges", x.counters.Expunged, want.Expunged},
		} {
			if n.have != n.want {
				wrong = append(wrong, n.name)
			}
		}
		if x.counters.Seq >= x.ceiling {
			x.report(Counters, key, nil, "sequence %d is above the store's ceiling %d", x.counters.Seq, x.ceiling)
		}
	}
	if wrong != nil {
		x.report(Counters, key, []change{put(key, layout.AppendCounters(nil, &want))}, "wrong: %q: have %+v, want %+v",
			wrong, x.counters, want)
	}
	return nil
}
