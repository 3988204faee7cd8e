package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
)

// Record is a person, group or mail-in database as Browse and Select find it. Exactly one of the pointers is set. It
// has no secrets and no app passwords. Records are shared and must not be changed.
type Record struct {
	ID     note.UNID
	Person *Person
	Group  *Group
	MailIn *MailIn
}

// Kind returns the kind of the record.
func (r *Record) Kind() TargetKind {
	switch {
	case r.Person != nil:
		return TargetPerson
	case r.Group != nil:
		return TargetGroup
	}
	return TargetMailIn
}

// Name returns the canonical name.
func (r *Record) Name() string {
	switch {
	case r.Person != nil:
		return r.Person.Name()
	case r.Group != nil:
		return r.Group.Name
	}
	return r.MailIn.Name
}

// Addresses returns the addresses that are stored, the one to write to first.
func (r *Record) Addresses() []string {
	switch {
	case r.Person != nil:
		return r.Person.Addresses()
	case r.Group != nil && r.Group.InternetAddress != "":
		return []string{r.Group.InternetAddress}
	case r.MailIn != nil && r.MailIn.InternetAddress != "":
		return []string{r.MailIn.InternetAddress}
	}
	return nil
}

// Public reports whether people may see the record in order to write to it, as Find shows it.
func (r *Record) Public() bool {
	return len(r.Addresses()) > 0 && (r.Group != nil || r.Person != nil && !r.Person.Disabled)
}

// makeRecord returns false for documents of other forms and for those that were removed.
func makeRecord(id note.UNID, items note.Items) (r Record, ok bool) {
	if items.Get(itemRemoved) != nil {
		return r, false
	}
	r.ID = id
	switch items.Get(itemForm).AsText() {
	case formPerson:
		p := readPerson(id, items)
		p.password, p.totp, p.recovery, p.scram, p.tokens, p.AppPasswords = "", nil, nil, nil, nil, nil
		r.Person = &p
	case formGroup:
		g := readGroup(id, items)
		r.Group = &g
	case formMailIn:
		m := readMailIn(id, items)
		r.MailIn = &m
	default:
		return r, false
	}
	return r, true
}

// Term selects records by an index. Exactly one field is set.
type Term struct {
	// Name and Address are a whole name or address. They match as in Lookup, but only what is stored.
	Name, Address string
	// NamePrefix and AddressPrefix are the beginning of one.
	NamePrefix, AddressPrefix string
	// Member selects the groups that list an entry.
	Member note.UNID
	// ID selects the record itself.
	ID note.UNID
}

// exact returns the only key in the name index that a term can have, nil if no entry can have the name.
func (t *Term) exact() []byte {
	if t.Name != "" {
		return nameKey('n', t.Name)
	}
	return addressKey(t.Address)
}

// Selection is a list of records that Next reads piece by piece, so that no snapshot is held while the caller waits for
// its client.
type Selection struct {
	ns  *Names
	ids []note.ID
	// More reports that the terms select more records than the limit of Select.
	More bool
}

// Select returns the records that any of the terms select, without duplicates, in an order that stays the same.
func (ns *Names) Select(ctx context.Context, terms []Term, limit int) (*Selection, error) {
	s := &Selection{ns: ns}
	err := ns.read(ctx, func(r *store.Reader) error {
		for i := range terms {
			found, err := terms[i].find(r, limit+1)
			if err != nil {
				return err
			}
			s.ids = append(s.ids, found...)
		}
		return nil
	})
	slices.Sort(s.ids)
	s.ids = slices.Compact(s.ids)
	if s.More = len(s.ids) > limit; s.More {
		s.ids = s.ids[:limit]
	}
	return s, err
}

// Skip leaves out the next n records.
func (s *Selection) Skip(n int) { s.ids = s.ids[min(n, len(s.ids)):] }

// Left returns the number of records that Next has not read yet.
func (s *Selection) Left() int { return len(s.ids) }

