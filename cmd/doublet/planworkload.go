package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"doublet/bench/workload"
	"doublet/plan/maillog"

	"github.com/spf13/cobra"
)

func (p planner) workload() *cobra.Command {
	var o maillog.Options
	cmd := &cobra.Command{
		Use: "workload LOG…", Short: "derive a workload for the benchmark from the logs of Dovecot and Postfix",
		Args: count(1, 1000),
		Long: `Count what people did on working days, by the lines of Dovecot at the end of each session and those of
Postfix for what they submitted, and print a workload of doublet bench in which a user does the same in an hour of work.
Logs are as syslog or these programs write them; - is the standard input, for compressed ones.`,
		Example: `  zcat /var/log/mail.log.*.gz | doublet plan workload - --name ours > ours.toml
  doublet bench run ./ours.toml --users 100..400 --step 100 --speed 20 --init-scale 10% --window 60s`,
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "production", "name of the workload")
	f.Float64Var(&o.Hours, "hours", 8, "hours of work of a day, over which its work is spread")
	f.IntVar(&o.Messages, "mailbox", 3000, "messages of a mailbox, which logs do not tell")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if !(o.Hours >= 0.25 && o.Hours <= 24) {
			return usage(fmt.Errorf("--hours %g: want 0.25 to 24", o.Hours))
		}
		r := maillog.New(p.now())
		for _, path := range args {
			if err := p.readLog(r, path); err != nil {
				return usage(err)
			}
		}
		c, err := r.Counts()
		if err != nil {
			return usage(err)
		}
		text, err := c.Workload(o)
		if err != nil {
			return err
		}
		if _, err := workload.Parse(o.Name, []byte(text)); err != nil {
			return usage(errors.Join(errors.New("these logs make no workload"), err))
		}
		_, err = io.WriteString(p.out, text)
		return err
	}
	return cmd
}

func (p planner) readLog(r *maillog.Reader, path string) error {
	if path == "-" {
		return r.Read(p.in, "standard input")
	}
	_, err := readFile(path, func(f io.Reader) (none struct{}, err error) { return none, r.Read(f, path) })
	return err
}

// now returns the time.
func (p planner) now() time.Time { return workbench(p).env().Clock.Now() }
