package mailbox

import (
	"errors"

	"doublet/note"
	"doublet/store"
)

// Profile notes hold data that a protocol stores in a mail file in addition to the mail: identities, submissions,
// uploads. So this data replicates with the mail. Each note is found by its UNID.

// ProfileID returns the UNID of the profile note with the given name in the mail file.
func (hd *handle) ProfileID(name string) note.UNID {
	return note.DeriveUNID([]byte(name), []byte(hd.db.String()))
}

// Profile returns the items of a profile note and the MODSEQ of its latest change, or nil and 0 if it does not exist.
func (d *Reading) Profile(u note.UNID) (items note.Items, mod note.ModSeq, err error) {
	items, _, mod, err = d.ProfileSince(u)
	return items, mod, err
}

// ProfileSince is like Profile, but also returns the MODSEQ at which the note was created.
func (d *Reading) ProfileSince(u note.UNID) (items note.Items, created, mod note.ModSeq, err error) {
	id, err := d.find(u)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, err
	}
	row, err := d.r.Note(id)
	if err != nil {
		return nil, 0, 0, ignoreGone(err)
	}
	if row.Class != note.Profile {
		return nil, 0, 0, nil
	}
	c, err := d.r.Content(id)
	if err != nil {
		return nil, 0, 0, err
	}
	return c.Content.Items, row.Created, row.Mod, nil
}

// PutProfile replaces the items of a profile note, and creates the note if necessary.
func (c *Changing) PutProfile(u note.UNID, items note.Items) error {
	content := note.Content{Items: items}
	id, err := c.find(u)
	if errors.Is(err, store.ErrNotFound) {
		_, err = c.w.Create(store.New{UNID: u, Class: note.Profile, Content: content})
		c.touched = c.touched || err == nil
		return err
	}
	if err != nil {
		return err
	}
	return c.revise(id, content)
}

func (c *Changing) revise(id note.ID, content note.Content) error {
	err := c.w.Rewrite(id, content)
	c.touched = c.touched || err == nil
	return err
}

// RemoveProfile removes a profile note. It is not an error if the note does not exist.
func (c *Changing) RemoveProfile(u note.UNID) error {
	id, err := c.find(u)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil
	}
	if err != nil {
		return err
	}
	err = c.w.Destroy(id)
	c.touched = c.touched || err == nil
	return err
}
