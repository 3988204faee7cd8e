package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// A subscription is a person's own and belongs to a folder, whatever its name becomes. It outlives the folder: the names
// of folders that were deleted stand in an item of INBOX's note for each person, until the person unsubscribes or a
// folder has the name again.

// itemSubscribed begins the names of those items; behind it stands the person.
const itemSubscribed = "$Subscribed."

// maxOutlived bounds a person's subscriptions that outlive their folders in one mail file.
const maxOutlived = 1000

func outlived(items note.Items, item string) []string {
	if v := items.Get(item).AsBinary(); len(v) > 0 {
		return strings.Split(string(v), "\n")
	}
	return nil
}

func setOutlived(w *store.Writer, inbox note.ID, item string, names []string) error {
	if len(names) == 0 {
		return w.SetFolderItem(inbox, item, nil, 0)
	}
	return w.SetFolderItem(inbox, item, note.Binary([]byte(strings.Join(names, "\n"))), 0)
}

// outliving calls change for each person's names in a mail file, and writes what it returns where that is different.
// Where the writer may not look up INBOX nothing happens.
func outliving(w *store.Writer, change func(person note.UNID, names []string) []string, persons ...note.UNID) error {
	inbox, err := w.FolderNamed(Inbox)
	if err != nil {
		return ignoreGone(err)
	}
	items, err := w.FolderItems(inbox.Note)
	if err != nil {
		return err
	}
	for _, it := range items {
		rest, ok := strings.CutPrefix(it.Name, itemSubscribed)
		if p, err := note.ParseUNID(rest); ok && err == nil && !slices.Contains(persons, p) {
			persons = append(persons, p)
		}
	}
	for _, p := range persons {
		item := itemSubscribed + p.String()
		have := outlived(items, item)
		if want := change(p, slices.Clone(have)); !slices.Equal(have, want) {
			if err := setOutlived(w, inbox.Note, item, want); err != nil {
				return err
			}
		}
	}
	return nil
}

// outlive keeps the subscriptions of a folder that is deleted.
//
// Implements: RFC 9051 §6.3.7 a subscription outlives its mailbox
func outlive(w *store.Writer, h *layout.Folder) error {
	if len(h.Subscribed) == 0 {
		return nil
	}
	return outliving(w, func(p note.UNID, names []string) []string {
		if !slices.Contains(h.Subscribed, p) || slices.Contains(names, h.Name) || len(names) >= maxOutlived {
			return names
		}
		return append(names, h.Name)
	}, h.Subscribed...)
}

// resubscribe gives a folder that has a name now the subscriptions that have outlived the last one of the name.
func resubscribe(w *store.Writer, folder note.ID, name string) error {
	var failed error
	err := outliving(w, func(p note.UNID, names []string) []string {
		i := slices.Index(names, name)
		if i < 0 {
			return names
		}
		if err := w.Subscribe(folder, p, true); err != nil {
			failed = errors.Join(failed, ignoreGone(err))
			return names
		}
		return slices.Delete(names, i, i+1)
	})
	return errors.Join(err, failed)
}

// Subscribe sets whether the person sees a folder in the list of subscribed ones. What is not there can be
// subscribed to only by a person who is; nobody is subscribed to what nobody knows.
//
// Implements: RFC 9051 §6.3.8 UNSUBSCRIBE of a mailbox that does not exist
func (f *File) Subscribe(ctx context.Context, name string, on bool) error {
	err := f.update(ctx, func(w *store.Writer) error {
		h, err := f.named(&w.Reader, name)
		if err == nil {
			err = w.Subscribe(h.Note, f.who.Person, on)
		}
		return err
	})
	if !errors.Is(err, ErrNoFolder) && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return f.svc.asSystem(ctx, f.db, func(w *store.Writer) error { return f.subscribeOutlived(w, name, on) })
}

// elsewhere does once more, in nobody's name, what an update has done with the subscriptions of others' mail files: the
// person may not look up INBOX there, where they stand.
func (f *File) elsewhere(ctx context.Context, fn func(w *store.Writer) error) error {
	if f.prefix == "" {
		return nil
	}
	return f.svc.asSystem(context.WithoutCancel(ctx), f.db, fn)
}

func (f *File) subscribeOutlived(w *store.Writer, name string, on bool) error {
	local, err := f.local(name)
	if err != nil {
		return err
	}
	there := false
	err = outliving(w, func(p note.UNID, names []string) []string {
		i := slices.Index(names, local)
		if p != f.who.Person || i < 0 {
			return names
		}
		if there = true; on {
			return names
		}
		return slices.Delete(names, i, i+1)
	})
	if err == nil && on && !there {
		err = fmt.Errorf("%w: %s", ErrNoFolder, name)
	}
	return err
}

// Outlived lists the names of folders that the person is subscribed to and that are not there any more, sorted as
// Folders sorts.
func (f *File) Outlived(ctx context.Context) (names []string, err error) {
	err = f.svc.store.Read(ctx, note.System, f.db, func(r *store.Reader) error {
		inbox, err := r.FolderNamed(Inbox)
		if err != nil {
			return ignoreGone(err)
		}
		items, err := r.FolderItems(inbox.Note)
		if err != nil {
			return err
		}
		for _, name := range outlived(items, itemSubscribed+f.who.Person.String()) {
			names = append(names, f.prefix+name)
		}
		return nil
	})
	slices.SortFunc(names, compareNames)
	return names, err
}

// WithOutlived puts folders that are not there any more among others, in their order, and with them the levels above a
// folder that are no folders, or none that the person may look up. Folders that are there are left as they are.
func WithOutlived(folders []Folder, names []string) []Folder {
	have := make(map[string]bool, len(folders))
	for i := range folders {
		have[folders[i].Name] = true
	}
	for _, name := range names {
		if !have[name] {
			have[name] = true
			folders = append(folders, Folder{Name: name, Subscribed: true, Gone: true})
		}
	}
	for i := 0; i < len(folders); i++ {
		name := folders[i].Name
		if at := strings.LastIndexByte(name, '/'); at > 0 && !have[name[:at]] {
			have[name[:at]] = true
			folders = append(folders, Folder{Name: name[:at], Gone: true})
		}
	}
	slices.SortStableFunc(folders, func(a, b Folder) int { return compareNames(a.Name, b.Name) })
	return folders
}
