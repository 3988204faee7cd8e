package main

import (
	"errors"

	"doublet/plan/size"

	"github.com/spf13/cobra"
)

func (p planner) size() *cobra.Command {
	var o pointFlags
	var config2, config4 []string
	r := size.Default()
	cmd := &cobra.Command{
		Use: "size RUN…", Args: count(1, 1000),
		Short: "servers, memory, disk and network that a number of people needs",
		Long: `Fit what a server uses to the measured numbers of active users, at least three, and compute the servers
that people need: each figure has its interval and names its measurement. --html writes a page with sliders. Calibrate
on your own machine with one command:

  doublet bench run n8mail --users 100..400 --step 100 --repeat 3 --speed 20 --init-scale 2% --window 60s --out runs

` + pointsHelp,
		Example: "  doublet plan size runs/n8mail-*.run --people 5000 --replicas 2 --survive 1 --html size.html",
	}
	o.addPage(cmd)
	o.add(cmd)
	f := cmd.Flags()
	f.IntVar(&r.People, "people", r.People, "people with a mail file")
	f.Float64Var(&r.Active, "active", r.Active, "share of them active in 15 minutes (document 000: 0.35 to 0.40)")
	f.Float64Var(
		&r.Heavier,
		"heavier",
		r.Heavier,
		"how much heavier they work than the workload (document 001: 4 and more for its own)",
	)
	f.Float64Var(
		&r.Features,
		"features",
		r.Features,
		"factor of processor use for features that were off when it was measured",
	)
	f.Float64Var(&r.MailboxMB, "mailbox", r.MailboxMB, "MB of a mail file on disk")
	f.Float64Var(&r.PeopleGrowth, "people-growth", r.PeopleGrowth, "growth of people a year, 0.1 for 10 %")
	f.Float64Var(&r.MailboxGrowth, "mailbox-growth", r.MailboxGrowth, "growth of mail files a year")
	f.Float64Var(&r.Years, "years", r.Years, "years to plan for")
	f.IntVar(&r.Replicas, "replicas", r.Replicas, "servers that have each mail file")
	f.StringSliceVar(&config2, "config2", nil,
		"repeated runs of doublet bench lab config2: with --config4, the cost of a replica (default: document 004's)")
	f.StringSliceVar(&config4, "config4", nil, "repeated runs of doublet bench lab config4")
	f.IntVar(&r.Survive, "survive", r.Survive, "servers that may fail at the same time")
	f.Float64Var(&r.Target, "target", r.Target, "share of processors, disk and network to use at most")
	f.Float64Var(&r.P99, "p99", r.P99, "longest p99 in ms, 0 for any")
	f.Float64Var(&r.Processors, "processors", r.Processors, "processors of a server")
	f.Float64Var(&r.MemoryGB, "memory", r.MemoryGB, "memory of a server, GB")
	f.Float64Var(&r.DiskGB, "disk", r.DiskGB, "disk of a server, GB")
	f.Float64Var(&r.DiskMBs, "disk-speed", r.DiskMBs, "disk of a server, MB/s")
	f.Float64Var(&r.NetworkMbit, "network", r.NetworkMbit, "network of a server, Mbit/s")
	f.Float64Var(&r.PerPartition, "per-partition", r.PerPartition, "active users of a partition (document 001: 1000)")
	f.Float64Var(&r.Price, "price", 0, "price of a server")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		points, err := o.points(args)
		if err != nil {
			return err
		}
		c, err := size.Calibrate(points)
		if err != nil {
			return usage(err)
		}
		if err := o.replica(c, config2, config4); err != nil {
			return err
		}
		a, err := size.Plan(c, r)
		if err != nil {
			return usage(err)
		}
		return p.finish(o.html, a, o.asJSON, a)
	}
	return cmd
}

// replica sets the cost of a replica from own runs, if there are any.
func (o *pointFlags) replica(c *size.Calibration, config2, config4 []string) error {
	if len(config2) == 0 && len(config4) == 0 {
		return nil
	}
	if len(config2) == 0 || len(config4) == 0 {
		return usage(errors.New("--config2 and --config4 need each other: the cost of a replica is their quotient"))
	}
	routing, err := o.points(config2)
	if err != nil {
		return err
	}
	both, err := o.points(config4)
	if err != nil {
		return err
	}
	return usage(c.MeasureReplica(routing, both))
}
