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

	"doublet/bench/record"
	"doublet/bench/report"
	"doublet/bench/study"
	"doublet/lab"
	"doublet/plan/cluster"
	"doublet/plan/compare"
	"doublet/plan/page"
	"doublet/plan/point"
	"doublet/plan/scaling"
	"doublet/plan/size"

	"github.com/spf13/cobra"
)

// studies makes the commands of doublet study.
type studies struct{ *app }

func (x studies) command() *cobra.Command {
	return group("study", "measure a matrix of configurations, in random order and with repeats", studyHelp, x.list(),
		x.show(), x.run(), x.reports())
}

const studyHelp = `Measure the configurations of a study, each several times and in random order, as doublet bench lab
--run measures one of them, and compare them in one report. A run in which the driver was late, the load was unsteady
or other programs used the machine is set aside and repeated until three were tried. Stopped or crashed, the same
command goes on where it was.

  doublet study list                        the studies that come with the program
  doublet study show roles > mine.toml      the file of one, to begin one's own with
  doublet study run mine.toml --out mine    measure it; the report is mine/report.html
  doublet study report mine.toml --out mine the report anew, of the runs that there are

The table [run] of a file holds the flags of doublet bench lab that all configurations share. Each [[axis]] has values
with a name and the flags that differ; the configurations are all combinations of a value of each axis.`

func (x studies) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the studies that come with the program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, name := range study.Names() {
				s, _, err := study.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(x.out, "%-14s %s, %d configurations, %d runs of each\n", name, s.Title, len(s.Cells()),
					s.Repeat)
			}
			return nil
		},
	}
}

func (x studies) show() *cobra.Command {
	return &cobra.Command{
		Use: "show STUDY", Short: "print the file of a study", Args: count(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, text, err := study.Load(args[0])
			if err != nil {
				return err
			}
			_, err = x.out.Write(text)
			return err
		},
	}
}

// studyFlags are the flags of doublet study run and report.
type studyFlags struct {
	out, doc string
	short    bool
	asJSON   bool
}

func (o *studyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "folder of the runs and the report (default: the name of the study)")
	f.BoolVar(&o.short, "short", false,
		"the short form: two runs of 15 s at 60 times the speed; it needs a folder of its own")
	f.StringVar(&o.doc, "doc", "", "also write the report as NAME.md with pictures into this folder")
	f.BoolVar(&o.asJSON, "json", false, "print the comparison as JSON")
}

// load reads a study, and returns its name.
func (o *studyFlags) load(name string) (*study.Study, string, error) {
	s, _, err := study.Load(name)
	if err == nil && o.short {
		err = s.Short()
	}
	name = strings.TrimSuffix(filepath.Base(name), ".toml")
	if o.out == "" {
		o.out = name
	}
	return s, name, err
}

func (x studies) run() *cobra.Command {
	var o studyFlags
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "run STUDY", Short: "measure a study, or go on with it, and write its report", Args: count(1, 1),
		Long: studyHelp,
	}
	o.add(cmd)
	cmd.Flags().DurationVar(&limit, "for", 0,
		"begin no further run after this time, and report what there is (default: measure all)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, name, err := o.load(args[0])
		if err != nil {
			return err
		}
		w := workbench(x)
		for _, c := range s.Cells() {
			if _, err := w.cellSeries(&c, ""); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		ctx, stop := untilHangup(cmd.Context())
		defer stop()
		note, clock := w.console().Note, w.env().Clock
		begun := clock.Now()
		entries, err := s.Run(ctx, o.out, study.Runner{
			Measure: func(ctx context.Context, job *study.Job, to string) (string, error) {
				return w.measureCell(ctx, job, filepath.Join(o.out, "servers"), to)
			},
			Tell:   func(format string, args ...any) { note(true, "study: "+format, args...) },
			Enough: func() bool { return limit > 0 && clock.Now().Sub(begun) >= limit },
		})
		if err != nil {
			if ctx.Err() != nil {
				err = errors.Join(err, fmt.Errorf("run it again with --out %s to go on", o.out))
			}
			return err
		}
		return x.report(s, name, entries, &o)
	}
	return cmd
}

func (x studies) reports() *cobra.Command {
	var o studyFlags
	cmd := &cobra.Command{
		Use: "report STUDY", Short: "write the report of the runs that a study has so far", Args: count(1, 1),
		Long: "Write the report of a study anew from the run files in its folder, and measure nothing.",
	}
	o.add(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		s, name, err := o.load(args[0])
		if err != nil {
			return err
		}
		entries, err := s.Runs(o.out)
		if err != nil {
			return err
		}
		return x.report(s, name, entries, &o)
	}
	return cmd
}

