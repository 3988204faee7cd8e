package groupware

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Moment identifies a state of the collections, or of the entries, of one kind in a mail file: all changes up to a
// MODSEQ, as seen with certain rights. It has the same meaning on every replica.
type Moment struct {
	Mod note.ModSeq
	// View identifies the person's rights by a hash.
	View uint32
	// UID is the last UID assigned in the collections that the person may read. An entry with a higher UID in its
	// collection came into it later.
	UID uint32
	// Base, if not 0, is the moment from which the client started: it has received only a part of the changes since
	// then, those up to Mod.
	Base note.ModSeq
}

// String returns the moment in the form that clients store.
func (m Moment) String() string {
	b := strconv.AppendUint(make([]byte, 0, 48), uint64(m.Mod), 16)
	b = strconv.AppendUint(append(b, '-'), uint64(m.View), 16)
	b = strconv.AppendUint(append(b, '-'), uint64(m.UID), 16)
	if m.Base != 0 {
		b = strconv.AppendUint(append(b, '_'), uint64(m.Base), 16)
	}
	return string(b)
}

// ParseMoment parses the result of String. The error matches ErrForgotten.
func ParseMoment(text string) (m Moment, err error) {
	whole, base, partly := strings.Cut(text, "_")
	parts := strings.Split(whole, "-")
	if len(parts) != 3 {
		return m, fmt.Errorf("%w: malformed state", ErrForgotten)
	}
	number := func(s string, bits int) (n uint64) {
		n, e := strconv.ParseUint(s, 16, bits)
		err = errors.Join(err, e)
		return n
	}
	m = Moment{Mod: note.ModSeq(number(parts[0], 64)), View: uint32(number(parts[1], 32)),
		UID: uint32(number(parts[2], 32))}
	if partly {
		m.Base = note.ModSeq(number(base, 64))
	}
	if err != nil || m.String() != text {
		return Moment{}, fmt.Errorf("%w: malformed state", ErrForgotten)
	}
	return m, nil
}

// base returns the MODSEQ up to which the client knows all changes.
func (m Moment) base() note.ModSeq {
	if m.Base != 0 {
		return m.Base
	}
	return m.Mod
}

// part returns the moment of a client that came from m and has received the changes up to mod only.
func (m Moment) part(mod note.ModSeq) Moment {
	return Moment{Mod: mod, View: m.View, UID: m.UID, Base: max(m.base(), 1)}
}

// Moments are the moments of the collections of a kind and of their entries.
type Moments struct{ Collections, Entries Moment }

// moments returns the moments of a kind at the moment of the reader. They never go back: whatever leaves a collection
// changes the folder of removed entries, and so does the deletion of a collection.
func (d *reading) moments(kind Kind) (Moments, error) {
	c := d.r.Counters()
	m := Moment{Mod: c.Floor, View: d.view(kind)}
	for _, h := range d.r.AllFolders() {
		if d.holds(kind, h) && d.rights(h)&note.Read != 0 {
			m.UID = max(m.UID, h.UIDNext-1)
		}
	}
	out := Moments{m, m}
	for _, h := range d.r.AllFolders() {
		held := d.holds(kind, h)
		if !held && h.Name != removedFolder {
			continue
		}
		if !held || d.rights(h)&note.Lookup != 0 {
			row, err := d.r.Row(h.Note)
			if err != nil {
				return out, err
			}
			out.Collections.Mod = max(out.Collections.Mod, row.Mod)
		}
		if !held || d.rights(h)&note.Read != 0 {
			out.Entries.Mod = max(out.Entries.Mod, h.Mod)
		}
	}
	return out, nil
}

// holds reports whether a folder is a collection of a kind.
func (d *reading) holds(kind Kind, h *layout.Folder) bool {
	k, _, ok := parseFolder(h.Name)
	return ok && k == kind
}

// view returns a hash of the person's rights in the collections of a kind. A collection counts only if its access list
// grants other rights than that of the mail file.
func (d *reading) view(kind Kind) uint32 {
	var word [11]byte
	hash := fnv.New32a()
	put := func(id note.ID, g note.Rights, owns bool) {
		binary.BigEndian.PutUint64(word[:], uint64(id))
		binary.BigEndian.PutUint16(word[8:], uint16(g))
		if word[10] = 0; owns {
			word[10] = 1
		}
		_, _ = hash.Write(word[:])
	}
	whole := d.rights(nil)
	put(0, whole, d.owns(nil))
	for _, h := range d.r.AllFolders() {
		if d.holds(kind, h) && d.rights(h) != whole {
			put(h.Note, d.rights(h), d.owns(h))
		}
	}
	return hash.Sum32()
}

