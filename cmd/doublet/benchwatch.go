package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"doublet/bench/drive"
	"doublet/bench/meter"
	"doublet/bench/record"
	benchrun "doublet/bench/run"
	"doublet/bench/workload"
	"doublet/cmd/doublet/config"
	"doublet/env"

	"github.com/spf13/cobra"
)

const groupForm = "NAME=pid:N, NAME=pidfile:PATH, NAME=cgroup:PATH or NAME=COMMAND,COMMAND"

// watch measures the server, the driver itself, and response times from outside, during a run.
type watch struct {
	world  *drive.World
	source func(now time.Time) ([]meter.Reading, error) // reads the meter of the server's machine, nil for none
	host   *record.Host
	own    []ownStatistics           // the servers' own statistics
	self   func() map[string]float64 // the figures of this process, nil if unknown
	cores  int
}

// watch selects the source of the figures: a monitor elsewhere, the named groups, or the Doublet of the data folder.
func (a *app) watch(o *benchOptions, world *drive.World) (*watch, error) {
	w := &watch{world: world}
	if o.fleet != nil {
		return w, o.fleet.watch(w)
	}
	if ask := a.statistics(o, world.Env); ask != nil {
		w.own = []ownStatistics{{ask: ask}}
	}
	w.self, w.cores = driverMeter(world.Env)
	if o.monitorAt != "" {
		return w, w.remote(o.monitorAt)
	}
	groups, err := meterGroups(o.groups)
	if err != nil {
		return nil, err
	}
	dir := ""
	if len(groups) == 0 {
		cfg, _, err := a.load(config.Default(), nil)
		if err != nil {
			return nil, err
		}
		dir = cfg.Data.Dir
		pid := filepath.Join(dir, pidFile)
		if _, err := os.Stat(pid); err != nil {
			return w, nil //nolint:nilerr // no server of ours here: nothing is metered
		}
		groups = []meter.Group{{Name: "doublet", PIDFile: pid}}
	}
	m, err := meter.New(groups)
	if errors.Is(err, meter.ErrUnsupported) {
		fmt.Fprintln(a.err, err)
		return w, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	host := meter.Host(dir)
	w.source, w.host = m.Sample, &host
	return w, err
}

func meterGroups(list []string) ([]meter.Group, error) {
	var out []meter.Group
	for _, s := range list {
		g, err := meter.ParseGroup(s)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--monitor %w", err)}
		}
		out = append(out, g)
	}
	return out, nil
}

// monitored is the reply of a monitor.
type monitored struct {
	Host     record.Host     `json:"host"`
	Readings []meter.Reading `json:"readings"`
}

// remote reads from a monitor on another machine.
func (w *watch) remote(address string) error {
	client := &http.Client{Timeout: 10 * time.Second}
	ask := func() (m monitored, err error) {
		resp, err := client.Get("http://" + address + "/sample")
		if err != nil {
			return m, fmt.Errorf("monitor at %s: %w", address, err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 4<<20)).Decode(&m); err != nil {
			return m, fmt.Errorf("monitor at %s: %w", address, err)
		}
		return m, nil
	}
	first, err := ask()
	if err != nil {
		return err
	}
	w.host = &first.Host
	w.source = func(time.Time) ([]meter.Reading, error) {
		m, err := ask()
		return m.Readings, err
	}
	return nil
}

// prepare adds the known facts about the machines to the header and the plan.
func (w *watch) prepare(h *record.Header, plan *benchrun.Plan) {
	h.Server = w.host
	plan.Self, plan.Cores = w.self, w.cores
}

// driverMeter returns a function that samples this process, nil without /proc.
func driverMeter(e *env.Env) (self func() map[string]float64, cores int) {
	m, err := meter.New([]meter.Group{{Name: "driver", PIDs: []int{os.Getpid()}}})
	if err != nil {
		return nil, runtime.NumCPU()
	}
	return func() map[string]float64 {
		list, err := m.Sample(e.Clock.Now())
		if err != nil {
			return nil
		}
		for _, r := range list {
			if r.Group == "driver" {
				return r.Values
			}
		}
		return nil
	}, m.Cores()
}

