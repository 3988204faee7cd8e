package mailbox

import (
	"context"
	"errors"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ChangedSince returns the UIDs of the messages, among those that the session knows, that were added or changed after a
// MODSEQ.
func (k *knowledge) ChangedSince(ctx context.Context, since uint64) (Set, error) {
	var uids []uint32
	err := k.f.read(ctx, func(r *store.Reader) error {
		uids = uids[:0]
		var inner error
		err := r.Changes(note.ModSeq(since), func(_ note.ModSeq, c layout.Change) bool {
			if c.Expunged {
				return true
			}
			n, err := r.Note(c.Note)
			if errors.Is(err, store.ErrNotFound) {
				return true
			}
			if err != nil {
				inner = err
				return false
			}
			if m, ok := n.Member(k.folder); ok && m.UID < k.uidNext {
				uids = append(uids, m.UID)
			}
			return true
		})
		return errors.Join(err, inner)
	})
	slices.Sort(uids)
	var out Set
	for _, uid := range slices.Compact(uids) {
		out = appendUID(out, uid)
	}
	return out, err
}
