package transfer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// TestExportFolderNames checks that each folder comes back from an export with its own message, whatever its name: with
// dots, or with a file name that another folder has too.
func TestExportFolderNames(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	names := []string{"etc.", "a..b/c..", ".x", "_x", "_x-2", `a\b`, "a_b", "Work", "work", "Work/Deep", "work/deep",
		"box", "box.mbox/inner", "person.json/inner", "1.messages.jsonl/inner"}
	s := newService(t)
	p := add(t, s, "Ada", "ada")
	who := must[note.Who](t)(s.directory.Names.WhoOf(ctx, p.ID))
	file := s.mailbox.File(who, p.MailDatabase)
	for _, name := range names {
		if _, err := file.Create(ctx, name, ""); err != nil {
			t.Fatal(err)
		}
		raw := []byte("Subject: " + name + "\r\n\r\nThe only message.\r\n")
		if _, _, err := file.Append(ctx, name, raw, mailbox.Flags{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	want := contents(t, s, "ada")
	for _, format := range []string{"mbox", "maildir"} {
		for _, path := range []string{format, format + ".zip"} {
			must[Result](t)(s.job().ExportPerson(ctx, &PersonExport{User: "ada", Path: path, Format: format}))
			other := newService(t)
			copyTree(t, s, other, path)
			must[Result](t)(other.job().ImportPerson(ctx, &PersonImport{Path: path}))
			got := contents(t, other, "ada")
			for k := range want {
				if !slices.Equal(got[k], want[k]) {
					t.Errorf("%s: folder %s: %q, want %q", path, k, got[k], want[k])
				}
			}
		}
	}
}

// TestFolderPaths checks that no two folders have paths that differ in nothing but case.
func TestFolderPaths(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"mbox", "maildir"} {
		paths, seen := newFolderPaths(format), map[string]string{}
		for _, name := range []string{"Work", "work", "WORK", "work-2", ".x", "_x", "_X-2", "A/b", "a/B"} {
			path := paths.give(name)
			if other := seen[strings.ToLower(path)]; other != "" {
				t.Errorf("%s: %s and %s both have the path %s", format, other, name, path)
			}
			seen[strings.ToLower(path)] = name
		}
	}
}

// TestImportPathsOut checks that paths of an export that lead out of it are rejected.
func TestImportPathsOut(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	writeFile(t, s, "outside.jsonl", "{}\n")
	for _, paths := range []string{`"path":"../x","index":"i"`, `"path":"x","index":"../outside.jsonl"`,
		`"path":"a/../../x","index":"i"`, `"path":"/x","index":"i"`, `"path":"x","index":"/i"`} {
		writeFile(t, s, "in/person.json", `{"form":"`+exportForm+`","mail":"mbox","folders":[{"name":"A",`+paths+`}]}`)
		_, err := s.job().ImportPerson(context.Background(), &PersonImport{Path: "in", User: "ada"})
		if err == nil || !strings.Contains(err.Error(), "leads out of the export") {
			t.Errorf("%s: %v", paths, err)
		}
	}
}
