package meter

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"

	"doublet/bench/record"
)

// Host returns the facts of this machine. dir is a folder on the disk under test, or "".
func Host(dir string) record.Host {
	m := Meter{root: "/"}
	h := record.Host{OS: runtime.GOOS, CPUs: m.processors(), Memory: m.table("proc/meminfo")["MemTotal:"] << 10}
	h.Name, _ = os.Hostname()
	line := func(path string) string {
		b, _ := m.read(path)
		return strings.TrimSpace(string(b))
	}
	h.Kernel = line("proc/sys/kernel/osrelease")
	for l := range strings.Lines(line("etc/os-release")) {
		if name, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
			h.OS = strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	for l := range strings.Lines(line("proc/cpuinfo")) {
		if name, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}
	if dir != "" {
		h.Disk = device(line("proc/self/mounts"), dir)
	}
	return h
}

// processors returns the number of the machine's processors, also of those that this process may not use.
func (m *Meter) processors() int {
	n := 0
	info, err := m.read("proc/stat")
	if err != nil {
		return runtime.NumCPU()
	}
	for l := range bytes.Lines(info) {
		if len(l) > 3 && bytes.HasPrefix(l, []byte("cpu")) && l[3] != ' ' {
			n++
		}
	}
	return max(n, 1)
}

// Allowed returns the number of processors that the processes of the groups may use (sched_setaffinity(2)), 0 if it is
// unknown or that of the whole machine. A quota of a control group is not known.
func (m *Meter) Allowed() int {
	in := map[int]bool{}
	table := m.processes()
	for i := range m.groups {
		for _, pid := range m.members(table, &m.groups[i]) {
			b, err := m.read("proc/" + strconv.Itoa(pid) + "/status")
			if err != nil {
				continue // it has ended meanwhile
			}
			for l := range strings.Lines(string(b)) {
				if list, ok := strings.CutPrefix(l, "Cpus_allowed_list:"); ok {
					addList(in, list)
				}
			}
		}
	}
	if len(in) >= int(m.cores) {
		return 0
	}
	return len(in)
}

// addList adds a list of processors, such as 0,2-3, to a set.
func addList(set map[int]bool, list string) {
	const most = 1 << 16
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to > most {
			continue
		}
		for i := from; i <= to; i++ {
			set[i] = true
		}
	}
}

// device returns the device and file system of a folder's mount point.
func device(mounts, dir string) string {
	best, out := -1, ""
	for l := range strings.Lines(mounts) {
		f := strings.Fields(l)
		if len(f) < 3 {
			continue
		}
		at := strings.TrimSuffix(f[1], "/")
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) > best {
			best, out = len(at), f[0]+" "+f[2]
		}
	}
	return out
}
