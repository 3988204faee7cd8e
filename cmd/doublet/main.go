// Command doublet runs the server and administers it. The verbs (commands) come from admin's table. They act on the
// running server of the data folder, or directly on its store if no server runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ownFilesOnly()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}, os.Environ())
	stop()
	os.Exit(code)
}

// untilHangup returns a context that also ends when the terminal is closed. In a program that was started to outlive
// its terminal (nohup), SIGHUP stays ignored.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, args []string, io streams, environ []string) int {
	a := &app{streams: io, environ: environ}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var quiet quietError
	if !errors.As(err, &quiet) {
		fmt.Fprintln(io.err, "doublet:", err)
	}
	return exitCode(err)
}

// app is one command line.
type app struct {
	streams
	environ []string
	// data and configFile are flags of every command; json is a flag of every verb.
	data, configFile string
	json             bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "doublet", Short: "An open collaboration server in the Domino tradition",
		Long: "Doublet keeps mail, calendars, contacts and tasks as notes in databases that replicate. It takes\n" +
			"mail in by SMTP, submission and LMTP, sends it to other servers, and serves all of it by IMAP,\n" +
			"POP3, JMAP, CalDAV, CardDAV and in the browser.\n\n" +
			"`doublet demo` shows it; `doublet setup` sets one up in a browser;\n" +
			"`doublet init` and `doublet serve` run it.",
		SilenceErrors: true, SilenceUsage: true, Version: version(),
	}
	root.InitDefaultVersionFlag()
	root.SetVersionTemplate("doublet {{.Version}}\n")
	root.PersistentFlags().StringVar(&a.data, "data", "", "data folder (default ./data)")
	root.PersistentFlags().StringVar(&a.configFile, "config", "",
		"configuration file (default doublet.toml in the data folder, if it is there)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitUsage, err} })
	root.AddCommand(a.initCommand(), a.setupCommand(), a.serveCommand(), a.demoCommand(), a.restoreCommand(),
		a.replicateCommand(), a.gatewayCommand(), a.consoleCommand(), a.configCommand(), workbench{a}.command(),
		planner{a}.command(), studies{a}.command(), &cobra.Command{
			Use: "version", Short: "print the version", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "doublet", version())
				return err
			},
		})
	a.addVerbs(root)
	journalCommands{a}.extend(root)
	if backups, _, err := root.Find([]string{"backup"}); err == nil {
		backups.AddCommand(a.backupKeyCommand())
	}
	if encryption, _, err := root.Find([]string{"encryption"}); err == nil {
		encryption.AddCommand(a.encryptionKeyCommand())
	}
	if clusters, _, err := root.Find([]string{"cluster"}); err == nil {
		clusters.AddCommand(a.joinCommand())
	}
	if domains, _, err := root.Find([]string{"domain"}); err == nil {
		domains.AddCommand(a.domainJoinCommand())
	}
	return root
}
