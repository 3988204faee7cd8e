package env

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const unspecified = vfs.WriteCategoryUnspecified

func create(t *testing.T, fs FS, name string) File {
	t.Helper()
	f, err := fs.Create(name, unspecified)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFaultsFailWhenTold(t *testing.T) {
	t.Parallel()
	f := WithFaults(vfs.NewMem())
	mine := errors.New("mine")
	f.FailNth(OpWrite, 2, mine)
	f.FailFrom(OpSync, 2, nil)
	f.FailFiles(OpRemove, func(name string) bool { return name == "b" }, nil)
	a := create(t, f, "a")
	for i, want := range []error{nil, mine, nil} {
		if _, err := a.Write([]byte("x")); !errors.Is(err, want) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	for i, want := range []error{nil, ErrInjected, ErrInjected} {
		if err := a.Sync(); !errors.Is(err, want) {
			t.Errorf("sync %d: %v", i, err)
		}
	}
	create(t, f, "b")
	if err := f.Remove("b"); !errors.Is(err, ErrInjected) {
		t.Errorf("remove b: %v", err)
	}
	f.Heal()
	if err := errors.Join(a.SyncData(), f.Remove("b"), f.Rename("a", "c")); err != nil {
		t.Errorf("after Heal: %v", err)
	}
	f.FailNth(OpCreate, 1, nil)
	f.FailNth(OpOpen, 1, nil)
	f.FailNth(OpRead, 1, nil)
	f.FailNth(OpRename, 1, nil)
	_, err := f.Create("d", unspecified)
	_, err2 := f.Open("c")
	if c, err := f.Open("c"); err != nil {
		t.Error(err)
	} else if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrInjected) {
		t.Errorf("read: %v", err)
	}
	if err3 := f.Rename("c", "a"); !errors.Is(err, ErrInjected) || !errors.Is(err2, ErrInjected) ||
		!errors.Is(err3, ErrInjected) {
		t.Errorf("create %v, open %v, rename %v", err, err2, err3)
	}
	c := f.Counts()
	if c.Of(OpWrite) != 3 || c.Of(OpSync) != 4 || c.Of(OpCreate) != 3 || c.BytesWritten != 2 {
		t.Errorf("counts %+v", c)
	}
}

func TestFaultsFullDevice(t *testing.T) {
	t.Parallel()
	f := WithFaults(vfs.NewMem())
	f.SetSpace(10)
	a := create(t, f, "a")
	if n, err := a.Write(make([]byte, 6)); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := a.Write(make([]byte, 6)); n != 4 || !IsNoSpace(err) {
		t.Errorf("a write over the end: %d, %v", n, err)
	}
	if n, err := a.Write(make([]byte, 1)); n != 0 || !IsNoSpace(err) {
		t.Errorf("a write on a full device: %d, %v", n, err)
	}
	if u, err := f.GetDiskUsage("/"); err != nil || u.AvailBytes != 0 || u.UsedBytes != 10 {
		t.Errorf("usage %+v, %v", u, err)
	}
	// Overwriting existing bytes takes no space.
	w, err := f.OpenReadWrite("a", unspecified)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.WriteAt([]byte("12345"), 5); n != 5 || err != nil {
		t.Errorf("overwriting: %d, %v", n, err)
	}
	if n, err := w.WriteAt([]byte("12345"), 8); n != 2 || !IsNoSpace(err) {
		t.Errorf("overwriting and growing: %d, %v", n, err)
	}
	if err := f.Link("a", "link"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Remove("link"), f.Remove("a")); err != nil {
		t.Fatal(err)
	}
	if u, _ := f.GetDiskUsage("/"); u.AvailBytes != 10 {
		t.Errorf("removing gives back %d of 10", u.AvailBytes)
	}
	for i, replace := range []func() error{
		func() error { _, err := f.Create("b", unspecified); return err },
		func() error { create(t, f, "c"); return f.Rename("c", "b") },
		func() error { return f.RemoveAll("b") },
	} {
		b := create(t, f, "b")
		if _, err := b.Write(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		if u, _ := f.GetDiskUsage("/"); u.AvailBytes != 10 {
			t.Errorf("way %d of replacing: %d free", i, u.AvailBytes)
		}
	}
	f.SetSpace(-1)
	if _, err := create(t, f, "big").Write(make([]byte, 1000)); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

func TestFixtureCrash(t *testing.T) {
	t.Parallel()
	f := Test(t)
	a := create(t, f.FS, "a")
	a.Write([]byte("kept"))
	a.Sync()
	dir, err := f.FS.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	dir.Sync()
	a.Write([]byte(" lost"))
	create(t, f.FS, "b")
	after := f.Crash(0, 1)
	if _, err := after.FS.Stat("b"); err == nil {
		t.Error("a file that was never synced is there")
	}
	in, err := after.FS.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(in); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	if after.Time != f.Time || after.Clock.Now() != TestStart {
		t.Error("the clock did not survive")
	}
	if f.Uint64() == after.Uint64() {
		t.Error("the same randomness again after a crash")
	}
}

func TestSeeded(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) string {
		b := make([]byte, 40)
		if n, err := Seeded(seed).Read(b); n != 40 || err != nil {
			t.Fatal(n, err)
		}
		return string(b)
	}
	first, again := draw(1), draw(1)
	if first != again || first == draw(2) {
		t.Error("the seed does not decide")
	}
	one, other := Test(t), Test(t)
	if one.Uint64() != other.Uint64() {
		t.Error("two fixtures draw differently")
	}
}

func TestFixtureStaysHere(t *testing.T) {
	t.Parallel()
	f := TestRealTime(t)
	if _, err := f.Dial("tcp", "192.0.2.1:25", time.Second); err == nil ||
		!strings.Contains(err.Error(), "stays on this machine") {
		t.Error(err)
	}
	l, err := f.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := f.Dial("tcp", l.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestLogTailIsBounded(t *testing.T) {
	t.Parallel()
	tail := &logTail{}
	log := slog.New(slog.NewTextHandler(tail, nil))
	for range 10_000 {
		log.Info(strings.Repeat("x", 100))
	}
	log.Info("last")
	if n := len(tail.String()); n > logTailBytes || !bytes.Contains(tail.text, []byte("last")) {
		t.Errorf("%d bytes", n)
	}
}

func TestSlowSync(t *testing.T) {
	t.Parallel()
	m := NewManual(TestStart)
	fs := SlowSync(vfs.NewMem(), m, 5*time.Millisecond)
	a := create(t, fs, "a")
	synced := make(chan error)
	go func() { synced <- a.Sync() }()
	m.AwaitPending(1)
	m.Advance(5 * time.Millisecond)
	if err := <-synced; err != nil {
		t.Error(err)
	}
}
