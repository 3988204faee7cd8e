package backup

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// busyLog is a file system that writes to the engine's log between two reads of it. The reader of a recycled log then
// gets an old block followed by a new one, which shows that the old one was flushed.
type busyLog struct {
	env.FS
	armed   atomic.Bool
	between func()
	met     atomic.Int64
}

// Unwrap implements FS.
func (b *busyLog) Unwrap() vfs.FS { return nil }

func (b *busyLog) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := b.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".log") || !b.armed.Load() {
		return f, err
	}
	return &busyFile{File: f, at: b}, nil
}

type busyFile struct {
	vfs.File
	at    *busyLog
	reads int
}

func (f *busyFile) Read(p []byte) (int, error) {
	f.reads++
	if f.reads == 2 {
		f.at.met.Add(1)
		f.at.between()
	}
	return f.File.Read(p)
}

// TestLogGrowsWhileCopied makes writers fill the engine's log between two reads of the checkpoint that copies it. The
// log is a recycled file, so the copy is torn in the middle. The backup must restore some moment all the same.
func TestLogGrowsWhileCopied(t *testing.T) {
	t.Parallel()
	busy := &busyLog{}
	m := newModelOn(t, func(e *env.Env) {
		busy.FS = e.FS
		e.FS = busy
	})
	ctx := context.Background()
	m.steps(600, 1) // several logs long, so that the engine recycles the first ones
	seed := uint64(2)
	busy.between = func() {
		busy.armed.Store(false)
		m.steps(60, seed)
		busy.armed.Store(true)
	}
	for range 3 {
		least := m.done()
		busy.armed.Store(true)
		g, err := Take(ctx, m.f.Env, m.s, "backup", Options{})
		busy.armed.Store(false)
		if err != nil {
			t.Fatal(err)
		}
		most := m.done()
		dir := "restored" + string(rune('0'+seed))
		m.put(m.f.Env, g.Number, dir)
		m.compare(m.f.Env, dir, least, most)
		m.steps(100, seed+10)
		seed++
	}
	if busy.met.Load() == 0 {
		t.Error("no log was written to while it was copied")
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}
