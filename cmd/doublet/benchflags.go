package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/bench/fleet"
	"doublet/bench/measure"
	"doublet/bench/workload"
	"doublet/cmd/doublet/config"

	"github.com/spf13/cobra"
)

// benchFlags are the flags that select the measured server and the simulated users.
type benchFlags struct {
	measure.Options
	server measure.Server
	faults fleet.Options
	doors  map[string]*string
	admin  string // the socket of a Doublet
	users  string
	step   int
	json   bool
}

// targetFlags adds the flags of commands that drive a server.
func (o *benchFlags) targetFlags(cmd *cobra.Command) {
	o.Build = version()
	f := cmd.Flags()
	o.doors = map[string]*string{}
	for _, d := range measure.DoorNames() {
		o.doors[d] = f.String(d, "", "door "+d+
			", host:port (default: those of the running Doublet, where no door is named)")
	}
	f.StringVar(&o.Target, "target", "doublet", "name of the server, for reports")
	f.BoolVar(&o.StartTLS, "starttls", false, "start TLS at the doors that are plain")
	f.BoolVar(&o.Insecure, "insecure", true, "take any certificate")
	s := &o.server
	f.StringVar(&s.Accounts, "accounts", "",
		"CSV file of the people: name,password,address, with a first line that says so")
	f.StringVar(&s.User, "user", "mail%d", "name under which person number %d signs in, without --accounts")
	f.StringVar(&s.Password, "password", "bench", "password of everybody, without --accounts")
	f.StringVar(&s.Address, "address", "mail%d@example.com", "address of person number %d, without --accounts")
	f.StringVar(&o.admin, "admin", "",
		"socket of a Doublet server, for making the people (default: that of the data folder, if it is there; - for "+
			"none)")
	f.Uint64Var(&o.Seed, "seed", 1, "what all that is random follows from")
	o.InitScale = 1
	f.Var((*percent)(&o.InitScale), "init-scale",
		"share of the workload's mailbox that is filled, such as 2%; less than all of it is marked in the report")
	f.IntVar(&o.Workers, "workers", 8, "mailboxes filled at one time")
	f.StringVar(&o.FillOver, "fill-over", workload.IMAP,
		"how messages come into mailboxes that are filled: imap or jmap, with flags and dates, or lmtp, new")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "how long one answer may take before it counts as failed")
	f.IntVar(&o.Registered, "registered", 0,
		"people there are; more than are active makes the others receive mail (default: the largest step)")
}

// metered adds the flags that select the processes and statistics of the server.
func (o *benchFlags) metered(cmd *cobra.Command) {
	f, p := cmd.Flags(), &o.server.Processes
	f.StringArrayVar(&p.Groups, "monitor", nil, "processes on this machine that are the server: "+groupForm+
		" (default: the Doublet of the data folder)")
	f.StringVar(&p.MonitorAt, "monitor-at", "", "address of a doublet bench monitor on the server's machine, host:port")
	f.StringVar(&p.Metrics, "metrics", "",
		"URL of the server's statistics in the Prometheus format (default: those of the Doublet of the data folder)")
}

const groupForm = "NAME=pid:N, NAME=pidfile:PATH, NAME=cgroup:PATH or NAME=COMMAND,COMMAND"

const failIfHelp = "exit with an error if a step breaks this, discarded and unsteady ones too, such as 'p99>50ms', " +
	"'avg>1s' or 'errors>0'; of a ledger 'lost>0', 'doubled>0' or 'resurrected>0'"

const repeatHelp = "run each step so many times, in random order, so that compare knows the intervals"

// runFlags adds the flags of commands that run a workload.
func (o *benchFlags) runFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64Var(&o.Speed, "speed", 1, "shorten all times by this; marked in the report")
	f.DurationVar(&o.Window, "window", time.Hour, "how long each step is measured; less than an hour is marked")
	f.DurationVar(&o.Interval, "interval", 0,
		"length of one interval of the record (default: a twelfth of the window, 1 s to 10 s)")
	f.DurationVar(&o.Settle, "max-settle", 0, "how long a step may take to become steady (default: four loops)")
	f.Float64Var(&o.LoginRate, "login-rate", 1200, "people who sign in each minute")
	f.StringVar(&o.Over, "over", "",
		"another protocol than the workload's own: imap, jmap, pop3, or web and lite, the clients in the browser")
	f.BoolVar(&o.Cold, "cold-cache", false,
		"have every browser load all files of the client; else the first of all does, and the others come back to it")
	f.StringVar(&o.Label, "label", "", "a word for reports")
	f.StringVar(&o.Out, "out", ".", "folder for the run file")
	f.StringArrayVar(&o.Set, "set", nil, "change a parameter of the workload, NAME=NUMBER")
	o.MaxFailed = 0.01
	f.Var((*percent)(&o.MaxFailed), "max-failed",
		"share of the actions that may fail or be missed; a step with more is discarded (with --kill: any)")
	f.BoolVar(&o.Keep, "keep", false, "leave the mailboxes as the step before has left them")
	o.metered(cmd)
	f.StringArrayVar(&o.Agents, "agent", nil,
		"address of a doublet bench agent that drives a share of the people, host:port; may be given again")
	f.StringVar(&o.Secret, "secret", "", "what the agents ask for")
	f.StringVar(&o.Live, "live", "", "show a page with the figures of the moment, at host:port")
	f.BoolVar(&o.json, "json", false, "print what it came to as JSON")
	f.StringArrayVar(&o.faults.Kill, "kill", nil,
		"kill a server of the lab (SIGKILL) so long after the measuring has begun, SERVER@30s; may be given again")
	f.StringArrayVar(&o.faults.Restart, "restart", nil, "start it again, SERVER@60s; may be given again")
	f.BoolVar(&o.faults.Ledger, "ledger", false,
		"write down what is acknowledged over IMAP and SMTP, or over JMAP, and see at the end whether every server "+
			"that lives has it: lost, doubled, resurrected (by itself with --kill)")
}

// site returns the site of one server, with the doors that flags name.
func (o *benchFlags) site(d measure.Doublet) *measure.Server {
	s := o.server
	s.Doublet = d
	s.Named = o.admin != "" && o.admin != "-"
	for name, value := range o.doors {
		if *value == "" {
			continue
		}
		if s.Doors == nil {
			s.Doors = map[string]string{}
		}
		if *value != config.Off {
			s.Doors[name] = *value
		}
	}
	return &s
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
