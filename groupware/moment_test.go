package groupware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doublet/note"
)

// follower is a client that follows the changes of entries by UNID.
type follower struct {
	f     *File
	at    Moment
	known map[note.UNID]string // ETags, as of the last time it was asked
}

// read starts again.
func (x *follower) read(ctx context.Context) error {
	x.known = map[note.UNID]string{}
	m, err := x.f.Moments(ctx, AddressBook)
	x.at = m.Entries
	return errors.Join(err, x.f.All(ctx, AddressBook, false, func(e *Entry) bool {
		x.known[e.UNID] = e.ETag
		return true
	}))
}

// follow reads the changes in pieces of at most limit (0: all).
func (x *follower) follow(ctx context.Context, limit int) error {
	for {
		parsed, err := ParseMoment(x.at.String())
		if err != nil || parsed != x.at {
			return fmt.Errorf("moment %v is parsed as %v: %w", x.at, parsed, err)
		}
		d, err := x.f.EntryChanges(ctx, AddressBook, x.at, limit)
		if errors.Is(err, ErrForgotten) {
			return x.read(ctx)
		}
		if err != nil {
			return err
		}
		if n := len(d.Created) + len(d.Updated) + len(d.Destroyed); limit > 0 && n > limit {
			return fmt.Errorf("%d changes, at most %d", n, limit)
		}
		for _, u := range d.Updated {
			if _, ok := x.known[u]; !ok {
				return fmt.Errorf("update of an unknown entry %s", u)
			}
		}
		for _, u := range d.Destroyed {
			delete(x.known, u)
		}
		err = x.f.ByID(ctx, AddressBook, slices.Concat(d.Created, d.Updated), false, func(e *Entry) bool {
			x.known[e.UNID] = e.ETag
			return true
		})
		if x.at = d.Moment; err != nil || !d.More {
			return err
		}
	}
}

// TestMoments checks that clients that follow the changes of a mail file's entries by UNID know all of them, after
// random changes in several collections: the owner, and a person who may read some collections only.
func TestMoments(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			rng := rand.New(rand.NewPCG(seed, 9))
			w := newWorld(t, 0)
			f, other := w.file(), w.svc.File(w.other, w.db)
			acl := note.ACL{Entries: []note.Entry{{ID: w.owner.Person, Level: note.Manager}, {ID: w.other.Person,
				Level: note.Reader}}}
			w.must(f.Change(ctx, func(c *Changing) error {
				if err := c.Create(AddressBook, "b", Properties{}); err != nil {
					return err
				}
				return c.SetACL(AddressBook, "b", &acl)
			}))
			people := []*follower{{f: f}, {f: f}, {f: other}}
			for _, x := range people {
				w.must(x.read(ctx))
			}
			books := []string{DefaultContacts, "b", "c"}
			last := note.ModSeq(0)
			for step := range 250 {
				name := fmt.Sprint("n", rng.IntN(6))
				book := books[rng.IntN(len(books))]
				w.some(momentStep(ctx, w, f, rng, book, name))
				m, err := f.Moments(ctx, AddressBook)
				w.must(err)
				if m.Collections.Mod < last {
					t.Fatalf("step %d: the moment of the collections went back", step)
				}
				last = m.Collections.Mod
				if rng.IntN(3) > 0 {
					continue
				}
				x := people[rng.IntN(len(people))]
				w.must(x.follow(ctx, rng.IntN(4)))
				fresh := follower{f: x.f}
				w.must(fresh.read(ctx))
				equal(t, x.known, fresh.known)
			}
		})
	}
}

// some accepts the errors that random changes meet.
func (w *world) some(err error) {
	w.t.Helper()
	var taken *UIDConflictError
	for _, ok := range []error{ErrNoEntry, ErrNoCollection, ErrExists, ErrBadName} {
		if errors.Is(err, ok) {
			return
		}
	}
	if !errors.As(err, &taken) {
		w.must(err)
	}
}

