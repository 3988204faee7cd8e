package mailbox

import (
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Inbox is the name of the folder that every mail file has, and its use.
const Inbox = "INBOX"

// The uses of the other standard folders: their special uses (RFC 6154) without the backslash, and the names that they
// have in a new mail file.
const (
	UseDrafts  = "Drafts"
	UseSent    = "Sent"
	UseArchive = "Archive"
	UseJunk    = "Junk"
	UseTrash   = "Trash"
)

// Uses lists the uses of the standard folders, in the order in which clients show them.
var Uses = []string{Inbox, UseDrafts, UseSent, UseArchive, UseJunk, UseTrash}

// Use returns the use of a folder: Inbox, its special use, or "". In another person's mail file only the INBOX has one.
func (f *Folder) Use() string {
	if f.inbox {
		return Inbox
	}
	return f.SpecialUse
}

// Is reports whether a folder has one of these uses.
func (f *Folder) Is(uses ...string) bool { return f.Use() != "" && slices.Contains(uses, f.Use()) }

// ForUse returns the folder of a use in a list, or nil. If no folder has the special use, ForUse returns the folder
// with its standard name, because clients that do not know special uses create such folders.
func ForUse(list []Folder, use string) *Folder {
	i := slices.IndexFunc(list, func(f Folder) bool { return f.Use() == use })
	if i < 0 {
		i = slices.IndexFunc(list, func(f Folder) bool { return f.Name == use })
	}
	if i < 0 {
		return nil
	}
	return &list[i]
}

// ForUse returns the folder of a use as the function ForUse does. It creates the folder if there is none.
func (c *Changing) ForUse(use string) (note.UNID, error) {
	if f := ForUse(c.Folders(), use); f != nil {
		return f.UNID, nil
	}
	return c.CreateFolder(note.UNID{}, use, use, true)
}

// FindUse returns the folder of a use as ForUse does, or store.ErrNotFound. It needs only a reader, no File.
func FindUse(r *store.Reader, use string) (note.ID, error) {
	if use != Inbox {
		list := r.Folders()
		if i := slices.IndexFunc(list, func(h *layout.Folder) bool { return h.SpecialUse == use }); i >= 0 {
			return list[i].Note, nil
		}
	}
	h, err := r.FolderNamed(use)
	if err != nil {
		return 0, err
	}
	return h.Note, nil
}

// foldersOf returns all folders of a use: those with the special use, of which each side of a split may have made one,
// or the one with the standard name.
func foldersOf(r *store.Reader, use string) (ids []note.ID) {
	for _, h := range r.AllFolders() {
		if h.SpecialUse == use {
			ids = append(ids, h.Note)
		}
	}
	if h, err := r.FolderNamed(use); len(ids) == 0 && err == nil {
		ids = append(ids, h.Note)
	}
	return ids
}

// CreateUse creates the folder of a use under its standard name.
func CreateUse(w *store.Writer, use string) (note.ID, error) {
	if use == Inbox {
		return w.CreateFolder(Inbox, "")
	}
	return w.CreateFolder(use, use)
}

// CreateStandard creates the standard folders that a mail file does not have yet. It subscribes the owner, if not zero.
func CreateStandard(w *store.Writer, owner note.UNID) error {
	for _, use := range Uses {
		if _, err := w.FolderNamed(use); err == nil {
			continue
		}
		id, err := CreateUse(w, use)
		if err == nil && !owner.IsZero() {
			err = w.Subscribe(id, owner, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// InTrash reports whether a folder of a list is below Trash.
func InTrash(list []Folder, f *Folder) bool {
	trash := ForUse(list, UseTrash)
	return trash != nil && strings.HasPrefix(f.Name, trash.Name+"/")
}
