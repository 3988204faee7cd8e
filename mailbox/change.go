package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Errors for a change that is rejected, in addition to the other errors of the package.
var (
	// ErrHomeless reports a message that would be in no folder of the person's.
	ErrHomeless = errors.New("message must be in at least one folder")
	// ErrManyFolders reports a message that would be in more than MaxFolders folders.
	ErrManyFolders = errors.New("message is in too many folders")
	// ErrHasEmail reports a folder that cannot be deleted because it holds messages.
	ErrHasEmail = errors.New("folder is not empty")
	// ErrLarge reports a folder with too many messages to delete within one update; use File.Delete.
	ErrLarge = errors.New("folder holds too many messages to delete in one update")
	// ErrRole reports that another folder already has the special use.
	ErrRole = errors.New("another folder has that use")
)

// MaxFolders is the number of folders that a message may be in at most.
const MaxFolders = 100

// Changing is an update of a mail file, in all its folders. Its Reading already shows the changes made.
type Changing struct {
	*Reading
	w *store.Writer
	// Before holds the states at the beginning of the update.
	Before States
	// Calls counts the items that this update has begun, including the current one.
	Calls int
	// touched is set once the current item has changed something.
	touched bool
	added   uint64 // bytes of messages added by this update
}

// Result is the result of a Change.
type Result struct {
	// Errs has an element for each item: nil, or the reason why the item failed.
	Errs []error
	// Before and After are the states just before and after the change. After does not include later changes by others.
	Before, After States
}

// Change changes a mail file in one update. It calls fn for each of n items; the changes of one item take effect
// completely or not at all. An error from fn concerns its item only, see store.EachItem. If Change itself returns an
// error, nothing has changed. If an item fails after it has changed something, the update starts again without it, so
// Change may call fn for an item more than once.
func (f *File) Change(ctx context.Context, n int, fn func(c *Changing, i int) error) (Result, error) {
	return f.change(ctx, nil, n, func(c, _ *Changing, i int) error { return fn(c, i) })
}

// ChangeFrom is like Change, with a second mail file from which fn copies or moves messages.
func (f *File) ChangeFrom(ctx context.Context, other *File, n int,
	fn func(c, from *Changing, i int) error) (Result, error) {
	return f.change(ctx, other, n, fn)
}

func (f *File) change(ctx context.Context, other *File, n int,
	fn func(c, from *Changing, i int) error) (Result, error) {
	out := Result{Errs: make([]error, n)}
	ids := []note.DatabaseID{f.db}
	if other != nil && other.db != f.db {
		ids = append(ids, other.db)
	}
	for {
		var w *store.Writer
		var before latest
		err := f.svc.store.Update(ctx, f.who, ids, func(tx *store.Tx) (err error) {
			if w, err = tx.Home(f.db); err != nil {
				return err
			}
			c := newChanging(f, w)
			from := c
			if other != nil {
				ow, err := tx.Home(other.db)
				if err != nil {
					return err
				}
				from = newChanging(other, ow)
			}
			if before, err = f.svc.latestAt(&w.Reader); err != nil {
				return err
			}
			out.Before = before.states(w.Counters(), accessOf(&w.Reader, &f.who))
			c.Before = out.Before
			return each(&out, c, from, fn)
		})
		if errors.Is(err, store.ErrRestart) {
			continue
		}
		if err != nil {
			return out, err
		}
		out.After, err = f.after(ctx, w, before)
		return out, err
	}
}

func newChanging(f *File, w *store.Writer) *Changing {
	d := f.reading(&w.Reader)
	d.w = w
	return &Changing{Reading: d, w: w}
}

// each calls fn for the items that have not failed yet.
func each(out *Result, c, from *Changing, fn func(c, from *Changing, i int) error) error {
	return store.EachItem(out.Errs, func(i int) (bool, error) {
		c.touched, from.touched = false, false
		c.Calls++
		err := fn(c, from, i)
		return c.touched || from.touched, err
	})
}

