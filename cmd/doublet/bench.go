package main

import (
	"context"
	"crypto/tls"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/admin"
	"doublet/bench/drive"
	"doublet/bench/fill"
	"doublet/bench/workload"
	"doublet/cmd/doublet/config"
	"doublet/cmd/doublet/lab"
	"doublet/env"

	"github.com/spf13/cobra"
)

// benchOptions are the flags that select the measured server and the simulated users.
type benchOptions struct {
	name, accounts, admin       string
	user, password, address     string
	doors                       map[string]*string
	startTLS, insecure          bool
	users                       string
	step, registered            int
	seed                        uint64
	speed, initScale, loginRate float64
	window, interval, settle    time.Duration
	over, label, out            string
	set                         []string
	keep, cold                  bool
	workers                     int
	fillOver                    string
	timeout                     time.Duration
	failIf                      []string
	groups                      []string
	monitorAt, metrics          string
	agents                      []string
	secret, live                string
	json                        bool
	lab                         string
	kill, restart               []string
	ledger                      bool
	fleet                       *fleet // the servers of a lab, nil for one server
	// The flags of bench max.
	precision int
	p99       time.Duration
}

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "simulated people for every mail server, in the NotesBench tradition",
		Long: "Let simulated people work at a mail server, this one or any other that speaks IMAP, JMAP, SMTP or " +
			"POP3, and read the truth\noff it. Latency counts from the moment a user wanted the answer; what could " +
			"not begin in time is counted as missed.\n\n" +
			"  doublet bench workloads                      what people can be made to do\n" +
			"  doublet bench run n8mail --users 200..1000 --step 200 --speed 20 --init-scale 2% --window 60s --out " +
			"runs\n" +
			"drives the demo on this machine. For another server, name its doors (--imap HOST:PORT --submission " +
			"HOST:PORT) and people\n(--accounts FILE.csv with name,password,address).",
		RunE: unknownWord,
	}
	cmd.AddCommand(a.benchWorkloads(), a.benchShow(), a.benchInit(), a.benchRun(), a.benchMax(), a.benchLab(),
		a.benchCluster(), a.benchAgent(), a.benchMonitor(), a.benchReport(), a.benchCompare())
	return cmd
}

func (a *app) benchWorkloads() *cobra.Command {
	return &cobra.Command{
		Use: "workloads", Short: "list the workloads that come with the program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := workload.Builtin()
			if err != nil {
				return err
			}
			for _, w := range list {
				fmt.Fprintf(a.out, "%-15s %-9s %s\n", w.Name, w.Protocol, w.Title)
			}
			return nil
		},
	}
}

func (a *app) benchShow() *cobra.Command {
	var text, schema bool
	var set []string
	cmd := &cobra.Command{
		Use: "show WORKLOAD", Short: "explain a workload in words, or print its file", Args: count(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			if schema {
				_, err := io.WriteString(a.out, workload.Schema())
				return err
			}
			if len(args) == 0 {
				return &exitError{exitUsage, errors.New("name a workload (list: doublet bench workloads)")}
			}
			w, err := loadWorkload(args[0])
			if err != nil {
				return err
			}
			if text {
				b, err := workload.Text(args[0])
				if err != nil {
					return err
				}
				_, err = a.out.Write(b)
				return err
			}
			values, err := parameters(w, set)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.out, w.Explain(values))
			return err
		},
	}
	cmd.Flags().BoolVar(&text, "file", false, "print the file, to begin one's own with")
	cmd.Flags().BoolVar(&schema, "schema", false, "print what a workload file may hold")
	cmd.Flags().StringArrayVar(&set, "set", nil, "change a parameter, NAME=NUMBER")
	return cmd
}

// loadWorkload returns the built-in workload of that name, or else reads the file of that name.
func loadWorkload(name string) (*workload.Workload, error) {
	w, err := workload.ByName(name)
	if !errors.Is(err, workload.ErrUnknown) {
		return w, err
	}
	text, ferr := os.ReadFile(name)
	if ferr != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%w, and no such file (list: doublet bench workloads)", err)}
	}
	w, err = workload.Parse(name, text)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return w, nil
}

