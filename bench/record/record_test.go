package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func header() Header {
	return Header{ID: "r1", Started: start, Build: "test", Workload: Workload{Name: "r6mail", Hash: "h",
		Protocol: "imap", Own: "imap"}, Seed: 7, Agents: 1}
}

// exact computes a percentile by sorting.
func exact(all []time.Duration, p float64) time.Duration {
	slices.Sort(all)
	return all[int(p/100*float64(len(all)-1))]
}

func TestPercentilesAreThoseOfTheValues(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var h, a, b Histogram
	var all []time.Duration
	var sum time.Duration
	for i := range 20000 {
		d := time.Duration(r.ExpFloat64()*5000)*time.Microsecond + time.Microsecond
		all = append(all, d)
		sum += d
		h.Add(d)
		if i%3 == 0 {
			a.Add(d)
		} else {
			b.Add(d)
		}
	}
	a.Merge(&b)
	for _, p := range []float64{50, 90, 99, 99.9} {
		want := exact(all, p)
		for name, got := range map[string]time.Duration{"one": h.Percentile(p), "merged": a.Percentile(p)} {
			if diff := (got - want).Abs(); diff > want/200+2*time.Microsecond {
				t.Errorf("%s: p%v = %v, want %v", name, p, got, want)
			}
		}
	}
	if got, want := h.Mean(), sum/time.Duration(len(all)); (got - want).Abs() > time.Microsecond {
		t.Errorf("mean %v, want %v", got, want)
	}
}

func TestHistogramThroughTheFile(t *testing.T) {
	t.Parallel()
	var h Histogram
	for _, d := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond, 10 * time.Second, 5 * time.Hour} {
		h.Add(d)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var back Histogram
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Count() != 5 || back.Sum() != h.Sum() || back.Max() != h.Max() || back.Percentile(50) != h.Percentile(50) {
		t.Errorf("%d values with sum %v came back as %d with %v", h.Count(), h.Sum(), back.Count(), back.Sum())
	}
	if back.Merge(&h); back.Count() != 10 {
		t.Error("one that came from a file cannot be merged")
	}
}

func TestDurationThroughTheFile(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, time.Microsecond, 1500 * time.Millisecond, 3 * time.Hour} {
		b, err := json.Marshal(Duration(d))
		var back Duration
		if err != nil || json.Unmarshal(b, &back) != nil || time.Duration(back) != d {
			t.Errorf("%v: %s: %v, %v", d, b, time.Duration(back), err)
		}
	}
}

