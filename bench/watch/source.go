package watch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/bench"
	"doublet/bench/meter"
	"doublet/bench/record"
	"doublet/env"
)

// Options select the sources of the figures.
type Options struct {
	// Groups are processes on this machine that are the server, as [Groups] parses them.
	Groups []string
	// MonitorAt is the address of a monitor on the server's machine; "" for none.
	MonitorAt string
	// Metrics is the URL of the server's statistics in the Prometheus format; "" for none.
	Metrics string
}

// New returns the watch over processes on this machine that are the servers; dir is a folder on the disk that they
// write to. Without groups, no process is metered.
func New(e *env.Env, groups []meter.Group, dir string, own ...Statistics) (*Watch, error) {
	w := &Watch{env: e, own: own}
	w.driver, w.cores = Driver(e)
	if len(groups) == 0 {
		return w, nil
	}
	m, err := meter.New(groups)
	if err != nil {
		return w, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	host := meter.Host(dir)
	host.Allowed = m.Allowed()
	w.meter, w.host = m.Sample, &host
	return w, nil
}

// Remote returns the watch over a machine that a monitor at address samples.
func Remote(e *env.Env, address string, own ...Statistics) (*Watch, error) {
	w, err := New(e, nil, "", own...)
	if err != nil {
		return nil, err
	}
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
		return nil, err
	}
	w.host = &first.Host
	w.meter = func(time.Time) ([]meter.Reading, error) {
		m, err := ask()
		return m.Readings, err
	}
	return w, nil
}

// Groups parses groups of processes, as --monitor names them.
func Groups(list []string) ([]meter.Group, error) {
	var out []meter.Group
	for _, s := range list {
		g, err := meter.ParseGroup(s)
		if err != nil {
			return nil, bench.Usage("--monitor %w", err)
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

// Monitor answers GET /sample on a listener with samples of this machine, until ctx ends. Rates count from the request
// before, so only one run may use a monitor at a time.
func Monitor(ctx context.Context, e *env.Env, l net.Listener, m *meter.Meter) error {
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
		host := meter.Host("")
		host.Allowed = m.Allowed()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(monitored{host, list})
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	e.Go("bench monitor", func() {
		<-ctx.Done()
		_ = srv.Close()
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Scrape reads statistics in the text format of Prometheus from a URL.
func Scrape(ctx context.Context, url string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	out := make(map[string]float64)
	in := bufio.NewScanner(io.LimitReader(resp.Body, 8<<20))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if name, value, ok := metric(in.Text()); ok {
			out[name] = value
		}
	}
	return out, in.Err()
}

// metric parses a line with a finite number: name{label="value with spaces"} number [time].
func metric(line string) (name string, value float64, ok bool) {
	if strings.HasPrefix(line, "#") {
		return "", 0, false
	}
	end := strings.LastIndexByte(line, '}') + 1
	if end == 0 {
		end = max(strings.IndexByte(line, ' '), 0)
	}
	f := strings.Fields(line[end:])
	if end == 0 || len(f) == 0 {
		return "", 0, false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	return line[:end], v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}
