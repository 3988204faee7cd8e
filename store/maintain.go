package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// metaCut is the name of the sequence up to which the feed was cut.
const metaCut = "cut"

// ErrFeedCut means that the feed no longer reaches back to a cursor.
var ErrFeedCut = errors.New("store: the feed was cut behind the cursor")

// Expunges are kept for 90 days, and longer up to 100,000 per database.
const (
	expungeDays = 90
	expungeKeep = 100_000
	// silentDays is the number of days that a replica may be silent before deletion stubs are no longer kept for it.
	silentDays = 90
)

// Trim cuts the feed below the slowest cursor. It always cuts what is more than FeedKeep sequences old.
func (s *Store) Trim() error {
	if err := s.dbs.enter(); err != nil {
		return err
	}
	defer s.dbs.leave()
	horizon := s.hz.durable()
	slowest := horizon
	err := scan(s.eng, layout.Key(layout.SpaceCursor), func(_, v []byte) error {
		if len(v) == 16 {
			seq, err := s.resolve(Cursor{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])})
			if err != nil {
				return err
			}
			slowest = min(slowest, seq)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if horizon > s.opt.FeedKeep {
		slowest = max(slowest, horizon-s.opt.FeedKeep)
	}
	have, err := s.metaUint(metaCut)
	if err != nil || slowest <= have {
		return err
	}
	b := s.eng.NewBatch()
	defer b.Close()
	putUint(b, metaCut, slowest)
	_ = b.DeleteRange(layout.NumberKey(layout.SpaceFeed, 0), layout.NumberKey(layout.SpaceFeed, slowest+1), nil)
	if err := b.Commit(pebble.NoSync); err != nil {
		return engineError(err)
	}
	s.hz.cut(slowest)
	return nil
}

// Maintain removes what a database no longer needs to keep for clients and replicas: expunges older than 90 days beyond
// the last 100,000, deletion stubs that every known replica has passed, and replicas that fell silent.
func (s *Store) Maintain(ctx context.Context, id note.DatabaseID) error {
	return s.Update(ctx, note.System, []note.DatabaseID{id}, func(tx *Tx) error {
		w, err := tx.Database(id)
		if err != nil {
			return err
		}
		if err := w.trimExpunges(); err != nil {
			return err
		}
		return w.Peers.buryStubs()
	})
}

// maintainStep bounds the rows that one update removes, so that it holds its locks only briefly.
const maintainStep = 10_000

func (num *numbering) trimExpunges() error {
	excess := int64(num.st.counters.Expunged) - expungeKeep
	if excess <= 0 || !num.numbers {
		return nil // a replica forgets what its home has forgotten
	}
	old := num.s.env.Clock.Now().Unix() - expungeDays*86400
	n := int64(0)
	err := num.Changes(num.st.counters.Floor, func(mod note.ModSeq, c layout.Change) bool {
		if !c.Expunged {
			return true
		}
		if c.Time > old || n >= min(excess, maintainStep) {
			return false
		}
		num.trimmed = append(num.trimmed, mod)
		n++
		return true
	})
	if err != nil || n == 0 {
		return err
	}
	counters := &num.mutable().counters
	counters.Expunged -= uint64(n)
	counters.Floor = num.trimmed[n-1]
	return nil
}

// Peers records the known replicas: the sequence that each has passed, and when it was last heard of. A deletion stub
// is kept until every known replica has passed it.
type Peers struct {
	d       *draft
	changed []note.ReplicaID // known replicas that the update changed or forgot
}

// buryStubs turns deletion stubs that every known replica has passed into graves, and forgets replicas that fell
// silent. Stubs exist only while a replica is known. A silent replica is forgotten in the update that buries the last
// stub kept for it, so in a database without known replicas there is nothing to search for.
func (ps *Peers) buryStubs() error {
	if len(ps.d.st.peers) == 0 {
		return nil
	}
	limit := ps.d.s.env.Clock.Now().Unix() - silentDays*86400
	passed := ps.d.st.counters.Seq
	var silent []note.ReplicaID
	for id, p := range ps.d.st.peers {
		if p.Heard < limit {
			silent = append(silent, id)
			continue
		}
		passed = min(passed, p.Passed)
	}
	stubs, err := ps.stubsUpTo(passed)
	if err != nil {
		return err
	}
	for _, id := range stubs {
		t, err := ps.d.change(id)
		if err != nil {
			return err
		}
		t.row = nil
	}
	if len(stubs) >= maintainStep {
		return nil // the rest, and the silent replicas, follow in the next run
	}
	for _, id := range silent {
		if err := ps.set(id, nil); err != nil {
			return err
		}
	}
	return nil
}

// stubsUpTo returns the deletion stubs whose latest change is at or before a sequence. A note that becomes a stub gets
// a new sequence, so a range that was found empty is not searched again.
func (ps *Peers) stubsUpTo(passed uint64) (stubs []note.ID, err error) {
	lo := layout.IDKey(ps.d.db.num, layout.KindSequence, ps.d.db.unburied+1)
	err = scanRange(ps.d.eng, lo, layout.IDKey(ps.d.db.num, layout.KindSequence, passed+1), func(k, v []byte) error {
		id, err := layout.ReadUNIDRow(v)
		if err != nil {
			return fmt.Errorf("%w: sequence row in database %s", ErrDamaged, ps.d.db.id)
		}
		n, err := ps.d.note(id)
		if err != nil {
			return err
		}
		if n.Stub && !n.Unnumbered { // an unnumbered stub is kept: numbering gives it a new sequence
			stubs = append(stubs, id)
		} else if len(stubs) == 0 {
			ps.d.db.unburied = layout.Tail64(k)
		}
		if len(stubs) >= maintainStep {
			return errStop
		}
		return nil
	})
	return stubs, err
}

// Set records the sequence that another replica has passed. While the replica is known, deletion stubs are kept for it.
func (ps *Peers) Set(id note.ReplicaID, passed uint64) error {
	if !ps.d.who.System {
		return ErrDenied
	}
	return ps.set(id, &layout.Peer{Passed: passed, Heard: ps.d.s.env.Clock.Now().Unix(), Met: ps.d.st.peers[id].Met})
}

// Meet records a position at which the replica of a slot was known to be in step, if it is later than the recorded
// one. If that replica is lost, any numbers that it assigned itself begin at or after this position.
func (ps *Peers) Meet(id note.ReplicaID, met layout.Met) error {
	if !ps.d.who.System {
		return ErrDenied
	}
	p, known := ps.d.st.peers[id]
	if l := &ps.d.st.counters.Ledger; !known || met.Epoch != l.Epoch || !l.Knows(met.Last) ||
		met.Epoch == p.Met.Epoch && met.Last <= p.Met.Last {
		return nil
	}
	p.Met = met
	return ps.set(id, &p)
}

// metBefore lowers the recorded positions of peers to a point of this ledger's history, because what comes after it is
// no longer part of the history.
func (ps *Peers) metBefore(common note.ModSeq, uid uint32) error {
	for id, p := range ps.d.st.peers {
		if p.Met.Last <= common {
			continue
		}
		p.Met.Last, p.Met.UID = common, min(p.Met.UID, uid)
		if err := ps.set(id, &p); err != nil {
			return err
		}
	}
	return nil
}

func (ps *Peers) set(id note.ReplicaID, p *layout.Peer) error {
	st := ps.d.mutable()
	peers := make(map[note.ReplicaID]layout.Peer, len(st.peers)+1)
	for k, v := range st.peers {
		peers[k] = v
	}
	if p == nil {
		delete(peers, id)
	} else {
		peers[id] = *p
	}
	st.peers = peers
	ps.changed = append(ps.changed, id)
	return nil
}
