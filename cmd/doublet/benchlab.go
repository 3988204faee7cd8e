package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doublet/admin"
	"doublet/bench"
	"doublet/bench/drive"
	"doublet/bench/measure"
	"doublet/bench/result"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/lab"

	"github.com/spf13/cobra"
)

// labFlags are the flags of doublet bench lab.
type labFlags struct {
	benchFlags
	series   lab.Series
	slowDisk time.Duration
	cache    int
	settings []string
	rules    []string
	script   string
}

// add adds the flags to a command.
func (o *labFlags) add(cmd *cobra.Command) {
	o.targetFlags(cmd)
	o.runFlags(cmd)
	f, s := cmd.Flags(), &o.series
	f.StringVar(&s.Options.Dir, "dir", "lab",
		"folder of the lab, which is made; several names have folders of theirs in it")
	f.IntVar(&s.Options.People, "people", 0,
		"people that are made (default: as many as are active, else those of the document)")
	f.IntVar(&s.Options.Replicators, "replicators", 0, replicatorsHelp)
	f.DurationVar(&o.slowDisk, "slow-disk", 0,
		"how much longer a flush takes, of a server that has a slow disk (field: 100ms)")
	f.IntVar(&o.cache, "db-cache", 0,
		"databases that stay open in memory, of a server that has a small cache (field: 20)")
	f.StringVar(&s.Options.Acknowledge, "acknowledge", "",
		"when a change of a mail file is acknowledged: local, cluster, cluster-strict, early")
	f.StringArrayVar(&o.settings, "setting", nil, "a further setting of every server, KEY=VALUE; may be given again")
	f.StringArrayVar(&o.rules, "rule", nil,
		"a mail rule of the domain, NAME=JSON as in doublet rules add; may be given again")
	f.StringVar(&s.Options.CPUs, "cpus", "", "processors that the servers may use, such as 0 or 0,2-3 (needs taskset)")
	f.Float64Var(&s.Options.Quota, "quota", 0,
		"processors that a control group of its own gives each server, such as 0.5, as if it were a guest (needs root)")
	f.StringVar(&s.Options.Program, "program", "",
		"another build of doublet that the servers run, with the same format of the store")
	f.StringVar(&o.script, "script", "",
		"script of a mail server of another make, which is measured in place of a configuration: a path, "+
			"dovecot-postfix or cyrus-postfix (JMAP)")
	f.StringVar(&s.Workload, "run", "", "let people work: a workload, or - for the document's own")
	f.StringVar(&s.Users, "users", "", "people active: a number, or a range 200..1000 (default: the document's)")
	f.IntVar(&s.Step, "step", 0, "step of a range")
	f.IntVar(&o.Repeat, "repeat", 1, repeatHelp)
	f.StringArrayVar(&o.FailIf, "fail-if", nil, failIfHelp)
}

// labSeries returns the labs that the flags of a command describe.
func (w workbench) labSeries(cmd *cobra.Command, o *labFlags) (*lab.Series, error) {
	s := o.series
	if cmd.Flags().Changed("slow-disk") {
		s.Options.SlowDisk = &o.slowDisk
	}
	if cmd.Flags().Changed("db-cache") {
		s.Options.Cache = &o.cache
	}
	s.Options.Settings = lab.Settings{}
	for _, text := range o.settings {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, bench.Usage("--setting %s: want KEY=VALUE", text)
		}
		s.Options.Settings[name] = value
	}
	for _, text := range o.rules {
		rule, err := lab.ParseRule(text)
		if err != nil {
			return nil, err
		}
		s.Options.Rules = append(s.Options.Rules, rule)
	}
	var err error
	if s.Builder, err = w.builder(); err != nil {
		return nil, err
	}
	s.Measure, s.Faults, s.Console, s.Out = o.Options, o.faults, w.console(), w.out
	s.Faults.Window = o.Window
	if o.script != "" {
		s.Foreign = func(m *measure.Options, printed []lab.Setting) (measure.Site, error) {
			return w.foreign(m, printed, o.faults.Ledger)
		}
		s.Script, err = lab.NewScript(s.Env, o.script, s.Options.CPUs)
	}
	return &s, err
}

