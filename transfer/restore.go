package transfer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/backup"
	"doublet/store/blob"
	"doublet/store/layout"
)

// Backup selects a database of a backup to restore.
type Backup struct {
	// Name is the id or title in the backup, or the name of the owner.
	Name string
	// Dir is the backup folder and At the generation; 0 means the latest. To is a moment of the archive in Dir; the
	// zero time means that of the generation.
	Dir string
	At  uint64
	To  time.Time
	// Keys decrypt the backup.
	Keys blob.Keys
	// Folder is the folder to restore, with the folders in it; "" restores the whole database.
	Folder string
	// As is the title of a copy, or the name of a copy of the folder; "" replaces the existing database or folder.
	As string
}

// Restored is a database that was restored.
type Restored struct {
	Database   note.DatabaseID
	Generation backup.Generation
	// Time is the moment as of which it was restored.
	Time  time.Time
	Notes uint64
	Bytes uint64
	// Replaced is the database that was replaced, 0 if none was.
	Replaced note.DatabaseID
	Took     time.Duration
}

// restoring is the prefix of the title of a database that is being restored.
const restoring = "being restored: "

// Restore copies a database out of a backup into the store.
func (j *Job) Restore(ctx context.Context, a *Backup) (out Restored, err error) {
	start := j.env.Clock.Now()
	from, g, release, err := j.openBackup(ctx, a)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, release()) }()
	info, err := j.inBackup(from, a.Name)
	if err != nil {
		return out, err
	}
	out.Generation, out.Time = g, g.Began
	if !a.To.IsZero() {
		out.Time = a.To
	}
	defer func() { out.Took = j.env.Clock.Now().Sub(start) }()
	if a.Folder != "" {
		return out, j.restoreFolder(ctx, a, from, &info, &out)
	}
	return out, j.restoreWhole(ctx, a, from, &info, &out)
}

// openBackup opens the store of a backup.
func (j *Job) openBackup(ctx context.Context, a *Backup) (s *store.Store, g backup.Generation, release func() error,
	err error) {
	o := store.Options{CacheSize: 16 << 20, MemTableSize: 1 << 20, Indexes: j.store.Indexes()}
	if a.To.IsZero() {
		if s, g, err = backup.Open(ctx, j.env, a.Dir, a.Keys, a.At, o); err != nil {
			return nil, g, nil, err
		}
		return s, g, s.Close, nil
	}
	return backup.OpenMoment(ctx, j.env, a.Dir, a.Keys, j.store, a.To, o, func(p backup.Progress) {
		j.progress(Progress{Stage: p.Stage, Done: p.Done, Bytes: p.Total})
	})
}

// restoreWhole copies a whole database.
func (j *Job) restoreWhole(ctx context.Context, a *Backup, from *store.Store, info *layout.Info,
	out *Restored) (err error) {
	var place *databasePlace
	if a.As == "" {
		if place, err = j.placeOf(ctx, a.Name, info); err != nil {
			return err
		}
		if err = j.notHeld(ctx, place.database); err != nil {
			return err
		}
	}
	k := &copying{Job: j, ctx: ctx, from: from, src: info.ID, folders: map[note.ID]note.ID{},
		made: map[note.ID]note.ID{}}
	if err := k.run(info); err != nil {
		return fmt.Errorf("restore %s: %w", info.Title, err)
	}
	title := cmp.Or(a.As, info.Title)
	err = j.store.SetInfo(note.System, k.dst, func(i *layout.Info) { i.Title, i.ACL = title, info.ACL })
	if err == nil && place != nil {
		out.Replaced, err = j.replace(ctx, place, k.dst)
	}
	out.Database, out.Notes, out.Bytes = k.dst, k.notes, k.bytes
	return err
}

// notHeld returns an error if a hold of a mail file is on, or if it cannot be read: the file cannot be replaced then.
func (j *Job) notHeld(ctx context.Context, db note.DatabaseID) error {
	on, err := j.mailbox.Held(ctx, db)
	switch {
	case errors.Is(err, store.ErrNotFound): // it was never created
		return nil
	case errors.Is(err, store.ErrOutOfService):
		return fmt.Errorf("%w: a hold may be on: first db set %s --service, or set a title with --as: %w", ErrInvalid,
			db, err)
	case err == nil && on:
		return fmt.Errorf("%w: a hold is on: set a title for the copy with --as, or end it with user hold NAME off",
			ErrInvalid)
	}
	return err
}

