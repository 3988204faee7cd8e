package jmapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/store"
	"doublet/wire/mime"
)

// errNoBlob says that there is no such blob, or none that the caller may have.
var errNoBlob = errors.New("no such blob")

// blob is a blob that is open for reading. It stays so behind the read in which it was opened.
type blob struct {
	size int64
	kind string // its media type, "" where none is known
	// read appends n octets from off.
	read func(dst []byte, off, n int64) ([]byte, error)
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
		if out, err = partBlob(body, span); err != nil || rest == nil {
			return err
		}
		out, err = within(out, rest)
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
			out, err = within(out, ref.steps)
		}
		return err
	})
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
func partBlob(body *store.Stored, span mime.SectionSpan) (*blob, error) {
	c, err := mailbox.ContentOf(body, span)
	return &blob{size: c.Size, read: c.Append}, err
}

// within follows steps into a message that a blob holds.
func within(b *blob, steps []int) (*blob, error) {
	for {
		raw, err := b.all()
		if err != nil {
			return nil, err
		}
		part, rest := cutSteps(steps)
		index := mime.Index(mime.AppendIndex(nil, mime.Parse(raw, mime.DefaultLimits)))
		span, ok := index.Section(part)
		if !ok || span.Kind == mime.KindMultipart {
			return nil, errNoBlob
		}
		body := raw[span.BodyStart:span.BodyEnd]
		if out, known := mime.AppendDecoded(nil, body, span.Encoding, -1); known {
			body = out
		}
		if b = memoryBlob(body, ""); rest == nil {
			return b, nil
		}
		steps = rest
	}
}
