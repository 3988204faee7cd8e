package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"doublet/bench/record"
	"doublet/bench/report"
	"doublet/plan/cluster"
	"doublet/plan/compare"
	"doublet/plan/point"
	"doublet/plan/scaling"
	"doublet/plan/study"

	"github.com/spf13/cobra"
)

const pointsHelp = "Input is run files of doublet bench, or tables (CSV) of steps of any benchmark, with the " +
	"columns\n" +
	"run,target,workload,users,speed,processors,partitions,tpm,cpu_pct,average_ms,p99_ms and resources. Steps that " +
	"were unsteady,\n" +
	"driver-bound or interrupted are refused, unless --use names them."

// pointFlags are the flags of commands that read steps.
type pointFlags struct {
	use    []string
	html   string
	asJSON bool
}

func (o *pointFlags) add(cmd *cobra.Command) {
	cmd.Flags().
		StringSliceVar(&o.use, "use", nil, "also use steps of these outcomes: unsteady, driver-bound, interrupted, "+
			"discarded")
	cmd.Flags().StringVar(&o.html, "html", "", "write a page with the figures to this file")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the result as JSON")
}

// points reads the usable steps of files. A name may end in =N: the partitions of the server of a run.
func (o *pointFlags) points(paths []string) ([]point.Point, error) {
	var out []point.Point
	for _, path := range paths {
		list, err := readPoints(path)
		if err != nil {
			return nil, usage(err)
		}
		out = append(out, list...)
	}
	out, err := point.Usable(out, o.use...)
	return out, usage(err)
}

// readPoints reads a run file or a table.
func readPoints(path string) (out []point.Point, err error) {
	partitions := 0
	if before, after, named := strings.Cut(path, "="); named {
		if n, err := strconv.Atoi(after); err == nil && n > 0 {
			path, partitions = before, n
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewReader(f)
	if head, err := in.Peek(1); err == nil && head[0] == '{' {
		r, err := record.Read(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = pointsOf(r, path)
	} else if out, err = point.ReadTable(in, path); err != nil {
		return nil, err
	}
	for i := range out {
		if partitions > 0 {
			out[i].Partitions = partitions
		}
	}
	return out, nil
}

// pointsOf returns the steps of a run.
func pointsOf(r *record.Run, path string) (out []point.Point) {
	h := &r.Header
	for i := range r.Steps {
		s := &r.Steps[i]
		t := r.Total(s.Index, record.All)
		p := point.Point{
			Run:      filepath.Base(path),
			Target:   h.Target.Name,
			Workload: h.Workload.Name,
			Protocol: h.Workload.Protocol,
			Outcome: string(
				s.Outcome,
			),
			Reason:     s.Reason,
			Users:      s.Users,
			Speed:      h.Speed,
			Partitions: 1,
			Rate:       r.TPM(s) / 60,
			Average:    math.NaN(),
			P99:        math.NaN(),
			Use:        map[string]float64{},
			Marks:      h.Marks,
		}
		if h.Server != nil {
			p.Processors = h.Server.CPUs
		}
		if t.Latency.Count() > 0 {
			p.Average, p.P99 = t.Latency.Mean().Seconds(), t.Latency.Percentile(99).Seconds()
		}
		resources(r, s, &p)
		out = append(out, p)
	}
	return out
}

// resources reads what the servers of a step used.
func resources(r *record.Run, s *record.Step, p *point.Point) {
	sum := func(name string, groups []string, value string, per float64) {
		for _, g := range groups {
			if v, n := r.Mean(s, "server", g, value); n > 0 {
				p.Use[name] += v / per
			}
		}
	}
	groups := r.Groups("server")
	var disks []string
	seen := map[string]bool{}
	for i := range r.Samples {
		if x := &r.Samples[i]; x.Host == "server" && strings.HasPrefix(x.Group, "disk:") && !seen[x.Group] {
			seen[x.Group] = true
			disks = append(disks, x.Group)
		}
	}
	sum(point.CPU, groups, "cpu", 1)
	sum(point.Memory, groups, "pss", 1e6)
	sum(point.DiskRead, groups, "read_bytes", 1e6)
	sum(point.DiskWrite, groups, "write_bytes", 1e6)
	sum(point.DiskOps, disks, "reads", 1)
	sum(point.DiskOps, disks, "writes", 1)
	for _, d := range disks {
		if v, n := r.Mean(s, "server", d, "busy_pct"); n > 0 {
			p.Use[point.DiskBusy] = max(p.Use[point.DiskBusy], v)
		}
	}
	// What programs send and get is the server's network, also on one machine.
	if length := (s.To - s.From).Seconds(); length > 0 {
		t := r.Total(s.Index, record.All)
		p.Use[point.Network] = float64(t.Sent+t.Received) / length / 1e3
	}
	if servers := report.Servers(r, s); len(servers) > 0 {
		p.Servers = map[string]float64{}
		for _, x := range servers {
			p.Servers[x.Name] = x.Cores
		}
		return
	}
	p.Servers = map[string]float64{}
	for _, g := range groups {
		if v, n := r.Mean(s, "server", g, "cpu"); n > 0 {
			p.Servers[g] = v
		}
	}
}

func (p planner) scaling() *cobra.Command {
	var o pointFlags
	var think float64
	cmd := &cobra.Command{
		Use: "scaling RUN…", Short: "how a server scales with users, processors and partitions", Args: count(1, 1000),
		Long: "Compute ETR, ITR and their ratios, scaling factors beside published curves, the cost of partitions, " +
			"a fit of the\n" +
			"Universal Scalability Law, and a queueing model (exact MVA) as a cross-check. RUN=N says that the " +
			"server of a run had\n" +
			"N partitions.\n\n" + pointsHelp,
		Example: "  doublet plan scaling one.run=1 two.run=2 four.run=4\n  doublet plan scaling steps.csv --html " +
			"scaling.html",
	}
	o.add(cmd)
	cmd.Flags().Float64Var(&think, "think", 0, "seconds between two actions of a user (default: from the fewest users)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		points, err := o.points(args)
		if err != nil {
			return err
		}
		var curves []scaling.Curve
		for _, r := range study.Rows("curves.csv") {
			curves = append(
				curves,
				scaling.Curve{Name: r["curve"], From: int(r.Number("from")), To: int(r.Number("to")),
					Factor: r.Number("factor")},
			)
		}
		r, err := scaling.Analyse(points, curves, think)
		if err != nil {
			return usage(err)
		}
		if err := p.save(o.html, r.Page()); err != nil {
			return err
		}
		return p.printed(o.asJSON, r)
	}
	return cmd
}

func (p planner) compare() *cobra.Command {
	var o pointFlags
	var names []string
	cmd := &cobra.Command{
		Use: "compare A B [C]", Short: "resources of two or three releases or configurations, and which differences " +
			"are noise",
		Args: count(2, 3),
		Long: "Print the resources at each number of users, and their change from A. With repeated runs (commas " +
			"between them, or\n" +
			"steps that were repeated) each change has its interval, which says whether it is larger than the " +
			"noise.\n\n" +
			pointsHelp,
		Example: "  doublet plan compare old1.run,old2.run new1.run,new2.run --name old,new --html releases.html",
	}
	o.add(cmd)
	cmd.Flags().StringSliceVar(&names, "name", nil, "names of the legs (default: their files)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var legs []compare.Leg
		for i, arg := range args {
			points, err := o.points(strings.Split(arg, ","))
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg))
			if i < len(names) {
				name = names[i]
			}
			legs = append(legs, compare.Leg{Name: name, Points: points})
		}
		r, err := compare.Legs(legs)
		if err != nil {
			return usage(err)
		}
		if err := p.save(o.html, r.Page()); err != nil {
			return err
		}
		return p.printed(o.asJSON, r)
	}
	return cmd
}

func (p planner) cluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "what a cluster costs by role, and what is wrong with one",
		RunE:  unknownWord,
	}
	cmd.AddCommand(p.diagnose(), p.roles())
	return cmd
}

