package mailbox

import (
	"errors"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// bin begins the name of the folder of deleted messages that can be recovered. A message is in it with \Deleted set, so
// that it is in no view, count, query or thread, not even the server's own, but for the views of File.Bin. The ACL of
// the folder lets nobody look it up. If two replicas made such a folder each, there are two of them, the other one with
// a suffix.
const bin = Hidden + "recoverable"

// itemHold is the item of the bin that is set while nothing is purged from it.
const itemHold = "Hold"

// bins returns the folders of deleted messages that can be recovered.
func bins(r *store.Reader) (list []*layout.Folder) {
	for _, h := range r.AllFolders() {
		if strings.HasPrefix(h.Name, bin) {
			list = append(list, h)
		}
	}
	return list
}

// isIn reports whether a message is in one of these folders.
func isIn(n *layout.Note, folders []*layout.Folder) bool { return inOne(n, folders) != nil }

// deleted reports whether a message is in a bin alone: it does not exist for clients.
func deleted(r *store.Reader, n *layout.Note) bool { return n.Hidden() && isIn(n, bins(r)) }

// inOne returns the first of these folders that a message is in, or nil.
func inOne(n *layout.Note, folders []*layout.Folder) *layout.Folder {
	for _, h := range folders {
		if _, in := n.Member(h.Note); in {
			return h
		}
	}
	return nil
}

// makeBin returns the folder for deleted messages. It is made when it is needed first. The caller has the rights of the
// server.
func makeBin(w *store.Writer) (note.ID, error) {
	h, err := w.FolderNamed(bin)
	if err == nil {
		return h.Note, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	id, err := w.CreateFolder(bin, "")
	if err != nil {
		return 0, err
	}
	return id, w.SetFolderACL(id, &note.ACL{})
}

// Held reports whether a hold of the mail file is on: nothing that its owner deletes is purged. The reader has the
// rights of the server.
func Held(r *store.Reader) (bool, error) {
	for _, h := range bins(r) {
		items, err := r.FolderItems(h.Note)
		if err != nil || items.Get(itemHold).AsBool() {
			return err == nil, err
		}
	}
	return false, nil
}

// expunge removes a message from a folder. In its last folder it is deleted, and can be recovered if it is one that is
// kept.
func (hd *handle) expunge(w *store.Writer, id, folder note.ID) error {
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if _, in := n.Member(folder); !in {
		return store.ErrNotFound
	}
	if len(clientFolders(&w.Reader, n)) == 1 {
		if _, err := hd.keep(w, id, n); err != nil {
			return err
		}
	}
	return w.RemoveFrom(id, folder)
}

// leave removes a message from a folder, because its next version takes its place or it goes on in another mail file.
// That is no deletion to recover from, but a hold keeps it.
func (hd *handle) leave(w *store.Writer, id, folder note.ID) error {
	on, err := held(w)
	if err != nil {
		return err
	}
	if on {
		return hd.expunge(w, id, folder)
	}
	return w.RemoveFrom(id, folder)
}

// held reports whether a hold of the mail file is on. The folder that says so is hidden from the person.
func held(w *store.Writer) (on bool, err error) {
	err = w.AsServer(func() (err error) {
		on, err = Held(&w.Reader)
		return err
	})
	return on, err
}

// keep adds a message to the bin, before it leaves the folders that it is in, if it is one that is kept. It
// checks no rights: the caller does before, or the removal from the folders fails and undoes the update.
func (hd *handle) keep(w *store.Writer, id note.ID, n *layout.Note) (kept bool, err error) {
	if kept, err = hd.keeps(w, n); !kept || err != nil {
		return false, err
	}
	err = w.AsServer(func() error { return addToBin(w, id, n) })
	if errors.Is(err, store.ErrNoSpace) {
		return false, nil // the bin cannot be made: a full device must not prevent deletions
	}
	return err == nil, err
}

// keeps reports whether a message can be recovered after it was deleted. A draft cannot, unless it was in the Trash or
// a hold is on: clients replace a draft by its next version, and destroy it when they have sent it.
func (hd *handle) keeps(w *store.Writer, n *layout.Note) (bool, error) {
	if !isMessage(n) {
		return false, nil
	}
	if hd.svc.opt.KeepDeleted > 0 {
		if !hasKeyword(n, Draft) {
			return true, nil
		}
		for _, trash := range foldersOf(&w.Reader, UseTrash) {
			if _, in := n.Member(trash); in {
				return true, nil
			}
		}
	}
	return held(w)
}

// clientFolders returns the folders that a message is in, without the bin.
func clientFolders(r *store.Reader, n *layout.Note) (ids []note.ID) {
	hidden := bins(r)
	for _, m := range n.Members {
		if !slices.ContainsFunc(hidden, func(h *layout.Folder) bool { return h.Note == m.Folder }) {
			ids = append(ids, m.Folder)
		}
	}
	return ids
}

// addToBin adds a message to the bin, before it leaves the folders that it is in. The stamps of its memberships are in
// this order: so origin finds the folders that it left. A message is in the bin already if one replica moved it while
// another one deleted it.
func addToBin(w *store.Writer, id note.ID, n *layout.Note) error {
	folder, err := makeBin(w)
	if err != nil {
		return err
	}
	if h := inOne(n, bins(&w.Reader)); h != nil {
		if err := w.RemoveFrom(id, h.Note); err != nil {
			return err
		}
	}
	if _, err = w.AddTo(id, folder); err != nil {
		return err
	}
	return w.MarkDeleted(id, folder, true)
}

// retire deletes a message from all folders, if it is one that can be recovered afterwards. The person needs the rights
// that store.Writer.Destroy needs.
func retire(c *Changing, id note.ID) (kept bool, err error) {
	n, err := c.w.Note(id)
	if err != nil {
		return false, err
	}
	leaves := clientFolders(c.r, n)
	for _, f := range leaves {
		h, err := c.w.Folder(f)
		if err != nil || !c.mayRemove(n, h) {
			return false, store.ErrDenied
		}
	}
	c.touched = true // it may have changed something before it failed
	if kept, err = c.f.keep(c.w, id, n); !kept || err != nil {
		return false, err
	}
	for _, f := range leaves {
		err = errors.Join(err, c.w.RemoveFrom(id, f))
	}
	return true, err
}
