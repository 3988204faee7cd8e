// Package meter samples the activity of a machine under load: the machine itself, its disks, and groups of processes
// that together are one server. It reads /proc and /sys of Linux; on other systems New returns an error.
//
// The values of a sample are as follows; all rates are per second since the sample before:
//
//	machine   cpu (cores busy), cpu_pct, iowait_pct, mem_used, mem_available (bytes), faults (major), swap_in, swap_out
//	          (pages), net_in, net_out, loopback (bytes)
//	disk:DEV  reads, writes, read_bytes, write_bytes, flushes, response_ms (average of reads and writes), queue
//	          (average length), busy_pct, bytes_per_op
//	GROUP     cpu (cores), rss, pss, private, shared (bytes), handles, threads, processes, read_bytes, write_bytes,
//	          faults (major)
package meter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Group is a set of processes that together are one server: the matching ones and their descendants.
type Group struct {
	Name string
	// PIDs, PIDFile, Commands (names as ps shows them) and Cgroup (the folder of a control group) each add processes.
	PIDs     []int
	PIDFile  string
	Commands []string
	Cgroup   string
}

// ErrGroup means that a group is malformed.
var ErrGroup = errors.New("want a group NAME=pid:N, NAME=pidfile:PATH, NAME=cgroup:PATH or NAME=COMMAND,COMMAND…")

// ParseGroup parses a group from a flag.
func ParseGroup(s string) (Group, error) {
	name, what, ok := strings.Cut(s, "=")
	if !ok || name == "" || what == "" {
		return Group{}, fmt.Errorf("%q: %w", s, ErrGroup)
	}
	g := Group{Name: name}
	kind, value, typed := strings.Cut(what, ":")
	switch {
	case typed && kind == "pid":
		pid, err := strconv.Atoi(value)
		if err != nil || pid < 1 {
			return Group{}, fmt.Errorf("%q: %w", s, ErrGroup)
		}
		g.PIDs = []int{pid}
	case typed && kind == "pidfile":
		g.PIDFile = value
	case typed && kind == "cgroup":
		g.Cgroup = value
	case !typed:
		g.Commands = strings.Split(what, ",")
	default:
		return Group{}, fmt.Errorf("%q: %w", s, ErrGroup)
	}
	return g, nil
}

// Reading holds the values of one group at one moment.
type Reading struct {
	Group  string // "" for the machine, "disk:vda" for a device
	Values map[string]float64
}

// Meter samples a machine. It is not safe for concurrent use.
type Meter struct {
	root   string // the folder of /proc and /sys; tests have their own
	groups []Group
	last   *moment
	cores  float64
}

// moment holds the counters at one time.
type moment struct {
	at      time.Time
	machine machine
	disks   map[string]disk
	groups  map[string]usage
}

// ErrUnsupported means that the machine has no /proc.
var ErrUnsupported = errors.New("meter: this machine cannot be metered: it has no /proc")

// New returns a meter of this machine.
func New(groups []Group) (*Meter, error) { return at("/", groups) }