func (p planner) diagnose() *cobra.Command {
	var disks int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "diagnose STATISTICS…", Short: "find what is wrong from the statistics of servers", Args: count(1, 100),
		Long: "Look for the faults that document 004 found in the field: a saturated disk, the database cache or " +
			"buffer pool at its\n" +
			"limit, a replication queue that grows, replications that fail, an unbalanced mate. Input is the output " +
			"of doublet\n" +
			"show stat (or Domino's) or of /metrics, a file for each server; each finding has its evidence and a " +
			"remedy.",
		Example: "  doublet show stat > mail1.txt; doublet plan cluster diagnose mail1.txt mail2.txt",
	}
	cmd.Flags().IntVar(&disks, "disks", 1, "disks of a server's data: a queue as long as they are is full")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var servers []*cluster.Statistics
		for _, path := range args {
			s, err := readFile(path, func(in io.Reader) (*cluster.Statistics, error) {
				return cluster.ReadStatistics(in, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
			})
			if err != nil {
				return usage(err)
			}
			servers = append(servers, s)
		}
		return p.printed(asJSON, cluster.Diagnose(servers, disks))
	}
	return cmd
}

// readFile opens a file and reads it with fn.
func readFile[T any](path string, fn func(io.Reader) (T, error)) (out T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return fn(f)
}

func (p planner) roles() *cobra.Command {
	var o pointFlags
	cmd := &cobra.Command{
		Use: "roles CONFIG1 CONFIG2 CONFIG3 CONFIG4", Short: "processor use by role, and whether the roles add " +
			"up", Args: count(4, 4),
		Long: "Compute what a server uses alone, with mail to another server, to push its changes to a mate and to " +
			"apply those of a\n" +
			"mate, from runs of document 004's four configurations (doublet bench lab config1 to config4), with " +
			"commas between\n" +
			"repeats; and check that a server that does it all uses their sum.",
	}
	cmd.Flags().
		StringSliceVar(&o.use, "use", nil, "also use steps of these outcomes: unsteady, driver-bound, interrupted")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the result as JSON")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var all [4][]point.Point
		for i, arg := range args {
			var err error
			if all[i], err = o.points(strings.Split(arg, ",")); err != nil {
				return err
			}
		}
		r, err := cluster.ByRole(cluster.Configurations{Single: all[0], Routing: all[1], Standby: all[2], Both: all[3]})
		if err != nil {
			return usage(err)
		}
		return p.printed(o.asJSON, r)
	}
	return cmd
}
