package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"doublet/bench/agent"
	"doublet/bench/drive"
	benchlive "doublet/bench/live"
	"doublet/bench/meter"
	"doublet/bench/record"
	benchrun "doublet/bench/run"
	"doublet/bench/workload"
	"doublet/env"

	"github.com/spf13/cobra"
)

// benchJob is a run that is ready to start.
type benchJob struct {
	*benchOptions
	w        *workload.Workload
	text     []byte // of the workload's file
	set      map[string]int
	protocol string
	env      *env.Env
	users    []drive.User
	world    *drive.World
}

// job reads the workload and the users, and checks that the run is possible.
func (a *app) job(ctx context.Context, name string, o *benchOptions, most int) (*benchJob, error) {
	j := &benchJob{benchOptions: o, env: benchEnv(a.err)}
	var err error
	if j.w, err = loadWorkload(name); err != nil {
		return nil, err
	}
	if j.text, err = workloadText(name); err != nil {
		return nil, err
	}
	if j.set, err = parameters(j.w, o.set); err != nil {
		return nil, err
	}
	if o.speed <= 0 || o.speed > 10_000 || o.window < time.Second || o.loginRate <= 0 {
		return nil, &exitError{exitUsage,
			errors.New("--speed must be above 0 and at most 10,000, --window a second or more, --login-rate above 0")}
	}
	j.protocol = j.w.Protocol
	if o.over != "" {
		j.protocol = o.over
		if full, ok := spoken[o.over]; ok {
			j.protocol = full
		}
	}
	if len(j.w.Left(j.protocol)) == len(j.w.PerHour(j.set)) {
		return nil, &exitError{exitUsage, fmt.Errorf("%s cannot run over %s (see doublet bench show %s)", j.w.Name,
			j.protocol, j.w.Name)}
	}
	if err := room(o, most*drive.Connections(j.protocol)); err != nil {
		return nil, err
	}
	if o.fleet != nil {
		j.users, err = o.fleet.enter(j, most)
		return j, err
	}
	if len(o.kill)+len(o.restart) > 0 || o.ledger {
		return nil, &exitError{exitUsage,
			errors.New("--kill, --restart and --ledger are about the servers of a lab: give --lab DIR")}
	}
	if err := a.findDoors(ctx, j.env, o); err != nil {
		return nil, err
	}
	if j.users, err = o.people(max(most, o.registered)); err != nil {
		return nil, err
	}
	j.world = o.world(j.env, j.w, j.users)
	return j, nil
}

// spoken maps short names of protocols on the command line to their full names.
var spoken = map[string]string{"web": workload.WebFull, "lite": workload.WebLite}

// room checks, before any connection is made, that this machine can hold the connections of the users.
func room(o *benchOptions, connections int) error {
	l, ok := meter.Limits()
	if !ok {
		return nil
	}
	here := connections
	if len(o.agents) > 0 {
		here = 0 // the agents hold the connections and check their own limits
	}
	// A user sometimes opens one more connection, to send.
	const spare = 200
	if need := here + here/10 + spare; l.Files > 0 && need > l.Files {
		return &exitError{exitUsage,
			fmt.Errorf("%d connections need about %d open files, the limit is %d: raise it (ulimit -n %d) or add "+
				"agents", here, need, l.Files, need)}
	}
	if need := here + here/10 + spare; l.Ports > 0 && need > l.Ports {
		return &exitError{exitUsage,
			fmt.Errorf("%d connections need %d ports, machine has %d: widen net.ipv4.ip_local_port_range or add agents",
				here, need, l.Ports)}
	}
	return nil
}

// workloadText returns the text of a built-in workload, or else of the file of that name.
func workloadText(name string) ([]byte, error) {
	text, err := workload.Text(name)
	if errors.Is(err, workload.ErrUnknown) {
		return os.ReadFile(name)
	}
	return text, err
}

