package main

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"doublet/admin"
	"doublet/cmd/doublet/config"
)

// settings are the settings of a running server, some of which can change while it runs.
type settings struct {
	// load reads the file, the environment and the flags as at start.
	load func() (config.Config, []config.Warning, error)

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

// apply reads the settings again and passes the changed ones to their parts. If any part fails, apply returns an error
// and no part changes.
func (s *settings) apply() (admin.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		if slices.ContainsFunc(s.parts, func(p livePart) bool { return slices.Contains(p.keys, key) }) {
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
	s := &settings{load: l.load, running: l.cfg}
	s.take(func(next *config.Config) (func(), error) {
		return func() { l.level.Set(logLevel(next)) }, nil
	}, "log.level")
	return s
}

// reload handles SIGHUP: it reads certificates and settings again and logs the outcome.
func (h *server) reload() {
	h.reloadCertificate()
	result, err := h.settings.apply()
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

// logLevel returns the configured log level.
func logLevel(cfg *config.Config) slog.Level {
	var level slog.Level
	if level.UnmarshalText([]byte(cfg.Log.Level)) != nil {
		return slog.LevelInfo
	}
	return level
}