// Moments returns the moments of the collections of a kind and of their entries.
func (f *File) Moments(ctx context.Context, kind Kind) (m Moments, err error) {
	err = f.read(ctx, func(d *reading) error {
		m, err = d.moments(kind)
		return err
	})
	return m, err
}

// Delta lists the collections, or the entries, that changed since a Moment. Each is in one list only.
type Delta struct {
	Created, Updated, Destroyed []note.UNID
	Moment                      Moment // that of the client after these changes
	More                        bool   // the limit was reached
}

// fate is the kind of a change.
type fate uint8

const (
	nothing fate = iota
	created
	updated
	destroyed
)

// told is a change that a client learns.
type told struct {
	mod  note.ModSeq
	unid note.UNID
	fate fate
}

// delta returns the changes of a list, of which a MODSEQ has one at most, up to a limit (0: all).
func delta(since, now Moment, list []told, limit int) Delta {
	now.Mod = max(now.Mod, since.Mod)
	out := Delta{Moment: now}
	slices.SortFunc(list, func(a, b told) int { return cmp.Compare(a.mod, b.mod) })
	if limit > 0 && len(list) > limit {
		list = list[:limit]
		out.More, out.Moment = true, since.part(list[limit-1].mod)
	}
	for _, x := range list {
		switch x.fate {
		case created:
			out.Created = append(out.Created, x.unid)
		case updated:
			out.Updated = append(out.Updated, x.unid)
		case destroyed:
			out.Destroyed = append(out.Destroyed, x.unid)
		}
	}
	return out
}

// tells returns ErrForgotten if the changes between a moment and now are not known.
func (d *reading) tells(since, now Moment) error {
	c := d.r.Counters()
	if since.base() < c.Floor || since.Mod > c.Ledger.Last || !c.Ledger.Knows(since.Mod) ||
		!c.Ledger.Knows(since.base()) || since.View != now.View {
		return ErrForgotten
	}
	return nil
}

// CollectionChanges returns the collections of a kind that changed since a moment, at most limit of them (0: all).
// Changes of entries do not count. Destroyed names all folders that were deleted: of a deleted folder only its UNID is
// known.
func (f *File) CollectionChanges(ctx context.Context, kind Kind, since Moment, limit int) (out Delta, err error) {
	err = f.read(ctx, func(d *reading) error {
		now, err := d.moments(kind)
		if err != nil {
			return err
		}
		if err := d.tells(since, now.Collections); err != nil {
			return err
		}
		list, err := d.collectionChanges(kind, since)
		out = delta(since, now.Collections, list, limit)
		return err
	})
	return out, err
}

