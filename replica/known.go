package replica

import (
	"context"
	"errors"
	"sync"

	"doublet/note"
	"doublet/store"
)

// Known caches the state of a target between one Send of a database and the next. With it, a Send starts transferring
// without asking the target first. If a page does not fit the target's state, the target rejects it and Send asks for
// the state. The zero value is empty. Methods are safe for concurrent use; two concurrent Sends may share a Known.
//
// Invariant: Known affects only speed, not correctness. A wrong entry costs a round trip.
type Known struct {
	mu sync.Mutex
	g  Greeting
	ok bool
	// unmarked counts the Sends since the progress was last stored at the target.
	unmarked int
}

// markKnown is the number of Sends after which the progress is stored at the target. The target's record is needed if
// this side loses its own.
const markKnown = 16

// Forget makes the next Send ask the target for its state, for example because the target restarted or the primary
// changed.
func (k *Known) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ok = false
}

// recall returns the cached state. k may be nil.
func (k *Known) recall() (g Greeting, ok bool) {
	if k == nil {
		return g, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.g, k.ok
}

// learn stores the state of the target after a Send.
func (k *Known) learn(x *sender, err error) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// Notes that were set aside are retried, and only the target knows its list of them: so it is asked next time.
	k.ok = err == nil && x.hf.Shared && x.ht.Shared && !x.o.Apart && len(x.aside)+len(x.ht.Aside) == 0
	k.g = x.ht
}

// mayPass reports whether a Send may end without storing the progress at the target.
func (k *Known) mayPass() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unmarked++; k.unmarked < markKnown {
		return true
	}
	k.unmarked = 0
	return false
}

// resume is a Send that uses the cached state g. again means that the target has to be asked after all.
func (x *sender) resume(ctx context.Context, g Greeting) (again bool, err error) {
	x.warm, x.ht = true, g
	if r, ok := x.to.(*Remote); ok {
		r.v.Store(uint32(min(Version, g.Version)))
	}
	if x.hf, err = x.from.Hello(ctx, x.db, g.Peer); err != nil {
		return false, wrap("source", err)
	}
	if !x.hf.Shared || !x.hf.Leads && !x.ht.Leads {
		return true, nil // without a primary both sides must exchange their state first
	}
	x.res.FromSeq, x.res.ToSeq = x.hf.Seq, x.ht.Seq
	err = x.send(ctx)
	var refused *RemoteError
	again = err != nil && ctx.Err() == nil && (errors.As(err, &refused) || ErrorKind(err) != failed)
	return again, err
}

// unasked removes from a page of heads the notes that only the source can have, and returns requests for them. A target
// with a cached state receives these without being asked.
func (x *sender) unasked(heads []Head) (rest []Head, asks []Ask) {
	if !x.warm {
		return heads, nil
	}
	for i := range heads {
		if heads[i].New {
			asks = append(asks, Ask{UNID: heads[i].UNID})
		} else {
			rest = append(rest, heads[i])
		}
	}
	return rest, asks
}

// isNew reports whether a note was never revised and never numbered. It relies on Replicable, which returns content
// only for such notes.
func isNew(n *store.Remote) bool {
	return n.Contents != nil && len(n.Tree) == 1 && n.Class != note.Folder && !stub(n)
}