func parameters(w *workload.Workload, set []string) (map[string]int, error) {
	out := make(map[string]int)
	for _, s := range set {
		name, value, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(value)
		if _, ok := w.Parameters[name]; !ok || err != nil || n < 0 || n > 10_000 {
			return nil,
				&exitError{exitUsage,
					fmt.Errorf("--set %s: %s has no such parameter, or the value is not 0 to 10,000 (see doublet "+
						"bench show %s)", s, w.Name, w.Name)}
		}
		out[name] = n
	}
	return out, nil
}

// targetFlags adds the flags of commands that drive a server.
func (o *benchOptions) targetFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.doors = map[string]*string{}
	for _, d := range benchDoors {
		o.doors[d.flag] = f.String(d.flag, "", "door "+d.flag+
			", host:port (default: those of the running Doublet, where no door is named)")
	}
	f.StringVar(&o.name, "target", "doublet", "name of the server, for reports")
	f.BoolVar(&o.startTLS, "starttls", false, "start TLS at the doors that are plain")
	f.BoolVar(&o.insecure, "insecure", true, "take any certificate")
	f.StringVar(&o.accounts, "accounts", "",
		"CSV file of the people: name,password,address, with a first line that says so")
	f.StringVar(&o.user, "user", "mail%d", "name under which person number %d signs in, without --accounts")
	f.StringVar(&o.password, "password", "bench", "password of everybody, without --accounts")
	f.StringVar(&o.address, "address", "mail%d@example.com", "address of person number %d, without --accounts")
	f.StringVar(&o.admin, "admin", "",
		"socket of a Doublet server, for making the people (default: that of the data folder, if it is there; - for "+
			"none)")
	f.Uint64Var(&o.seed, "seed", 1, "what all that is random follows from")
	o.initScale = 1
	f.Var((*percent)(&o.initScale), "init-scale",
		"share of the workload's mailbox that is filled, such as 2%; less than all of it is marked in the report")
	f.IntVar(&o.workers, "workers", 8, "mailboxes filled at one time")
	f.StringVar(&o.fillOver, "fill-over", workload.IMAP,
		"how messages come into mailboxes that are filled: imap or jmap, with flags and dates, or lmtp, new")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long one answer may take before it counts as failed")
	f.IntVar(&o.registered, "registered", 0,
		"people there are; more than are active makes the others receive mail (default: the largest step)")
}

// percent is the value of a flag such as 2% or 0.02.
type percent float64

func (p *percent) String() string { return strconv.FormatFloat(float64(*p)*100, 'g', -1, 64) + "%" }
func (p *percent) Type() string   { return "share" }
func (p *percent) Set(s string) error {
	number, isPercent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if isPercent {
		v /= 100
	}
	if err != nil || v < 0 || v > 1 {
		return fmt.Errorf("%q is no share from 0%% to 100%%", s)
	}
	*p = percent(v)
	return nil
}

// people returns the simulated users, from the CSV file or from the patterns for names.
func (o *benchOptions) people(n int) ([]drive.User, error) {
	if o.accounts == "" {
		out := make([]drive.User, n)
		for i := range out {
			out[i] = drive.User{Index: i, Name: numbered(o.user, i+1), Password: o.password,
				Address: numbered(o.address, i+1)}
		}
		return out, nil
	}
	f, err := os.Open(o.accounts)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.accounts, err)
	}
	column := map[string]int{}
	if len(rows) == 0 {
		rows = [][]string{nil}
	}
	for i, name := range rows[0] {
		column[strings.TrimSpace(name)] = i
	}
	for _, name := range []string{"name", "password", "address"} {
		if _, ok := column[name]; !ok {
			return nil, &exitError{exitUsage,
				fmt.Errorf("%s: the first line must name the columns name, password and address", o.accounts)}
		}
	}
	var out []drive.User
	for _, row := range rows[1:] {
		out = append(out, drive.User{Index: len(out), Name: row[column["name"]], Password: row[column["password"]],
			Address: row[column["address"]]})
	}
	if len(out) < n {
		return nil, &exitError{exitUsage, fmt.Errorf("%s names %d people, %d active ones requested", o.accounts,
			len(out), n)}
	}
	return out, nil
}

