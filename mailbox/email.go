package mailbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// Reading is one moment of a mail file, with all its folders, as one person sees it. JMAP uses it. It is valid only
// during the call that it is passed to. A message marked \Deleted in a folder does not count as being in that folder,
// because JMAP has no such mark (RFC 8621 section 4.1.1).
type Reading struct {
	f       *File
	r       *store.Reader
	who     note.Who
	scratch []byte
	email   Email
	// heads holds the folders that the person may read; it is nil if the reader already has the person's rights.
	heads map[note.ID]note.UNID
	// w is the update that this Reading belongs to, or nil.
	w *store.Writer
}

// Read calls fn with the mail file as of now.
func (f *File) Read(ctx context.Context, fn func(*Reading) error) error {
	return f.read(ctx, func(r *store.Reader) error { return fn(f.reading(r)) })
}

func (f *File) reading(r *store.Reader) *Reading { return &Reading{f: f, r: r, who: f.who} }

// States returns the states of the mail file.
func (d *Reading) States() (States, error) { return d.f.svc.states(d.r, &d.who) }

// Person returns the person who reads.
func (d *Reading) Person() note.UNID { return d.who.Person }

// Usage returns the size and the quota of the mail file, or store.ErrDenied if the person may not know them.
func (d *Reading) Usage() (Usage, error) {
	if d.r.Rights()&(note.Read|note.Administer) == 0 {
		return Usage{}, store.ErrDenied
	}
	return Usage{Used(d.r), d.r.Info().Quota}, nil
}

// Rights returns the rights that the mail file's own ACL grants.
func (d *Reading) Rights() note.Rights { return d.r.Rights() }

// Find returns the note id of a message. It returns ErrNoMessage if there is none, or none that the person may read.
func (d *Reading) Find(u note.UNID) (note.ID, error) {
	id, err := d.find(u)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return 0, ErrNoMessage
	}
	return id, err
}

// find finds a note by UNID, including notes created by the current update.
func (d *Reading) find(u note.UNID) (note.ID, error) {
	if d.w != nil {
		if id, ok := d.w.Made(u); ok {
			return id, nil
		}
	}
	return d.r.Find(u)
}

// Email is a message, in any folder of the mail file. It is valid until the next one is read. The result of Body stays
// valid while the message exists.
type Email struct {
	ID      note.ID
	d       *Reading
	row     *layout.Note
	summary []byte
}