// inBackup finds a database in a backup: by its id, by its current or former owner, or by its title.
func (j *Job) inBackup(from *store.Store, name string) (layout.Info, error) {
	all, err := from.Databases()
	if err != nil {
		return layout.Info{}, err
	}
	find := func(is func(*layout.Info) bool) []layout.Info {
		return slices.DeleteFunc(slices.Clone(all), func(i layout.Info) bool { return !is(&i) })
	}
	var found []layout.Info
	if id, err := note.ParseDatabaseID(strings.ToUpper(name)); err == nil {
		found = find(func(i *layout.Info) bool { return i.ID == id })
	}
	if p, err := j.directory.Names.PersonNamed(context.Background(), name); err == nil && len(found) == 0 {
		if found = find(func(i *layout.Info) bool { return i.ID == p.MailDatabase }); len(found) == 0 {
			// The person may have had another mail file at that time.
			found = find(func(i *layout.Info) bool { return i.Owner == p.ID && i.Kind == mailbox.Kind })
		}
	}
	if len(found) == 0 {
		found = find(func(i *layout.Info) bool { return strings.EqualFold(i.Title, name) })
	}
	switch {
	case len(found) == 0:
		return layout.Info{}, fmt.Errorf("database %q in the backup: %w", name, store.ErrNotFound)
	case len(found) > 1:
		return layout.Info{}, fmt.Errorf("%w: %d databases of the backup go by %q: give an id", ErrInvalid,
			len(found), name)
	case found[0].ID == directory.ID || found[0].Queue || found[0].Kind != mailbox.Kind && found[0].Owner.IsZero():
		return layout.Info{}, fmt.Errorf("%w: %s is the server's own: restore the whole store", ErrInvalid,
			found[0].Title)
	}
	return found[0], nil
}

// databasePlace is the directory entry that refers to a database: a person, or a mail-in entry.
type databasePlace struct {
	person, mailIn note.UNID
	database       note.DatabaseID
	owner          note.UNID
}

// placeOf finds the entry to which the database belongs today.
func (j *Job) placeOf(ctx context.Context, name string, info *layout.Info) (*databasePlace, error) {
	if m, err := j.directory.MailIns.Named(ctx, name); err == nil {
		return &databasePlace{mailIn: m.ID, database: m.Database}, nil
	}
	p, err := j.directory.Names.PersonNamed(ctx, name)
	if err != nil && !info.Owner.IsZero() {
		p, err = j.directory.Names.Person(ctx, info.Owner)
	}
	if err != nil || !p.Removed.IsZero() || p.ID != info.Owner && p.MailDatabase != info.ID {
		return nil, fmt.Errorf("%w: owner of %s no longer exists: set a title for the copy with --as", ErrInvalid,
			info.Title)
	}
	return &databasePlace{person: p.ID, database: p.MailDatabase, owner: p.ID}, nil
}

// replace makes an entry refer to a new database, and removes the old one, which can be restored for 30 days. From the
// change of the directory on, mail is delivered to the new one. A delivery in progress finds the old one out of
// service, and is retried.
func (j *Job) replace(ctx context.Context, at *databasePlace, id note.DatabaseID) (old note.DatabaseID, err error) {
	if at.mailIn.IsZero() {
		_, err = j.directory.People.Set(ctx, j.who, at.person,
			func(f *directory.PersonFields) error { f.MailDatabase = id; return nil })
	} else {
		_, err = j.directory.MailIns.Set(ctx, j.who, at.mailIn,
			func(f *directory.MailInFields) error { f.Database = id; return nil })
	}
	if err != nil || at.database == 0 || at.database == id {
		return 0, err
	}
	now := j.env.Clock.Now().UTC()
	err = j.store.SetInfo(note.System, at.database, func(i *layout.Info) {
		i.Title += ", replaced " + now.Format(time.DateOnly)
		i.Remove(now)
	})
	if errors.Is(err, store.ErrNotFound) { // it was never created
		return 0, nil
	}
	return at.database, err
}

// copying copies a database of another store into this one in batches: folder by folder, in the order of UIDs.
type copying struct {
	*Job
	ctx      context.Context
	from     *store.Store
	src, dst note.DatabaseID
	folders  map[note.ID]note.ID // source folder to local folder
	made     map[note.ID]note.ID // source note to local note
	batch    []copied
	weight   int
	// anew means that each note gets a new UNID: those in the database itself, and those that were deleted from it, are
	// taken.
	anew bool

	notes, bytes uint64
}

// copied is one step: a note to create, or an existing note to add to another folder.
type copied struct {
	source  note.ID
	new     store.New
	author  note.UNID
	folder  note.ID // local; 0: none
	deleted bool    // marked as deleted in the source
	known   note.ID // exists here already
	release []interface{ Release() }
	objects []*store.Object
}

