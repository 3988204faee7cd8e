package replica

import (
	"context"
	"errors"
	"sync"

	"doublet/note"
	"doublet/store"
)

// Known is what a server remembers of a target between one Send of a database and the next. With it a Send begins
// with what is to be brought, and asks nothing first: what a page does not fit onto, the target refuses, and then it is
// asked anew. The zero value knows nothing. Its methods may be called from any goroutine; two Sends with one Known at a
// time do no harm and learn from each other.
//
// Invariant: nothing here is needed for what is right, only for what is quick. What is remembered wrongly costs a round trip.
type Known struct {
	mu sync.Mutex
	g  Greeting
	ok bool
	// unmarked is how often the target was not told how far it has come.
	unmarked int
}

// markKnown is after how many Sends the target is told how far it has come: it needs that when this side has forgotten it.
const markKnown = 16

// Forget makes the next Send ask the target about itself: it has started anew, or another than this one is home.
func (k *Known) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ok = false
}

// recall gives what is known.
func (k *Known) recall() (g Greeting, ok bool) {
	if k == nil {
		return g, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.g, k.ok
}

// learn takes up how a Send has left the target.
func (k *Known) learn(x *sender, err error) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// What was set aside is tried again, and what the target remembers of that is only known when it is asked.
	k.ok = err == nil && x.hf.Shared && x.ht.Shared && !x.o.Apart && len(x.aside)+len(x.ht.Aside) == 0
	k.g = x.ht
}

// mayPass says whether a Send may leave the target without word of how far it has come.
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

// resume is a Send to a target that is known. again says that it has to be asked after all.
func (x *sender) resume(ctx context.Context, g Greeting) (again bool, err error) {
	x.warm, x.ht = true, g
	if r, ok := x.to.(*Remote); ok {
		r.v.Store(uint32(min(Version, g.Version)))
	}
	if x.hf, err = x.from.Hello(ctx, x.db, g.Peer); err != nil {
		return false, wrap("source", err)
	}
	if !x.hf.Shared || !x.hf.Leads && !x.ht.Leads {
		return true, nil // without a home the two say first what each of them knows
	}
	x.res.FromSeq, x.res.ToSeq = x.hf.Seq, x.ht.Seq
	err = x.send(ctx)
	var refused *RemoteError
	again = err != nil && ctx.Err() == nil && (errors.As(err, &refused) || ErrorKind(err) != failed)
	return again, err
}

// unasked takes out of a page of heads the notes that nobody but the source can have: a target that is known gets them at once.
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

// isNew says that a note was never revised and that no home has numbered it: of others Replicable gives no content.
func isNew(n *store.Remote) bool {
	return n.Contents != nil && len(n.Tree) == 1 && n.Class != note.Folder && !stub(n)
}
