// Package check verifies every invariant of the store's map of keys: derived rows agree with their source in both
// directions, and no reference leads to something that does not exist. Repair rebuilds derived rows from the notes and
// their content, which are authoritative.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// Kind is the sort of row that a finding concerns.
type Kind string

// The kinds of finding.
const (
	Unreadable      Kind = "unreadable"
	Unknown         Kind = "unknown row"
	Meta            Kind = "store record"
	DatabaseList    Kind = "database list"
	Info            Kind = "info"
	Counters        Kind = "counters"
	NoteRow         Kind = "note"
	ContentRow      Kind = "content"
	LeafRow         Kind = "leaf"
	UNIDRow         Kind = "unid"
	SequenceRow     Kind = "sequence"
	ModSeqRow       Kind = "modseq"
	UnnumberedRow   Kind = "unnumbered"
	FolderRow       Kind = "folder"
	MemberRow       Kind = "member"
	ChunkRow        Kind = "chunk"
	DeletedRow      Kind = "deleted"
	ThreadRow       Kind = "thread"
	NameRow         Kind = "name"
	PeerRow         Kind = "peer"
	IndexRow        Kind = "index"
	FeedRow         Kind = "feed"
	CursorRow       Kind = "cursor"
	Recipe          Kind = "recipe"
	RecipeReference Kind = "recipe reference"
	RecipeHash      Kind = "recipe hash"
	Object          Kind = "object"
	ObjectReference Kind = "object reference"
	SweepRow        Kind = "sweep"
	CopyRow         Kind = "copy"
)

// Finding is one defect.
type Finding struct {
	// Database is the database concerned; 0 for rows of the whole server.
	Database note.DatabaseID
	Kind     Kind
	// Key is the row's key. For a missing row it is the key that the row should have.
	Key  []byte
	Text string
	// Repairable means that Repair can repair it without a mate or a backup.
	Repairable bool
}

func (f Finding) String() string {
	if f.Database == 0 {
		return fmt.Sprintf("%s: %s (key %x)", f.Kind, f.Text, f.Key)
	}
	return fmt.Sprintf("database %s: %s: %s (key %x)", f.Database, f.Kind, f.Text, f.Key)
}

// Lost is a note that Repair removed or, with Note 0, a range of rows that it cut out. With Database 0 too, the rows
// belonged to no single database.
type Lost struct {
	Database note.DatabaseID
	Note     note.ID
	UNID     note.UNID // zero if not known
	Reason   string
}

// Progress describes how far a check is.
type Progress struct {
	Stage            string
	Database         note.DatabaseID
	Done, Databases  int
	Rows, Bytes      uint64
	Findings, Passes int
}

// Report is the result of a check.
type Report struct {
	Findings []Finding
	// More is the number of findings beyond Options.Limit.
	More int
	// Lost lists what Repair removed, Applied is the number of rows that it wrote, Passes the number of its passes
	// through the store. Reopen means that the store must be closed and opened before the repaired databases serve.
	Lost    []Lost
	Applied int
	Passes  int
	Reopen  bool
	// Deep means that every object was read.
	Deep bool
	// Elsewhere is the number of objects in evicted segments. Only a deep check reads them.
	Elsewhere uint64
	// Damaged lists the segments on disk with objects that cannot be read. Healed is the number of those that Repair
	// replaced by their copies, Found that of segments of which it found the copies.
	Damaged []uint64
	Healed  int
	Found   int
	// Locked lists the databases that were not checked, because they have keys of their own that are not given.
	Locked []note.DatabaseID

	Databases, Notes, Stubs, Members, Messages, Objects, Feed uint64
	// Rows and Bytes count what was read.
	Rows, Bytes uint64
}

// Clean reports whether there are no findings.
func (r *Report) Clean() bool { return len(r.Findings) == 0 && r.More == 0 }

// Options of a check.
type Options struct {
	// Deep reads every object and compares it with its digest. It also rebuilds every message and compares it with its
	// SHA-256.
	Deep bool
	// Databases restricts the check to these databases, without the rows of the whole server.
	Databases []note.DatabaseID
	// Limit bounds the findings that are kept (10,000).
	Limit int
	// Progress is called from time to time.
	Progress func(Progress)
}

