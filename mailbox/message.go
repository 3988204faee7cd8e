package mailbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// Message is one message of a view. It is valid during the call that it is passed to; what Body
// returns stays valid.
type Message struct {
	Seq, UID uint32
	ID       note.ID
	// FlagsChanged says that the reading itself changed the flags (\Seen), or, in Store, that others did.
	FlagsChanged bool

	v       *View
	r       *store.Reader
	row     *layout.Note
	summary []byte
}

// Flags are the message's flags as the session's person sees them.
func (m *Message) Flags() Flags {
	fl := flagsOf(m.row, m.v.folder, m.v.f.who.Person)
	fl.Recent = m.v.recent.has(m.UID)
	return fl
}

// ModSeq is the MODSEQ of the message's latest change.
func (m *Message) ModSeq() uint64 { return uint64(m.row.Mod) }

// Date is the INTERNALDATE.
func (m *Message) Date() time.Time { return time.Unix(m.row.Date, 0).UTC() }

// Saved is when the message came into the folder (RFC 8514).
func (m *Message) Saved() time.Time {
	mem, _ := m.row.Member(m.v.folder)
	return time.Unix(mem.Saved, 0).UTC()
}

// Size is the message's size in bytes.
func (m *Message) Size() int64 { return int64(m.row.Size) }

// EmailID names the message wherever it is in this mail file (RFC 8474): a letter and the UNID.
func (m *Message) EmailID() string { return "m" + m.row.UNID.String() }

// ThreadID names the thread of the message.
func (m *Message) ThreadID() string { return "t" + m.row.Thread.String() }

// FolderID is the name of a folder that its renaming does not change (RFC 8474 MAILBOXID).
func FolderID(f *Folder) string { return "f" + f.UNID.String() }

func (m *Message) field(want int) ([]byte, error) {
	if m.summary == nil {
		var err error
		if m.summary, err = m.r.Summary(m.v.scratch[:0], m.ID); err != nil {
			return nil, err
		}
		m.v.scratch = m.summary
	}
	return summaryField(m.summary, want)
}

// Envelope is the ENVELOPE as IMAP prints it. Like all that comes from the summary, it is valid until
// the next message.
func (m *Message) Envelope() ([]byte, error) { return m.field(fieldEnvelope) }

// BodyStructure is the extensible BODYSTRUCTURE as IMAP prints it.
func (m *Message) BodyStructure() ([]byte, error) { return m.field(fieldStructure) }

// Preview is the beginning of the text (RFC 8970).
func (m *Message) Preview() (string, error) {
	b, err := m.field(fieldPreview)
	return string(b), err
}

// Section finds a part by its IMAP section number, without reading the message.
func (m *Message) Section(path []int) (mime.SectionSpan, bool, error) {
	b, err := m.field(fieldIndex)
	if err != nil {
		return mime.SectionSpan{}, false, err
	}
	s, ok := mime.Index(b).Section(path)
	return s, ok, nil
}

// Body opens the message's bytes.
func (m *Message) Body() (*store.Stored, error) { return m.r.Message(m.row) }

// FetchOptions holds the options of Fetch.
type FetchOptions struct {
	// MarkSeen marks what is read \Seen, unless the folder was opened for reading only.
	MarkSeen bool
	// ChangedSince passes over messages that have not changed since a MODSEQ (RFC 7162).
	ChangedSince uint64
	// ChangedUpTo, where it is not 0, passes over messages that have changed after a MODSEQ.
	ChangedUpTo uint64
}

// passes reports whether a message whose latest change has a MODSEQ is to be read.
func (o *FetchOptions) passes(mod note.ModSeq) bool {
	return uint64(mod) > o.ChangedSince && (o.ChangedUpTo == 0 || uint64(mod) <= o.ChangedUpTo)
}

