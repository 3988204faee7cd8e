// Package mailbox presents a mail file to clients: folders, UIDs, flags, threads, quota and search. All protocols use
// it, so a change made through one protocol has the same effect in the others.
package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/note"
	fulltext "doublet/search"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"

	"golang.org/x/text/unicode/norm"
)

// Errors that protocols distinguish, in addition to those of the store.
var (
	ErrNoFolder     = errors.New("no such folder")
	ErrFolderExists = errors.New("folder already exists")
	ErrHasChildren  = errors.New("folder has subfolders")
	ErrBadName      = errors.New("invalid folder name")
	ErrOverQuota    = errors.New("mail file is over its quota")
	ErrTooBig       = errors.New("message is larger than this server accepts")
	ErrBadMessage   = errors.New("message contains a NUL byte")
	ErrReadOnly     = errors.New("folder is open read-only")
	ErrFolderGone   = errors.New("folder was deleted")
)

// Kind is the database kind of a mail file.
const Kind = "mail"

// Limits on folders: bytes of a full name, levels in a name, and folders in a mail file.
const (
	MaxName    = 1000
	MaxLevels  = 20
	maxFolders = 10_000
)

// Options are the settings of the Service.
type Options struct {
	// MessageSize is the maximum size of a message, in bytes; 0 means 50 MB.
	MessageSize int
	// Limits bounds the parsing in Compose; a zero field uses the value of mime.DefaultLimits.
	Limits mime.Limits
	// RollMemory is the memory for the indexes of queries over whole mail files, in bytes; 0 means 128 MB. One mail
	// file may use at most half of it. A message needs about 60 bytes.
	RollMemory int64
	// KeepDeleted is the time for which a deleted message can be recovered; 0 means not at all.
	KeepDeleted time.Duration
}

// Service opens mail files.
type Service struct {
	store   *store.Store
	env     *env.Env
	opt     Options
	shares  shares
	recents store.Recents

	rolls   rolls
	latests latests
	uploads uploadBook
	search  atomic.Pointer[fulltext.Service]
}

// New returns the service over a store.
func New(s *store.Store, e *env.Env, o Options) *Service {
	if o.MessageSize == 0 {
		o.MessageSize = 50 << 20
	}
	if o.RollMemory == 0 {
		o.RollMemory = 128 << 20
	}
	return &Service{store: s, env: e, opt: o, recents: store.NewRecents(s)}
}

// MessageSize returns the maximum size of a message, in bytes.
func (s *Service) MessageSize() int { return s.opt.MessageSize }

// Make creates a mail file with its standard folders, and makes its owner a manager of it.
func (s *Service) Make(ctx context.Context, owner note.UNID, title string, quota,
	warning uint64) (note.DatabaseID, error) {
	acl := note.ACL{Default: note.NoAccess}
	if !owner.IsZero() {
		acl = acl.With(note.Entry{ID: owner, Level: note.Manager})
	}
	id, err := s.store.CreateDatabase(note.System, store.Create{
		Title: title, Kind: Kind, Owner: owner, Quota: quota, Warning: warning, ACL: acl,
	})
	if err != nil {
		return 0, fmt.Errorf("make mail file: %w", err)
	}
	err = s.store.Update(ctx, note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		w, err := tx.Home(id)
		if err != nil {
			return err
		}
		return CreateStandard(w, owner)
	})
	return id, err
}

// handle reads and changes one mail file as one person. It knows its folders by their ids.
type handle struct {
	svc *Service
	who note.Who
	db  note.DatabaseID
	// bin is set for a handle of File.Bin.
	bin bool
}

// namespace knows the folders of a mail file by the names under which the person sees them (RFC 2342).
type namespace struct {
	handle
	// prefix precedes the names of folders; it is "" for the person's own mail file.
	prefix string
}

// File is a mail file as one person sees it. It holds the operations on folders by name and on messages.
type File struct {
	namespace
}

// File returns a handle for a mail file. The handle needs no closing.
func (s *Service) File(who note.Who, db note.DatabaseID) *File {
	return s.SharedFile(who, db, "")
}

// Who returns the person for whom the file was opened.
func (hd *handle) Who() note.Who { return hd.who }

// Renew replaces the person's data, for the same person, after the directory changed. It also applies to open views.
func (hd *handle) Renew(who note.Who) { hd.who = who }

// Database returns the id of the mail file.
func (hd *handle) Database() note.DatabaseID { return hd.db }

