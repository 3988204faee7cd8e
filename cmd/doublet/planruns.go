package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
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

const pointsHelp = `Input is run files of doublet bench, or tables (CSV) of steps of any benchmark, with the columns
run,target,workload,users,speed,processors,partitions,guests,virtual,tpm,cpu_pct,average_ms,p99_ms and resources. Steps
that were unsteady, driver-bound or interrupted are refused, unless --use names them; they are marked then.`

// pointFlags are the flags of commands that read steps.
type pointFlags struct {
	use    []string
	html   string
	asJSON bool
}

func (o *pointFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.use, "use", nil, "also use steps of these outcomes: "+strings.Join(point.Outcomes(), ", "))
	f.BoolVar(&o.asJSON, "json", false, "print the result as JSON")
}

// addPage adds the flag of a command that writes a page too.
func (o *pointFlags) addPage(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.html, "html", "", "write a page with the figures to this file")
}

// points reads the usable steps of files.
func (o *pointFlags) points(paths []string) ([]point.Point, error) {
	sources, err := readSources(paths)
	if err != nil {
		return nil, err
	}
	return o.usable(sources)
}

// usable returns the usable steps of sources.
func (o *pointFlags) usable(sources []source) ([]point.Point, error) {
	var all []point.Point
	for _, s := range sources {
		all = append(all, s.points...)
	}
	out, err := point.Usable(all, o.use...)
	return out, usage(err)
}

// source is a file of steps; run is nil for a table.
type source struct {
	run    *record.Run
	points []point.Point
}

