//go:build unix

package lab

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/test/external"
)

// TestStartGivenUp checks that Start ends the process of a server if the context is cancelled before the PID file
// exists.
func TestStartGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, number := filepath.Join(dir, "slow"), filepath.Join(dir, "number")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho $$ >"+number+".new; mv "+number+".new "+number+
		"; exec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &Server{Name: "one", Data: dir, Doors: map[string]string{"imap": "127.0.0.1:1"}, program: program,
		env: env.Real(slog.New(slog.NewTextHandler(io.Discard, nil)))}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	given := make(chan error, 1)
	go func() { given <- s.Start(ctx) }()
	var text []byte
	for deadline := time.Now().Add(30 * time.Second); len(text) == 0; time.Sleep(5 * time.Millisecond) {
		if text, _ = os.ReadFile(number); time.Now().After(deadline) {
			t.Fatal("it does not run")
		}
	}
	stop()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d was left behind: %v", pid, err)
	}
}

// TestCPUs starts a server that may use one processor: it sees one.
func TestCPUs(t *testing.T) {
	t.Parallel()
	external.Need(t, "taskset", "nproc")
	dir := t.TempDir()
	program, seen := filepath.Join(dir, "counts"), filepath.Join(dir, "seen")
	external.Script(t, program, "#!/bin/sh\nnproc >"+seen+"\nexit 3\n")
	s := &Server{Name: "one", Data: dir, Doors: map[string]string{"imap": "127.0.0.1:1"}, program: program, CPUs: "0",
		env: env.Real(slog.New(slog.DiscardHandler))}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(seen); err != nil || strings.TrimSpace(string(text)) != "1" {
		t.Errorf("%q processors, %v", text, err)
	}
}

// TestOptions builds a lab of another program, with a setting: the server has the setting, and is that program.
func TestOptions(t *testing.T) {
	t.Parallel()
	var made Settings
	b := &Builder{
		Env: env.Real(slog.New(slog.DiscardHandler)), Program: "/no/such/doublet",
		Check:    func(Settings) error { return nil },
		Progress: func(bool, string, ...any) {},
		Make: func(_ context.Context, s Settings, _ admin.UserAdd) error {
			made = s
			return os.Mkdir(s["data.dir"], 0o700)
		},
	}
	c, err := Named("config1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Build(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "lab"), People: 1, Program: "false",
		Settings: Settings{"store.db_cache_entries": "20"}})
	if err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Error(err)
	}
	if made["store.db_cache_entries"] != "20" || made["router.send"] != "true" {
		t.Errorf("made with %v", made)
	}
}

// TestSweep stops the server that an unfinished lab has left running, and removes its folder.
func TestSweep(t *testing.T) {
	t.Parallel()
	external.Need(t, "tail")
	e := env.Real(slog.New(slog.DiscardHandler))
	dir := filepath.Join(t.TempDir(), "servers")
	if err := Sweep(e, dir); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
	data := filepath.Join(dir, "one")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(data, "server.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tail", "-f", log) // its command line names the folder, as that of a server does
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pid := []byte(strconv.Itoa(cmd.Process.Pid))
	if err := os.WriteFile(filepath.Join(data, "doublet.pid"), pid, 0o600); err != nil {
		t.Fatal(err)
	}
	// The system shows the command line of a process a moment after it began.
	for one := (&Server{env: e, Name: "one", Data: data}); !one.Running(); {
		time.Sleep(time.Millisecond)
	}
	if err := Sweep(e, dir); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the server ended by itself")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}
