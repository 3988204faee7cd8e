package mailbox

import (
	"context"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Usage is how much a mail file holds, in bytes, and how much it may; Limit 0 is no limit.
type Usage struct{ Used, Limit uint64 }

// Usage tells how full the mail file is, to who may read it or put something into it as a whole:
// whom one folder was opened to learns nothing of the others.
func (f *File) Usage(ctx context.Context) (u Usage, err error) {
	err = f.read(ctx, func(r *store.Reader) error {
		if r.Rights()&(note.Read|note.Administer) == 0 {
			return store.ErrDenied
		}
		u = Usage{r.Counters().Size, r.Info().Quota}
		return nil
	})
	return u, err
}

// SetQuota sets how much a mail file may hold; 0 is no limit. Whether somebody may do that is the
// caller's to know: its owner may not.
func (s *Service) SetQuota(db note.DatabaseID, limit uint64) error {
	return s.store.SetInfo(note.System, db, func(i *layout.Info) { i.Quota = limit })
}

// DeletedSize is the size of the messages of a folder that are marked \Deleted, in bytes.
func (f *File) DeletedSize(ctx context.Context, name string) (size uint64, err error) {
	err = f.read(ctx, func(r *store.Reader) error {
		h, err := f.named(r, name)
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

// Owner is whose a mail file is; zero where it is nobody's.
func (s *Service) Owner(db note.DatabaseID) (note.UNID, error) {
	i, err := s.store.Info(db)
	return i.Owner, err
}
