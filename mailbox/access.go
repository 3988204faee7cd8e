package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ErrOwner reports a change that would remove the owner's right to administer a folder.
var ErrOwner = errors.New("owner must keep the right to administer")

// maxEntries is the maximum number of entries in an ACL.
const maxEntries = 1000

// Anyone identifies the default entry, which applies to everyone without an entry.
var Anyone note.UNID

// Grants is one entry of a folder's ACL.
type Grants struct {
	ID     note.UNID // Anyone for the default entry
	Rights note.Rights
}

// effective returns the ACL that applies to a folder: its own or the database's.
func effective(r *store.Reader, h *layout.Folder) note.ACL {
	if h.HasACL {
		return h.ACL
	}
	return r.Info().ACL
}

// administered finds a folder and checks that the person may see and change its ACL.
func (f *File) administered(r *store.Reader, name string) (*layout.Folder, error) {
	h, err := f.named(r, name)
	if err == nil && (f.bin || r.FolderRights(h)&note.Administer == 0) {
		err = store.ErrDenied
	}
	return h, err
}

// Access returns the ACL of a folder if the person may administer it, and the owner of the mail file.
func (f *File) Access(ctx context.Context, name string) (list []Grants, owner note.UNID, err error) {
	err = f.read(ctx, func(r *store.Reader) error {
		h, err := f.administered(r, name)
		if err != nil {
			return err
		}
		acl := effective(r, h)
		list = list[:0]
		if g, _ := granted(&acl, Anyone); letters(g) != 0 {
			list = append(list, Grants{Anyone, letters(g)})
		}
		for _, e := range acl.Entries {
			if e.ID != Anyone && e.Plus != note.Below {
				list = append(list, Grants{e.ID, letters(e.Rights())})
			}
		}
		owner = r.Info().Owner
		return nil
	})
	return list, owner, err
}

// SetAccess changes the entry of id in a folder's ACL. change receives the entry's current rights and returns the new
// ones; remove deletes the entry instead. From then on the folder has an ACL of its own. SetAccess also marks id in the
// database's ACL if it has no entry there, so that the person finds the folder.
//
// Implements: RFC 4314 §3.1 Rights are stored per mailbox
func (f *File) SetAccess(ctx context.Context, name string, id note.UNID, change func(note.Rights) note.Rights,
	remove bool) error {
	err := f.update(ctx, func(w *store.Writer) error {
		h, err := f.administered(&w.Reader, name)
		if err != nil {
			return err
		}
		acl := effective(&w.Reader, h)
		if acl, err = regranted(acl, id, change, remove); err != nil {
			return err
		}
		owner := note.Who{Person: w.Info().Owner}
		if !owner.Person.IsZero() && acl.Rights(&owner)&note.Administer == 0 {
			return ErrOwner
		}
		return w.SetFolderACL(h.Note, &acl)
	})
	if err != nil || remove {
		return err
	}
	return f.mark(id)
}

// mark adds id to the database's ACL, if it is not there yet.
func (hd *handle) mark(id note.UNID) error {
	info, err := hd.svc.store.Info(hd.db)
	if err != nil {
		return err
	}
	if _, needed := info.ACL.Marked(id); !needed {
		return nil
	}
	return hd.svc.store.SetInfo(note.System, hd.db, func(i *layout.Info) { i.ACL, _ = i.ACL.Marked(id) })
}

// regranted returns an ACL with one entry changed.
func regranted(acl note.ACL, id note.UNID, change func(note.Rights) note.Rights, remove bool) (note.ACL, error) {
	sum, there := granted(&acl, id)
	have, want := letters(sum), note.Rights(0)
	if !remove {
		want = change(have)
	}
	switch {
	case there && want == have && !remove:
		return acl, nil // keep the level, and with it the rights to own notes, which have no letter
	case id == Anyone:
		e := note.Grant(Anyone, want)
		if acl, acl.Default = acl.Without(Anyone), e.Level; e.Plus != 0 {
			acl = acl.With(e)
		}
		return acl, nil
	case remove:
		return acl.Without(id), nil
	case len(acl.Entries) >= maxEntries:
		return acl, fmt.Errorf("%w: at most %d entries", ErrLimit, maxEntries)
	}
	return acl.With(note.Grant(id, want)), nil
}

// granted returns the rights that the entry of id grants. there is also true for an entry without rights, because such
// an entry denies what the default entry allows.
func granted(acl *note.ACL, id note.UNID) (g note.Rights, there bool) {
	if i := slices.IndexFunc(acl.Entries, func(e note.Entry) bool { return e.ID == id }); i >= 0 {
		return acl.Entries[i].Rights(), acl.Entries[i].Plus&note.Below == 0
	}
	if id == Anyone {
		return acl.Default.Rights(), true
	}
	return 0, false
}

// letters returns only the rights that have a letter in IMAP (RFC 4314).
func letters(r note.Rights) note.Rights { return r & (note.Administer<<1 - 1) }
