package lite

import (
	"errors"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/speech"
	"doublet/store"
)

// frame holds the parts that all pages share.
type frame struct {
	*speech.Speech
	Title string // text
	Style string
	// Said is the message about the last action. Bad is set if the action failed.
	Said string
	Bad  bool
	Undo *undoing
	// The following fields are set if the user is signed in.
	Name, CSRF string
	Box        *box
	At         string // selects the page's mail file: "?b=…", or ""
	Query      string // content of the search field
	Nav        *nav
	Wide       bool // print view: only the content
	// Here is the part of the client that the page belongs to: calendar, contacts, or "" for mail.
	Here string
}

// nav is the list of folders and mail files.
type nav struct {
	Folders []navFolder
	More    bool // there are more folders than the page shows
	Boxes   []navBox
	Quota   string
	Full    bool
}

type navFolder struct {
	Name, Href, Count string
	Depth             int
	Here              bool
}

type navBox struct {
	Name, Href string
	Here       bool
}

// undoing holds the data to undo the last action.
type undoing struct{ What, To string }

// Bounds of the navigation: folders, of which another page lists all, and mail files.
const (
	maxNav   = 24
	maxBoxes = 12
)

func (v *visit) frame(title string) *frame {
	p := &frame{Speech: v.Speech, Title: v.T(title), Style: v.s.styleName, Box: v.box}
	if v.id != nil {
		p.Name, p.CSRF = v.id.Name, v.s.session.CSRF(v.id)
	}
	if v.box != nil && v.box.ID != "" {
		p.At = "?b=" + v.box.ID
	}
	return p
}

func (p *frame) say(key string, bad bool, values ...any) {
	if p.Said = p.T(key, values...); bad {
		p.Bad = true
	}
}

// framed returns a page with the navigation. at is the current folder.
func (v *visit) framed(title string, at note.UNID) (*frame, []mailbox.Folder, error) {
	p := v.frame(title)
	folders, err := mailbox.Visible(v.box.Folders(v.ctx))
	if err != nil {
		return nil, nil, err
	}
	v.ordered(folders)
	n := &nav{}
	p.Nav = n
	for i := range folders {
		f := &folders[i]
		if len(n.Folders) == maxNav {
			n.More = true
			break
		}
		name, depth := v.folderName(f)
		x := navFolder{Name: fit(name, 40, 60), Depth: min(depth, 4), Here: f.UNID == at,
			Href: v.at(Path, "f", f.UNID.String())}
		count := f.Unseen
		if f.Is(mailbox.UseDrafts) {
			count = f.Total - f.Deleted
		}
		if count > 0 && !f.Is(mailbox.UseTrash, mailbox.UseSent) {
			x.Count = itoa(count)
		}
		n.Folders = append(n.Folders, x)
	}
	all, err := v.boxes()
	if err != nil {
		return nil, nil, err
	}
	if len(all) > 1 {
		for _, b := range all[:min(len(all), maxBoxes)] {
			href := Path
			if b.ID != "" {
				href += "?b=" + b.ID
			}
			n.Boxes = append(n.Boxes, navBox{fit(b.Name, 40, 60), href, b.ID == v.box.ID})
		}
	}
	return p, folders, v.quota(p)
}

// quota shows the usage of the mail file if it has a limit, and warns above 90 %.
func (v *visit) quota(p *frame) error {
	u, err := v.box.Usage(v.ctx)
	if errors.Is(err, store.ErrDenied) {
		return nil
	}
	if err != nil || u.Limit == 0 {
		return err
	}
	used, limit := size(float64(u.Used)), size(float64(u.Limit))
	p.Nav.Quota = v.T("used", used, limit)
	switch {
	case u.Used >= u.Limit:
		p.Nav.Full, p.Nav.Quota = true, v.T("quotaFull", used, limit)
	case u.Used >= u.Limit/10*9:
		p.Nav.Full, p.Nav.Quota = true, v.T("quotaNear", used, limit)
	}
	return nil
}

// useTexts maps standard folders to the keys of their localized names.
var useTexts = map[string]string{mailbox.Inbox: "inbox", mailbox.UseDrafts: "drafts", mailbox.UseSent: "sent",
	mailbox.UseArchive: "archive", mailbox.UseJunk: "junk", mailbox.UseTrash: "trash", mailbox.UseSnoozed: "snoozed"}

// folderName returns the last level of a folder's name, localized, and its depth.
func (v *visit) folderName(f *mailbox.Folder) (string, int) {
	if key := useTexts[f.Use()]; key != "" {
		return v.T(key), 0
	}
	name := strings.TrimPrefix(f.Name, v.box.Prefix())
	at := strings.LastIndexByte(name, '/')
	return name[at+1:], strings.Count(name, "/")
}

// fullName returns a folder's name with its parents.
func (v *visit) fullName(f *mailbox.Folder) string {
	if name, depth := v.folderName(f); depth == 0 {
		return name
	}
	return strings.TrimPrefix(f.Name, v.box.Prefix())
}
