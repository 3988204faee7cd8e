package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"doublet/plan/page"
	"doublet/plan/production"
	"doublet/plan/series"
	"doublet/plan/study"

	"github.com/spf13/cobra"
)

// planner makes the commands of doublet plan.
type planner struct{ *app }

func (p planner) command() *cobra.Command {
	return group("plan", "what servers cost, how they scale, and how many are needed", planHelp,
		p.production(), p.scaling(), p.compare(), p.cluster(), p.size(), p.workload(), p.study())
}

const planHelp = `Measure servers in production before and after a change, see how they scale, compare releases,
diagnose a cluster, and compute what a number of people needs. Input is the time series of any mail server, or run
files of doublet bench. Each figure has its interval of 95 % confidence; where the data carry none, the answer is "no
decision".

  doublet plan production mail1.csv --changed 2026-03-01       what an upgrade did to the CPU of a user
  doublet plan size runs/*.run --people 5000 --html size.html   how many servers 5,000 people need
  doublet plan study 004                                       what a document found, recomputed`

// usage returns an error in the arguments.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}

// finish saves the page of a result, if it has a path, and prints the result.
func (p planner) finish(path string, x interface{ HTML(io.Writer) error }, asJSON bool,
	v interface{ Text() string }) error {
	if err := p.savePage(path, x); err != nil {
		return err
	}
	return p.print(asJSON, v)
}

// savePage writes a page to a file, unless the path is empty.
func (a *app) savePage(path string, x interface{ HTML(io.Writer) error }) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := x.HTML(&b); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return err
	}
	fmt.Fprintln(a.err, path)
	return nil
}

const inputHelp = `Input is CSV, the output of sadf -d (sysstat), or answers of Prometheus (JSON files, or URLs of
/api/v1/query_range); NAME=FILE.json names the measure of a query. collect: is the statistics database of the server of
--data, collect:FOLDER that of another data folder. A CSV file begins with a line of names: time (the end
of the interval), server, and measures, with a unit in brackets and _total for counters. An empty field is a missing
value, not 0:

  time,server,users,cpu[s],cpu:Server[s],cpu:Router[s],messages_total
  2026-03-02T08:15:00+01:00,mail1,348,412.5,300.1,20.2,18250

`

func measuresHelp() string {
	var b strings.Builder
	for _, m := range series.Measures() {
		fmt.Fprintf(&b, "  %-36s %s\n", m[0], m[1])
	}
	return b.String()
}

// dateFlag parses a day or a time of a flag.
func dateFlag(name, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, zone)
	if err != nil {
		return t, usage(fmt.Errorf("--%s %q: want a day as 2026-03-01", name, text))
	}
	return t, nil
}

const productionHelp = `Compute the processor seconds of an active user in the prime shift, total and by task, and with
--changed what a change did to them. Faults that mislead such a comparison are warned of: another workload, few users,
tasks that dilute a gain, holidays, another season. "No decision" is an answer.

`

// hours parses the prime shift, such as 8-16.
func hours(text string) (from, to int, err error) {
	first, last, _ := strings.Cut(text, "-")
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < 0 || to > 24 || from >= to {
		return 0, 0, usage(fmt.Errorf("--shift %q: want hours as 8-16", text))
	}
	return from, to, nil
}

func (p planner) production() *cobra.Command {
	var o production.Options
	var server, other, zone, changed, shift, html string
	var processors int
	var asJSON bool
	cmd := &cobra.Command{
		Use: "production INPUT…", Short: "CPU of an active user in production, before and after a change",
		Args: count(1, 1000), Long: productionHelp + inputHelp + measuresHelp(),
		Example: `  doublet plan production mail1.csv --changed 2026-03-01 --holiday 2026-01-01 --html mail1.html
  sadf -d -U /var/log/sysstat/sa25 -- -u > cpu.txt; doublet plan production cpu.txt users.csv --server mail1`,
	}
	f := cmd.Flags()
	f.StringVar(&changed, "changed", "", "day of the change, 2026-03-01 (default: no comparison)")
	f.StringVar(&server, "server", "", "only this server (default: each one in the input)")
	f.StringVar(&other, "beside", "", "a server in the input that was not changed, as a control")
	f.StringVar(&zone, "zone", "UTC", "time zone of the prime shift, and of times without one, as Europe/Berlin")
	f.StringVar(&shift, "shift", "8-16", "hours of the prime shift, Monday to Friday")
	f.StringSliceVar(&o.Holidays, "holiday", nil, "days to leave out, 2026-12-25")
	f.StringSliceVar(&o.LeftOut, "leave-out", nil,
		"tasks that are no work of users (default "+strings.Join(production.Maintenance, ",")+")")
	f.IntVar(&o.Settle, "settle", 0, "days after the change to leave out")
	f.Float64Var(&o.MinUsers, "min-users", 50, "the fewest active users that carry a decision")
	f.IntVar(&processors, "processors", 0, "processors of the servers, for sadf files that do not tell")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the bootstrap")
	f.StringVar(&html, "html", "", "write a page with the figures to this file")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if o.Zone, err = time.LoadLocation(zone); err != nil {
			return usage(fmt.Errorf("--zone %q: %w", zone, err))
		}
		if o.From, o.To, err = hours(shift); err != nil {
			return err
		}
		if !(o.MinUsers >= 1) {
			return usage(fmt.Errorf("--min-users %g: want 1 or more", o.MinUsers))
		}
		if o.Changed, err = dateFlag("changed", changed, o.Zone); err != nil {
			return err
		}
		set := series.NewSet()
		if zone != "UTC" {
			set.Zone = o.Zone
		}
		set.Processors = processors
		if err := p.read(cmd.Context(), set, args); err != nil {
			return usage(err)
		}
		return p.analyse(set, server, other, o, html, asJSON)
	}
	return cmd
}

