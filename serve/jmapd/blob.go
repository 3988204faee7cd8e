package jmapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

// errNoBlob says that there is no such blob, or none that the caller may have.
var errNoBlob = errors.New("no such blob")

// blob is a blob that is open for reading. It stays so behind the read in which it was opened.
type blob struct {
	size int64
	kind string // its media type, "" where none is known
	// upload is the upload that the blob is of; zero: it is of a message.
	upload note.UNID
	// read appends n octets from off.
	read func(dst []byte, off, n int64) ([]byte, error)
	// mem has reserved held bytes for what the blob keeps in memory.
	mem  *memory
	held int64
}

// close gives back the memory that the blob holds. A blob that is not closed holds it until the call ends.
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

// openBlob finds a blob of an account by its id: a message, a part of one, or what the caller has uploaded. errNoBlob:
// there is none that the caller may see.
func (c *call) openBlob(a *Account, id string) (*blob, error) {
	ref, ok := parseBlobRef(id)
	if !ok {
		if real, made := c.real(id); made && real != id {
			return c.openBlob(a, real)
		}
		return nil, errNoBlob
	}
	if ref.letter == letterUpload {
		if c.caller.Database == 0 {
			return nil, errNoBlob
		}
		return c.openUpload(ref)
	}
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
			return nil
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

// cutSteps cuts the numbers of a part from what leads further, into the message that it is.
func cutSteps(steps []int) (part, rest []int) {
	for i, n := range steps {
		if n == 0 {
			return steps[:i], steps[i+1:]
		}
	}
	return steps, nil
}

// partBlob is a part of a stored message, its transfer encoding undone.
func (c *call) partBlob(body *store.Stored, span mime.SectionSpan) (*blob, error) {
	out := &blob{mem: &c.mem}
	if mailbox.ReadWhole(body, span) {
		// As it is stored, and decoded.
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

// keepOf lets a blob hold only n bytes of what it holds.
func (c *call) keepOf(b *blob, n int64) {
	c.mem.drop(b.held - n)
	b.held = n
}

// parseCost is an upper bound of what the parts of a message of n octets take that was parsed: its fields, and the parts,
// of which there are at most mime.DefaultLimits.Parts.
func parseCost(n int64) int64 { return min(n, 8<<20) + min(n, 4<<20) }

// within follows steps into a message that a blob holds, and closes that.
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

// inner is a part of the message that a blob holds.
func (c *call) inner(b *blob, part []int) (*blob, error) {
	if b.size > maxInner {
		return nil, errNoBlob
	}
	cost := 2*b.size + parseCost(b.size) // the message, the part decoded, and where they are
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
	// Decoded, the message is let go of; else the part is a piece of it.
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

// maxInner is the largest message that is opened for a part of it: larger ones are not taken in either.
const maxInner = 1 << 30
