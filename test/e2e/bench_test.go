package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/env"
	"doublet/lab"
	"doublet/test/external"
	"doublet/test/program"
)

// sped makes a run short enough for a test, which ignores the measurements.
var sped = []string{"--speed", "300", "--init-scale", "2%", "--window", "3s", "--max-settle", "2s",
	"--login-rate", "6000"}

// benchResult is the output of bench run --json.
type benchResult struct {
	File  string `json:"file"`
	Steps []struct {
		Users     int                `json:"users"`
		Completed int64              `json:"completed"`
		Errors    uint64             `json:"errors"`
		Kinds     map[string]uint64  `json:"error_kinds"`
		Cores     map[string]float64 `json:"cores"`
	} `json:"steps"`
	Most *struct {
		Users int `json:"users"`
	} `json:"most"`
	Ledger []struct {
		Acknowledged, Invitations, Answers, Lost, Doubled, Resurrected int
	} `json:"ledger"`
}

func parseBench(t *testing.T, text string) (r benchResult) {
	t.Helper()
	_, text, _ = strings.Cut(text, "{\n") // after the progress lines
	if err := json.Unmarshal([]byte("{\n"+text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// benchAt starts a demo. It returns a function that runs the benchmark against it, which finds the doors by itself, and
// the folder of the run files.
func benchAt(t *testing.T) (s *server, bench func(args ...string) string, out string) {
	s, out = demo(t), t.TempDir()
	return s, func(args ...string) string {
		return s.Doublet(append(append([]string{"bench"}, args...), "--out", out)...)
	}, out
}

// TestBench checks that the benchmark creates people, fills their mailboxes, drives them, here and through agents, and
// reports the results.
func TestBench(t *testing.T) {
	t.Parallel()
	with := func(args ...string) []string { return append(args, sped...) }
	t.Run("words", func(t *testing.T) {
		t.Parallel()
		path := mustBinary(t)
		program.Want(t, program.Run(t, "", nil, path, "bench", "workloads"), "n8mail", "pop3mail")
		program.Want(t, program.Run(t, "", nil, path, "bench", "show", "r6mail", "--set", "adds=12"),
			"reads a message, 5 times", "12 times in 6 loops")
		program.Want(t, program.Run(t, "", nil, path, "bench", "show", "--schema"), "[[action]]", "stagger")
	})
	t.Run("IMAP", func(t *testing.T) {
		t.Parallel()
		s, bench, out := benchAt(t)
		text := bench(with("run", "r6mail", "--users", "4", "--fail-if", "errors>0", "--ledger", "--fail-if", "lost>0",
			"--fail-if", "doubled>0", "--fail-if", "resurrected>0", "--metrics",
			"http://127.0.0.1:"+s.Port["http"]+"/metrics")...)
		program.Want(t, text, "r6mail over imap against doublet", "marked: window of 3s",
			"marked: mailboxes filled to 2 %", "doublet 0.", "marked: driver and server share processors",
			"ledger at doublet: ")
		files, err := filepath.Glob(filepath.Join(out, "r6mail-*.run"))
		if err != nil || len(files) != 1 {
			t.Fatalf("run files: %v, %v", files, err)
		}
		program.Want(t, s.Doublet("bench", "report", files[0], "--png"), ".html", ".csv", "response-time-over-time.png")
		raw, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		program.Want(t, string(raw), `"host":"statistics"`, "doublet_", `"host":"probe"`, `"group":"doublet"`)
		program.Want(t, s.Doublet("check", "--deep"), "")
	})
	t.Run("JMAP", func(t *testing.T) {
		t.Parallel()
		s, bench, _ := benchAt(t)
		// Without a door for IMAP mailboxes are put back over JMAP before the second step.
		r := parseBench(t, bench(with("run", "n8mail", "--over", "jmap", "--fill-over", "jmap", "--jmap",
			"127.0.0.1:"+s.Port["http"], "--users", "3..4", "--step", "1", "--json", "--ledger", "--fail-if", "lost>0",
			"--fail-if", "doubled>0", "--fail-if", "resurrected>0")...))
		if len(r.Steps) != 2 || r.Steps[0].Errors > 0 || r.Steps[1].Completed < 10 || r.Steps[1].Errors > 0 ||
			len(r.Ledger) != 2 || r.Ledger[1].Acknowledged < 20 {
			t.Fatalf("over JMAP: %+v", r)
		}
		raw, err := os.ReadFile(r.File)
		if err != nil {
			t.Fatal(err)
		}
		program.Want(t, string(raw), `"action":"open"`, `"action":"read"`, `"action":"send"`, `"action":"delete"`,
			`"host":"probe"`)
		if strings.Contains(string(raw), "flags and other folders left") {
			t.Error("mailboxes are not put back over JMAP")
		}
		program.Want(t, s.Doublet("check", "--deep"), "")
	})
	t.Run("calendar", func(t *testing.T) {
		t.Parallel()
		s, bench, _ := benchAt(t)
		own := filepath.Join(t.TempDir(), "meetings.toml")
		if err := os.WriteFile(own, []byte(meetings), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, over := range []string{"jmap", "web", "imap"} {
			args := append(with("run", own, "--over", over, "--users", "4", "--json", "--ledger", "--fail-if", "lost>0",
				"--fail-if", "doubled>0"), "--speed", "20")
			r := parseBench(t, bench(args...))
			if len(r.Steps) != 1 || r.Steps[0].Completed < 10 || r.Steps[0].Errors > 0 || len(r.Ledger) != 1 ||
				r.Ledger[0].Invitations == 0 || r.Ledger[0].Answers == 0 {
				t.Fatalf("over %s: %+v", over, r)
			}
		}
		program.Want(t, s.Doublet("show", "stat", "Sched.Delivered"), "Sched.Delivered")
		program.Want(t, s.Doublet("check", "--deep"), "")
	})
	t.Run("agents", func(t *testing.T) {
		t.Parallel()
		s, bench, _ := benchAt(t)
		r := parseBench(t, bench(with("run", "pop3mail", "--users", "4", "--json", "--agent", agentFor(t), "--agent",
			agentFor(t), "--secret", "word")...))
		if len(r.Steps) != 1 || r.Steps[0].Completed == 0 || r.Steps[0].Errors > 0 {
			t.Errorf("through two agents: %+v", r)
		}
		program.Want(t, s.Doublet("check", "--deep"), "")
	})
	t.Run("max", func(t *testing.T) {
		t.Parallel()
		s, bench, _ := benchAt(t)
		r := parseBench(t, bench(with("max", "imapmail", "--users", "2..4", "--json")...))
		if len(r.Steps) < 1 || r.Most == nil {
			t.Errorf("the most: %+v", r)
		}
		program.Want(t, s.Doublet("check", "--deep"), "")
	})
}

// meetings is a workload of people who invite each other, and answer.
const meetings = `name = "meetings"
title = "Meetings"
protocol = "jmap"
over = ["web-full", "imap"]
loop = "20s"
limit = "1s"

[sizes]
mail = [{ body = "1KB", percent = 100 }]

[mailbox]
messages = 100
sizes = "mail"

[[action]]
do = "open"
think = "2s"

[[action]]
do = "calendar"
think = "2s"

[[action]]
do = "appointment"
think = "2s"

[[action]]
do = "invite"
to = 2
think = "2s"

[[action]]
do = "rsvp"
think = "2s"
`

// TestBenchInBrowsers drives people in the web clients without errors.
func TestBenchInBrowsers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		workload string
		args     []string
		over     string
		actions  []string
	}{
		{"dwa85", nil, "web-full", []string{"open", "scroll", "read", "move", "delete", "send", "sync"}},
		{"dwa85lite", nil, "web-lite", []string{"open", "scroll", "read", "move", "delete", "lookup", "send"}},
		{"dwa8", []string{"--cold-cache"}, "web-full", []string{"open", "read", "send"}},
		{"r6inotes", []string{"--over", "lite", "--cold-cache", "--set", "adds=12"}, "web-lite",
			[]string{"open", "read", "delete", "add"}},
	} {
		t.Run(c.workload, func(t *testing.T) {
			t.Parallel()
			s, bench, _ := benchAt(t)
			args := append(append([]string{"run", c.workload, "--users", "4", "--json"}, sped...), "--speed", "200")
			r := parseBench(t, bench(append(args, c.args...)...))
			if len(r.Steps) != 1 || r.Steps[0].Completed < 10 || r.Steps[0].Errors > 0 {
				t.Fatalf("%+v", r)
			}
			raw, err := os.ReadFile(r.File)
			if err != nil {
				t.Fatal(err)
			}
			program.Want(t, string(raw), `"protocol":"`+c.over+`"`, `"host":"probe"`)
			for _, action := range c.actions {
				program.Want(t, string(raw), `"action":"`+action+`"`)
			}
			program.Want(t, s.Doublet("check", "--deep"), "")
		})
	}
}

// agentFor starts an agent and returns its address.
func agentFor(t *testing.T) string {
	t.Helper()
	return benchServing(t, "agent listens at ", "agent", "--listen", "127.0.0.1:0", "--secret", "word")
}

// benchServing starts a command of doublet bench that serves, and returns the address that follows says in its output.
func benchServing(t *testing.T, says string, args ...string) string {
	t.Helper()
	out := &program.Output{}
	cmd := exec.Command(mustBinary(t), append([]string{"bench"}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, address, ok := strings.Cut(out.String(), says); ok && strings.HasSuffix(address, "\n") {
			return strings.TrimSpace(address)
		}
	}
	t.Fatal("it does not listen: ", out)
	return ""
}

// TestBenchRefuses checks that an impossible run is rejected before anything starts.
func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	path := mustBinary(t)
	bad := filepath.Join(t.TempDir(), "bad.toml")
	if err := os.WriteFile(bad, []byte("name = 'x'\nlop = '15m'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"run nothing", "no workload of that name"}, {"run " + bad, "line 2"},
		{"run idle --users 990000", "add agents"}, {"run idle --speed 0", "--speed"},
		{"run idle --users 5..1", "--users"}, {"run idle --fail-if p99", "--fail-if"},
		{"run dwa8 --over http", "cannot run over"}, {"agent --listen 0.0.0.0:0", "--secret"},
		{"run idle --agent 127.0.0.1:1 --imap 127.0.0.1:1", "agent 127.0.0.1:1"}, {"show", "name a workload"},
		{"run idle", "no Doublet answers"}, {"run idle --admin -", "name the server's doors"},
		{"lab", "name a configuration"}, {"lab config9", "want one of config1"}, {"lab config1 config2", "--run"},
		{"run idle --kill two@3s", "--lab DIR"}, {"run idle --lab nowhere", "bench lab NAME"},
		{"run idle --fail-if lost>x", "lost>0"}, {"cluster speed", "want one of idle"},
		{"cluster lag --rate 0", "rates are above 0"},
	} {
		text, err := program.Command(path, append(append([]string{"bench"}, strings.Fields(c.args)...), "--data",
			t.TempDir())...)
		if err == nil || !strings.Contains(text, c.want) {
			t.Errorf("bench %s: %v, %s", c.args, err, text)
		}
	}
}

// TestBenchOfPeers drives the same people at Dovecot and Postfix, which the meter treats as one server: from here with
// a ledger, through agents, and with a monitor beside the server.
func TestBenchOfPeers(t *testing.T) {
	imap, smtp := mailPeers(t)
	out := t.TempDir()
	accounts := filepath.Join(out, "people.csv")
	people := "name,password,address\n"
	for i := range 4 {
		people += fmt.Sprintf("mail%d@test.example,bench,mail%[1]d@test.example\n", i+1)
	}
	if err := os.WriteFile(accounts, []byte(people), 0o600); err != nil {
		t.Fatal(err)
	}
	const group = "dovecot+postfix=dovecot,imap,imap-login,lmtp,anvil,auth,stats,log,config,master,smtpd,cleanup," +
		"qmgr,pickup,trivial-rewrite,proxymap"
	for name, more := range map[string][]string{
		"ledger": {"--users", "2..4", "--step", "2", "--ledger", "--fail-if", "lost>0", "--monitor", group},
		"agents": {"--users", "4", "--agent", agentFor(t), "--agent", agentFor(t), "--secret", "word", "--monitor",
			group},
		"monitor": {"--users", "4", "--monitor-at", benchServing(t, "monitor listens at ", "monitor", "--listen",
			"127.0.0.1:0", "--monitor", group)},
	} {
		args := append([]string{"bench", "run", "r6mail", "--accounts", accounts, "--admin", "-", "--data",
			t.TempDir(), "--target", "dovecot+postfix", "--json", "--imap", imap, "--smtp", smtp, "--out",
			filepath.Join(out, name)}, append(more, sped...)...)
		text, err := program.Command(mustBinary(t), args...)
		if err != nil {
			t.Fatal(name, err, text)
		}
		r := parseBench(t, text)
		if len(r.Steps) == 0 {
			t.Fatalf("%s: %+v", name, r)
		}
		if s := r.Steps[len(r.Steps)-1]; s.Completed < 10 || s.Errors > 0 || len(s.Cores) != 1 {
			t.Errorf("%s: %+v", name, r)
		}
		raw, err := os.ReadFile(r.File)
		if err != nil {
			t.Fatal(err)
		}
		program.Want(t, string(raw), `"action":"send"`, `"action":"read"`, `"action":"add"`, `"action":"delete"`,
			`"group":"dovecot+postfix"`)
		if name == "ledger" && (len(r.Ledger) != 2 || r.Ledger[1].Acknowledged < 20 ||
			r.Ledger[1].Lost+r.Ledger[1].Doubled+r.Ledger[1].Resurrected > 0) {
			t.Errorf("ledger: %+v", r.Ledger)
		}
	}
}

// mailPeers starts the Dovecot and Postfix of the studies for mail1@test.example to mail4@test.example, and returns
// their addresses.
func mailPeers(t *testing.T) (imap, smtp string) {
	t.Helper()
	external.Need(t, "dovecot")
	external.Need(t, "/usr/lib/dovecot/lmtp")
	external.Need(t, "postfix")
	if os.Getuid() != 0 {
		external.Missing(t, "root", "Dovecot and Postfix start as root only")
	}
	script, err := lab.NewScript(env.Real(slog.New(slog.DiscardHandler)), "dovecot-postfix", "")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "peers") // not below a folder that only root may enter
	if err != nil {
		t.Fatal(err)
	}
	settings, err := script.Start(t.Context(), dir, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"postfix.log", "dovecot.log"} {
				text, _ := os.ReadFile(filepath.Join(dir, name))
				t.Logf("%s:\n%s", name, text)
			}
		}
		if err := script.Stop(dir); err != nil {
			t.Error(err)
		}
	})
	doors := map[string]string{}
	for _, x := range settings {
		doors[x.Name] = x.Value
	}
	s := &server{&program.Server{T: t, Port: map[string]string{}, Out: &program.Output{}}}
	for _, door := range []string{"imap", "submission"} {
		_, s.Port[door], _ = strings.Cut(doors[door], ":")
		s.Await(door)
	}
	return doors["imap"], doors["submission"]
}