// cellSeries returns the lab of a configuration, whose run files go to the folder out. It refuses what a run would
// refuse.
func (w workbench) cellSeries(c *study.Cell, out string) (*lab.Series, error) {
	var o labFlags
	cmd := &cobra.Command{}
	o.add(cmd)
	for _, f := range c.Flags {
		if cmd.Flags().Lookup(f.Name) == nil {
			return nil, usage(fmt.Errorf("doublet bench lab has no flag --%s", f.Name))
		}
		if err := cmd.Flags().Set(f.Name, f.Value); err != nil {
			return nil, usage(err)
		}
	}
	o.Label, o.Out = c.Name, out
	s, err := w.labSeries(cmd, &o)
	if err != nil {
		return nil, err
	}
	if s.Workload == "" {
		return nil, usage(errors.New("no run: name a workload, or - for the document's"))
	}
	return s, s.Check(c.Lab)
}

// measureCell measures a configuration with servers in the folder dir, which is removed before and afterwards.
func (w workbench) measureCell(ctx context.Context, job *study.Job, dir, out string) (path string, err error) {
	s, err := w.cellSeries(&job.Cell, out)
	if err != nil {
		return "", err
	}
	s.Options.Dir = dir
	if err := lab.Sweep(s.Env, dir); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lab.Sweep(s.Env, dir)) }()
	var names []string
	if job.Lab != "" {
		names = []string{job.Lab}
	}
	results, err := s.Run(ctx, names)
	if err != nil {
		return "", err
	}
	return results[0].File, nil
}

// report writes the report of each run, and that of the study, and prints the comparison.
func (x studies) report(s *study.Study, name string, entries []study.Entry, o *studyFlags) error {
	runs := page.Section{Title: "Runs"}
	legs := make([]compare.Leg, len(s.Cells()))
	for i, c := range s.Cells() {
		legs[i].Name = c.Name
	}
	var all []*record.Run
	for _, e := range entries {
		path := filepath.Join(o.out, e.File)
		r, err := record.ReadFile(path)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(path, ".run")
		if err := report.Of(r).Save(base, false, func(string) {}); err != nil {
			return err
		}
		note := e.Quarantined
		l := &legs[e.Index]
		if note == "" {
			all = append(all, r)
			points := pointsOf(r, path)
			l.Points, l.All = append(l.Points, points...), append(l.All, points...)
		} else {
			l.All = append(l.All, point.Point{Run: filepath.Base(path), Outcome: "set aside", Reason: note})
			note = "does not count: " + note
		}
		runs.Links = append(runs.Links, page.Link{
			Path: strings.TrimSuffix(filepath.ToSlash(e.File), ".run") + ".html",
			Text: fmt.Sprintf("%s, run %d", e.Name, e.Repeat+1), Note: note,
		})
	}
	result, err := compared(legs, all)
	if err != nil {
		return err
	}
	p := result.Page()
	p.Kicker, p.Title = "Doublet study", s.Title
	p.Sections = slices.Concat([]page.Section{measuredOn(all, entries)}, p.Sections, conclusions(s.Cells(), legs),
		[]page.Section{runs})
	if err := x.savePage(filepath.Join(o.out, "report.html"), p); err != nil {
		return err
	}
	if o.doc != "" {
		if err := saveDocument(o.doc, name, p.Markdown(name)); err != nil {
			return err
		}
	}
	return x.print(o.asJSON, result)
}

// saveDocument writes the files of a document, which everybody may read, and removes pictures of an earlier report.
func saveDocument(dir, name string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documents
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, name+"-[0-9][0-9].svg"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if _, stays := files[filepath.Base(path)]; !stays {
			err = errors.Join(err, os.Remove(path))
		}
	}
	for file, text := range files {
		path := filepath.Join(dir, file)
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644), //nolint:gosec // documents
			os.Chmod(path, 0o644)) //nolint:gosec // the process has a mask of 077
	}
	return err
}

// measuredOn returns a section with the machine and the number of runs.
func measuredOn(all []*record.Run, entries []study.Entry) page.Section {
	s := page.Section{Title: "Measured on"}
	for _, f := range report.Of(all[0]).Facts {
		if slices.Contains([]string{"Server machine", "Driver machine", "Driver", "Begun"}, f[0]) {
			s.List = append(s.List, f[0]+": "+f[1])
		}
	}
	s.List = append(s.List, fmt.Sprintf("%d runs that count, %d that were set aside", len(all), len(entries)-len(all)))
	return s
}

