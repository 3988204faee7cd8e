package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// restoreFolder copies a folder, and the folders in it, into the database that has taken the place of the one in the
// backup. Without a name for the copy, the copy gets the name of the folder, and a present folder of that name is
// renamed: nothing is removed. Messages become new ones.
func (j *Job) restoreFolder(ctx context.Context, a *Backup, from *store.Store, info *layout.Info,
	out *Restored) error {
	inPlace := a.As == ""
	place, err := j.placeOf(ctx, a.Name, info)
	if err != nil {
		return err
	}
	if a.As, err = mailbox.Normalize(cmp.Or(a.As, a.Folder)); err != nil {
		return err
	}
	k := &copying{Job: j, ctx: ctx, from: from, src: info.ID, dst: place.database, folders: map[note.ID]note.ID{},
		made: map[note.ID]note.ID{}, anew: true}
	defer k.drop()
	// The copy has another name until it is complete.
	temporary := restoring + a.Folder
	top, list, err := k.tree(a.Folder, temporary)
	if err == nil {
		err = k.rename(top, list, a.As, inPlace)
	}
	if err != nil {
		return fmt.Errorf("restore folder %q: %w", a.Folder, errors.Join(err, k.undo()))
	}
	out.Database, out.Notes, out.Bytes = k.dst, k.notes, k.bytes
	return nil
}

// tree copies a folder, and the folders in it, under another name. It returns the copy, and the folders in the backup.
func (k *copying) tree(name, as string) (top note.ID, list []*layout.Folder, err error) {
	err = k.from.Read(k.ctx, note.System, k.src, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			if f.Name == name || strings.HasPrefix(f.Name, name+"/") {
				list = append(list, f)
			}
		}
		for _, f := range list {
			if err := k.folderAs(r, f, as+strings.TrimPrefix(f.Name, name), ""); err != nil {
				return err
			}
			if f.Name == name {
				top = k.folders[f.Note]
			}
		}
		if top == 0 {
			return fmt.Errorf("it is not in the backup: %w", store.ErrNotFound)
		}
		for _, f := range list {
			if err := errors.Join(k.grants(r, f), k.members(r, f)); err != nil {
				return err
			}
		}
		return nil
	})
	return top, list, err
}

// rename changes the name of the complete copy to its final one, and that of a present folder of that name.
func (k *copying) rename(top note.ID, list []*layout.Folder, name string, inPlace bool) error {
	return k.store.Update(k.ctx, note.System, []note.DatabaseID{k.dst}, func(tx *store.Tx) error {
		w, err := tx.Home(k.dst)
		if err != nil {
			return err
		}
		if inPlace {
			if err := k.moveAside(w, name); err != nil {
				return err
			}
		}
		if err := parents(w, name); err != nil {
			return err
		}
		if err := renameTree(w, top, name); err != nil {
			return err
		}
		for _, f := range list {
			if err := subscribe(w, k.folders[f.Note], f.Subscribed); err != nil {
				return err
			}
		}
		return nil
	})
}

// moveAside renames the present folder of a name.
func (k *copying) moveAside(w *store.Writer, name string) error {
	i := slices.IndexFunc(w.Folders(), func(f *layout.Folder) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	f := w.Folders()[i]
	if f.SpecialUse != "" || name == mailbox.Inbox {
		return fmt.Errorf("%w: it is a folder that every mail file has: name a copy with --as", ErrInvalid)
	}
	return renameTree(w, f.Note, name+", replaced "+k.env.Clock.Now().Format(time.DateTime))
}

// parents creates the folders above a name that do not exist.
func parents(w *store.Writer, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		up := name[:i]
		if slices.ContainsFunc(w.Folders(), func(f *layout.Folder) bool { return f.Name == up }) {
			continue
		}
		if _, err := w.CreateFolder(up, ""); err != nil {
			return err
		}
	}
	return nil
}

// renameTree renames a folder and the folders in it.
func renameTree(w *store.Writer, id note.ID, to string) error {
	f, err := w.Folder(id)
	if err != nil {
		return err
	}
	from := f.Name
	for _, f := range slices.Clone(w.Folders()) {
		if f.Name != from && !strings.HasPrefix(f.Name, from+"/") {
			continue
		}
		if err := w.RenameFolder(f.Note, to+strings.TrimPrefix(f.Name, from)); err != nil {
			return err
		}
	}
	return nil
}

// undo removes what an unfinished copy of a folder has made: the folders in it before it.
func (k *copying) undo() error {
	k.drop()
	ctx := context.WithoutCancel(k.ctx)
	var names []string
	err := k.store.Read(ctx, note.System, k.dst, func(r *store.Reader) error {
		for _, id := range k.folders {
			if f, err := r.Folder(id); err == nil {
				names = append(names, f.Name)
			}
		}
		return nil
	})
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		err = errors.Join(err, k.mailbox.File(note.System, k.dst).Delete(ctx, name))
	}
	return err
}
