package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/note"
)

func TestRename(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice Smith", "alice", func(s *PersonSpec) { s.MailAddress = []string{"old@example.com"} })
	bob := w.add("Bob", "bob")
	w.resolves("old@example.com", alice.ID)
	got, err := w.People.Set(bg, note.System, alice.ID, func(f *PersonFields) error {
		f.FullName, f.ShortName = []string{"Alice Jones"}, "ajones"
		f.MailAddress = []string{"new@example.com"}
		return nil
	})
	w.ok(err)
	if got.Name() != "Alice Jones" || got.ID != alice.ID || got.MailDatabase != alice.MailDatabase {
		t.Errorf("%+v", got)
	}
	w.resolves("old@example.com", note.UNID{})
	w.resolves("new@example.com", alice.ID)
	w.resolves("ajones@example.com", alice.ID)
	w.resolves("alice@example.com", alice.ID) // the internet address stays
	for _, n := range []string{"Alice Smith", "alice"} {
		_, err = w.Names.PersonNamed(bg, n)
		w.want(err, ErrNotFound)
	}
	// A later change can use the names that were given up.
	_, err = w.People.Set(bg, note.System, bob.ID,
		func(f *PersonFields) error { f.FullName = []string{"Bob", "alice smith"}; return nil })
	w.ok(err)
	_, err = w.People.Set(bg, note.System, bob.ID, func(f *PersonFields) error { f.ShortName = "AJones"; return nil })
	w.want(err, ErrNameTaken)
	_, err = w.People.Set(bg, note.System, bob.ID,
		func(f *PersonFields) error { f.MailAddress = []string{"NEW@example.com"}; return nil })
	w.want(err, ErrNameTaken)
	boom := errors.New("boom")
	_, err = w.People.Set(bg, note.System, bob.ID,
		func(f *PersonFields) error { f.FullName[0] = "changed"; return boom })
	w.want(err, boom)
	if p, err := w.Names.Person(bg, bob.ID); err != nil || !slices.Equal(p.FullName, []string{"Bob", "alice smith"}) ||
		p.ShortName != "bob" {
		t.Errorf("%+v %v", p, err)
	}
	_, err = w.People.Set(bg, note.Who{Person: bob.ID}, bob.ID, func(*PersonFields) error { return nil })
	w.want(err, ErrDenied)
}

