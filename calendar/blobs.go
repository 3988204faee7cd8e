package calendar

import (
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Blobs are the blobs of JMAP that hold the managed attachments of an object.
//
// Implements: draft-ietf-jmap-calendars §5.2 blobId of Link
type Blobs interface {
	// BlobID returns the blobId of a managed attachment, "" for none.
	BlobID(managedID string) string
	// Attachment returns the managed attachment that a link with a blobId leads to. title and contentType are those of
	// the link, or "". Edit returns its errors.
	Attachment(blobID, title, contentType string) (Attachment, error)
}

// propBlob is the property of a link that stands for the managed attachment of its line. No line and no JSPROP has it.
const propBlob = "blobId"

// blobID returns the blobId of a line, "" for none.
func (e *event) blobID(p *ical.Property) string {
	if id := ManagedID(p); id != "" && e.blobs != nil {
		return e.blobs.BlobID(id)
	}
	return ""
}

// attach returns the line of a link with a blobId; ok is false for a link that leads to its href. was is the link with
// this id before the change: a client that changes href alone means that.
func (e *event) attach(id string, v, was *jmap.Value) (p ical.Property, ok bool, err error) {
	blob := v.Get(propBlob)
	if blob.IsNull() || e.blobs == nil || blob.Equal(was.Get(propBlob)) && !v.Get("href").Equal(was.Get("href")) {
		return p, false, nil
	}
	text, isText := blob.Text()
	rel, _ := textOf(v, "rel")
	if !isText || rel != "" && rel != "enclosure" {
		return p, false, invalid("a link with a blobId has the relation enclosure", "links")
	}
	title, ok1 := textOf(v, "title")
	kind, ok2 := textOf(v, "contentType")
	if !ok1 || !ok2 || strings.Contains(kind, "\n") {
		return p, false, invalid("a property of a link is no text", "links")
	}
	a, err := e.blobs.Attachment(text, title, kind)
	if err != nil {
		return p, false, err
	}
	p = a.line()
	if kind != "" {
		p.SetParam("FMTTYPE", kind)
	}
	if title != "" {
		p.SetParam("FILENAME", title)
	}
	setID(&p, id, hashID("l", a.URL))
	return p, true, nil
}

// withoutBlobs returns a map of links without their blobIds.
func withoutBlobs(links *jmap.Value) *jmap.Value {
	if links.Kind() != jmap.Object {
		return links
	}
	names, values := make([]string, links.Len()), make([]jmap.Value, links.Len())
	for i := range names {
		names[i], values[i] = links.Name(i), links.At(i).Without(propBlob)
	}
	return jmap.MakeObject(names, values)
}
