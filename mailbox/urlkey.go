package mailbox

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/store"
)

// URLKeys holds a person's keys for authorized URLs to messages of a mail file (RFC 4467), one for each folder. The
// folder's note stores only a random number, which is useless without the secret of the domain: so reading or
// replicating the note does not allow anyone to authorize a URL. The number is deleted with the folder.
type URLKeys struct{ File *File }

const (
	itemURLKey = "$URLKey."
	urlKeySize = 16 // bytes
)

// Get returns the folder with a name and the person's number there, or nil if there is none.
func (k URLKeys) Get(ctx context.Context, name string) (folder note.UNID, number []byte, err error) {
	err = k.File.read(ctx, func(r *store.Reader) error {
		h, err := k.File.named(r, name)
		if err != nil {
			return err
		}
		folder = h.UNID
		number, err = k.stored(r, h.Note)
		return err
	})
	return folder, number, err
}

func (k URLKeys) item() string { return itemURLKey + k.File.who.Person.String() }

// stored returns the number stored with a folder, or nil.
func (k URLKeys) stored(r *store.Reader, folder note.ID) ([]byte, error) {
	items, err := r.FolderItems(folder)
	if err != nil {
		return nil, err
	}
	number := items.Get(k.item()).AsBinary()
	if len(number) != urlKeySize {
		return nil, nil
	}
	return append([]byte(nil), number...), nil
}

// Make is like Get, but creates the number if there is none. The number is durable when Make returns.
func (k URLKeys) Make(ctx context.Context, name string) (folder note.UNID, number []byte, err error) {
	if folder, number, err = k.Get(ctx, name); err != nil || number != nil {
		return folder, number, err
	}
	err = k.File.update(ctx, func(w *store.Writer) error {
		h, err := k.File.named(&w.Reader, name)
		if err != nil {
			return err
		}
		folder = h.UNID
		if number, err = k.stored(&w.Reader, h.Note); err != nil || number != nil {
			return err
		}
		number = make([]byte, urlKeySize)
		k.File.svc.env.Fill(number)
		return w.SetFolderItem(h.Note, k.item(), note.Binary(number), note.Lookup|note.Read)
	})
	return folder, number, err
}

// Reset deletes the number of a folder, or those of all folders if name is "". URLs authorized with it are no longer
// valid.
func (k URLKeys) Reset(ctx context.Context, name string) error {
	names := []string{name}
	if name == "" {
		folders, err := k.File.Folders(ctx)
		if err != nil {
			return err
		}
		names = names[:0]
		for i := range folders {
			names = append(names, folders[i].Name)
		}
	}
	return k.File.update(ctx, func(w *store.Writer) error {
		for _, one := range names {
			h, err := k.File.named(&w.Reader, one)
			if name == "" && errors.Is(err, ErrNoFolder) { // deleted meanwhile
				continue
			}
			if err != nil {
				return err
			}
			number, err := k.stored(&w.Reader, h.Note)
			if err != nil {
				return err
			}
			if number == nil {
				continue
			}
			if err := w.SetFolderItem(h.Note, k.item(), nil, note.Lookup); err != nil {
				return err
			}
		}
		return nil
	})
}
