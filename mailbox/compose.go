package mailbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
	"doublet/wire/mime"
	"doublet/wire/pop3"
)

// Composed is a parsed message that is ready to be stored: hashed, its large parts written, its summary computed.
// Several notes can be created from it; they share the message.
type Composed struct {
	message *store.Message
	summary []byte
	thread  note.UNID
	// Root is the parsed message.
	Root *mime.Part
	// Envelope is the parsed header, for filter rules and notifications.
	Envelope *mime.Envelope
}

// Compose parses a message for storing. It is the only place that parses mail: readers use the summary computed here.
// Call Release after the updates that use the result have ended. files are the mail files that the message is for, as
// far as they are known: see store.Prepare.
func (s *Service) Compose(ctx context.Context, raw []byte, files ...note.DatabaseID) (*Composed, error) {
	if bytes.IndexByte(raw, 0) >= 0 {
		return nil, ErrBadMessage
	}
	return s.ComposeImported(ctx, raw, files...)
}

// ComposeImported is like Compose, for mail imported from another system. It accepts NUL bytes and stores them
// unchanged; protocols show a NUL as 0x80.
func (s *Service) ComposeImported(ctx context.Context, raw []byte, files ...note.DatabaseID) (*Composed, error) {
	if len(raw) > s.opt.MessageSize {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooBig, len(raw), s.opt.MessageSize)
	}
	return s.ComposeRestored(ctx, raw, files...)
}

// ComposeRestored is like ComposeImported, for a message from a backup. It accepts any size: the limit may have been
// higher when the message arrived.
func (s *Service) ComposeRestored(ctx context.Context, raw []byte, files ...note.DatabaseID) (*Composed, error) {
	root := mime.Parse(raw, s.opt.Limits)
	m, err := s.store.Prepare(ctx, raw, mime.SplitLeaves(raw, root, s.store.LeastObject()), files...)
	if err != nil {
		return nil, err
	}
	key := []byte(mime.ThreadKey(root.Envelope))
	if len(key) == 0 { // no key to find a thread by: start a new one
		key = m.Digest[:]
	}
	return &Composed{
		message: m, summary: appendSummary(nil, raw, root), Root: root, Envelope: root.Envelope,
		thread: note.DeriveUNID(key),
	}, nil
}

// New returns a new note for the message, with date as its INTERNALDATE.
func (c *Composed) New(date time.Time) store.New {
	return store.New{
		Content: note.Content{Items: memo}, Summary: c.summary, Message: c.message, Thread: c.thread, Date: date.Unix(),
	}
}

// memo holds the items of a message's note; all other data is in the message.
var memo = note.MakeItems(note.Item{Name: "Form", Value: note.Text("Memo")})

// Thread returns the id of the message's thread.
func (c *Composed) Thread() note.UNID { return c.thread }

// Size returns the message's size in bytes.
func (c *Composed) Size() int64 { return int64(c.message.Size) }

// Memory returns the number of bytes that the message occupies in memory until it is released.
func (c *Composed) Memory() int64 { return int64(len(c.summary)) + c.message.Memory() }

// Release releases the message.
func (c *Composed) Release() { c.message.Release() }

// The fields of a summary, each preceded by its length: ENVELOPE and BODYSTRUCTURE in the syntax of RFC 9051, the index
// of parts, the preview (RFC 8970), and those described below.
const (
	fieldEnvelope = iota
	fieldStructure
	fieldIndex
	fieldPreview
	// fieldTravel is a number: the octets that the message grows by when its line ends become CRLF (see wire/pop3).
	// Messages of older versions lack it.
	fieldTravel
	// fieldThreading holds the ids used by THREAD (see appendThreading). Messages of older versions lack it.
	fieldThreading
	// fieldAttached is 1 if the message has attachments, otherwise 0 (see HasAttachment). Messages of older versions
	// lack it.
	fieldAttached
	// fieldResent holds the Resent-From and Resent-Sender fields (see appendResent). Messages of older versions lack
	// it.
	fieldResent
	fields
)

func appendSummary(dst, raw []byte, root *mime.Part) []byte {
	scratch := make([]byte, 0, 1024)
	add := func(b []byte) {
		dst = binary.AppendUvarint(dst, uint64(len(b)))
		dst = append(dst, b...)
		scratch = b[:0]
	}
	add(imap.AppendEnvelope(scratch, root.Envelope))
	add(imap.AppendBodyStructure(scratch, root))
	add(mime.AppendIndex(scratch, root))
	add(append(scratch, mime.Preview(raw, root)...))
	add(binary.AppendUvarint(scratch, uint64(pop3.Extra(raw))))
	add(appendThreading(scratch, root.Envelope))
	add(appendFlag(scratch, HasAttachment(root)))
	add(appendResent(scratch, root.Header(raw)))
	return dst
}

func appendFlag(dst []byte, on bool) []byte {
	if on {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func summaryField(sum []byte, want int) ([]byte, error) {
	for i := range fields {
		if len(sum) == 0 && i > fieldPreview { // written by an older version
			return nil, nil
		}
		n, k := binary.Uvarint(sum)
		if k <= 0 || n > uint64(len(sum)-k) {
			return nil, fmt.Errorf("%w: summary", store.ErrDamaged)
		}
		if i == want {
			return sum[k : k+int(n)], nil
		}
		sum = sum[k+int(n):]
	}
	return nil, fmt.Errorf("%w: summary", store.ErrDamaged)
}
