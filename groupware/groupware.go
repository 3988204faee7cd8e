// Package groupware keeps calendars and address books in mail files. A collection is a folder that no door of mail
// shows, and an entry (an event, task, journal entry or contact) is a document in it. So replication, access lists,
// quota, backup and repair hold for both as they do for mail.
package groupware

import (
	"context"
	"errors"
	"fmt"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Errors that doors distinguish, in addition to those of the store and mailbox.ErrOverQuota.
var (
	ErrNoCollection = errors.New("no such collection")
	ErrNoEntry      = errors.New("no such entry")
	ErrExists       = errors.New("collection already exists")
	ErrBadName      = errors.New("invalid name")
	ErrInvalid      = errors.New("entry is malformed")
	ErrComponent    = errors.New("collection does not hold entries of this kind")
	ErrTooLarge     = errors.New("entry is too large")
	ErrFull         = errors.New("too many collections or entries")
	// ErrChanged reports that the entry is not in the state that the change requires.
	ErrChanged = errors.New("entry has changed")
	// ErrForgotten reports that the changes since a token are not known: the client has to read the collection again.
	ErrForgotten = mailbox.ErrForgotten
)

// UIDConflictError reports that another entry of the collection has the UID.
type UIDConflictError struct{ Name string }

// Error implements error.
func (e *UIDConflictError) Error() string { return fmt.Sprintf("entry %q has the same UID", e.Name) }

// Kind is the kind of a collection.
type Kind string

// The kinds of collection.
const (
	Calendar    Kind = "calendar"
	AddressBook Kind = "addressbook"
)

// Limits of a mail file. MaxEntry is the size of an entry in bytes; MaxName bounds the names of collections and entries
// in bytes.
const (
	MaxEntry       = 10 << 20
	MaxName        = 255
	MaxCollections = 200
	MaxEntries     = 100_000
)

// Options are the settings of the Service.
type Options struct {
	// AgendaMemory bounds the times of entries that are kept in memory for searches by time, in bytes; 0 means 64 MB.
	AgendaMemory int64
	// Origin is the scheme and host of the addresses of managed attachments, such as https://mail.example.com.
	Origin string
}

// Service opens the groupware of mail files.
type Service struct {
	store   *store.Store
	env     *env.Env
	origin  string
	agendas agendas
}

// New returns the service over a store.
func New(s *store.Store, e *env.Env, o Options) *Service {
	if o.AgendaMemory == 0 {
		o.AgendaMemory = 64 << 20
	}
	return &Service{store: s, env: e, origin: o.Origin,
		agendas: agendas{most: o.AgendaMemory, by: map[note.DatabaseID]*agenda{}}}
}

// File is the groupware of one mail file as one person sees it. It needs no closing.
type File struct {
	svc *Service
	who note.Who
	db  note.DatabaseID
}

// File returns the groupware of a mail file.
func (s *Service) File(who note.Who, db note.DatabaseID) *File { return &File{s, who, db} }

// Who returns the person for whom the file was opened.
func (f *File) Who() note.Who { return f.who }

// Database returns the id of the mail file.
func (f *File) Database() note.DatabaseID { return f.db }

// Owner returns the owner of the mail file, zero if it has none.
func (f *File) Owner(ctx context.Context) (owner note.UNID, err error) {
	err = f.read(ctx, func(d *reading) error {
		owner = d.r.Info().Owner
		return nil
	})
	return owner, err
}

// Watch calls fn after each durable change in the mail file, until stop is called. fn must not block.
func (f *File) Watch(fn func()) (stop func(), err error) { return f.svc.store.Watch(f.db, fn) }

// reading is the mail file at one moment. The store reads and writes as the server here; reading checks all rights,
// because those of a collection decide over what the removal of an entry does in another folder.
type reading struct {
	f *File
	r *store.Reader
	// keys holds the keys of entries that the update in progress has written, see Changing.fresh. It is nil outside of
	// updates.
	keys map[freshKey]note.ID
}

// freshKey is a key of the index of entries in a collection.
type freshKey struct {
	folder note.ID
	key    string
}

func (f *File) read(ctx context.Context, fn func(d *reading) error) error {
	return f.svc.store.Read(ctx, note.System, f.db, func(r *store.Reader) error { return fn(&reading{f: f, r: r}) })
}

// writing are the rights that nobody but the server has in the calendar of a feed, whatever access lists say.
const writing = note.Write | note.Insert | note.Post | note.DeleteMark | note.Expunge | note.WriteOwn | note.ExpungeOwn

// rights returns the rights of the person in a folder, or in the mail file with nil.
func (d *reading) rights(h *layout.Folder) note.Rights {
	r := d.granted(h)
	if h != nil && r&writing != 0 && !d.f.who.System && d.holds(Calendar, h) && showsFeed(d, h) {
		r &^= writing
	}
	return r
}

// granted returns the rights that the access lists grant the person in a folder, or in the mail file with nil. It reads
// no note, so it serves where each entry is checked; rights that are not of writing are those of rights.
func (d *reading) granted(h *layout.Folder) note.Rights {
	switch info := d.r.Info(); {
	case d.f.who.System:
		return note.All
	case h != nil && h.HasACL:
		return h.ACL.Rights(&d.f.who)
	default:
		return info.ACL.Rights(&d.f.who)
	}
}

// owns reports whether the person sees private entries: the owner of the mail file and its managers do.
func (d *reading) owns(h *layout.Folder) bool {
	return d.f.who.System || d.f.who.Person == d.r.Info().Owner && !d.f.who.Person.IsZero() ||
		d.granted(h)&note.Administer != 0
}

// Changing is an update of a mail file. Its changes become durable together with those of the other files
// of the update.
type Changing struct {
	reading
	w *store.Writer
	// touched is set once the current item of ChangeEach has changed something.
	touched bool
	marks   []note.UNID // see Share
}

// write returns the writer for a change.
func (c *Changing) write() *store.Writer {
	c.touched = true
	return c.w
}

// Change changes one mail file in one update: see Service.Change.
func (f *File) Change(ctx context.Context, fn func(c *Changing) error) error {
	return f.svc.Change(ctx, []*File{f}, func(list []*Changing) error { return fn(list[0]) })
}

// Change changes mail files in one update: all changes of fn become durable together, or nothing changes if fn fails.
// fn gets an element for each file, and must do no slow work. On a server that is not the primary of one of the files,
// Change returns store.ErrNotHome.
func (s *Service) Change(ctx context.Context, files []*File, fn func(list []*Changing) error) error {
	ids := make([]note.DatabaseID, len(files))
	for i, f := range files {
		ids[i] = f.db
	}
	list := make([]*Changing, len(files))
	err := s.store.Update(ctx, note.System, ids, func(tx *store.Tx) error {
		for i, f := range files {
			w, err := tx.Home(f.db)
			if err != nil {
				return err
			}
			list[i] = &Changing{reading: reading{f: f, r: &w.Reader}, w: w}
		}
		return fn(list)
	})
	for _, c := range list {
		if err == nil {
			err = s.mark(c)
		}
	}
	return err
}

// mark marks the people with whom an update has shared a collection in the access list of the mail file.
func (s *Service) mark(c *Changing) error {
	if len(c.marks) == 0 {
		return nil
	}
	return s.store.SetInfo(note.System, c.f.db, func(i *layout.Info) {
		for _, id := range c.marks {
			i.ACL, _ = i.ACL.Marked(id)
		}
	})
}
