package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/long"
	"doublet/test/program"
)

// TestStudy closes the terminal of a study while a lab of it runs, which stops the servers, and then kills it with
// SIGKILL. Begun again, it stops the servers that were left, measures what is missing, and writes a report with a link
// to every run.
func TestStudy(t *testing.T) {
	t.Parallel()
	long.Test(t)
	path, dir := mustBinary(t), t.TempDir()
	file, out := filepath.Join(dir, "study.toml"), filepath.Join(dir, "out")
	text := `title = "Caches"
repeat = 2
strangers = 1.0 # other tests run beside this one
[run]
run = "r6mail"
lab = "config1"
users = "5"
speed = 300
init-scale = "1%"
window = "3s"
interval = "1s"
max-settle = "2s"
login-rate = 6000
[[axis]]
name = "cache"
value = [{ name = "small", setting = ["store.db_cache_entries=20"] }, { name = "large" }]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sweepLab(t, filepath.Join(out, "servers"))
	journal := filepath.Join(out, "study.jsonl")
	finished := func() int {
		raw, _ := os.ReadFile(journal)
		return strings.Count(string(raw), `"name"`)
	}
	pids := func() []string {
		found, _ := filepath.Glob(filepath.Join(out, "servers", "*", "doublet.pid"))
		return found
	}
	end := func(sig os.Signal) {
		cmd := exec.Command(path, "study", "run", file, "--out", out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(2 * time.Minute)
		for ; finished() < 1 || len(pids()) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				t.Fatal("the second run of the study does not begin")
			}
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	end(syscall.SIGHUP)
	if len(pids()) != 0 {
		t.Errorf("servers were left: %q", pids())
	}
	end(os.Kill)
	before := finished()
	stdout := program.Run(t, "", nil, path, "study", "run", file, "--out", out, "--json", "--doc",
		filepath.Join(dir, "doc"))
	_, stdout, _ = strings.Cut(stdout, "{\n")
	var r struct {
		Legs []string         `json:"legs"`
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal([]byte("{\n"+stdout), &r); err != nil || len(r.Legs) != 2 || len(r.Rows) == 0 {
		t.Fatalf("%v in %s", err, stdout)
	}
	if n := finished(); before >= 4 || n < 4 {
		t.Errorf("%d runs before the crash, %d in all", before, n)
	}
	if len(pids()) != 0 {
		t.Errorf("servers were left: %q", pids())
	}
	document, err := os.ReadFile(filepath.Join(dir, "doc", "study.md"))
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(document), "# Caches", "## Resources", "](study-01.svg)")
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(page), "<h1>Caches</h1>", `">small, run 1</a>`, `">small, run 2</a>`, `">large, run 2</a>`)
}

// TestScript measures Dovecot and Postfix, which the script that comes with the program starts, and stops afterwards:
// with a ledger.
func TestScript(t *testing.T) {
	external.Need(t, "dovecot")
	external.Need(t, "/usr/lib/dovecot/lmtp")
	external.Need(t, "postfix")
	r := scripted(t, "dovecot-postfix", "dovecot", "--run", "r6mail", "--ledger", "--fail-if", "lost>0")
	if len(r.Ledger) != 1 || r.Ledger[0].Acknowledged < 10 {
		t.Errorf("%+v", r)
	}
}

// TestScriptOfCyrus measures Cyrus and Postfix over JMAP, which a script that comes with the program starts and stops.
func TestScriptOfCyrus(t *testing.T) {
	needCyrus(t)
	r := scripted(t, "cyrus-postfix", "cyrus", "--run", "n8mail", "--over", "jmap", "--ledger", "--fail-if", "lost>0")
	if len(r.Ledger) != 1 || r.Ledger[0].Acknowledged < 10 {
		t.Errorf("%+v", r)
	}
}

// scripted measures the servers of a script on one processor, and returns the result. Both are metered, nothing fails,
// and nothing of them is left.
func scripted(t *testing.T, script, name string, args ...string) benchResult {
	t.Helper()
	external.Need(t, "taskset")
	if os.Getuid() != 0 {
		external.Missing(t, "root", "the servers of the script start as root only")
	}
	dir := scriptFolder(t)
	servers := filepath.Join(dir, "servers")
	args = slices.Concat([]string{"bench", "lab", "--script", script, "--users", "4", "--people", "5", "--cpus", "0",
		"--dir", servers, "--out", filepath.Join(dir, "out"), "--json"}, args, sped)
	text, err := program.Command(mustBinary(t), args...)
	if err != nil {
		t.Fatal(err, text)
	}
	r := parseBench(t, text)
	if len(r.Steps) != 1 || r.Steps[0].Completed < 10 || r.Steps[0].Errors > 0 || len(r.Steps[0].Cores) != 2 {
		t.Fatalf("%+v", r)
	}
	raw, err := os.ReadFile(r.File)
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(raw), `"name":"`+name+`+postfix"`, `"group":"`+name+`"`, `"group":"postfix"`,
		`"registered":5`)
	if runtime.NumCPU() > 1 {
		program.Want(t, string(raw), `"allowed":1`)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left beside the run files: %v, %v", list, err)
	}
	if _, err := program.Command("pgrep", "-f", servers); err == nil {
		t.Error("a process of the servers was left")
	}
	return r
}

// scriptFolder makes a folder for the servers of a script. They run under accounts of their own, and would not come
// below a folder that only root may enter.
func scriptFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "script")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return dir
}
