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

// A subscription belongs to a person and a folder, and is kept when the folder is renamed. It also outlives the folder:
// INBOX's note holds an item per person with the names of deleted folders, until the person unsubscribes or a folder
// with that name exists again.
//
// A folder may have been renamed after a person lost the right to look it up. So each entry also holds the folder's
// last ACL after the name, and everyone but the mail file's owner sees the name only if that ACL grants the right.

// itemSubscribed is the prefix of the names of those items; the person's UNID follows it.
const itemSubscribed = "$Subscribed."

// Limits on a person's subscriptions to deleted folders in one mail file: their number, and the bytes of one entry with
// its ACL.
const (
	maxOutlived      = 1000
	maxOutlivedBytes = 4 << 10
)

// listBegins separates the name, which contains no control characters, from the ACL.
const listBegins = "\x01"

// outlivedEntry returns the entry that stores a person's subscription to a folder that is being deleted.
func outlivedEntry(r *store.Reader, h *layout.Folder, person note.UNID) string {
	if person == r.Info().Owner {
		return h.Name
	}
	acl := effective(r, h)
	return h.Name + listBegins + hex.EncodeToString(note.AppendACL(nil, &acl))
}

// readOutlived returns the name in an entry. shown reports whether the person may see it.
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

// outliving calls change for the entries of each person in a mail file, and writes the list that change returns if it
// differs. It does nothing if the writer may not look up INBOX.
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

// outlive stores the subscriptions to a folder that is being deleted.
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

// resubscribe restores the subscriptions to an earlier folder of the same name.
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

// Subscribe subscribes the person to a folder, or unsubscribes them. A folder that no longer exists is accepted only if
// the person is still subscribed to it and may see its name.
//
// Implements: RFC 9051 §6.3.8 UNSUBSCRIBE of a mailbox that does not exist
func (f *File) Subscribe(ctx context.Context, name string, on bool) error {
	if f.bin {
		return f.subscribeBin(ctx, name, on)
	}
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

// elsewhere repeats a change of subscriptions as the server, in other people's mail files only. The person may not look
// up INBOX there, which holds the subscriptions.
func (ns *namespace) elsewhere(ctx context.Context, fn func(w *store.Writer) error) error {
	if ns.prefix == "" {
		return nil
	}
	return ns.svc.asSystem(context.WithoutCancel(ctx), ns.db, fn)
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

// Outlived returns the names of deleted folders to which the person is subscribed, sorted like Folders.
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

// WithOutlived adds folders that no longer exist to a sorted list of folders. It also adds the missing parents of every
// folder: levels that are not folders, or that the person may not look up. It does not change the entries that exist.
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
