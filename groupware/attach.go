package groupware

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Bounds of managed attachments: the size of one in bytes, and the number of one entry.
const (
	MaxAttachment  = 10 << 20
	MaxAttachments = 50
)

// Errors of managed attachments.
var (
	// ErrManagedID reports a MANAGED-ID that names no attachment which the person may read in the mail file.
	ErrManagedID = errors.New("no such managed attachment")
	// ErrAttachments reports an entry with more than MaxAttachments managed attachments.
	ErrAttachments = errors.New("entry has too many managed attachments")
)

// AttachmentPath begins the path of a managed attachment. Behind it stand the mail file, the MANAGED-ID and the name.
const AttachmentPath = "/dav/attachments/"

// managedPrefix begins the name of an attachment of a note that is a managed attachment of the entry. Its MANAGED-ID, a
// slash and the name of the file follow.
const managedPrefix = "Attachment/"

// Attachment is a managed attachment of an entry (RFC 8607). Its bytes are an attachment of the note of the entry. They
// never change: an update has another id.
type Attachment struct {
	ID     string // MANAGED-ID
	Name   string // of the file
	Type   string // media type
	Digest note.Digest
	Size   uint64

	object *store.Object // the bytes of an attachment that is new
}

// managed returns the managed attachments of a content.
func managed(c *note.Content) (list []Attachment) {
	for _, a := range c.Attachments {
		rest, is := strings.CutPrefix(a.Name, managedPrefix)
		if id, name, ok := strings.Cut(rest, "/"); is && ok {
			list = append(list, Attachment{ID: id, Name: name, Type: a.Type, Digest: a.Digest, Size: a.Size})
		}
	}
	return list
}

// total returns the size of attachments in bytes.
func total(list []Attachment) (n int) {
	for i := range list {
		n += int(list[i].Size)
	}
	return n
}

// Line returns the attachment as entries of a mail file name it.
func (a *Attachment) Line(f *File) calendar.Attachment {
	kind, _, _ := strings.Cut(a.Type, ";")
	return calendar.Attachment{ID: a.ID, URL: addressOf(f, a.ID, a.Name), Name: a.Name, Type: strings.TrimSpace(kind),
		Size: a.Size}
}

// addressOf returns the URL of a managed attachment of a mail file.
func addressOf(f *File, id, name string) string {
	return f.svc.origin + AttachmentPath + f.db.String() + "/" + url.PathEscape(id) + "/" + url.PathEscape(name)
}

// readdress sets the addresses of the managed attachments of the entry to those in a mail file, whatever the client
// wrote. It leaves alone those that neither the mail file nor another one here has. Errors match ErrAttachments.
func (p *Parsed) readdress(ctx context.Context, f *File) error {
	if p.Object == nil {
		return nil
	}
	ids := p.Object.Managed()
	if n := len(ids); n == 0 {
		return nil
	} else if n > MaxAttachments && !f.who.System { // what the server writes comes from what clients wrote
		return fmt.Errorf("%w: %d, at most %d", ErrAttachments, n, MaxAttachments)
	}
	known := map[string]bool{}
	err := f.read(ctx, func(d *reading) error {
		for _, id := range ids {
			list, err := d.r.Lookup(indexEntries, attachmentKey(id))
			if err != nil {
				return err
			}
			known[id] = len(list) > 0
		}
		return nil
	})
	if err == nil && p.Object.Readdress(func(a calendar.Attachment) string {
		name, own := strings.CutPrefix(a.URL, addressOf(f, a.ID, ""))
		if own && !strings.Contains(name, "/") { // it stays, also under another FILENAME
			return a.URL
		}
		if known[a.ID] || strings.HasPrefix(a.URL, f.svc.origin+AttachmentPath) {
			return addressOf(f, a.ID, a.Name)
		}
		return a.URL
	}) {
		p.Text, p.Rewritten = p.Object.Text(), true
	}
	return err
}

// Origin returns the scheme and host of the addresses of managed attachments.
func (s *Service) Origin() string { return s.origin }

// maxFileName bounds the name of an attachment in bytes, maxFileType its media type.
const (
	maxFileName = 200
	maxFileType = 200
)

