package push

import (
	"context"

	"doublet/directory/session"
	"doublet/note"
)

// syncTries bounds how often sync starts over because of concurrent changes.
const syncTries = 3

// stored holds the subscriptions read from the store, and the devices known before the read.
type stored struct {
	version uint64 // of the sessions
	edits   uint64 // of web
	had     []*device
	list    []session.Subscription
}

// sync updates the devices from the store, since other servers add and end subscriptions too. It returns the new
// devices. If this server changes a subscription meanwhile, sync starts over, or leaves the rest to the next tick.
func (w *web) sync(ctx context.Context) (fresh []*device, err error) {
	for range syncTries {
		s, err := w.read(ctx)
		if err != nil {
			return fresh, err
		}
		more, settled := w.adopt(&s)
		if fresh = append(fresh, more...); settled {
			break
		}
	}
	return fresh, nil
}

// read reads the stored subscriptions.
func (w *web) read(ctx context.Context) (stored, error) {
	s := stored{version: w.opt.Subscriptions.Version(), edits: w.edits.Load()}
	s.had = w.list() // before the read: a device added later may be missing from list
	var err error
	s.list, err = w.opt.Subscriptions.Subscriptions(ctx, note.UNID{})
	return s, err
}

// adopt makes the devices match the stored subscriptions, and returns the new ones. settled is false if this server has
// changed a subscription since the read. A subscription that it ended may then be back, so sync must read again.
func (w *web) adopt(s *stored) (fresh []*device, settled bool) {
	there := make(map[note.UNID]bool, len(s.list))
	for i := range s.list {
		there[s.list[i].ID] = true
		if d, made := w.put(s.list[i]); made && s.list[i].Verified {
			fresh = append(fresh, d)
		}
	}
	for _, d := range s.had {
		if !there[d.sub.ID] {
			w.drop(d.sub.ID)
		}
	}
	if w.edits.Load() != s.edits {
		return fresh, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = s.version
	return fresh, true
}
