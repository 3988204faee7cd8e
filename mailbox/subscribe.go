package mailbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// A subscription is a person's own and belongs to a folder, whatever its name becomes. It outlives the folder:
// INBOX's note has for each person an item with the names of deleted folders, until the person unsubscribes or a
// folder has the name again. The folder may have been renamed after the person lost the right to look it up. So
// everybody but the owner of the mail file is shown a name only as far as the folder's last access list grants that
// right; the list stands behind the name.

// itemSubscribed begins the names of those items; behind it stands the person.
const itemSubscribed = "$Subscribed."

// The bounds of a person's subscriptions that outlive their folders in one mail file: how many, and bytes of one with
// its access list.
const (
	maxOutlived      = 1000
	maxOutlivedBytes = 4 << 10
)

// listBegins separates a name, which has no control characters, from the access list.
const listBegins = "\x01"

// outlivedEntry returns the entry that keeps a person's subscription to a folder that is deleted.
func outlivedEntry(r *store.Reader, h *layout.Folder, person note.UNID) string {
	if person == r.Info().Owner {
		return h.Name
	}
	acl := effective(r, h)
	return h.Name + listBegins + hex.EncodeToString(note.AppendACL(nil, &acl))
}

// readOutlived returns the name of an entry, and shown where the person may be shown it.
func readOutlived(entry string, who *note.Who) (name string, shown bool) {
	name, list, ok := strings.Cut(entry, listBegins)
	if !ok {
		return name, true
	}
	b, err := hex.DecodeString(list)
	if err != nil {
		return name, false
	}
	acl, _, err := note.ReadACL(b)
	return name, err == nil && rightsOf(&acl, who)&note.Lookup != 0
}

// indexOutlived returns the index of the entry of a name, or -1.
func indexOutlived(entries []string, name string) int {
	return slices.IndexFunc(entries, func(e string) bool {
		have, _, _ := strings.Cut(e, listBegins)
		return have == name
	})
}

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

// outliving calls change for each person's entries in a mail file, and writes the list that it returns where that is
// different. Where the writer may not look up INBOX nothing happens.
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
		if !slices.Contains(h.Subscribed, p) || indexOutlived(names, h.Name) >= 0 || len(names) >= maxOutlived {
			return names
		}
		entry := outlivedEntry(&w.Reader, h, p)
		if len(entry) > maxOutlivedBytes {
			return names
		}
		return append(names, entry)
	}, h.Subscribed...)
}

// resubscribe gives a folder that has a name now the subscriptions that have outlived the last one of the name.
func resubscribe(w *store.Writer, folder note.ID, name string) error {
	var failed error
	err := outliving(w, func(p note.UNID, names []string) []string {
		i := indexOutlived(names, name)
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
		i := indexOutlived(names, local)
		if p != f.who.Person || i < 0 {
			return names
		}
		if on {
			_, there = readOutlived(names[i], &f.who)
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
		for _, entry := range outlived(items, itemSubscribed+f.who.Person.String()) {
			if name, shown := readOutlived(entry, &f.who); shown {
				names = append(names, f.prefix+name)
			}
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
