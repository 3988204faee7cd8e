package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"doublet/env"
	"doublet/store"
	"doublet/store/blob"
)

// marked is a store with backups to several folders.
type marked struct {
	*model
	faults *env.Faults
}

func newMarked(t *testing.T) *marked {
	m := &marked{}
	m.model = newModelOn(t, func(e *env.Env) {
		m.faults = env.WithFaults(e.FS)
		e.FS = m.faults
	})
	m.steps(200, 1)
	return m
}

// take makes a backup that must succeed.
func (m *marked) take(dir string) Generation {
	m.t.Helper()
	g, err := Take(context.Background(), m.f.Env, m.s, dir, Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	return g
}

// incremental checks that the next backup to a folder that has one reuses the pieces there.
func (m *marked) incremental(dir string) {
	m.t.Helper()
	if g := m.take(dir); g.Copied*2 > g.Bytes {
		m.t.Errorf("the backup to %s copied %d of %d bytes", dir, g.Copied, g.Bytes)
	}
}

// marks returns the marks of the data folder.
func (m *marked) marks() []byte {
	m.t.Helper()
	f, err := m.f.Env.FS.Open("data/" + marksName)
	if err != nil {
		m.t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		m.t.Fatal(err)
	}
	return b
}

func (m *marked) close() {
	m.t.Helper()
	if err := m.s.Close(); err != nil {
		m.t.Error(err)
	}
}

// TestMarksOfSeveralFolders takes many backups to one folder between two backups to others. All must stay incremental,
// also to a folder that began as a copy, once it has had a backup of its own.
func TestMarksOfSeveralFolders(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.take("weekly")
	m.take("hourly")
	copyFolder(t, m.f.Env.FS, "hourly", "copy")
	for range folderMarks + 2 {
		m.take("hourly")
	}
	m.incremental("weekly")
	m.incremental("hourly")
	m.take("copy") // its mark may be forgotten by now
	for range folderMarks + 2 {
		m.take("hourly")
	}
	m.incremental("copy")
	m.close()
}

// TestMarksOfFailedBackups checks that backups that are refused or fail leave no marks, so that they do not remove
// those of other backups.
func TestMarksOfFailedBackups(t *testing.T) {
	t.Parallel()
	m := newMarked(t)
	m.take("full")
	m.take("other")
	before := m.marks()
	full := func(total uint64) uint64 { return 1 << 62 }
	mustFail := func(dir string, o Options) {
		t.Helper()
		if _, err := Take(context.Background(), m.f.Env, m.s, dir, o); !env.IsNoSpace(err) &&
			!errors.Is(err, store.ErrNoSpace) {
			t.Fatal(err)
		}
		if after := m.marks(); !bytes.Equal(before, after) {
			t.Fatalf("a failed backup to %s changed the marks\n%s\n%s", dir, before, after)
		}
	}
	m.faults.SetSpace(1 << 40) // the memory file system reports no usage of its own
	mustFail("full", Options{floor: full})
	mustFail("new", Options{floor: full})
	m.faults.SetSpace(-1)
	m.faults.FailFiles(env.OpWrite, func(name string) bool { return strings.Contains(name, "full/"+markName) },
		env.ErrNoSpace)
	m.faults.FailFiles(env.OpWrite, func(name string) bool { return strings.Contains(name, "new/"+markName) },
		env.ErrNoSpace)
	mustFail("full", Options{})
	mustFail("new", Options{})
	m.faults.Heal()
	// These fail later, when the data folder or both folders have the mark.
	for op, part := range map[env.Op]string{env.OpRename: markName, env.OpCreate: piecesName} {
		m.faults.FailFiles(op, func(name string) bool { return strings.Contains(name, "full/"+part) }, env.ErrNoSpace)
		for range folderMarks + 2 {
			if _, err := Take(context.Background(), m.f.Env, m.s, "full", Options{}); !env.IsNoSpace(err) {
				t.Fatal(err)
			}
		}
		m.faults.Heal()
	}
	m.incremental("full")
	m.incremental("other")
	m.close()
}

// TestMarksBounded checks the bounds of the marks, that marks of older versions are kept, and that the data folder
// takes nothing from a backup folder, which may have been written by someone else.
func TestMarksBounded(t *testing.T) {
	t.Parallel()
	fix := env.TestRealTime(t)
	if err := errors.Join(fix.Env.FS.MkdirAll("data", 0o700), fix.Env.FS.MkdirAll("evil", 0o700)); err != nil {
		t.Fatal(err)
	}
	begin := func(dir string) marks {
		t.Helper()
		ctx := context.Background()
		r, err := openRepository(ctx, fix.Env, dir, blob.Keys{}, true)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.marks(ctx, "data", 1)
		if err = errors.Join(err, r.begin(ctx, m), r.close()); err != nil {
			t.Fatal(err)
		}
		return m
	}
	write := func(path, text string) {
		t.Helper()
		if err := writeFile(fix.Env.FS, path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fix.Env.FS.MkdirAll("old", 0o700); err != nil {
		t.Fatal(err)
	}
	write("data/"+marksName, `[{"id":"a","lineage":"line"},{"id":"b"}]`)
	write("old/"+markName, `{"id":"a","lineage":"line"}`)
	for range folderMarks + 2 {
		begin("busy")
	}
	if m := begin("old"); m.next.Lineage != "line" || len(m.known) != folderMarks+3 {
		t.Errorf("a mark of an older version is lost: %+v, %d marks", m.next, len(m.known))
	}
	write("evil/"+markName, `{"id":"x","folder":"`+strings.Repeat("x", 60_000)+`"}`)
	if m := begin("evil"); len(m.next.Folder) > 100 {
		t.Error("the data folder has text of the backup folder")
	}
	for i := range allMarks {
		begin(fmt.Sprint("many", i))
	}
	m := begin("busy")
	if len(m.known) != allMarks {
		t.Errorf("%d marks", len(m.known))
	}
	if info, err := fix.Env.FS.Stat("data/" + marksName); err != nil || info.Size() > maxMark*3/4 {
		t.Errorf("%v, %v", info, err)
	}
}
