package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"doublet/note"
)

const people = "\xef\xbb\xbfFullName,ShortName,Address,Aliases,Roles,Password,Scram,Quota\r\n" +
	"Alice Smith;Alice Jones,alice,,sales@example.com; shop@example.com,Admin,wonder,yes,10 MB\r\n" +
	"\"Bob, the \"\"Builder\"\"\",bob,,,,,,\r\n" +
	"Carol,bob,,,,,,\r\n" + // name taken by the row before
	"Dave,dave\r\n" +
	"Erin,erin,erin@elsewhere.org,,,,,\r\n" +
	"Frank,frank,,,,,maybe,\r\n" +
	"Gra\"ce,grace,,,,,,\r\n" +
	"Heidi,heidi,,,,,no,5\r\n"

func TestImportCSV(t *testing.T) {
	t.Parallel()
	files := &mailFiles{}
	w := open(t, func(o *Options) { o.MailFiles = files })
	told := 0
	res, err := w.People.ImportCSV(bg, note.System, strings.NewReader(people),
		ImportOptions{Progress: func(r ImportResult) { told = r.Added }})
	w.ok(err)
	lines := map[int]error{}
	for _, e := range res.Errors {
		lines[e.Row] = e.Err
	}
	if res.Added != 3 || told != 3 || res.Failed != 5 || len(lines) != 5 || !errors.Is(lines[4], ErrNameTaken) {
		t.Fatalf("%+v", res)
	}
	for _, l := range []int{5, 6, 7, 8} {
		if !errors.Is(lines[l], ErrInvalid) {
			t.Errorf("line %d: %v", l, lines[l])
		}
	}
	alice, err := w.Names.PersonNamed(bg, "alice jones")
	w.ok(err)
	if alice.Quota != 10<<20 || len(alice.MailAddress) != 2 || alice.InternetAddress != "alice@example.com" ||
		files.have[alice.MailDatabase] != alice.ID {
		t.Errorf("%+v", alice)
	}
	w.ok(w.scramSignIn("alice", "wonder"))
	if _, err := w.Names.PersonNamed(bg, `Bob, the "Builder"`); err != nil {
		t.Error(err)
	}
	if len(files.have) != 3 {
		t.Error(files.have)
	}
	// Import the same again: all exist already.
	res, err = w.People.ImportCSV(bg, note.System, strings.NewReader(people), ImportOptions{})
	if err != nil || res.Added != 0 || res.Failed != 8 {
		t.Errorf("%+v %v", res, err)
	}
	_, err = w.People.ImportCSV(bg, note.Who{}, strings.NewReader(people), ImportOptions{})
	w.want(err, ErrDenied)
}

func TestBadCSV(t *testing.T) {
	t.Parallel()
	w := open(t)
	for name, in := range map[string]string{
		"empty":          "",
		"unknown column": "fullname,hat\n",
		"twice":          "fullname,FullName\n",
		"no name":        "address\n",
		"endless quote":  "fullname\nok\n\"" + strings.Repeat("x\n", maxRow),
		"endless line":   "fullname\n" + strings.Repeat("x", 2*maxRow),
		"wide":           "fullname" + strings.Repeat(",x", 1000),
	} {
		if _, err := w.People.ImportCSV(bg, note.System, strings.NewReader(in), ImportOptions{}); !errors.Is(err,
			ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The rows before the error were added.
	if _, err := w.Names.PersonNamed(bg, "ok"); err != nil {
		t.Error(err)
	}
}

func TestImportPeople(t *testing.T) {
	t.Parallel()
	w := open(t)
	const n = 3*importBatch + 7
	specs := make([]PersonSpec, n)
	for i := range specs {
		specs[i].FullName = []string{fmt.Sprintf("Person %d", i)}
		specs[i].ShortName = fmt.Sprintf("p%d", i)
	}
	specs[700].ShortName = "p3"         // name taken in an earlier batch
	specs[1500].FullName = []string{""} // invalid
	res, err := w.People.Import(bg, note.System, specs, ImportOptions{NoMailFiles: true})
	if err != nil || res.Added != n-2 || res.Failed != 2 || res.Errors[0].Row != 700 || res.Errors[1].Row != 1500 {
		t.Fatalf("%+v %v", res, err)
	}
	for _, i := range []int{0, 499, 500, 1499, n - 1} {
		p, err := w.Names.PersonNamed(bg, fmt.Sprintf("p%d", i))
		if err != nil || p.Name() != fmt.Sprintf("Person %d", i) || p.MailDatabase == 0 {
			t.Errorf("%d: %+v %v", i, p, err)
		}
		w.resolves(fmt.Sprintf("P%d@example.com", i), p.ID)
	}
	count, after := 0, ""
	for {
		list, next, err := w.People.List(bg, "person", 400, after)
		w.ok(err)
		count += len(list)
		if after = next; next == "" {
			break
		}
	}
	if count != n-2 {
		t.Errorf("%d are listed", count)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if res, err := w.People.Import(ctx, note.System, specs[:1], ImportOptions{}); err == nil || res.Added != 0 {
		t.Error(res, err)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]uint64{"": 0, "0": 0, "17": 17, "17B": 17, "2kb": 2048, " 3 MB ": 3 << 20,
		"1TB": 1 << 40} {
		var got uint64
		if err := size(&got, s); err != nil || got != want {
			t.Errorf("%q: %d %v", s, got, err)
		}
	}
	for _, s := range []string{"x", "-1", "1.5MB", "M", "99999999999TB", "1 XB", "18446744073709551616"} {
		var got uint64
		if err := size(&got, s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %d %v", s, got, err)
		}
	}
}
