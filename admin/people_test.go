package admin

import (
	"context"
	"strings"
	"testing"

	"doublet/note"
	"doublet/store/layout"
)

// must runs a verb that has to succeed.
func must[R any](t *testing.T, s *Running, verb string, args any) R {
	t.Helper()
	out, err := Do[R](context.Background(), Direct{s}, verb, args)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return out
}

func TestShortNameOfFullName(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, c := range []struct{ name, short, address, want string }{
		{name: "Åsa Öberg", want: "asa@example.com"},
		{name: "Mary-Ann O'Neil", want: "maryann@example.com"},
		{name: "R2 D2", want: "r2@example.com"},
		{name: "Grace Hopper", short: "gh", want: "gh@example.com"},
		{name: "Ken Thompson", address: "k@example.com", want: "k@example.com"},
	} {
		if u := must[User](t, s, "user add", UserAdd{Name: c.name, Short: c.short, Address: c.address,
			Password: "x"}); u.Address != c.want {
			t.Errorf("%s has the address %q, want %q", c.name, u.Address, c.want)
		}
	}
	if _, err := Do[User](context.Background(), Direct{s}, "user add", UserAdd{Name: "李 明"}); Kind(err) != "usage" ||
		!strings.Contains(err.Error(), "--short") {
		t.Errorf("a name without ASCII letters: %v", err)
	}
}

func TestUndoByShortName(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	must[User](t, s, "user add", UserAdd{Name: "Ada Lovelace", Short: "ada", Alias: []string{"countess@example.com"}})
	for _, name := range []string{"ADA", "countess@example.com", "Ada Lovelace"} {
		if d := must[Done](t, s, "user remove", Named{"ada"}); !strings.Contains(d.Done, "30 days") {
			t.Errorf("removed: %s", d.Done)
		}
		must[Done](t, s, "user undo", Named{name})
		if u := must[User](t, s, "user show", Named{"ada"}); u.Name != "Ada Lovelace" {
			t.Errorf("undo by %s: %+v", name, u)
		}
	}
}

func TestSCRAMByDefault(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, setting := range []bool{false, true} {
		for _, told := range []*bool{nil, &yes, &no} {
			want := setting
			if told != nil {
				want = *told
			}
			s := newSystem(t)
			s.SCRAM = setting
			prepare(t, s)
			if u := must[User](t, s, "user add", UserAdd{Name: "Ada", Password: "x", SCRAM: told}); u.SCRAM != want {
				t.Errorf("setting %v, user add: %v", setting, u.SCRAM)
			}
			must[User](t, s, "user add", UserAdd{Name: "Bo", Password: "x", SCRAM: &no})
			must[Done](t, s, "user password", UserPassword{Name: "bo", Password: "y", SCRAM: told})
			must[Imported](t, s, "user import", UserImport{File: "people.csv", SCRAM: told})
			for _, name := range []string{"bo", "cy"} {
				if u := must[User](t, s, "user show", Named{name}); u.SCRAM != want {
					t.Errorf("setting %v, %s: %v, want %v", setting, name, u.SCRAM, want)
				}
			}
		}
	}
	s := newSystem(t)
	s.SCRAM = true
	writeFile(t, s, "column.csv", "\"FullName\",ShortName,Password,\"Scram\"\r\nEve,eve,x,no\r\nFay,fay,x,yes\r\n")
	must[Imported](t, s, "user import", UserImport{File: "column.csv"})
	if must[User](t, s, "user show", Named{"eve"}).SCRAM || !must[User](t, s, "user show", Named{"fay"}).SCRAM {
		t.Error("the column of the file does not decide")
	}
}

func TestImportedQuota(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	writeFile(t, s, "people.csv", "fullname,shortname,quota,warning\nCy,cy,10MB,8MB\nDi,di,,\nCy,cy,,\n")
	in := must[Imported](t, s, "user import", UserImport{File: "people.csv"})
	if in.Added != 2 || in.Failed != 1 || len(in.Errors) != 1 || !strings.HasPrefix(in.Errors[0], "line 4 (Cy)") ||
		!in.Bad() {
		t.Errorf("%+v", in)
	}
	for name, want := range map[string]Limit{"cy": 10 << 20, "di": 0} {
		u := must[User](t, s, "user show", Named{name})
		d := must[Database](t, s, "db show", Named{name})
		if u.Quota != want || d.Quota != want || d.Warning != want/10*8 {
			t.Errorf("%s: directory %v, mail file %v, warning %v", name, u.Quota, d.Quota, d.Warning)
		}
	}
	if (Imported{Added: 1}).Bad() {
		t.Error("an import without a mistake is told as bad")
	}
}

func TestShowUsers(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	off := false
	must[User](t, s, "user add", UserAdd{Name: "Ada"})
	must[User](t, s, "user add", UserAdd{Name: "Bo"})
	must[Database](t, s, "db set", DatabaseSet{Name: "bo", Service: &off})
	want := map[string]string{"Ada": "", "Bo": layout.OutOfService.String()}
	for _, u := range must[[]ActiveUser](t, s, "show users", nil) {
		if u.State != want[u.Name] || u.Quota.String() != "none" {
			t.Errorf("%+v", u)
		}
	}
}

func TestPurgeTells(t *testing.T) {
	t.Parallel()
	if text := (Purged{}).Text(); !strings.Contains(text, "nothing") {
		t.Error(text)
	}
	if text := (Purged{People: 2, Rewritten: 1 << 20}).Text(); !strings.Contains(text, "2 removed people") ||
		!strings.Contains(text, "1 MB") {
		t.Error(text)
	}
}

// TestLateMailFile checks that a mail file that is created when it is first needed has the person's quota.
func TestLateMailFile(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	must[User](t, s, "user add", UserAdd{Name: "Ada", Quota: 5 << 20})
	p, err := s.Directory.Names.PersonNamed(ctx, "ada")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store.RemoveDatabase(note.System, p.MailDatabase); err != nil {
		t.Fatal(err)
	}
	if err := s.Directory.People.EnsureMailFile(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	if d := must[Database](t, s, "db show", Named{"ada"}); d.Quota != 5<<20 {
		t.Errorf("quota %v", d.Quota)
	}
}
