package lite

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/note"
)

// foldersPage is the page on which the folders of a mail file are changed.
type foldersPage struct {
	*frame
	Folders []folderRow
	Ask     *folderRow // the folder to confirm deletion or emptying of
	Empty   bool
	MayNew  bool
	Newer   string
	Older   string
}

type folderRow struct {
	ID, Name, Full, Href string
	Delete, Empty        string // addresses of the confirmation pages
	Total, Unread        uint32
	Forever              bool // deletion destroys the folder, because it is in Trash or there is no Trash
	Filled               bool // Trash has subfolders
	Own                  bool // not a standard folder, so the user can rename and delete it
	CanEmpty             bool
	Depth                int
}

// foldersOnPage bounds the folders on a page, which keeps the page under 30 KB.
const foldersOnPage = 15

func (v *visit) foldersPage() (*foldersPage, []mailbox.Folder, error) {
	fr, folders, err := v.framed("manageFolders", note.UNID{})
	if err != nil {
		return nil, nil, err
	}
	p := &foldersPage{frame: fr}
	if p.MayNew, err = v.box.MayCreate(v.ctx); err != nil {
		return nil, nil, err
	}
	from := 0
	for i := range folders {
		if folders[i].UNID.String() == v.form.Get("from") {
			from = i - i%foldersOnPage
		}
	}
	to := min(len(folders), from+foldersOnPage)
	for i := range folders[from:to] {
		p.Folders = append(p.Folders, v.folderRow(folders, &folders[from+i]))
	}
	if from > 0 {
		p.Newer = v.at(pathFolders, "from", folders[from-foldersOnPage].UNID.String())
	}
	if to < len(folders) {
		p.Older = v.at(pathFolders, "from", folders[to].UNID.String())
	}
	return p, folders, nil
}

func (v *visit) folderRow(folders []mailbox.Folder, f *mailbox.Folder) folderRow {
	name, depth := v.folderName(f)
	filled := f.Is(mailbox.UseTrash) && slices.ContainsFunc(folders, func(x mailbox.Folder) bool {
		return strings.HasPrefix(x.Name, f.Name+"/")
	})
	return folderRow{
		ID: f.UNID.String(), Name: clip(name, 200), Full: fit(v.fullName(f), 80, 120),
		Href: v.at(Path, "f", f.UNID.String()), Total: f.Total - f.Deleted, Unread: f.Unseen,
		Delete: v.at(pathFolders, "delete", f.UNID.String()), Empty: v.at(pathFolders, "empty", f.UNID.String()),
		Own:      !f.Is(mailbox.Uses...) && f.Rights&note.Remove != 0,
		Forever:  mailbox.InTrash(folders, f) || mailbox.ForUse(folders, mailbox.UseTrash) == nil,
		CanEmpty: f.Is(mailbox.UseTrash, mailbox.UseJunk) && f.Total > f.Deleted || filled,
		Filled:   filled, Depth: min(depth, 4),
	}
}

// folders shows the page of folders.
func (v *visit) folders() error {
	p, folders, err := v.foldersPage()
	if err != nil {
		return err
	}
	if ask := v.form.Get("delete") + v.form.Get("empty"); ask != "" {
		for i := range folders {
			if f := &folders[i]; f.UNID.String() == ask {
				x := v.folderRow(folders, f)
				p.Ask, p.Empty = &x, v.form.Get("empty") != ""
			}
		}
		if p.Ask == nil {
			return errNotFound
		}
	}
	v.toldOf(p.frame, "")
	v.s.show(v.w, http.StatusOK, "folders.html", p)
	return nil
}

// changeFolders creates, renames, deletes or empties a folder.
func (v *visit) changeFolders() error {
	f := v.form
	err := v.changeFolder(f.Get("do"), f.line("name"), f.Get("f"))
	if err == nil {
		return v.leave(pathFolders, "said", "done")
	}
	status, key := refusal(err)
	if status == http.StatusServiceUnavailable || errors.Is(err, errNotFound) {
		return err
	}
	p, _, bad := v.foldersPage()
	if bad != nil {
		return bad
	}
	p.say(key, true)
	v.s.show(v.w, status, "folders.html", p)
	return nil
}

