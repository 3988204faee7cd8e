package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"doublet/admin"
	"doublet/cluster"
	"doublet/env"
	"doublet/stat"
)

// Server is one server of a lab.
type Server struct {
	Name string `json:"name"`
	Data string `json:"data"`
	// Domain is the domain of its users.
	Domain string `json:"domain"`
	// Doors maps protocols, by their names in the benchmark, to addresses (host:port).
	Doors map[string]string `json:"doors"`
	// Arguments are the arguments of the program doublet.
	Arguments []string `json:"arguments"`
	// Slow is the delay of a disk flush that SlowDown will add; "" for none.
	Slow string `json:"slow,omitempty"`
	// CPUs are the processors that it may use, "" for all (see Options).
	CPUs string `json:"cpus,omitempty"`
	// Quota is the number of processors that its control group gives it, 0 for no limit (see Options).
	Quota float64 `json:"quota,omitempty"`

	env     *env.Env
	program string // the path of the program that it runs
}

// PIDFile returns the path of the file that holds the server's process ID.
func (s *Server) PIDFile() string { return filepath.Join(s.Data, "doublet.pid") }

// Log returns the path of the server's log.
func (s *Server) Log() string { return filepath.Join(s.Data, "server.log") }

// socket returns the path of the server's admin socket.
func (s *Server) socket() string { return filepath.Join(s.Data, admin.SocketName) }

// startLimit is the time that a server may take to open its ports.
const startLimit = 2 * time.Minute

// Start runs the server and returns when its ports are open. The process has its own session, so that Ctrl-C reaches
// only the program that started it, which then stops it cleanly.
func (s *Server) Start(ctx context.Context) error {
	out, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	line, err := s.line()
	if err != nil {
		return err
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("lab: start %s: %w", s.Name, err)
	}
	ended := make(chan error, 1)
	s.env.Go("lab server "+s.Name, func() { ended <- cmd.Wait() })
	until := s.env.Clock.Now().Add(startLimit)
	for s.env.Clock.Now().Before(until) {
		if s.answers() {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("lab: %s ended (%v): %s", s.Name, err, s.lastWords())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), end(cmd, ended))
		case <-s.env.Clock.After(20 * time.Millisecond):
		}
	}
	return errors.Join(fmt.Errorf("lab: %s has not opened its doors in %v: %s", s.Name, startLimit, s.lastWords()),
		end(cmd, ended))
}

// end kills a started process and waits for it. It does not use the PID file, which a young process has not written
// yet.
func end(cmd *exec.Cmd, ended <-chan error) error {
	err := cmd.Process.Kill()
	<-ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (s *Server) answers() bool {
	for _, at := range s.Doors {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err != nil {
			return false
		}
		_ = c.Close()
	}
	return true
}

// lastWords returns the end of the server's log, at most 1000 bytes.
func (s *Server) lastWords() string {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-1000):]))
}

// process returns the server's process ID, 0 if it does not run.
func (s *Server) process() int {
	raw, err := os.ReadFile(s.PIDFile())
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || pid < 2 {
		return 0
	}
	// The system may have reused the process ID for another program.
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, os.ErrNotExist) && exists("/proc/self") {
		return 0
	}
	if err == nil && !strings.Contains(string(line), s.Data) {
		return 0
	}
	return pid
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Running reports whether the server's process runs.
func (s *Server) Running() bool { return s.process() != 0 }

// Kill sends SIGKILL to the process. It returns nil if the server does not run.
func (s *Server) Kill() error { return s.signal(os.Kill) }

func (s *Server) signal(sig os.Signal) error {
	pid := s.process()
	if pid == 0 {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(sig)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("lab: %s: %w", s.Name, err)
	}
	return nil
}

// stopLimit is the time that a server may take to stop.
const stopLimit = 40 * time.Second

// stop sends SIGTERM, waits for the end of the process, and removes its control group. After stopLimit it kills the
// process.
func (s *Server) stop() error {
	if err := s.signal(syscall.SIGTERM); err != nil {
		return err
	}
	for until := s.env.Clock.Now().Add(stopLimit); s.Running(); s.env.Clock.Sleep(20 * time.Millisecond) {
		if s.env.Clock.Now().After(until) {
			return errors.Join(fmt.Errorf("lab: %s did not stop in %v", s.Name, stopLimit), s.Kill(), s.leave())
		}
	}
	return s.leave()
}

// Status returns the server's view of its cluster.
func (s *Server) Status(ctx context.Context) (cluster.Status, error) {
	return ask[cluster.Status](ctx, s, "show cluster", struct{}{})
}

// Statistics returns the server's own numeric statistics.
func (s *Server) Statistics(ctx context.Context) (map[string]float64, error) {
	return Statistics(ctx, s.env, s.socket())
}

// statistic returns one statistic of the server, 0 if the server does not answer.
func (s *Server) statistic(ctx context.Context, name string) float64 {
	list, err := s.Statistics(ctx)
	if err != nil {
		return 0
	}
	return list[name]
}

// ask runs a command at a server's admin socket.
func ask[R any](ctx context.Context, s *Server, verb string, args any) (out R, err error) {
	c, err := admin.Dial(s.env, s.socket())
	if err == nil {
		out, err = admin.Do[R](ctx, c, verb, args)
	}
	if err != nil {
		return out, fmt.Errorf("lab: %s: %s: %w", s.Name, verb, err)
	}
	return out, nil
}

// Statistics returns the numeric statistics of the server at an admin socket.
func Statistics(ctx context.Context, e *env.Env, socket string) (map[string]float64, error) {
	c, err := admin.Dial(e, socket)
	if err != nil {
		return nil, err
	}
	list, err := admin.Do[[]stat.Entry](ctx, c, "show stat", struct{}{})
	if err != nil {
		return nil, err
	}
	out := make(map[string]float64, len(list))
	for _, x := range list {
		if x.Text == "" {
			out[x.Name] = x.Value
		}
	}
	return out, nil
}
