package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doublet/bench/record"
	"doublet/test/external"
	"doublet/test/program"
)

// everyVerb begins a workload with each action that JMAP carries.
const everyVerb = `name = "every"
title = "Every action of JMAP"
protocol = "jmap"
loop = "20s"
limit = "1s"

[sizes]
mail = [{ body = "2KB", percent = 50 }, { body = "1KB", attachment = "20KB", percent = 50 }]

[mailbox]
messages = 100
sizes = "mail"
seen = 50
`

// carried are the actions in the order in which a user does them, with what each needs in the workload.
var carried = []struct{ verb, needs string }{
	{"open", ""}, {"scroll", ""}, {"read", ""}, {"reply", `sizes = "mail"`}, {"send", "to = 2\nsizes = \"mail\""},
	{"add", `sizes = "mail"`}, {"update", ""}, {"calendar", ""}, {"appointment", ""}, {"invite", "to = 2"},
	{"rsvp", ""}, {"move", ""}, {"delete", ""}, {"poll", ""}, {"retrieve", ""}, {"idle", `hold = "1s"`}, {"login", ""},
}

// TestBenchOfCyrus drives people over JMAP at a server of another make: Cyrus, which sends through Postfix. Every
// action that JMAP carries is done without an error: from here, with a ledger and a second step in mailboxes that were
// put back, through agents, and with a monitor.
func TestBenchOfCyrus(t *testing.T) {
	flags, groups := cyrusPeers(t, 4)
	out := t.TempDir()
	text := everyVerb
	for _, a := range carried {
		text += fmt.Sprintf("\n[[action]]\ndo = %q\nthink = \"200ms\"\n%s\n", a.verb, a.needs)
	}
	file := filepath.Join(out, "every.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	monitor := append([]string{"monitor", "--listen", "127.0.0.1:0"}, groups...)
	for name, more := range map[string][]string{
		"here": append([]string{"--users", "3..4", "--step", "1", "--ledger", "--fail-if", "lost>0", "--fail-if",
			"doubled>0", "--fail-if", "resurrected>0"}, groups...),
		"agents": append([]string{"--users", "4", "--agent", agentFor(t), "--agent", agentFor(t), "--secret", "word"},
			groups...),
		"monitor": {"--users", "4", "--monitor-at", benchServing(t, "monitor listens at ", monitor...)},
	} {
		args := slices.Concat([]string{"bench", "run", file, "--admin", "-", "--data", t.TempDir(), "--json", "--speed",
			"5", "--init-scale", "10%", "--window", "9s", "--max-settle", "3s", "--login-rate", "6000", "--out",
			filepath.Join(out, name)}, flags, more)
		said, err := program.Command(mustBinary(t), args...)
		if err != nil {
			t.Fatal(name, err, said)
		}
		r := parseBench(t, said)
		if len(r.Steps) == 0 || len(r.Steps[0].Cores) != 2 {
			t.Errorf("%s: Cyrus and Postfix are not metered: %+v", name, r)
		}
		if l := r.Ledger; name == "here" && (len(l) != 2 || l[1].Acknowledged < 20 || l[1].Invitations == 0 ||
			l[1].Answers == 0) {
			t.Errorf("ledger: %+v", l)
		}
		didEverything(t, name, r.File)
	}
}

// cyrusPeers starts Cyrus and Postfix by the script that comes with the program, for so many people. It returns the
// flags of bench run that the script prints, and apart from them those for the meter.
func cyrusPeers(t *testing.T, people int) (flags, groups []string) {
	t.Helper()
	needCyrus(t)
	dir := scriptFolder(t)
	script := func(args ...string) string {
		return program.Run(t, "", nil, "bash", append([]string{"../../lab/scripts/cyrus-postfix"}, args...)...)
	}
	t.Cleanup(func() { script("stop", dir) })
	for line := range strings.Lines(script("start", dir, fmt.Sprint(people))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name == "monitor" {
			groups = append(groups, "--monitor", value)
		} else {
			flags = append(flags, "--"+name, value)
		}
	}
	return flags, groups
}

// needCyrus skips a test where Cyrus with JMAP or Postfix is missing.
func needCyrus(t *testing.T) {
	t.Helper()
	external.Need(t, "/usr/lib/cyrus/bin/master", "/usr/lib/cyrus/bin/httpd", "postfix")
	if os.Getuid() != 0 {
		external.Missing(t, "root", "Cyrus and Postfix start as root only")
	}
}

// didEverything checks a run of everyVerb in each step: each action was done, and none failed; the calendar has nothing
// to do, which a mark says.
func didEverything(t *testing.T, name, file string) {
	t.Helper()
	r, err := record.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Steps {
		for _, a := range carried {
			total := r.Total(r.Steps[i].Index, a.verb)
			nothing := a.verb == "calendar" || a.verb == "appointment"
			if total.Failed > 0 || nothing != (total.Completed() == 0) || nothing && total.Nothing == 0 {
				t.Errorf("%s: step %d: %s: %d done, %d without an object, errors %v", name, i, a.verb,
					total.Completed(), total.Nothing, total.Errors)
			}
		}
	}
	marks := strings.Join(r.Header.Marks, "; ")
	if !strings.Contains(marks, "the server has no JMAP Calendars") || !strings.Contains(marks, "no event stream") ||
		strings.Contains(marks, "other folders left") {
		t.Errorf("%s: marks %s", name, marks)
	}
}
