package jmapd

import (
	"encoding/hex"
	"errors"
	"strings"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/wire/jmap"
)

// letterAttachment begins the id of a blob that is a managed attachment of an event or task: its MANAGED-ID follows.
const letterAttachment = 'a'

// managedBlob returns the blobId of a managed attachment, "" for a MANAGED-ID that this server did not make.
func managedBlob(managedID string) string {
	if _, ok := parseID(letterAttachment, string(letterAttachment)+managedID); ok {
		return string(letterAttachment) + managedID
	}
	return ""
}

// openAttachment opens a managed attachment of an entry that the caller may read.
func (c *call) openAttachment(a *Account, ref blobRef) (*blob, error) {
	x, body, err := c.s.backend.Groupware().Attachment(c.ctx, c.caller.Who, a.Database, hex.EncodeToString(ref.unid[:]))
	if errors.Is(err, groupware.ErrNoEntry) {
		return nil, errNoBlob
	}
	if err != nil {
		return nil, err
	}
	return storedBlob(body, x.Type), nil
}

// Bounds of the new attachments of one request: a request of a few kilobytes can name the same large blob many times.
const (
	maxNewAttachments = 500
	maxNewBytes       = 256 << 20
)

// eventBlobs are the blobs of the managed attachments of events and tasks. The zero value shows them; one that has a
// call makes new ones too.
//
// Implements: draft-ietf-jmap-calendars §5.2 Attachments
type eventBlobs struct {
	c    *call
	f    *groupware.File
	have []groupware.Attachment // of the entry that changes
	// made holds the new attachments by account, blobId, name and type, so that another attempt, and each instance that
	// follows a series, has the same one.
	made map[string]*groupware.Attachment
	// fresh counts those of the entry that changes, bytes the size of all.
	fresh int
	bytes int64
	// used is set if a change named a blob: the client learns what its links became.
	used bool
}

// BlobID returns the blobId of a managed attachment.
func (b *eventBlobs) BlobID(managedID string) string { return managedBlob(managedID) }

// Attachment returns the managed attachment of a blob: the one that the entry has, or a new one with the same bytes.
func (b *eventBlobs) Attachment(blobID, title, contentType string) (calendar.Attachment, error) {
	b.used = true
	for i := range b.have {
		if managedBlob(b.have[i].ID) == blobID {
			return b.have[i].Line(b.f), nil
		}
	}
	return b.stored(b.c.account, blobID, title, contentType)
}

// stored returns the new attachment of a blob of an account.
func (b *eventBlobs) stored(from *Account, blobID, title, contentType string) (calendar.Attachment, error) {
	key := strings.Join([]string{from.ID, blobID, title, contentType}, "\x00")
	a := b.made[key]
	if a == nil {
		var err error
		if a, err = b.store(from, blobID, title, contentType); err != nil {
			return calendar.Attachment{}, err
		}
		b.made[key] = a
	}
	return a.Line(b.f), nil
}

// copy puts new attachments with the same bytes in the place of those of an event, which is of another account. Lines
// whose bytes the account does not have become plain links.
func (b *eventBlobs) copy(o *calendar.Object, from *Account, list []groupware.Attachment) error {
	to := map[string]calendar.Attachment{}
	for i := range list {
		a, err := b.stored(from, managedBlob(list[i].ID), list[i].Name, list[i].Type)
		if err != nil {
			return err
		}
		to[list[i].ID] = a
	}
	o.Remanage(to)
	return nil
}

// store makes a new attachment of a blob of an account.
func (b *eventBlobs) store(from *Account, blobID, title, contentType string) (*groupware.Attachment, error) {
	in, err := b.c.openBlob(from, blobID)
	if errors.Is(err, errNoBlob) {
		return nil, &jmap.Error{Type: "blobNotFound", NotFound: []string{blobID}}
	}
	if err != nil {
		return nil, err
	}
	defer in.close()
	if in.size > groupware.MaxAttachment {
		return nil, &jmap.Error{Type: "tooLarge", Description: "An attachment has at most 10 MB."}
	}
	if b.fresh++; b.fresh > groupware.MaxAttachments {
		return nil, groupware.ErrAttachments
	}
	if b.bytes += in.size; b.bytes > maxNewBytes || len(b.made) >= maxNewAttachments {
		return nil, &jmap.Error{Type: "tooLarge", Description: "A request makes at most 500 attachments of 256 MB."}
	}
	if err := b.c.hold(in.size); err != nil {
		return nil, err
	}
	defer b.c.mem.drop(in.size)
	content, err := in.all()
	if err != nil {
		return nil, err
	}
	if contentType == "" {
		contentType = in.kind
	}
	return b.c.s.backend.Groupware().NewAttachment(b.c.ctx, title, contentType, content, b.f.Database())
}

// offered returns the attachments that were made.
func (b *eventBlobs) offered() []groupware.Attachment {
	list := make([]groupware.Attachment, 0, len(b.made))
	for _, a := range b.made {
		list = append(list, *a)
	}
	return list
}

// release frees the bytes of the attachments that were made.
func (b *eventBlobs) release() {
	for _, a := range b.made {
		a.Release()
	}
	clear(b.made)
}

// begin prepares for the changes of an entry, nil for a new one.
func (b *eventBlobs) begin(e *groupware.Entry) {
	b.have, b.used, b.fresh = nil, false, 0
	if e != nil {
		b.have = e.Attachments
	}
}

// withLinks adds to the properties that the server set in an event, which is written, those whose blobs became managed
// attachments.
func (x *eventSetting) withLinks(out jmap.Value, e *groupware.Entry, o *calendar.Object, at *calendar.Occurrence,
	changed *jmap.Value) jmap.Value {
	if !x.blobs.used {
		return out
	}
	if at != nil {
		one, ok := o.Instance(at.ID)
		if !ok {
			return out
		}
		at = &one
	}
	now, err := jmap.Parse(string(x.view.append(nil, e, o, at)), jmap.Bounds{})
	if err != nil {
		return out // too large to be told in this answer: the client reads it
	}
	for _, name := range []string{"links", "recurrenceOverrides"} {
		if v := now.Get(name); v != nil && changed.Get(name) != nil && !v.Equal(changed.Get(name)) {
			out = out.With(name, *v)
		}
	}
	return out
}
