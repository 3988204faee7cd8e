package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Fault is the kind of a finding.
type Fault string

// The faults.
const (
	// Missing: the entry is not there. Changed: its fields or its encrypted part are not what they were when it was
	// written. Inserted: it does not belong to the chain. Reordered: it stands behind a later entry. Unreadable: it is
	// damaged.
	Missing    Fault = "missing"
	Changed    Fault = "changed"
	Inserted   Fault = "inserted"
	Reordered  Fault = "reordered"
	Unreadable Fault = "unreadable"
)

// Finding is a fault in a chain, for the entries From to To.
type Finding struct {
	Fault    Fault  `json:"fault"`
	From, To uint64 `json:"-"`
	Text     string `json:"text"`
}

// String returns the finding as a line.
func (f Finding) String() string {
	if f.From == f.To {
		return fmt.Sprintf("entry %d %s: %s", f.From, f.Fault, f.Text)
	}
	return fmt.Sprintf("entries %d to %d %s: %s", f.From, f.To, f.Fault, f.Text)
}

// maxFindings limits the findings of one verification.
const maxFindings = 1000

// Report is the result of a verification.
type Report struct {
	// Entries is the number of entries read, First and Last are the numbers expected.
	Entries     uint64
	First, Last uint64
	// LastHash is the hash of the last entry.
	LastHash Hash
	Findings []Finding
}

func (r *Report) add(fault Fault, from, to uint64, text string) {
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{fault, from, to, text})
	}
}

// chain verifies entries in the order in which they are stored.
type chain struct {
	Report
	previous Hash   // before the first entry
	next     uint64 // the number that is expected
	hash     Hash   // of the entry before
	// sure means that hash is that of the entry next-1. After a missing or damaged entry it is not known.
	sure bool
	gone map[uint64]bool // numbers reported missing that may still come
}

// newChain expects entries from first on, of which the first has the hash previous before it.
func newChain(first uint64, previous Hash) *chain {
	return &chain{Report: Report{First: first}, previous: previous, next: first, hash: previous, sure: true,
		gone: map[uint64]bool{}}
}

// take verifies an entry. content is the hash of its encrypted part as it was read.
func (c *chain) take(e *Entry, content Hash) {
	c.Entries++
	switch {
	case c.gone[e.Number]:
		delete(c.gone, e.Number)
		c.remove(e.Number)
		c.add(Reordered, e.Number, e.Number, fmt.Sprintf("it stands behind entry %d", c.next-1))
		return
	case e.Number < c.next:
		c.add(Inserted, e.Number, e.Number, "a second entry has this number")
		return
	case e.Number > c.next:
		c.skip(e.Number)
	}
	good := e.sum() == e.Hash
	switch {
	case !good:
		c.add(Changed, e.Number, e.Number, "its fields do not have its hash")
	case content != e.Content || content == Hash{}:
		c.add(Changed, e.Number, e.Number, "its encrypted part does not have its hash")
	case c.sure && e.Previous != c.hash && e.Number == c.First:
		c.add(Changed, e.Number, e.Number, "it does not continue the chain before the first entry")
	case c.sure && e.Previous != c.hash:
		c.add(Inserted, e.Number-1, e.Number-1, fmt.Sprintf("entry %d continues another one", e.Number))
	}
	// An entry whose stored hash was not altered still links the next one.
	c.next, c.hash, c.sure = e.Number+1, e.Hash, true
}

// skip reports the entries before n missing. A few of them may follow later.
func (c *chain) skip(n uint64) {
	c.add(Missing, c.next, n-1, "no entry has this number")
	for k := c.next; k < n && len(c.gone) < maxFindings; k++ {
		c.gone[k] = true
	}
	c.next, c.sure = n, false
}

// remove withdraws the finding that a number is missing.
func (c *chain) remove(n uint64) {
	for i, f := range c.Findings {
		if f.Fault != Missing || n < f.From || n > f.To {
			continue
		}
		rest := append([]Finding{}, c.Findings[i+1:]...)
		c.Findings = c.Findings[:i]
		if f.From < n {
			c.add(Missing, f.From, n-1, f.Text)
		}
		if n < f.To {
			c.add(Missing, n+1, f.To, f.Text)
		}
		c.Findings = append(c.Findings, rest...)
		return
	}
}