func numbered(pattern string, n int) string {
	return strings.Replace(pattern, "%d", strconv.Itoa(n), 1)
}

// world returns the state that the sessions share.
func (o *benchOptions) world(e *env.Env, w *workload.Workload, users []drive.User) *drive.World {
	doors := make(map[string]string)
	for name, value := range o.doors {
		if *value != "" && *value != config.Off {
			doors[name] = *value
		}
	}
	return o.worldAt(e, w, users, doors)
}

func (o *benchOptions) worldAt(e *env.Env, w *workload.Workload, users []drive.User,
	doors map[string]string) *drive.World {
	return &drive.World{
		Env: e, Workload: w, Seed: o.seed, Speed: o.speed, Users: users, FillOver: o.fillOver, Cold: o.cold,
		Label:  fmt.Sprintf("run%d", e.Clock.Now().Unix()),
		Target: drive.Target{Doors: doors, TLS: &tls.Config{InsecureSkipVerify: o.insecure}, StartTLS: o.startTLS, Timeout: o.timeout}, //nolint:gosec // asked for; the certificate is not what is measured
	}
}

// makePeople adds the missing users to a Doublet server. Users of other servers have to exist.
func (a *app) makePeople(ctx context.Context, e *env.Env, o *benchOptions, users []drive.User) error {
	socket, err := a.socket(o)
	if err != nil || socket == "" {
		return err
	}
	if _, err := os.Stat(socket); err != nil && o.admin == "" {
		return nil // not a Doublet of ours: its users exist
	}
	c, err := admin.Dial(e, socket)
	if err != nil {
		return err
	}
	for i := range users {
		u := &users[i]
		u.Known = "Bench " + u.Name
		args, err := json.Marshal(admin.UserAdd{Name: u.Known, Short: u.Name, Address: u.Address, Password: u.Password})
		if err != nil {
			return err
		}
		_, err = c.Call(ctx, "user add", args, nil)
		var remote *admin.RemoteError
		if errors.As(err, &remote) && remote.Kind == "exists" {
			continue
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", u.Name, err)
		}
		if i%50 == 49 {
			a.noted(false, "people: %d of %d", i+1, len(users))
		}
	}
	a.noted(true, "people: %d", len(users))
	return nil
}

// messages returns the number of messages that a mailbox is filled with.
func (o *benchOptions) messages(w *workload.Workload) int {
	return int(float64(w.Mailbox.Messages)*o.initScale + 0.5)
}

func (a *app) fillMailboxes(ctx context.Context, world *drive.World, users []drive.User, o *benchOptions) error {
	if !slices.Contains([]string{workload.IMAP, workload.JMAP, workload.LMTP}, o.fillOver) {
		return &exitError{exitUsage, fmt.Errorf("--fill-over %s: imap, jmap or lmtp", o.fillOver)}
	}
	begun := world.Env.Clock.Now()
	total, err := fill.Fill(ctx, world, users, fill.Options{Messages: o.messages(world.Workload), Workers: o.workers,
		Progress: func(p fill.Progress) {
			if p.Done%20 == 0 || p.Done == p.Of {
				a.noted(false, "mailboxes: %d of %d, %d messages, %.0f MB", p.Done, p.Of, p.Total.Added,
					float64(p.Total.Bytes)/1e6)
			}
		}})
	took := world.Env.Clock.Now().Sub(begun)
	a.noted(true, "mailboxes: %d messages added, %d removed, %.0f MB in %v", total.Added, total.Removed,
		float64(total.Bytes)/1e6, took.Round(100*time.Millisecond))
	return err
}

func (a *app) benchInit() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use: "init WORKLOAD", Short: "make the people and fill their mailboxes", Args: count(1, 1),
		Long: "Make the people (of a Doublet server, through its socket) and fill their mailboxes, in parallel and " +
			"the same for the\nsame seed. Begun again, it goes on where it was stopped; mailboxes that hold too " +
			"much are cut back.",
	}
	o.targetFlags(cmd)
	cmd.Flags().StringVar(&o.users, "users", "100", "how many people")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := loadWorkload(args[0])
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(o.users)
		if err != nil || n < 1 {
			return &exitError{exitUsage, fmt.Errorf("--users %s is no number of people", o.users)}
		}
		e := benchEnv(a.err)
		if err := a.findDoors(cmd.Context(), e, &o); err != nil {
			return err
		}
		users, err := o.people(max(n, o.registered))
		if err != nil {
			return err
		}
		if err := a.makePeople(cmd.Context(), e, &o, users); err != nil {
			return err
		}
		return a.fillMailboxes(cmd.Context(), o.world(e, w, users), users[:n], &o)
	}
	return cmd
}