// run copies everything into a new database, which nobody can access before it is complete.
func (k *copying) run(info *layout.Info) (err error) {
	k.dst, err = k.store.CreateDatabase(note.System, store.Create{
		Title: restoring + info.Title, Kind: info.Kind, Owner: info.Owner, ACL: note.ACL{Default: note.NoAccess},
	})
	if err != nil {
		return err
	}
	defer func() {
		k.drop()
		if err != nil {
			err = errors.Join(err, k.store.RemoveDatabase(note.System, k.dst))
		}
	}()
	err = k.from.Read(k.ctx, note.System, k.src, func(r *store.Reader) error {
		list := r.Folders()
		for _, step := range []func(*store.Reader, *layout.Folder) error{k.folder, k.grants, k.members} {
			for _, f := range list {
				if err := step(r, f); err != nil {
					return fmt.Errorf("folder %q: %w", f.Name, err)
				}
			}
		}
		return k.others(r)
	})
	if err != nil {
		return err
	}
	// Set the quotas only now: the restored content may exceed them.
	return k.store.SetInfo(note.System, k.dst, func(i *layout.Info) { i.Quota, i.Warning = info.Quota, info.Warning })
}

// folder creates a folder with its original properties.
func (k *copying) folder(r *store.Reader, f *layout.Folder) error {
	return k.folderAs(r, f, f.Name, f.SpecialUse)
}

// folderAs creates a folder with another name and use.
func (k *copying) folderAs(r *store.Reader, f *layout.Folder, name, use string) error {
	items, err := r.FolderItems(f.Note)
	if err != nil {
		return err
	}
	return k.store.Update(k.ctx, note.System, []note.DatabaseID{k.dst}, func(tx *store.Tx) error {
		w, err := tx.Database(k.dst)
		if err != nil {
			return err
		}
		id, err := w.CreateFolder(name, use)
		if err != nil {
			return err
		}
		k.folders[f.Note] = id
		if !k.anew { // else once the folder has its name
			if err := subscribe(w, id, f.Subscribed); err != nil {
				return err
			}
		}
		have, err := w.FolderItems(id)
		for i := 0; err == nil && i < len(items); i++ {
			if it := items[i]; have.Get(it.Name) == nil {
				err = w.SetFolderItem(id, it.Name, bytes.Clone(it.Value), 0)
			}
		}
		return err
	})
}

func subscribe(w *store.Writer, id note.ID, people []note.UNID) error {
	for _, p := range people {
		if err := w.Subscribe(id, p, true); err != nil {
			return err
		}
	}
	return nil
}

// grants sets a folder's access list after all folders exist. Otherwise a folder created below it would inherit the
// list.
func (k *copying) grants(_ *store.Reader, f *layout.Folder) error {
	if !f.HasACL {
		return nil
	}
	return k.store.Update(k.ctx, note.System, []note.DatabaseID{k.dst}, func(tx *store.Tx) error {
		w, err := tx.Database(k.dst)
		if err != nil {
			return err
		}
		return w.SetFolderACL(k.folders[f.Note], &f.ACL)
	})
}

// members copies the notes of a folder.
func (k *copying) members(r *store.Reader, f *layout.Folder) error {
	var ids []note.ID
	err := r.Members(f.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
		ids = append(ids, id)
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		row, err := r.Note(id)
		if err != nil {
			return fmt.Errorf("note %d: %w", id, err)
		}
		m, _ := row.Member(f.Note)
		if err := k.add(r, id, row, k.folders[f.Note], m.Deleted); err != nil {
			return fmt.Errorf("note %d: %w", id, err)
		}
	}
	return k.flush()
}

// others copies the notes that are in no folder.
func (k *copying) others(r *store.Reader) error {
	for from := note.ID(0); ; {
		var ids []note.ID
		err := r.Notes(from, func(id note.ID, n *layout.Note) bool {
			if n.Class != note.Folder && len(n.Members) == 0 {
				ids = append(ids, id)
			}
			from = id + 1
			return len(ids) < importBatch
		})
		if err != nil || len(ids) == 0 {
			return errors.Join(err, k.flush())
		}
		for _, id := range ids {
			row, err := r.Note(id)
			if err == nil {
				err = k.add(r, id, row, 0, false)
			}
			if err != nil {
				return fmt.Errorf("note %d: %w", id, err)
			}
		}
	}
}