// foreign returns the site of the server of a script, and sets the options of the run, by the flags of doublet bench
// run that the script has printed.
func (w workbench) foreign(o *measure.Options, printed []lab.Setting, ledger bool) (measure.Site, error) {
	var f benchFlags
	cmd := &cobra.Command{}
	f.targetFlags(cmd)
	f.metered(cmd)
	ours := []string{"seed", "init-scale", "workers", "registered", "admin"}
	for _, x := range printed {
		if cmd.Flags().Lookup(x.Name) == nil || slices.Contains(ours, x.Name) {
			return nil, fmt.Errorf("it prints %s=%s, which is no flag of a server under test", x.Name, x.Value)
		}
		if err := cmd.Flags().Set(x.Name, x.Value); err != nil {
			return nil, fmt.Errorf("it prints %s=%s: %w", x.Name, x.Value, err)
		}
	}
	f.admin = "-"
	site := f.site(w.doublet(w.env(), &f))
	if site.Doors == nil {
		return nil, errors.New("it prints no door, such as imap=127.0.0.1:143")
	}
	site.Ledger = ledger
	o.Target, o.StartTLS, o.Insecure = f.Target, f.StartTLS, f.Insecure
	if cmd.Flags().Changed("fill-over") {
		o.FillOver = f.FillOver
	}
	return site, nil
}

func (w workbench) lab() *cobra.Command {
	var o labFlags
	var list bool
	var words strings.Builder
	for _, c := range lab.All() {
		fmt.Fprintf(&words, "\n%s: %s\n  %s\n", c.Name, c.Title, strings.ReplaceAll(c.Words, "\n", "\n  "))
	}
	cmd := &cobra.Command{
		Use: "lab NAME…", Short: "set up the configurations of document 004 as servers on this machine",
		Args: cobra.ArbitraryArgs,
		Long: labHelp + words.String(),
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&list, "list", false, "list the configurations")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if list {
			for _, c := range lab.All() {
				fmt.Fprintf(w.out, "%-14s %s\n", c.Name, c.Title)
			}
			return nil
		}
		s, err := w.labSeries(cmd, &o)
		if err != nil {
			return err
		}
		ctx, stop := untilHangup(cmd.Context())
		defer stop()
		runs, err := s.Run(ctx, args)
		if err != nil || len(runs) == 0 {
			return err
		}
		return w.printRuns(o.json, runs)
	}
	return cmd
}

const labHelp = `Set a configuration of document 004 up on this machine: real servers, each a process with its own data
folder and doors on loopback, in a cluster where the document has one, and people whose mail files lie where it says.
It tells where the doors are and holds until Ctrl-C; doublet bench run WORKLOAD --lab DIR lets people work there
meanwhile. With --run WORKLOAD it lets them work itself (all flags of doublet bench run), stops the servers, and ends;
several names are then run one after the other, and what a server takes is compared. A study (doublet study) runs them
in random order.

--script measures a mail server of another make in place of a configuration: "SCRIPT start DIR PEOPLE" starts it for so
many people in the empty folder DIR, and prints flags of doublet bench run, NAME=VALUE on a line each (target, doors,
user, address, password, monitor); "SCRIPT stop DIR" stops it. dovecot-postfix and, for --over jmap, cyrus-postfix
come with the program.
`

const replicatorsHelp = "Cluster Replicators of each server for each other one (default: that of cluster.replicators)"

// printRuns prints the results of runs. It returns an error if one exceeds a threshold.
func (w workbench) printRuns(asJSON bool, runs []*result.Result) (err error) {
	if len(runs) == 1 {
		err = w.print(asJSON, runs[0])
	} else {
		err = w.print(asJSON, result.NewSeries(runs))
	}
	for _, r := range runs {
		err = errors.Join(err, r.Fails())
	}
	return err
}

func (w workbench) cluster() *cobra.Command {
	var o lab.FigureOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use: "cluster [FIGURE…]", Short: "measure what a cluster of two servers on this machine does",
		Args: cobra.ArbitraryArgs,
		Long: "Set config4 up (two active servers in a cluster; doublet bench lab), measure, and stop it. The " +
			"figures, all of them where none\n" +
			"is named:\n" +
			"  idle         memory and processor time of servers that nobody works at, in the cluster and alone " +
			"(config1)\n" +
			"  lag          from a delivery acknowledged at one server to the notice to a session at the other, the " +
			"home of the mail file\n" +
			"  acknowledge  what the acknowledgement cluster adds to a delivery\n" +
			"  takeover     from the SIGKILL of the home to the open INBOX at the other server\n" +
			"  catchup      a server that was killed comes back and has to get so many notes\n" +
			"Driver and servers share this machine: compare on one that has nothing else to do.",
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder of the labs, which is made (default: a temporary one, which is removed)")
	f.IntVar(&o.People, "people", 100, "people, half of them on each server")
	f.Float64Var(&o.Rate, "rate", 1000, "deliveries a second of lag")
	f.Float64Var(&o.AcknowledgeRate, "acknowledge-rate", 100, "deliveries a second of acknowledge")
	f.DurationVar(&o.Length, "for", 20*time.Second, "how long each of idle, lag and acknowledge is measured")
	f.IntVar(&o.Notes, "notes", 50_000, "notes of catchup")
	f.IntVar(&o.Replicators, "replicators", 0, replicatorsHelp)
	f.BoolVar(&asJSON, "json", false, "print the figures as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, err := w.builder()
		if err != nil {
			return err
		}
		ctx, stop := untilHangup(cmd.Context())
		defer stop()
		figures, err := b.Figures(ctx, o, args)
		if err != nil {
			return err
		}
		return w.print(asJSON, figures)
	}
	return cmd
}