// readSources reads run files and tables. A name may end in =N: the partitions of the server of a run.
func readSources(paths []string) (out []source, err error) {
	for _, path := range paths {
		partitions := 0
		if before, after, named := strings.Cut(path, "="); named {
			if n, err := strconv.Atoi(after); err == nil && n > 0 {
				path, partitions = before, n
			}
		}
		s, err := readFile(path, func(f io.Reader) (source, error) { return readSource(f, path) })
		if err != nil {
			return nil, usage(err)
		}
		for i := range s.points {
			if partitions > 0 {
				s.points[i].Partitions = partitions
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func readSource(f io.Reader, path string) (s source, err error) {
	in := bufio.NewReader(f)
	if head, err := in.Peek(1); err != nil || head[0] != '{' {
		s.points, err = point.ReadTable(in, path)
		return s, err
	}
	if s.run, err = record.Read(in); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	s.points = pointsOf(s.run, path)
	return s, nil
}

// pointsOf returns the steps of a run.
func pointsOf(r *record.Run, path string) (out []point.Point) {
	h := &r.Header
	for i := range r.Steps {
		s := &r.Steps[i]
		t := r.Total(s.Index, record.All)
		p := point.Point{
			Run: filepath.Base(path), Target: h.Target.Name, Workload: h.Workload.Name, Protocol: h.Workload.Protocol,
			Outcome: string(s.Outcome), Reason: s.Reason, Users: s.Users, Speed: h.Speed,
			Partitions: max(1, h.Target.Partitions), Guests: h.Target.Guests,
			Virtual: float64(h.Target.Guests) * h.Target.Quota,
			Rate:    r.TPM(s) / 60, Average: math.NaN(), P99: math.NaN(), Use: map[string]float64{}, Marks: h.Marks,
		}
		if h.Server != nil {
			p.Processors = h.Server.Processors()
		}
		if t.Latency.Count() > 0 {
			p.Average, p.P99 = t.Latency.Mean().Seconds(), t.Latency.Percentile(99).Seconds()
		}
		resources(r, s, &p)
		out = append(out, p)
	}
	return out
}

// uses are the resources of a point in a run: the sampled value, and how many of it are one of the resource's unit.
var uses = []struct {
	name, value string
	of          func(*record.Run, *record.Step, string) (float64, bool)
	per         float64
}{
	{point.CPU, "cpu", report.Processes, 1}, {point.Memory, "pss", report.Processes, 1e6},
	{point.DiskRead, "read_bytes", report.Processes, 1e6}, {point.DiskWrite, "write_bytes", report.Processes, 1e6},
	{point.DiskBusy, "busy_pct", report.Busiest, 1},
}

// resources reads what the servers of a step used. What was not metered is left out.
func resources(r *record.Run, s *record.Step, p *point.Point) {
	for _, x := range uses {
		if v, ok := x.of(r, s, x.value); ok {
			p.Use[x.name] = v / x.per
		}
	}
	reads, ok := report.Disks(r, s, "reads")
	writes, has := report.Disks(r, s, "writes")
	if ok && has {
		p.Use[point.DiskOps] = reads + writes
	}
	// What programs send and get is the server's network, also on one machine.
	if length := (s.To - s.From).Seconds(); length > 0 {
		t := r.Total(s.Index, record.All)
		p.Use[point.Network] = float64(t.Sent+t.Received) / length / 1e3
	}
	p.Servers = map[string]float64{}
	if servers := report.Servers(r, s); len(servers) > 0 {
		for _, x := range servers {
			if x.Metered {
				p.Servers[x.Name] = x.Cores
			}
		}
		return
	}
	for _, g := range r.Groups("server") {
		if v, n := r.Mean(s, "server", g, "cpu"); n > 0 {
			p.Servers[g] = v
		}
	}
}

// publishedCurves returns the reference curves that document 001 prints.
func publishedCurves() (out []scaling.Curve) {
	for _, r := range study.Rows("curves.csv") {
		out = append(out, scaling.Curve{Name: r["curve"], Factor: r.Number("factor"), From: int(r.Number("from")),
			To: int(r.Number("to"))})
	}
	return out
}

func (p planner) scaling() *cobra.Command {
	var o pointFlags
	var think float64
	cmd := &cobra.Command{
		Use: "scaling RUN…", Short: "how a server scales with users, processors and partitions", Args: count(1, 1000),
		Long: `Compute ETR, ITR and their ratios, scaling factors beside published curves, the cost of partitions, of
guests and of virtual processors given out more than once, a fit of the Universal Scalability Law, and a queueing model
(exact MVA) as a cross-check. RUN=N says that the server of a run had N partitions. In a table, guests is the number of
virtual machines and virtual that of their virtual processors together.

` + pointsHelp,
		Example: `  doublet plan scaling one.run=1 two.run=2 four.run=4
  doublet plan scaling steps.csv --html scaling.html`,
	}
	o.addPage(cmd)
	o.add(cmd)
	cmd.Flags().Float64Var(&think, "think", 0, "seconds between two actions of a user (default: from the fewest users)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		points, err := o.points(args)
		if err != nil {
			return err
		}
		r, err := scaling.Analyse(points, publishedCurves(), think)
		if err != nil {
			return usage(err)
		}
		return p.finish(o.html, r.Page(), o.asJSON, r)
	}
	return cmd
}

func (p planner) compare() *cobra.Command {
	var o pointFlags
	var names []string
	var anyway bool
	cmd := &cobra.Command{
		Use: "compare A B [C]", Args: count(2, 3),
		Short: "resources of two or three releases or configurations, and which differences are noise",
		Long: `Print the resources at each number of users, and their change from A. With repeated runs (commas between
them, or steps that were repeated) each change has its interval, which says whether it is larger than the noise. Run
files that do not measure the same are refused, as doublet bench compare refuses them.

` + pointsHelp,
		Example: "  doublet plan compare old1.run,old2.run new1.run,new2.run --name old,new --html releases.html",
	}
	o.add(cmd)
	o.addPage(cmd)
	cmd.Flags().StringSliceVar(&names, "name", nil, "names of the legs (default: their files)")
	cmd.Flags().BoolVar(&anyway, "anyway", false,
		"compare run files that do not measure the same too, and mark the differences")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		var legs []compare.Leg
		var runs []*record.Run
		for i, arg := range args {
			sources, err := readSources(strings.Split(arg, ","))
			if err != nil {
				return err
			}
			var all []point.Point
			for _, s := range sources {
				all = append(all, s.points...)
				if s.run != nil {
					runs = append(runs, s.run)
				}
			}
			points, err := o.usable(sources)
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg))
			if i < len(names) {
				name = names[i]
			}
			legs = append(legs, compare.Leg{Name: name, Points: points, All: all})
		}
		marks, err := report.Comparable(runs, anyway)
		if err != nil {
			return usage(err)
		}
		r, err := compare.Legs(legs, marks...)
		if err != nil {
			return usage(err)
		}
		return p.finish(o.html, r.Page(), o.asJSON, r)
	}
	return cmd
}

func (p planner) cluster() *cobra.Command {
	return group("cluster", "what a cluster costs by role, and what is wrong with one", "", p.diagnose(), p.roles())
}

func (p planner) diagnose() *cobra.Command {
	var disks int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "diagnose STATISTICS…", Short: "find what is wrong from the statistics of servers", Args: count(1, 100),
		Long: `Look for the faults that document 004 found in the field: a saturated disk, the database cache or buffer
pool at its limit, a replication queue that grows, replications that fail, an unbalanced mate. Input is the output of
doublet show stat (or Domino's) or of /metrics, a file for each server; each finding has its evidence and a remedy.
Faults whose statistics are not there are listed as not checked.`,
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
		d, err := cluster.Diagnose(servers, disks)
		if err != nil {
			return usage(err)
		}
		return p.print(asJSON, d)
	}
	return cmd
}

func (p planner) roles() *cobra.Command {
	var o pointFlags
	cmd := &cobra.Command{
		Use: "roles CONFIG1 CONFIG2 CONFIG3 CONFIG4", Args: count(4, 4),
		Short: "processor use by role, and whether the roles add up",
		Long: `Compute what a server uses alone, with mail to another server, to push its changes to a mate and to
apply those of a mate, from runs of document 004's four configurations (doublet bench lab config1 to config4), with
commas between repeats; and check that a server that does it all uses their sum.`,
	}
	o.add(cmd)
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
		return p.print(o.asJSON, r)
	}
	return cmd
}