// Watch calls fn after each durable change in the mail file, until stop is called. fn must not block.
func (hd *handle) Watch(fn func()) (stop func(), err error) { return hd.svc.store.Watch(hd.db, fn) }

// Folder is a folder as shown in a list.
type Folder struct {
	ID               note.ID
	UNID             note.UNID
	Name, SpecialUse string
	Subscribed       bool
	HasChildren      bool
	// Gone reports that the folder does not exist: it is listed because of a subscription, or a folder below it.
	Gone          bool
	UIDValidity   uint32
	UIDNext       uint32
	Total         uint32
	Unseen        uint32
	Deleted       uint32
	Size          uint64
	HighestModSeq uint64
	Rights        note.Rights
	// Keywords lists keywords that messages in the folder have had, in canonical spelling, sorted. Callers must not
	// modify it.
	Keywords []string

	inbox bool // the INBOX of its mail file
}

func (ns *namespace) folder(r *store.Reader, h *layout.Folder) Folder {
	out := Folder{
		ID: h.Note, UNID: h.UNID, Name: ns.prefix + h.Name, SpecialUse: ns.use(h),
		Subscribed:  slices.Contains(h.Subscribed, ns.who.Person),
		UIDValidity: h.UIDValidity, UIDNext: h.UIDNext, Total: h.Total,
		Unseen: h.Total - min(h.Total, layout.SeenBy(h.Seen, ns.who.Person)), Deleted: h.Deleted, Size: h.Size,
		HighestModSeq: uint64(max(h.Mod, 1)), Rights: r.FolderRights(h),
		Keywords: h.Keywords, inbox: h.Name == Inbox,
	}
	if ns.bin {
		out.Name, out.Rights, out.Deleted = binName(h), note.Lookup|note.Read, 0
	}
	return out
}

// Normalize returns the canonical form of a folder name: NFC, with INBOX in capitals. It returns ErrBadName for a name
// that is not allowed.
func Normalize(name string) (string, error) {
	name = norm.NFC.String(name)
	first, rest, deeper := strings.Cut(name, "/")
	if strings.EqualFold(first, Inbox) {
		name = Inbox
		if deeper {
			name += "/" + rest
		}
	}
	if len(name) > MaxName || strings.Count(name, "/") >= MaxLevels {
		return "", fmt.Errorf("%w: longer than %d bytes or deeper than %d levels", ErrBadName, MaxName, MaxLevels)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("%w: an empty level", ErrBadName)
		}
	}
	if strings.ContainsFunc(name, isControl) {
		return "", fmt.Errorf("%w: it holds a control character", ErrBadName)
	}
	return name, nil
}

// isControl reports whether a folder name cannot contain c (RFC 5198 section 2).
func isControl(c rune) bool {
	return c < 0x20 || c == 0x7f || c == 0xfffd || c >= 0x80 && c < 0xa0 || c == 0x2028 || c == 0x2029
}

func (hd *handle) read(ctx context.Context, fn func(*store.Reader) error) error {
	if hd.bin {
		return hd.readBin(ctx, fn)
	}
	return hd.svc.store.Read(ctx, hd.who, hd.db, fn)
}

func (hd *handle) update(ctx context.Context, fn func(*store.Writer) error) error {
	if hd.bin {
		return ErrRecoverOnly
	}
	return hd.svc.store.Update(ctx, hd.who, []note.DatabaseID{hd.db}, func(tx *store.Tx) error {
		w, err := tx.Home(hd.db)
		if err != nil {
			return err
		}
		return fn(w)
	})
}