// add adds a note to the batch, and writes the batch when it is large enough.
func (k *copying) add(r *store.Reader, id note.ID, row *layout.Note, folder note.ID, deleted bool) error {
	if err := k.ctx.Err(); err != nil {
		return err
	}
	c := copied{source: id, folder: folder, deleted: deleted, author: row.Author}
	if there, ok := k.made[id]; ok {
		c.known = there
	} else if err := k.read(r, id, row, &c); err != nil {
		return err
	}
	// A note's author is the writer of the transaction, so a batch has one author. A note must be written before it is
	// added to another folder.
	if n := len(k.batch); n > 0 && k.batch[n-1].author != c.author {
		if err := k.flush(); err != nil {
			return err
		}
	}
	k.batch = append(k.batch, c)
	k.weight += int(min(row.Size, importCommit)) + 1000
	if len(k.batch) < importBatch && k.weight < importCommit {
		return nil
	}
	return k.flush()
}

// readMessage reads a note's message and composes it anew.
func (k *copying) readMessage(r *store.Reader, row *layout.Note, c *copied) error {
	stored, err := r.Message(row)
	if err != nil {
		return err
	}
	raw, err := stored.AppendRange(make([]byte, 0, stored.Size()), 0, stored.Size())
	if err != nil {
		return err
	}
	composed, err := k.mailbox.ComposeRestored(k.ctx, raw, k.dst)
	if err != nil {
		return err
	}
	c.release = append(c.release, composed)
	c.new = composed.New(time.Unix(row.Date, 0))
	return nil
}

// read converts a note to the data that creates it here.
func (k *copying) read(r *store.Reader, id note.ID, row *layout.Note, c *copied) error {
	content, err := r.Content(id)
	if err != nil {
		return err
	}
	n := &c.new
	if row.Recipe != 0 {
		if err := k.readMessage(r, row, c); err != nil {
			return err
		}
	} else {
		n.Summary = bytes.Clone(content.Summary)
	}
	n.Class, n.Date, n.Thread = row.Class, row.Date, row.Thread
	if !k.anew {
		n.UNID = row.UNID
	}
	n.Content.Items = slices.Clone(content.Content.Items)
	for i := range n.Content.Items {
		n.Content.Items[i].Value = bytes.Clone(n.Content.Items[i].Value)
	}
	n.Content.Attachments = slices.Clone(content.Content.Attachments)
	for _, a := range n.Content.Attachments {
		data, err := r.Object(id, a.Digest, nil)
		if err != nil {
			return err
		}
		o, err := k.store.Attach(k.ctx, data, k.dst)
		if err != nil {
			return err
		}
		c.release, c.objects = append(c.release, o), append(c.objects, o)
	}
	for _, it := range row.State {
		switch {
		case it.Value != note.On:
		case it.Kind == note.Keyword:
			n.Keywords = append(n.Keywords, it.Key)
		case it.Kind == note.Seen && len(it.Key) == len(note.UNID{}):
			n.SeenBy = append(n.SeenBy, note.UNID([]byte(it.Key)))
		}
	}
	return nil
}

// flush writes the batch, completely or not at all.
func (k *copying) flush() error {
	if len(k.batch) == 0 {
		return nil
	}
	defer k.drop()
	who := note.System
	who.Person = k.batch[0].author
	ids := make([]note.ID, len(k.batch))
	err := k.store.Update(k.ctx, who, []note.DatabaseID{k.dst}, func(tx *store.Tx) error {
		w, err := tx.Database(k.dst)
		for i := 0; err == nil && i < len(k.batch); i++ {
			ids[i], err = k.batch[i].write(w)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range k.batch {
		if c := &k.batch[i]; c.known == 0 {
			k.made[c.source] = ids[i]
			k.notes++
			if c.new.Message != nil {
				k.bytes += c.new.Message.Size
			}
		}
	}
	k.progress(Progress{Stage: "restore", Done: k.notes, Bytes: k.bytes})
	return nil
}

func (c *copied) write(w *store.Writer) (id note.ID, err error) {
	if id = c.known; id != 0 {
		_, err = w.AddTo(id, c.folder)
	} else {
		for _, o := range c.objects {
			w.Keep(o)
		}
		if c.new.Folders = nil; c.folder != 0 {
			c.new.Folders = []note.ID{c.folder}
		}
		id, err = w.Create(c.new)
	}
	if err == nil && c.deleted {
		err = w.MarkDeleted(id, c.folder, true)
	}
	return id, err
}

// drop releases the resources of the batch.
func (k *copying) drop() {
	for i := range k.batch {
		for _, r := range k.batch[i].release {
			r.Release()
		}
	}
	k.batch, k.weight = k.batch[:0], 0
}