// builder returns a builder of labs whose servers run this program.
func (w workbench) builder() (*lab.Builder, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	silent := *w.app
	silent.out, silent.err = io.Discard, io.Discard
	server := func(s lab.Settings) (*newcomer, error) {
		cfg, _, err := config.Load(config.Demo(), "", nil, s)
		return &newcomer{&silent, cfg}, err
	}
	return &lab.Builder{
		Env: w.env(), Program: program, Progress: w.console().Note,
		Check: func(s lab.Settings) error {
			_, _, err := config.Load(config.Demo(), "", nil, s)
			return err
		},
		Make: func(ctx context.Context, s lab.Settings, first admin.UserAdd) error {
			n, err := server(s)
			if err == nil {
				_, err = n.makeStore(ctx, first)
			}
			return err
		},
		Join: func(ctx context.Context, s lab.Settings, name, token string) error {
			n, err := server(s)
			if err == nil {
				err = n.joinCluster(ctx, name, token, false)
			}
			return err
		},
	}, nil
}

// measuredDoublet is the Doublet that a benchmark drives, at its admin socket.
type measuredDoublet struct {
	env *env.Env
	// socket is the path of the admin socket that --admin names, - for none, "" for that of the data folder.
	socket string
	load   func() (config.Config, error)
}

func (w workbench) doublet(e *env.Env, o *benchFlags) *measuredDoublet {
	return &measuredDoublet{e, o.admin, func() (config.Config, error) {
		cfg, _, err := w.load(config.Default(), nil)
		return cfg, err
	}}
}

// path returns the path of the admin socket, "" for none.
func (d *measuredDoublet) path() (string, error) {
	switch d.socket {
	case "-":
		return "", nil
	case "":
		cfg, err := d.load()
		return filepath.Join(cfg.Data.Dir, admin.SocketName), err
	}
	return d.socket, nil
}

// Doors implements [measure.Doublet].
func (d *measuredDoublet) Doors(ctx context.Context) (map[string]string, error) {
	socket, err := d.path()
	if err != nil {
		return nil, err
	}
	if socket == "" {
		return nil, bench.Usage(
			"with --admin - name the server's doors, as with --imap HOST:PORT --submission HOST:PORT")
	}
	c, err := admin.Dial(d.env, socket)
	if err != nil {
		return nil, bench.Usage("no Doublet answers at %s: start one (make run), or set --data, or --imap and "+
			"--submission", socket)
	}
	server, err := admin.Do[admin.Server](ctx, c, "show server", struct{}{})
	if err != nil {
		return nil, fmt.Errorf("ask %s for its doors: %w", socket, err)
	}
	open := map[string]string{}
	for _, x := range server.Doors {
		open[x.Name] = x.Address
	}
	return open, nil
}

// Adder implements [measure.Doublet].
func (d *measuredDoublet) Adder() (func(context.Context, *drive.User) error, error) {
	socket, err := d.path()
	if err != nil || socket == "" {
		return nil, err
	}
	if _, err := os.Stat(socket); err != nil && d.socket == "" {
		return nil, nil // not a Doublet of ours: its users exist
	}
	c, err := admin.Dial(d.env, socket)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, u *drive.User) error {
		_, err := admin.Do[admin.User](ctx, c, "user add",
			admin.UserAdd{Name: u.Known, Short: u.Name, Address: u.Address, Password: u.Password})
		if admin.Kind(err) == "exists" {
			return nil
		}
		return err
	}, nil
}

// Statistics implements [measure.Doublet].
func (d *measuredDoublet) Statistics() func(context.Context) (map[string]float64, error) {
	socket, err := d.path()
	if err != nil || socket == "" {
		return nil
	}
	if _, err := admin.Dial(d.env, socket); err != nil {
		return nil // no Doublet of ours, or stopped
	}
	return func(ctx context.Context) (map[string]float64, error) { return lab.Statistics(ctx, d.env, socket) }
}

// PIDFile implements [measure.Doublet].
func (d *measuredDoublet) PIDFile() (string, error) {
	cfg, err := d.load()
	return filepath.Join(cfg.Data.Dir, pidFile), err
}

var _ measure.Doublet = (*measuredDoublet)(nil)
