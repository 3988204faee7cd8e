package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/env/logtail"
	"doublet/mail"
	"doublet/mail/journal"
	"doublet/note"
	"doublet/wire/smtp"

	"filippo.io/age"
)

// journaled is a server with a mail journal.
type journaled struct {
	*Running
	t *testing.T
}

// newJournaled returns a server that journals, with three messages in it. Ada is an administrator. Eva is none, and
// may read the journal.
func newJournaled(t *testing.T, o journal.Options) *journaled {
	t.Helper()
	j := &journaled{newSystem(t), t}
	j.Env.Log = slog.New(logtail.New(slog.NewTextHandler(io.Discard, nil)))
	for _, name := range []string{"ada", "eva", "bob"} {
		spec := directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{name + " Example"},
			ShortName: name}, Password: "engine"}
		if name == "ada" {
			spec.Roles = []string{"Admin"}
		}
		p, err := j.Directory.People.Add(context.Background(), note.System, spec)
		j.ok(err)
		db, err := j.Mailbox.Make(context.Background(), p.ID, name, 0, 0)
		j.ok(err)
		_, err = j.Directory.People.Set(context.Background(), note.System, p.ID,
			func(f *directory.PersonFields) error { f.MailDatabase = db; return nil })
		j.ok(err)
	}
	o.On, o.Stats, o.Readers = true, j.Stats, []string{"eva"}
	var err error
	j.Journal, err = journal.Open(j.Store, j.Env, j.Directory, o)
	j.ok(err)
	j.Mail, err = mail.Open(j.Store, j.Env, j.Directory, j.Mailbox, mail.Options{Journal: j.Journal, Stats: j.Stats})
	j.ok(err)
	for i, text := range []string{"the turbine fails", "lunch?", "a new turbine"} {
		j.send(i+1, text)
	}
	return j
}