// Email reads a message's row. It returns ErrNoMessage if there is none that the person may see.
func (d *Reading) Email(id note.ID) (*Email, error) {
	row, err := d.r.Note(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (!isMessage(row) || !d.visible(row)) {
		return nil, ErrNoMessage
	}
	if err != nil {
		return nil, err
	}
	d.email = Email{ID: id, d: d, row: row}
	return &d.email, nil
}

// EmailOf reads a message by UNID.
func (d *Reading) EmailOf(u note.UNID) (*Email, error) {
	id, err := d.Find(u)
	if err != nil {
		return nil, err
	}
	return d.Email(id)
}

// visible reports whether a message is in a folder that the person may read, and not marked \Deleted there.
func (d *Reading) visible(n *layout.Note) bool {
	for i := range n.Members {
		if m := &n.Members[i]; !m.Deleted && d.readable(m.Folder) != nil {
			return true
		}
	}
	return false
}

// readable returns a folder, or nil if the person may not read it.
func (d *Reading) readable(id note.ID) *layout.Folder {
	h, err := d.r.Folder(id)
	if d.heads != nil {
		if _, ok := d.heads[id]; !ok {
			return nil
		}
	}
	if err != nil || d.r.FolderRights(h)&note.Read == 0 {
		return nil
	}
	return h
}

// UNID returns the UNID of the message.
func (m *Email) UNID() note.UNID { return m.row.UNID }

// Thread returns the id of the thread.
func (m *Email) Thread() note.UNID { return m.row.Thread }

// Size returns the message's size in bytes.
func (m *Email) Size() uint64 { return m.row.Size }

// Received returns the INTERNALDATE in Unix seconds.
func (m *Email) Received() int64 { return m.row.Date }

// Seen reports whether the person has seen the message.
func (m *Email) Seen() bool { return m.row.SeenBy(m.d.who.Person) }

// Keywords yields the keywords that are set, in canonical spelling, without \Seen.
func (m *Email) Keywords(yield func(string) bool) { m.row.Keywords(yield) }

// Folders yields the folders in which the person sees the message.
func (m *Email) Folders(yield func(note.UNID) bool) {
	for i := range m.row.Members {
		x := &m.row.Members[i]
		if x.Deleted {
			continue
		}
		if h := m.d.readable(x.Folder); h != nil && !yield(h.UNID) {
			return
		}
	}
}

func (m *Email) field(want int) ([]byte, error) {
	if m.summary == nil {
		var err error
		if m.summary, err = m.d.r.Summary(m.d.scratch[:0], m.ID); err != nil {
			return nil, err
		}
		m.d.scratch = m.summary
	}
	return summaryField(m.summary, want)
}

// Envelope returns the ENVELOPE in IMAP syntax.
func (m *Email) Envelope() ([]byte, error) { return m.field(fieldEnvelope) }

// Structure returns the extensible BODYSTRUCTURE in IMAP syntax.
func (m *Email) Structure() ([]byte, error) { return m.field(fieldStructure) }

// Index returns the index of the parts.
func (m *Email) Index() (mime.Index, error) {
	b, err := m.field(fieldIndex)
	return mime.Index(b), err
}

// Preview returns the beginning of the text.
func (m *Email) Preview() ([]byte, error) { return m.field(fieldPreview) }

// Attached reports whether the message has attachments that a client would list.
func (m *Email) Attached() (bool, error) { return attached(m.field) }

// attached reads the stored flag. For messages of older versions it computes the flag from their structure.
func attached(field func(int) ([]byte, error)) (bool, error) {
	b, err := field(fieldAttached)
	if err != nil {
		return false, err
	}
	if len(b) == 1 {
		return b[0] != 0, nil
	}
	text, err := field(fieldStructure)
	if err != nil {
		return false, err
	}
	return attachedIn(text)
}

// Body opens the message's content.
func (m *Email) Body() (*store.Stored, error) { return m.d.r.Message(m.row) }

// ThreadOf returns the messages of a thread that the person may see, in order of date, or nil if there is none.
func (d *Reading) ThreadOf(thread note.UNID) ([]note.UNID, error) {
	ids, err := d.r.Thread(thread)
	if err != nil {
		return nil, err
	}
	type dated struct {
		date int64
		id   note.ID
		unid note.UNID
	}
	list := make([]dated, 0, len(ids))
	for _, id := range ids {
		row, err := d.r.Note(id)
		if err != nil {
			if err = ignoreGone(err); err != nil {
				return nil, err
			}
			continue
		}
		if isMessage(row) && d.visible(row) {
			list = append(list, dated{row.Date, id, row.UNID})
		}
	}
	slices.SortFunc(list, func(a, b dated) int { return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.id, b.id)) })
	var out []note.UNID
	for _, x := range list {
		out = append(out, x.unid)
	}
	return out, nil
}

// Folders returns the folders that the person may look up, sorted by name, parents before children.
func (d *Reading) Folders() []Folder {
	heads := d.r.Folders()
	out := make([]Folder, 0, len(heads))
	for _, h := range heads {
		if ofMail(h) {
			out = append(out, d.f.folder(d.r, h))
		}
	}
	slices.SortFunc(out, func(a, b Folder) int { return compareNames(a.Name, b.Name) })
	return out
}

// FolderItem returns an item of a folder's note, or "" if it does not exist.
func (d *Reading) FolderItem(id note.ID, item string) (string, error) {
	items, err := d.r.FolderItems(id)
	if err != nil {
		return "", err
	}
	return items.Get(item).AsText(), nil
}

// Imported is a message to be stored in one or more folders.
type Imported struct {
	Composed *Composed
	Folders  []note.UNID
	Flags    Flags
	Received time.Time
}

// attachedIn computes from a structure whether the message has attachments. Parts shown as the text do not count, nor
// do inline ones, such as the pictures of a newsletter (RFC 8621 section 4.1.4).
func attachedIn(structure []byte) (bool, error) {
	// Most messages are a single text: recognize it without parsing.
	if bytes.HasPrefix(structure, []byte(`("text" "plain"`)) && !bytes.Contains(structure, []byte(`"attachment"`)) {
		return false, nil
	}
	root, err := imap.ParseBodyStructure(structure)
	if err != nil {
		return false, err
	}
	return HasAttachment(root), nil
}
