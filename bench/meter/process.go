package meter

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is one process of /proc.
type process struct {
	pid, parent int
	command     string
	threads     uint64
	used        used
}

// processes returns all processes by ID. It omits those that end meanwhile.
func (m *Meter) processes() map[int]process {
	out := make(map[int]process)
	names, _ := os.ReadDir(filepath.Join(m.root, "proc"))
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		if p, ok := m.process(pid); ok {
			out[pid] = p
		}
	}
	return out
}

func (m *Meter) process(pid int) (p process, ok bool) {
	b, err := m.read("proc/" + strconv.Itoa(pid) + "/stat")
	// The command is in parentheses and can hold any byte, parentheses too.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if err != nil || open < 0 || end < open {
		return p, false
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 18 {
		return p, false
	}
	n := func(field int) uint64 { // numbered as in proc(5), where the state is 3
		v, _ := strconv.ParseUint(f[field-3], 10, 64)
		return v
	}
	return process{pid: pid, parent: int(n(4)), command: string(b[open+1 : end]), threads: n(20),
		used: used{major: n(12), ticks: n(14) + n(15)}}, true
}

// members returns the processes of a group and their descendants.
func (m *Meter) members(table map[int]process, g *Group) []int {
	in := make(map[int]bool)
	for _, pid := range g.PIDs {
		in[pid] = true
	}
	if b, err := os.ReadFile(g.PIDFile); g.PIDFile != "" && err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			in[pid] = true
		}
	}
	if g.Cgroup != "" {
		_ = filepath.WalkDir(g.Cgroup, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
				return nil //nolint:nilerr // a group that goes away meanwhile has no processes
			}
			b, _ := os.ReadFile(path)
			for _, s := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(s); err == nil {
					in[pid] = true
				}
			}
			return nil
		})
	}
	for pid, p := range table {
		if slices.Contains(g.Commands, p.command) {
			in[pid] = true
		}
	}
	var out []int
	for pid := range table {
		for at, depth := pid, 0; at > 1 && depth < 64; at, depth = table[at].parent, depth+1 {
			if in[at] {
				out = append(out, pid)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// usage is the accumulated usage of a group. It includes processes that have ended; without them the counters of a
// server that forks would decrease.
type usage struct {
	each                        map[int]process
	gone                        used
	total                       used
	rss, pss, private, shared   uint64
	handles, threads, processes uint64
}

type used struct{ ticks, major, read, written uint64 }

func (u *used) add(o used) {
	u.ticks += o.ticks
	u.major += o.major
	u.read += o.read
	u.written += o.written
}

func (m *Meter) usage(table map[int]process, g *Group, last *moment) usage {
	u := usage{each: make(map[int]process)}
	var live used
	for _, pid := range m.members(table, g) {
		p := table[pid]
		dir := "proc/" + strconv.Itoa(pid)
		io := m.table(dir + "/io")
		p.used.read, p.used.written = io["read_bytes:"], io["write_bytes:"]
		u.each[pid] = p
		u.processes++
		u.threads += p.threads
		live.add(p.used)
		mem := m.table(dir + "/smaps_rollup")
		u.rss += mem["Rss:"] << 10
		u.pss += mem["Pss:"] << 10
		u.private += (mem["Private_Clean:"] + mem["Private_Dirty:"]) << 10
		u.shared += (mem["Shared_Clean:"] + mem["Shared_Dirty:"]) << 10
		handles, _ := os.ReadDir(filepath.Join(m.root, dir, "fd"))
		u.handles += uint64(len(handles))
	}
	if last != nil {
		before := last.groups[g.Name]
		u.gone = before.gone
		for pid, p := range before.each {
			if _, lives := u.each[pid]; !lives {
				u.gone.add(p.used)
			}
		}
	}
	u.total = u.gone
	u.total.add(live)
	return u
}

func (u *usage) values(last *usage, rate func(now, before uint64) float64) map[string]float64 {
	if last.each == nil {
		last = u
	}
	return map[string]float64{
		"cpu": rate(u.total.ticks, last.total.ticks) / ticks, "faults": rate(u.total.major, last.total.major),
		"read_bytes": rate(u.total.read, last.total.read), "write_bytes": rate(u.total.written, last.total.written),
		"rss": float64(u.rss), "pss": float64(u.pss), "private": float64(u.private), "shared": float64(u.shared),
		"handles": float64(u.handles), "threads": float64(u.threads), "processes": float64(u.processes),
	}
}
