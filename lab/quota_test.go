//go:build linux

package lab

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/admin"
	"doublet/bench/measure"
	"doublet/env"
	"doublet/test/external"
)

// TestQuotaFiles checks what is written for a quota into a group of each version of control groups.
func TestQuotaFiles(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]map[string]string{
		"1": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
		"2": {"cpu.max": "50000 100000", "../cgroup.subtree_control": "+cpu"},
	} {
		root := t.TempDir()
		if version == "1" {
			touch(t, filepath.Join(root, "cpu", "cgroup.procs"))
		}
		g := groupOf(root, "/data/one")
		if g == groupOf(root, "/data/two") || g.v2 != (version == "2") {
			t.Errorf("version %s: %+v", version, g)
		}
		if err := g.limit(0.5); err == nil {
			t.Errorf("version %s: no error without the files of a control group", version)
		}
		for name := range want {
			touch(t, filepath.Join(g.dir, name))
		}
		if err := g.limit(0.5); err != nil {
			t.Error(err)
		}
		for name, text := range want {
			if got, err := os.ReadFile(filepath.Join(g.dir, name)); err != nil || string(got) != text {
				t.Errorf("version %s: %s is %q, %v", version, name, got, err)
			}
		}
	}
}

// touch makes an empty file, and its folder.
func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestQuota starts a server with a quota: its process is in a control group with that quota, which is gone after stop.
func TestQuota(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := groupOf(cgroups, dir)
	if err := g.limit(1); err != nil {
		external.Missing(t, "the right to make control groups", err.Error())
	}
	program, seen := filepath.Join(dir, "program"), filepath.Join(dir, "seen")
	external.Script(t, program, "#!/bin/sh\ncat /proc/self/cgroup "+g.dir+"/cpu.* >"+seen+"\nexit 3\n")
	s := &Server{Name: "one", Data: dir, Doors: map[string]string{"imap": "127.0.0.1:1"}, program: program, Quota: 0.5,
		env: env.Real(slog.New(slog.DiscardHandler))}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatal(err)
	}
	text, err := os.ReadFile(seen)
	if err != nil || !strings.Contains(string(text), "/"+filepath.Base(g.dir)+"\n") ||
		!strings.Contains(string(text), "50000") {
		t.Errorf("%s, %v", text, err)
	}
	if err := s.stop(); err != nil || exists(g.dir) {
		t.Errorf("the group is there after stop: %v", err)
	}
}

// TestNoGroup checks that a server without a group removes none.
func TestNoGroup(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "file") // nothing can be removed below it, as in a file system that is read-only
	touch(t, root)
	if err := groupOf(root, "/data/one").remove(env.Real(slog.New(slog.DiscardHandler))); err != nil {
		t.Error(err)
	}
}

// TestQuotaRefused checks numbers of processors that are none.
func TestQuotaRefused(t *testing.T) {
	t.Parallel()
	for quota, ok := range map[float64]bool{0: true, 0.5: true, 4096: true, -1: false, 0.001: false, 5000: false} {
		if err := checkQuota(quota); (err == nil) != ok {
			t.Errorf("%g: %v", quota, err)
		}
	}
}

// TestQuotaLab builds a lab with a quota: its server has the quota, and a run knows how many guests there are.
func TestQuotaLab(t *testing.T) {
	t.Parallel()
	b := &Builder{Env: env.Real(slog.New(slog.DiscardHandler)), Check: func(Settings) error { return nil },
		Progress: func(bool, string, ...any) {},
		Make: func(_ context.Context, s Settings, _ admin.UserAdd) error {
			return os.Mkdir(s["data.dir"], 0o700)
		}}
	c, err := Named("partitions-4")
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Build(t.Context(), c, Options{Dir: filepath.Join(t.TempDir(), "lab"), People: 1, Program: "false",
		Quota: 0.5})
	if err == nil || l == nil || l.Servers[0].Quota != 0.5 {
		t.Fatalf("%+v, %v", l, err)
	}
	l.Servers = append(l.Servers, &Server{Quota: 0.5})
	var o measure.Options
	if l.Describe(&o); o.Guests != 2 || o.Quota != 0.5 || o.Partitions != 2 || o.Target != "doublet, partitions-4" {
		t.Errorf("%+v", o)
	}
	l.Servers = []*Server{{}, {}}
	var native measure.Options
	if l.Describe(&native); native.Guests != 0 || native.Quota != 0 || native.Partitions != 2 {
		t.Errorf("%+v", native)
	}
}