// FileName returns the name of an attachment for one that a client sent: the last segment of a path, without characters
// that a file or a parameter of iCalendar cannot have, in at most 200 bytes; "attachment" if none are left.
func FileName(name string) string {
	name = path.Base(strings.ReplaceAll(strings.ToValidUTF8(name, ""), `\`, "/"))
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '"' || r == '/' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, name))
	for len(name) > maxFileName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	if strings.Trim(name, ".") == "" {
		return "attachment"
	}
	return name
}

// MediaType returns the media type of an attachment for one that a client sent: application/octet-stream for one that
// is malformed or longer than 200 bytes.
func MediaType(s string) string {
	kind, params, err := mime.ParseMediaType(s)
	if err == nil && strings.Contains(kind, "/") {
		if s = mime.FormatMediaType(kind, params); s != "" && len(s) <= maxFileType {
			return s
		}
	}
	return "application/octet-stream"
}

// NewAttachment stores the bytes of a new attachment, with FileName(name) and MediaType(kind). The caller must call
// Release when the updates that use it have ended. Errors match ErrTooLarge.
func (s *Service) NewAttachment(ctx context.Context, name, kind string, content []byte,
	files ...note.DatabaseID) (*Attachment, error) {
	if len(content) > MaxAttachment {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(content), MaxAttachment)
	}
	o, err := s.store.Attach(ctx, content, files...)
	if err != nil {
		return nil, err
	}
	var id note.UNID
	s.env.Fill(id[:])
	return &Attachment{ID: hex.EncodeToString(id[:]), Name: FileName(name), Type: MediaType(kind), Digest: o.Digest,
		Size: o.Size, object: o}, nil
}

// Release frees the bytes that NewAttachment has stored.
func (a *Attachment) Release() {
	if a.object != nil {
		a.object.Release()
	}
}

// Offer adds attachments that the entry may name, though neither the entry that it replaces nor another one has them.
func (p *Parsed) Offer(list ...Attachment) { p.offered = append(p.offered, list...) }

// Withdraw removes what Offer has added. It reports whether there was something.
func (p *Parsed) Withdraw() bool {
	some := len(p.offered) > 0
	p.offered = nil
	return some
}

// attachments returns the managed attachments that the entry names, in place of another one or of nil: those that are
// offered, those of the entry that it replaces, and those of other entries that the person may read. What the server
// writes may name others, and so may a text that did before: the addresses of such lines lead elsewhere, or nowhere.
//
// Implements: RFC 8607 §3.7 Adding Existing Managed Attachments via PUT
// Implements: RFC 8607 §3.9 Removing Attachments via PUT
func (p *Parsed) attachments(c *Changing, have *Entry) (list []Attachment, err error) {
	if p.Object == nil {
		return nil, nil
	}
	known := p.offered
	if have != nil {
		known = slices.Concat(known, have.Attachments)
	}
	var missing []string
	for _, id := range p.Object.Managed() {
		a := named(known, id)
		if a == nil {
			if _, a, err = c.attachment(id); err != nil {
				return nil, err
			}
		}
		if a != nil {
			list = append(list, *a)
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 || c.f.who.System {
		return list, nil
	}
	before, err := namedBefore(c, have)
	for _, id := range missing {
		if err == nil && !slices.Contains(before, id) {
			err = fmt.Errorf("%w: %.80q", ErrManagedID, id)
		}
	}
	return list, err
}

// namedBefore returns the ids of managed attachments that the text of a stored entry names, none for nil.
func namedBefore(c *Changing, have *Entry) ([]string, error) {
	if have == nil {
		return nil, nil
	}
	e := *have
	if err := c.text(&e); err != nil {
		return nil, err
	}
	o, err := calendar.ReadObject(e.Text)
	if err != nil {
		return nil, nil //nolint:nilerr // an entry of a newer program names none that this one knows
	}
	return o.Managed(), nil
}

// named returns the attachment with an id, nil for none.
func named(list []Attachment, id string) *Attachment {
	if i := slices.IndexFunc(list, func(a Attachment) bool { return a.ID == id }); i >= 0 {
		return &list[i]
	}
	return nil
}

// contentFor returns the content of the note of the entry, in place of another one or of nil, and keeps the objects
// that it references. It checks that the content has room in the mail file.
func (p *Parsed) contentFor(c *Changing, name string, have *Entry) (content note.Content, err error) {
	held, err := p.attachments(c, have)
	if err == nil {
		err = c.fits(have, len(p.Text)+total(held))
	}
	if err != nil {
		return content, err
	}
	content = p.content(name, c.f.svc.env.Clock.Now())
	if p.Private && have != nil && (!have.Private || have.shown) {
		content.Items = content.Items.With(itemShown, note.Bool(true))
	}
	if p.stored != nil {
		c.write().Keep(p.stored)
	}
	for _, a := range held {
		if a.object != nil {
			c.write().Keep(a.object)
		}
		content.Attachments = append(content.Attachments, note.Attachment{Name: managedPrefix + a.ID + "/" + a.Name,
			Type: a.Type, Digest: a.Digest, Size: a.Size})
	}
	return content, nil
}

// attachment returns a managed attachment with the note of an entry that has it and that the person may read; nil if
// there is none.
func (d *reading) attachment(id string) (note.ID, *Attachment, error) {
	ids, err := d.r.Lookup(indexEntries, attachmentKey(id))
	if err != nil {
		return 0, nil, err
	}
	for _, n := range ids {
		row, err := d.row(n)
		if err != nil {
			return 0, nil, err
		}
		var h *layout.Folder
		if row != nil {
			h, _ = d.home(Calendar, row)
		}
		if h == nil {
			continue
		}
		e, err := d.entry(h, n, false)
		if err != nil {
			return 0, nil, err
		}
		if e != nil {
			if a := named(e.Attachments, id); a != nil {
				return n, a, nil
			}
		}
	}
	return 0, nil, nil
}

// Attachment opens a managed attachment of a mail file that stands in an entry which the person may read. Errors match
// ErrNoEntry, or store.ErrNotFound if the mail file is not here.
//
// Implements: RFC 8607 §3.12.2 Access Control
func (s *Service) Attachment(ctx context.Context, who note.Who, db note.DatabaseID,
	id string) (a *Attachment, body *store.Stored, err error) {
	err = s.File(who, db).read(ctx, func(d *reading) error {
		var at note.ID
		if at, a, err = d.attachment(id); err != nil || a == nil {
			return errors.Join(err, ErrNoEntry)
		}
		body, err = d.r.Attachment(at, a.Digest, int64(a.Size))
		return err
	})
	return a, body, err
}