func TestBadPeople(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.add("Alice", "alice")
	for name, f := range map[string]PersonFields{
		"no name":        {},
		"at in name":     {FullName: []string{"a@b"}},
		"control":        {FullName: []string{"a\x00b"}},
		"not UTF-8":      {FullName: []string{"\xff"}},
		"long":           {FullName: []string{strings.Repeat("x", 300)}},
		"empty second":   {FullName: []string{"a", " "}},
		"bad address":    {FullName: []string{"a"}, InternetAddress: "a"},
		"strange domain": {FullName: []string{"a"}, InternetAddress: "a@elsewhere.org"},
		"bad alias":      {FullName: []string{"a"}, MailAddress: []string{"a b@example.com"}},
		"bad role":       {FullName: []string{"a"}, Roles: []string{""}},
		"bad short name": {FullName: []string{"a"}, ShortName: "a@example.com"},
		"quota":          {FullName: []string{"a"}, Quota: 1 << 63},
		"many names":     {FullName: strings.Split(strings.Repeat("a,", 100), ",")},
	} {
		if _, err := w.People.Add(bg, note.System, PersonSpec{PersonFields: f}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]PersonFields{
		"full name":  {FullName: []string{"ALICE"}},
		"short name": {FullName: []string{"x"}, ShortName: "Alice"},
		"address":    {FullName: []string{"x"}, InternetAddress: "Alice@Example.com"},
		"quoted":     {FullName: []string{"x"}, MailAddress: []string{`"alice"@example.com`}},
	} {
		if _, err := w.People.Add(bg, note.System, PersonSpec{PersonFields: f}); !errors.Is(err, ErrNameTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.People.Add(bg, note.Who{}, PersonSpec{PersonFields: PersonFields{FullName: []string{"x"}}})
	w.want(err, ErrDenied)
	list, _, err := w.People.List(bg, "", 0, "")
	if err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

func TestConcurrentAdds(t *testing.T) {
	t.Parallel()
	files := &mailFiles{}
	w := open(t, func(o *Options) { o.MailFiles = files })
	const n = 16
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f := PersonFields{FullName: []string{fmt.Sprint("Person ", i), "The One"}}
			_, errs[i] = w.People.Add(bg, note.System, PersonSpec{PersonFields: f})
		}()
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, ErrNameTaken) {
			t.Error(err)
		}
	}
	list, _, err := w.People.List(bg, "", 0, "")
	if won != 1 || err != nil || len(list) != 1 {
		t.Fatalf("%d won, %d are there, %v", won, len(list), err)
	}
	if len(files.have) != 1 || files.have[list[0].MailDatabase] != list[0].ID {
		t.Errorf("mail files: %v", files.have)
	}
}

// mailFiles records mail files in memory.
type mailFiles struct {
	mu   sync.Mutex
	have map[note.DatabaseID]note.UNID
	fail error
	// elsewhere simulates mail files on other servers.
	elsewhere bool
}

func (m *mailFiles) Elsewhere(note.DatabaseID) bool { return m.elsewhere }

// TestMailFileElsewhere checks that a sign-in at a member without a replica of the mail file does not create a mail
// file there.
func TestMailFileElsewhere(t *testing.T) {
	t.Parallel()
	files := &mailFiles{}
	w := open(t)
	p := w.add("Ada", "ada")
	w.opt.MailFiles = files
	for _, elsewhere := range []bool{true, false} {
		files.elsewhere = elsewhere
		db, err := w.People.MailFileOf(bg, &p)
		if made := len(files.have) == 1; err != nil || db != p.MailDatabase || made == elsewhere {
			t.Errorf("elsewhere %v: %s %v, made %v", elsewhere, db, err, files.have)
		}
	}
}

func (m *mailFiles) MakeMailFile(_ context.Context, f MailFile) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have == nil {
		m.have = make(map[note.DatabaseID]note.UNID)
	}
	if m.fail == nil {
		m.have[f.ID] = f.Owner
	}
	return m.fail
}

func (m *mailFiles) RemoveMailFile(_ context.Context, id note.DatabaseID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.have, id)
	return nil
}

func TestMailFiles(t *testing.T) {
	t.Parallel()
	files := &mailFiles{}
	w := open(t, func(o *Options) { o.MailFiles = files })
	alice := w.add("Alice", "alice")
	if files.have[alice.MailDatabase] != alice.ID {
		t.Fatal(files.have)
	}
	// A person with a given database gets no mail file.
	w.add("Bob", "bob", func(s *PersonSpec) { s.MailDatabase = 5 })
	// If the mail file cannot be created, the person is not added.
	files.fail = errors.New("no room")
	_, err := w.People.Add(bg, note.System, PersonSpec{PersonFields: PersonFields{FullName: []string{"Carol"}}})
	w.want(err, files.fail)
	_, err = w.Names.PersonNamed(bg, "Carol")
	w.want(err, ErrNotFound)
	files.fail = nil
	if len(files.have) != 1 {
		t.Error(files.have)
	}
	files.have = nil
	w.ok(w.People.EnsureMailFile(bg, alice.ID))
	if files.have[alice.MailDatabase] != alice.ID {
		t.Error(files.have)
	}
}

