package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/cmd/doublet/lab"

	"github.com/spf13/cobra"
)

// labOptions are the flags of bench lab.
type labOptions struct {
	lab.Options
	bench    benchOptions
	list     bool
	run      string
	slowDisk time.Duration
	cache    int
}

func (a *app) benchLab() *cobra.Command {
	var o labOptions
	var words strings.Builder
	for _, c := range lab.All() {
		fmt.Fprintf(&words, "\n%s: %s\n  %s\n", c.Name, c.Title, strings.ReplaceAll(c.Words, "\n", "\n  "))
	}
	cmd := &cobra.Command{
		Use: "lab NAME…", Short: "set up the configurations of document 004 as servers on this machine",
		Args: cobra.ArbitraryArgs,
		Long: "Set a configuration of document 004 up on this machine: real servers, each a process with its own " +
			"data folder and doors on\n" +
			"loopback, in a cluster where the document has one, and people whose mail files lie where it says. It " +
			"tells where the doors\n" +
			"are and holds until Ctrl-C; doublet bench run WORKLOAD --lab DIR lets people work there meanwhile. " +
			"With --run WORKLOAD it lets them\n" +
			"work itself (all flags of doublet bench run), stops the servers, and ends; several names are then run " +
			"one after the other, and\n" +
			"what a server takes is compared.\n" + words.String(),
	}
	o.bench.targetFlags(cmd)
	o.bench.runFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the configurations")
	f.StringVar(&o.Dir, "dir", "lab", "folder of the lab, which is made; several names have folders of theirs in it")
	f.IntVar(&o.People, "people", 0,
		"people that are made (default: as many as are active, else those of the document)")
	f.IntVar(&o.Replicators, "replicators", 0,
		"Cluster Replicators of each server for each other one (default: that of cluster.replicators)")
	f.DurationVar(&o.slowDisk, "slow-disk", 0,
		"how much longer a flush takes, of a server that has a slow disk (field: 100ms)")
	f.IntVar(&o.cache, "db-cache", 0,
		"databases that stay open in memory, of a server that has a small cache (field: 20)")
	f.StringVar(&o.Acknowledge, "acknowledge", "",
		"when a change of a mail file is acknowledged: local, cluster, cluster-strict")
	f.StringVar(&o.run, "run", "", "let people work: a workload, or - for the document's own")
	f.StringVar(&o.bench.users, "users", "", "people active: a number, or a range 200..1000 (default: the document's)")
	f.IntVar(&o.bench.step, "step", 0, "step of a range")
	f.StringArrayVar(&o.bench.failIf, "fail-if", nil, failIfHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.list {
			for _, c := range lab.All() {
				fmt.Fprintf(a.out, "%-14s %s\n", c.Name, c.Title)
			}
			return nil
		}
		if cmd.Flags().Changed("slow-disk") {
			o.SlowDisk = &o.slowDisk
		}
		if cmd.Flags().Changed("db-cache") {
			o.Cache = &o.cache
		}
		return a.lab(cmd.Context(), &o, args)
	}
	return cmd
}

