package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/note"
	"doublet/stat"
	"doublet/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestBackupYields stops the server while a backup waits for its read rate. The backup ends at once, and the next one
// is good.
func TestBackupYields(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	var stop func()
	s.Stopping, stop = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // so that a failure does not hang
	defer cancel()
	_, err := s.Run(ctx, note.System, "backup", json.RawMessage(`{"dir":"backup","rate":"1B"}`),
		func(Progress) { stop() })
	if !errors.Is(err, ErrStopping) || Kind(err) != "stopped" {
		t.Errorf("a backup when the server stops: %v", err)
	}
	s.Stopping = context.Background()
	if _, err := s.Run(ctx, note.System, "backup", json.RawMessage(`{"dir":"backup"}`), nil); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if _, err := s.Run(ctx, note.System, "backup verify", json.RawMessage(`{"dir":"backup"}`), nil); err != nil {
		t.Errorf("verify: %v", err)
	}
	for _, dir := range []string{"data/x", "data/notes/backup", "data/objects"} {
		args, err := json.Marshal(BackupTake{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(ctx, note.System, "backup", args, nil); Kind(err) != "usage" {
			t.Errorf("into %s: %v", dir, err)
		}
	}
}

// spoiled is a file system that flips a byte of the engine's manifest when a backup renames its copy.
type spoiled struct{ env.FS }

// Unwrap implements FS.
func (s spoiled) Unwrap() vfs.FS { return nil }

// Rename implements FS.
func (s spoiled) Rename(from, to string) error {
	if err := s.FS.Rename(from, to); err != nil || !strings.Contains(to, "pieces/MANIFEST-") {
		return err
	}
	f, err := s.OpenReadWrite(to, "test")
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], 9)
	if err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b[:], 9)
	}
	return errors.Join(err, f.Close())
}

// TestBackupDamaged checks that a backup that is damaged while it is written causes an error, is counted and marked,
// and does not replace the previous one. Without the check nobody would notice.
func TestBackupDamaged(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	run := func(verb, args string) (string, error) {
		t.Helper()
		out, err := s.Run(context.Background(), note.System, verb, json.RawMessage(args), nil)
		return string(out), err
	}
	whole := s.Env
	if out, err := run("backup", `{"dir":"backup"}`); err != nil || !strings.Contains(out, `"checked":"open"`) {
		t.Fatal(out, err)
	}
	e := *whole
	e.FS = spoiled{whole.FS}
	s.Env = &e
	if _, err := run("backup", `{"dir":"backup"}`); err == nil ||
		!strings.Contains(err.Error(), "generation 2 failed verification") {
		t.Errorf("a damaged one: %v", err)
	}
	if out, err := run("backup", `{"dir":"elsewhere","check":"off"}`); err != nil ||
		!strings.Contains(out, `"checked":"off"`) {
		t.Errorf("unchecked: %s, %v", out, err)
	}
	s.Env = whole
	if n := s.Stats.Counter("Backup.Damaged", "").Value(); n != 1 {
		t.Errorf("%d damaged", n)
	}
	if out, err := run("backup list", `{"dir":"backup"}`); err != nil || strings.Count(out, `"damage"`) != 1 {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run("backup prune", `{"dir":"backup","keep":1}`); err != nil ||
		!strings.Contains(out, `"uncounted":[2]`) || strings.Contains(out, "removed_generations") {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := run("backup", `{"dir":"backup","check":"a little"}`); Kind(err) != "usage" {
		t.Errorf("a level that is none: %v", err)
	}
}

// TestBackupStatistics checks that the statistics exist before the first backup and after a restart, for a backup in
// any folder.
func TestBackupStatistics(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	memory, err := keep.Open(s.Store, s.Env, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Backup.Keep = memory.Table("backup")
	last := func() float64 {
		t.Helper()
		s.Stats = stat.New(s.Env.Clock) // as after a restart
		s.FindBackup()
		list, err := Do[Statistics](context.Background(), Direct{s}, "show stat", ShowStat{Pattern: "Backup"})
		if err != nil || len(list) != 8 {
			t.Fatalf("%d statistics of backups, %v", len(list), err)
		}
		for _, e := range list {
			if e.Name == "Backup.LastSuccess" {
				return e.Value
			}
		}
		t.Fatal("no Backup.LastSuccess")
		return 0
	}
	if at := last(); at != 0 {
		t.Errorf("the last backup was at %v, and there is none", at)
	}
	if _, err := s.Run(context.Background(), note.System, "backup", json.RawMessage(`{"dir":"elsewhere"}`),
		nil); err != nil {
		t.Fatal(err)
	}
	if at := last(); at < float64(s.Started.Unix()) {
		t.Errorf("the last backup was at %v", at)
	}
	_, err = Do[Statistics](context.Background(), Direct{s}, "show stat", ShowStat{Pattern: "Nothing"})
	if err == nil || !errors.Is(err, store.ErrNotFound) || Kind(err) != "not found" ||
		!strings.Contains(err.Error(), `no statistic fits "Nothing"`) {
		t.Errorf("a name that is none: %v", err)
	}
	if err := memory.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestBackupThins takes backups into a place that the settings thin, and into another one. The first holds one of a day
// afterwards, the other all.
func TestBackupThins(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.Backup.Policy, s.Backup.Thinned = "2d", []string{"", "./backup/"}
	run := func(verb, args string) string {
		t.Helper()
		out, err := s.Run(context.Background(), note.System, verb, json.RawMessage(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for range 3 {
		run("backup", `{"dir":"backup"}`)
		run("backup", `{"dir":"elsewhere"}`)
	}
	if out := run("backup list", `{"dir":"backup"}`); strings.Count(out, `"generation"`) != 1 ||
		!strings.Contains(out, `"generation":3`) {
		t.Errorf("thinned: %s", out)
	}
	if out := run("backup list", `{"dir":"elsewhere"}`); strings.Count(out, `"generation"`) != 3 {
		t.Errorf("elsewhere: %s", out)
	}
	out := run("backup thin", `{"dir":"elsewhere","dry_run":true}`)
	var p Pruned
	if err := json.Unmarshal([]byte(out), &p); err != nil || len(p.Generations) != 2 || p.Files == 0 ||
		!strings.HasPrefix(p.Text(), "would remove the generations 1 2: ") {
		t.Errorf("dry run: %s, %q, %v", out, p.Text(), err)
	}
	if out := run("backup list", `{"dir":"elsewhere"}`); strings.Count(out, `"generation"`) != 3 {
		t.Errorf("after a dry run: %s", out)
	}
	if out := run("backup thin", `{"dir":"elsewhere"}`); !strings.Contains(out, `"removed_generations":[1,2]`) {
		t.Errorf("thin: %s", out)
	}
}
