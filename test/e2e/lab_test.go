package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/long"
	"doublet/test/program"
)

// labResult is the result of a run in a lab.
type labResult struct {
	File  string `json:"file"`
	Steps []struct {
		Completed int64 `json:"completed"`
		Servers   []struct {
			Name  string  `json:"name"`
			Cores float64 `json:"cores"`
		} `json:"servers"`
		Failover *struct {
			People int64   `json:"people"`
			P50    float64 `json:"p50_ms"`
			Max    float64 `json:"max_ms"`
			Failed uint64  `json:"failed"`
		} `json:"failover"`
	} `json:"steps"`
	Ledger []struct {
		Server       string   `json:"server"`
		Acknowledged int      `json:"acknowledged"`
		Lost         int      `json:"lost"`
		Doubled      int      `json:"doubled"`
		Resurrected  int      `json:"resurrected"`
		Named        []string `json:"named"`
	} `json:"ledger"`
}

// sweepLab kills the servers that a dead lab has left running.
func sweepLab(t *testing.T, dir string) {
	t.Cleanup(func() {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "doublet.pid"))
		for _, f := range files {
			raw, _ := os.ReadFile(f)
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && strings.Contains(string(line), dir) {
				t.Errorf("process %d of the lab still ran", pid)
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		}
	})
}

// TestBenchLabKill kills one of two active servers in a cluster while people work, and restarts it. The people continue
// at the other one, and both servers must have everything that was acknowledged.
func TestBenchLabKill(t *testing.T) {
	t.Parallel()
	long.Test(t)
	path, dir := mustBinary(t), t.TempDir()
	sweepLab(t, filepath.Join(dir, "lab"))
	out := program.Run(t, "", nil, path, "bench", "lab", "config4", "--dir", filepath.Join(dir, "lab"), "--run",
		"r6mail", "--users", "10", "--out", dir, "--json",
		"--speed", "300", "--init-scale", "2%", "--window", "9s", "--interval", "1s", "--max-settle", "2s",
		"--login-rate", "6000",
		"--kill", "two@2s", "--restart", "two@5s", "--fail-if", "lost>0", "--fail-if", "doubled>0", "--fail-if",
		"resurrected>0")
	_, out, _ = strings.Cut(out, "{\n")
	var r labResult
	if err := json.Unmarshal([]byte("{\n"+out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(r.Steps) != 1 || len(r.Steps[0].Servers) != 2 || r.Steps[0].Completed < 10 {
		t.Fatalf("steps: %+v", r.Steps)
	}
	if f := r.Steps[0].Failover; f == nil || f.People == 0 || f.Failed > 0 {
		t.Errorf("failover: %+v", f)
	}
	if len(r.Ledger) != 2 {
		t.Fatalf("ledger: %+v", r.Ledger)
	}
	for _, v := range r.Ledger {
		if v.Acknowledged < 20 || v.Lost+v.Doubled+v.Resurrected > 0 {
			t.Errorf("%+v", v)
		}
	}
	raw, err := os.ReadFile(r.File)
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(raw), `"text":"two was killed (SIGKILL)"`, "two has its doors open after",
		`"host":"statistics","group":"one"`, "Replica.Cluster.WorkQueueDepth", `"host":"server","group":"two"`)
	program.Run(t, "", nil, path, "bench", "report", r.File)
	page, err := os.ReadFile(strings.TrimSuffix(r.File, ".run") + ".html")
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(page), "two was killed", "lost 0", "Work queue over time",
		"Processor of each server over time")
	// The interruption: only the people of two were without a server until another one accepted them.
	row := regexp.MustCompile(`<td>failover</td><td>(\d+)</td>`).FindStringSubmatch(string(page))
	if f := r.Steps[0].Failover; f != nil && (len(row) == 0 || row[1] != fmt.Sprint(f.People) || f.P50 <= 0 ||
		f.Max < f.P50) {
		t.Errorf("the failover of %+v is not in the report: %v", f, row)
	}
}

// TestBenchLabField: in the field case no server has all mail files, and some were removed from the server that had
// them first. Mail that is sent through a server without the recipient's mail file must still arrive.
func TestBenchLabField(t *testing.T) {
	t.Parallel()
	long.Test(t)
	path, dir := mustBinary(t), t.TempDir()
	sweepLab(t, filepath.Join(dir, "lab"))
	program.Run(t, "", nil, path, "bench", "lab", "field", "--dir", filepath.Join(dir, "lab"), "--run",
		"geoplex-medium", "--users", "9", "--out", dir, "--slow-disk", "0s",
		"--speed", "100", "--init-scale", "1%", "--window", "5s", "--max-settle", "2s", "--login-rate", "6000",
		"--ledger", "--fail-if", "lost>0", "--fail-if", "doubled>0", "--fail-if", "resurrected>0", "--fail-if",
		"errors>0")
}

// TestBenchLabHolds checks that a lab runs until it is interrupted, that other processes can run workloads there, and
// that its servers then end.
func TestBenchLabHolds(t *testing.T) {
	t.Parallel()
	long.Test(t)
	path, dir := mustBinary(t), t.TempDir()
	at := filepath.Join(dir, "lab")
	sweepLab(t, at)
	out := &program.Output{}
	cmd := exec.Command(path, "bench", "lab", "config2", "--dir", at, "--people", "6")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	end := func() error {
		_ = cmd.Process.Signal(syscall.SIGINT)
		return <-ended
	}
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(out.String(),
		"Ctrl-C stops the lab"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(end(), out)
		}
	}
	program.Want(t, program.Run(t, "", nil, path, "bench", "run", "r6mail", "--lab", at, "--users", "6", "--out", dir,
		"--speed", "300", "--init-scale", "1%", "--window", "3s",
		"--max-settle", "2s", "--login-rate", "6000", "--ledger", "--fail-if", "errors>0"), "against doublet, config2",
		"one ", "two ", "ledger at all servers")
	if code, err := program.Command(path, "bench", "run", "r6mail", "--lab", at, "--users", "7"); err == nil ||
		!strings.Contains(code, "the lab has 6") {
		t.Errorf("more people than there are: %v %s", err, code)
	}
	if err := end(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := program.Command(path, "user", "list", "--data", filepath.Join(at, "two")); err != nil ||
		!strings.Contains(out, "mail2@two.lab.example") {
		t.Errorf("a server that was stopped: %v %s", err, out)
	}
}
