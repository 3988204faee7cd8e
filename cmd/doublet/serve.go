package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/note"

	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "run the server", Args: cobra.NoArgs,
		Long: "Run the server of a data folder that doublet init has made. It ends on SIGTERM, on SIGINT and with " +
			"doublet stop:\nno command is cut in the middle, and what was acknowledged is there. SIGHUP makes it " +
			"read\ncertificates and settings again.",
	}
	overrides := doorFlags(cmd, config.Default())
	slow := cmd.Flags().Duration("slow-disk", 0, "for rehearsals: each flush of the disk takes so much longer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, warnings, err := a.load(config.Default(), overrides())
		if err != nil {
			return err
		}
		if *slow < 0 || *slow > time.Minute {
			return &exitError{exitUsage, fmt.Errorf("--slow-disk %v is not within 0 to 1m", *slow)}
		}
		if _, err := os.Stat(filepath.Join(cfg.Data.Dir, "LOCK")); notExist(err) {
			return &exitError{exitFailed,
				fmt.Errorf("no store in %s: create one with doublet setup --data %s in a browser, or with doublet init",
					cfg.Data.Dir, cfg.Data.Dir)}
		}
		e, level := leveled(&cfg, a.err)
		if *slow > 0 {
			e.FS = env.SlowSync(e.FS, e.Clock, *slow)
			e.Log.Warn("disk slowed down", "every flush by", *slow)
		}
		warn(e, warnings)
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		load := func() (config.Config, []config.Warning, error) { return a.load(config.Default(), overrides()) }
		return live(cmd.Context(), life{env: e, level: level, cfg: cfg, load: load, edit: a.editSetting, hangup: hangup,
			ready: func(h *server) error {
				for _, d := range h.doors.all() {
					e.Log.Info("door open", "door", d.Name, "address", d.Address, "tls", d.TLS)
				}
				e.Log.Info("server started", "version", h.system.Version, "data", cfg.Data.Dir, "took",
					e.Clock.Now().Sub(h.system.Started).String())
				notify("READY=1")
				return nil
			}})
	}
	return cmd
}

// life holds the options of a running server. fill and hangup may be nil.
type life struct {
	env   *env.Env
	level *slog.LevelVar
	cfg   config.Config
	// load reads the configuration again, for changes that take effect while the server runs.
	load func() (config.Config, []config.Warning, error)
	// edit writes a setting into the configuration file.
	edit func(key, value string) error
	// hangup receives a signal for each request to reload certificate and settings.
	hangup <-chan os.Signal
	// fill is called before the doors open, so that no client sees a partly filled store.
	fill func(context.Context, *house) error
	// ready is called when the server serves.
	ready func(*server) error
}

// errFilling reports that the server was stopped during the fill. The next start continues it.
var errFilling = errors.New("stopped during the fill")

// fillHouse calls fill, unless it is nil.
func (l *life) fillHouse(ctx context.Context, h *house) error {
	if l.fill == nil {
		return nil
	}
	err := l.fill(ctx, h)
	if err != nil && ctx.Err() != nil {
		return errFilling
	}
	return err
}

// live runs a server until ctx ends or the verb stop is called.
func live(ctx context.Context, l life) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h, err := start(ctx, l, stop)
	if err != nil {
		if errors.Is(err, errFilling) {
			return nil
		}
		return err
	}
	defer func() {
		err = errors.Join(err, h.close())
		l.env.Log.Info("server stopped")
	}()
	if err := l.ready(h); err != nil {
		return err
	}
	h.watchdog(ctx)
	for ctx.Err() == nil {
		select {
		case <-l.hangup:
			h.reload()
		case <-ctx.Done():
		}
	}
	l.env.Log.Info("server is stopping: waiting for commands", "at most", grace)
	notify("STOPPING=1")
	return nil
}

// notify reports a state to systemd, if it listens (sd_notify(3)).
func notify(state string) {
	if path := os.Getenv("NOTIFY_SOCKET"); path != "" {
		sendDatagram(path, state)
	}
}

func (a *app) initCommand() *cobra.Command {
	var domain, person, name string
	cmd := &cobra.Command{
		Use: "init", Short: "make a data folder with its configuration, domain and first administrator",
		Args: cobra.NoArgs,
		Long: "Make a data folder: doublet.toml with the settings that you chose, an empty store, the domain, and a " +
			"person with the role Admin,\nwhose password is asked for.",
	}
	cmd.Flags().StringVar(&domain, "domain", "", "Internet domain of the people here")
	cmd.Flags().StringVar(&person, "admin", "Administrator", "full name of the first administrator")
	cmd.Flags().StringVar(&name, "admin-short", "admin", "short name of the first administrator")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if domain == "" {
			return missing(cmd, "domain", "Internet domain of the people here")
		}
		cfg, _, err := a.load(config.Default(), map[string]string{"server.domain": domain})
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(cfg.Data.Dir, "LOCK")); err == nil {
			return &exitError{exitFailed, fmt.Errorf("%s holds a store already", cfg.Data.Dir)}
		}
		password, err := a.askSecret("password of " + person)
		if err != nil {
			return err
		}
		if password == "" {
			return &exitError{exitUsage, errors.New("administrator needs a password: pass it on standard input")}
		}
		return (&newcomer{a, cfg}).initialize(cmd.Context(),
			admin.UserAdd{Name: person, Short: name, Role: []string{"Admin"}, Password: password})
	}
	return cmd
}

// newcomer creates the data folder of a new server with the settings cfg.
type newcomer struct {
	*app
	cfg config.Config
}

// initialize creates the data folder of the first server, and reports what to do next.
func (n *newcomer) initialize(ctx context.Context, first admin.UserAdd) (err error) {
	cfg := n.cfg
	user, err := n.makeStore(ctx, first)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(n.out,
		"made %s\n  settings: %s\n  %s signs in as %s\n"+
			"next: doublet dns show --data %s prints what to publish, doublet serve --data %s runs the server\n",
		cfg.Data.Dir, filepath.Join(cfg.Data.Dir, config.FileName), user.Name, user.Address, cfg.Data.Dir, cfg.Data.Dir)
	return err
}

// makeStore creates a data folder: the settings, an empty store, the domain with its keys, and the first person.
func (n *newcomer) makeStore(ctx context.Context, first admin.UserAdd) (user admin.User, err error) {
	cfg := n.cfg
	if err := os.MkdirAll(cfg.Data.Dir, 0o700); err != nil {
		return user, err
	}
	if err := writeSettings(cfg); err != nil {
		return user, err
	}
	cfg.Log.Level = "warn"
	h, err := open(world(&cfg, n.err), cfg)
	if err != nil {
		return user, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if user, err = admin.Do[admin.User](ctx, admin.Direct{Runner: h.system}, "user add", first); err != nil {
		return user, err
	}
	return user, h.system.EnsureKeys(ctx, note.System, cfg.Server.Domain)
}

// writeSettings writes doublet.toml into the data folder. It leaves an existing file as it is.
func writeSettings(cfg config.Config) error {
	path := filepath.Join(cfg.Data.Dir, config.FileName)
	cfg.Data.Dir = "" // left out, so that the folder can be moved
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = io.WriteString(f, cfg.Chosen())
		err = errors.Join(err, f.Close())
	}
	return err
}
