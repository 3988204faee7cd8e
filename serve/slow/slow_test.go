package slow

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
)

// recording is a flight of a test.
type recording struct{ text string }

func (r recording) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, r.text)
	return int64(n), err
}

func (recording) Stop() {}

func (r *Recorder) traces(t *testing.T) []string {
	t.Helper()
	names, err := r.env.FS.List(r.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestRecorder checks which operations leave a trace, and how many traces stay.
func TestRecorder(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	r, err := start(f.Env, Options{Dir: "traces", Over: time.Second}, recording{"trace"})
	if err != nil {
		t.Fatal(err)
	}
	r.Observe("imap", 999*time.Millisecond)
	r.Observe("Email/query", time.Second)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.traces(t), []string{"slow-20260105T090000.000Z-Email-query.trace"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	take := func(name string) { r.take(operation{name, 2 * time.Second, f.Time.Now()}) }
	f.Time.Advance(every - 1)
	take("early")
	for range keep + 2 {
		f.Time.Advance(every)
		take("imap")
	}
	got := r.traces(t)
	other := func(n string) bool { return !strings.HasSuffix(n, "Z-imap.trace") }
	if len(got) != keep || slices.ContainsFunc(got, other) {
		t.Errorf("%d traces: %q", len(got), got)
	}
}

// TestUnwritable checks that nothing is left of a trace that cannot be written, and that a later one is.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	r, err := start(f.Env, Options{Dir: "traces", Over: time.Second}, recording{strings.Repeat("trace", 1000)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.Faults.SetSpace(100)
	if _, err := r.save(operation{"imap", time.Second, f.Time.Now()}); err == nil || len(r.traces(t)) != 0 {
		t.Errorf("%v, %q", err, r.traces(t))
	}
	f.Faults.SetSpace(-1)
	if _, err := r.save(operation{"imap", time.Second, f.Time.Now()}); err != nil || len(r.traces(t)) != 1 {
		t.Errorf("%v, %q", err, r.traces(t))
	}
}

// TestFlight saves a trace of the runtime.
func TestFlight(t *testing.T) {
	f := env.Test(t)
	r, err := New(f.Env, Options{Dir: "traces", Over: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(f.Env, Options{Dir: "traces"}); err == nil {
		t.Error("a second recorder was started")
	}
	r.Observe("imap", time.Second)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	names := r.traces(t)
	if len(names) != 1 {
		t.Fatalf("%q", names)
	}
	file, err := f.Env.FS.Open(f.Env.FS.PathJoin("traces", names[0]))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil || !bytes.HasPrefix(b, []byte("go 1.")) {
		t.Errorf("%v, %q", err, b[:min(len(b), 20)])
	}
	var none *Recorder
	none.Observe("imap", time.Hour)
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