// Run checks an open store as of one moment. Updates can continue meanwhile. Defects of the store are in the report; an
// error means that the check itself failed.
func Run(ctx context.Context, s *store.Store, o Options) (Report, error) {
	rep := Report{Deep: o.Deep}
	c := &checker{ctx: ctx, s: s, o: o, rep: &rep}
	err := c.once()
	return rep, err
}

// checker is one pass over the store.
type checker struct {
	ctx context.Context
	s   *store.Store
	r   pebble.Reader
	o   Options
	rep *Report
	// mend applies the changes that repair a finding. It is nil when only checking.
	mend func(db note.DatabaseID, changes []change) error
	err  error // the error of mend

	dbs   []entry
	byNum map[uint32]*entry
	// ceiling is above every sequence, number is the highest database number ever given, cut is where the feed begins.
	ceiling, number, cut uint64
	// wanted holds objects that are missing in the index or not readable at their location.
	wanted map[note.Digest]bool
	// repairing means that a repair runs, which puts the databases back into service itself.
	repairing bool
	// evicted has the sizes of segments that are not on disk.
	evicted map[uint64]int64
	done    int
	ticks   uint64
}

// entry is a database in the list, with results of its check that the check of shared rows needs.
type entry struct {
	id  note.DatabaseID
	num uint32
	// fresh counts the sequence rows after the feed's cut, and fed those of them that the feed names.
	fresh, fed uint64
	// partial means that the check of the database could not be finished. seal is what seals its rows. locked means
	// that its key is needed and not given.
	partial, locked bool
	seal            store.Sealer
}

// databaseID returns the id of the database, 0 for nil.
func (e *entry) databaseID() note.DatabaseID {
	if e == nil {
		return 0
	}
	return e.id
}

// change is a row to write or, if set is false, to remove. With to, it removes all rows from key up to it.
type change struct {
	key, value []byte
	set        bool
	to         []byte
}

func put(key, value []byte) change { return change{key: key, value: value, set: true} }

func drop(key []byte) change { return change{key: append([]byte(nil), key...)} }

func (c *checker) once() error {
	if c.o.Limit <= 0 {
		c.o.Limit = 10_000
	}
	c.repairing = c.s.KeysHeld()
	return c.s.Inspect(func(r pebble.Reader) error {
		c.r, c.repairing = r, c.repairing || c.s.KeysHeld()
		return c.run()
	})
}

func (c *checker) run() error {
	if err := c.list(); err != nil {
		return c.unreadable(0, "the list of databases", err)
	}
	for i := range c.dbs {
		e := &c.dbs[i]
		if !c.chosen(e.id) {
			continue
		}
		c.tell("database", e.id)
		if err := c.database(e); err != nil {
			e.partial = true
			if err := c.unreadable(e.id, "the rest of the database", err); err != nil {
				return err
			}
		}
		c.done++
		c.rep.Databases++
	}
	if len(c.o.Databases) == 0 {
		for _, part := range []struct {
			name string
			fn   func() error
		}{
			{"strays", c.strays}, {"feed", c.feed}, {"cursors", c.cursors}, {"messages", c.recipes},
			{"message digests", c.hashes}, {"objects", c.objects},
			{"sweep list", func() error { return c.readable(layout.SpaceSweep, SweepRow, isSweep) }},
			{"copies", func() error { return c.readable(layout.SpaceTier, CopyRow, isCopy) }},
		} {
			c.tell(part.name, 0)
			if err := part.fn(); err != nil {
				if err := c.unreadable(0, part.name, err); err != nil {
					return err
				}
			}
		}
	}
	c.tell("done", 0)
	return errors.Join(c.err, c.ctx.Err())
}

func (c *checker) chosen(id note.DatabaseID) bool {
	return len(c.o.Databases) == 0 || slices.Contains(c.o.Databases, id)
}

// errDamage marks an error of the engine. A range that cannot be read is a finding. The check of that part ends there,
// so that unread rows are not reported as missing.
type errDamage struct{ err error }

func (e errDamage) Error() string { return e.err.Error() }
func (e errDamage) Unwrap() error { return e.err }

func (c *checker) unreadable(db note.DatabaseID, what string, err error) error {
	var d errDamage
	if c.ctx.Err() != nil || c.err != nil || !errors.As(err, &d) {
		return errors.Join(err, c.err)
	}
	c.found(db, Unreadable, nil, nil, "%s cannot be read: %v", what, d.err)
	return nil
}

