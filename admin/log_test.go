package admin

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/env/logtail"
	"doublet/note"
)

// TestShowLog checks that the log is shown, with the audit lines of runs and of rejected attempts, without secrets.
func TestShowLog(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.Env.Log = slog.New(logtail.New(slog.NewTextHandler(io.Discard, nil)))
	ctx := context.Background()
	ada, err := s.Directory.People.Add(ctx, note.System,
		directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{"Ada"}, ShortName: "ada",
			Roles: []string{"Admin"}}, Password: "x"})
	if err != nil {
		t.Fatal(err)
	}
	who, err := s.Directory.Names.WhoOf(ctx, ada.ID)
	if err != nil {
		t.Fatal(err)
	}
	run := func(who note.Who, verb, args string) error {
		_, err := s.Run(ctx, who, verb, json.RawMessage(args), nil)
		return err
	}
	if err := run(who, "user add", `{"name":"Bo","password":"hush-hush"}`); err != nil {
		t.Fatal(err)
	}
	stranger := note.Who{Person: note.UNID{1}}
	if err := run(stranger, "user password", `{"name":"Ada","password":"hush-hush"}`); Kind(err) != "denied" {
		t.Error(err)
	}
	if err := run(who, "export", `{"user":"Bo","path":"/tmp/x"}`); Kind(err) != "denied" {
		t.Error("an administrator at a browser wrote files of the machine:", err)
	}
	s.Env.Log.Info("something else", "kind", "other")
	out, err := Do[Log](ctx, Direct{s}, "show log", map[string]any{"audit": true})
	if err != nil || len(out.Lines) != 3 {
		t.Fatal(out, err)
	}
	text := out.Text()
	for _, want := range []string{`verb="user add" by=Ada person=`, `verb="user password" by=` +
		stranger.Person.String(), "needs the role Admin", "verb=export by=Ada", "admin: refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "hush") {
		t.Error("a secret stands in the log:", text)
	}
	if more, err := Do[Log](ctx, Direct{s}, "show log", map[string]any{"after": out.Lines[0].Seq,
		"match": "ELSE"}); err != nil || len(more.Lines) != 1 || more.Last != 4 {
		t.Error(more, err)
	}
	if warn, err := Do[Log](ctx, Direct{s}, "show log", map[string]any{"level": "warn"}); err != nil ||
		len(warn.Lines) != 2 {
		t.Error(warn, err)
	}
	if _, err := Do[Log](ctx, Direct{s}, "show log", map[string]any{"level": "loud"}); Kind(err) != "usage" {
		t.Error(err)
	}
}

// TestConsoleSecrets checks that a mistyped command leaves an audit line without any of its words, one of which may be
// a secret, and that its caller gets the whole error.
func TestConsoleSecrets(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.Env.Log = slog.New(logtail.New(slog.NewTextHandler(io.Discard, nil)))
	for _, c := range []struct{ line, told, logged string }{
		{"user passwd ada --password S3cret", `"user passwd ada --password S3cret": help`,
			`verb=console by=system args="" error="no such verb"`},
		{"set configuration filter.rspamd_password S3cret", `"S3cret" is too much`,
			`verb="set configuration" by=system args="" error="bad arguments"`},
		{"user password ada S3cret", `"S3cret" is too much`,
			`verb="user password" by=system args="" error="bad arguments"`},
		{"user show ada S3cret", `"S3cret" is too much`, `verb="user show" by=system args="" error="bad arguments"`},
		{`set configuration "filter.rspamd_password=S3cret`, "ends within a quotation",
			`verb=console by=system args="" error="bad arguments"`},
	} {
		text, err := audited(t, s, note.System, c.line)
		if Kind(err) != "usage" || !strings.Contains(err.Error(), c.told) {
			t.Errorf("%s: the caller gets %v, want %q", c.line, err, c.told)
		}
		if !strings.Contains(text, c.logged) || strings.Contains(text, "S3cret") {
			t.Errorf("%s leaves the audit line %s", c.line, text)
		}
	}
	stranger := note.Who{Person: note.UNID{1}}
	if text, err := audited(t, s, stranger, "user password ada --password S3cret"); Kind(err) != "denied" ||
		strings.Contains(text, "S3cret") {
		t.Errorf("a rejected command: %v, %s", err, text)
	}
}

// audited runs a command of the console and returns its only audit line, and the command's error.
func audited(t *testing.T, s *Running, who note.Who, line string) (string, error) {
	t.Helper()
	ctx := context.Background()
	before, err := Do[Log](ctx, Direct{s}, "show log", map[string]any{"audit": true})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(ConsoleLine{line})
	if err != nil {
		t.Fatal(err)
	}
	_, failed := s.Run(ctx, who, "console", raw, nil)
	out, err := Do[Log](ctx, Direct{s}, "show log", map[string]any{"audit": true, "after": before.Last})
	if err != nil || len(out.Lines) != 1 {
		t.Fatalf("%s leaves the audit lines %v, %v", line, out, err)
	}
	return out.Text(), failed
}

// TestTellAudit checks that every command to a task leaves one audit line, also if there is no such task or command.
func TestTellAudit(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.Env.Log = slog.New(logtail.New(slog.NewTextHandler(io.Discard, nil)))
	for _, c := range []struct{ line, kind, logged string }{
		{"tell router show", "", `verb="show queue"`},
		{"tell router status", "",
			`verb="task tell" by=system args="{\"command\":[\"status\"],\"name\":\"router\"}"`},
		{"tell router quit", "", `verb="task quit" by=system`},
		{"tell router run", "", `verb="task load" by=system`},
		{"tell router dance", "usage", `args="{\"command\":[\"dance\"],\"name\":\"router\"}" error=`},
		{"tell nosuch show", "not found", `args="{\"command\":[\"show\"],\"name\":\"nosuch\"}" error=`},
		{"tell", "usage", `verb="task tell" by=system args={} error=`},
	} {
		if text, err := audited(t, s, note.System, c.line); Kind(err) != c.kind || !strings.Contains(text, c.logged) {
			t.Errorf("%s: %v, and the audit line %s, want %s", c.line, err, text, c.logged)
		}
	}
}

// TestMachineVerbs checks that a verb that names a file of the server's machine cannot be run by remote administrators.
func TestMachineVerbs(t *testing.T) {
	t.Parallel()
	ada := note.Who{Person: note.UNID{1}, Roles: []string{"Admin"}}
	for _, v := range Verbs() {
		for _, p := range v.Params {
			if (p.File || p.Name == "path" || p.Name == "dir") && !v.Machine {
				t.Errorf("%s takes %s, which is a file of the machine, from everywhere", v.Name, p.Name)
			}
		}
		if err := MayRun(ada, v); (err != nil) != v.Machine {
			t.Errorf("%s: %v", v.Name, err)
		}
		if MayRun(note.System, v) != nil || MayRun(note.Who{Person: ada.Person}, v) == nil {
			t.Errorf("%s: the server may not run it, or anybody may", v.Name)
		}
	}
}