// Folders returns the folders that the person may look up, sorted by name, parents before children.
func (f *File) Folders(ctx context.Context) ([]Folder, error) {
	var out []Folder
	err := f.read(ctx, func(r *store.Reader) error {
		for _, h := range f.shown(r) {
			if f.bin || ofMail(h) {
				out = append(out, f.folder(r, h))
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Folder) int { return compareNames(a.Name, b.Name) })
	for i := range out {
		if i+1 < len(out) {
			out[i].HasChildren = strings.HasPrefix(out[i+1].Name, out[i].Name+"/")
		}
	}
	return out, err
}

// compareNames compares folder names. INBOX and its children come first, and "/" sorts before all other characters, so
// that children follow their parent.
func compareNames(a, b string) int {
	if inA, inB := inInbox(a), inInbox(b); inA != inB {
		if inA {
			return -1
		}
		return 1
	}
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

func inInbox(name string) bool { return name == Inbox || strings.HasPrefix(name, Inbox+"/") }

// Folder returns the folder with the given name.
func (f *File) Folder(ctx context.Context, name string) (Folder, error) {
	var out Folder
	err := f.read(ctx, func(r *store.Reader) error {
		h, err := f.named(r, name)
		if err != nil {
			return err
		}
		out = f.folder(r, h)
		for _, o := range r.Folders() {
			out.HasChildren = out.HasChildren || strings.HasPrefix(o.Name, h.Name+"/")
		}
		return nil
	})
	return out, err
}

// named finds a folder by its name, including the prefix.
func (ns *namespace) named(r *store.Reader, name string) (*layout.Folder, error) {
	if ns.bin {
		return ns.binNamed(r, name)
	}
	name, err := ns.local(name)
	if err != nil {
		return nil, err
	}
	return named(r, name)
}

// local removes the prefix from a name. After a prefix it also normalizes the name, so that INBOX matches in any case.
func (ns *namespace) local(name string) (string, error) {
	if ns.prefix == "" {
		return name, nil
	}
	name, ok := strings.CutPrefix(name, ns.prefix)
	if !ok || name == "" {
		return "", fmt.Errorf("%w: %s", ErrNoFolder, name)
	}
	return Normalize(name)
}

// use returns the special use of a folder. In other people's mail files there is none: a special use concerns its owner
// only.
func (ns *namespace) use(h *layout.Folder) string {
	if ns.prefix != "" {
		return ""
	}
	return h.SpecialUse
}

func named(r *store.Reader, name string) (*layout.Folder, error) {
	h, err := r.FolderNamed(name)
	if errors.Is(err, store.ErrNotFound) || err == nil && !ofMail(h) {
		return nil, fmt.Errorf("%w: %s", ErrNoFolder, name)
	}
	return h, err
}

// Create creates a folder and its missing parents. It subscribes only the people who were subscribed to an earlier
// folder of that name.
func (f *File) Create(ctx context.Context, name, specialUse string) (Folder, error) {
	full := strings.TrimSuffix(name, "/")
	name, err := f.local(full)
	if err == nil {
		name, err = Normalize(name)
	}
	if err != nil {
		return Folder{}, err
	}
	err = f.update(ctx, func(w *store.Writer) error {
		if _, err := named(&w.Reader, name); err == nil {
			return fmt.Errorf("%w: %s", ErrFolderExists, name)
		}
		if len(w.AllFolders()) >= maxFolders {
			return fmt.Errorf("%w: a mail file holds at most %d folders", ErrOverQuota, maxFolders)
		}
		if err := f.createParents(w, name); err != nil {
			return err
		}
		return f.create(w, name, specialUse)
	})
	if err == nil {
		err = partly(f.resubscribed(ctx, name), true)
	}
	if err != nil {
		return Folder{}, err
	}
	return f.Folder(ctx, f.prefix+name)
}

// resubscribed is resubscribe for other people's mail files.
func (f *File) resubscribed(ctx context.Context, name string) error {
	return f.elsewhere(ctx, func(w *store.Writer) error {
		h, err := named(&w.Reader, name)
		if err != nil {
			return nil // gone already
		}
		return resubscribe(w, h.Note, name)
	})
}

func (f *File) createParents(w *store.Writer, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if _, err := named(&w.Reader, name[:i]); err == nil {
			continue
		}
		if err := f.create(w, name[:i], ""); err != nil {
			return err
		}
	}
	return nil
}

func (hd *handle) create(w *store.Writer, name, specialUse string) error {
	id, err := w.CreateFolder(name, specialUse)
	if errors.Is(err, store.ErrExists) {
		return fmt.Errorf("%w: %s", ErrFolderExists, name)
	}
	if err != nil {
		return err
	}
	return resubscribe(w, id, name)
}

// Rename renames a folder, and the folders below it. Renaming INBOX moves its messages into a new folder and leaves
// INBOX empty (RFC 9051 section 6.3.6).
func (f *File) Rename(ctx context.Context, from, to string) error {
	to, err := f.local(strings.TrimSuffix(to, "/"))
	if err == nil {
		to, err = Normalize(to)
	}
	if err == nil {
		from, err = f.local(from)
	}
	if err != nil {
		return err
	}
	if to == from || strings.HasPrefix(to, from+"/") && from != Inbox {
		return fmt.Errorf("%w: %s is a subfolder of %s", ErrFolderExists, to, from)
	}
	if from == Inbox {
		return f.renameInbox(ctx, to)
	}
	err = f.update(ctx, func(w *store.Writer) error {
		if _, err := named(&w.Reader, from); err != nil {
			return err
		}
		if _, err := named(&w.Reader, to); err == nil {
			return fmt.Errorf("%w: %s", ErrFolderExists, to)
		}
		if err := f.createParents(w, to); err != nil {
			return err
		}
		if !w.MayCreateFolder(to) {
			return store.ErrDenied
		}
		return renameTree(w, from, to)
	})
	if err != nil {
		return err
	}
	return partly(f.resubscribed(ctx, to), true)
}

// renameTree renames a folder and the folders below it. It also renames those that the writer may not look up, which
// would otherwise lose their parent; without the right to rename them it fails.
func renameTree(w *store.Writer, from, to string) error {
	for _, c := range slices.Clone(w.AllFolders()) {
		if c.Name != from && !strings.HasPrefix(c.Name, from+"/") {
			continue
		}
		name := to + c.Name[len(from):]
		if err := w.RenameFolder(c.Note, name); err != nil {
			return err
		}
		if err := resubscribe(w, c.Note, name); err != nil {
			return err
		}
	}
	return nil
}

// renameInbox moves the messages of INBOX into a new folder, in parts of batch messages. Messages that arrive meanwhile
// stay in INBOX. After the first part it ignores cancellation and finishes.
func (f *File) renameInbox(ctx context.Context, to string) error {
	var inbox, dest note.ID
	var next, end uint32 // UIDs
	more := false
	move := func(w *store.Writer) (err error) {
		from := next
		var ids []note.ID
		if err := w.Members(inbox, from, end, func(uid uint32, id note.ID) bool {
			ids, next = append(ids, id), uid+1
			return len(ids) < batch
		}); err != nil {
			return err
		}
		more = len(ids) == batch
		for i := 0; i < len(ids) && err == nil; i++ {
			err = f.transfer(w, ids[i], inbox, dest)
		}
		return err
	}
	err := f.update(ctx, func(w *store.Writer) error {
		h, err := named(&w.Reader, Inbox)
		if err != nil {
			return err
		}
		inbox, next, end = h.Note, 1, h.UIDNext
		if _, err := named(&w.Reader, to); err == nil {
			return fmt.Errorf("%w: %s", ErrFolderExists, to)
		}
		if err := f.createParents(w, to); err != nil {
			return err
		}
		if err := f.create(w, to, ""); err != nil {
			return err
		}
		d, err := named(&w.Reader, to)
		if err != nil {
			return err
		}
		dest = d.Note
		return move(w)
	})
	for ctx := context.WithoutCancel(ctx); more && err == nil; {
		err = partly(f.update(ctx, move), true)
	}
	return err
}

// transfer moves a note from one folder of the mail file to another.
func (hd *handle) transfer(w *store.Writer, id, from, to note.ID) error {
	if _, err := hd.addTo(w, id, to); err != nil {
		return err
	}
	return w.RemoveFrom(id, from)
}

// addTo adds a note to a folder. If the folder already holds it, addTo creates a copy with its own EMAILID.
func (hd *handle) addTo(w *store.Writer, id, folder note.ID) (uid uint32, err error) {
	uid, err = w.AddTo(id, folder)
	if !errors.Is(err, store.ErrExists) {
		return uid, err
	}
	copied, err := w.CopyNote(w, id, folder, note.UNID{})
	if err != nil {
		return 0, err
	}
	return w.UID(copied, folder), nil
}

// MayCreate reports whether the person may create folders at the top level.
func (hd *handle) MayCreate(ctx context.Context) (may bool, err error) {
	err = hd.read(ctx, func(r *store.Reader) error {
		may = r.Rights()&note.Create != 0
		return nil
	})
	return may, err
}

// roomIn checks the quota for a message to be added to a folder. It checks the person's rights first: without them it
// returns store.ErrDenied and does not reveal how full the mail file is.
func roomIn(r *store.Reader, who *note.Who, h *layout.Folder, more uint64) error {
	if !who.System && r.FolderRights(h)&(note.Insert|note.Post) == 0 {
		return store.ErrDenied
	}
	return CheckQuota(r, more)
}

// CheckQuota returns ErrOverQuota if a mail file has no room for more bytes.
func CheckQuota(r *store.Reader, more uint64) error {
	info := r.Info()
	if info.Quota == 0 {
		return nil
	}
	if used := Used(r); used+more > info.Quota {
		return fmt.Errorf("%w: %d of %d bytes are used", ErrOverQuota, used, info.Quota)
	}
	return nil
}
