package meter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// machineAt is a fake /proc.
type machineAt struct {
	t    *testing.T
	root string
}

func (m machineAt) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m machineAt) process(pid, parent int, command string, ticks, threads, pssKB, written int) {
	m.parent(pid, parent, command, ticks, threads, pssKB, written, 0, 0)
}

// parent writes a process that has waited for children: their page faults and ticks.
func (m machineAt) parent(pid, parent int, command string, ticks, threads, pssKB, written, faults, waited int) {
	m.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 90 %d 7 0 %d 0 %d 0 20 0 %d 0 0 0\n",
		pid, command, parent, faults, ticks, waited, threads))
	m.write(fmt.Sprintf("proc/%d/smaps_rollup", pid),
		fmt.Sprintf("0-1 ---p 0 00:00 0 [rollup]\nRss: %d kB\nPss: %d kB\nPrivate_Dirty: 1 kB\n", pssKB*2, pssKB))
	m.write(fmt.Sprintf("proc/%d/io", pid), fmt.Sprintf("read_bytes: 0\nwrite_bytes: %d\n", written))
	m.write(fmt.Sprintf("proc/%d/fd/0", pid), "")
}

func (m machineAt) counters(busy, idle, writes int) {
	m.write("proc/stat", fmt.Sprintf("cpu  %d 0 0 %d 50 0 0 0 0 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n", busy, idle))
	m.write("proc/vmstat", "pgmajfault 3\npswpin 0\npswpout 0\n")
	m.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
	m.write("proc/net/dev", "Inter-|\n face |bytes\n    lo: 500 0 0 0 0 0 0 0 500 0\n  eth0: 100 0 0 0 0 0 0 0 200 0\n")
	m.write("proc/diskstats",
		fmt.Sprintf(" 254 0 vda 10 0 80 5 %d 0 %d %d 0 500 700 0 0 0 0 %d 0\n 254 1 vda1 1 0 1 1 1 0 1 1 0 1 1\n",
			writes, writes*8, writes*2, writes/2))
	m.write("sys/block/vda/size", "1")
}

func find(t *testing.T, list []Reading, group string) map[string]float64 {
	t.Helper()
	for _, r := range list {
		if r.Group == group {
			return r.Values
		}
	}
	t.Fatalf("no reading of %q", group)
	return nil
}

