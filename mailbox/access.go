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

// ErrOwner reports a change by which a mail file's owner would lose the right to administer.
var ErrOwner = errors.New("the owner keeps the right to administer")

// maxEntries bounds an access list.
const maxEntries = 1000

// Anyone is the id of the default entry: everybody whom no entry names.
var Anyone note.UNID

// Grants is one entry of a folder's access list.
type Grants struct {
	ID     note.UNID // Anyone for the default
	Rights note.Rights
}

// effective is the list that holds for a folder.
func effective(r *store.Reader, h *layout.Folder) note.ACL {
	if h.HasACL {
		return h.ACL
	}
	return r.Info().ACL
}

// administered finds a folder whose list the person may see and change.
func (f *File) administered(r *store.Reader, name string) (*layout.Folder, error) {
	h, err := f.named(r, name)
	if err == nil && r.FolderRights(h)&note.Administer == 0 {
		err = store.ErrDenied
	}
	return h, err
}

// Access is the access list of a folder, for who may administer it. owner is the mail file's.
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

// SetAccess changes what a folder's access list grants to somebody: change gets the rights that they
// have there by name, and gives those that they are to have; remove takes the entry out. From then on
// the folder has a list of its own. Whom the database's list does not name is marked there, so that
// they find the folder.
//
// Implements: RFC 4314 §3.1 Rights are stored per mailbox
func (f *File) SetAccess(ctx context.Context, name string, id note.UNID, change func(note.Rights) note.Rights, remove bool) error {
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

// mark makes the database's list name somebody.
func (f *File) mark(id note.UNID) error {
	info, err := f.svc.store.Info(f.db)
	if err != nil {
		return err
	}
	if _, needed := info.ACL.Marked(id); !needed {
		return nil
	}
	return f.svc.store.SetInfo(note.System, f.db, func(i *layout.Info) { i.ACL, _ = i.ACL.Marked(id) })
}

// regranted is a list with one entry changed.
func regranted(acl note.ACL, id note.UNID, change func(note.Rights) note.Rights, remove bool) (note.ACL, error) {
	sum, there := granted(&acl, id)
	have, want := letters(sum), note.Rights(0)
	if !remove {
		want = change(have)
	}
	switch {
	case there && want == have && !remove:
		return acl, nil // the level stays, and with it the rights to one's own that have no letters
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

// granted is what the entry of an id grants. One without rights is an entry too: it refuses what
// everyone else may.
func granted(acl *note.ACL, id note.UNID) (g note.Rights, there bool) {
	if i := slices.IndexFunc(acl.Entries, func(e note.Entry) bool { return e.ID == id }); i >= 0 {
		return acl.Entries[i].Rights(), acl.Entries[i].Plus&note.Below == 0
	}
	if id == Anyone {
		return acl.Default.Rights(), true
	}
	return 0, false
}

// letters leaves out the rights that have none.
func letters(r note.Rights) note.Rights { return r & (note.Administer<<1 - 1) }
