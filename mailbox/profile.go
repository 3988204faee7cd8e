package mailbox

import (
	"errors"

	"doublet/note"
	"doublet/store"
)

// Profile notes hold what a door keeps in a mail file beside the mail, so that it moves with it: identities, submissions,
// uploads. Each is found by its UNID.

// ProfileID is the UNID of the profile note of a name in a mail file.
func (f *File) ProfileID(name string) note.UNID {
	return note.DeriveUNID([]byte(name), []byte(f.db.String()))
}

// Profile is a profile note: its items and the MODSEQ of its latest change. One that is not there has neither.
func (d *Reading) Profile(u note.UNID) (items note.Items, mod note.ModSeq, err error) {
	items, _, mod, err = d.ProfileSince(u)
	return items, mod, err
}

// ProfileSince is Profile with the MODSEQ that it was made at, too.
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

// PutProfile gives a profile note these items, and makes it where it is not there.
func (c *Changing) PutProfile(u note.UNID, items note.Items) error {
	return c.putProfile(u, note.Content{Items: items})
}

func (c *Changing) putProfile(u note.UNID, content note.Content) error {
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

// RemoveProfile removes a profile note; one that is not there is none too many.
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
