package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/env/logtail"
	"doublet/serve/certs"

	"github.com/spf13/cobra"
)

// load reads the configuration that holds for this command line: base, the file, the environment,
// the flags.
func (a *app) load(base config.Config, overrides map[string]string) (config.Config, []config.Warning, error) {
	if overrides == nil {
		overrides = map[string]string{}
	}
	if a.data != "" {
		overrides["data.dir"] = a.data
	}
	path, found := a.configFile, ""
	if path == "" {
		dir := a.data
		if dir == "" {
			dir = a.lookup("DOUBLET_DATA_DIR", base.Data.Dir)
		}
		path = filepath.Join(dir, config.FileName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = ""
		}
		// The file of a data folder is about that folder, so that both can be moved together.
		base.Data.Dir, found = dir, dir
	}
	cfg, warnings, err := config.Load(base, path, a.environ, overrides)
	if err != nil {
		return cfg, warnings, err
	}
	if found != "" && cfg.Data.Dir != found {
		if there, err := filepath.Abs(found); err != nil || filepath.Clean(cfg.Data.Dir) != there {
			warnings = append(warnings, config.Warning(fmt.Sprintf("%s: data.dir %s is passed over: the file stands in %s, which is the data folder", path, cfg.Data.Dir, found)))
		}
		cfg.Data.Dir = found
	}
	// What the socket and the log say must mean the same whatever folder one stands in.
	if cfg.Data.Dir, err = filepath.Abs(cfg.Data.Dir); err != nil {
		return cfg, warnings, fmt.Errorf("data folder: %w", err)
	}
	if cfg.Server.Name == "" {
		if cfg.Server.Name, err = os.Hostname(); err != nil || cfg.Server.Name == "" {
			cfg.Server.Name = "localhost"
		}
	}
	return cfg, warnings, nil
}

func (a *app) lookup(name, otherwise string) string {
	for _, pair := range a.environ {
		if n, v, _ := strings.Cut(pair, "="); n == name && v != "" {
			return v
		}
	}
	return otherwise
}

// world is the environment that the configuration asks for.
func world(cfg *config.Config, out io.Writer) *env.Env {
	var level slog.Level
	if level.UnmarshalText([]byte(cfg.Log.Level)) != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(out, options)
	if cfg.Log.Format == "json" {
		handler = slog.NewJSONHandler(out, options)
	}
	return env.Real(slog.New(logtail.New(handler)))
}

// doorFlags gives a command a flag for every door, and returns what was set.
func doorFlags(cmd *cobra.Command, base config.Config) (overrides func() map[string]string) {
	set := map[string]*string{}
	for _, e := range config.Describe() {
		name, ok := strings.CutPrefix(e.Key, "doors.")
		if !ok {
			continue
		}
		otherwise, _ := base.Get(e.Key)
		set[e.Key] = cmd.Flags().String(name, "", fmt.Sprintf("host:port or off (%s). %s", otherwise, e.Doc))
	}
	return func() map[string]string {
		out := map[string]string{}
		for key, v := range set {
			if cmd.Flags().Changed(strings.TrimPrefix(key, "doors.")) {
				out[key] = *v
			}
		}
		return out
	}
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "show, check and describe the configuration"}
	add := func(use, short string, fn func(base config.Config, overrides map[string]string) error) {
		var demo bool
		sub := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
		overrides := doorFlags(sub, config.Default())
		sub.Flags().BoolVar(&demo, "demo", false, "start from the settings of doublet demo")
		sub.RunE = func(*cobra.Command, []string) error {
			base := config.Default()
			if demo {
				base = config.Demo()
			}
			return fn(base, overrides())
		}
		cmd.AddCommand(sub)
	}
	add("show", "print the configuration that holds, as a file", func(base config.Config, overrides map[string]string) error {
		cfg, _, err := a.load(base, overrides)
		if err != nil {
			return err
		}
		_, err = io.WriteString(a.out, cfg.TOML())
		return err
	})
	add("check", "read the configuration and say what is wrong", func(base config.Config, overrides map[string]string) error {
		cfg, warnings, err := a.load(base, overrides)
		for _, w := range warnings {
			fmt.Fprintln(a.err, "warning:", w)
		}
		if err != nil {
			return err
		}
		if cfg.TLS.Certificate != "" {
			if _, err := certs.Load(world(&cfg, a.err), cfg.TLS.Certificate, cfg.TLS.Key); err != nil {
				return &config.Error{Where: "configuration", Key: "tls", Err: err}
			}
		}
		_, err = fmt.Fprintln(a.out, "the configuration is good")
		return err
	})
	cmd.AddCommand(&cobra.Command{
		Use: "describe", Short: "print every setting with its meaning (Markdown)", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.out, config.Markdown())
			return err
		},
	})
	return cmd
}

// warn logs what is odd about a configuration.
func warn(e *env.Env, warnings []config.Warning) {
	for _, w := range warnings {
		e.Log.LogAttrs(context.Background(), slog.LevelWarn, "configuration: "+string(w))
	}
}
