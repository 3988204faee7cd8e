package main

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/admin"
	"doublet/cmd/doublet/config"
)

// settings are the settings of a running server, some of which can change while it runs.
type settings struct {
	// load reads the file, the environment and the flags as at start.
	load func() (config.Config, []config.Warning, error)
	// edit writes a setting into the file.
	edit func(key, value string) error

	// keep is tasks.statistics in effect, nanoseconds. Collect reads it while a commit, which holds mu, may wait for
	// Collect to end.
	keep atomic.Int64

	mu      sync.Mutex
	running config.Config // in effect now
	parts   []livePart
}

// livePart is a part of the server that can take new values of some settings while it runs.
type livePart struct {
	keys []string
	// prepare builds the new state and returns a function that installs it. If it fails, nothing has changed.
	prepare func(*config.Config) (commit func(), err error)
}

// take registers a part for the settings with these keys; "verify.*" stands for a section.
func (s *settings) take(prepare func(*config.Config) (commit func(), err error), keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, livePart{config.Keys(keys...), prepare})
}

// Apply reads the settings again and passes the changed ones to their parts. If any part fails, Apply returns an error
// and no part changes.
func (s *settings) Apply() (admin.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply()
}

// Set implements admin.Settings. It tries the value before it writes the file.
func (s *settings) Set(key, value string) (admin.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.running
	if err := next.Put(key, value); err != nil {
		return admin.Applied{}, fmt.Errorf("%w: %w", admin.ErrUsage, err)
	}
	want, _ := next.Get(key)
	if !s.live(key) {
		return admin.Applied{}, fmt.Errorf("%w: %s needs a restart: change it with doublet config set %s VALUE, and "+
			"restart the server", admin.ErrUsage, key, key)
	}
	for _, p := range s.parts {
		if slices.Contains(p.keys, key) {
			if _, err := p.prepare(&next); err != nil {
				return admin.Applied{}, fmt.Errorf("%w: %w", admin.ErrUsage, err)
			}
		}
	}
	if err := s.edit(key, value); err != nil {
		return admin.Applied{}, err
	}
	result, err := s.apply()
	if err == nil {
		if have, _ := s.running.Get(key); have != want {
			result.Warnings = append(result.Warnings, key+
				" is written into the file, but the environment or a flag of the server sets another value")
		}
	}
	return result, err
}

// live reports whether the running server can take a change of a setting. The caller holds mu.
func (s *settings) live(key string) bool {
	return slices.ContainsFunc(s.parts, func(p livePart) bool { return slices.Contains(p.keys, key) })
}

// List implements admin.Settings.
func (s *settings) List() (list []admin.Setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range config.Describe() {
		value, _ := s.running.Get(e.Key)
		if e.Secret && value != "" {
			value = "…"
		}
		list = append(list, admin.Setting{Key: e.Key, Value: value, Live: s.live(e.Key)})
	}
	return list
}

// apply is Apply for a caller that holds mu.
func (s *settings) apply() (admin.Applied, error) {
	next, warnings, err := s.load()
	if err != nil {
		return admin.Applied{}, fmt.Errorf("settings not applied: %w", err)
	}
	result := admin.Applied{Applied: []string{}, Restart: []string{}}
	for _, w := range warnings {
		result.Warnings = append(result.Warnings, string(w))
	}
	changed := s.running.Differ(next)
	after := s.running // settings that need a restart stay as they are and are reported again
	for _, key := range changed {
		if s.live(key) {
			result.Applied = append(result.Applied, key)
			after.Take(key, &next)
		} else {
			result.Restart = append(result.Restart, key)
		}
	}
	var commits []func()
	for _, p := range s.parts {
		if !slices.ContainsFunc(result.Applied, func(key string) bool { return slices.Contains(p.keys, key) }) {
			continue
		}
		commit, err := p.prepare(&after)
		if err != nil {
			return admin.Applied{}, fmt.Errorf("settings not applied: %w", err)
		}
		commits = append(commits, commit)
	}
	for _, commit := range commits {
		commit()
	}
	s.running = after
	return result, nil
}

// newSettings returns the settings of a server that starts. The log level is the first that can change.
func newSettings(l life) *settings {
	s := &settings{load: l.load, edit: l.edit, running: l.cfg}
	s.take(func(next *config.Config) (func(), error) {
		return func() { l.level.Set(logLevel(next)) }, nil
	}, "log.level")
	s.keep.Store(int64(l.cfg.Tasks.Keep.Duration))
	s.take(func(next *config.Config) (func(), error) {
		return func() { s.keep.Store(int64(next.Tasks.Keep.Duration)) }, nil
	}, "tasks.statistics")
	return s
}

// reload handles SIGHUP: it reads certificates and settings again and logs the outcome.
func (h *server) reload() {
	h.reloadCertificate()
	result, err := h.settings.Apply()
	if err != nil {
		h.env.Log.Error("reload settings", "error", err)
		return
	}
	warnings := make([]config.Warning, len(result.Warnings))
	for i, w := range result.Warnings {
		warnings[i] = config.Warning(w)
	}
	warn(h.env, warnings)
	h.env.Log.Info("settings reloaded", "applied", result.Applied, "take effect after a restart", result.Restart)
}

// keepStatistics returns the time for which every report of statistics is kept.
func (s *settings) keepStatistics() time.Duration { return time.Duration(s.keep.Load()) }

// logLevel returns the configured log level.
func logLevel(cfg *config.Config) slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(cfg.Log.Level)) != nil {
		return slog.LevelInfo
	}
	return level
}
