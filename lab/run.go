package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"doublet/bench"
	"doublet/bench/fleet"
	"doublet/bench/measure"
	"doublet/bench/progress"
	"doublet/bench/result"
)

// Site returns the lab as the site of a run.
func (l *Lab) Site(o fleet.Options) (*fleet.Fleet, error) {
	s := fleet.Servers{
		Users: l.Users(), Clustered: l.Clustered, Abroad: l.Abroad, Dir: l.dir, Settle: l.Settle,
		Ready: func(ctx context.Context) error { return errors.Join(l.Settle(ctx), l.SlowDown(ctx)) },
	}
	for _, x := range l.Servers {
		s.List = append(s.List, fleet.Server{Name: x.Name, Doors: x.Doors, Process: x})
	}
	return fleet.New(l.env, s, o)
}

// Target returns the name of the lab as a measured server.
func (l *Lab) Target() string { return "doublet, " + l.Name }

// Partitions returns the number of its servers that are partitions of one machine, 0 if there are none. The servers of
// a cluster, and those whose people write to each other's only, stand for machines.
func (l *Lab) Partitions() int {
	if l.Clustered || l.Abroad || len(l.Servers) < 2 {
		return 0
	}
	return len(l.Servers)
}

// Series sets configurations up, one after the other, and runs a workload in each.
type Series struct {
	*Builder
	Options Options
	// Users are the active people, a number or a range with Step; "" means those of the document.
	Users string
	Step  int
	// Workload is the workload, "-" for the document's own. Without one, the lab stands until the context ends.
	Workload string
	Measure  measure.Options
	Faults   fleet.Options
	Console  progress.Console
	// Out receives the addresses of the servers of a lab that stands.
	Out io.Writer
}

// Run returns the results of the named configurations, none without a workload.
func (s *Series) Run(ctx context.Context, names []string) ([]*result.Result, error) {
	if len(names) == 0 {
		return nil, bench.Usage("name a configuration (list: doublet bench lab --list)")
	}
	if len(names) > 1 && s.Workload == "" {
		return nil, bench.Usage("several configurations need --run: they are run one after the other")
	}
	var all []Configuration
	for _, n := range names {
		c, err := Named(n)
		if err != nil {
			return nil, bench.Usage("%w", err)
		}
		all = append(all, c)
	}
	var runs []*result.Result
	for _, c := range all {
		one := *s
		if len(all) > 1 {
			one.Options.Dir = filepath.Join(s.Options.Dir, c.Name)
		}
		r, err := one.run(ctx, c)
		if err != nil || r == nil {
			return nil, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Check refuses what a run of the named configuration would refuse, and begins nothing.
func (s *Series) Check(name string) error {
	c, err := Named(name)
	if err != nil {
		return bench.Usage("%w", err)
	}
	one := *s
	if _, err = one.complete(c); err != nil {
		return err
	}
	if _, err = measure.New(s.Env, s.Console, &one.Measure, one.Workload); err != nil {
		return err
	}
	return s.check(&one.Options)
}

// complete fills in what a configuration knows, and returns the steps.
func (s *Series) complete(c Configuration) ([]int, error) {
	if s.Users == "" {
		s.Users = strconv.Itoa(c.Users)
	}
	if s.Workload == "-" {
		s.Workload = c.Workload
	}
	steps, err := measure.ParseSteps(s.Users, s.Step)
	if err != nil {
		return nil, err
	}
	if s.Options.People == 0 {
		s.Options.People = steps[len(steps)-1]
	}
	if s.Options.People < 1 || s.Options.People > 100_000 {
		return nil, bench.Usage("--people %d is not within 1 to 100,000", s.Options.People)
	}
	return steps, nil
}

// run sets up one configuration and runs the workload there. The result is nil without a workload.
func (s *Series) run(ctx context.Context, c Configuration) (r *result.Result, err error) {
	steps, err := s.complete(c)
	if err != nil {
		return nil, err
	}
	l, err := s.Build(ctx, c, s.Options)
	if errors.Is(err, ErrNotEmpty) {
		return nil, bench.Usage("%w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	if s.Workload == "" {
		return nil, s.hold(ctx, l)
	}
	site, err := l.Site(s.Faults)
	if err != nil {
		return nil, err
	}
	s.Measure.Target, s.Measure.Partitions = l.Target(), l.Partitions()
	j, err := measure.New(s.Env, s.Console, &s.Measure, s.Workload)
	if err != nil {
		return nil, err
	}
	return j.Run(ctx, site, steps, nil)
}

// hold shows the addresses of a lab and returns when the context ends.
func (s *Series) hold(ctx context.Context, l *Lab) error {
	if err := l.SlowDown(ctx); err != nil {
		return err
	}
	l.Show(s.Out)
	fmt.Fprintf(s.Out, "doublet bench run %s --lab %s --users %s --speed 20 --window 60s lets people work; "+
		"Ctrl-C stops the lab\n", l.config.Workload, s.Options.Dir, s.Users)
	<-ctx.Done()
	return nil
}
