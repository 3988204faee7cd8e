package report

import (
	"slices"

	"doublet/bench/record"
)

// The statistics of work queues, with Domino's names.
const (
	queueDepth      = "Replica.Cluster.WorkQueueDepth"
	queueSeconds    = "Replica.Cluster.SecondsOnQueue.Avg"
	queueSecondsMax = "Replica.Cluster.SecondsOnQueue.Max"
)

// Server holds the figures of one of several servers in the measured part of a step.
type Server struct {
	Name string `json:"name"`
	// Metered is false if the server's processes were not sampled: Cores, Memory and Writes are unknown then, not 0.
	Metered bool    `json:"metered"`
	Cores   float64 `json:"cores,omitzero"`
	Memory  float64 `json:"pss_mb,omitzero"`
	Writes  float64 `json:"write_mb_s,omitzero"`
	// Queue and QueueMax are the average and maximum number of databases that waited for cluster replication. Seconds
	// and SecondsMax are the average and maximum waiting time since the server's start.
	Queue      float64 `json:"queue_depth"`
	QueueMax   float64 `json:"queue_depth_max"`
	Seconds    float64 `json:"seconds_on_queue"`
	SecondsMax float64 `json:"seconds_on_queue_max"`
}

// Servers returns the figures of each server in the measured part of a step, sorted by name; none for a single server.
func Servers(run *record.Run, s *record.Step) []Server {
	var out []Server
	for _, name := range run.Groups(record.Statistics) {
		x := Server{Name: name}
		cores, n := run.Mean(s, "server", name, "cpu")
		x.Cores, x.Metered = cores, n > 0
		x.Memory, _ = run.Mean(s, "server", name, "pss")
		x.Writes, _ = run.Mean(s, "server", name, "write_bytes")
		x.Memory, x.Writes = x.Memory/1e6, x.Writes/1e6
		x.Queue, x.QueueMax, _ = run.Along(s, record.Statistics, name, queueDepth)
		_, x.Seconds, _ = run.Along(s, record.Statistics, name, queueSeconds)
		_, x.SecondsMax, _ = run.Along(s, record.Statistics, name, queueSecondsMax)
		out = append(out, x)
	}
	return out
}

// StepServers holds the figures of the servers in a step.
type StepServers struct {
	Users int
	Rows  []Server
}

// Servers returns the figures of the servers by step, for the page.
func (r *Report) Servers() (out []StepServers) {
	for i := range r.Run.Steps {
		s := &r.Run.Steps[i]
		if rows := Servers(r.Run, s); len(rows) > 0 {
			out = append(out, StepServers{s.Users, rows})
		}
	}
	return out
}

// serversOverTime creates the figures of each of several servers: processor, writes, and work queue.
func (r *Report) serversOverTime(add func(title, y, note string, lines ...Line)) {
	names := r.Run.Groups(record.Statistics)
	if len(names) == 0 {
		return
	}
	cores := 1.0
	if h := r.Run.Header.Server; h != nil {
		cores = float64(max(1, h.CPUs))
	}
	along := func(host, value string, scale float64) []Line {
		lines := make([]Line, len(names))
		for i, n := range names {
			lines[i].Name, lines[i].Steps = n, host == record.Statistics
		}
		for k := range r.Run.Samples {
			x := &r.Run.Samples[k]
			v, has := x.Values[value]
			if i := slices.Index(names, x.Group); has && i >= 0 && x.Host == host {
				lines[i].Points = append(lines[i].Points, Point{X: x.At.Seconds(), Y: v * scale})
			}
		}
		// Unchanged values are not sampled, but the line continues to the end.
		end := 0.0
		if r.Run.End != nil {
			end = r.Run.End.At.Seconds()
		}
		for i := range lines {
			if n := len(lines[i].Points); host == record.Statistics && n > 0 && lines[i].Points[n-1].X < end {
				lines[i].Points = append(lines[i].Points, Point{X: end, Y: lines[i].Points[n-1].Y})
			}
			lines[i] = thin(lines[i])
		}
		return slices.DeleteFunc(lines, func(l Line) bool { return len(l.Points) < 2 })
	}
	draw := func(title, y, note string, lines []Line) {
		if len(lines) > 0 {
			add(title, y, note, lines...)
		}
	}
	draw("Processor of each server over time", "percent of the server's machine", "", along("server", "cpu", 100/cores))
	draw("Disk writes of each server over time", "MB a second", "", along("server", "write_bytes", 1e-6))
	draw("Work queue over time", "databases", "modified databases that wait for cluster replication, on each server",
		along(record.Statistics, queueDepth, 1))
}