func TestRemoveUndoPurge(t *testing.T) {
	t.Parallel()
	files := &mailFiles{}
	w := open(t, func(o *Options) { o.MailFiles = files })
	alice := w.add("Alice Smith", "alice", func(s *PersonSpec) { s.Roles = []string{"Admin"} })
	bob := w.add("Bob", "bob")
	g := w.group("Team", "team@example.com", "alice", "bob")

	w.ok(w.People.Remove(bg, note.System, alice.ID))
	w.ok(w.People.Remove(bg, note.System, alice.ID)) // the second call changes nothing
	w.resolves("alice@example.com", note.UNID{})
	w.resolves("postmaster@example.com", note.UNID{})
	_, err := w.Names.PersonNamed(bg, "alice")
	w.want(err, ErrNotFound)
	_, err = w.Names.WhoOf(bg, alice.ID)
	w.want(err, ErrNotFound)
	_, err = w.People.Set(bg, note.System, alice.ID, func(*PersonFields) error { return nil })
	w.want(err, ErrNotFound)
	if p, err := w.Names.Person(bg, alice.ID); err != nil || p.Removed.IsZero() {
		t.Error(p, err)
	}
	for _, name := range []string{"", "ALICE smith"} {
		list, err := w.Removals.List(bg, name, 10)
		if err != nil || len(list) != 1 || list[0].ID != alice.ID || list[0].Name != "Alice Smith" {
			t.Errorf("%q: %v %v", name, list, err)
		}
	}
	// Her names are free. Undo fails while another entry has them.
	other := w.add("Other", "alice")
	w.want(w.Removals.Undo(bg, note.System, alice.ID), ErrNameTaken)
	_, err = w.People.Set(bg, note.System, other.ID, func(f *PersonFields) error {
		f.ShortName, f.InternetAddress = "", ""
		return nil
	})
	w.ok(err)
	w.want(w.Removals.Undo(bg, note.Who{Person: bob.ID}, alice.ID), ErrDenied)
	w.ok(w.Removals.Undo(bg, note.System, alice.ID))
	w.resolves("alice@example.com", alice.ID)
	w.resolves("abuse@example.com", alice.ID)
	if list, err := w.Removals.List(bg, "", 10); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	who, err := w.Names.WhoOf(bg, alice.ID)
	if err != nil || !slices.Contains(who.Groups, g.ID) {
		t.Error(who, err)
	}

	w.ok(w.People.Remove(bg, note.System, alice.ID))
	w.fix.Time.Advance(29 * 24 * time.Hour)
	w.ok(w.People.Remove(bg, note.System, bob.ID))
	if n, err := w.Removals.Purge(bg, note.System); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	w.fix.Time.Advance(25 * time.Hour)
	if n, err := w.Removals.Purge(bg, note.System); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	w.want(w.Removals.Undo(bg, note.System, alice.ID), ErrNotFound)
	if _, ok := files.have[alice.MailDatabase]; ok {
		t.Error("the mail file is still there")
	}
	got, err := w.Groups.Get(bg, g.ID)
	if err != nil || !slices.Equal(got.Members, []string{bob.ID.String()}) {
		t.Error(got, err)
	}
	w.ok(w.Removals.Undo(bg, note.System, bob.ID))
	w.want(w.People.Remove(bg, note.System, g.ID), ErrNotFound)
}

func TestListPersons(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, n := range []string{"Zoe", "Adamo", "Ädam", "Adam", "adam b"} {
		w.add(n, "")
	}
	walk := func(prefix string, limit int) (names []string) {
		after := ""
		for range 10 {
			list, next, err := w.People.List(bg, prefix, limit, after)
			w.ok(err)
			if len(list) > limit && limit > 0 {
				t.Fatal("more than the limit")
			}
			for _, p := range list {
				names = append(names, p.Name())
			}
			if after = next; next == "" {
				return names
			}
		}
		t.Fatal("the listing does not end")
		return nil
	}
	sorted := []string{"Adam", "adam b", "Adamo", "Zoe", "Ädam"}
	for limit := range 7 {
		if got := walk("", limit); !slices.Equal(got, sorted) {
			t.Errorf("limit %d: %v", limit, got)
		}
		if got := walk("ADAM", limit); !slices.Equal(got, sorted[:3]) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if got := walk("q", 5); got != nil {
		t.Error(got)
	}
}
