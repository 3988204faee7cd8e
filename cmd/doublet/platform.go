package main

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"doublet/bench/meter"
	"doublet/env"
	"doublet/stat"
	"doublet/store"
)

// platform is the task Stats: Domino's platform statistics. It updates the figures that are too expensive to compute on
// each request. Those of the machine are read as the benchmark reads them, so that both show the same.
type platform struct {
	env   *env.Env
	tree  *stat.Tree
	meter *meter.Meter // nil on a machine without /proc
	// folders are those of the store, by the name of their statistics.
	folders []struct{ name, path string }

	allocated, collections *stat.Gauge

	mu     sync.Mutex
	values map[string]float64 // by the statistic's name
	disks  map[string]string  // the prefix of a disk's statistics, by device
}

// maxDisks is the maximum number of devices with statistics of their own.
const maxDisks = 64

// machineFigures are the figures of the machine: the statistic, its explanation, the values of the meter that are added
// up, and the factor of its unit.
var machineFigures = []struct {
	name, help string
	values     []string
	factor     float64
}{
	{"Platform.System.PctCombinedCpuUtil", "share of all processors of the machine in use, percent",
		[]string{"cpu_pct"}, 1},
	{"Platform.Memory.RAM.TotalMBytes", "memory of the machine, MB", []string{"mem_used", "mem_available"},
		1.0 / (1 << 20)},
	{"Platform.Memory.RAM.AvailMBytes", "memory of the machine that programs may still take, MB",
		[]string{"mem_available"}, 1.0 / (1 << 20)},
	{"Platform.Memory.PagesPerSec", "pages a second between memory and swap space", []string{"swap_in", "swap_out"}, 1},
	{"Platform.Network.Total.BytesRecvdPerSec", "bytes a second that the machine receives, without loopback",
		[]string{"net_in"}, 1},
	{"Platform.Network.Total.BytesSentPerSec", "bytes a second that the machine sends, without loopback",
		[]string{"net_out"}, 1},
	{"Platform.Network.Total.NetworkBytesPerSec", "bytes a second that the machine receives and sends",
		[]string{"net_in", "net_out"}, 1},
	{"Mem.Free", "bytes of the machine's memory that programs may still take", []string{"mem_available"}, 1},
}

// diskFigures are the figures of one disk: the last word of the statistic, its explanation, and the meter's value.
var diskFigures = []struct{ name, help, value string }{
	{"PctUtil", "share of the time in which the disk is busy, percent", "busy_pct"},
	{"AvgQueueLen", "operations that wait or are worked on, on average", "queue"},
	{"AvgMsPerTransfer", "time of one operation, milliseconds", "response_ms"},
	{"ReadsPerSec", "reads a second", "reads"},
	{"WritesPerSec", "writes a second", "writes"},
	{"BytesReadPerSec", "bytes read a second", "read_bytes"},
	{"BytesWrittenPerSec", "bytes written a second", "write_bytes"},
}

// newPlatform registers the statistics of the platform. Rates are 0 until the task has run twice.
func newPlatform(h *server) *platform {
	m, err := meter.New(nil)
	if err != nil {
		h.env.Log.Info("no statistics of the machine", "reason", err)
	}
	p := platformOf(h.env, h.system.Stats, m)
	p.watch(h.system.Store.Places())
	return p
}

// platformOf registers the statistics of the process and of the machine. m may be nil.
func platformOf(e *env.Env, t *stat.Tree, m *meter.Meter) *platform {
	p := &platform{env: e, tree: t, meter: m, values: map[string]float64{}, disks: map[string]string{},
		allocated:   t.Gauge("Mem.Allocated", "bytes of memory that this process has taken from the system"),
		collections: t.Gauge("Platform.Memory.Collections", "garbage collections so far"),
	}
	t.GaugeFunc("Platform.Memory.Heap.Bytes", "bytes of live and not yet swept objects", heapBytes)
	t.GaugeFunc("Platform.Memory.Limit.Bytes", "bytes that the runtime keeps its memory below",
		func() float64 { return float64(debug.SetMemoryLimit(-1)) })
	t.GaugeFunc("Platform.Process.Goroutines", "goroutines", func() float64 { return float64(runtime.NumGoroutine()) })
	t.Text("Platform.System", "operating system and processors", func() string {
		return runtime.GOOS + "/" + runtime.GOARCH + ", " + strconv.Itoa(runtime.NumCPU()) + " processors"
	})
	if m == nil {
		return p
	}
	for _, f := range machineFigures {
		p.gauge(f.name, f.help)
	}
	t.GaugeFunc("Platform.LogicalDisk.TotalNumOfDisks", "disks with statistics", func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return float64(len(p.disks))
	})
	return p
}

// watch registers the space of the store's folders. Those on one device show the same figures.
func (p *platform) watch(at store.Places) {
	for _, f := range []struct{ name, path string }{
		{"Data", at.Data}, {"Log", at.Log}, {"Index", at.Index}, {"Segments", at.Segments},
	} {
		if f.path == "" {
			continue
		}
		p.folders = append(p.folders, f)
		p.gauge("Disk."+f.name+".Free", "bytes free on the device of this folder of the store")
		p.gauge("Disk."+f.name+".Size", "bytes of the device of this folder of the store")
	}
}

// gauge registers a statistic whose value is in p.values.
func (p *platform) gauge(name, help string) {
	p.tree.GaugeFunc(name, help, func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.values[name]
	})
}

func (p *platform) set(name string, value float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[name] = value
}

// run is one run of the task.
func (p *platform) run(context.Context) (err error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.allocated.Set(int64(m.Sys - m.HeapReleased))
	p.collections.Set(int64(m.NumGC))
	for _, f := range p.folders {
		u, bad := p.env.FS.GetDiskUsage(f.path)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		p.set("Disk."+f.name+".Free", float64(u.AvailBytes))
		p.set("Disk."+f.name+".Size", float64(u.TotalBytes))
	}
	if p.meter == nil {
		return err
	}
	list, bad := p.meter.Sample(p.env.Clock.Now())
	p.take(list)
	return errors.Join(err, bad)
}

// take updates the figures of the machine and of its disks.
func (p *platform) take(list []meter.Reading) {
	for _, r := range list {
		if device, ok := strings.CutPrefix(r.Group, "disk:"); ok {
			p.takeDisk(device, r.Values)
			continue
		}
		for _, f := range machineFigures {
			sum := 0.0
			for _, v := range f.values {
				sum += r.Values[v]
			}
			p.set(f.name, sum*f.factor)
		}
	}
}

// takeDisk updates the figures of one disk. A disk keeps the number under which it was seen first.
func (p *platform) takeDisk(device string, values map[string]float64) {
	p.mu.Lock()
	prefix, known := p.disks[device]
	if !known && len(p.disks) < maxDisks {
		prefix = "Platform.LogicalDisk." + strconv.Itoa(len(p.disks)+1) + "."
		p.disks[device] = prefix
	}
	p.mu.Unlock()
	if prefix == "" {
		return
	}
	if !known {
		p.tree.Text(prefix+"AssignedName", "device of the disk", func() string { return device })
	}
	for _, f := range diskFigures {
		if !known {
			p.gauge(prefix+f.name, f.help)
		}
		p.set(prefix+f.name, values[f.value])
	}
}

// heapBytes returns the bytes of live and not yet swept objects. Unlike runtime.ReadMemStats it does not stop the
// program.
func heapBytes() float64 { return float64(readMetric("/memory/classes/heap/objects:bytes")) }
