package directory

import (
	"context"
	"errors"
	"testing"

	"doublet/note"
)

// TestAdopt checks that the other server chooses the UNID. It can only change the password of a person who was adopted
// with the same mail file and has no role.
func TestAdopt(t *testing.T) {
	t.Parallel()
	w := open(t)
	ctx := context.Background()
	adopt := func(id note.UNID, db note.DatabaseID, password string) error {
		spec := PersonSpec{PersonFields: PersonFields{FullName: []string{"Ada Elsewhere"}, ShortName: "adaelse",
			MailDatabase: db}, Password: password}
		_, err := w.People.Adopt(ctx, note.System, id, spec)
		return err
	}
	signsIn := func(user, password string, want bool) {
		t.Helper()
		if _, _, err := w.SignIns.Authenticate(ctx, user, password, "test"); (err == nil) != want {
			t.Errorf("%s with %q: %v", user, password, err)
		}
	}
	boss := w.add("Boss", "boss")
	ada := note.UNID{77}
	if err := adopt(ada, 4711, "first password"); err != nil {
		t.Fatal(err)
	}
	signsIn("adaelse", "first password", true)
	if err := adopt(ada, 4711, "second password"); err != nil {
		t.Fatal(err)
	}
	signsIn("adaelse", "second password", true)
	if err := adopt(boss.ID, 4711, "known elsewhere"); !errors.Is(err, ErrInvalid) {
		t.Errorf("the password of somebody else is set: %v", err)
	}
	signsIn("boss", "known elsewhere", false)
	if err := adopt(ada, 4712, "third password"); !errors.Is(err, ErrInvalid) {
		t.Errorf("with another mail file: %v", err)
	}
	signsIn("adaelse", "second password", true)
	_, err := w.People.Set(ctx, note.System, ada,
		func(f *PersonFields) error { f.Roles = []string{RoleAdmin}; return nil })
	w.ok(err)
	if err := adopt(ada, 4711, "third password"); err != nil {
		t.Fatal(err)
	}
	signsIn("adaelse", "second password", true)
	signsIn("adaelse", "third password", false)
}