// after returns the states just after an update, without the changes that others made since.
func (f *File) after(ctx context.Context, w *store.Writer, l latest) (States, error) {
	c := w.Counters()
	if c.Ledger.Last == l.last {
		return l.states(c, accessOf(&w.Reader, &f.who)), nil
	}
	err := f.read(context.WithoutCancel(ctx), func(r *store.Reader) error { return l.forward(r, c.Ledger.Last) })
	return l.states(c, accessOf(&w.Reader, &f.who)), err
}

// folderOf returns the folder with a UNID, including folders created by this update.
func (c *Changing) folderOf(u note.UNID) (*layout.Folder, error) {
	for _, h := range c.r.AllFolders() {
		if h.UNID == u && ofMail(h) && c.r.FolderRights(h)&note.Lookup != 0 {
			return h, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoFolder, u)
}

// FolderAt returns a folder by UNID, its parent and its name below that parent. parent is the nearest folder above that
// the person may look up; it is zero at the top level.
func (c *Changing) FolderAt(u note.UNID) (f Folder, parent note.UNID, name string, err error) {
	h, err := c.folderOf(u)
	if err != nil {
		return f, parent, "", err
	}
	name = h.Name
	for cut := strings.LastIndexByte(h.Name, '/'); cut > 0; cut = strings.LastIndexByte(h.Name[:cut], '/') {
		if above, err := named(c.r, h.Name[:cut]); err == nil {
			parent, name = above.UNID, h.Name[cut+1:]
			break
		}
	}
	return c.f.folder(c.r, h), parent, name, nil
}

// SetKeyword sets or clears a keyword, given in canonical spelling. Seen is set for the person only.
func (c *Changing) SetKeyword(id note.ID, keyword string, on bool) error {
	row, err := c.w.Note(id)
	if err != nil {
		return err
	}
	if keyword == Seen {
		if row.SeenBy(c.who.Person) == on {
			return nil
		}
		err = c.w.SetSeen(id, c.who.Person, on)
	} else {
		if hasKeyword(row, keyword) == on {
			return nil
		}
		if err = checkKeyword(row, keyword, on); err != nil {
			return err
		}
		err = c.w.SetKeyword(id, keyword, on)
	}
	c.touched = c.touched || err == nil
	return err
}

func hasKeyword(n *layout.Note, keyword string) bool {
	v, _ := n.State.Get(note.Keyword, keyword)
	return v == note.On
}

func checkKeyword(n *layout.Note, keyword string, on bool) error {
	if !on {
		return nil
	}
	if len(keyword) > maxKeyword || !mayRemember(n, keyword) {
		return fmt.Errorf("%w: a keyword has at most %d letters, and a message remembers at most %d", ErrBadFlag,
			maxKeyword, maxRemembered)
	}
	set := 0
	for range n.Keywords {
		set++
	}
	if set >= maxKeywords {
		return fmt.Errorf("%w: more than %d on one message", ErrBadFlag, maxKeywords)
	}
	return nil
}

// dropFrom removes a message from a folder, if it was there before the change. row is the note before the change.
func (c *Changing) dropFrom(id note.ID, row *layout.Note, folder note.UNID) error {
	h, err := c.folderOf(folder)
	if err != nil {
		return err
	}
	if _, in := row.Member(h.Note); !in {
		return nil
	}
	if !c.mayRemove(row, h) {
		return store.ErrDenied
	}
	now, err := c.w.Note(id)
	if err != nil {
		return err
	}
	if len(now.Members) == 1 {
		return ErrHomeless
	}
	err = c.w.RemoveFrom(id, h.Note)
	c.touched = c.touched || err == nil
	return err
}

// SetFolders adds a message to the folders in add and removes it from those in drop. It returns ErrHomeless if the
// person would no longer see the message in any folder.
func (c *Changing) SetFolders(id note.ID, add, drop []note.UNID) error {
	row, err := c.w.Note(id)
	if err != nil {
		return err
	}
	for _, u := range add {
		if err := c.addTo(id, u); err != nil {
			return err
		}
	}
	for _, u := range drop {
		if err := c.dropFrom(id, row, u); err != nil {
			return err
		}
	}
	now, err := c.w.Note(id)
	switch {
	case err != nil:
		return err
	case !c.visible(now):
		return ErrHomeless
	case len(now.Members) > MaxFolders && len(add) > 0:
		return ErrManyFolders
	}
	return nil
}

// mayRemove reports whether the person may remove a message from a folder. That needs the right to mark it \Deleted
// there and the right to expunge it.
func (c *Changing) mayRemove(row *layout.Note, h *layout.Folder) bool {
	if c.who.System {
		return true
	}
	g := c.r.FolderRights(h)
	const both = note.DeleteMark | note.Expunge
	return g&both == both || g&note.ExpungeOwn != 0 && !row.Author.IsZero() && row.Author == c.who.Person
}

// addTo adds a message to a folder. If the message is already there and marked \Deleted, addTo clears the mark.
func (c *Changing) addTo(id note.ID, u note.UNID) error {
	h, err := c.folderOf(u)
	if err != nil {
		return err
	}
	_, err = c.w.AddTo(id, h.Note)
	if errors.Is(err, store.ErrExists) {
		err = c.w.MarkDeleted(id, h.Note, false)
	}
	c.touched = c.touched || err == nil
	return err
}

// Destroy deletes a message from all folders. The message can be recovered: see Recover.
func (c *Changing) Destroy(id note.ID) error {
	kept, err := retire(c, id)
	if err == nil && !kept {
		err = c.w.Destroy(id)
	}
	return err
}

// Create stores a message and returns its UNID.
func (c *Changing) Create(m *Imported) (note.UNID, error) {
	n := m.Composed.New(m.Received)
	if len(m.Folders) > MaxFolders {
		return note.UNID{}, ErrManyFolders
	}
	may := note.Rights(note.All)
	for _, u := range m.Folders {
		h, err := c.folderOf(u)
		if err != nil {
			return note.UNID{}, err
		}
		n.Folders = append(n.Folders, h.Note)
		if err := roomIn(c.r, &c.who, h, 0); errors.Is(err, store.ErrDenied) {
			return note.UNID{}, err // check rights before the quota
		}
		may &= c.r.FolderRights(h)
	}
	if err := c.take(m.Composed.message.Size); err != nil {
		return note.UNID{}, err
	}
	if len(n.Folders) == 0 {
		return note.UNID{}, ErrHomeless
	}
	fl := m.Flags
	if !c.who.System {
		fl = fl.permitted(may)
	}
	n.Keywords = fl.Keywords
	if fl.Seen {
		n.SeenBy = []note.UNID{c.who.Person}
	}
	id, err := c.w.Create(n)
	if err != nil {
		return note.UNID{}, err
	}
	c.touched = true
	row, err := c.w.Note(id)
	if err != nil {
		return note.UNID{}, err
	}
	return row.UNID, nil
}

// take checks the quota for size more bytes, and counts them as added by this update.
func (c *Changing) take(size uint64) error {
	if err := CheckQuota(c.r, c.added+size); err != nil {
		return err
	}
	c.added += size
	return nil
}

// Copy copies a message from another mail file, as a new note. It keeps the UNID if that is not in use here.
func (c *Changing) Copy(from *Changing, id note.ID, folders []note.UNID, fl Flags,
	received time.Time) (note.UNID, error) {
	n, err := from.w.Note(id)
	if err != nil {
		return note.UNID{}, err
	}
	if len(folders) == 0 {
		return note.UNID{}, ErrHomeless
	}
	h, err := c.folderOf(folders[0])
	if err == nil {
		err = roomIn(c.r, &c.who, h, c.added+n.Size)
	}
	if err != nil {
		return note.UNID{}, err
	}
	unid := n.UNID
	switch _, err := c.find(unid); {
	case err == nil, errors.Is(err, store.ErrGrave):
		unid = note.UNID{}
	case !errors.Is(err, store.ErrNotFound):
		return note.UNID{}, err
	}
	copied, err := c.w.CopyNote(from.w, id, h.Note, unid)
	if err != nil {
		return note.UNID{}, err
	}
	c.added += n.Size
	c.touched = true
	if err := c.w.SetDate(copied, received.Unix()); err != nil {
		return note.UNID{}, err
	}
	for _, u := range folders[1:] {
		if err := c.addTo(copied, u); err != nil {
			return note.UNID{}, err
		}
	}
	row, err := c.w.Note(copied)
	if err != nil {
		return note.UNID{}, err
	}
	return row.UNID, c.setFlags(copied, fl)
}

// setFlags replaces the flags of a message that the person created. It skips flags that the person may not set.
func (c *Changing) setFlags(id note.ID, fl Flags) error {
	row, err := c.w.Note(id)
	if err != nil {
		return err
	}
	set := func(keyword string, on bool) error {
		if err := c.SetKeyword(id, keyword, on); err != nil && !errors.Is(err, store.ErrDenied) {
			return err
		}
		return nil
	}
	err = set(Seen, fl.Seen)
	for k := range row.Keywords {
		if !slices.Contains(fl.Keywords, k) {
			err = errors.Join(err, set(k, false))
		}
	}
	for _, k := range fl.Keywords {
		err = errors.Join(err, set(k, true))
	}
	return err
}

// parentPath returns the full name of a parent folder followed by the separator, or "" at the top level.
func (c *Changing) parentPath(parent note.UNID) (string, error) {
	if parent.IsZero() {
		return "", nil
	}
	h, err := c.folderOf(parent)
	if err != nil {
		return "", err
	}
	return h.Name + "/", nil
}

// path returns the full name of a folder with the given name below a parent. A zero parent is the top level.
func (c *Changing) path(parent note.UNID, name string) (string, error) {
	if strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: it holds a slash", ErrBadName)
	}
	above, err := c.parentPath(parent)
	if err != nil {
		return "", err
	}
	return Normalize(above + name)
}

