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
	"runtime"
	"strings"

	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/env/logtail"
	"doublet/serve/certs"

	"github.com/spf13/cobra"
)

// load reads the configuration for this command line: base, the file, the environment, the flags.
func (a *app) load(base config.Config, overrides map[string]string) (config.Config, []config.Warning, error) {
	if overrides == nil {
		overrides = map[string]string{}
	}
	if a.data != "" {
		overrides["data.dir"] = a.data
	}
	path, found := a.settingsFile(base)
	if found != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = ""
		}
		// A file in a data folder applies to that folder, so that both can be moved together.
		base.Data.Dir = found
	}
	cfg, warnings, err := config.Load(base, path, a.environ, overrides)
	if err != nil {
		return cfg, warnings, err
	}
	if found != "" && cfg.Data.Dir != found {
		if there, err := filepath.Abs(found); err != nil || filepath.Clean(cfg.Data.Dir) != there {
			warnings = append(warnings,
				config.Warning(fmt.Sprintf("%s: data.dir %s is passed over: the file stands in %s, which is the "+
					"data folder", path, cfg.Data.Dir, found)))
		}
		cfg.Data.Dir = found
	}
	// An absolute path stays valid in messages and logs, whatever the working directory of their reader.
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

// settingsFile returns the path of the configuration file, and the data folder that holds it unless --config names the
// file.
func (a *app) settingsFile(base config.Config) (path, folder string) {
	if a.configFile != "" {
		return a.configFile, ""
	}
	folder = a.data
	if folder == "" {
		folder = a.lookup("DOUBLET_DATA_DIR", base.Data.Dir)
	}
	return filepath.Join(folder, config.FileName), folder
}

func (a *app) lookup(name, otherwise string) string {
	for _, pair := range a.environ {
		if n, v, _ := strings.Cut(pair, "="); n == name && v != "" {
			return v
		}
	}
	return otherwise
}

// world returns the environment for the configuration.
func world(cfg *config.Config, out io.Writer) *env.Env {
	e, _ := leveled(cfg, out)
	return e
}

// leveled returns the environment for the configuration, and the level of its log, which can be changed.
func leveled(cfg *config.Config, out io.Writer) (*env.Env, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevel(cfg))
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(out, options)
	if cfg.Log.Format == "json" {
		handler = slog.NewJSONHandler(out, options)
	}
	return env.Real(slog.New(logtail.New(handler))), level
}

// doorFlags adds a flag for every door. overrides returns the flags that were set.
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
	cmd := &cobra.Command{Use: "config", Short: "show, check, change and describe the settings"}
	cmd.AddCommand(a.configShow(), a.configCheck(), a.configSet(), a.configUnset(), &cobra.Command{
		Use: "describe", Short: "print every setting with its meaning (Markdown)", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.out, config.Markdown())
			return err
		},
	})
	return cmd
}

// configFlags adds the flags of doors and --demo, and returns a function that loads the configuration.
func (a *app) configFlags(cmd *cobra.Command) func() (config.Config, []config.Warning, error) {
	var demo bool
	overrides := doorFlags(cmd, config.Default())
	cmd.Flags().BoolVar(&demo, "demo", false, "start from the settings of doublet demo")
	return func() (config.Config, []config.Warning, error) {
		base := config.Default()
		if demo {
			base = config.Demo()
		}
		return a.load(base, overrides())
	}
}

func (a *app) configShow() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "show", Short: "print the settings that differ from their defaults, as a file", Args: cobra.NoArgs,
		Long: "Print the settings of the file, the environment and the flags that differ from their defaults, in " +
			"the form of\n" +
			config.FileName + ". --defaults prints all settings, each with its meaning.",
	}
	load := a.configFlags(cmd)
	cmd.Flags().BoolVar(&all, "defaults", false, "print every setting, those at their defaults too")
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, _, err := load()
		if err != nil {
			return err
		}
		text := cfg.Chosen()
		if all {
			text = cfg.TOML()
		}
		_, err = io.WriteString(a.out, text)
		return err
	}
	return cmd
}

func (a *app) configCheck() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "read the settings and report mistakes", Args: cobra.NoArgs}
	load := a.configFlags(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		cfg, warnings, err := load()
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
	}
	return cmd
}

func (a *app) configSet() *cobra.Command {
	return &cobra.Command{
		Use: "set SECTION.KEY VALUE [SECTION.KEY VALUE ...]", Short: "change settings in the configuration file",
		Long: "Change settings in the configuration file and leave the rest of it as it is. The running server " +
			"takes the change\nwith `doublet config apply`.",
		Example: "  doublet config set limits.message_size 100MB\n" +
			"  doublet config set doors.pop3 :110 doors.pop3s :995",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args)%2 != 0 {
				return &exitError{exitUsage, fmt.Errorf("usage: %s", cmd.UseLine())}
			}
			return a.editSettings(func(path string, file []byte) (_ []byte, err error) {
				for i := 0; i < len(args) && err == nil; i += 2 {
					file, err = config.Set(path, file, args[i], args[i+1])
				}
				return file, err
			})
		},
	}
}

func (a *app) configUnset() *cobra.Command {
	return &cobra.Command{
		Use: "unset SECTION.KEY", Short: "remove one setting from the configuration file: its default holds again",
		Args: count(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.editSettings(func(path string, file []byte) ([]byte, error) {
				return config.Unset(path, file, args[0])
			})
		},
	}
}

// editSetting changes one setting in the configuration file.
func (a *app) editSetting(key, value string) error {
	return a.editSettings(func(path string, file []byte) ([]byte, error) {
		return config.Set(path, file, key, value)
	})
}

// editSettings replaces the configuration file by an edited one, atomically. The mode of the file stays.
func (a *app) editSettings(edit func(path string, file []byte) ([]byte, error)) error {
	path, folder := a.settingsFile(config.Default())
	if folder != "" {
		if _, err := os.Stat(folder); err != nil {
			return &exitError{exitFailed,
				fmt.Errorf("no data folder %s: name it with --data, or make one with doublet init", folder)}
		}
	}
	file, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if file, err = edit(path, file); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if old, err := os.Stat(path); err == nil {
		mode = old.Mode().Perm()
	}
	return replaceFile(path, mode, file)
}

// replaceFile replaces a file atomically, with a mode: it writes a new one beside path and renames it. It returns when
// the file and its name are durable.
func replaceFile(path string, mode fs.FileMode, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if runtime.GOOS == "windows" { // it cannot sync a folder
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// warn logs the warnings about a configuration.
func warn(e *env.Env, warnings []config.Warning) {
	for _, w := range warnings {
		e.Log.LogAttrs(context.Background(), slog.LevelWarn, "configuration: "+string(w))
	}
}
