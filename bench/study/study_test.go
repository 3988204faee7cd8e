package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/bench"
	"doublet/bench/record"
)

const text = `title = "t"
repeat = 2
seed = 5

[run]
run = "r6mail"
setting = ["a=1"]
people = 50

[[axis]]
name = "cluster"
value = [{ name = "alone", lab = "config1" }, { name = "two", lab = "config4", setting = ["c.d=2"] }]

[[axis]]
name = "replicators"
value = [{ name = "1" }, { name = "2", replicators = 2 }, { name = "3", replicators = 3, cold-cache = true }]
`

func parsed(t testing.TB, text string) *Study {
	t.Helper()
	s, err := Parse("x.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCells checks that the configurations are all combinations of the axes, with the flags of both and the common
// ones.
func TestCells(t *testing.T) {
	t.Parallel()
	var got []string
	for _, c := range parsed(t, text).Cells() {
		got = append(got, fmt.Sprint(c.Name, " at ", c.Lab, " ", c.Flags))
	}
	want := []string{
		"alone, 1 at config1 [{people 50} {run r6mail} {setting a=1}]",
		"alone, 2 at config1 [{people 50} {run r6mail} {setting a=1} {replicators 2}]",
		"alone, 3 at config1 [{people 50} {run r6mail} {setting a=1} {cold-cache true} {replicators 3}]",
		"two, 1 at config4 [{people 50} {run r6mail} {setting a=1} {setting c.d=2}]",
		"two, 2 at config4 [{people 50} {run r6mail} {setting a=1} {setting c.d=2} {replicators 2}]",
		"two, 3 at config4 [{people 50} {run r6mail} {setting a=1} {setting c.d=2} {cold-cache true} {replicators 3}]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// TestParse checks the errors of files that are no studies.
func TestParse(t *testing.T) {
	t.Parallel()
	const head = "title = \"t\"\n"
	const axis = "[[axis]]\nname = \"a\"\n" +
		"value = [{ name = \"x\", lab = \"config1\" }, { name = \"y\", lab = \"config2\" }]\n"
	with := func(old, now string) string { return head + strings.ReplaceAll(axis, old, now) }
	values := func(list string) string { return head + "[[axis]]\nname = \"a\"\nvalue = [" + list + "]\n" }
	for in, want := range map[string]string{
		"":                                            "no title",
		head:                                          "0 axes: want 1 to 6",
		head + "repeat = 0\n" + axis:                  "repeat is 0",
		"title = 5\n":                                 "x.toml: line 1, column 9",
		head + "colour = 1\n":                         "x.toml: line 2: unknown key colour",
		head + "strangers = nan\n" + axis:             "strangers is NaN",
		head + axis + "[run]\nout = \"x\"\n":          "out is not a flag of a study",
		head + axis + "[run]\nlab = \"z\"\n":          "lab is given twice",
		head + axis + "[run]\nrun = [[1]]\n":          "run: want a text, a number",
		head + axis + axis:                            "lab is given twice",
		values(`{ lab = "x" }`):                       "value without a name",
		values(`{ name = "x", lab = "y" }`):           "compares two or more",
		with(`"y"`, `"x"`):                            "two configurations have",
		with(`, lab = "config1"`, ""):                 "x: no lab",
		with(`lab = "config1"`, "speed = 5"):          "speed: configurations that differ",
		values(strings.Repeat(`{ name = "x" },`, 17)): "17 configurations",
		strings.Repeat("#", maxFile+1):                "over 1048576 bytes",
	} {
		_, err := Parse("x.toml", []byte(in))
		var usage *bench.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", in, err, want)
		}
	}
	if _, _, err := Load("nothing"); err == nil || !strings.Contains(err.Error(), "built in: ") {
		t.Errorf("a study that does not exist: %v", err)
	}
	for _, name := range Names() {
		s, file, err := Load(name)
		if err != nil || len(file) == 0 || s.Repeat < 3 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(Names()) < 4 {
		t.Errorf("studies %q", Names())
	}
}

// TestOrder checks that each configuration runs once before any runs again, in an order that the seed decides.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := parsed(t, text)
	jobs := s.order()
	var orders [2][]int
	for i, j := range jobs {
		if j.Repeat != i/6 || j.Name != s.cells[j.Index].Name {
			t.Errorf("job %d: %+v", i, j)
		}
		orders[j.Repeat] = append(orders[j.Repeat], j.Index)
	}
	for _, o := range orders {
		sorted := slices.Clone(o)
		slices.Sort(sorted)
		if !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5}) || slices.Equal(o, sorted) {
			t.Errorf("order %v", o)
		}
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Errorf("both repeats have the order %v", orders[0])
	}
	if again := parsed(t, text).order(); fmt.Sprint(again) != fmt.Sprint(jobs) {
		t.Error("the same seed has another order")
	}
}

// written writes a run file of one step.
func written(t *testing.T, dir, name string, change func(*record.Run)) string {
	t.Helper()
	sec := func(n int) record.Duration { return record.Duration(time.Duration(n) * time.Second) }
	r := &record.Run{Header: record.Header{Server: &record.Host{Name: "here", CPUs: 2},
		Driver: record.Host{Name: "here"}}, End: &record.End{Reason: "done"},
		Steps: []record.Step{{Users: 50, From: sec(0), To: sec(10), Outcome: record.Measured}}}
	for _, x := range []record.Sample{{Host: "server", Values: map[string]float64{"cpu": 1.5}},
		{Host: "server", Group: "one", Values: map[string]float64{"cpu": 0.9}},
		{Host: "driver", Values: map[string]float64{"cpu": 0.5}}} {
		x.At = sec(5)
		r.Samples = append(r.Samples, x)
	}
	if change != nil {
		change(r)
	}
	path := filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Write(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// bad makes runs that do not count.
var bad = map[string]func(*record.Run){
	"50 users: unsteady: why": func(r *record.Run) {
		r.Steps[0].Outcome, r.Steps[0].Reason = record.Unsteady, "why"
	},
	"50 users: driver-bound": func(r *record.Run) { r.Steps[0].Outcome = record.DriverBound },
	"50 users: interrupted":  func(r *record.Run) { r.Steps[0].Outcome = record.Interrupted },
	"other programs used 30 % of the processors": func(r *record.Run) {
		r.Samples[0].Values = map[string]float64{"cpu": 2} // 1.4 of them are those of server and driver
	},
	"the run was cut off": func(r *record.Run) { r.End = nil },
}

// TestFault checks which runs count: a server that is too slow for its people is a result.
func TestFault(t *testing.T) {
	t.Parallel()
	s, dir := parsed(t, text), t.TempDir()
	fault := func(change func(*record.Run)) string {
		r, err := record.ReadFile(written(t, dir, "x.run", change))
		if err != nil {
			t.Fatal(err)
		}
		return s.fault(r)
	}
	for name, change := range map[string]func(*record.Run){
		"measured":    nil,
		"discarded":   func(r *record.Run) { r.Steps[0].Outcome = record.Discarded },
		"not metered": func(r *record.Run) { r.Samples = nil },
		"a driver elsewhere": func(r *record.Run) {
			r.Header.Driver.Name = "there"
			r.Samples[0].Values = map[string]float64{"cpu": 1}
		},
	} {
		if why := fault(change); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}
	for want, change := range bad {
		if why := fault(change); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}

// machine measures for tests: run number n of all is changed by the function at n.
type machine struct {
	t      *testing.T
	n      int
	ran    []string
	change map[int]func(*record.Run)
	crash  int // the run that ends with an error, after its file was written; 0 for none
}

var errCrash = errors.New("crash")

func (m *machine) measure(_ context.Context, job *Job, out string) (string, error) {
	m.n++
	m.ran = append(m.ran, job.Name)
	path := written(m.t, out, fmt.Sprintf("r%03d.run", m.n), m.change[m.n])
	if m.n == m.crash {
		return path, errCrash
	}
	return path, nil
}

func silent(string, ...any) {}

// TestResume crashes in the middle of a study: the next start measures the unfinished runs, and no others.
func TestResume(t *testing.T) {
	t.Parallel()
	s, dir := parsed(t, text), t.TempDir()
	m := &machine{t: t, crash: 4}
	if _, err := s.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	// The crash has cut the next line of the journal off.
	f, err := os.OpenFile(filepath.Join(dir, JournalName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"index":1,"rep`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent})
	if err != nil || len(entries) != 12 || m.n != 13 || m.ran[3] != m.ran[4] {
		t.Fatalf("%v: %d entries after %d runs: %q", err, len(entries), m.n, m.ran)
	}
	if _, err := os.Stat(filepath.Join(dir, quarantine, "r004.run")); err != nil {
		t.Errorf("the file of the run that crashed: %v", err)
	}
	seen := map[string]int{}
	for _, e := range entries {
		seen[e.Name]++
		if _, err := os.Stat(filepath.Join(dir, e.File)); err != nil || e.Quarantined != "" {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if len(seen) != 6 || seen["two, 3"] != 2 {
		t.Errorf("runs %v", seen)
	}
	// A study that is finished measures nothing more, but a run of which the file was lost.
	for _, lost := range []int{0, 1, 0} {
		if lost > 0 {
			if err := os.Remove(filepath.Join(dir, runs, "r002.run")); err != nil {
				t.Fatal(err)
			}
		}
		before := m.n
		again, err := s.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent})
		if err != nil || m.n != before+lost || len(again) != 12 {
			t.Errorf("%v: %d entries after %d runs", err, len(again), m.n)
		}
	}
	// The folder belongs to this file.
	other := parsed(t, strings.Replace(text, "seed = 5", "seed = 6", 1))
	if _, err := other.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent}); err == nil ||
		!strings.Contains(err.Error(), "another study") {
		t.Errorf("another file: %v", err)
	}
	journal := filepath.Join(dir, JournalName)
	for line, want := range map[string]string{`{"index":9,"file":"x"}`: "line 15: no run of this study",
		`{"index":0,"file":"../x"}`: "line 15: no run of this study", "nonsense": "line 15"} {
		raw, err := os.ReadFile(journal)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(journal, append(raw, line+"\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = s.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
		if err := os.WriteFile(journal, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuarantine repeats a run that does not count, after the others of its round, and gives a configuration up whose
// runs never do.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	s, dir := parsed(t, text), t.TempDir()
	busy := bad["other programs used 30 % of the processors"]
	m := &machine{t: t, change: map[int]func(*record.Run){2: busy, 4: busy, 8: busy, 9: busy}}
	entries, err := s.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent})
	if err != nil {
		t.Fatal(err)
	}
	counts, aside := map[int]int{}, map[int]int{}
	for _, e := range entries {
		if e.Quarantined == "" {
			counts[e.Index]++
			continue
		}
		aside[e.Index]++
		if filepath.Dir(e.File) != quarantine {
			t.Errorf("%+v", e)
		}
		if _, err := os.Stat(filepath.Join(dir, e.File)); err != nil {
			t.Error(err)
		}
	}
	order := s.order()
	second, fourth := order[1].Index, order[3].Index
	if aside[second] != 1 || counts[second] != 2 || aside[fourth] != maxAttempts || counts[fourth] != 1 ||
		m.n != 12+1+2 {
		t.Errorf("counts %v, aside %v after %d runs", counts, aside, m.n)
	}
}

// TestFolder makes the folders for the servers of others, which run under accounts of their own and must be able to
// enter them.
func TestFolder(t *testing.T) {
	above := filepath.Join(t.TempDir(), "studies")
	if err := makeFolder(filepath.Join(above, "jmap")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{above, filepath.Join(above, "jmap")} {
		if f, err := os.Stat(dir); err != nil || f.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v; want 0711", dir, f.Mode().Perm(), err)
		}
	}
}

// TestInterrupted ends a study with its context: the run of the moment is no result, and nothing runs after it.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	s, dir := parsed(t, text), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	m := &machine{t: t}
	interrupted := func(ctx context.Context, job *Job, out string) (string, error) {
		if m.n == 2 {
			stop()
		}
		return m.measure(ctx, job, out)
	}
	entries, err := s.Run(ctx, dir, Runner{Tell: silent, Measure: interrupted})
	if !errors.Is(err, context.Canceled) || len(entries) != 2 || m.n != 3 {
		t.Errorf("%v: %d entries after %d runs", err, len(entries), m.n)
	}
}

// TestEnough checks that no run begins after the time is over, that the study goes on there the next time, and that
// Runs returns what there is without a change.
func TestEnough(t *testing.T) {
	t.Parallel()
	s, dir := parsed(t, text), t.TempDir()
	if list, err := s.Runs(dir); err == nil || !strings.Contains(err.Error(), "no runs") {
		t.Errorf("a folder without a study: %v, %v", list, err)
	}
	m := &machine{t: t}
	x := Runner{Measure: m.measure, Tell: silent, Enough: func() bool { return m.n >= 5 }}
	entries, err := s.Run(t.Context(), dir, x)
	if err != nil || len(entries) != 5 || m.n != 5 {
		t.Fatalf("%v: %d entries after %d runs", err, len(entries), m.n)
	}
	// A run is under way.
	stray := filepath.Join(dir, runs, "under-way.run")
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Runs(dir); err != nil || !slices.Equal(list, entries) {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := os.Stat(stray); err != nil {
		t.Errorf("Runs has moved a run file: %v", err)
	}
	if entries, err = s.Run(t.Context(), dir, Runner{Measure: m.measure, Tell: silent}); err != nil ||
		len(entries) != 12 || m.n != 12 {
		t.Errorf("%v: %d entries after %d runs", err, len(entries), m.n)
	}
}

// TestClients runs the short form of the study clients while the machine is busy now and then, for as long as five runs
// take: each client has a run that counts.
func TestClients(t *testing.T) {
	t.Parallel()
	s, _, err := Load("clients")
	if err == nil {
		err = s.Short()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, change: map[int]func(*record.Run){1: bad["50 users: driver-bound"]}}
	entries, err := s.Run(t.Context(), t.TempDir(), Runner{Measure: m.measure, Tell: silent,
		Enough: func() bool { return m.n >= 5 }})
	if err != nil {
		t.Fatal(err)
	}
	var counts []string
	for _, e := range entries {
		if e.Quarantined == "" {
			counts = append(counts, e.Name)
		}
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []string{"IMAP", "JMAP", "full", "lite"}) {
		t.Errorf("runs that count: %q", counts)
	}
}

// TestShort checks that the short form is another study, with the flags that make it short.
func TestShort(t *testing.T) {
	t.Parallel()
	whole, s := parsed(t, text), parsed(t, text)
	if err := s.Short(); err != nil {
		t.Fatal(err)
	}
	if s.Hash == whole.Hash || s.Title == whole.Title || len(s.Cells()) != len(whole.Cells()) || s.Repeat != 2 {
		t.Errorf("%+v", s)
	}
	for _, want := range []Flag{{"speed", "60"}, {"window", "15s"}, {"people", "50"}} {
		if !slices.Contains(s.Cells()[0].Flags, want) || want.Name != "people" &&
			slices.Contains(whole.Cells()[0].Flags, want) {
			t.Errorf("%v in %v", want, s.Cells()[0].Flags)
		}
	}
	for _, name := range Names() {
		s, _, err := Load(name)
		if err == nil {
			err = s.Short()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse checks that no file ends the program, and that a study has the configurations that it may have.
func FuzzParse(f *testing.F) {
	f.Add(text)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f", []byte(text))
		if err != nil {
			return
		}
		if n := len(s.Cells()); n < 2 || n > maxCells || len(s.order()) != n*s.Repeat {
			t.Errorf("%d configurations, %d runs", n, len(s.order()))
		}
	})
}