func (v *visit) changeFolder(do, name, id string) error {
	folders, err := mailbox.Visible(v.box.Folders(v.ctx))
	if err != nil {
		return err
	}
	var at *mailbox.Folder
	if id != "" {
		if at, err = v.folderAt(folders, id); err != nil {
			return err
		}
	}
	switch {
	case do == "new":
		if strings.Contains(name, "/") {
			return mailbox.ErrBadName
		}
		return v.change(func(c *mailbox.Changing) error {
			var parent note.UNID
			if at != nil {
				parent = at.UNID
			}
			_, err := c.CreateFolder(parent, name, "", true)
			return err
		})
	case at == nil:
		return errNotFound
	case do == "rename":
		if strings.Contains(name, "/") || at.Is(mailbox.Uses...) {
			return mailbox.ErrBadName
		}
		return v.change(func(c *mailbox.Changing) error {
			_, parent, _, err := c.FolderAt(at.UNID)
			if err != nil {
				return err
			}
			return c.MoveFolder(at.UNID, parent, name)
		})
	case do == "trash" && !at.Is(mailbox.Uses...):
		return v.trashFolder(folders, at)
	case do == "delete" && !at.Is(mailbox.Uses...):
		return v.deleteFolder(folders, at)
	case do == "empty" && at.Is(mailbox.UseTrash, mailbox.UseJunk):
		if at.Is(mailbox.UseTrash) {
			if err := v.deleteBelow(folders, at); err != nil {
				return err
			}
		}
		return v.emptyFolder(at.UNID)
	}
	return errForm
}

// trashFolder moves a folder with its subfolders below Trash. If Trash has a folder of this name, a number is added.
func (v *visit) trashFolder(folders []mailbox.Folder, at *mailbox.Folder) error {
	trash := mailbox.ForUse(folders, mailbox.UseTrash)
	if trash == nil || mailbox.InTrash(folders, at) {
		return errForm
	}
	if slices.ContainsFunc(folders, func(f mailbox.Folder) bool {
		return strings.HasPrefix(f.Name, at.Name+"/") && f.Is(mailbox.Uses...)
	}) {
		return errStandardBelow
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(folders, func(f mailbox.Folder) bool { return f.Name == trash.Name+"/"+name })
	}
	own := at.Name[strings.LastIndexByte(at.Name, '/')+1:]
	name := own
	for n := 2; taken(name); n++ {
		name = own + " (" + strconv.Itoa(n) + ")"
	}
	return v.change(func(c *mailbox.Changing) error { return c.MoveFolder(at.UNID, trash.UNID, name) })
}

// deleteFolder destroys a folder with its subfolders and messages. It only does so below Trash, or if there is no
// Trash.
func (v *visit) deleteFolder(folders []mailbox.Folder, at *mailbox.Folder) error {
	if mailbox.ForUse(folders, mailbox.UseTrash) != nil && !mailbox.InTrash(folders, at) {
		return errForm
	}
	if err := v.deleteBelow(folders, at); err != nil {
		return err
	}
	return v.box.Delete(v.ctx, at.Name)
}

// deleteBelow destroys the subfolders of a folder, each before its parent.
func (v *visit) deleteBelow(folders []mailbox.Folder, at *mailbox.Folder) error {
	var names []string
	for i := range folders {
		if f := &folders[i]; strings.HasPrefix(f.Name, at.Name+"/") {
			if f.Is(mailbox.Uses...) {
				return errStandardBelow
			}
			names = append(names, f.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for _, name := range names {
		if err := v.box.Delete(v.ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (v *visit) change(fn func(c *mailbox.Changing) error) error {
	r, err := v.box.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error { return fn(c) })
	if err == nil {
		err = r.Errs[0]
	}
	return err
}

// emptyBatch is the number of messages destroyed in one update.
const emptyBatch = 500

// emptyFolder destroys the messages in a folder, in batches.
func (v *visit) emptyFolder(u note.UNID) error {
	for {
		found, err := v.box.Query(v.ctx,
			&mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterIn, Folders: []note.UNID{u}}, Limit: emptyBatch})
		if err != nil || len(found.Hits) == 0 {
			return err
		}
		r, err := v.box.Change(v.ctx, len(found.Hits), func(c *mailbox.Changing, i int) error {
			m, err := c.Email(found.Hits[i].ID)
			if err != nil {
				return err
			}
			if in := slices.Collect(m.Folders); len(in) > 1 {
				return c.SetFolders(m.ID, nil, []note.UNID{u}) // the message stays in its other folders
			}
			return c.Destroy(m.ID)
		})
		if err != nil {
			return err
		}
		for _, err := range r.Errs {
			if err != nil && !errors.Is(err, mailbox.ErrNoMessage) {
				return err
			}
		}
	}
}