func TestRates(t *testing.T) {
	t.Parallel()
	m := machineAt{t, t.TempDir()}
	m.counters(1000, 1000, 100)
	m.process(10, 1, "master", 100, 1, 10, 0)
	m.process(11, 10, "smtpd", 50, 1, 20, 1000)
	m.process(12, 11, "odd) name (x", 5, 3, 5, 0)
	m.process(20, 1, "other", 5000, 1, 999, 0)
	meter, err := at(m.root, []Group{{Name: "server", Commands: []string{"master"}}, {Name: "one", PIDs: []int{20}}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	if _, err := meter.Sample(now); err != nil {
		t.Fatal(err)
	}
	// In ten seconds half of two cores is busy; the smtpd ends after 1 s of CPU, and another one starts.
	m.counters(2000, 2000, 300)
	m.process(10, 1, "master", 300, 1, 10, 0)
	if err := os.RemoveAll(filepath.Join(m.root, "proc/11")); err != nil {
		t.Fatal(err)
	}
	m.process(13, 10, "smtpd", 100, 1, 20, 5000)
	m.process(12, 10, "odd) name (x", 5, 3, 5, 0)
	list, err := meter.Sample(now.Add(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		group, name string
		want        float64
	}{
		{"", "cpu", 1}, {"", "cpu_pct", 50}, {"", "mem_used", 600 << 10}, {"", "iowait_pct", 0},
		{"disk:vda", "writes", 20}, {"disk:vda", "write_bytes", 20 * 8 * 512}, {"disk:vda", "flushes", 10},
		{"disk:vda", "response_ms", 2}, {"disk:vda", "bytes_per_op", 4096},
		// 200 ticks of master and 100 of the new smtpd; the usage of the old one stays counted.
		{"server", "cpu", 0.3}, {"server", "processes", 3}, {"server", "threads", 5}, {"server", "pss", 35 << 10},
		{"server", "handles", 3},
		// The old smtpd had written 1,000 bytes, the new one 5,000.
		{"server", "write_bytes", 500},
		{"one", "cpu", 0}, {"one", "processes", 1},
	} {
		if got := find(t, list, c.group)[c.name]; got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s %s is %v, want %v", c.group, c.name, got, c.want)
		}
	}
	for _, r := range list {
		if r.Group == "disk:vda1" {
			t.Error("a partition counts as a disk")
		}
	}
}

// TestWaitedChildren checks that what a process used that has ended counts once, also when its parent has waited for
// it: the kernel then adds its ticks and bytes to those of the parent.
func TestWaitedChildren(t *testing.T) {
	t.Parallel()
	m := machineAt{t, t.TempDir()}
	m.counters(1000, 1000, 100)
	m.process(10, 1, "master", 100, 1, 10, 0)
	m.process(11, 10, "smtpd", 50, 1, 20, 1000)
	m.process(12, 11, "child", 20, 1, 20, 500)
	meter, err := at(m.root, []Group{{Name: "server", Commands: []string{"master"}}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	if _, err := meter.Sample(now); err != nil {
		t.Fatal(err)
	}
	// Both have done more and have ended. Another one came and went between the samples, with 30 ticks and 700 bytes.
	for _, pid := range []string{"11", "12"} {
		if err := os.RemoveAll(filepath.Join(m.root, "proc", pid)); err != nil {
			t.Fatal(err)
		}
	}
	m.parent(10, 1, "master", 100, 1, 10, 1500+200+700, 3*90, 70+10+30)
	list, err := meter.Sample(now.Add(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	v := find(t, list, "server")
	if v["write_bytes"] != 90 || v["cpu"] < 0.0399 || v["cpu"] > 0.0401 {
		t.Errorf("%v bytes a second and %v cores, want 90 and 0.04", v["write_bytes"], v["cpu"])
	}
}

func TestThisMachine(t *testing.T) {
	t.Parallel()
	meter, err := New([]Group{{Name: "me", PIDs: []int{os.Getpid()}}})
	if runtime.GOOS != "linux" {
		if !errors.Is(err, ErrUnsupported) {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := meter.Sample(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if v := find(t, list, "me"); v["rss"] < 1<<20 || v["threads"] < 1 || v["handles"] < 3 {
		t.Errorf("this process: %v", v)
	}
	if h := Host("/"); h.Memory == 0 || h.CPUs < 1 || h.Kernel == "" {
		t.Errorf("%+v", h)
	}
}

func TestParseGroup(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a=pid:5", "a=pidfile:/x", "a=cgroup:/sys/fs/cgroup/a", "a=dovecot,postfix"} {
		if g, err := ParseGroup(s); err != nil || g.Name != "a" {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "a", "a=", "=x", "a=pid:x", "a=pid:-1", "a=what:5"} {
		if _, err := ParseGroup(s); !errors.Is(err, ErrGroup) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestDevice(t *testing.T) {
	t.Parallel()
	mounts := "/dev/vda / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/vdb /srv/mail xfs rw 0 0\n"
	for dir, want := range map[string]string{"/srv/mail/data": "/dev/vdb xfs", "/srv/mailer": "/dev/vda ext4",
		"/run/x": "tmpfs tmpfs"} {
		if got := device(mounts, dir); got != want {
			t.Errorf("%s: %q", dir, got)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	m := machineAt{t, t.TempDir()}
	if _, ok := (&Meter{root: m.root}).limits(); ok {
		t.Error("limits of a machine that says nothing")
	}
	m.write("proc/self/limits",
		"Limit                     Soft Limit           Hard Limit           Units\n"+
			"Max open files            1024                 4096                 files\n")
	m.write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
	if b, ok := (&Meter{root: m.root}).limits(); !ok || b != (Bounds{Files: 1024, Ports: 28232}) {
		t.Errorf("%+v", b)
	}
}

// TestAllowed checks the number of processors that a server may use: those of all its processes together, on a machine
// with four, of which this process may use any number.
func TestAllowed(t *testing.T) {
	t.Parallel()
	m := machineAt{t, t.TempDir()}
	m.counters(1000, 1000, 100)
	m.write("proc/stat", "cpu  1 0 0 1 0 0 0 0 0 0\ncpu0 1 1\ncpu1 1 1\ncpu2 1 1\ncpu3 1 1\nintr 5\n")
	m.process(10, 1, "doublet", 1, 1, 1, 1)
	m.process(11, 10, "child", 1, 1, 1, 1)
	m.process(12, 1, "other", 1, 1, 1, 1)
	for _, c := range []struct {
		own, child string
		want       int
	}{{"0", "0", 1}, {"0", "2-3", 3}, {"0,2", "2", 2}, {"0-3", "0", 0}, {"nonsense", "0-", 0}, {"", "1", 1}} {
		m.write("proc/10/status", "Name:\tdoublet\nCpus_allowed_list:\t"+c.own+"\n")
		m.write("proc/11/status", "Name:\tchild\nCpus_allowed_list:\t"+c.child+"\n")
		m.write("proc/12/status", "Name:\tother\nCpus_allowed_list:\t0-3\n")
		x, err := at(m.root, []Group{{Name: "doublet", Commands: []string{"doublet"}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Allowed(); got != c.want || x.processors() != 4 {
			t.Errorf("%+v: %d of %d processors", c, got, x.processors())
		}
	}
}
