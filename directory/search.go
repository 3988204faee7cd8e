package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"doublet/note"
	"doublet/store"
)

// Limits of a search.
const (
	// MaxFound is the maximum number of entries in a result.
	MaxFound = 20
	// maxRead is the maximum number of documents read in each step of a search. Not every document of the name index is
	// a result: it may be a database, or have no address.
	maxRead = 5 * MaxFound
	// maxScanned is the maximum number of names scanned for a word in the middle of a name. A larger directory still
	// finds names by their beginning, but words only among the first names in alphabetical order.
	maxScanned = 20_000
)

// Entry is the part of a person or group that other people may see in order to write to them.
type Entry struct {
	ID      note.UNID
	Kind    TargetKind // TargetPerson or TargetGroup
	Name    string
	Address string
}

// Search describes the entries to find. An entry must match every field that is not empty.
type Search struct {
	// Text holds the beginnings of words of a name, in any order, or the beginning of an address.
	Text string
	// Name matches only names (full names, short name). Email matches only addresses.
	Name, Email string
	// Kind selects people or groups; 0 is both.
	Kind TargetKind
}

// Find returns at most MaxFound people and groups that have an address and match a search. First come names that begin
// with the text, then addresses that do, then names that contain the words anywhere. The work is bounded for every
// search. A search without any text finds nothing, so that nobody can list the whole directory. Find returns nothing if
// Options.Private is set.
func (ns *Names) Find(ctx context.Context, s Search) ([]Entry, error) {
	s.Text, s.Name, s.Email = plain(s.Text), plain(s.Name), plain(s.Email)
	name, email := s.Name, s.Email
	if name == "" && email == "" {
		name, email = s.Text, s.Text
	}
	if ns.opt.Private || name == "" && email == "" || len(s.Text)+len(s.Name)+len(s.Email) > maxName {
		return nil, nil
	}
	f := finder{search: s, seen: map[note.ID]bool{}}
	err := ns.read(ctx, func(r *store.Reader) error {
		if name != "" && strings.IndexByte(name, '@') < 0 {
			if err := f.look(ctx, r, 'n', name, func([]byte) bool { return true }); err != nil {
				return err
			}
		}
		if email != "" {
			if err := f.look(ctx, r, 'a', email, func([]byte) bool { return true }); err != nil {
				return err
			}
		}
		if name == "" || strings.IndexByte(name, '@') >= 0 {
			return nil
		}
		return f.look(ctx, r, 'n', "", func(key []byte) bool { return hasWords(string(key), name) })
	})
	return f.found, err
}

// plain returns a text in the form that names have in the index.
func plain(s string) string { return lower(strings.Join(strings.Fields(s), " ")) }

type finder struct {
	search Search
	found  []Entry
	seen   map[note.ID]bool
}

// look scans the names or addresses with a prefix and adds the entries that match.
func (f *finder) look(ctx context.Context, r *store.Reader, letter byte, prefix string,
	fits func(key []byte) bool) error {
	if len(f.found) >= MaxFound {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	begin := append([]byte{letter}, prefix...)
	var ids []note.ID
	scanned := 0
	err := r.Scan(indexNames, begin, func(key []byte, id note.ID) bool {
		if scanned++; scanned > maxScanned || !bytes.HasPrefix(key, begin) {
			return false
		}
		if !f.seen[id] && fits(key[1:]) {
			f.seen[id] = true
			ids = append(ids, id)
		}
		return len(ids) < maxRead
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		row, c, err := r.Document(id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if e, ok := makeEntry(row.UNID, c.Content.Items); ok && f.search.fits(&e, c.Content.Items) {
			if f.found = append(f.found, e); len(f.found) >= MaxFound {
				return nil
			}
		}
	}
	return nil
}

// fits reports whether a document matches all fields of the search.
func (s *Search) fits(e *Entry, items note.Items) bool {
	if s.Kind != 0 && s.Kind != e.Kind {
		return false
	}
	names := append(items.Get(itemFullName).AsTextList(), items.Get(itemShortName).AsText(),
		items.Get(itemListName).AsText())
	addresses := append(items.Get(itemMailAddress).AsTextList(), items.Get(itemInternetAddress).AsText())
	named := func(words string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return hasWords(plain(n), words) })
	}
	addressed := func(begin string) bool {
		return slices.ContainsFunc(addresses, func(a string) bool { return strings.HasPrefix(lower(a), begin) })
	}
	return (s.Text == "" || named(s.Text) || addressed(s.Text)) && (s.Name == "" || named(s.Name)) &&
		(s.Email == "" || addressed(s.Email))
}

// hasWords reports whether each word is the beginning of a word of name. Both must be in lower case.
func hasWords(name, words string) bool {
	for w := range strings.FieldsSeq(words) {
		if !hasWord(name, w) {
			return false
		}
	}
	return name != ""
}

func hasWord(name, word string) bool {
	for at := 0; ; {
		i := strings.Index(name[at:], word)
		if i < 0 {
			return false
		}
		at += i
		if before, _ := utf8.DecodeLastRuneInString(name[:at]); at == 0 || !unicode.IsLetter(before) &&
			!unicode.IsDigit(before) && !unicode.IsMark(before) {
			return true
		}
		at += len(word)
	}
}

// makeEntry returns false for a document that is not a person or group, has no address, is disabled, or was removed.
func makeEntry(u note.UNID, items note.Items) (Entry, bool) {
	e := Entry{ID: u, Name: canonical(items), Address: items.Get(itemInternetAddress).AsText()}
	switch items.Get(itemForm).AsText() {
	case formPerson:
		e.Kind = TargetPerson
		if all := items.Get(itemMailAddress).AsTextList(); e.Address == "" && len(all) > 0 {
			e.Address = all[0]
		}
	case formGroup:
		e.Kind = TargetGroup
	default:
		return e, false
	}
	return e, e.Address != "" && items.Get(itemRemoved) == nil && !items.Get(itemDisabled).AsBool()
}

// Entries returns entries by id, in the order of ids. It skips ids that Find could not return. version changes whenever
// the directory on this server changes.
func (ns *Names) Entries(ctx context.Context, ids []note.UNID) (list []Entry, version uint64, err error) {
	err = ns.read(ctx, func(r *store.Reader) error {
		version = r.Counters().Seq
		for _, u := range ids {
			_, c, err := find(r, u)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("entry %s: %w", u, err)
			}
			if e, ok := makeEntry(u, c.Content.Items); ok && !ns.opt.Private {
				list = append(list, e)
			}
		}
		return nil
	})
	return list, version, err
}

// Private reports whether people cannot look each other up (Options.Private).
func (ns *Names) Private() bool { return ns.opt.Private }