// compared compares the configurations that have a run which counts. What the runs differ in besides is marked.
func compared(legs []compare.Leg, all []*record.Run) (*compare.Report, error) {
	marks, err := report.Comparable(all, true)
	if err != nil {
		return nil, err
	}
	var usable []compare.Leg
	for _, l := range legs {
		points, err := point.Usable(l.Points)
		if err != nil {
			marks = append(marks, fmt.Sprintf("%s: left out: %v; %s", l.Name, err, l.Why(0)))
			continue
		}
		usable = append(usable, compare.Leg{Name: l.Name, Points: points, All: l.All})
	}
	if len(usable) < 2 {
		return nil, fmt.Errorf("fewer than two configurations have a run that counts: %s", strings.Join(marks, "; "))
	}
	return compare.Configurations(usable, marks...)
}

// conclusions returns what follows from the configurations beside their comparison: scaling, where they differ in
// processors, partitions or guests; the roles of a cluster, where they are document 004's four; and how well one half
// of the runs predicts the other, or why it does not, where there are three numbers of users.
func conclusions(cells []study.Cell, legs []compare.Leg) (out []page.Section) {
	usable := make([][]point.Point, len(legs))
	for i := range legs {
		if points, err := point.Usable(legs[i].Points); err == nil {
			usable[i] = points
		}
	}
	out = scaled(legs, usable)
	if len(cells) == 4 && !slices.ContainsFunc([]int{0, 1, 2, 3}, func(i int) bool {
		return cells[i].Lab != fmt.Sprintf("config%d", i+1)
	}) {
		s := page.Section{Title: "Processors by role"}
		if r, err := cluster.ByRole(cluster.Configurations{Single: usable[0], Routing: usable[1], Standby: usable[2],
			Both: usable[3]}); err == nil {
			s.List = strings.Split(strings.TrimSpace(r.Text()), "\n")
		} else {
			s.Text = "No answer: " + err.Error()
		}
		out = append(out, s)
	}
	predictions := page.Section{Title: "One half of the runs predicts the other",
		Head: []string{"configuration", "active users", "cores predicted", "cores measured", "within"}}
	for i := range usable {
		list, err := size.CrossCheck(usable[i])
		if err != nil && manyUsers(usable[i]) {
			predictions.List = append(predictions.List, fmt.Sprintf("%s: no answer: %v", legs[i].Name, err))
		}
		for _, x := range list {
			predictions.Rows = append(predictions.Rows, []string{legs[i].Name, fmt.Sprintf("%.0f", x.Load),
				size.Precise(x.Predicted), fmt.Sprintf("%.3g", x.Measured), fmt.Sprint(x.Within)})
		}
	}
	if len(predictions.Rows)+len(predictions.List) > 0 {
		out = append(out, predictions)
	}
	return out
}

// manyUsers reports whether points are of so many numbers of users that a prediction is expected.
func manyUsers(points []point.Point) bool {
	seen := map[int]bool{}
	for i := range points {
		seen[points[i].Users] = true
	}
	return len(seen) >= 3
}

// scaled returns how configurations scale with processors, partitions or guests, nothing if these are the same in all.
// If two configurations have the same of them all, something else differs, and their runs are no repeats of each other.
func scaled(legs []compare.Leg, usable [][]point.Point) []page.Section {
	var all []point.Point
	type setup struct {
		processors, partitions, guests int
		virtual                        float64
	}
	at := map[setup]int{} // the configuration with these
	both := ""
	for i := range usable {
		all = append(all, usable[i]...)
		for k := range usable[i] {
			p := &usable[i][k]
			size := setup{p.Processors, p.Partitions, p.Guests, p.Virtual}
			if j, known := at[size]; !known {
				at[size] = i
			} else if j != i {
				both = fmt.Sprintf("%s and %s", legs[j].Name, legs[i].Name)
			}
		}
	}
	switch {
	case len(at) < 2:
		return nil
	case both != "":
		return []page.Section{{Title: "Scaling", Text: "No answer: " + both +
			" have the same processors, partitions and guests, and differ in something else."}}
	}
	r, err := scaling.Analyse(all, publishedCurves(), 0)
	if err != nil {
		return nil
	}
	return r.Sections()
}
