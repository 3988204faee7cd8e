package store

import (
	"bytes"
	"context"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchedFS calls made when the folder of a checkpoint is created, between the flush and the copies.
type watchedFS struct {
	env.FS
	made func()
}

// Unwrap implements FS.
func (w *watchedFS) Unwrap() vfs.FS { return nil }

// MkdirAll implements FS.
func (w *watchedFS) MkdirAll(dir string, mode os.FileMode) error {
	if path.Base(dir) == CheckpointName {
		w.made()
	}
	return w.FS.MkdirAll(dir, mode)
}

// TestCaptureKeepsCutsOut checks that CutDamage cannot begin while the engine makes the checkpoint of a backup.
// Otherwise the backup would lack the rows that it cuts out, but have later batches. The checkpoint has no log.
func TestCaptureKeepsCutsOut(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	w := &watchedFS{FS: f.Env.FS}
	f.Env.FS = w
	s, _ := damageStore(t, f)
	met := 0
	w.made = func() {
		met++
		if s.making.TryLock() {
			s.making.Unlock()
			t.Error("a range can be cut out between flush and checkpoint")
		}
	}
	m, err := s.Capture(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	names, err := f.Env.FS.List(m.Index)
	if err != nil || met == 0 {
		t.Errorf("%d checkpoints, %v", met, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			t.Errorf("it holds the log %s", name)
		}
	}
	if err := m.Release(); err != nil {
		t.Error(err)
	}
	if !s.making.TryLock() {
		t.Error("no range can be cut out after it")
	} else {
		s.making.Unlock()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestReplayIntoStill replays more than 24 memtables into an engine that does not compact.
func TestReplayIntoStill(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	o := crashOptions()
	s, err := Open(f.Env, "data", o)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Still, o.MemTableSize = true, 64<<10
	done := make(chan error, 1)
	go func() {
		done <- Replay(f.Env, "data", o, func(apply func([]byte) error) error {
			var b pebble.Batch
			_ = b.Set(layout.MetaKey("large"), make([]byte, 100<<10), nil)
			for range 40 {
				if err := apply(bytes.Clone(b.Repr())); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the replay waits for a compaction")
	}
}
