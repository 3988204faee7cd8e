package meter

import (
	"os"
	"runtime"
	"strings"

	"doublet/bench/record"
)

// Host returns the facts of this machine. dir is a folder on the disk under test, or "".
func Host(dir string) record.Host {
	m := Meter{root: "/"}
	h := record.Host{OS: runtime.GOOS, CPUs: runtime.NumCPU(), Memory: m.table("proc/meminfo")["MemTotal:"] << 10}
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
