// Package dump prints the contents of the store as text, in a stable form for tests and readable for people. It reads
// the raw rows, also of databases that are out of service. It prints a row that cannot be read as damaged, and
// continues.
package dump

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// Options of a dump.
type Options struct {
	// JSON prints one JSON object per line instead of text.
	JSON bool
	// Rows also prints the derived rows of a database: index, counters of chunks, sequences, threads.
	Rows bool
	// From and Limit restrict Feed and Objects: From is the first sequence, Limit the number of records (0: all).
	From  uint64
	Limit int
	// Secret reports whether the value of an item must not be printed. If nil, all values are printed.
	Secret func(item string) bool
}

// errStop ends a scan.
var errStop = errors.New("stop")

// dumper prints from one snapshot.
type dumper struct {
	*printer
	s  *store.Store
	r  pebble.Reader
	o  Options
	db uint32
}

func run(w io.Writer, s *store.Store, o Options, fn func(*dumper) error) error {
	p := newPrinter(w, o)
	err := s.Inspect(func(r pebble.Reader) error { return fn(&dumper{printer: p, s: s, r: r, o: o}) })
	if err = errors.Join(err, p.done()); err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

func (d *dumper) scan(prefix []byte, fn func(k, v []byte) error) error {
	return d.scanFrom(prefix, prefix, fn)
}

func (d *dumper) scanFrom(prefix, lo []byte, fn func(k, v []byte) error) error {
	it, err := d.r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: layout.After(prefix)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = fn(it.Key(), v)
		}
		if err != nil {
			if errors.Is(err, errStop) {
				err = nil
			}
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

func (d *dumper) get(key []byte) ([]byte, error) {
	v, closer, err := d.r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, store.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	out := append([]byte{}, v...)
	return out, closer.Close()
}

// number finds the number of a database.
func (d *dumper) number(id note.DatabaseID) error {
	v, err := d.get(layout.NumberKey(layout.SpaceDatabase, uint64(id)))
	if err != nil {
		return fmt.Errorf("database %s: %w", id, err)
	}
	d.db = layout.Tail32(v)
	return nil
}

// bad prints a row that cannot be read.
func (d *dumper) bad(depth int, k, v []byte) {
	d.record(depth, "damaged", "key", hexBytes(k), "value", hexBytes(v[:min(len(v), 256)]))
}

// Database prints a database: its description, counters, folders and notes.
func Database(w io.Writer, s *store.Store, id note.DatabaseID, o Options) error {
	return run(w, s, o, func(d *dumper) error {
		if err := d.number(id); err != nil {
			return err
		}
		for _, part := range []func() error{d.info, d.counters, d.folders, d.notes, d.names, d.peers} {
			if err := part(); err != nil {
				return err
			}
		}
		if o.Rows {
			return d.rows()
		}
		return nil
	})
}

// Note prints one note: its row, memberships, state, revisions and items.
func Note(w io.Writer, s *store.Store, id note.DatabaseID, n note.ID, o Options) error {
	return run(w, s, o, func(d *dumper) error {
		if err := d.number(id); err != nil {
			return err
		}
		key := layout.NoteKey(d.db, layout.KindNote, n)
		v, err := d.get(key)
		if err != nil {
			return fmt.Errorf("note %d: %w", n, err)
		}
		return d.note(key, v)
	})
}

// Feed prints the server's feed.
func Feed(w io.Writer, s *store.Store, o Options) error {
	return run(w, s, o, func(d *dumper) error {
		d.record(0, "horizon", "sequence", s.Horizon(), "incarnation", fmt.Sprintf("%016x", s.Incarnation()))
		if v, err := d.get(layout.MetaKey("cut")); err == nil && len(v) == 8 {
			d.record(0, "cut", "sequence", layout.Tail64(v))
		}
		err := d.scan(layout.Key(layout.SpaceCursor), func(k, v []byte) error {
			if len(v) != 16 {
				d.bad(0, k, v)
				return nil
			}
			d.record(0, "cursor", "consumer", string(k[1:]), "incarnation",
				fmt.Sprintf("%016x", binary.BigEndian.Uint64(v)), "sequence", layout.Tail64(v))
			return nil
		})
		if err != nil {
			return err
		}
		n := 0
		return d.scanFrom(layout.Key(layout.SpaceFeed), layout.NumberKey(layout.SpaceFeed, o.From),
			func(k, v []byte) error {
				if n++; o.Limit > 0 && n > o.Limit {
					return errStop
				}
				items, err := layout.ReadFeed(layout.Tail64(k), v)
				if err != nil {
					d.bad(0, k, v)
					return nil
				}
				d.record(0, "commit", "sequence", layout.Tail64(k), "changes", len(items))
				for _, it := range items {
					d.record(1, "change", "sequence", it.Seq, "database_number", it.Database, "note", uint64(it.Note))
				}
				return nil
			})
	})
}

// Objects prints the object index with the references to each object.
func Objects(w io.Writer, s *store.Store, o Options) error {
	return run(w, s, o, func(d *dumper) error {
		n := 0
		return d.scan(layout.Key(layout.SpaceObject), func(k, v []byte) error {
			if n++; o.Limit > 0 && n > o.Limit {
				return errStop
			}
			loc, _, err := object.ParseLocation(v)
			if err != nil {
				d.bad(0, k, v)
				return nil
			}
			_, err = d.get(layout.Key(layout.SpaceSweep, []byte{'o'}, k[1:]))
			d.record(0, "object", "digest", hexBytes(k[1:]), "segment", loc.Segment, "offset", loc.Offset, "stored",
				loc.Stored,
				"size", loc.Size, "to_sweep", err == nil)
			return d.scan(layout.Key(layout.SpaceObjectRef, k[1:]), func(k, _ []byte) error {
				switch {
				case len(k) == 42 && k[33] == 'r':
					d.record(1, "reference", "recipe", layout.Tail64(k))
				case len(k) == 46 && k[33] == 'n':
					d.record(1, "reference", "database_number", layout.Tail32(k[:38]), "note", layout.Tail64(k))
				default:
					d.bad(1, k, nil)
				}
				return nil
			})
		})
	})
}

func (d *dumper) info() error {
	key := layout.Prefix(d.db, layout.KindInfo)
	v, err := d.get(key)
	if err != nil {
		return err
	}
	i, err := layout.ReadInfo(v)
	if err != nil {
		d.bad(0, key, v)
		return nil
	}
	d.record(0, "database", "id", i.ID, "number", i.Number, "replica", fmt.Sprintf("%016x", uint64(i.Replica)),
		"title", i.Title,
		"type", i.Kind, "owner", unid(i.Owner), "created", seconds(i.Created), "state", i.State.String(),
		"reason", i.Reason,
		"quota", i.Quota, "warning", i.Warning, "queue", i.Queue)
	d.acl(1, &i.ACL)
	return nil
}

func unid(u note.UNID) string {
	if u.IsZero() {
		return ""
	}
	return u.String()
}

func (d *dumper) acl(depth int, a *note.ACL) {
	d.record(depth, "access", "default", a.Default.String())
	for _, e := range a.Entries {
		d.record(depth, "access", "who", e.ID.String(), "level", e.Level.String(), "plus", e.Plus.Letters(), "minus",
			e.Minus.Letters())
	}
}

func (d *dumper) counters() error {
	key := layout.Prefix(d.db, layout.KindCounters)
	v, err := d.get(key)
	if errors.Is(err, store.ErrNotFound) {
		d.record(0, "counters", "missing", true)
		return nil
	}
	if err != nil {
		return err
	}
	c, err := layout.ReadCounters(v)
	if err != nil {
		d.bad(0, key, v)
		return nil
	}
	d.record(0, "counters", "next_note", uint64(c.NextNote), "sequence", c.Seq, "notes", c.Notes, "size", c.Size,
		"modseq", uint64(c.Ledger.Last),
		"uid", c.Ledger.UID, "slot", int(c.Ledger.Slot), "shared", c.Ledger.Shared, "skip", c.Ledger.Skip, "floor",
		uint64(c.Floor), "expunged", c.Expunged)
	return nil
}

func (d *dumper) folders() error {
	return d.scan(layout.Prefix(d.db, layout.KindFolder), func(k, v []byte) error {
		f, err := layout.ReadFolder(note.ID(layout.Tail64(k)), v)
		if err != nil {
			d.bad(0, k, v)
			return nil
		}
		d.record(0, "folder", "note", uint64(f.Note), "unid", f.UNID.String(), "name", f.Name, "special_use",
			f.SpecialUse, "uidvalidity", f.UIDValidity,
			"uidnext", f.UIDNext, "total", f.Total, "deleted", f.Deleted, "size", f.Size, "modseq", uint64(f.Mod))
		if f.Told < f.UIDNext {
			d.record(1, "told", "uid", uint64(f.Told))
		}
		d.seen(f.Seen)
		for _, p := range sorted(f.Subscribed) {
			d.record(1, "subscribed", "person", p)
		}
		if f.HasACL {
			d.acl(1, &f.ACL)
		}
		return nil
	})
}

func (d *dumper) seen(list []layout.SeenCount) {
	list = slices.SortedFunc(slices.Values(list), func(a, b layout.SeenCount) int { return a.Person.Compare(b.Person) })
	for _, s := range list {
		d.record(1, "seen", "person", s.Person.String(), "count", s.Count)
	}
}

func sorted(list []note.UNID) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].String()
	}
	slices.Sort(out)
	return out
}

func (d *dumper) names() error {
	prefix := layout.Prefix(d.db, layout.KindName)
	return d.scan(prefix, func(k, v []byte) error {
		if len(v) != 4 {
			d.bad(0, k, v)
			return nil
		}
		d.record(0, "name", "name", string(k[len(prefix):]), "uidvalidity", layout.Tail32(v))
		return nil
	})
}

func (d *dumper) peers() error {
	return d.scan(layout.Prefix(d.db, layout.KindPeer), func(k, v []byte) error {
		p, err := layout.ReadPeer(v)
		if err != nil {
			d.bad(0, k, v)
			return nil
		}
		d.record(0, "replica", "id", fmt.Sprintf("%016x", layout.Tail64(k)), "passed", p.Passed, "heard",
			seconds(p.Heard))
		return nil
	})
}

// value returns a note's value as JSON.
func value(v note.Value) json.RawMessage {
	b, err := v.MarshalJSON()
	if err != nil {
		return json.RawMessage(`"(damaged)"`)
	}
	return b
}