// Taken is the error for a name that another folder already has, if the person may look that folder up. It wraps
// ErrFolderExists.
type Taken struct {
	Name string
	UNID note.UNID // of the folder that has the name
}

func (t *Taken) Error() string { return ErrFolderExists.Error() + ": " + t.Name }

// Unwrap returns ErrFolderExists.
func (t *Taken) Unwrap() error { return ErrFolderExists }

// free returns an error if a folder has the full name already.
func (c *Changing) free(full string) error {
	h, err := named(c.r, full)
	switch {
	case err != nil:
		return nil
	case c.r.FolderRights(h)&note.Lookup == 0:
		return fmt.Errorf("%w: %s", ErrFolderExists, full)
	}
	return &Taken{full, h.UNID}
}

// CreateFolder creates a folder. use is its special use (RFC 6154) or "".
func (c *Changing) CreateFolder(parent note.UNID, name, use string, subscribed bool) (note.UNID, error) {
	full, err := c.path(parent, name)
	if err != nil {
		return note.UNID{}, err
	}
	if err := c.free(full); err != nil {
		return note.UNID{}, err
	}
	if len(c.r.AllFolders()) >= maxFolders {
		return note.UNID{}, fmt.Errorf("%w: a mail file holds at most %d folders", ErrOverQuota, maxFolders)
	}
	if err := c.freeUse(use); err != nil {
		return note.UNID{}, err
	}
	id, err := c.w.CreateFolder(full, use)
	if errors.Is(err, store.ErrExists) {
		err = fmt.Errorf("%w: %s", ErrFolderExists, full)
	}
	if err != nil {
		return note.UNID{}, err
	}
	c.touched = true
	h, err := c.r.Folder(id)
	if err != nil {
		return note.UNID{}, err
	}
	if err := resubscribe(c.w, id, full); err != nil {
		return note.UNID{}, err
	}
	if !c.who.Person.IsZero() {
		err = c.w.Subscribe(id, c.who.Person, subscribed)
	}
	return h.UNID, err
}

