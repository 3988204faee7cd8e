package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"doublet/bench"
	"doublet/bench/agent"
	"doublet/bench/measure"
	"doublet/bench/meter"
	"doublet/bench/progress"
	"doublet/bench/record"
	"doublet/bench/report"
	"doublet/bench/watch"
	"doublet/bench/workload"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/lab"

	"github.com/spf13/cobra"
)

// workbench makes the commands of doublet bench.
type workbench struct{ *app }

func (w workbench) command() *cobra.Command {
	return group("bench", "simulated people for every mail server, in the NotesBench tradition", benchHelp,
		w.workloads(), w.show(), w.init(), w.run(), w.max(), w.lab(), w.cluster(), w.agent(), w.monitor(), w.report(),
		w.compare())
}

const benchHelp = `Let simulated people work at a mail server, this one or any other that speaks IMAP, JMAP, SMTP or
POP3, and read the truth off it. Latency counts from the moment a user wanted the answer; what could not begin in time
is counted as missed.

  doublet bench workloads                      what people can be made to do
  doublet bench run n8mail --users 200..1000 --step 200 --speed 20 --init-scale 2% --window 60s --out runs

drives the demo on this machine. For another server, name its doors (--imap HOST:PORT --submission HOST:PORT) and
people (--accounts FILE.csv with name,password,address).`

// env returns the environment of a benchmark, which logs warnings only.
func (w workbench) env() *env.Env {
	cfg := config.Default()
	cfg.Log.Level = "warn"
	return world(&cfg, w.err)
}

func (w workbench) console() progress.Console {
	return progress.Console{Out: w.err, Terminal: isTerminal(w.err)}
}

func (w workbench) workloads() *cobra.Command {
	return &cobra.Command{
		Use: "workloads", Short: "list the workloads that come with the program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := workload.Builtin()
			if err != nil {
				return err
			}
			for _, x := range list {
				fmt.Fprintf(w.out, "%-15s %-9s %s\n", x.Name, x.Protocol, x.Title)
			}
			return nil
		},
	}
}

func (w workbench) show() *cobra.Command {
	var text, schema bool
	var set []string
	cmd := &cobra.Command{
		Use: "show WORKLOAD", Short: "explain a workload in words, or print its file", Args: count(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := io.WriteString(w.out, workload.Schema())
				return err
			}
			if len(args) == 0 {
				return bench.Usage("name a workload (list: doublet bench workloads)")
			}
			x, file, err := workload.Load(args[0])
			if err != nil {
				return err
			}
			if text {
				_, err = w.out.Write(file)
				return err
			}
			values, err := x.ParseSet(set)
			if err != nil {
				return err
			}
			_, err = io.WriteString(w.out, x.Explain(values))
			return err
		},
	}
	cmd.Flags().BoolVar(&text, "file", false, "print the file, to begin one's own with")
	cmd.Flags().BoolVar(&schema, "schema", false, "print what a workload file may hold")
	cmd.Flags().StringArrayVar(&set, "set", nil, "change a parameter, NAME=NUMBER")
	return cmd
}

func (w workbench) init() *cobra.Command {
	var o benchFlags
	cmd := &cobra.Command{
		Use: "init WORKLOAD", Short: "make the people and fill their mailboxes", Args: count(1, 1),
		Long: "Make the people (of a Doublet server, through its socket) and fill their mailboxes, in parallel and " +
			"the same for the\nsame seed. Begun again, it goes on where it was stopped; mailboxes that hold too " +
			"much are cut back.",
	}
	o.targetFlags(cmd)
	cmd.Flags().StringVar(&o.users, "users", "100", "how many people")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e := w.env()
		j, err := measure.New(e, w.console(), &o.Options, args[0])
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(o.users)
		if err != nil || n < 1 {
			return bench.Usage("--users %s is no number of people", o.users)
		}
		return j.Init(cmd.Context(), o.site(w.doublet(e, &o)), n)
	}
	return cmd
}

func (w workbench) run() *cobra.Command {
	var o benchFlags
	var folder string
	cmd := &cobra.Command{
		Use: "run WORKLOAD", Short: "let people work, in steps, and measure", Args: count(1, 1),
		Long: "Make and fill the mailboxes, sign the users of each step in, wait until rate and median are steady, " +
			"and measure a window.\nEverything goes into one run file in --out. Ctrl-C ends the run in order and " +
			"keeps what was measured.",
	}
	o.targetFlags(cmd)
	o.runFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.users, "users", "100", "people active: a number, or a range 200..1000")
	f.IntVar(&o.step, "step", 0, "step of a range")
	f.IntVar(&o.Repeat, "repeat", 1, repeatHelp)
	f.StringArrayVar(&o.FailIf, "fail-if", nil, failIfHelp)
	f.StringVar(&folder, "lab", "", "folder of a lab (doublet bench lab): its servers and its people")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		steps, err := measure.ParseSteps(o.users, o.step)
		if err != nil {
			return err
		}
		return w.measure(cmd, &o, folder, args[0], steps, nil)
	}
	return cmd
}

