package mailbox

import (
	"context"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Usage holds the size of a mail file and its quota, in bytes; Limit 0 means no limit.
type Usage struct{ Used, Limit uint64 }

// Used returns the bytes of a mail file that count towards its quota. Deleted messages that can be recovered do not.
func Used(r *store.Reader) uint64 {
	size := r.Counters().Size
	for _, h := range bins(r) {
		size -= min(size, h.Size)
	}
	return size
}

// Usage returns the usage of the mail file. It returns store.ErrDenied unless the person may read or administer the
// whole file: someone with access to one folder must not learn about the others.
func (hd *handle) Usage(ctx context.Context) (u Usage, err error) {
	err = hd.read(ctx, func(r *store.Reader) error {
		if r.Rights()&(note.Read|note.Administer) == 0 {
			return store.ErrDenied
		}
		u = Usage{Used(r), r.Info().Quota}
		return nil
	})
	return u, err
}

// SetQuota sets the quota of a mail file in bytes; 0 means no limit. The caller must check that the person may do so;
// the owner of a mail file may not.
func (s *Service) SetQuota(db note.DatabaseID, limit uint64) error {
	return s.store.SetInfo(note.System, db, func(i *layout.Info) { i.Quota = limit })
}

// DeletedSize returns the total size of the messages marked \Deleted in a folder, in bytes.
func (ns *namespace) DeletedSize(ctx context.Context, name string) (size uint64, err error) {
	err = ns.read(ctx, func(r *store.Reader) error {
		h, err := ns.named(r, name)
		if err != nil || h.Deleted == 0 {
			return err
		}
		var uids []uint32
		if err := r.MarkedDeleted(h.Note, 1, note.MaxUID, func(uid uint32) bool {
			uids = append(uids, uid)
			return true
		}); err != nil {
			return err
		}
		for _, uid := range uids {
			id, err := r.Member(h.Note, uid)
			if err != nil {
				return err
			}
			n, err := r.Note(id)
			if err != nil {
				return err
			}
			size += n.Size
		}
		return nil
	})
	return size, err
}

// Owner returns the owner of a mail file, or zero if it has none.
func (s *Service) Owner(db note.DatabaseID) (note.UNID, error) {
	i, err := s.store.Info(db)
	return i.Owner, err
}
