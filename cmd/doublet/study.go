package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"doublet/bench/record"
	"doublet/bench/report"
	"doublet/bench/study"
	"doublet/lab"
	"doublet/plan/compare"
	"doublet/plan/page"
	"doublet/plan/point"
	"doublet/plan/scaling"

	"github.com/spf13/cobra"
)

// studies makes the commands of doublet study.
type studies struct{ *app }

func (x studies) command() *cobra.Command {
	return group("study", "measure a matrix of configurations, in random order and with repeats", studyHelp, x.list(),
		x.show(), x.run())
}

const studyHelp = `Measure the configurations of a study, each several times and in random order, as doublet bench lab
--run measures one of them, and compare them in one report. A run in which the driver was late, the load was unsteady
or other programs used the machine is set aside and repeated until three were tried. Stopped or crashed, the same
command goes on where it was.

  doublet study list                        the studies that come with the program
  doublet study show roles > mine.toml      the file of one, to begin one's own with
  doublet study run mine.toml --out mine    measure it; the report is mine/report.html

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

func (x studies) run() *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "run STUDY", Short: "measure a study, or go on with it, and write its report", Args: count(1, 1),
		Long: studyHelp,
	}
	cmd.Flags().StringVar(&out, "out", "", "folder of the runs and the report (default: the name of the study)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, _, err := study.Load(args[0])
		if err != nil {
			return err
		}
		if out == "" {
			out = strings.TrimSuffix(filepath.Base(args[0]), ".toml")
		}
		w := workbench(x)
		for _, c := range s.Cells() {
			if _, err := w.cellSeries(&c, ""); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		ctx, stop := untilHangup(cmd.Context())
		defer stop()
		note := w.console().Note
		entries, err := s.Run(ctx, out, func(ctx context.Context, job *study.Job, to string) (string, error) {
			return w.measureCell(ctx, job, filepath.Join(out, "servers"), to)
		}, func(format string, args ...any) { note(true, "study: "+format, args...) })
		if err != nil {
			if ctx.Err() != nil {
				err = errors.Join(err, fmt.Errorf("run it again with --out %s to go on", out))
			}
			return err
		}
		return x.report(s, entries, out, asJSON)
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
func (x studies) report(s *study.Study, entries []study.Entry, dir string, asJSON bool) error {
	section := page.Section{Title: "Runs"}
	legs := make([]compare.Leg, len(s.Cells()))
	for i, c := range s.Cells() {
		legs[i].Name = c.Name
	}
	var all []*record.Run
	for _, e := range entries {
		path := filepath.Join(dir, e.File)
		r, err := record.ReadFile(path)
		if err != nil {
			return err
		}
		base := strings.TrimSuffix(path, ".run")
		if err := report.Of(r).Save(base, false, func(string) {}); err != nil {
			return err
		}
		note := e.Quarantined
		if note == "" {
			all = append(all, r)
			legs[e.Index].Points = append(legs[e.Index].Points, pointsOf(r, path)...)
		} else {
			note = "does not count: " + note
		}
		section.Links = append(section.Links, page.Link{
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
	if r := scaled(legs); r != nil {
		p.Sections = append(p.Sections, r.Sections()...)
	}
	p.Sections = append(p.Sections, section)
	if err := x.savePage(filepath.Join(dir, "report.html"), p); err != nil {
		return err
	}
	return x.print(asJSON, result)
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
			marks = append(marks, fmt.Sprintf("%s: left out: %v", l.Name, err))
			continue
		}
		usable = append(usable, compare.Leg{Name: l.Name, Points: points})
	}
	if len(usable) < 2 {
		return nil, fmt.Errorf("fewer than two configurations have a run that counts: %s", strings.Join(marks, "; "))
	}
	return compare.Configurations(usable, marks...)
}

// scaled returns the scaling of configurations that differ in processors or partitions, nil for others and for steps
// that do not carry it.
func scaled(legs []compare.Leg) *scaling.Report {
	var all []point.Point
	for i := range legs {
		if usable, err := point.Usable(legs[i].Points); err == nil {
			all = append(all, usable...)
		}
	}
	same := func(p *point.Point) [2]int { return [2]int{p.Processors, p.Partitions} }
	if len(all) == 0 || point.Same(all, "configuration", same) == nil {
		return nil
	}
	r, err := scaling.Analyse(all, publishedCurves(), 0)
	if err != nil {
		return nil
	}
	return r
}