// momentStep makes a random change.
func momentStep(ctx context.Context, w *world, f *File, rng *rand.Rand, book, name string) error {
	pick := func() (u note.UNID, err error) {
		var all []note.UNID
		err = f.All(ctx, AddressBook, false, func(e *Entry) bool { all = append(all, e.UNID); return true })
		if len(all) > 0 {
			u = all[rng.IntN(len(all))]
		}
		return u, err
	}
	switch rng.IntN(12) {
	case 0, 1, 2, 3:
		_, _, err := f.Put(ctx, AddressBook, book, name, card(name, fmt.Sprint(rng.IntN(100))), Condition{})
		return err
	case 4, 5:
		return f.Remove(ctx, AddressBook, book, name, Condition{})
	case 6:
		_, err := f.Move(ctx, AddressBook, Place{book, name}, Place{book, name + "x"}, Condition{}, Condition{})
		return err
	case 7, 8:
		u, err := pick()
		if err != nil {
			return err
		}
		return f.Change(ctx, func(c *Changing) error { return c.Shift(AddressBook, u, book) })
	case 9:
		list, err := f.Removed(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		u := list[rng.IntN(len(list))].UNID
		return f.Change(ctx, func(c *Changing) error { return c.Restore(u, AddressBook, book) })
	case 10:
		if rng.IntN(4) == 0 {
			_, err := w.svc.Purge(ctx, w.db, w.fix.Env.Clock.Now().Add(time.Hour))
			return err
		}
		_, _, err := f.Put(ctx, Calendar, DefaultCalendar, name+".ics", event(name, "20260101T090000Z", ""),
			Condition{})
		return err
	}
	return f.Change(ctx, func(c *Changing) error {
		if _, err := c.find(AddressBook, "c", note.Lookup); err == nil {
			return c.Delete(AddressBook, "c")
		}
		return c.Create(AddressBook, "c", Properties{})
	})
}

// TestChangeEach checks that an item which fails after it has changed something leaves nothing, that the others are
// done, and that the items of one update see each other's names and UIDs.
func TestChangeEach(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 0)
	f := w.file()
	put := func(c *Changing, name, uid string) error {
		p, err := parse(AddressBook, card(uid, uid))
		w.must(err)
		_, _, err = c.Put(AddressBook, DefaultContacts, name, p, Condition{New: true})
		return err
	}
	stop := errors.New("stop")
	free := func(Moments) error { return nil }
	out, err := f.ChangeEach(ctx, AddressBook, 5, free, func(c *Changing, i int) error {
		switch i {
		case 0, 1:
			return put(c, fmt.Sprint("n", i), fmt.Sprint("u", i))
		case 2:
			w.must(put(c, "n2", "u2"))
			return ErrFull
		case 3:
			return put(c, "n0", "u3") // the name is taken
		}
		return put(c, "n4", "u1") // the UID is taken
	})
	w.must(err)
	var taken *UIDConflictError
	equal(t, []bool{out.Errs[0] == nil, out.Errs[1] == nil, errors.Is(out.Errs[2], ErrFull),
		errors.Is(out.Errs[3], ErrChanged), errors.As(out.Errs[4], &taken)}, []bool{true, true, true, true, true})
	x := follower{f: f}
	w.must(x.read(ctx))
	equal(t, len(x.known), 2)
	d, err := f.EntryChanges(ctx, AddressBook, out.Before.Entries, 0)
	w.must(err)
	equal(t, len(d.Created), 2)
	equal(t, d.Moment, out.After.Entries)
	d, err = f.EntryChanges(ctx, AddressBook, out.After.Entries, 0)
	w.must(err)
	equal(t, d, Delta{Moment: out.After.Entries})
	_, err = f.ChangeEach(ctx, AddressBook, 1, func(Moments) error { return stop },
		func(c *Changing, _ int) error { return put(c, "n5", "u5") })
	equal(t, errors.Is(err, stop), true)
	again := follower{f: f}
	w.must(again.read(ctx))
	equal(t, again, x)
}