// plan returns the plan of a job.
func (a *app) plan(j *benchJob, steps []int) *benchrun.Plan {
	plan := &benchrun.Plan{
		Env: j.env, Workload: j.w, Protocol: j.protocol, Seed: j.seed, Speed: j.speed, Set: j.set, Users: j.users,
		Steps:     steps,
		LoginRate: j.loginRate, Interval: j.interval, Window: j.window, MaxSettle: j.settle, Cores: runtime.NumCPU(),
		Progress: a.benchProgress(),
		Open: func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
			return j.world.Open(ctx, j.protocol, u)
		},
	}
	if plan.Interval == 0 {
		plan.Interval = min(max(j.window/12, time.Second), 10*time.Second)
	}
	if !j.keep && j.messages(j.w) > 0 {
		plan.Fresh = func(ctx context.Context, users []drive.User) error {
			if j.fleet != nil {
				return j.fleet.fill(ctx, a, j.benchOptions, users)
			}
			return a.fillMailboxes(ctx, j.world, users, j.benchOptions)
		}
	}
	if j.fleet != nil {
		j.fleet.plan(plan)
	}
	return plan
}

// hire sends the job to the agents, if there are any.
func (j *benchJob) hire(ctx context.Context, h *record.Header, plan *benchrun.Plan) error {
	for i, address := range j.agents {
		c, facts, err := agent.Hire(ctx, j.env, address, j.secret, &agent.Job{
			Name: j.w.Name, Workload: string(j.text), Protocol: j.protocol, Seed: j.seed, Speed: j.speed, Set: j.set,
			Label: fmt.Sprintf("%s.a%d", j.world.Label, i+1),
			Doors: j.world.Target.Doors, StartTLS: j.startTLS, Insecure: j.insecure, Timeout: j.timeout, Cold: j.cold,
			Users: j.users,
		})
		if err != nil {
			return err
		}
		if facts.Build != version() {
			h.Marks = append(h.Marks, fmt.Sprintf("agent %s is version %s", address, facts.Build))
		}
		plan.Crews = append(plan.Crews, c)
		h.Drivers = append(h.Drivers, facts.Host)
		h.Agents = i + 1
	}
	return nil
}

// runBench runs a workload in steps. If search is not nil, it selects the steps after the first.
func (a *app) runBench(ctx context.Context, name string, o *benchOptions, steps []int,
	search *benchSearch) (*conclusion, error) {
	thresholds, err := parseThresholds(o.failIf)
	if err != nil {
		return nil, err
	}
	most := slices.Max(steps)
	if search != nil {
		most = search.Most
	}
	j, err := a.job(ctx, name, o, most)
	if err != nil {
		return nil, err
	}
	if o.fleet == nil {
		if err := a.makePeople(ctx, j.env, o, j.users); err != nil {
			return nil, err
		}
	}
	watch, err := a.watch(o, j.world)
	if err != nil {
		return nil, err
	}
	plan := a.plan(j, steps)
	path, file, err := createRun(o.out, j.w.Name, j.env.Clock.Now())
	if err != nil {
		return nil, err
	}
	header := benchHeader(o, j.w, j.set, j.protocol, j.world, filepath.Base(path), j.env.Clock.Now())
	watch.prepare(&header, plan)
	if err := j.hire(ctx, &header, plan); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	if search != nil {
		plan.Next = search.next
	}
	if o.live != "" {
		end, err := a.showLive(j.env, o.live, header, plan)
		if err != nil {
			return nil, errors.Join(err, file.Close(), os.Remove(path))
		}
		defer end()
	}
	if err := a.measure(ctx, plan, header, file, path, watch); err != nil {
		return nil, err
	}
	return concludeBench(path, thresholds, search)
}

// benchAndShow runs a workload and prints the conclusion. It returns an error if a threshold was exceeded.
func (a *app) benchAndShow(ctx context.Context, name string, o *benchOptions, steps []int, search *benchSearch) error {
	c, err := a.runBench(ctx, name, o, steps, search)
	if err != nil {
		return err
	}
	if o.json {
		err = a.printJSON(c)
	} else {
		_, err = io.WriteString(a.out, c.text())
	}
	if err != nil {
		return err
	}
	return c.fails()
}