// end compares the last entry with the one that is known to be the last.
func (c *chain) end(last uint64, hash Hash) Report {
	c.Last, c.LastHash = last, hash
	if c.next <= last {
		c.add(Missing, c.next, last, "no entry has this number")
		return c.Report
	}
	if c.next-1 > last {
		c.add(Inserted, last+1, c.next-1, fmt.Sprintf("the last entry is %d", last))
	} else if c.sure && c.hash != hash {
		c.add(Changed, last, last, "it does not have the hash of the last entry")
	}
	return c.Report
}

// Verify verifies a database: that its entries are complete and unchanged. It reads every encrypted part. progress is
// called now and then with the number of entries read.
func (j *Journal) Verify(ctx context.Context, db note.DatabaseID, progress func(done uint64)) (Report, error) {
	if err := j.isJournal(db); err != nil {
		return Report{}, err
	}
	h, err := j.headOf(ctx, db)
	if err != nil {
		return Report{}, err
	}
	c := newChain(1, h.origin)
	err = j.each(ctx, db, func(id note.ID, err error) {
		c.add(Unreadable, c.next, c.next, fmt.Sprintf("note %d: %v", id, err))
		c.sure, c.next = false, c.next+1
	}, func(e *Entry, s *store.Stored) (bool, error) {
		sum, err := sumOf(s)
		if err != nil {
			c.add(Unreadable, e.Number, e.Number, err.Error())
			sum = e.Content // reported once
		}
		c.take(e, sum)
		if progress(c.Entries); ctx.Err() != nil {
			return false, ctx.Err()
		}
		return true, nil
	})
	if err != nil {
		return c.Report, err
	}
	if last := c.next - 1; last > h.number {
		if h, err = j.headOf(ctx, db); err != nil {
			return c.Report, err
		}
		if last <= h.number { // written since the head was first read
			return c.end(last, c.hash), nil
		}
	}
	return c.end(h.number, h.hash), nil
}

func (j *Journal) headOf(ctx context.Context, db note.DatabaseID) (h head, err error) {
	err = j.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		h, err = readHead(r)
		return err
	})
	return h, err
}

// sumOf returns the hash of an encrypted part; zero if there is none, which no entry has.
func sumOf(s *store.Stored) (h Hash, err error) {
	if s == nil {
		return h, nil
	}
	sum := sha256.New()
	if _, err = s.WriteTo(sum); err == nil {
		sum.Sum(h[:0])
	}
	return h, err
}

// each calls fn for the entries of a database in the order in which they were stored, until it returns false, and bad
// for those that cannot be read.
func (j *Journal) each(ctx context.Context, db note.DatabaseID, bad func(id note.ID, err error),
	fn func(e *Entry, s *store.Stored) (bool, error)) error {
	type item struct {
		id      note.ID
		entry   Entry
		content *store.Stored
		err     error
	}
	next, more := note.ID(0), true
	for more {
		var items []item
		err := j.store.Read(ctx, note.System, db, func(r *store.Reader) error {
			n := 0
			defer func() { more = n == page }()
			damaged := func(id note.ID, err error) { items = append(items, item{id: id, err: err}) }
			return store.ReadableNotes(r, next, damaged,
				func(id note.ID, row *layout.Note) bool {
					next = id + 1
					n++
					if row.Class != note.Document {
						return n < page
					}
					x := item{id: id}
					x.entry, x.content, x.err = entryAt(r, id)
					if errors.Is(x.err, store.ErrNotFound) && x.entry.Number > 0 {
						x.content, x.err = nil, nil // the encrypted part is gone, or was never there
					}
					items = append(items, x)
					return n < page
				})
		})
		if err != nil {
			return err
		}
		for i := range items {
			x := &items[i]
			if x.err != nil {
				if errors.Is(x.err, context.Canceled) {
					return x.err
				}
				bad(x.id, x.err)
				continue
			}
			if on, err := fn(&x.entry, x.content); err != nil || !on {
				return err
			}
		}
	}
	return nil
}