func (c *checker) tell(stage string, db note.DatabaseID) {
	if c.o.Progress != nil {
		c.o.Progress(Progress{
			Stage: stage, Database: db, Done: c.done, Databases: len(c.dbs), Rows: c.rep.Rows, Bytes: c.rep.Bytes,
			Findings: len(c.rep.Findings) + c.rep.More, Passes: c.rep.Passes,
		})
	}
}

// found reports a finding. changes repair it.
func (c *checker) found(db note.DatabaseID, kind Kind, key []byte, changes []change, format string, args ...any) {
	if len(c.rep.Findings) >= c.o.Limit {
		c.rep.More++
	} else {
		c.rep.Findings = append(c.rep.Findings, Finding{
			Database: db, Kind: kind, Key: append([]byte(nil), key...), Text: fmt.Sprintf(format, args...),
			Repairable: len(changes) > 0,
		})
	}
	if c.mend != nil && len(changes) > 0 && c.err == nil {
		c.err = c.mend(db, changes)
	}
}

// require reports a row without a value if it does not exist.
func (c *checker) require(db note.DatabaseID, kind Kind, key []byte, format string, args ...any) error {
	ok, err := c.has(key)
	if err == nil && !ok {
		c.found(db, kind, key, []change{put(key, nil)}, format, args...)
	}
	return err
}

// lose reports a note that cannot be kept.
func (c *checker) lose(db *entry, id note.ID, unid note.UNID, kind Kind, reason string) {
	key := layout.NoteKey(db.num, layout.KindNote, id)
	if c.mend != nil {
		c.rep.Lost = append(c.rep.Lost, Lost{db.id, id, unid, reason})
	}
	c.found(db.id, kind, key, []change{drop(key), drop(layout.NoteKey(db.num, layout.KindContent, id))},
		"note %d (%s): %s", id, unid, reason)
}

// count counts a row that was read.
func (c *checker) count(k, v []byte) error {
	c.rep.Rows++
	c.rep.Bytes += uint64(len(k) + len(v))
	if c.ticks++; c.ticks&0xFFF != 0 {
		return nil
	}
	if c.ticks&0xFFFF == 0 {
		c.tell("rows", 0)
	}
	return errors.Join(c.err, c.ctx.Err())
}

// scan calls fn for every row under prefix. k and v are valid only during the call.
func (c *checker) scan(prefix []byte, fn func(k, v []byte) error) error {
	w, err := c.walk(prefix)
	if err != nil {
		return err
	}
	defer w.close()
	return w.while(always, func(k []byte) error { return fn(k, w.value) })
}

// walker iterates over the rows under a prefix.
type walker struct {
	c          *checker
	it         *pebble.Iterator
	ok         bool
	key, value []byte
}

func (c *checker) walk(prefix []byte) (*walker, error) {
	it, err := c.r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
	if err != nil {
		return nil, errDamage{err}
	}
	w := &walker{c: c, it: it}
	if err := w.load(it.First()); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// while calls fn for each row, from the current one on, as long as its key fits.
func (w *walker) while(fits func(key []byte) bool, fn func(key []byte) error) error {
	for w.ok && fits(w.key) {
		if err := fn(w.key); err != nil {
			return err
		}
		if err := w.next(); err != nil {
			return err
		}
	}
	return nil
}

func always([]byte) bool { return true }

func (w *walker) next() error { return w.load(w.it.Next()) }

func (w *walker) load(ok bool) error {
	if w.ok = ok; !ok {
		if err := w.it.Error(); err != nil {
			return errDamage{err}
		}
		return nil
	}
	var err error
	w.key = w.it.Key()
	if w.value, err = w.it.ValueAndErr(); err != nil {
		return errDamage{err}
	}
	return w.c.count(w.key, w.value)
}

// close closes the iterator. Its error was returned when it failed.
func (w *walker) close() { _ = w.it.Close() }

// get returns a copy of a row's value. ok is false if there is no row.
func (c *checker) get(key []byte) (v []byte, ok bool, err error) {
	p, closer, err := c.r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, errDamage{err}
	}
	v = append([]byte(nil), p...)
	return v, true, closer.Close()
}

func (c *checker) has(key []byte) (bool, error) {
	_, closer, err := c.r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, errDamage{err}
	}
	return true, closer.Close()
}
