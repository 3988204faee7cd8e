package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"doublet/bench/meter"
	"doublet/env"
	"doublet/plan/cluster"
	"doublet/stat"
	"doublet/store"
)

// TestPlatform checks that the readings of a machine become Domino's platform statistics: the numbers of disks stay,
// and the diagnosis of a cluster finds the saturated disk by them.
func TestPlatform(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	tree := stat.New(f.Clock)
	p := platformOf(f.Env, tree, new(meter.Meter))
	machine := meter.Reading{Values: map[string]float64{"cpu_pct": 61, "mem_used": 3 << 20, "mem_available": 5 << 20,
		"swap_in": 2, "swap_out": 3, "net_in": 100, "net_out": 20, "loopback": 7}}
	disk := func(name string, busy float64) meter.Reading {
		return meter.Reading{Group: "disk:" + name, Values: map[string]float64{"busy_pct": busy, "queue": 6.5,
			"response_ms": 108, "reads": 12, "writes": 34, "read_bytes": 56, "write_bytes": 78}}
	}
	p.take([]meter.Reading{machine, disk("sda", 100)})
	p.take([]meter.Reading{machine, disk("nvme0n1", 3), disk("sda", 99)}) // a disk that was added sorts first
	want := map[string]string{
		"Platform.System.PctCombinedCpuUtil": "61", "Platform.Memory.RAM.TotalMBytes": "8",
		"Platform.Memory.RAM.AvailMBytes": "5", "Platform.Memory.PagesPerSec": "5", "Mem.Free": "5242880",
		"Platform.Network.Total.BytesRecvdPerSec": "100", "Platform.Network.Total.BytesSentPerSec": "20",
		"Platform.Network.Total.NetworkBytesPerSec": "120", "Platform.LogicalDisk.TotalNumOfDisks": "2",
		"Platform.LogicalDisk.1.AssignedName": "sda", "Platform.LogicalDisk.1.PctUtil": "99",
		"Platform.LogicalDisk.2.AssignedName": "nvme0n1", "Platform.LogicalDisk.2.PctUtil": "3",
		"Platform.LogicalDisk.1.AvgQueueLen": "6.5", "Platform.LogicalDisk.1.AvgMsPerTransfer": "108",
		"Platform.LogicalDisk.1.ReadsPerSec": "12", "Platform.LogicalDisk.1.WritesPerSec": "34",
		"Platform.LogicalDisk.1.BytesReadPerSec": "56", "Platform.LogicalDisk.1.BytesWrittenPerSec": "78",
	}
	var text strings.Builder
	for _, e := range tree.Snapshot("") {
		fmt.Fprintln(&text, e)
		if v, listed := want[e.Name]; listed && v != e.ValueText() {
			t.Errorf("%s, want %s", e, v)
		}
		delete(want, e.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	s, err := cluster.ReadStatistics(strings.NewReader(text.String()), "mail1")
	if err != nil {
		t.Fatal(err)
	}
	if s.Values["Platform.LogicalDisk.1.PctUtil"] != 99 {
		t.Errorf("%v", s.Values)
	}
	for i := range maxDisks {
		p.take([]meter.Reading{disk(fmt.Sprint("sd", i), 1)})
	}
	if n := len(p.disks); n != maxDisks {
		t.Errorf("%d disks, at most %d", n, maxDisks)
	}
}

// TestPlatformFolders checks the space of the store's folders, and a run on a machine that cannot be metered.
func TestPlatformFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree := stat.New(quiet.Clock)
	p := platformOf(quiet, tree, nil)
	p.watch(store.Places{Data: dir, Log: dir})
	if err := p.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	v := map[string]float64{}
	for _, e := range tree.Snapshot("") {
		v[e.Name] = e.Value
	}
	if v["Disk.Data.Free"] <= 0 || v["Disk.Data.Size"] < v["Disk.Data.Free"] ||
		v["Disk.Log.Size"] != v["Disk.Data.Size"] {
		t.Errorf("%v", v)
	}
	if _, there := v["Disk.Index.Free"]; there || v["Mem.Allocated"] <= 0 {
		t.Errorf("%v", v)
	}
	if _, there := v["Mem.Free"]; there {
		t.Error("figures of a machine that is not metered")
	}
	p.watch(store.Places{Index: filepath.Join(dir, "gone")})
	if err := p.run(context.Background()); err == nil {
		t.Error("a folder that is gone has space")
	}
}
