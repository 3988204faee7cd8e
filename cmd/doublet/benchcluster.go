package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doublet/cmd/doublet/lab"

	"github.com/spf13/cobra"
)

// clusterFigures are the flags of bench cluster.
type clusterFigures struct {
	dir                   string
	people, notes         int
	replicators           int
	rate, acknowledgeRate float64
	length                time.Duration
	json                  bool
}

func (a *app) benchCluster() *cobra.Command {
	var o clusterFigures
	cmd := &cobra.Command{
		Use: "cluster [FIGURE…]", Short: "measure what a cluster of two servers on this machine does",
		Args: cobra.ArbitraryArgs,
		Long: "Set config4 up (two active servers in a cluster; doublet bench lab), measure, and stop it. The " +
			"figures, all of them where none\n" +
			"is named:\n" +
			"  idle         memory and processor time of servers that nobody works at, in the cluster and alone " +
			"(config1)\n" +
			"  lag          from a delivery acknowledged at one server to the notice to a session at the other, the " +
			"home of the mail file\n" +
			"  acknowledge  what the acknowledgement cluster adds to a delivery\n" +
			"  takeover     from the SIGKILL of the home to the open INBOX at the other server\n" +
			"  catchup      a server that was killed comes back and has to get so many notes\n" +
			"Driver and servers share this machine: compare on one that has nothing else to do.",
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "folder of the labs, which is made (default: a temporary one, which is removed)")
	f.IntVar(&o.people, "people", 100, "people, half of them on each server")
	f.Float64Var(&o.rate, "rate", 1000, "deliveries a second of lag")
	f.Float64Var(&o.acknowledgeRate, "acknowledge-rate", 100, "deliveries a second of acknowledge")
	f.DurationVar(&o.length, "for", 20*time.Second, "how long each of idle, lag and acknowledge is measured")
	f.IntVar(&o.notes, "notes", 50_000, "notes of catchup")
	f.IntVar(&o.replicators, "replicators", 0,
		"Cluster Replicators of each server for each other one (default: that of cluster.replicators)")
	f.BoolVar(&o.json, "json", false, "print the figures as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, n := range args {
			if !slices.Contains(lab.FigureNames(), n) {
				return &exitError{exitUsage, fmt.Errorf("no figure %q: want one of %s", n,
					strings.Join(lab.FigureNames(), ", "))}
			}
		}
		if o.people < 2 || o.people > 10_000 || o.rate <= 0 || o.acknowledgeRate <= 0 || o.length < time.Second ||
			o.notes < 1 {
			return &exitError{exitUsage,
				errors.New("--people is 2 to 10,000, rates are above 0, --for is a second or more, --notes 1 or more")}
		}
		if len(args) == 0 {
			args = lab.FigureNames()
		}
		return a.clusterFigures(cmd.Context(), &o, args)
	}
	return cmd
}

func (a *app) clusterFigures(ctx context.Context, o *clusterFigures, names []string) (err error) {
	b, err := a.labBuilder()
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "doublet-lab"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	build := func(name string, people int) (*lab.Lab, error) {
		c, err := lab.Named(name)
		if err != nil {
			return nil, err
		}
		return b.Build(ctx, c, lab.Options{Dir: filepath.Join(dir, name), People: people, Replicators: o.replicators})
	}
	var out lab.Figures
	var aloneMB, aloneCPU float64
	if slices.Contains(names, "idle") {
		l, err := build("config1", o.people)
		if err != nil {
			return err
		}
		aloneMB, aloneCPU, err = l.Rest(ctx, b.Env, o.length)
		if err = errors.Join(err, l.Stop(b.Env)); err != nil {
			return err
		}
	}
	l, err := build("config4", o.people)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop(b.Env)) }()
	for _, name := range lab.FigureNames() {
		if !slices.Contains(names, name) {
			continue
		}
		a.noted(false, "%s", name)
		switch name {
		case "idle":
			i := lab.Idle{AloneMB: aloneMB, AloneCPU: aloneCPU}
			i.ClusterMB, i.ClusterCPU, err = l.Rest(ctx, b.Env, o.length)
			i.BusMB = i.ClusterMB - i.AloneMB
			out.Idle = &i
		case "lag":
			out.Lag, err = l.Lag(ctx, b.Env, o.rate, o.length)
		case "acknowledge":
			out.Acknowledge, err = l.Acknowledge(ctx, b.Env, o.acknowledgeRate, o.length)
		case "takeover":
			out.Takeover, err = l.Takeover(ctx, b.Env)
		case "catchup":
			out.Catchup, err = l.Catchup(ctx, b.Env, o.notes)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := l.Settle(ctx, b.Env, settleLimit); err != nil {
			return err
		}
	}
	a.noted(true, "measured")
	if o.json {
		return a.printJSON(out)
	}
	return a.tellFigures(&out)
}

func (a *app) tellFigures(f *lab.Figures) error {
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
	_, err := a.out.Write([]byte(b.String()))
	return err
}