// begin samples into the run file until end is called.
func (w *watch) begin(plan *benchrun.Plan, out *record.Writer) (end func()) {
	e := w.world.Env
	started := e.Clock.Now()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	every := func(name string, d time.Duration, fn func(at record.Duration)) {
		all.Add(1)
		e.Go(name, func() {
			defer all.Done()
			for {
				select {
				case <-ctx.Done():
					return
				case <-e.Clock.After(d):
					fn(record.Duration(e.Clock.Now().Sub(started)))
				}
			}
		})
	}
	if w.source != nil {
		_, _ = w.source(started) // the base of the first rates
		told := false
		every("bench meter", plan.Interval, func(at record.Duration) {
			list, err := w.source(e.Clock.Now())
			if err != nil && !told {
				told = true
				out.Event(record.Event{At: at, Text: "the server's machine is not metered: " + err.Error()})
			}
			for _, r := range list {
				out.Sample(record.Sample{At: at, Host: "server", Group: r.Group, Values: r.Values})
			}
		})
	}
	w.statistics(ctx, plan, out, every)
	w.probe(ctx, plan, out, every)
	return func() { stop(); all.Wait() }
}

// probe times one fixed small operation once a second, independent of the load: it opens the INBOX of the last
// registered person and lists its last page.
func (w *watch) probe(ctx context.Context, plan *benchrun.Plan, out *record.Writer,
	every func(string, time.Duration, func(record.Duration))) {
	if !slices.Contains([]string{workload.IMAP, workload.JMAP, workload.WebFull, workload.WebLite}, plan.Protocol) {
		return
	}
	var mu sync.Mutex
	var latency record.Histogram
	failed := 0.0
	var session drive.Session
	operation := workload.Planned{Action: &workload.Action{Do: workload.Open}}
	e := w.world.Env
	every("bench probe", time.Second, func(record.Duration) {
		begun := e.Clock.Now()
		var err error
		if session == nil {
			if session, _, err = plan.Open(ctx, &plan.Users[len(plan.Users)-1]); err != nil {
				session = nil
			}
			begun = e.Clock.Now()
		}
		if err == nil {
			_, err = session.Do(ctx, &operation)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed++
			if session != nil {
				_ = session.Close()
				session = nil
			}
			return
		}
		latency.Add(e.Clock.Now().Sub(begun))
	})
	every("bench probe record", plan.Interval, func(at record.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if latency.Count() > 0 || failed > 0 {
			out.Sample(record.Sample{At: at, Host: "probe", Values: map[string]float64{
				"p50": latency.Percentile(50).Seconds(), "max": latency.Max().Seconds(),
				"average": latency.Mean().Seconds(), "failed": failed,
			}})
		}
		latency.Reset()
		failed = 0
	})
}

func (a *app) benchMonitor() *cobra.Command {
	var listen string
	var groups []string
	cmd := &cobra.Command{
		Use: "monitor", Short: "sample this machine for a benchmark that is driven from another one",
		Args: cobra.NoArgs,
		Long: "Answer a doublet bench run --monitor-at HOST:PORT with what this machine and the processes named are " +
			"doing. Anybody who\nreaches the port can read it; it changes nothing. It ends with Ctrl-C.",
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7333", "where to listen, host:port")
	cmd.Flags().StringArrayVar(&groups, "monitor", nil, "processes that are the server: "+groupForm)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := meterGroups(groups)
		if err != nil {
			return err
		}
		m, err := meter.New(list)
		if err != nil {
			return err
		}
		return serveMonitor(cmd.Context(), benchEnv(a.err), listen, m,
			func(l net.Listener) { fmt.Fprintln(a.out, "monitor listens at", l.Addr()) })
	}
	return cmd
}

// serveMonitor answers GET /sample. Rates count from the request before, so only one run may use a monitor at a time.
func serveMonitor(ctx context.Context, e *env.Env, listen string, m *meter.Meter, ready func(net.Listener)) error {
	l, err := e.Listen("tcp", listen)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sample", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		list, err := m.Sample(e.Clock.Now())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(monitored{meter.Host(""), list})
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	e.Go("bench monitor", func() {
		<-ctx.Done()
		_ = srv.Close()
	})
	ready(l)
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
