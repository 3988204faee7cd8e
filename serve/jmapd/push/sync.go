package push

import (
	"context"

	"doublet/directory/session"
	"doublet/note"
)

// syncTries bounds how often sync begins again because of changes made meanwhile.
const syncTries = 3

// stored is what was read of the stored subscriptions, and what there was just before.
type stored struct {
	version uint64 // of the sessions
	edits   uint64 // of web
	had     []*device
	list    []session.Subscription
}

// sync brings the devices in line with what is stored: other servers add and end subscriptions too. It returns
// those that are new. Where this server has changed a subscription meanwhile, it begins again, or the next tick does.
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

// read reads what is stored.
func (w *web) read(ctx context.Context) (stored, error) {
	s := stored{version: w.opt.Subscriptions.Version(), edits: w.edits.Load()}
	s.had = w.list() // first: one that is made meanwhile is not in the list that follows
	var err error
	s.list, err = w.opt.Subscriptions.Subscriptions(ctx, note.UNID{})
	return s, err
}

// adopt has the devices be those that were stored, and returns those that are new. settled says that this server has changed no
// subscription since they were read: otherwise one that it has ended may be back, and read must be called again.
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