// Next reads the next n records. It leaves out those that were removed meanwhile.
func (s *Selection) Next(ctx context.Context, n int) (list []Record, err error) {
	ids := s.ids[:min(n, len(s.ids))]
	s.ids = s.ids[len(ids):]
	err = s.ns.read(ctx, func(r *store.Reader) error {
		for _, id := range ids {
			row, c, err := r.Document(id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if x, ok := makeRecord(row.UNID, c.Content.Items); ok {
				list = append(list, x)
			}
		}
		return ctx.Err()
	})
	return list, err
}

// all reads the whole selection of one term.
func (ns *Names) all(ctx context.Context, t Term) ([]Record, error) {
	s, err := ns.Select(ctx, []Term{t}, maxRead)
	if err != nil {
		return nil, err
	}
	return s.Next(ctx, maxRead)
}

// find returns at most limit notes that a term selects.
func (t *Term) find(r *store.Reader, limit int) (ids []note.ID, err error) {
	switch {
	case !t.ID.IsZero():
		id, err := r.Find(t.ID)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			return nil, nil
		}
		return []note.ID{id}, err
	case !t.Member.IsZero():
		for _, prefix := range []byte{memberAccess, memberMail} {
			list, err := r.Lookup(indexMembers, memberKey(prefix, t.Member))
			if err != nil {
				return nil, err
			}
			ids = append(ids, list...)
		}
		return ids, nil
	case t.NamePrefix != "", t.AddressPrefix != "":
		begin := append([]byte{'n'}, lower(t.NamePrefix)...)
		if t.AddressPrefix != "" {
			begin = append([]byte{'a'}, lower(t.AddressPrefix)...)
		}
		seen := map[note.ID]bool{} // several names of one entry may begin alike
		err = r.Scan(indexNames, begin, func(key []byte, id note.ID) bool {
			if !bytes.HasPrefix(key, begin) {
				return false
			}
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
			return len(ids) < limit
		})
		return ids, err
	}
	if k := t.exact(); k != nil {
		return r.Lookup(indexNames, k)
	}
	return nil, nil
}

// Browse returns records of a kind by name. A directory of up to 20,000 records is kept in memory from the first Browse
// on, so that searches which no index answers are fast. It returns at most limit records, 1,000 if limit is 0.
// Pass next as after to get the next page; next is empty at the end.
func (ns *Names) Browse(ctx context.Context, kind TargetKind, limit int, after string) (list []Record, next string,
	err error) {
	letter := byte('p')
	switch kind {
	case TargetGroup:
		letter = 'g'
	case TargetMailIn:
		letter = 'm'
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	k, err := ns.books.now(ctx, ns.base)
	if err != nil {
		return nil, "", err
	}
	if k != nil {
		list, next = k.page(letter, limit, after)
		return list, next, nil
	}
	next, err = ns.list(ctx, letter, "", limit, after, func(u note.UNID, items note.Items) {
		if x, ok := makeRecord(u, items); ok {
			list = append(list, x)
		}
	})
	return list, next, err
}

// RecordOf returns the record with an id, and ErrNotFound if there is none or it was removed.
func (ns *Names) RecordOf(ctx context.Context, id note.UNID) (Record, error) {
	version := ns.version.Load()
	key := cacheKey{kind: 'r', id: id}
	if a, ok := ns.cache.get(key, version); ok {
		return a.records[0], nil
	}
	list, err := ns.all(ctx, Term{ID: id})
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if err != nil {
		return Record{}, err
	}
	ns.cache.put(key, version, answer{records: list})
	return list[0], nil
}

// Exact returns the records with a whole name or address. It is fast for one that was asked for recently. The caller
// must not change the list.
func (ns *Names) Exact(ctx context.Context, t Term) ([]Record, error) {
	k := t.exact()
	if k == nil {
		return nil, nil
	}
	version := ns.version.Load()
	key := cacheKey{kind: 'm', text: string(k)}
	if a, ok := ns.cache.get(key, version); ok {
		return a.records, nil
	}
	list, err := ns.all(ctx, t)
	if err == nil && len(list) > 0 {
		ns.cache.put(key, version, answer{records: list})
	}
	return list, err
}

// GroupsOf returns the groups that list an entry, not those that contain one of these groups. It leaves out groups
// after the first 10,000.
func (ns *Names) GroupsOf(ctx context.Context, id note.UNID) (list []Record, err error) {
	var groups []note.UNID
	err = ns.read(ctx, func(r *store.Reader) error {
		ids, err := (&Term{Member: id}).find(r, maxClosure)
		for _, g := range ids[:min(len(ids), maxClosure)] {
			row, err := r.Note(g)
			if err == nil {
				groups = append(groups, row.UNID)
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return err
	})
	for _, g := range groups {
		r, err := ns.RecordOf(ctx, g)
		if err == nil {
			list = append(list, r)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return list, err
}
