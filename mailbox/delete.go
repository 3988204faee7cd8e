package mailbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Hidden begins the name of a folder that is not one of mail: no door of mail lists or opens it. No other folder name
// contains a control character.
const Hidden = "\x7f"

// ofMail reports whether a folder is one of mail.
func ofMail(h *layout.Folder) bool { return !strings.HasPrefix(h.Name, Hidden) }

// doomed begins the name of a folder that is being deleted. The ACL of such a folder lets nobody look it up.
const doomed = Hidden + "deleted "

// deletePiece is the maximum number of messages deleted together with their folder in one update. A larger folder is
// first hidden and then emptied in parts: so locks are held briefly, and nobody sees a partly deleted folder. After a
// crash, or if the mail file moves to another server meanwhile, PurgeDeleted finishes the deletion.
const deletePiece = 5 * batch

// Delete deletes a folder with its messages. It does not delete INBOX or a folder that has children.
func (f *File) Delete(ctx context.Context, name string) error {
	name, err := f.local(name)
	if err != nil {
		return err
	}
	if name == Inbox {
		return fmt.Errorf("%w: INBOX cannot be deleted", store.ErrDenied)
	}
	var large note.ID
	var folder layout.Folder
	err = f.update(ctx, func(w *store.Writer) error {
		h, err := named(&w.Reader, name)
		if err == nil {
			folder = *h
			large, err = f.deleteSmall(w, name)
		}
		return err
	})
	if err == nil && large == 0 {
		err = partly(f.elsewhere(ctx, func(w *store.Writer) error { return outlive(w, &folder) }), true)
	}
	if err != nil || large == 0 {
		return err
	}
	if err := f.hide(ctx, name, large); err != nil {
		return err
	}
	// The folder is already hidden, so finish even if ctx is cancelled.
	err = f.svc.purge(context.WithoutCancel(ctx), f.db, large)
	if errors.Is(err, store.ErrNotHome) {
		return nil // the folder is gone for everyone; Collect runs PurgeDeleted at the new primary
	}
	return err
}

// hide hides a folder from everyone.
func (hd *handle) hide(ctx context.Context, name string, folder note.ID) error {
	return hd.svc.asSystem(ctx, hd.db, func(w *store.Writer) error {
		h, err := w.Folder(folder)
		if err != nil || h.Name != name {
			return fmt.Errorf("%w: %s", ErrNoFolder, name) // deleted or renamed meanwhile
		}
		if err := outlive(w, h); err != nil {
			return err
		}
		if err := w.RenameFolder(folder, doomed+h.UNID.String()); err != nil {
			return err
		}
		return w.SetFolderACL(folder, &note.ACL{})
	})
}

// deleteSmall deletes a folder. If it holds too many messages for one update, deleteSmall returns its id instead.
func (hd *handle) deleteSmall(w *store.Writer, name string) (large note.ID, err error) {
	h, err := named(&w.Reader, name)
	if err != nil {
		return 0, err
	}
	if err := childless(w, name); err != nil {
		return 0, err
	}
	g := w.FolderRights(h)
	if !hd.who.System && g&note.Remove == 0 {
		return 0, store.ErrDenied
	}
	if h.Total > deletePiece {
		if !hd.who.System && g&note.Expunge == 0 {
			return 0, store.ErrDenied
		}
		return h.Note, nil
	}
	if _, err := hd.emptySome(w, h.Note); err != nil {
		return 0, err
	}
	if err := outlive(w, h); err != nil {
		return 0, err
	}
	return 0, w.DeleteFolder(h.Note)
}

// childless returns an error if a folder has children. Children that the writer may not look up count, too, because
// they would lose their parent.
func childless(w *store.Writer, name string) error {
	hidden := false
	for _, c := range w.AllFolders() {
		switch {
		case !strings.HasPrefix(c.Name, name+"/"):
		case w.FolderRights(c)&note.Lookup != 0:
			return fmt.Errorf("%w: %s", ErrHasChildren, name)
		default:
			hidden = true
		}
	}
	if hidden {
		return store.ErrDenied
	}
	return nil
}

// emptySome deletes up to deletePiece messages from a folder and reports whether there may be more.
func (hd *handle) emptySome(w *store.Writer, folder note.ID) (more bool, err error) {
	var ids []note.ID
	if err := w.Members(folder, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
		ids = append(ids, id)
		return len(ids) < deletePiece
	}); err != nil {
		return false, err
	}
	for _, id := range ids {
		if err := hd.expunge(w, id, folder); err != nil {
			return false, err
		}
	}
	return len(ids) == deletePiece, nil
}

// purge empties and deletes a hidden folder.
func (s *Service) purge(ctx context.Context, db note.DatabaseID, folder note.ID) error {
	hd := &handle{svc: s, who: note.System, db: db}
	for more := true; more; {
		err := s.asSystem(ctx, db, func(w *store.Writer) (err error) {
			if more, err = hd.emptySome(w, folder); err == nil && !more {
				err = w.DeleteFolder(folder)
			}
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil // another call has deleted it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PurgeDeleted finishes folder deletions that a crash or a move of the mail file interrupted, and returns their number.
func (s *Service) PurgeDeleted(ctx context.Context, db note.DatabaseID) (n int, err error) {
	var left []note.ID
	err = s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		for _, h := range r.Folders() {
			if strings.HasPrefix(h.Name, doomed) {
				left = append(left, h.Note)
			}
		}
		return nil
	})
	for i := 0; i < len(left) && err == nil; i++ {
		if err = s.purge(ctx, db, left[i]); err == nil {
			n++
		}
	}
	return n, err
}

// asSystem changes a mail file with the rights of the server.
func (s *Service) asSystem(ctx context.Context, db note.DatabaseID, fn func(*store.Writer) error) error {
	return s.store.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Home(db)
		if err != nil {
			return err
		}
		return fn(w)
	})
}
