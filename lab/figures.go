package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doublet/bench"
	"doublet/bench/meter"
)

// Figures are the measured figures of a cluster with two active servers; a figure that was not requested is nil. Times
// are in milliseconds unless the name has another unit.
type Figures struct {
	Idle        *Idle        `json:"idle,omitempty"`
	Lag         *Lag         `json:"lag,omitempty"`
	Acknowledge *Acknowledge `json:"acknowledge,omitempty"`
	Takeover    *Takeover    `json:"takeover,omitempty"`
	Catchup     *Catchup     `json:"catchup,omitempty"`
}

// Idle is the memory and processor time of idle servers: of one alone, and of each of two in a cluster.
type Idle struct {
	AloneMB    float64 `json:"alone_mb"`
	ClusterMB  float64 `json:"cluster_mb"`
	BusMB      float64 `json:"bus_mb"` // the difference: the cost of the cluster
	AloneCPU   float64 `json:"alone_cpu_percent"`
	ClusterCPU float64 `json:"cluster_cpu_percent"`
}

// Lag is the time between two moments: one server acknowledges a message, and a session at the other server, the home
// of the mail file, is notified of it.
type Lag struct {
	Rate       float64 `json:"deliveries_per_second"`
	Wanted     float64 `json:"wanted_per_second"`
	Deliveries int64   `json:"deliveries"`
	Unseen     int     `json:"unseen"`
	P50        float64 `json:"lag_p50"`
	P99        float64 `json:"lag_p99"`
	Max        float64 `json:"lag_max"`
	DeliverP50 float64 `json:"deliver_p50"`
	DeliverP99 float64 `json:"deliver_p99"`
	// Queue is the average time that databases waited in the server's work queue.
	Queue float64 `json:"queue_average"`
}

// Acknowledge compares the time of a delivery in the acknowledgement modes local and cluster.
type Acknowledge struct {
	LocalP50   float64 `json:"local_p50"`
	LocalP99   float64 `json:"local_p99"`
	ClusterP50 float64 `json:"cluster_p50"`
	ClusterP99 float64 `json:"cluster_p99"`
	AddsP50    float64 `json:"adds_p50"`
	// Degraded counts the deliveries that were acknowledged although no mate (other member of the cluster) had
	// confirmed them.
	Degraded float64 `json:"degraded"`
}

// Takeover is the time from the SIGKILL of a home until users have their INBOX open at the other server.
type Takeover struct {
	People int     `json:"people"`
	First  float64 `json:"first"`
	P50    float64 `json:"p50"`
	Max    float64 `json:"max"`
}

// Catchup is the time that a server needs to catch up after it was down.
type Catchup struct {
	Notes     int     `json:"notes"`
	Doors     float64 `json:"doors_open_after_s"`
	Whole     float64 `json:"whole_after_s"` // since the process started
	PerSecond float64 `json:"notes_per_second"`
}

// FigureNames returns the names of the figures in the order of measurement.
func FigureNames() []string { return []string{"idle", "lag", "acknowledge", "takeover", "catchup"} }

// FigureOptions control the measurement of figures.
type FigureOptions struct {
	// Dir is the folder of the labs; "" means a temporary one.
	Dir    string
	People int
	// Replicators is the number of Cluster Replicators for each mate; 0 is the default.
	Replicators int
	// Rate and AcknowledgeRate are the deliveries a second of lag and acknowledge.
	Rate, AcknowledgeRate float64
	// Length is the time for which idle, lag and acknowledge are measured, each. Notes is the number of notes of
	// catchup.
	Length time.Duration
	Notes  int
}

func (o *FigureOptions) check(names []string) error {
	for _, n := range names {
		if !slices.Contains(FigureNames(), n) {
			return bench.Usage("no figure %q: want one of %s", n, strings.Join(FigureNames(), ", "))
		}
	}
	if o.People < 2 || o.People > 10_000 || o.Rate <= 0 || o.AcknowledgeRate <= 0 || o.Length < time.Second ||
		o.Notes < 1 {
		return bench.Usage(
			"--people is 2 to 10,000, rates are above 0, --for is a second or more, --notes 1 or more")
	}
	return nil
}

