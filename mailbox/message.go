package mailbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// Message is a message of a view. It is valid only during the call that it is passed to; the result of Body stays
// valid.
type Message struct {
	Seq, UID uint32
	ID       note.ID
	// FlagsChanged is set if this fetch set \Seen or, in Store, if others changed the flags.
	FlagsChanged bool

	v       *View
	r       *store.Reader
	row     *layout.Note
	summary []byte
	// beside is set while another goroutine may read messages of the view, so that its scratch is not used.
	beside bool
}

// Flags returns the message's flags as the session's person sees them.
func (m *Message) Flags() Flags {
	fl := flagsOf(m.row, m.v.folder, m.v.f.who.Person)
	fl.Recent = m.v.recent.has(m.UID)
	fl.Deleted = fl.Deleted && !m.v.f.bin
	return fl
}

// ModSeq returns the MODSEQ of the message's latest change.
func (m *Message) ModSeq() uint64 { return uint64(m.row.Mod) }

// Date returns the INTERNALDATE.
func (m *Message) Date() time.Time { return time.Unix(m.row.Date, 0).UTC() }

// Saved returns the time at which the message was added to the folder (RFC 8514).
func (m *Message) Saved() time.Time {
	mem, _ := m.row.Member(m.v.folder)
	return time.Unix(mem.Saved, 0).UTC()
}

// Size returns the message's size in bytes.
func (m *Message) Size() int64 { return int64(m.row.Size) }

// EmailID returns the EMAILID (RFC 8474), which is the same in all folders of the mail file: a letter and the UNID.
func (m *Message) EmailID() string { return "m" + m.row.UNID.String() }

// ThreadID returns the THREADID (RFC 8474).
func (m *Message) ThreadID() string { return "t" + m.row.Thread.String() }

// FolderID returns the MAILBOXID of a folder, which does not change when the folder is renamed (RFC 8474).
func FolderID(f *Folder) string { return "f" + f.UNID.String() }

func (m *Message) field(want int) ([]byte, error) {
	if m.summary == nil {
		scratch := m.v.scratch
		switch {
		case m.beside:
			scratch = new([]byte)
		case scratch == nil:
			scratch = summaries.Get().(*[]byte)
			m.v.scratch = scratch
		}
		var err error
		if m.summary, err = m.r.Summary((*scratch)[:0], m.ID); err != nil {
			return nil, err
		}
		*scratch = m.summary
	}
	return summaryField(m.summary, want)
}

// Envelope returns the ENVELOPE in IMAP syntax. Like all data from the summary, it is valid until the next message.
func (m *Message) Envelope() ([]byte, error) { return m.field(fieldEnvelope) }

// BodyStructure returns the extensible BODYSTRUCTURE in IMAP syntax.
func (m *Message) BodyStructure() ([]byte, error) { return m.field(fieldStructure) }

// Preview returns the beginning of the text (RFC 8970).
func (m *Message) Preview() (string, error) {
	b, err := m.field(fieldPreview)
	return string(b), err
}

// Section returns the position of a part by its IMAP section number, without reading the message.
func (m *Message) Section(path []int) (mime.SectionSpan, bool, error) {
	b, err := m.field(fieldIndex)
	if err != nil {
		return mime.SectionSpan{}, false, err
	}
	s, ok := mime.Index(b).Section(path)
	return s, ok, nil
}

// Body opens the message's content.
func (m *Message) Body() (*store.Stored, error) { return m.r.Message(m.row) }

// FetchOptions holds the options of Fetch.
type FetchOptions struct {
	// MarkSeen sets \Seen on the messages that are read, unless the view is read-only.
	MarkSeen bool
	// ChangedSince skips messages whose MODSEQ is not above it (RFC 7162).
	ChangedSince uint64
	// ChangedUpTo, if not 0, skips messages whose MODSEQ is above it.
	ChangedUpTo uint64
}

// passes reports whether a message whose latest change has the given MODSEQ is to be fetched.
func (o *FetchOptions) passes(mod note.ModSeq) bool {
	return uint64(mod) > o.ChangedSince && (o.ChangedUpTo == 0 || uint64(mod) <= o.ChangedUpTo)
}

// Fetch calls fn for the messages of a set, in order of UID. fn runs within a read of the store, so it should only
// append to a buffer. When the buffer is full, fn returns pause: Fetch ends the read, calls flush and continues after
// that message. It calls flush once more at the end.
func (v *View) Fetch(ctx context.Context, set Set, byUID bool, o FetchOptions,
	fn func(*Message) (pause bool, err error), flush func() error) error {
	defer v.dropScratch()
	var ranges []Range
	var marked []marking
	err := v.f.read(ctx, func(r *store.Reader) error {
		var err error
		if ranges, err = v.uids(r, set, byUID); err != nil {
			return err
		}
		if c := r.Counters(); !c.Ledger.Knows(note.ModSeq(o.ChangedSince)) {
			o.ChangedSince = 0 // a MODSEQ of another history: everything may have changed
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

// summaries holds memory for the summary of a message. A view takes it for a Fetch only, because a session may have its
// view open for days.
var summaries = sync.Pool{New: func() any { return new([]byte) }}

// keptScratch is the size in bytes of the largest summary whose memory returns to the pool.
const keptScratch = 16 << 10

func (v *View) dropScratch() {
	if v.scratch != nil && cap(*v.scratch) <= keptScratch {
		summaries.Put(v.scratch)
	}
	v.scratch = nil
}

// fetchSome calls fn until it asks for a pause, and returns the remaining ranges.
func (v *View) fetchSome(r *store.Reader, ranges []Range, o FetchOptions, marked []marking,
	fn func(*Message) (bool, error)) ([]Range, error) {
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

// marking is a message to be marked \Seen by a fetch.
type marking struct {
	uid uint32
	id  note.ID
}

func isMarked(list []marking, uid uint32) bool {
	_, ok := slices.BinarySearchFunc(list, uid, func(m marking, uid uint32) int { return cmp.Compare(m.uid, uid) })
	return ok
}

// unseen returns the messages that the person has not seen and may mark \Seen, in order of UID.
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

// markOne marks a message \Seen if it still has the same UID in the folder.
func (o *opened) markOne(w *store.Writer, m marking) error {
	id, err := w.Member(o.folder, m.uid)
	if err != nil {
		return err
	}
	if id != m.id {
		return store.ErrNotFound
	}
	return w.SetSeen(id, o.f.who.Person, true)
}

// tellOwn records that the session has already reported its own change.
func (v *View) tellOwn(uid uint32, mod note.ModSeq) {
	if v.told == nil {
		v.told = make(map[uint32]note.ModSeq)
	}
	v.told[uid] = mod
}
