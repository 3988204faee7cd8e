package directory

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"doublet/note"
)

// browsed reads all pages of a kind.
func (w *world) browsed(kind TargetKind, limit int) (out []string) {
	w.t.Helper()
	after := ""
	for {
		list, next, err := w.Names.Browse(bg, kind, limit, after)
		w.ok(err)
		if next != "" && len(list) != limit {
			w.t.Fatalf("a page of %d has %d records", limit, len(list))
		}
		for i := range list {
			out = append(out, list[i].Name())
		}
		if after = next; after == "" {
			return out
		}
	}
}

// TestBrowse changes the directory at random and checks that the book, which follows the changes, equals one that is
// read anew, and that pages of any size hold all of it in order.
func TestBrowse(t *testing.T) {
	t.Parallel()
	w := open(t)
	r := rand.New(rand.NewPCG(1, 1))
	var people, groups []note.UNID
	for i := range 120 {
		switch r.IntN(7) {
		case 0, 1, 2:
			p := w.add(fmt.Sprint("Person ", r.IntN(1000), " ", i), fmt.Sprint("p", i))
			people = append(people, p.ID)
		case 3:
			g := w.group(fmt.Sprint("group ", i), "")
			groups = append(groups, g.ID)
		case 4:
			if len(people) > 0 {
				_, err := w.People.Set(bg, note.System, people[r.IntN(len(people))], func(f *PersonFields) error {
					f.FullName = []string{fmt.Sprint("Renamed ", i)}
					return nil
				})
				w.ok(err)
			}
		case 5:
			if len(people) > 0 {
				n := r.IntN(len(people))
				w.ok(w.People.Remove(bg, note.System, people[n]))
				if r.IntN(2) == 0 {
					w.ok(w.Removals.Undo(bg, note.System, people[n]))
				} else {
					people = slices.Delete(people, n, n+1)
				}
			}
		case 6:
			w.ok(w.Domains.Add(bg, note.System, fmt.Sprintf("d%d.example", i)))
		}
		if r.IntN(3) > 0 {
			continue
		}
		have, err := w.Names.books.now(bg, w.base)
		w.ok(err)
		fresh := books{}
		want, err := fresh.now(bg, w.base)
		w.ok(err)
		if !reflect.DeepEqual(have.lists, want.lists) {
			t.Fatalf("step %d: the book differs from the directory", i)
		}
	}
	all := w.browsed(TargetPerson, 1000)
	if len(all) != len(people) || !slices.IsSortedFunc(all, func(a, b string) int {
		return slices.Compare([]byte(lower(a)), []byte(lower(b)))
	}) {
		t.Errorf("%d of %d people: %q", len(all), len(people), all)
	}
	for _, limit := range []int{1, 7} {
		if got := w.browsed(TargetPerson, limit); !slices.Equal(got, all) {
			t.Errorf("pages of %d: %q, want %q", limit, got, all)
		}
	}
	if got := w.browsed(TargetGroup, 2); len(got) != len(groups) {
		t.Errorf("groups %q", got)
	}
}

// TestRecordSecrets checks that records hold nothing that verifies a password.
func TestRecordSecrets(t *testing.T) {
	t.Parallel()
	w := open(t)
	p := w.add("Alice Adams", "alice", func(s *PersonSpec) { s.Password, s.Scram = "secret-alice", true })
	_, _, err := w.Passwords.AddApp(bg, note.System, p.ID, "phone")
	w.ok(err)
	r, err := w.Names.RecordOf(bg, p.ID)
	w.ok(err)
	x := r.Person
	if x.password != "" || x.scram != nil || x.tokens != nil || x.totp != nil || x.recovery != nil ||
		x.AppPasswords != nil {
		t.Errorf("%+v", x)
	}
	if full, err := w.Names.Person(bg, p.ID); err != nil || full.password == "" || len(full.tokens) != 1 {
		t.Errorf("the person lost a secret: %v", err)
	}
}

// TestSelect checks terms: whole names and addresses, beginnings, members, ids, several at once.
func TestSelect(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice Adams", "alice", func(s *PersonSpec) { s.MailAddress = []string{"a.adams@example.com"} })
	w.add("Alina Bell", "alina")
	w.group("Team", "team@example.com", "alice")
	for _, x := range []struct {
		terms []Term
		want  string
	}{
		{[]Term{{Name: "ALICE"}}, "[Alice Adams]"}, {[]Term{{Address: "A.Adams@EXAMPLE.com"}}, "[Alice Adams]"},
		{[]Term{{NamePrefix: "Ali"}}, "[Alice Adams Alina Bell]"}, {[]Term{{AddressPrefix: "t"}}, "[Team]"},
		{[]Term{{Member: alice.ID}}, "[Team]"}, {[]Term{{ID: alice.ID}}, "[Alice Adams]"},
		{[]Term{{Name: "alice"}, {ID: alice.ID}, {Name: "team"}, {Name: "nobody"}}, "[Alice Adams Team]"},
		{[]Term{{ID: note.UNID{1}}}, "[]"}, {[]Term{{Name: "a@b"}}, "[]"},
	} {
		s, err := w.Names.Select(bg, x.terms, 100)
		w.ok(err)
		got := []string{}
		for s.Left() > 0 {
			list, err := s.Next(bg, 1)
			w.ok(err)
			for i := range list {
				got = append(got, list[i].Name())
			}
		}
		if fmt.Sprint(got) != x.want || s.More {
			t.Errorf("%+v: %s, want %s", x.terms, got, x.want)
		}
	}
	if s, err := w.Names.Select(bg, []Term{{NamePrefix: "a"}}, 1); err != nil || !s.More || s.Left() != 1 {
		t.Errorf("more than the limit: %+v, %v", s, err)
	}
}