// analyse analyses the servers of a set, and prints and saves the result.
func (p planner) analyse(set *series.Set, server, other string, o production.Options, html string, asJSON bool) error {
	set.Inspect()
	var lines []string
	for _, f := range set.Findings() {
		lines = append(lines, f.String())
		fmt.Fprintln(p.err, f)
	}
	var reports []*production.Report
	for _, f := range set.Servers() {
		if server != "" && f.Server != server || server == "" && f.Server == other {
			continue
		}
		r, err := production.Analyse(set, f.Server, other, o)
		if err != nil {
			return usage(err)
		}
		reports = append(reports, r)
	}
	if len(reports) == 0 {
		return usage(fmt.Errorf("no server %q in the input", server))
	}
	if err := p.savePage(html, production.Page(reports, lines)); err != nil {
		return err
	}
	if asJSON {
		return p.printJSON(map[string]any{"servers": reports, "findings": set.Findings()})
	}
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(p.out)
		}
		if err := p.print(false, r); err != nil {
			return err
		}
	}
	return nil
}

// read reads inputs: files of any form, and URLs of Prometheus.
func (p planner) read(ctx context.Context, set *series.Set, inputs []string) error {
	for _, input := range inputs {
		name, path := "", input
		if before, after, named := strings.Cut(input, "="); named && !strings.ContainsAny(before, "/:?.") {
			name, path = before, after
		}
		if err := p.readOne(ctx, set, name, path); err != nil {
			return err
		}
	}
	return nil
}

func (p planner) readOne(ctx context.Context, set *series.Set, name, path string) error {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return fetch(ctx, set, name, path)
	}
	if folder, ok := strings.CutPrefix(path, collectInput); ok {
		return p.readCollected(ctx, set, folder)
	}
	_, err := readFile(path, func(f io.Reader) (none struct{}, err error) {
		in := bufio.NewReaderSize(f, 64<<10)
		head, err := in.Peek(512)
		if err != nil && !errors.Is(err, io.EOF) {
			return none, fmt.Errorf("%s: %w", path, err)
		}
		switch text := strings.TrimSpace(string(head)); {
		case strings.HasPrefix(text, "{"):
			return none, set.ReadPrometheus(in, path, name)
		case strings.HasPrefix(text, "# hostname;"), strings.Contains(text, "LINUX-RESTART"):
			return none, set.ReadSadf(in, path)
		}
		return none, set.ReadCSV(in, path, strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	})
	return err
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

// fetchTimeout bounds a query of Prometheus.
const fetchTimeout = 2 * time.Minute

// fetch reads an answer of Prometheus. Messages and pages name the address without its password.
func fetch(ctx context.Context, set *series.Set, name, address string) (err error) {
	at, err := url.Parse(address)
	if err != nil {
		var parse *url.Error
		errors.As(err, &parse) // its text has the whole address
		return fmt.Errorf("address of Prometheus: %w", parse.Err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: fetchTimeout}).Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	// Prometheus explains its errors in the body, as JSON.
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return fmt.Errorf("%s: status %s and no JSON: is it /api/v1/query_range of Prometheus?", at.Redacted(),
			resp.Status)
	}
	return set.ReadPrometheus(resp.Body, at.Redacted(), name)
}

func (p planner) study() *cobra.Command {
	var html string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "study [DOCUMENT]", Short: "what the five documents found, recomputed from their figures",
		Args: count(0, 1),
		Long: `Recompute every percentage, ratio and conclusion that the five documents print (000 to 004) from the
figures in them, and list those that err. Without a document: all of them.`,
	}
	cmd.Flags().StringVar(&html, "html", "", "write the study's page to this file (one document)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the statements as JSON")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		document := ""
		if len(args) > 0 {
			document = args[0]
		}
		s, err := study.Of(document)
		if err != nil {
			return usage(err)
		}
		if html != "" {
			var x *page.Page
			if x, err = s.Page(); err != nil {
				return usage(err)
			}
			if err := p.savePage(html, x); err != nil {
				return err
			}
		}
		return p.print(asJSON, s)
	}
	return cmd
}
