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

// Reading is one moment of a mail file, over all its folders, as one person sees it: what JMAP shows. It is valid during
// the call that it is passed to. Messages marked \Deleted are not in a folder here: JMAP knows no such mark
// (RFC 8621 section 4.1.1).
type Reading struct {
	f       *File
	r       *store.Reader
	who     note.Who
	scratch []byte
	email   Email
	// heads are the folders that the person may read, where the reader itself is somebody else.
	heads map[note.ID]note.UNID
	// w is the update that this is of, if it is of one.
	w *store.Writer
}

// Read calls fn with the mail file as of now.
func (f *File) Read(ctx context.Context, fn func(*Reading) error) error {
	return f.read(ctx, func(r *store.Reader) error { return fn(f.reading(r)) })
}

func (f *File) reading(r *store.Reader) *Reading { return &Reading{f: f, r: r, who: f.who} }

// States are the states of what there is.
func (d *Reading) States() (States, error) { return d.f.svc.states(d.r, &d.who) }

// Person is who reads.
func (d *Reading) Person() note.UNID { return d.who.Person }

// Usage is what the mail file holds and may hold; store.ErrDenied: the person is not to know.
func (d *Reading) Usage() (Usage, error) {
	if d.r.Rights()&(note.Read|note.Administer) == 0 {
		return Usage{}, store.ErrDenied
	}
	return Usage{d.r.Counters().Size, d.r.Info().Quota}, nil
}

// Rights are those that the mail file's own list grants.
func (d *Reading) Rights() note.Rights { return d.r.Rights() }

// Find gives the note id of a message. ErrNoMessage: there is none, or none that the person may read.
func (d *Reading) Find(u note.UNID) (note.ID, error) {
	id, err := d.find(u)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return 0, ErrNoMessage
	}
	return id, err
}

// find finds a note, one that the update has made too.
func (d *Reading) find(u note.UNID) (note.ID, error) {
	if d.w != nil {
		if id, ok := d.w.Made(u); ok {
			return id, nil
		}
	}
	return d.r.Find(u)
}

// Email is a message, wherever it is in the mail file. It is valid until the next one is read; what Body returns stays
// valid as long as the message is there.
type Email struct {
	ID      note.ID
	d       *Reading
	row     *layout.Note
	summary []byte
}

// Email reads a message's row. ErrNoMessage: there is none that the person may see.
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

// readable is a folder's head, nil where the person may not read there.
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

// UNID names the message.
func (m *Email) UNID() note.UNID { return m.row.UNID }

// Thread names the thread.
func (m *Email) Thread() note.UNID { return m.row.Thread }

// Size is the message's size in bytes.
func (m *Email) Size() uint64 { return m.row.Size }

// Received is the INTERNALDATE in Unix seconds.
func (m *Email) Received() int64 { return m.row.Date }

// Seen reports whether the person has seen the message.
func (m *Email) Seen() bool { return m.row.SeenBy(m.d.who.Person) }

// Keywords yields the keywords that are set, in canonical spelling, \Seen aside.
func (m *Email) Keywords(yield func(string) bool) { m.row.Keywords(yield) }

// Folders yields the folders that show the message to the person.
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

// Envelope is the ENVELOPE as IMAP prints it.
func (m *Email) Envelope() ([]byte, error) { return m.field(fieldEnvelope) }

// Structure is the extensible BODYSTRUCTURE as IMAP prints it.
func (m *Email) Structure() ([]byte, error) { return m.field(fieldStructure) }

// Index tells where the parts are.
func (m *Email) Index() (mime.Index, error) {
	b, err := m.field(fieldIndex)
	return mime.Index(b), err
}

// Preview is the beginning of the text.
func (m *Email) Preview() ([]byte, error) { return m.field(fieldPreview) }

// Attached reports whether the message has attachments that a program would list.
func (m *Email) Attached() (bool, error) { return attached(m.field) }

// attached reads whether there are attachments; messages of older versions have it worked out from their structure.
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

// Body opens the message's bytes.
func (m *Email) Body() (*store.Stored, error) { return m.d.r.Message(m.row) }

// ThreadOf lists the messages of a thread that the person may see, in order of date; nil where there is none.
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

// Folders lists the folders that the person may look up, by name, parents before children.
func (d *Reading) Folders() []Folder {
	heads := d.r.Folders()
	out := make([]Folder, 0, len(heads))
	for _, h := range heads {
		if h.Name[0] != doomed[0] {
			out = append(out, d.f.folder(d.r, h))
		}
	}
	slices.SortFunc(out, func(a, b Folder) int { return compareNames(a.Name, b.Name) })
	return out
}

// FolderItem is an item of a folder's note; "" where it has none.
func (d *Reading) FolderItem(id note.ID, item string) (string, error) {
	items, err := d.r.FolderItems(id)
	if err != nil {
		return "", err
	}
	return items.Get(item).AsText(), nil
}

// Imported is a message that is to be stored in several folders.
type Imported struct {
	Composed *Composed
	Folders  []note.UNID
	Flags    Flags
	Received time.Time
}

// attachedIn works out from a structure whether there are attachments: parts that are not shown as the text, of a kind
// that no signature or picture of a newsletter has (RFC 8621 section 4.1.4, attachments without those that are inline).
func attachedIn(structure []byte) (bool, error) {
	// Most messages are one text: no parse is needed to see that.
	if bytes.HasPrefix(structure, []byte(`("text" "plain"`)) && !bytes.Contains(structure, []byte(`"attachment"`)) {
		return false, nil
	}
	root, err := imap.ParseBodyStructure(structure)
	if err != nil {
		return false, err
	}
	return HasAttachment(root), nil
}
