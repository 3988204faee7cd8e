package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/admin"
	"doublet/client/smtp"
	"doublet/cmd/doublet/config"
)

// TestApply checks that the parts take their changed settings, all or none, and that the rest is reported until a
// restart.
func TestApply(t *testing.T) {
	t.Parallel()
	next := config.Default()
	s := &settings{running: next, load: func() (config.Config, []config.Warning, error) { return next, nil, nil }}
	var level, spf string
	var broken error
	s.take(func(c *config.Config) (func(), error) { return func() { level = c.Log.Level }, nil }, "log.level")
	s.take(func(c *config.Config) (func(), error) {
		if c.Store.CacheSize != config.Default().Store.CacheSize {
			t.Error("a part is given a value that needs a restart")
		}
		return func() { spf = c.Verify.SPF }, broken
	}, "verify.*")
	want := func(applied, restart string) {
		t.Helper()
		r, err := s.Apply()
		if err != nil || strings.Join(r.Applied, " ") != applied || strings.Join(r.Restart, " ") != restart {
			t.Fatalf("%v, applied %v, restart %v", err, r.Applied, r.Restart)
		}
	}
	want("", "")
	next.Log.Level, next.Verify.SPF, next.Store.CacheSize = "debug", "reject", 1<<30
	broken = errors.New("no such zone")
	if r, err := s.Apply(); !errors.Is(err, broken) || len(r.Applied) > 0 || level != "" {
		t.Fatalf("%v, %+v, level %q", err, r, level)
	}
	broken = nil
	want("verify.spf log.level", "store.cache_size")
	if level != "debug" || spf != "reject" {
		t.Errorf("level %q, spf %q", level, spf)
	}
	want("", "store.cache_size")
	next.Store.CacheSize = config.Default().Store.CacheSize
	want("", "")
}

// TestConfigApply checks that a running server takes the settings that can change and names those that cannot. A
// malformed file changes nothing.
func TestConfigApply(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	doors, stop := startDemo(t, data)
	defer stop()
	own := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := command(t, "", append(args, "--data", data)...)
		if code != want {
			t.Fatalf("%v: exit %d: %s%s", args, code, out, errs)
		}
		return out + errs
	}
	recipients := func() string {
		c, err := smtp.Dial(quiet, "tcp", doors["smtp"], smtp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		reply, err := c.Raw("EHLO test.example.com")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(reply.Lines, func(l string) bool { return strings.HasPrefix(l, "LIMITS ") })
		if i < 0 {
			t.Fatalf("no LIMITS in %q", reply.Lines)
		}
		return reply.Lines[i]
	}
	own(0, "config", "set", "limits.recipients", "123", "search.cache_size", "32MB")
	out := own(0, "config", "apply", "--json")
	if !strings.Contains(out, `"applied":["limits.recipients"]`) ||
		!strings.Contains(out, `"after_restart":["search.cache_size"]`) {
		t.Errorf("config apply: %s", out)
	}
	if got := recipients(); !strings.Contains(got, "RCPTMAX=123") {
		t.Errorf("the SMTP door announces %s", got)
	}
	if err := os.WriteFile(filepath.Join(data, config.FileName), []byte("[limits]\nrecipients = 7\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out := own(exitUsage, "config", "apply"); !strings.Contains(out, "is not within") {
		t.Errorf("a mistake in the file: %s", out)
	}
	if got := recipients(); !strings.Contains(got, "RCPTMAX=123") {
		t.Errorf("a mistake in the file changed the door: %s", got)
	}
}

// TestSet checks that a setting is tried before it is written, that one that needs a restart changes nothing, and that
// an override is told.
func TestSet(t *testing.T) {
	t.Parallel()
	file, override := config.Default(), ""
	var written []string
	s := &settings{
		running: file,
		load: func() (config.Config, []config.Warning, error) {
			c := file
			if override != "" {
				c.Log.Level = override
			}
			return c, nil, nil
		},
		edit: func(key, value string) error {
			written = append(written, key+"="+value)
			return file.Put(key, value)
		},
	}
	var level string
	s.take(func(c *config.Config) (func(), error) { return func() { level = c.Log.Level }, nil }, "log.level")
	s.take(func(c *config.Config) (func(), error) {
		if c.Filter.Rspamd == "nowhere" {
			return nil, errors.New("no such host")
		}
		return func() {}, nil
	}, "filter.*")
	if r, err := s.Set("log.level", "debug"); err != nil || level != "debug" || !slices.Equal(r.Applied,
		[]string{"log.level"}) {
		t.Errorf("%+v %v, level %q", r, err, level)
	}
	for key, value := range map[string]string{"store.cache_size": "1GB", "log.level": "loud", "log.levl": "info",
		"filter.rspamd": "nowhere"} {
		if r, err := s.Set(key, value); !errors.Is(err, admin.ErrUsage) {
			t.Errorf("%s=%s: %+v %v", key, value, r, err)
		}
	}
	if !slices.Equal(written, []string{"log.level=debug"}) {
		t.Errorf("written: %q", written)
	}
	override = "error"
	if r, err := s.Set("log.level", "warn"); err != nil || len(r.Warnings) != 1 || level != "error" {
		t.Errorf("%+v %v, level %q", r, err, level)
	}
	for _, x := range s.List() {
		if live := x.Key == "log.level" || strings.HasPrefix(x.Key, "filter."); x.Live != live {
			t.Errorf("%+v", x)
		}
	}
	s.running.Filter.RspamdPassword = "hush"
	if text := fmt.Sprint(s.List()); strings.Contains(text, "hush") {
		t.Error("the list shows a secret")
	}
}

// TestKeepStatistics checks that Collect can read how long statistics are kept while a change of the plan waits for
// Collect to end, and that it gets a changed value.
func TestKeepStatistics(t *testing.T) {
	t.Parallel()
	next := config.Default()
	s := newSettings(life{cfg: next, level: new(slog.LevelVar),
		load: func() (config.Config, []config.Warning, error) { return next, nil, nil }})
	kept := make(chan time.Duration, 1)
	s.take(func(*config.Config) (func(), error) {
		return func() { // as replan, which waits for the tasks that stop
			go func() { kept <- s.keepStatistics() }()
			select {
			case got := <-kept:
				kept <- got
			case <-time.After(10 * time.Second):
				t.Error("a change of the plan holds up Collect")
			}
		}, nil
	}, "tasks.run")
	next.Tasks.Run, next.Tasks.Keep.Duration = "all -Collect", 48*time.Hour
	if _, err := s.Apply(); err != nil {
		t.Fatal(err)
	}
	if got := <-kept; got != 48*time.Hour || s.keepStatistics() != got {
		t.Errorf("statistics are kept for %s", got)
	}
}
