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

// Describe sets the options of a run that follow from the lab: the name of the target, its partitions, and what stands
// in for guests.
func (l *Lab) Describe(o *measure.Options) {
	o.Target, o.Partitions = l.Target(), l.Partitions()
	if o.Quota = l.Servers[0].Quota; o.Quota > 0 {
		o.Guests = len(l.Servers)
	}
}

// Series sets configurations up, one after the other, and runs a workload in each.
type Series struct {
	*Builder
	Options Options
	// Script sets up a server of another make in place of a configuration, nil for none. Foreign returns the site of
	// that server, and sets the options of the run, by what the script prints.
	Script  *Script
	Foreign func(o *measure.Options, printed []Setting) (measure.Site, error)
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

// Run returns the results of the named configurations, or that of the script; none without a workload.
func (s *Series) Run(ctx context.Context, names []string) ([]*result.Result, error) {
	if s.Script != nil {
		if err := s.foreign(names); err != nil {
			return nil, err
		}
		r, err := s.runScript(ctx)
		if err != nil {
			return nil, err
		}
		return []*result.Result{r}, nil
	}
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

// Check refuses what a run of the named configuration would refuse, or that of the script, and begins nothing.
func (s *Series) Check(name string) error {
	var c Configuration
	var err error
	if s.Script != nil {
		var names []string
		if name != "" {
			names = []string{name}
		}
		err = s.foreign(names)
	} else if c, err = Named(name); err != nil {
		err = bench.Usage("%w", err)
	}
	if err != nil {
		return err
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

// foreign refuses what a script cannot do: configurations, and options of a Doublet.
func (s *Series) foreign(names []string) error {
	o := &s.Options
	switch {
	case len(names) > 0:
		return bench.Usage("--script sets up a server of another make: name no configuration beside it (%s)", names[0])
	case s.Workload == "" || s.Workload == "-":
		return bench.Usage("--script needs --run WORKLOAD: no document has one for it")
	case s.Users == "":
		return bench.Usage("--script needs --users: no document has a number for it")
	case len(o.Settings) > 0 || o.Program != "" || o.Acknowledge != "" || o.Replicators > 0 || o.SlowDisk != nil ||
		o.Cache != nil || len(o.Rules) > 0 || o.Quota != 0:
		return bench.Usage("--script: --setting, --rule, --program, --acknowledge, --replicators, --slow-disk, " +
			"--db-cache and --quota are of a Doublet")
	case len(s.Faults.Kill)+len(s.Faults.Restart) > 0:
		return bench.Usage("--script: --kill and --restart are of the servers of a configuration")
	}
	return nil
}

// runScript starts the server of the script and runs the workload there.
func (s *Series) runScript(ctx context.Context) (r *result.Result, err error) {
	steps, err := s.complete(Configuration{})
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(s.Options.Dir)
	if err != nil {
		return nil, err
	}
	s.Console.Note(false, "lab: starting %s", s.Script.Name)
	printed, err := s.Script.Start(ctx, dir, s.Options.People)
	if errors.Is(err, ErrNotEmpty) {
		return nil, bench.Usage("%w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Script.Stop(dir)) }()
	s.Measure.Registered = s.Options.People
	site, err := s.Foreign(&s.Measure, printed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Script.Name, err)
	}
	j, err := measure.New(s.Env, s.Console, &s.Measure, s.Workload)
	if err != nil {
		return nil, err
	}
	return j.Run(ctx, site, steps, nil)
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
	l.Describe(&s.Measure)
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
