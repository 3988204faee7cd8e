package admin

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"doublet/note"
)

// TestBackupYields stops the server while a backup waits for its turn to read: it ends at once, and the
// next one is good.
func TestBackupYields(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	var stop func()
	s.Stopping, stop = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // so that a failure is none that hangs
	defer cancel()
	_, err := s.Run(ctx, note.System, "backup", json.RawMessage(`{"dir":"backup","rate":"1B"}`), func(Progress) { stop() })
	if !errors.Is(err, ErrStopping) || Kind(err) != "stopped" {
		t.Errorf("a backup when the server stops: %v", err)
	}
	s.Stopping = nil
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
