package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"doublet/bench/record"
	"doublet/bench/report"

	"github.com/spf13/cobra"
)

// readRuns reads run files. The paths are separated by commas; all belong to one side of a comparison.
func readRuns(paths string) ([]*record.Run, error) {
	var out []*record.Run
	for _, path := range strings.Split(paths, ",") {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		r, err := record.Read(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *app) benchReport() *cobra.Command {
	var out string
	var pictures bool
	cmd := &cobra.Command{
		Use: "report RUN", Short: "make a page, tables and pictures of a run file", Args: count(1, 1),
		Long: "Write RUN.html, which opens from disk without a network, and RUN.csv beside the run file; with --png " +
			"each figure as a\npicture too. Several files with commas between are the parts of one run that several " +
			"drivers measured.",
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write to (default: that of the run file)")
	cmd.Flags().BoolVar(&pictures, "png", false, "write the figures as pictures too")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		runs, err := readRuns(args[0])
		if err != nil {
			return err
		}
		all := runs[0]
		if len(runs) > 1 {
			if all, err = record.Merge(runs...); err != nil {
				return err
			}
		}
		first := strings.Split(args[0], ",")[0]
		if out == "" {
			out = filepath.Dir(first)
		}
		return a.writeReport(all, filepath.Join(out, strings.TrimSuffix(filepath.Base(first), ".run")), pictures)
	}
	return cmd
}

func (a *app) writeReport(run *record.Run, base string, pictures bool) error {
	r := report.Of(run)
	if err := os.MkdirAll(filepath.Dir(base), 0o700); err != nil {
		return err
	}
	save := func(path string, fn func(io.Writer) error) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(fn(f), f.Close()); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.out, path)
		return err
	}
	if err := save(base+".html", r.HTML); err != nil {
		return err
	}
	if err := save(base+".csv", r.CSV); err != nil {
		return err
	}
	if !pictures {
		return nil
	}
	for _, c := range r.Figures {
		name := strings.ReplaceAll(strings.ToLower(c.Title), " ", "-")
		if err := save(base+"-"+name+".png", c.PNG); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) benchCompare() *cobra.Command {
	var anyway, asJSON bool
	cmd := &cobra.Command{
		Use: "compare A B", Short: "print what B uses against A at the same numbers of users", Args: count(2, 2),
		Long: "Print the table \"Resource usage at N users comparing A to B\". Give several runs of one side with " +
			"commas between (A1,A2,A3):\ntheir means are compared, and their spread is the noise that a change has " +
			"to exceed.",
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tables as JSON")
	cmd.Flags().BoolVar(&anyway, "anyway", false, "compare runs of different workloads, protocols, hosts or speeds too")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		first, err := readRuns(args[0])
		if err != nil {
			return err
		}
		second, err := readRuns(args[1])
		if err != nil {
			return err
		}
		tables, err := report.Compare(first, second, anyway)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if asJSON {
			out := json.NewEncoder(a.out)
			out.SetIndent("", "  ")
			return out.Encode(tables)
		}
		for i := range tables {
			if i > 0 {
				fmt.Fprintln(a.out)
			}
			if _, err := io.WriteString(a.out, tables[i].Text()); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
