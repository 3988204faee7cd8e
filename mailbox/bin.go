package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// RecoverableName is the name under which File.Bin shows the folder of deleted messages. If two replicas made such a
// folder each, the name of the other one has a suffix.
const RecoverableName = "Recoverable Items"

// ErrRecoverOnly reports a change of a folder of deleted messages other than taking messages out of it.
var ErrRecoverOnly = errors.New("folder holds deleted messages, which can only be recovered")

// Bin returns a handle for the deleted messages that can be recovered. It shows the folders that hold them under
// RecoverableName, to the owner of the mail file only, and none if messages cannot be recovered or were never deleted.
// A folder that the owner gave that name hides it. The folders are read-only, except that View.CopyTo recovers
// messages, and that the owner may subscribe.
func (f *File) Bin() *File {
	return &File{namespace{handle: handle{svc: f.svc, who: f.who, db: f.db, bin: true}}}
}

// readBin is read for a handle of Bin: with the rights of the server, because nobody else may look the folders up.
func (hd *handle) readBin(ctx context.Context, fn func(*store.Reader) error) error {
	return hd.svc.store.Read(ctx, note.System, hd.db, func(r *store.Reader) error {
		if err := hd.mayRecover(r); err != nil {
			return err
		}
		return fn(r)
	})
}

// shown returns the folders that the person may see. Of a handle of Bin these are the bins.
func (hd *handle) shown(r *store.Reader) []*layout.Folder {
	switch {
	case !hd.bin:
		return r.Folders()
	case hd.svc.opt.KeepDeleted == 0:
		return nil
	}
	all := r.AllFolders()
	return slices.DeleteFunc(bins(r), func(h *layout.Folder) bool {
		return slices.ContainsFunc(all, func(o *layout.Folder) bool { return o.Name == binName(h) })
	})
}

// binName returns the name under which Bin shows a folder.
func binName(h *layout.Folder) string { return RecoverableName + strings.TrimPrefix(h.Name, bin) }

// binNamed finds a folder of Bin by its name.
func (hd *handle) binNamed(r *store.Reader, name string) (*layout.Folder, error) {
	for _, h := range hd.shown(r) {
		if binName(h) == name {
			return h, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoFolder, name)
}

// subscribeBin is Subscribe for a folder of Bin. Its ACL does not let the person look it up.
func (hd *handle) subscribeBin(ctx context.Context, name string, on bool) error {
	return hd.svc.asSystem(ctx, hd.db, func(w *store.Writer) error {
		if err := hd.mayRecover(&w.Reader); err != nil {
			return err
		}
		h, err := hd.binNamed(&w.Reader, name)
		if err != nil {
			return err
		}
		return w.Subscribe(h.Note, hd.who.Person, on)
	})
}

// takeOut moves a message of a bin into a folder, with the rights of the person there and of the server in the bin. It
// is there already if a replica moved it while another one deleted it. added counts the bytes that the mail file does
// not count as used yet.
func (hd *handle) takeOut(w *store.Writer, id, from note.ID, to *layout.Folder, added *uint64) (uid uint32, err error) {
	if err := hd.mayRecover(&w.Reader); err != nil {
		return 0, err
	}
	n, err := w.Row(id)
	if err != nil {
		return 0, err
	}
	if n.Hidden() {
		*added += n.Size
	}
	if err := roomIn(&w.Reader, &hd.who, to, *added); err != nil {
		return 0, err
	}
	err = w.AsServer(func() error {
		m, there := n.Member(to.Note)
		if uid = m.UID; !there {
			if uid, err = w.AddTo(id, to.Note); err != nil {
				return err
			}
		}
		return w.RemoveFrom(id, from)
	})
	return uid, err
}