func (c *Changing) freeUse(use string) error {
	if use == "" {
		return nil
	}
	if strings.EqualFold(use, Inbox) || slices.ContainsFunc(c.r.AllFolders(),
		func(h *layout.Folder) bool { return strings.EqualFold(h.SpecialUse, use) }) {
		return ErrRole
	}
	return nil
}

// MoveFolder renames a folder or moves it to another parent, together with the folders below it.
func (c *Changing) MoveFolder(u, parent note.UNID, name string) error {
	h, err := c.folderOf(u)
	if err != nil {
		return err
	}
	from := h.Name
	to, err := c.path(parent, name)
	switch {
	case err != nil || to == from:
		return err
	case from == Inbox:
		return fmt.Errorf("%w: INBOX keeps its name", store.ErrDenied)
	case strings.HasPrefix(to, from+"/"):
		return fmt.Errorf("%w: a folder cannot move into itself", ErrBadName)
	}
	if err := c.free(to); err != nil {
		return err
	}
	if !c.w.MayCreateFolder(to) {
		return store.ErrDenied
	}
	for _, x := range slices.Clone(c.r.AllFolders()) {
		if x.Name != from && !strings.HasPrefix(x.Name, from+"/") {
			continue
		}
		full, err := Normalize(to + x.Name[len(from):])
		if err != nil {
			return err
		}
		if err := c.w.RenameFolder(x.Note, full); err != nil {
			return err
		}
		if err := resubscribe(c.w, x.Note, full); err != nil {
			return err
		}
		c.touched = true
	}
	return nil
}