func (w workbench) max() *cobra.Command {
	var o benchFlags
	var s measure.Search
	cmd := &cobra.Command{
		Use: "max WORKLOAD", Short: "find the most people that the server serves well", Args: count(1, 1),
		Long: "Double the number of people until a step is bad, then halve what lies between. A step is good when " +
			"its load was steady,\nits average response is within the workload's limit (1 s, as the documents have " +
			"it), its p99 within --p99, and at most\n--max-failed of its actions failed or were missed. The answer " +
			"is measured twice. All steps are in one run file.",
	}
	o.targetFlags(cmd)
	o.runFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.users, "users", "100..10000", "where to begin, and where to end at most")
	f.IntVar(&s.Precision, "precision", 0,
		"how near the answer must come, in people (default: a tenth of where it begins)")
	f.DurationVar(&s.P99, "p99", 0, "the longest p99 that is good (default: any)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		bounds, err := measure.ParseSteps(o.users, 1)
		if err != nil {
			return err
		}
		s.Least, s.Most = bounds[0], bounds[len(bounds)-1]
		if s.Precision <= 0 {
			s.Precision = max(1, s.Least/10)
		}
		return w.measure(cmd, &o, "", args[0], []int{s.First()}, &s)
	}
	return cmd
}

// measure runs a workload, at the lab of a folder or else at one server, and prints the result.
func (w workbench) measure(cmd *cobra.Command, o *benchFlags, folder, name string, steps []int,
	search *measure.Search) error {
	e := w.env()
	var site measure.Site
	if folder == "" {
		if len(o.faults.Kill)+len(o.faults.Restart) > 0 {
			return bench.Usage("--kill and --restart are about the servers of a lab: give --lab DIR")
		}
		o.server.Ledger = o.faults.Ledger
		site = o.site(w.doublet(e, o))
	} else {
		l, err := lab.Load(e, folder)
		if err != nil {
			return bench.Usage("%w", err)
		}
		o.faults.Window = o.Window
		if site, err = l.Site(o.faults); err != nil {
			return err
		}
		l.Describe(&o.Options)
	}
	j, err := measure.New(e, w.console(), &o.Options, name)
	if err != nil {
		return err
	}
	r, err := j.Run(cmd.Context(), site, steps, search)
	if err == nil {
		err = w.print(o.json, r)
	}
	if err != nil {
		return err
	}
	return r.Fails()
}

func (w workbench) agent() *cobra.Command {
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
		e := w.env()
		if secret == "" && !loopbackName(listen) {
			return bench.Usage("--listen beyond loopback needs a --secret")
		}
		l, err := e.Listen("tcp", listen)
		if err != nil {
			return err
		}
		self, cores := watch.Driver(e)
		fmt.Fprintln(w.out, "agent listens at", l.Addr())
		return agent.NewServer(e, secret, agent.Facts{Host: meter.Host(""), Build: version()}, cores,
			self).Serve(cmd.Context(), l)
	}
	return cmd
}

func (w workbench) monitor() *cobra.Command {
	var listen string
	var groups []string
	cmd := &cobra.Command{
		Use: "monitor", Short: "sample this machine for a benchmark that is driven from another one",
		Args: cobra.NoArgs,
		Long: "Answer a doublet bench run --monitor-at HOST:PORT with what this machine and the processes named are " +
			"doing. Anybody who\nreaches the port can read it; it changes nothing. It ends with Ctrl-C.",
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7333", "where to listen, host:port")
	cmd.Flags().StringArrayVar(&groups, "monitor", nil, "processes that are the server: "+groupForm)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := watch.Groups(groups)
		if err != nil {
			return err
		}
		m, err := meter.New(list)
		if err != nil {
			return err
		}
		e := w.env()
		l, err := e.Listen("tcp", listen)
		if err != nil {
			return err
		}
		fmt.Fprintln(w.out, "monitor listens at", l.Addr())
		return watch.Monitor(cmd.Context(), e, l, m)
	}
	return cmd
}

// readRuns reads run files. The paths are separated by commas.
func readRuns(paths string) (out []*record.Run, err error) {
	for _, path := range strings.Split(paths, ",") {
		r, err := record.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (w workbench) report() *cobra.Command {
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
		first, _, _ := strings.Cut(args[0], ",")
		if out == "" {
			out = filepath.Dir(first)
		}
		return report.Of(all).Save(filepath.Join(out, strings.TrimSuffix(filepath.Base(first), ".run")), pictures,
			func(path string) { fmt.Fprintln(w.out, path) })
	}
	return cmd
}

func (w workbench) compare() *cobra.Command {
	var anyway, asJSON bool
	var page string
	cmd := &cobra.Command{
		Use: "compare A B", Short: "print what B uses against A at the same numbers of users", Args: count(2, 2),
		Long: "Print the table \"Resource usage at N users comparing A to B\". With several runs of a side (commas " +
			"between: A1,A2,A3)\nor steps that were repeated (bench run --repeat), each change has its interval of " +
			"95 % confidence. Runs that do not\nmeasure the same are refused: another workload, protocol, machine, " +
			"number of people, TLS, speed, window, or other marks.",
	}
	cmd.Flags().StringVar(&page, "html", "",
		"write a page with the tables and a figure of each resource over the numbers of users to this file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tables as JSON")
	cmd.Flags().BoolVar(&anyway, "anyway", false,
		"compare runs that do not measure the same too, and list the differences")
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
			return bench.Usage("%w", err)
		}
		if page != "" {
			if err := report.NewSeries(tables).Save(page); err != nil {
				return err
			}
		}
		if asJSON {
			return w.printJSON(tables)
		}
		for i := range tables {
			if i > 0 {
				fmt.Fprintln(w.out)
			}
			if _, err := io.WriteString(w.out, tables[i].Text()); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