func at(root string, groups []Group) (*Meter, error) {
	m := &Meter{root: root, groups: groups}
	if _, err := m.read("proc/stat"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	m.cores = float64(m.processors())
	return m, nil
}

func (m *Meter) read(path string) ([]byte, error) { return os.ReadFile(filepath.Join(m.root, path)) }

// Sample reads all values. The first call returns no rates.
func (m *Meter) Sample(now time.Time) ([]Reading, error) {
	cur := &moment{at: now, groups: make(map[string]usage)}
	var err error
	if cur.machine, err = m.machine(); err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	if cur.disks, err = m.disks(); err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	var table map[int]process
	if len(m.groups) > 0 {
		table = m.processes()
	}
	for i := range m.groups {
		g := &m.groups[i]
		cur.groups[g.Name] = m.usage(table, g, m.last)
	}
	out := m.readings(cur)
	m.last = cur
	return out, nil
}

func (m *Meter) readings(cur *moment) []Reading {
	var seconds float64
	last := m.last
	if last != nil {
		seconds = cur.at.Sub(last.at).Seconds()
	}
	rate := func(now, before uint64) float64 {
		if seconds <= 0 || now < before {
			return 0
		}
		return float64(now-before) / seconds
	}
	if last == nil {
		last = cur
	}
	out := []Reading{{Values: cur.machine.values(&last.machine, m.cores, rate)}}
	for _, name := range sorted(cur.disks) {
		d := cur.disks[name]
		before, ok := last.disks[name]
		if !ok {
			before = d
		}
		out = append(out, Reading{Group: "disk:" + name, Values: d.values(&before, seconds, rate)})
	}
	for i := range m.groups {
		name := m.groups[i].Name
		u, before := cur.groups[name], last.groups[name]
		out = append(out, Reading{Group: name, Values: u.values(&before, rate)})
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// ticks is the number of units of CPU time a second in /proc: 100 on every Linux.
const ticks = 100

type machine struct {
	busy, iowait, all    uint64 // ticks
	majfault, pin, pout  uint64
	total, available     uint64 // bytes
	netIn, netOut, local uint64
}

func (m *Meter) machine() (c machine, err error) {
	b, err := m.read("proc/stat")
	if err != nil {
		return c, err
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := strings.Fields(string(line))
	for i, s := range f[min(1, len(f)):] {
		if i > 7 {
			break // user time includes guest time
		}
		n, _ := strconv.ParseUint(s, 10, 64)
		c.all += n
		switch i {
		case 3:
		case 4:
			c.iowait = n
		default:
			c.busy += n
		}
	}
	for name, n := range m.table("proc/vmstat") {
		switch name {
		case "pgmajfault":
			c.majfault = n
		case "pswpin":
			c.pin = n
		case "pswpout":
			c.pout = n
		}
	}
	mem := m.table("proc/meminfo")
	c.total, c.available = mem["MemTotal:"]<<10, mem["MemAvailable:"]<<10
	c.net(m)
	return c, nil
}

// table reads a file with lines of a name and a number.
func (m *Meter) table(path string) map[string]uint64 {
	b, _ := m.read(path)
	out := make(map[string]uint64)
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) >= 2 {
			out[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	return out
}

func (c *machine) net(m *Meter) {
	b, _ := m.read("proc/net/dev")
	for l := range strings.Lines(string(b)) {
		name, rest, ok := strings.Cut(l, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 9 {
			continue
		}
		in, _ := strconv.ParseUint(f[0], 10, 64)
		out, _ := strconv.ParseUint(f[8], 10, 64)
		if strings.TrimSpace(name) == "lo" {
			c.local += in
		} else {
			c.netIn, c.netOut = c.netIn+in, c.netOut+out
		}
	}
}

func (c *machine) values(last *machine, cores float64, rate func(now, before uint64) float64) map[string]float64 {
	busy := rate(c.busy, last.busy) / ticks
	return map[string]float64{
		"cpu": busy, "cpu_pct": busy / cores * 100, "iowait_pct": rate(c.iowait, last.iowait) / ticks / cores * 100,
		"mem_used": float64(c.total - min(c.total, c.available)), "mem_available": float64(c.available),
		"faults": rate(c.majfault, last.majfault), "swap_in": rate(c.pin, last.pin),
		"swap_out": rate(c.pout, last.pout),
		"net_in":   rate(c.netIn, last.netIn), "net_out": rate(c.netOut, last.netOut),
		"loopback": rate(c.local, last.local),
	}
}

// disk is a line of /proc/diskstats (Documentation/admin-guide/iostats.rst of the kernel).
type disk struct {
	reads, readSectors, readMS, writes, writeSectors, writeMS, busyMS, queueMS, flushes uint64
}

const sector = 512

func (m *Meter) disks() (map[string]disk, error) {
	b, err := m.read("proc/diskstats")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]disk)
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 14 || !m.whole(f[2]) {
			continue
		}
		n := func(i int) uint64 {
			if i >= len(f) {
				return 0
			}
			v, _ := strconv.ParseUint(f[i], 10, 64)
			return v
		}
		out[f[2]] = disk{n(3), n(5), n(6), n(7), n(9), n(10), n(12), n(13), n(18)}
	}
	return out, nil
}

// whole reports whether a device is a whole disk: no partition, loop or RAM disk.
func (m *Meter) whole(name string) bool {
	if strings.HasPrefix(name, "loop") || strings.HasPrefix(name, "ram") || strings.HasPrefix(name, "zram") {
		return false
	}
	_, err := os.Stat(filepath.Join(m.root, "sys/block", name))
	return err == nil
}

func (d *disk) values(last *disk, seconds float64, rate func(now, before uint64) float64) map[string]float64 {
	ops := rate(d.reads, last.reads) + rate(d.writes, last.writes)
	moved := (rate(d.readSectors, last.readSectors) + rate(d.writeSectors, last.writeSectors)) * sector
	v := map[string]float64{
		"reads": rate(d.reads, last.reads), "writes": rate(d.writes, last.writes),
		"flushes":     rate(d.flushes, last.flushes),
		"read_bytes":  rate(d.readSectors, last.readSectors) * sector,
		"write_bytes": rate(d.writeSectors, last.writeSectors) * sector,
		"busy_pct":    min(rate(d.busyMS, last.busyMS)/10, 100), "queue": rate(d.queueMS, last.queueMS) / 1000,
	}
	if ops > 0 {
		v["response_ms"] = (rate(d.readMS, last.readMS) + rate(d.writeMS, last.writeMS)) / ops
		v["bytes_per_op"] = moved / ops
	}
	return v
}