// showLive serves the live page of the run until end is called.
func (a *app) showLive(e *env.Env, listen string, h record.Header, plan *benchrun.Plan) (end func(), err error) {
	l, err := e.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	page := benchlive.New(h)
	told := plan.Progress
	plan.Progress = func(p benchrun.Progress) {
		page.Add(e.Clock.Now(), p)
		told(p)
	}
	srv := page.Server()
	e.Go("bench live page", func() { _ = srv.Serve(l) })
	fmt.Fprintf(a.err, "live page: http://%s/\n", l.Addr())
	return func() { _ = srv.Close() }, nil
}

// benchSearch searches for the largest number of users that the server serves well.
type benchSearch struct {
	benchrun.Search
	p99    time.Duration
	reason string // the reason for an early end of the search
}

// maxFailed is the largest share of actions that may fail or be missed in a good step.
const maxFailed = 0.01

func (b *benchSearch) next(s record.Step, all *record.Total) int {
	switch s.Outcome {
	case record.DriverBound, record.Interrupted:
		b.reason = s.Reason
		return 0
	}
	return b.Next(s.Users, b.good(s, all))
}

// good reports whether the server served a step well. The average was within the workload's limit (otherwise the
// outcome is neither Measured nor Unsteady), the p99 within --p99, and at most maxFailed of the actions failed or were
// missed.
func (b *benchSearch) good(s record.Step, all *record.Total) bool {
	failed := float64(all.Failed + all.Missed)
	return (s.Outcome == record.Measured || s.Outcome == record.Unsteady) &&
		failed <= maxFailed*(failed+float64(all.Latency.Count())) &&
		(b.p99 == 0 || all.Latency.Percentile(99) <= b.p99)
}

func (a *app) benchMax() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use: "max WORKLOAD", Short: "find the most people that the server serves well", Args: count(1, 1),
		Long: "Double the number of people until a step is bad, then halve what lies between. A step is good when " +
			"its average response\nis within the workload's limit (1 s, as the documents have it), its p99 within " +
			"--p99, and at most 1 % of its actions failed or were missed.\nAll steps are in one run file.",
	}
	o.targetFlags(cmd)
	o.runFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.users, "users", "100..10000", "where to begin, and where to end at most")
	f.IntVar(&o.precision, "precision", 0,
		"how near the answer must come, in people (default: a tenth of where it begins)")
	f.DurationVar(&o.p99, "p99", 0, "the longest p99 that is good (default: any)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		bounds, err := parseSteps(o.users, 1)
		if err != nil {
			return err
		}
		s := &benchSearch{Search: benchrun.Search{Least: bounds[0], Most: bounds[len(bounds)-1],
			Precision: o.precision}, p99: o.p99}
		if s.Precision <= 0 {
			s.Precision = max(1, s.Least/10)
		}
		return a.benchAndShow(cmd.Context(), args[0], &o, []int{s.First()}, s)
	}
	return cmd
}

func (a *app) benchAgent() *cobra.Command {
	var listen, secret string
	cmd := &cobra.Command{
		Use: "agent", Short: "drive a share of the people for a benchmark that is run from another machine",
		Args: cobra.NoArgs,
		Long: "Answer a doublet bench run --agent HOST:PORT. Whoever knows the secret can make this machine sign in " +
			"anywhere, so that\nwithout one it listens on loopback only; secret and passwords travel unencrypted. " +
			"It works for one run at a time. It ends with Ctrl-C.",
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7334", "where to listen, host:port")
	cmd.Flags().StringVar(&secret, "secret", "", "what a controller must give (--secret there)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e := benchEnv(a.err)
		if secret == "" && !loopback(listen) {
			return &exitError{exitUsage, errors.New("--listen beyond loopback needs a --secret")}
		}
		l, err := e.Listen("tcp", listen)
		if err != nil {
			return err
		}
		self, cores := driverMeter(e)
		fmt.Fprintln(a.out, "agent listens at", l.Addr())
		return agent.NewServer(e, secret, agent.Facts{Host: meter.Host(""), Build: version()}, cores,
			self).Serve(cmd.Context(), l)
	}
	return cmd
}
