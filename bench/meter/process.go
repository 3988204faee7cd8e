package meter

import (
	"bytes"
	"maps"
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
	start       uint64 // ticks since the boot; with pid it identifies the process
	// minor are the page faults without a disk of the process and of the children that it has waited for, waited those
	// of these children alone. Every process has some, so they show whether a parent has waited for a child.
	minor, waited uint64
	// used includes the children that the process has waited for: the kernel adds their bytes to the process's own.
	used used
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
	if len(f) < 20 {
		return p, false
	}
	n := func(field int) uint64 { // numbered as in proc(5), where the state is 3
		v, _ := strconv.ParseUint(f[field-3], 10, 64)
		return v
	}
	return process{pid: pid, parent: int(n(4)), command: string(b[open+1 : end]), threads: n(20), start: n(22),
		minor: n(10) + n(11), waited: n(11),
		used: used{major: n(12) + n(13), ticks: n(14) + n(15) + n(16) + n(17)}}, true
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
		u.bury(before.each)
	}
	u.total = u.gone
	u.total.add(live)
	return u
}

// bury adds the usage of the processes that have ended since before, unless an ancestor that lives has waited for them:
// then it is in the ancestor's own counters.
func (u *usage) bury(before map[int]process) {
	lives := func(pid int) bool {
		now, ok := u.each[pid]
		return ok && now.start == before[pid].start
	}
	left := make(map[int]uint64) // page faults of waited children, by ancestor, that no ended process accounts for yet
	for pid := range before {
		if lives(pid) {
			left[pid] = u.each[pid].waited - min(before[pid].waited, u.each[pid].waited)
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(before)) {
		p := before[pid]
		if lives(pid) {
			continue
		}
		heir := p.parent
		for depth := 0; depth < 64 && before[heir].pid == heir && !lives(heir); depth++ {
			heir = before[heir].parent
		}
		if lives(heir) && left[heir] >= p.minor {
			left[heir] -= p.minor
			continue
		}
		u.gone.add(p.used)
	}
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
