// Package check verifies every invariant of the store's key map: that what is derived agrees with
// what it is derived from, in both directions, and that nothing names what is not there. Repair
// rebuilds what can be rebuilt from the notes and their content, which are the truth.
package check

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// Kind says what sort of row a finding is about.
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
)

// Finding is one thing that is wrong.
type Finding struct {
	// Database is the database that it is in; 0 for what belongs to the server as a whole.
	Database note.DatabaseID
	Kind     Kind
	// Key is the row's key, of a missing row the key that it should stand under.
	Key  []byte
	Text string
	// Repairable says that Repair can put it right without a mate or a backup.
	Repairable bool
}

func (f Finding) String() string {
	if f.Database == 0 {
		return fmt.Sprintf("%s: %s (key %x)", f.Kind, f.Text, f.Key)
	}
	return fmt.Sprintf("database %s: %s: %s (key %x)", f.Database, f.Kind, f.Text, f.Key)
}

// Lost is a note that Repair had to remove, or, with Note 0, a range of rows that it had to cut out; with
// Database 0 too, one of rows that belong to no single database.
type Lost struct {
	Database note.DatabaseID
	Note     note.ID
	UNID     note.UNID // zero where it is not known any more
	Reason   string
}

// Progress says how far a check has come.
type Progress struct {
	Stage            string
	Database         note.DatabaseID
	Done, Databases  int
	Rows, Bytes      uint64
	Findings, Passes int
}

// Report is what a check found.
type Report struct {
	Findings []Finding
	// More counts findings beyond Options.Limit.
	More int
	// Lost lists what Repair removed, Applied the rows that it wrote, Passes how often it went
	// through the store. Reopen says that the store must be closed and opened again before the
	// repaired databases serve.
	Lost    []Lost
	Applied int
	Passes  int
	Reopen  bool
	// Deep says that every object was read.
	Deep bool

	Databases, Notes, Stubs, Members, Messages, Objects, Feed uint64
	// Rows and Bytes are what was read.
	Rows, Bytes uint64
}

// Clean says that nothing was found.
func (r *Report) Clean() bool { return len(r.Findings) == 0 && r.More == 0 }

// Options of a check.
type Options struct {
	// Deep reads every object, compares it with its digest, rebuilds every message and compares it
	// with its SHA-256.
	Deep bool
	// Databases restricts the check to these, without what belongs to the server as a whole.
	Databases []note.DatabaseID
	// Limit bounds the findings that are kept (10,000).
	Limit int
	// Progress is told from time to time.
	Progress func(Progress)
}

// Run checks an open store as it stood at one moment; updates go on meanwhile. An error means that
// the check could not be done: what is wrong with the store is in the report.
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
	// mend takes the changes that would put findings right; nil when only checking.
	mend func(db note.DatabaseID, changes []change) error
	err  error // of mend

	dbs   []entry
	byNum map[uint32]*entry
	// ceiling is above every sequence, number the highest database number ever given, cut where the
	// feed begins.
	ceiling, number, cut uint64
	// wanted are objects that the index has lost or names at a bad place.
	wanted map[note.Digest]bool
	done   int
	ticks  uint64
}

// entry is a database in the list, and what its check leaves behind for that of shared rows.
type entry struct {
	id  note.DatabaseID
	num uint32
	// fresh counts the sequence rows behind the feed's cut, fed those that the feed names.
	fresh, fed uint64
	// partial says that the check of the database could not be finished.
	partial bool
}

// change is a row to be written or, without set, removed; with to, all rows from key up to it.
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
	return c.s.Inspect(func(r pebble.Reader) error {
		c.r = r
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
			{"message digests", c.hashes}, {"objects", c.objects}, {"sweep list", c.sweeps},
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
	for _, d := range c.o.Databases {
		if d == id {
			return true
		}
	}
	return len(c.o.Databases) == 0
}

// errDamage marks an error of the engine: a range that cannot be read is a finding, and the check
// of what it belongs to ends there, so that nothing is taken for missing that only was not seen.
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

// found reports a finding; changes put it right.
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

// scan calls fn for every row under prefix; k and v are valid during the call only.
func (c *checker) scan(prefix []byte, fn func(k, v []byte) error) error {
	w, err := c.walk(prefix)
	if err != nil {
		return err
	}
	for w.ok && err == nil {
		if err = fn(w.key, w.value); err == nil {
			err = w.next()
		}
	}
	return errors.Join(err, w.close())
}

// walker steps through the rows under a prefix.
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
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

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

func (w *walker) close() error {
	// What a failed iterator has to say was said when it failed.
	_ = w.it.Close()
	return nil
}

// get reads a row into memory of its own; ok is false where there is none.
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
