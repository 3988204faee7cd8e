package check

import (
	"cmp"
	"errors"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// scope holds the rows of one database for the parts of its check.
type scope struct {
	*checker
	*entry
}

// database is the check of one database. It collects the data of the notes and their content in one pass, and then
// compares every derived row with it.
type database struct {
	*numbers
	*notes
	folders folders
	indexes indexes
}

// notes are the notes of a database that exist.
type notes struct {
	list []rec           // ascending ids
	used map[uint64]bool // see freeSequence
}

// rec is a note, in as little memory as possible, with which the derived rows must agree.
type rec struct {
	id      note.ID
	unid    note.UNID
	thread  note.UNID
	seq     uint64
	mod     note.ModSeq
	members []layout.Membership
	found   uint32 // member rows found
	mark    uint8
	stub    bool
	// listed means that the note has a row under its MODSEQ, unnumbered that it has one among the unnumbered notes.
	listed, unnumbered bool
}

// Flags for the derived rows of a note that were found.
const (
	hasUNID = 1 << iota
	hasSequence
	hasModSeq
	hasThread
	hasUnnumbered
)

func (c *checker) database(e *entry) error {
	at, n := scope{c, e}, new(notes)
	x := &numbers{scope: at}
	d := &database{numbers: x, notes: n, indexes: indexes{scope: at}, folders: folders{numbers: x, notes: n,
		sums: map[note.ID]*sums{}, heads: map[note.ID]*layout.Folder{}}}
	if err := d.readInfo(); err != nil {
		return err
	}
	if e.locked {
		d.passOver()
		return nil
	}
	for _, step := range []func() error{
		d.readCounters, d.folders.readHeads, d.readNotes, d.unids, d.sequences, d.unnumbered, d.threads,
		d.folders.members, d.folders.chunks, d.modseqs, d.folders.checkHeads, d.peers, d.indexes.check, d.missing,
		d.unknown, d.checkCounters,
	} {
		err := step()
		if errors.Is(err, store.ErrLocked) { // since the check began, or its description does not say it
			d.passOver()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// passOver ends the check of a database whose key is not given. What cannot be opened is not damaged.
func (s scope) passOver() {
	s.locked, s.partial = true, true
	s.rep.Locked = append(s.rep.Locked, s.id)
}

func (s scope) report(kind Kind, key []byte, changes []change, format string, args ...any) {
	s.found(s.id, kind, key, changes, format, args...)
}

func (s scope) prefix(k layout.Kind) []byte { return layout.Prefix(s.num, k) }

func (s scope) read(id note.ID) (*layout.Note, *layout.Content, error) {
	n, err := s.readNote(s.num, id)
	c, cerr := s.readContent(s.num, id)
	return n, c, errors.Join(err, cerr)
}

// find returns the note with an id, or nil if there is none.
func (n *notes) find(id note.ID) *rec {
	i, ok := slices.BinarySearchFunc(n.list, id, func(r rec, id note.ID) int { return cmp.Compare(r.id, id) })
	if !ok {
		return nil
	}
	return &n.list[i]
}

// freeSequence returns a sequence up to last, the highest of the database, that no note uses.
func (n *notes) freeSequence(last uint64) (uint64, bool) {
	if n.used == nil {
		n.used = make(map[uint64]bool, len(n.list))
		for i := range n.list {
			n.used[n.list[i].seq] = true
		}
	}
	for seq := last; seq > 0; seq-- {
		if !n.used[seq] {
			n.used[seq] = true
			return seq, true
		}
	}
	return 0, false
}

func (d *database) readInfo() error {
	key := d.prefix(layout.KindInfo)
	v, ok, err := d.get(key)
	if err != nil {
		return err
	}
	if !ok {
		d.report(Info, key, nil, "missing: restore the database")
		return d.undescribed()
	}
	info, err := layout.ReadInfo(v)
	if err != nil {
		d.report(Info, key, nil, "cannot be read: restore the database")
		return d.undescribed()
	}
	if info.ID != d.id || info.Number != d.num {
		fixed := *info
		fixed.ID, fixed.Number = d.id, d.num
		d.report(Info, key, []change{put(key, layout.AppendInfo(nil, &fixed))}, "says database %s, number %d",
			info.ID, info.Number)
	}
	// During a repair all databases are out of service.
	if was, ok := outOfRepair(d.s, info); ok && !d.repairing {
		d.report(Info, key, []change{put(key, layout.AppendInfo(nil, &was))}, "out of service since a repair that did "+
			"not end")
	}
	if d.seal, err = d.s.Sealer(info); err != nil || d.s.Locked(info) {
		d.locked = true
		return nil
	}
	for _, x := range d.s.Indexes() {
		if x.Kind == info.Kind {
			d.indexes.list = append(d.indexes.list, index{Index: x})
		}
	}
	return nil
}

// undescribed looks for sealed rows in a database without a description. The description had its key, so that they can
// neither be opened nor written again.
func (d *database) undescribed() error {
	for _, k := range []layout.Kind{layout.KindContent, layout.KindLeaf} {
		if err := d.scan(d.prefix(k), func(_, v []byte) error {
			d.locked = d.locked || layout.IsSealed(v)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// unknown finds rows of kinds that do not exist.
func (d *database) unknown() error {
	it, err := d.r.NewIter(nil)
	if err != nil {
		return errDamage{err}
	}
	defer it.Close()
	const kinds = "imncxusyqhfketzpvwV"
	at := layout.Prefix(d.num, 0)[:5]
	end := string(layout.After(at))
	for it.SeekGE(at) && string(it.Key()) < end {
		_, kind, rest, ok := layout.Split(it.Key())
		switch {
		case ok && kind == layout.KindView && len(rest) >= 8 && layout.Tail64(rest[:8])-256 < 1<<63-256:
			d.report(Unknown, it.Key(), []change{drop(it.Key())}, "a view number that neither an index nor a view has")
			at = append(append(at[:0], it.Key()...), 0)
			continue
		case ok && slices.Contains([]byte(kinds), byte(kind)):
			at = d.afterKind(kind, rest)
		default:
			d.report(Unknown, it.Key(), []change{drop(it.Key())}, "a row of no kind that this release writes")
			at = append(append(at[:0], it.Key()...), 0)
		}
		if err := d.count(it.Key(), nil); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return errDamage{err}
	}
	return nil
}

// afterKind returns the key at which the search for unknown rows continues after a row of a known kind. Within the rows
// of views, it continues at the next view number.
func (d *database) afterKind(kind layout.Kind, rest []byte) []byte {
	if kind == layout.KindView && len(rest) >= 8 {
		if next := layout.After(rest[:8]); next != nil {
			return append(d.prefix(kind), next...)
		}
	}
	return layout.After(d.prefix(kind))
}

// readNote reads a note. It returns nil if the note does not exist or cannot be read.
func (c *checker) readNote(num uint32, id note.ID) (*layout.Note, error) {
	v, ok, err := c.get(layout.NoteKey(num, layout.KindNote, id))
	if err != nil || !ok {
		return nil, err
	}
	n, err := layout.ReadNote(v)
	if err != nil {
		return nil, nil //nolint:nilerr // its own finding
	}
	return n, nil
}

func (c *checker) readContent(num uint32, id note.ID) (*layout.Content, error) {
	row, _, err := readNamed(c, num, id)
	return row, err
}

// readNamed is readContent, and also returns the names of the objects, as the row has them. The error is
// store.ErrLocked if the row's key is not given.
func readNamed(c *checker, num uint32, id note.ID) (*layout.Content, []note.Digest, error) {
	key := layout.NoteKey(num, layout.KindContent, id)
	v, ok, err := c.get(key)
	if err != nil || !ok {
		return nil, nil, err
	}
	plain, err := c.s.Unseal(key, v)
	if errors.Is(err, store.ErrLocked) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, nil //nolint:nilerr // its own finding
	}
	row, err := layout.ReadContentRow(plain)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // its own finding
	}
	return row, rowNames(v, &row.Content), nil
}