func benchEnv(out io.Writer) *env.Env {
	cfg := config.Default()
	cfg.Log.Level = "warn"
	return world(&cfg, out)
}

func (a *app) benchRun() *cobra.Command {
	var o benchOptions
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
	f.StringArrayVar(&o.failIf, "fail-if", nil, failIfHelp)
	f.StringVar(&o.lab, "lab", "", "folder of a lab (doublet bench lab): its servers and its people")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		steps, err := parseSteps(o.users, o.step)
		if err != nil {
			return err
		}
		if o.lab != "" {
			l, err := lab.Load(o.lab)
			if err != nil {
				return &exitError{exitUsage, err}
			}
			if err := o.enterLab(l, o.lab); err != nil {
				return err
			}
		}
		return a.benchAndShow(cmd.Context(), args[0], &o, steps, nil)
	}
	return cmd
}

const failIfHelp = "exit with an error if a step breaks this, discarded and unsteady ones too, such as 'p99>50ms', " +
	"'avg>1s' or 'errors>0'; of a ledger 'lost>0', 'doubled>0' or 'resurrected>0'"

// runFlags adds the flags of commands that run a workload.
func (o *benchOptions) runFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64Var(&o.speed, "speed", 1, "shorten all times by this; marked in the report")
	f.DurationVar(&o.window, "window", time.Hour, "how long each step is measured; less than an hour is marked")
	f.DurationVar(&o.interval, "interval", 0,
		"length of one interval of the record (default: a twelfth of the window, 1 s to 10 s)")
	f.DurationVar(&o.settle, "max-settle", 0, "how long a step may take to become steady (default: four loops)")
	f.Float64Var(&o.loginRate, "login-rate", 1200, "people who sign in each minute")
	f.StringVar(&o.over, "over", "",
		"another protocol than the workload's own: imap, jmap, pop3, or web and lite, the clients in the browser")
	f.BoolVar(&o.cold, "cold-cache", false,
		"have every browser load all files of the client; else the first of all does, and the others come back to it")
	f.StringVar(&o.label, "label", "", "a word for reports")
	f.StringVar(&o.out, "out", ".", "folder for the run file")
	f.StringArrayVar(&o.set, "set", nil, "change a parameter of the workload, NAME=NUMBER")
	f.BoolVar(&o.keep, "keep", false, "leave the mailboxes as the step before has left them")
	f.StringArrayVar(&o.groups, "monitor", nil, "processes on this machine that are the server: "+groupForm+
		" (default: the Doublet of the data folder)")
	f.StringVar(&o.monitorAt, "monitor-at", "", "address of a doublet bench monitor on the server's machine, host:port")
	f.StringVar(&o.metrics, "metrics", "",
		"URL of the server's statistics in the Prometheus format (default: those of the Doublet of the data folder)")
	f.StringArrayVar(&o.agents, "agent", nil,
		"address of a doublet bench agent that drives a share of the people, host:port; may be given again")
	f.StringVar(&o.secret, "secret", "", "what the agents ask for")
	f.StringVar(&o.live, "live", "", "show a page with the figures of the moment, at host:port")
	f.BoolVar(&o.json, "json", false, "print what it came to as JSON")
	f.StringArrayVar(&o.kill, "kill", nil,
		"kill a server of the lab (SIGKILL) so long after the measuring has begun, SERVER@30s; may be given again")
	f.StringArrayVar(&o.restart, "restart", nil, "start it again, SERVER@60s; may be given again")
	f.BoolVar(&o.ledger, "ledger", false,
		"write down what is acknowledged over IMAP and SMTP, and see at the end whether every server that lives has "+
			"it: lost, doubled, resurrected (by itself with --kill)")
}