// Figures measures the named figures, all where none is named. It sets the labs up, and stops them.
func (b *Builder) Figures(ctx context.Context, o FigureOptions, names []string) (out *Figures, err error) {
	if err := o.check(names); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = FigureNames()
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "doublet-lab"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	out = &Figures{}
	if slices.Contains(names, "idle") {
		out.Idle = &Idle{}
		if err := b.alone(ctx, &o, out.Idle); err != nil {
			return nil, err
		}
	}
	l, err := b.labFor(ctx, &o, "config4")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	for _, name := range FigureNames() {
		if !slices.Contains(names, name) {
			continue
		}
		b.Progress(false, "%s", name)
		if err := out.measure(ctx, newBystander(l), &o, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := l.Settle(ctx); err != nil {
			return nil, err
		}
	}
	b.Progress(true, "measured")
	return out, nil
}

// labFor sets up the lab of a configuration for figures.
func (b *Builder) labFor(ctx context.Context, o *FigureOptions, name string) (*Lab, error) {
	c, err := Named(name)
	if err != nil {
		return nil, err
	}
	return b.Build(ctx, c, Options{Dir: filepath.Join(o.Dir, name), People: o.People, Replicators: o.Replicators})
}

// alone measures an idle server in no cluster.
func (b *Builder) alone(ctx context.Context, o *FigureOptions, out *Idle) error {
	l, err := b.labFor(ctx, o, "config1")
	if err != nil {
		return err
	}
	out.AloneMB, out.AloneCPU, err = l.rest(ctx, o.Length)
	return errors.Join(err, l.Stop())
}

// measure measures one figure.
func (f *Figures) measure(ctx context.Context, b *bystander, o *FigureOptions, name string) (err error) {
	switch name {
	case "idle":
		f.Idle.ClusterMB, f.Idle.ClusterCPU, err = b.rest(ctx, o.Length)
		f.Idle.BusMB = f.Idle.ClusterMB - f.Idle.AloneMB
	case "lag":
		f.Lag, err = b.lag(ctx, o.Rate, o.Length)
	case "acknowledge":
		f.Acknowledge, err = b.acknowledge(ctx, o.AcknowledgeRate, o.Length)
	case "takeover":
		f.Takeover, err = b.takeover(ctx)
	case "catchup":
		f.Catchup, err = b.catchup(ctx, o.Notes)
	}
	return err
}

// rest restarts the servers, leaves them idle for length, and returns their average memory (PSS, MB) and processor time
// (percent of a core).
func (l *Lab) rest(ctx context.Context, length time.Duration) (memory, cpu float64, err error) {
	if err := l.Stop(); err != nil {
		return 0, 0, err
	}
	for _, s := range l.Servers {
		if err := s.Start(ctx); err != nil {
			return 0, 0, err
		}
	}
	if err := l.Settle(ctx); err != nil {
		return 0, 0, err
	}
	var groups []meter.Group
	for _, s := range l.Servers {
		groups = append(groups, meter.Group{Name: s.Name, PIDFile: s.PIDFile()})
	}
	m, err := meter.New(groups)
	if err == nil {
		_, err = m.Sample(l.env.Clock.Now())
	}
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-l.env.Clock.After(length):
	}
	list, err := m.Sample(l.env.Clock.Now())
	for _, r := range list {
		if slices.ContainsFunc(l.Servers, func(s *Server) bool { return s.Name == r.Group }) {
			memory += r.Values["pss"] / 1e6 / float64(len(l.Servers))
			cpu += r.Values["cpu"] * 100 / float64(len(l.Servers))
		}
	}
	return memory, cpu, err
}

// Text returns the figures as lines of text.
func (f *Figures) Text() string {
	var b strings.Builder
	if x := f.Idle; x != nil {
		fmt.Fprintf(&b, "idle         alone %.1f MB, %.2f %% of a core; in the cluster %.1f MB, %.2f %%: %.1f MB "+
			"more\n", x.AloneMB, x.AloneCPU, x.ClusterMB, x.ClusterCPU, x.BusMB)
	}
	if x := f.Lag; x != nil {
		fmt.Fprintf(&b, "lag          p50 %.1f ms, p99 %.1f ms, longest %.1f ms of %d deliveries (%.0f a second; %d "+
			"not seen); delivery p50 %.1f ms, p99 %.1f ms; on the work queue %.1f ms on average\n",
			x.P50, x.P99, x.Max, x.Deliveries, x.Rate, x.Unseen, x.DeliverP50, x.DeliverP99, x.Queue)
	}
	if x := f.Acknowledge; x != nil {
		fmt.Fprintf(&b, "acknowledge  local p50 %.1f ms, p99 %.1f ms; cluster p50 %.1f ms, p99 %.1f ms: adds %.1f "+
			"ms; %.0f without a mate\n", x.LocalP50, x.LocalP99, x.ClusterP50, x.ClusterP99, x.AddsP50, x.Degraded)
	}
	if x := f.Takeover; x != nil {
		fmt.Fprintf(&b, "takeover     of %d people: the first after %.0f ms, p50 %.0f ms, the last after %.0f ms\n",
			x.People, x.First, x.P50, x.Max)
	}
	if x := f.Catchup; x != nil {
		fmt.Fprintf(&b, "catchup      %d notes: doors open after %.1f s, whole after %.1f s, %.0f notes a second\n",
			x.Notes, x.Doors, x.Whole, x.PerSecond)
	}
	return b.String()
}
