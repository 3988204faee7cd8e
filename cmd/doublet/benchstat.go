package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/admin"
	"doublet/bench/record"
	benchrun "doublet/bench/run"
	"doublet/env"
	"doublet/stat"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// loopback reports whether an address is reachable from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, perr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || perr == nil && ip.IsLoopback())
}

// maxStatistics is the largest number of statistics that are read from a server.
const maxStatistics = 5000

// statistics returns a function that reads the server's own statistics: from the URL of --metrics, or from the admin
// socket of a Doublet. It returns nil if there is neither.
func (a *app) statistics(o *benchOptions, e *env.Env) func(context.Context) (map[string]float64, error) {
	if o.metrics != "" {
		return func(ctx context.Context) (map[string]float64, error) { return scrape(ctx, o.metrics) }
	}
	socket, err := a.socket(o)
	if err != nil || socket == "" {
		return nil
	}
	if _, err := admin.Dial(e, socket); err != nil {
		return nil // no Doublet of ours, or stopped
	}
	return statisticsAt(e, socket)
}

// statisticsAt returns a function that reads the statistics of a Doublet from its admin socket.
func statisticsAt(e *env.Env, socket string) func(context.Context) (map[string]float64, error) {
	return func(ctx context.Context) (map[string]float64, error) {
		c, err := admin.Dial(e, socket)
		if err != nil {
			return nil, err
		}
		raw, err := c.Call(ctx, "show stat", nil, nil)
		if err != nil {
			return nil, err
		}
		var list []stat.Entry
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		out := make(map[string]float64, len(list))
		for _, x := range list {
			if x.Text == "" && len(out) < maxStatistics {
				out[x.Name] = x.Value
			}
		}
		return out, nil
	}
}

// scrape reads statistics in the text format of Prometheus.
func scrape(ctx context.Context, url string) (map[string]float64, error) {
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
	for in.Scan() && len(out) < maxStatistics {
		// name{label="value with spaces"} number [time]
		line := in.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, '}') + 1
		if end == 0 {
			end = max(strings.IndexByte(line, ' '), 0)
		}
		f := strings.Fields(line[end:])
		if end == 0 || len(f) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(f[0], 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[line[:end]] = v
		}
	}
	return out, in.Err()
}

// ownHost is the host of samples that hold the server's own statistics.
const ownHost = "statistics"

// ownStatistics reads the statistics of one server; name is empty if there is only one server.
type ownStatistics struct {
	name string
	ask  func(context.Context) (map[string]float64, error)
}

// statistics samples the servers' own statistics: all of them first, then those that have changed.
func (w *watch) statistics(ctx context.Context, plan *benchrun.Plan, out *record.Writer,
	every func(string, time.Duration, func(record.Duration))) {
	for _, own := range w.own {
		last := map[string]float64{}
		told := false
		every("bench statistics", plan.Interval, func(at record.Duration) {
			now, err := own.ask(ctx)
			if err != nil {
				if !told && ctx.Err() == nil {
					told = true
					out.Event(record.Event{At: at, Text: strings.TrimSpace(own.name + " the server's own statistics: " +
						err.Error())})
				}
				return
			}
			told = false
			changed := make(map[string]float64)
			for name, v := range now {
				if before, ok := last[name]; (!ok || v != before) && !math.IsNaN(v) && !math.IsInf(v, 0) {
					changed[name] = v
					last[name] = v
				}
			}
			if len(changed) > 0 {
				out.Sample(record.Sample{At: at, Host: ownHost, Group: own.name, Values: changed})
			}
		})
	}
}
