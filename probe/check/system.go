package check

import (
	"fmt"
	"time"

	"doublet/probe"
)

// CPU reports a processor that this server keeps busy. The reading is the share of all processors since the last
// reading, in percent.
var CPU = probe.Check[float64]{
	Kind: probe.Kind{Type: probe.System, Name: "CPU",
		What: "share of all processors that the server uses, over a minute",
		Cause: "More work than the machine can do: many users, a storm of mail, a rebuild of the full-text index, a " +
			"compaction.",
		Remedy: "Look at `show stat Server.CPU` for the task. Lower search.share, move databases to other servers, " +
			"or add processors.",
		Every: time.Minute, Hold: 15 * time.Minute, Clear: 10 * time.Minute,
		Limits: []probe.Limit{low(90, probe.Percent), high(98, probe.Percent)}},
	Find: func(v float64, l probe.Limits) []probe.Finding {
		s, bad := l.Above(v)
		return one(s, bad, "", fmt.Sprintf("the server uses %.0f %% of all processors", v))
	},
}

// MemoryUse is the memory that the process uses, and the limit that it keeps to; both in bytes.
type MemoryUse struct{ Used, Limit uint64 }

// Memory reports memory near its limit.
var Memory = probe.Check[MemoryUse]{
	Kind: probe.Kind{Type: probe.System, Name: "Memory",
		What:   "memory of the process, of the limit that it keeps to (server.memory)",
		Cause:  "More connections and messages in flight than the limit allows for.",
		Remedy: "Raise server.memory, or lower limits.connections, limits.message_memory and the caches.",
		Every:  time.Minute, Hold: 10 * time.Minute, Clear: 10 * time.Minute,
		Limits: []probe.Limit{low(95, probe.Percent), high(100, probe.Percent)}},
	Find: func(m MemoryUse, l probe.Limits) []probe.Finding {
		s, bad := l.Above(percent(float64(m.Used), float64(m.Limit)))
		return one(s, bad, "", bytes(m.Used)+" of "+bytes(m.Limit)+" of memory are in use")
	},
}

// Disk is a device. Stopped means that the store takes nothing new, since free space is below store.space_floor.
type Disk struct {
	Folder      string
	Free, Total uint64 // bytes
	Stopped     bool
}

// DiskSpace reports devices that become full.
var DiskSpace = probe.Check[[]Disk]{
	Kind: probe.Kind{Type: probe.System, Name: "DiskSpace",
		What: "free space on the devices of the store and of backups; fatal when the store takes nothing new " +
			"(store.space_floor)",
		Cause: "The device is nearly full.",
		Remedy: "Make room: prune backups, compact, remove old logs; or grow the device. The store takes mail again " +
			"by itself.",
		Every: 15 * time.Second, Clear: time.Minute,
		Limits: []probe.Limit{low(10, probe.Percent), high(7, probe.Percent)}},
	Find: func(list []Disk, l probe.Limits) (out []probe.Finding) {
		for _, d := range list {
			free := percent(float64(d.Free), float64(d.Total))
			text := fmt.Sprintf("%s free (%.1f %%) of %s on the device of "+
				"%s", bytes(d.Free), free, bytes(d.Total), d.Folder)
			if s, bad := l.Below(free); d.Stopped {
				out = append(out, one(probe.Fatal, true, d.Folder, text+": the store takes nothing new")...)
			} else if d.Total > 0 {
				out = append(out, one(s, bad, d.Folder, text)...)
			}
		}
		return out
	},
}

// DiskLatency reports a disk that flushes slowly. The reading is the median time of the last flushes.
var DiskLatency = probe.Check[time.Duration]{
	Kind: probe.Kind{Type: probe.System, Name: "DiskLatency",
		What: "median time that the last 64 changes waited for the disk (flush of the transaction log)",
		Cause: "The device is slow or failing, or something else writes to it: a backup, a compaction, another " +
			"program.",
		Remedy: "Look at `iostat -x`. Put the log on a device of its own (data.wal_dir), lower data.backup_rate.",
		Every:  15 * time.Second, Hold: 2 * time.Minute, Clear: 5 * time.Minute,
		Limits: []probe.Limit{low(0.5, probe.Time), high(2, probe.Time), failure(10, probe.Time)}},
	Find: func(d time.Duration, l probe.Limits) []probe.Finding {
		s, bad := l.Older(d)
		return one(s, bad, "transaction log", "a change waits "+age(d)+" for the disk")
	},
}

// Files is the number of open files and sockets, and the most that the system allows.
type Files struct{ Open, Limit uint64 }

// Descriptors reports file descriptors that run out.
var Descriptors = probe.Check[Files]{
	Kind: probe.Kind{Type: probe.System, Name: "Descriptors",
		What:   "open files and sockets of the process, of the most that the system allows (Linux)",
		Cause:  "More connections than LimitNOFILE allows for, or a leak.",
		Remedy: "Raise LimitNOFILE in the unit, or lower limits.connections.",
		Every:  5 * time.Minute, Hold: 5 * time.Minute, Clear: 10 * time.Minute,
		Limits: []probe.Limit{low(80, probe.Percent), high(90, probe.Percent), failure(98, probe.Percent)}},
	Find: func(f Files, l probe.Limits) []probe.Finding {
		s, bad := l.Above(percent(float64(f.Open), float64(f.Limit)))
		return one(s, bad, "", fmt.Sprintf("%d of %d file descriptors are open", f.Open, f.Limit))
	},
}