func (a *app) lab(ctx context.Context, o *labOptions, names []string) error {
	if len(names) == 0 {
		return &exitError{exitUsage, errors.New("name a configuration (list: doublet bench lab --list)")}
	}
	if len(names) > 1 && o.run == "" {
		return &exitError{exitUsage, errors.New("several configurations need --run: they are run one after the other")}
	}
	var all []lab.Configuration
	for _, n := range names {
		c, err := lab.Named(n)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		all = append(all, c)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	var runs []*conclusion
	var broken error
	for _, c := range all {
		one := *o
		if len(all) > 1 {
			one.Dir = filepath.Join(o.Dir, c.Name)
		}
		r, err := a.labOne(ctx, &one, c)
		if err != nil || r == nil {
			return err
		}
		runs = append(runs, r)
		broken = errors.Join(broken, r.fails())
	}
	return errors.Join(a.showRuns(runs, o.bench.json), broken)
}

// labOne sets up one configuration and runs the workload there if there is one. The conclusion is nil without a
// workload.
func (a *app) labOne(ctx context.Context, o *labOptions, c lab.Configuration) (r *conclusion, err error) {
	if o.bench.users == "" {
		o.bench.users = strconv.Itoa(c.Users)
	}
	steps, err := parseSteps(o.bench.users, o.bench.step)
	if err != nil {
		return nil, err
	}
	if most := steps[len(steps)-1]; o.People == 0 {
		o.People = most
	}
	if o.People < 1 || o.People > 100_000 {
		return nil, &exitError{exitUsage, fmt.Errorf("--people %d is not within 1 to 100,000", o.People)}
	}
	b, err := a.labBuilder()
	if err != nil {
		return nil, err
	}
	l, err := b.Build(ctx, c, o.Options)
	if errors.Is(err, lab.ErrNotEmpty) {
		return nil, &exitError{exitUsage, err}
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Stop(b.Env)) }()
	if o.run == "" {
		if err := l.SlowDown(ctx, b.Env); err != nil {
			return nil, err
		}
		l.Show(a.out)
		fmt.Fprintf(a.out, "doublet bench run %s --lab %s --users %s --speed 20 --window 60s lets people work; "+
			"Ctrl-C stops the lab\n", c.Workload, o.Dir, o.bench.users)
		<-ctx.Done()
		return nil, nil
	}
	if o.run == "-" {
		o.run = c.Workload
	}
	if err := o.bench.enterLab(l, o.Dir); err != nil {
		return nil, err
	}
	return a.runBench(ctx, o.run, &o.bench, steps, nil)
}

// labBuilder returns a builder whose servers run this program.
func (a *app) labBuilder() (*lab.Builder, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	silent := *a
	silent.out, silent.err = io.Discard, io.Discard
	return &lab.Builder{
		Env: benchEnv(a.err), Program: program, Progress: a.noted,
		Make: func(ctx context.Context, cfg config.Config, first admin.UserAdd) error {
			_, err := (&newcomer{&silent, cfg}).makeStore(ctx, first)
			return err
		},
		Join: func(ctx context.Context, cfg config.Config, name, token string) error {
			return (&newcomer{&silent, cfg}).joinCluster(ctx, name, token, false)
		},
	}, nil
}

// labRuns holds the conclusions of several configurations, as --json prints them.
type labRuns struct {
	Runs []*conclusion `json:"runs"`
	// PerServer is the busiest server's processor time in the last step of each run, in seconds per 1,000 actions of
	// all users. Ratio is that value relative to the first run's, 0 if it was not measured.
	PerServer []float64 `json:"cpu_s_per_1000_of_busiest_server"`
	Ratio     []float64 `json:"ratio"`
}

func (a *app) showRuns(runs []*conclusion, asJSON bool) error {
	if len(runs) == 1 && asJSON {
		return a.printJSON(runs[0])
	}
	all := labRuns{Runs: runs}
	for _, r := range runs {
		most := 0.0
		if s := r.Steps; len(s) > 0 && s[len(s)-1].TPM > 0 {
			last := &s[len(s)-1]
			for _, v := range last.Servers {
				most = max(most, v.Cores/(last.TPM/60)*1000)
			}
		}
		all.PerServer = append(all.PerServer, most)
		ratio := 0.0
		if first := all.PerServer[0]; first > 0 {
			ratio = most / first
		}
		all.Ratio = append(all.Ratio, ratio)
	}
	if asJSON {
		return a.printJSON(all)
	}
	for i, r := range runs {
		if _, err := io.WriteString(a.out, r.text()); err != nil {
			return err
		}
		if i > 0 && all.Ratio[i] > 0 {
			fmt.Fprintf(a.out, "the busiest server: %.3f CPU-s for 1,000 actions, %.2f times that of the first\n",
				all.PerServer[i], all.Ratio[i])
		}
	}
	return nil
}
