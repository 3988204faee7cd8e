package jmapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

// errNoBlob is returned for a blob that does not exist or that the caller may not read.
var errNoBlob = errors.New("no such blob")

// blob is a blob that is open for reading. It remains readable after the Read in which it was opened.
type blob struct {
	size int64
	kind string // media type, "" if not known
	// upload is the UNID of the upload that holds the blob, or zero if a message holds it.
	upload note.UNID
	// read appends n octets from offset off to dst.
	read func(dst []byte, off, n int64) ([]byte, error)
	// held is the number of bytes reserved in mem for content that the blob keeps in memory.
	mem  *memory
	held int64
}

// close releases the memory that the blob reserved. If it is not called, the memory stays reserved until the call ends.
func (b *blob) close() {
	if b.held > 0 {
		b.mem.drop(b.held)
		b.held = 0
	}
}

// all reads the whole blob.
func (b *blob) all() ([]byte, error) {
	return b.read(make([]byte, 0, b.size), 0, b.size)
}

func memoryBlob(content []byte, kind string) *blob {
	return &blob{size: int64(len(content)), kind: kind, read: func(dst []byte, off, n int64) ([]byte, error) {
		off = min(max(off, 0), int64(len(content)))
		return append(dst, content[off:min(off+n, int64(len(content)))]...), nil
	}}
}

func storedBlob(s *store.Stored, kind string) *blob {
	return &blob{size: s.Size(), kind: kind, read: s.AppendRange}
}

// openBlob opens a blob of an account by its id: a message, a part of a message, a Sieve script, the media of a card,
// an attachment of an event, or an upload of the caller. It returns errNoBlob if the caller cannot see such a blob.
func (c *call) openBlob(a *Account, id string) (*blob, error) {
	ref, ok := parseBlobRef(id)
	if !ok {
		if real, made := c.real(id); made && real != id {
			return c.openBlob(a, real)
		}
		return nil, errNoBlob
	}
	switch ref.letter {
	case letterUpload:
		if c.caller.Database == 0 {
			return nil, errNoBlob
		}
		return c.openUpload(ref)
	case letterSieve:
		return c.openScript(a, ref)
	case letterMedia:
		return c.openMedia(a, ref)
	case letterAttachment:
		return c.openAttachment(a, ref)
	}
	return c.openMail(a, ref)
}

// openMail opens a message or a part of one.
func (c *call) openMail(a *Account, ref blobRef) (*blob, error) {
	var out *blob
	err := a.File.Read(c.ctx, func(d *mailbox.Reading) error {
		m, err := d.EmailOf(ref.unid)
		if err != nil {
			return err
		}
		body, err := m.Body()
		if err != nil {
			return err
		}
		if ref.letter == letterMessage {
			out = storedBlob(body, "message/rfc822")
			return body.Reach(0, body.Size())
		}
		steps, rest := cutSteps(ref.steps)
		index, err := m.Index()
		if err != nil {
			return err
		}
		span, ok := index.Section(steps)
		if !ok || span.Kind == mime.KindMultipart {
			return errNoBlob
		}
		if out, err = c.partBlob(body, span); err != nil || rest == nil {
			return err
		}
		out, err = c.within(out, rest)
		return err
	})
	if errors.Is(err, mailbox.ErrNoMessage) {
		err = errNoBlob
	}
	return out, err
}

func (c *call) openUpload(ref blobRef) (*blob, error) {
	var out *blob
	err := c.s.own(c.caller).File.Read(c.ctx, func(d *mailbox.Reading) error {
		u, err := d.Upload(ref.unid)
		if errors.Is(err, store.ErrNotFound) {
			return errNoBlob
		}
		if err != nil {
			return err
		}
		out = storedBlob(u.Body, u.Type)
		if len(ref.steps) > 0 {
			out, err = c.within(out, ref.steps)
		}
		return err
	})
	if err == nil {
		out.upload = ref.unid
	}
	return out, err
}

// cutSteps splits steps at the first 0: part is the path of a part, rest the steps inside the message in that part.
func cutSteps(steps []int) (part, rest []int) {
	for i, n := range steps {
		if n == 0 {
			return steps[:i], steps[i+1:]
		}
	}
	return steps, nil
}

// partBlob returns a part of a stored message with its transfer encoding removed.
func (c *call) partBlob(body *store.Stored, span mime.SectionSpan) (*blob, error) {
	out := &blob{mem: &c.mem}
	if mailbox.ReadWhole(body, span) {
		// Both the encoded and the decoded octets are in memory.
		out.held = 2 * int64(span.BodyEnd-span.BodyStart)
	}
	if err := c.hold(out.held); err != nil {
		return nil, err
	}
	content, err := mailbox.ContentOf(body, span)
	if err != nil {
		out.close()
		return nil, err
	}
	c.keepOf(out, min(out.held, content.Size))
	out.size, out.read = content.Size, content.Append
	return out, nil
}

// keepOf reduces the reservation of a blob to n bytes.
func (c *call) keepOf(b *blob, n int64) {
	c.mem.drop(b.held - n)
	b.held = n
}

// parseCost returns an upper bound of the memory that parsing a message of n octets takes: for its fields, and for its
// parts, of which there are at most mime.DefaultLimits.Parts.
func parseCost(n int64) int64 { return min(n, 8<<20) + min(n, 4<<20) }

// within follows steps into a message that a blob holds. It closes that blob.
func (c *call) within(b *blob, steps []int) (*blob, error) {
	for {
		part, rest := cutSteps(steps)
		inner, err := c.inner(b, part)
		b.close()
		if err != nil || rest == nil {
			return inner, err
		}
		b, steps = inner, rest
	}
}

// inner returns a part of the message that a blob holds.
func (c *call) inner(b *blob, part []int) (*blob, error) {
	if b.size > maxInner {
		return nil, errNoBlob
	}
	cost := 2*b.size + parseCost(b.size) // the message, the decoded part, and the parsed structure
	if err := c.hold(cost); err != nil {
		return nil, err
	}
	raw, err := b.all()
	var span mime.SectionSpan
	ok := false
	if err == nil {
		index := mime.Index(mime.AppendIndex(nil, mime.Parse(raw, mime.DefaultLimits)))
		if span, ok = index.Section(part); !ok || span.Kind == mime.KindMultipart {
			err = errNoBlob
		}
	}
	if err != nil {
		c.mem.drop(cost)
		return nil, err
	}
	// A decoded part is a copy, so the message can be freed. Otherwise the part is a slice of the message.
	body, held := raw[span.BodyStart:span.BodyEnd], b.size
	if span.Encoding == mime.EncodingBase64 || span.Encoding == mime.EncodingQuotedPrintable {
		held = int64(len(body))
		body, _ = mime.AppendDecoded(make([]byte, 0, len(body)), body, span.Encoding, -1)
	}
	out := memoryBlob(body, "")
	out.mem, out.held = &c.mem, cost
	c.keepOf(out, held)
	return out, nil
}

// maxInner bounds the messages whose parts can be opened, in octets. The server does not accept larger ones either.
const maxInner = 1 << 30
