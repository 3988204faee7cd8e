package groupware

import (
	"fmt"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store"
)

// Share grants people and groups rights in a collection, or takes their entries away for no rights. The collection then
// has an access list of its own. The person needs the right to administer it, and the rights of the owner of the mail
// file stay. The access list of the mail file gets marks for those people, so that they find the collection.
func (c *Changing) Share(kind Kind, name string, grants map[note.UNID]note.Rights) error {
	h, err := c.find(kind, name, note.Administer)
	if err != nil {
		return err
	}
	info := c.r.Info()
	acl := info.ACL
	if h.HasACL {
		acl = h.ACL
	}
	for _, id := range slices.SortedFunc(maps.Keys(grants), note.UNID.Compare) {
		switch {
		case id == info.Owner:
			return fmt.Errorf("%w: rights of the owner", store.ErrDenied)
		case grants[id] == 0:
			acl = acl.Without(id)
		default:
			acl = acl.With(note.Grant(id, grants[id]))
			c.marks = append(c.marks, id)
		}
	}
	if len(acl.Entries) > maxGrants {
		return fmt.Errorf("%w: access list of over %d entries", ErrTooLarge, maxGrants)
	}
	return c.write().SetFolderACL(h.Note, &acl)
}

// maxGrants bounds the access list of a collection.
const maxGrants = 1000

// SetACL sets the access list of a collection, or removes it with nil.
func (c *Changing) SetACL(kind Kind, name string, acl *note.ACL) error {
	h, err := c.find(kind, name, note.Administer)
	if err != nil {
		return err
	}
	return c.write().SetFolderACL(h.Note, acl)
}
