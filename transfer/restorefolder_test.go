package transfer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
)

// TestRestoreFolder restores a folder with a folder in it after the messages in it were deleted: under another name,
// after it was deleted, and beside one of the same name. Nothing that is there is changed.
func TestRestoreFolder(t *testing.T) {
	t.Parallel()
	s := newService(t)
	ada, bob := add(t, s, "Ada", "ada"), add(t, s, "Bob", "bob")
	furnish(t, s, &ada, bob.ID)
	under := func(name string) (out []string) {
		all, _ := picture(t, s.store, ada.MailDatabase)
		for _, line := range all {
			if at, rest, ok := strings.Cut(strings.TrimSpace(line), name+"/Deep "); ok && at == "" {
				_, rest, _ = strings.Cut(rest, " ") // without the UNID, which is a new one
				was, is, _ := strings.Cut(rest, " in ")
				_, is, _ = strings.Cut(is, ":") // and the number of its folders
				out = append(out, was+is)
			}
		}
		return out
	}
	want := under("Projects")
	if len(want) < 10 {
		t.Fatalf("only %d messages: %q", len(want), want)
	}
	takeBackup(t, s)
	ctx := context.Background()
	file := s.mailbox.File(note.Who{Person: ada.ID}, ada.MailDatabase)
	from := func(as string) Backup { return Backup{Name: "ada", Dir: "backup", Folder: "Projects", As: as} }
	restore := func(b Backup) {
		t.Helper()
		r := must[Restored](t)(s.job().Restore(ctx, &b))
		if r.Database != ada.MailDatabase || r.Notes == 0 {
			t.Errorf("%+v", r)
		}
	}
	restore(from("Old/Projects"))
	for _, name := range []string{"Projects/Deep", "Projects"} {
		if err := file.Delete(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	restore(from(""))
	restore(from(""))
	for _, name := range []string{"Projects", "Old/Projects"} {
		if got := under(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", name, got, want)
		}
	}
	replaced := 0
	all, _ := picture(t, s.store, ada.MailDatabase)
	for _, line := range all {
		if strings.HasPrefix(line, "folder Projects, replaced ") && !strings.Contains(line, "/Deep") {
			replaced++
		}
		if strings.Contains(line, restoring) {
			t.Errorf("left: %s", line)
		}
	}
	if replaced != 1 {
		t.Errorf("%d folders were renamed", replaced)
	}
	before, _ := picture(t, s.store, ada.MailDatabase)
	for _, c := range []struct {
		folder, as string
		want       error
	}{{"INBOX", "", ErrInvalid}, {"No", "", store.ErrNotFound}, {"Projects", "INBOX", store.ErrExists},
		{"Projects", "a//b", mailbox.ErrBadName}} {
		b := Backup{Name: "ada", Dir: "backup", Folder: c.folder, As: c.as}
		if _, err := s.job().Restore(ctx, &b); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c, err, c.want)
		}
	}
	after, _ := picture(t, s.store, ada.MailDatabase)
	for i := range max(len(after), len(before)) {
		if i >= len(after) || i >= len(before) || after[i] != before[i] {
			t.Fatalf("a restore that failed has changed the mail file: %.200q\nbefore: %.200q", after[i:], before[i:])
		}
	}
	rep, err := check.Run(ctx, s.store, check.Options{Deep: true})
	if err != nil || len(rep.Findings) > 0 {
		t.Errorf("%v, %v", err, rep.Findings)
	}
}