// sample is a small run: two steps, two actions, an error, a missed action.
func sample(t *testing.T, id string, users int) []byte {
	t.Helper()
	var file bytes.Buffer
	h := header()
	h.ID = id
	w := NewWriter(&file, h)
	rec := NewRecorder(start)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for i := range 100 {
		rec.Done(Done{Action: "read", Intended: at(1), Begun: at(1.5),
			Ended: at(1.5).Add(time.Duration(i+1) * time.Millisecond), Received: 10})
	}
	rec.Done(Done{Action: "send", Intended: at(1), Begun: at(1), Ended: at(2), Err: "452 full"})
	rec.Missed("send")
	for _, i := range rec.Cut(at(10), start, 0, Measure) {
		w.Interval(i)
	}
	rec.Done(Done{Action: "read", Intended: at(11), Begun: at(11), Ended: at(12)})
	for _, i := range rec.Cut(at(20), start, 0, Settle) {
		w.Interval(i)
	}
	w.Sample(Sample{At: Duration(5 * time.Second), Host: "server", Values: map[string]float64{"cpu": 1.5}})
	w.Event(Event{At: Duration(time.Second), Text: "begun"})
	w.Step(Step{Users: users, From: 0, To: Duration(10 * time.Second), Outcome: Measured})
	w.End(End{At: Duration(20 * time.Second), Reason: "done"})
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestRunThroughTheFile(t *testing.T) {
	t.Parallel()
	run, err := Read(bytes.NewReader(sample(t, "r1", 3)))
	if err != nil {
		t.Fatal(err)
	}
	read, send, all := run.Total(0, "read"), run.Total(0, "send"), run.Total(0, All)
	if read.Latency.Count() != 100 || read.Received != 1000 {
		t.Errorf("read: %d of 100; what was not measured must not count", read.Latency.Count())
	}
	// The latency counts from the intended time, half a second before the action began.
	if m := read.Latency.Mean(); m < 550*time.Millisecond || m > 551*time.Millisecond {
		t.Errorf("mean latency %v", m)
	}
	if m := read.Service.Mean(); m < 50*time.Millisecond || m > 51*time.Millisecond {
		t.Errorf("mean service time %v", m)
	}
	if send.Failed != 1 || send.Missed != 1 || send.Errors["452 full"] != 1 || send.Latency.Count() != 0 {
		t.Errorf("send: %+v", send)
	}
	if all.Latency.Count() != 100 || run.TPM(&run.Steps[0]) != 600 {
		t.Errorf("TPM %v", run.TPM(&run.Steps[0]))
	}
	if cpu, n := run.Mean(&run.Steps[0], "server", "", "cpu"); cpu != 1.5 || n != 1 {
		t.Errorf("cpu %v of %d samples", cpu, n)
	}
	if !slices.Equal(run.Actions(), []string{"read", "send"}) || run.End == nil || run.Torn || len(run.Events) != 1 {
		t.Errorf("%v %v %v", run.Actions(), run.End, run.Torn)
	}
	var again bytes.Buffer
	if err := run.Write(&again); err != nil {
		t.Fatal(err)
	}
	second, err := Read(&again)
	if got := second.Total(0, All); err != nil || got.Latency.Sum() != all.Latency.Sum() ||
		second.Header.ID != run.Header.ID {
		t.Errorf("written and read again: %v", err)
	}
}

func TestCutOffAnywhere(t *testing.T) {
	t.Parallel()
	whole := sample(t, "r1", 3)
	first := bytes.IndexByte(whole, '\n') + 1
	for n := first; n < len(whole); n += 7 {
		run, err := Read(bytes.NewReader(whole[:n]))
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if torn := whole[n-1] != '\n'; run.Torn != torn || run.End != nil {
			t.Fatalf("cut at %d: torn %v, end %v", n, run.Torn, run.End)
		}
	}
}

func TestNotARunFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "hello\n", "{}\n", `{"header":{"format":99}}` + "\n",
		`{"header":{"format":1}}` + "\nrubbish\n",
		`{"header":{"format":1}}` + "\n" + `{"interval":{"action":"a","latency":{"hdr":"HISTFAAA","sum_us":1}}}` +
			"\n"} {
		if _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMergeEqualsOneDriver(t *testing.T) {
	t.Parallel()
	a, _ := Read(bytes.NewReader(sample(t, "r1", 3)))
	b, _ := Read(bytes.NewReader(sample(t, "r1", 4)))
	m, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	one, two, both := a.Total(0, All), b.Total(0, All), m.Total(0, All)
	one.Latency.Merge(&two.Latency)
	if both.Latency.Count() != 200 || both.Latency.Percentile(99) != one.Latency.Percentile(99) || both.Failed != 2 ||
		m.Steps[0].Users != 7 || m.Header.Agents != 2 {
		t.Errorf("%d latencies, p99 %v, %d users", both.Latency.Count(), both.Latency.Percentile(99), m.Steps[0].Users)
	}
	c, _ := Read(bytes.NewReader(sample(t, "other", 4)))
	if _, err := Merge(a, c); !errors.Is(err, ErrMerge) {
		t.Errorf("another run: %v", err)
	}
}

func TestErrorKindsAreBounded(t *testing.T) {
	t.Parallel()
	rec := NewRecorder(start)
	for i := range 1000 {
		rec.Done(Done{Action: "x", Err: strings.Repeat("e", i%100+1)})
	}
	got := rec.Cut(start, start, 0, Measure)[0].Errors
	sum := uint64(0)
	for _, n := range got {
		sum += n
	}
	if len(got) > maxErrorKinds+1 || sum != 1000 {
		t.Errorf("%d kinds, %d errors", len(got), sum)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"header":{"format":1}}` + "\n" +
		`{"interval":{"step":0,"action":"a",` +
		`"latency":{"hdr":"HISTFAAAAB14nJNpmSzMwMDAxgABzFCaEUzOmNZg/wEiAgBHnAMV","sum_us":1}}}` + "\n"))
	f.Add([]byte(`{"header":{"format":1}}` + "\n" + `{"step":{"from":1e99}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		run, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := run.Write(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&out); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAlong checks that a value sampled only on change counts for as long as it lasted.
func TestAlong(t *testing.T) {
	t.Parallel()
	sec := func(s int) Duration { return Duration(time.Duration(s) * time.Second) }
	r := &Run{Steps: []Step{{From: sec(10), To: sec(20)}}}
	add := func(at int, v float64) {
		r.Samples = append(r.Samples, Sample{At: sec(at), Host: "statistics", Group: "one",
			Values: map[string]float64{"depth": v}})
	}
	add(2, 50) // ends before the measured part
	add(8, 4)
	add(15, 10)
	add(18, 0)
	add(25, 99)
	r.Samples = append(r.Samples, Sample{At: sec(12), Host: "statistics", Group: "two",
		Values: map[string]float64{"depth": 1000}})
	if mean, most, ok := r.Along(&r.Steps[0], "statistics", "one", "depth"); !ok ||
		math.Abs(mean-(4*5+10*3)/10.0) > 1e-9 || most != 10 {
		t.Errorf("mean %v, most %v, %v", mean, most, ok)
	}
	if _, _, ok := r.Along(&r.Steps[0], "statistics", "three", "depth"); ok {
		t.Error("a server that nobody sampled")
	}
}

// TestTotalOfNothing adds up a step whose measured part has no interval, as that of a run that was cut off.
func TestTotalOfNothing(t *testing.T) {
	t.Parallel()
	r := &Run{Steps: []Step{{To: Duration(time.Minute)}}}
	if total := r.Total(0, All); total.Completed() != 0 || total.Failed != 0 || r.TPM(&r.Steps[0]) != 0 {
		t.Errorf("%+v", total)
	}
}
