package admin

import (
	"context"
	"encoding/json"
	"testing"

	"doublet/note"
)

// TestRestoreDatabase restores a mail file through the verb, and undoes the removal of the one that was replaced.
// Errors are of the kinds from which the exit codes follow.
func TestRestoreDatabase(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	must[User](t, s, "user add", UserAdd{Name: "Ada", Short: "ada", Password: "x", Quota: 100 << 20})
	before := must[Database](t, s, "db show", Named{"ada"})
	must[Generation](t, s, "backup", BackupTake{Dir: "backup"})
	copied := must[RestoredDatabase](t, s, "db restore", RestoreDatabase{Name: "ada", Dir: "backup",
		As: "Ada as she was"})
	place := must[RestoredDatabase](t, s, "db restore", RestoreDatabase{Name: "ada", Dir: "backup"})
	if copied.Title != "Ada as she was" || copied.Replaced != "" || place.Title != before.Title ||
		place.Replaced != before.ID ||
		place.Quota != 100<<20 || place.Generation != 1 || place.Owner != "Ada" {
		t.Errorf("%+v\n%+v", copied, place)
	}
	if now := must[Database](t, s, "db show", Named{"ada"}); now.ID != place.ID {
		t.Errorf("%+v", now)
	}
	must[Done](t, s, "db undo", Named{before.ID})
	for args, kind := range map[string]string{
		`{"name":"nobody","dir":"backup"}`: "not found", `{"name":"ada","dir":"elsewhere"}`: "not found",
		`{"name":"ada","dir":"backup","at":9}`: "not found",
		`{"name":"mail.box","dir":"backup"}`:   "usage", `{"name":"000000000000D1B5","dir":"backup","as":"x"}`: "usage",
		`{"name":"ada"}`: "usage",
	} {
		if _, err := s.Run(context.Background(), note.System, "db restore", json.RawMessage(args),
			nil); Kind(err) != kind {
			t.Errorf("%s: %s (%v)", args, Kind(err), err)
		}
	}
}
