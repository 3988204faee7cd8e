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

// Bounds of a search.
const (
	// MaxFound is how many entries are given at most.
	MaxFound = 20
	// maxRead is how many documents are read for each way of looking: what a name index leads to may be a database, or have no
	// address.
	maxRead = 5 * MaxFound
	// maxScanned is how many names are looked through for a word in the middle of one. In a larger directory names are found by
	// their beginning, and by words among the first of the alphabet.
	maxScanned = 20_000
)

// Entry is what a person may know of another, or of a group: what it takes to write to them.
type Entry struct {
	ID      note.UNID
	Kind    TargetKind // TargetPerson or TargetGroup
	Name    string
	Address string
}

// Search is what entries are looked for by: those that fit all that is not empty.
type Search struct {
	// Text are the beginnings of words of a name, in any order, or the beginning of an address.
	Text string
	// Name and Email look at names (full names, short name) and at addresses alone.
	Name, Email string
	// Kind picks people or groups; 0 is both.
	Kind TargetKind
}

// Find gives the people and groups with an address that a search fits, 20 at most: first those whose name begins so, then those
// whose address does, then those with the words anywhere in a name. Work is bounded whatever is looked for. A search without any
// text finds nobody: the directory is not given away as a whole. Where Options.Private is set nobody is found.
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

// plain is a text as the index has names.
func plain(s string) string { return lower(strings.Join(strings.Fields(s), " ")) }

type finder struct {
	search Search
	found  []Entry
	seen   map[note.ID]bool
}

// look goes through the names with a prefix, or addresses, and takes those that fit.
func (f *finder) look(ctx context.Context, r *store.Reader, letter byte, prefix string, fits func(key []byte) bool) error {
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

// fits says whether a document is all that is looked for.
func (s *Search) fits(e *Entry, items note.Items) bool {
	if s.Kind != 0 && s.Kind != e.Kind {
		return false
	}
	names := append(items.Get(itemFullName).AsTextList(), items.Get(itemShortName).AsText(), items.Get(itemListName).AsText())
	addresses := append(items.Get(itemMailAddress).AsTextList(), items.Get(itemInternetAddress).AsText())
	named := func(words string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return hasWords(plain(n), words) })
	}
	addressed := func(begin string) bool {
		return slices.ContainsFunc(addresses, func(a string) bool { return strings.HasPrefix(lower(a), begin) })
	}
	return (s.Text == "" || named(s.Text) || addressed(s.Text)) && (s.Name == "" || named(s.Name)) && (s.Email == "" || addressed(s.Email))
}

// hasWords says whether each word is the beginning of a word of a name. Both are in lower case.
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
		if before, _ := utf8.DecodeLastRuneInString(name[:at]); at == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) && !unicode.IsMark(before) {
			return true
		}
		at += len(word)
	}
}

// makeEntry is false for what is no person or group, has no address, takes no mail, or was removed.
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

// Entries gives entries by id, in that order; what is none that Find could give is left out. version changes whenever the
// directory on this server does.
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

// Private says that people cannot look each other up (Options.Private).
func (ns *Names) Private() bool { return ns.opt.Private }