func (j *journaled) ok(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

func (j *journaled) send(i int, text string) {
	j.t.Helper()
	from, _ := smtp.ParsePath("eve@far.example")
	to, _ := smtp.ParsePath("bob@example.com")
	target, err := j.Directory.Names.Resolve(context.Background(), to.String())
	j.ok(err)
	_, err = j.Mail.Deposits.Deposit(context.Background(), &mail.Submission{From: from,
		Recipients: []mail.Recipient{{To: to, Target: target}}, Received: &mail.Received{Protocol: "ESMTP"},
		Message: fmt.Appendf(nil, "From: eve@far.example\r\nSubject: message %d\r\nMessage-ID: <%d@far.example>\r\n"+
			"\r\n%s\r\n", i, i, text)}, nil)
	j.ok(err)
}

// as runs a verb as the machine's account, with a person who signs in.
func as[R any](j *journaled, person, verb string, args map[string]any) (R, error) {
	j.t.Helper()
	if person != "" {
		args["as"], args["password"] = person, "engine"
	}
	return Do[R](context.Background(), Direct{j}, verb, args)
}

// TestJournalAccess checks that only people in the access list of a journal read it, and that the audit log names them
// with their reasons.
func TestJournalAccess(t *testing.T) {
	t.Parallel()
	j := newJournaled(t, journal.Options{})
	why := func() map[string]any { return map[string]any{"reason": "case 7"} }
	found, err := as[JournalFound](j, "eva", "journal search", why())
	if err != nil || len(found.Entries) != 3 {
		t.Fatalf("%+v %v", found, err)
	}
	for _, person := range []string{"ada", "bob", ""} {
		if _, err := as[JournalFound](j, person, "journal search", why()); Kind(err) != "denied" {
			t.Errorf("%q searches: %v", person, err)
		}
		args := why()
		args["database"], args["number"] = found.Entries[0].Database, "1"
		if _, err := as[JournalEntry](j, person, "journal show", args); Kind(err) != "denied" {
			t.Errorf("%q reads: %v", person, err)
		}
	}
	ada, err := j.Directory.Names.PersonNamed(context.Background(), "ada")
	j.ok(err)
	who, err := j.Directory.Names.WhoOf(context.Background(), ada.ID)
	j.ok(err)
	_, err = j.Run(context.Background(), who, "journal search", []byte(`{"reason":"curious"}`), nil)
	if Kind(err) != "denied" {
		t.Errorf("an administrator in a browser searches: %v", err)
	}
	_, err = j.Run(context.Background(), who, "journal search", []byte(`{"reason":"curious","as":"eva"}`), nil)
	if Kind(err) != "usage" {
		t.Errorf("an administrator in a browser searches as somebody else: %v", err)
	}
	_, err = as[Done](j, "", "db remove", map[string]any{"name": found.Entries[0].Database})
	if Kind(err) != "usage" {
		t.Errorf("db remove removes a journal: %v", err)
	}
	log, err := Do[Log](context.Background(), Direct{j}, "show log", map[string]any{"audit": true})
	j.ok(err)
	text := log.Text()
	for _, want := range []string{"journal search", "case 7", `as\":\"eva`, `as\":\"bob`, "by=\"ada Example\"",
		"curious"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "engine") {
		t.Error("a password stands in the log")
	}
}

func TestJournalVerbs(t *testing.T) {
	t.Parallel()
	j := newJournaled(t, journal.Options{})
	list, err := Do[[]JournalDatabase](context.Background(), Direct{j}, "journal list", nil)
	if err != nil || len(list) != 1 || list[0].State != "current" || list[0].Entries != 3 {
		t.Fatalf("%+v %v", list, err)
	}
	db := list[0].ID
	search := func(args map[string]any) (out []uint64) {
		t.Helper()
		args["reason"] = "case 7"
		found, err := as[JournalFound](j, "eva", "journal search", args)
		j.ok(err)
		for _, e := range found.Entries {
			out = append(out, e.Number)
		}
		return out
	}
	for _, x := range []struct {
		args map[string]any
		want []uint64
	}{
		{map[string]any{"text": "TURBINE"}, []uint64{1, 3}},
		{map[string]any{"text": "message 2"}, []uint64{2}},
		{map[string]any{"text": "turbine", "most": 2}, []uint64{1}},
		{map[string]any{"message_id": "<2@far.example>"}, []uint64{2}},
		{map[string]any{"address": "bob@example.com", "limit": 2}, []uint64{1, 2}},
		{map[string]any{"to": "bob@example.com", "after": "1h", "database": db}, []uint64{1, 2, 3}},
		{map[string]any{"before": "1h"}, nil},
	} {
		if got := search(x.args); !slices.Equal(got, x.want) {
			t.Errorf("%v finds %d, want %d", x.args, got, x.want)
		}
	}
	e, err := as[JournalEntry](j, "eva", "journal show", map[string]any{"database": db, "number": "2",
		"reason": "case 7"})
	if err != nil || !strings.HasSuffix(e.Message, "lunch?\r\n") || e.Details.Protocol != "ESMTP" ||
		!strings.Contains(e.Text(), "lunch?") {
		t.Errorf("%+v %v", e, err)
	}
	args := map[string]any{"database": db, "path": "data/archive.tar", "reason": "case 7"}
	if _, err := as[Done](j, "ada", "journal export", args); Kind(err) != "denied" {
		t.Errorf("ada exports: %v", err)
	}
	faults := j.Env.FS.(*env.Faults)
	faults.FailFiles(env.OpSync, func(name string) bool { return name == "data" }, nil)
	if _, err := as[Done](j, "eva", "journal export", args); !errors.Is(err, env.ErrInjected) {
		t.Errorf("the name of the archive is not durable: %v", err)
	}
	faults.Heal()
	_, err = as[Done](j, "eva", "journal export", args)
	j.ok(err)
	if _, err := as[Done](j, "eva", "journal export", args); Kind(err) != "exists" {
		t.Errorf("an export overwrites a file: %v", err)
	}
	f, err := j.Env.FS.Open("data/archive.tar")
	j.ok(err)
	v, err := journal.VerifyArchive(f, j.Journal.Keys().Signature, nil)
	j.ok(err)
	j.ok(f.Close())
	if v.Report.Entries != 3 || len(v.Report.Findings) > 0 || v.Manifest.By != "eva Example" ||
		v.Manifest.Reason != "case 7" {
		t.Errorf("%+v", v)
	}
	r, err := Do[JournalReport](context.Background(), Direct{j}, "journal verify", map[string]any{"name": db})
	if err != nil || r.Bad() || r.Entries != 3 {
		t.Errorf("%+v %v", r, err)
	}
	why := map[string]any{"database": db, "reason": "old"}
	if _, err := Do[Done](context.Background(), Direct{j}, "journal remove", why); Kind(err) != "usage" {
		t.Errorf("the current journal is removed: %v", err)
	}
	_, err = Do[Done](context.Background(), Direct{j}, "journal roll", map[string]any{"reason": "old"})
	j.ok(err)
	_, err = Do[Done](context.Background(), Direct{j}, "journal remove", why)
	j.ok(err)
	if list, err := Do[[]JournalDatabase](context.Background(), Direct{j}, "journal list", nil); err != nil ||
		len(list) != 1 || list[0].ID == db {
		t.Errorf("%+v %v", list, err)
	}
}

// TestJournalOfPerson checks that the server cannot read a journal that is encrypted to a person alone.
func TestJournalOfPerson(t *testing.T) {
	t.Parallel()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	j := newJournaled(t, journal.Options{Keys: id.Recipient().String()})
	found, err := as[JournalFound](j, "eva", "journal search", map[string]any{"reason": "case 7", "text": "turbine"})
	if err != nil || len(found.Entries) != 0 || found.Locked != 3 {
		t.Errorf("%+v %v", found, err)
	}
	list, err := j.Journal.Databases(context.Background())
	j.ok(err)
	args := map[string]any{"database": list[0].ID.String(), "number": "1", "reason": "case 7"}
	if _, err := as[JournalEntry](j, "eva", "journal show", args); err == nil {
		t.Error("the server opens it")
	}
	args["sealed"] = true
	e, err := as[JournalEntry](j, "eva", "journal show", args)
	j.ok(err)
	if _, raw, err := journal.Unseal(e.Sealed, id); err != nil || !bytes.Contains(raw, []byte("turbine")) {
		t.Errorf("%q %v", raw, err)
	}
}

// TestJournalExpires checks that the nightly Purge removes journals after their time, with an audit line.
func TestJournalExpires(t *testing.T) {
	t.Parallel()
	j := newJournaled(t, journal.Options{Keep: time.Nanosecond})
	_, err := Do[Done](context.Background(), Direct{j}, "journal roll", map[string]any{"reason": "test"})
	j.ok(err)
	p, err := Do[Purged](context.Background(), Direct{j}, "purge", nil)
	if err != nil || p.Journals != 1 {
		t.Errorf("%+v %v", p, err)
	}
	log, err := Do[Log](context.Background(), Direct{j}, "show log", map[string]any{"audit": true})
	j.ok(err)
	if text := log.Text(); !strings.Contains(text, "older than journal.keep") || !strings.Contains(text, "entries=3") {
		t.Errorf("no audit line in\n%s", text)
	}
}