// Subscribe subscribes the person to a folder, or unsubscribes them.
func (c *Changing) Subscribe(u note.UNID, on bool) error {
	h, err := c.folderOf(u)
	if err != nil {
		return err
	}
	err = c.w.Subscribe(h.Note, c.who.Person, on)
	c.touched = c.touched || err == nil
	return err
}

// SetUse sets the special use of a folder; "" removes it.
func (c *Changing) SetUse(u note.UNID, use string) error {
	h, err := c.folderOf(u)
	if err != nil || strings.EqualFold(h.SpecialUse, use) {
		return err
	}
	if err := c.freeUse(use); err != nil {
		return err
	}
	if h.Name == Inbox {
		return ErrRole
	}
	err = c.w.SetSpecialUse(h.Note, use)
	c.touched = c.touched || err == nil
	return err
}

// SetFolderItem sets an item of a folder's note; "" removes it.
func (c *Changing) SetFolderItem(u note.UNID, item, value string) error {
	h, err := c.folderOf(u)
	if err != nil {
		return err
	}
	var v note.Value
	if value != "" {
		v = note.Text(value)
	}
	err = c.w.SetFolderItem(h.Note, item, v, note.Write)
	c.touched = c.touched || err == nil
	return err
}

// DeleteFolder deletes a folder. It returns ErrHasEmail if the folder holds messages, unless withEmail is set.
func (c *Changing) DeleteFolder(u note.UNID, withEmail bool) error {
	h, err := c.folderOf(u)
	switch {
	case err != nil:
		return err
	case h.Name == Inbox:
		return fmt.Errorf("%w: INBOX cannot be deleted", store.ErrDenied)
	case !withEmail && h.Total > h.Deleted:
		return ErrHasEmail
	}
	if !c.who.Person.IsZero() {
		// In JMAP, isSubscribed is a property of the folder and is deleted with it. (IMAP subscriptions outlive the
		// folder.)
		if err := c.w.Subscribe(h.Note, c.who.Person, false); err != nil {
			return err
		}
	}
	large, err := c.f.deleteSmall(c.w, h.Name)
	if err == nil && large != 0 {
		return ErrLarge
	}
	c.touched = true // it may have removed something before it failed
	return err
}