// Fetch calls fn for the messages of a set, in order of UID. fn runs within a read of the store and
// should only append to a buffer; when that is full it returns pause, and Fetch leaves the read,
// calls flush, and goes on behind that message. flush is called once more in the end.
func (v *View) Fetch(ctx context.Context, set Set, byUID bool, o FetchOptions, fn func(*Message) (pause bool, err error), flush func() error) error {
	var ranges []Range
	var marked []marking
	err := v.f.read(ctx, func(r *store.Reader) error {
		var err error
		if ranges, err = v.uids(r, set, byUID); err != nil {
			return err
		}
		if c := r.Counters(); !c.Ledger.Knows(note.ModSeq(o.ChangedSince)) {
			o.ChangedSince = 0 // of a history that is not ours: everything may have changed
		}
		if o.MarkSeen && !v.readOnly {
			if marked, err = v.unseen(r, ranges); err != nil {
				return err
			}
		}
		if len(marked) == 0 {
			ranges, err = v.fetchSome(r, ranges, o, nil, fn)
		}
		return err
	})
	if len(marked) > 0 && err == nil {
		err = v.markSeen(ctx, marked)
	}
	if len(marked) == 0 {
		err = errors.Join(err, flush())
	}
	if err != nil {
		return err
	}
	for len(ranges) > 0 {
		var rest []Range
		err := v.f.read(ctx, func(r *store.Reader) error {
			var err error
			rest, err = v.fetchSome(r, ranges, o, marked, fn)
			return err
		})
		if err = errors.Join(err, flush()); err != nil {
			return err
		}
		ranges = rest
	}
	return nil
}

// fetchSome calls fn until it asks for a pause, and returns the ranges that are left.
func (v *View) fetchSome(r *store.Reader, ranges []Range, o FetchOptions, marked []marking, fn func(*Message) (bool, error)) ([]Range, error) {
	var rest []Range
	m := Message{v: v, r: r}
	err := v.each(r, ranges, func(seq, uid uint32, id note.ID) (bool, error) {
		row, err := r.Note(id)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !o.passes(row.Mod) {
			return true, nil
		}
		m = Message{Seq: seq, UID: uid, ID: id, FlagsChanged: isMarked(marked, uid), v: v, r: r, row: row}
		pause, err := fn(&m)
		if m.FlagsChanged {
			v.tellOwn(uid, row.Mod)
		}
		if pause && err == nil {
			rest = behind(ranges, uid)
		}
		return !pause, err
	})
	return rest, err
}

// behind returns the parts of ranges above a UID.
func behind(ranges []Range, uid uint32) []Range {
	var out []Range
	for _, g := range ranges {
		if g.Stop > uid {
			out = append(out, Range{max(g.Start, uid+1), g.Stop})
		}
	}
	return out
}

// marking is a message that reading marks \Seen.
type marking struct {
	uid uint32
	id  note.ID
}

func isMarked(list []marking, uid uint32) bool {
	_, ok := slices.BinarySearchFunc(list, uid, func(m marking, uid uint32) int { return cmp.Compare(m.uid, uid) })
	return ok
}

// unseen collects the messages that the person has not seen and may mark so, in order of UID.
func (v *View) unseen(r *store.Reader, ranges []Range) ([]marking, error) {
	h, err := r.Folder(v.folder)
	if err != nil || r.FolderRights(h)&note.KeepSeen == 0 || layout.SeenBy(h.Seen, v.f.who.Person) >= h.Total {
		return nil, err
	}
	var out []marking
	err = v.members(r, ranges, func(uid uint32, id note.ID) (bool, error) {
		row, err := r.Note(id)
		if err == nil && !row.SeenBy(v.f.who.Person) {
			out = append(out, marking{uid, id})
		}
		return true, ignoreGone(err)
	})
	return out, err
}

func ignoreGone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

func (v *View) markSeen(ctx context.Context, list []marking) error {
	for part := range slices.Chunk(list, batch) {
		err := v.f.update(ctx, func(w *store.Writer) error {
			for _, m := range part {
				if err := v.markOne(w, m); ignoreGone(err) != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// markOne marks a message that is still where it was seen.
func (v *View) markOne(w *store.Writer, m marking) error {
	row, err := w.Note(m.id)
	if err != nil {
		return err
	}
	if member, ok := row.Member(v.folder); !ok || member.UID != m.uid {
		return store.ErrNotFound
	}
	return w.SetSeen(m.id, v.f.who.Person, true)
}

// tellOwn remembers that the session has reported a change of its own.
func (v *View) tellOwn(uid uint32, mod note.ModSeq) {
	if v.told == nil {
		v.told = make(map[uint32]note.ModSeq)
	}
	v.told[uid] = mod
}
