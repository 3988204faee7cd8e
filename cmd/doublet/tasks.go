package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"doublet/admin"
	"doublet/replica/schedule"
	"doublet/task"
)

// openTasks starts the server tasks.
func (h *server) openTasks() error {
	s := h.system
	h.statistics()
	s.FindBackup()
	tasks := task.New(h.env, s.Stats)
	h.closes("tasks", tasks.Stop)
	h.running.Tasks = tasks.Status
	platform := h.platform()
	tasks.Start(task.Task{Name: "Router", Run: s.Mail.Router.Run})
	tasks.Start(task.Task{Name: "Outbox", Run: s.Mail.Scheduled.Run})
	tasks.Start(task.Task{Name: "Snooze", When: task.Every(15 * time.Second), AtStart: true,
		Run: s.Mailbox.NewWaker().Run})
	tasks.Start(task.Task{Name: "RnRMgr", When: task.Every(15 * time.Second), AtStart: true,
		Run: s.Scheduling.NewReserver().Run})
	tasks.Start(task.Task{Name: "Alarms", When: task.Every(15 * time.Second), AtStart: true,
		Run: s.Scheduling.NewAlarmer(s.Store).Run})
	tasks.Start(task.Task{Name: "Feeds", When: task.Every(15 * time.Second), AtStart: true, Run: s.Sources.Run})
	h.startReports(tasks)
	tasks.Start(task.Task{Name: "Update", When: task.Every(30 * time.Second), Run: admin.NewUpdater(s.Store).Run})
	tasks.Start(task.Task{Name: "Repair", When: task.Every(time.Minute), AtStart: true, Run: h.member.Repair})
	h.openSearch(tasks)
	h.running.Replicator = schedule.NewReplicator(s.Connections)
	tasks.Start(task.Task{Name: "Replica", Run: h.running.Replicator.Run})
	tasks.Start(task.Task{Name: "Collect", When: task.Daily(1, 30), Run: func(ctx context.Context) error {
		done, err := s.Collect(ctx)
		h.env.Log.Info("collected", "people", done.People, "databases", done.Databases, "objects", done.Objects,
			"rewritten", uint64(done.Rewritten))
		return err
	}})
	tasks.Start(task.Task{Name: "Sessions", When: task.Every(time.Hour), Run: func(ctx context.Context) error {
		_, err := s.Sessions.Sweep(ctx)
		return err
	}})
	tasks.Start(task.Task{Name: "Certificates", Run: func(ctx context.Context) error {
		select {
		case <-h.open: // an ACME authority connects to the doors
		case <-ctx.Done():
			return nil
		}
		return h.certs.Run(ctx)
	}})
	tasks.Start(task.Task{Name: "Memory", When: task.Every(15 * time.Second), Run: new(returner).Run})
	tasks.Start(task.Task{Name: "Stats", When: task.Every(15 * time.Second), AtStart: true, Run: platform})
	return nil
}

// statistics adds the figures of the server as a whole to the tree.
func (h *server) statistics() {
	s := h.system
	s.Stats.Text("Server.Name", "the server's name", func() string { return s.Name })
	s.Stats.Text("Server.Version.Doublet", "the program's version", func() string { return s.Version })
	s.Stats.Text("Server.Time.Start", "when the server started",
		func() string { return s.Started.UTC().Format(time.RFC3339) })
	s.Stats.Text("Server.ElapsedTime", "how long the server has been running", func() string {
		return h.env.Clock.Now().Sub(s.Started).Round(time.Second).String()
	})
	s.Stats.GaugeFunc("Server.ElapsedSeconds", "how long the server has been running, seconds", func() float64 {
		return h.env.Clock.Now().Sub(s.Started).Seconds()
	})
	s.Stats.Active("Server.Users", "users")
	s.Stats.Rate("Server.Trans", "transactions")
}

// heapBytes returns the bytes of live and not yet swept objects. Unlike runtime.ReadMemStats it does not stop the
// program.
func heapBytes() float64 { return float64(readMetric("/memory/classes/heap/objects:bytes")) }

// platform returns the run of the task Stats. It updates the figures that are too expensive to compute on each request.
func (h *server) platform() func(context.Context) error {
	t := h.system.Stats
	sys := t.Gauge("Platform.Memory.FromSystem.Bytes", "bytes of memory taken from the system")
	gc := t.Gauge("Platform.Memory.Collections", "garbage collections so far")
	free := t.Gauge("Platform.LogicalDisk.Free.Bytes", "bytes free on the device of the data folder")
	t.GaugeFunc("Platform.Memory.Heap.Bytes", "bytes of live and not yet swept objects", heapBytes)
	t.GaugeFunc("Platform.Memory.Limit.Bytes", "bytes that the runtime keeps its memory below",
		func() float64 { return float64(debug.SetMemoryLimit(-1)) })
	t.GaugeFunc("Platform.Process.Goroutines", "goroutines", func() float64 { return float64(runtime.NumGoroutine()) })
	t.Text("Platform.System", "operating system and processors", func() string {
		return runtime.GOOS + "/" + runtime.GOARCH + ", " + strconv.Itoa(runtime.NumCPU()) + " processors"
	})
	return func(context.Context) error {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		sys.Set(int64(m.Sys))
		gc.Set(int64(m.NumGC))
		disk, err := h.env.FS.GetDiskUsage(h.cfg.Data.Dir)
		if err == nil {
			free.Set(int64(disk.AvailBytes))
		}
		return err
	}
}
