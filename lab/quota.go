package lab

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"doublet/bench"
	"doublet/env"
)

// cgroups is the folder at which Linux mounts control groups.
const cgroups = "/sys/fs/cgroup"

// mostQuota bounds the processors of a quota.
const mostQuota = 4096

// checkQuota refuses a number of processors that no control group can have; 0 means no quota.
func checkQuota(processors float64) error {
	if processors == 0 || processors >= 0.01 && processors <= mostQuota {
		return nil
	}
	return bench.Usage("--quota %g: want processors from 0.01 to %d, such as 0.5", processors, mostQuota)
}

// group is the control group of a server: a folder of version 1 (the controller cpu) or 2 of control groups. Its name
// follows from the server's data folder, so that a group which a crash has left is found again.
type group struct {
	dir string
	v2  bool
}

// groupOf returns the group of the server with a data folder, below the folder at which control groups are mounted.
func groupOf(root, data string) group {
	h := fnv.New64a()
	_, _ = h.Write([]byte(data)) // it never fails
	name := fmt.Sprintf("doublet-lab-%016x", h.Sum64())
	if exists(filepath.Join(root, "cpu", "cgroup.procs")) {
		return group{filepath.Join(root, "cpu", name), false}
	}
	return group{filepath.Join(root, name), true}
}

// limit makes the group, if it is not there, and gives its processes so many processors together.
func (g group) limit(processors float64) error {
	const period = 100_000 // microseconds, the default of Linux
	quota := strconv.Itoa(int(processors * period))
	files := [][2]string{{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", quota}}
	if g.v2 {
		files = [][2]string{{"cpu.max", quota + " " + strconv.Itoa(period)}}
		// The groups below a group have a controller if it hands the controller down.
		if err := write(filepath.Dir(g.dir), "cgroup.subtree_control", "+cpu"); err != nil {
			return err
		}
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as other groups
		return err
	}
	for _, f := range files {
		if err := write(g.dir, f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of a control group, which is there already.
func write(dir, name, text string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// within returns the command that runs a program in the group: a shell enters it and becomes the program, so that the
// program has the quota from its first moment, and the process ID is its own.
func (g group) within(line []string) []string {
	const enter = `echo $$ >"$0" && exec "$@"`
	return append([]string{"sh", "-c", enter, filepath.Join(g.dir, "cgroup.procs")}, line...)
}

// leaveLimit is the time that a group may still have a process after the server has ended.
const leaveLimit = 2 * time.Second

// leave removes the server's control group, if there is one.
func (s *Server) leave() error { return groupOf(cgroups, s.Data).remove(s.env) }

// remove removes the group. A group that does not exist must not be tried: control groups may be mounted read-only.
func (g group) remove(e *env.Env) error {
	if !exists(g.dir) {
		return nil
	}
	for until := e.Clock.Now().Add(leaveLimit); ; e.Clock.Sleep(20 * time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if e.Clock.Now().After(until) {
			return fmt.Errorf("lab: remove the control group of a server: %w", err)
		}
	}
}

// line returns the command line that starts the server.
func (s *Server) line() ([]string, error) {
	line := append([]string{s.program}, s.Arguments...)
	if s.CPUs != "" { // taskset becomes the program: the process ID is the server's
		line = append([]string{"taskset", "-c", s.CPUs}, line...)
	}
	if s.Quota == 0 {
		return line, nil
	}
	g := groupOf(cgroups, s.Data)
	if err := g.limit(s.Quota); err != nil {
		return nil, fmt.Errorf("lab: --quota: cannot make a control group (root can, where %s may be written): %w",
			cgroups, err)
	}
	return g.within(line), nil
}