func (d *reading) collectionChanges(kind Kind, since Moment) (list []told, err error) {
	err = d.r.Changes(since.Mod, func(mod note.ModSeq, c layout.Change) bool {
		if c.Expunged && c.Gone && c.Folder == 0 && c.Class == note.Folder && c.Created <= since.Mod {
			list = append(list, told{mod, c.UNID, destroyed})
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, h := range d.r.AllFolders() {
		if !d.holds(kind, h) || d.rights(h)&note.Lookup == 0 {
			continue
		}
		row, err := d.r.Row(h.Note)
		switch {
		case err != nil:
			return nil, err
		case row.Mod > since.Mod && row.Created > since.base():
			list = append(list, told{row.Mod, h.UNID, created})
		case row.Mod > since.Mod:
			list = append(list, told{row.Mod, h.UNID, updated})
		}
	}
	return list, nil
}

// EntryChanges returns the entries of the collections of a kind that changed since a moment, at most limit of them (0:
// all).
func (f *File) EntryChanges(ctx context.Context, kind Kind, since Moment, limit int) (out Delta, err error) {
	err = f.read(ctx, func(d *reading) error {
		now, err := d.moments(kind)
		if err != nil {
			return err
		}
		if err := d.tells(since, now.Entries); err != nil {
			return err
		}
		w := &walk{reading: d, kind: kind, since: since, seen: map[note.ID]*track{}}
		list, err := w.changes()
		out = delta(since, now.Entries, list, limit)
		return err
	})
	return out, err
}

// walk finds the changes of entries since a moment.
type walk struct {
	*reading
	kind  Kind
	since Moment
	seen  map[note.ID]*track
}

// track is the course of one note since the base of a moment.
type track struct {
	mod  note.ModSeq // of the last change
	unid note.UNID
	// left is set if the note left a collection that the person may read, and old if it was in that one at the base.
	// unsure means that the folder it left does not exist any more, and may have been one of another kind.
	left, old, unsure bool
	message           bool // the note is gone, and was a message
}

func (w *walk) changes() (list []told, err error) {
	var inner error
	err = w.r.Changes(w.since.base(), func(mod note.ModSeq, c layout.Change) bool {
		inner = w.step(mod, &c)
		return inner == nil
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		x := w.seen[id]
		if x.mod <= w.since.Mod {
			continue
		}
		u, f, err := w.fate(id, x)
		if err != nil {
			return nil, err
		}
		if f != nothing {
			list = append(list, told{x.mod, u, f})
		}
	}
	return list, nil
}

// step records one change.
func (w *walk) step(mod note.ModSeq, c *layout.Change) error {
	x := w.seen[c.Note]
	if !c.Expunged {
		if x == nil {
			row, err := w.row(c.Note)
			if row == nil || !slices.ContainsFunc(row.Members, w.concerns) {
				return err
			}
			x = &track{}
			w.seen[c.Note] = x
		}
		x.mod = mod
		return nil
	}
	w.expunged(mod, c, x)
	return nil
}

// expunged records that a note left a folder. x is its track, nil if there is none.
func (w *walk) expunged(mod note.ModSeq, c *layout.Change, x *track) {
	h, err := w.r.Folder(c.Folder)
	unknown := err != nil
	mine := unknown && w.rights(nil)&note.Read != 0 || !unknown && w.holds(w.kind, h) && w.rights(h)&note.Read != 0
	if c.Folder != 0 && mine {
		if x == nil {
			x = &track{unsure: unknown}
			w.seen[c.Note] = x
		}
		x.left, x.unid, x.unsure = true, c.UNID, x.unsure && unknown
		x.old = x.old || c.UID <= w.since.UID
	}
	if x != nil {
		x.mod = mod
		x.message = x.message || !c.Thread.IsZero()
	}
}

// concerns reports whether a folder is a collection of the kind.
func (w *walk) concerns(m layout.Membership) bool {
	h, err := w.r.Folder(m.Folder)
	return err == nil && w.holds(w.kind, h)
}

// row returns the row of a note, nil if the note is gone.
func (d *reading) row(id note.ID) (*layout.Note, error) {
	row, err := d.r.Row(id)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Stub {
		return nil, nil
	}
	return row, err
}

// fate returns the change of a note as the person sees it.
func (w *walk) fate(id note.ID, x *track) (note.UNID, fate, error) {
	row, err := w.row(id)
	if err != nil {
		return note.UNID{}, nothing, err
	}
	known := x.old || x.left && w.since.Base != 0 // the client may have been told of it in a part
	if row == nil {
		if known && !x.message {
			return x.unid, destroyed, nil
		}
		return x.unid, nothing, nil
	}
	if h, m := w.home(w.kind, row); h != nil {
		old := m.UID <= w.since.UID
		e, err := w.entry(h, id, false)
		switch {
		case err != nil:
			return row.UNID, nothing, err
		case e != nil && (x.old || old):
			return row.UNID, updated, nil
		case e != nil:
			return row.UNID, created, nil
		}
		known = known || old // it is private now
	}
	if !known {
		return row.UNID, nothing, nil
	}
	f, err := w.gone(id, x)
	return row.UNID, f, err
}

// gone returns the change of a note that the person knew and does not see any more.
func (w *walk) gone(id note.ID, x *track) (fate, error) {
	if !x.unsure {
		return destroyed, nil
	}
	kind, err := w.kindOf(id)
	if err != nil || kind != w.kind {
		return nothing, err
	}
	return destroyed, nil
}

// home returns the collection of a kind that a note is in, nil if there is none that the person may read.
func (d *reading) home(kind Kind, row *layout.Note) (*layout.Folder, *layout.Membership) {
	for i := range row.Members {
		h, err := d.r.Folder(row.Members[i].Folder)
		if err == nil && d.holds(kind, h) && d.granted(h)&(note.Lookup|note.Read) == note.Lookup|note.Read {
			return h, &row.Members[i]
		}
	}
	return nil, nil
}

// kindOf returns the kind of collection that holds notes of this form, "" for a note that is no entry.
func (d *reading) kindOf(id note.ID) (Kind, error) {
	c, err := d.r.Content(id)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	switch form := c.Content.Items.Get(itemForm).AsText(); {
	case form == forms[vcard]:
		return AddressBook, nil
	case slices.Contains(slices.Collect(maps.Values(forms)), form):
		return Calendar, nil
	}
	return "", nil
}
