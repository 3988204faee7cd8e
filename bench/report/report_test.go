package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/bench/record"
)

// made returns a run of steps with the given average latencies, in milliseconds. The server used one core per 1,000
// users.
func made(label string, users []int, latency func(users int) float64) *record.Run {
	sec := func(s float64) record.Duration { return record.Duration(time.Duration(s * float64(time.Second))) }
	run := &record.Run{Header: record.Header{
		Format: 1, ID: "r-" + label, Label: label, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Build: "test",
		Seed: 1, Speed: 1, InitScale: 1, Agents: 1,
		Workload: record.Workload{Name: "n8mail", Hash: "abc", Protocol: "imap", Own: "imap", Loop: sec(900)},
		Target:   record.Target{Name: "doublet", Doors: map[string]string{"imap": "127.0.0.1:143"}},
		Driver:   record.Host{Name: "driver", OS: "Debian", CPUs: 2},
		Server:   &record.Host{Name: "server", OS: "Debian", CPUs: 4, Memory: 8e9},
	}}
	for i, n := range users {
		base := float64(i) * 100
		outcome := record.Measured
		if latency(n) > 1000 {
			outcome = record.Discarded
		}
		for at := base; at < base+60; at += 10 {
			phase := record.Measure
			if at < base+30 {
				phase = record.Settle
			}
			for _, action := range []string{"read", "send"} {
				x := record.Interval{Step: i, Phase: phase, From: sec(at), To: sec(at + 10), Action: action}
				for k := range n {
					x.Latency.Add(time.Duration(latency(n) * (0.5 + float64(k)/float64(n)) * float64(time.Millisecond)))
				}
				if action == "send" {
					x.Errors = map[string]uint64{"452 <full> & slow": 2}
					x.Missed = 1
				}
				run.Intervals = append(run.Intervals, x)
			}
			run.Samples = append(run.Samples,
				record.Sample{At: sec(at + 10), Host: "server",
					Values: map[string]float64{"cpu": float64(n) / 1000, "cpu_pct": float64(n) / 40,
						"net_in": float64(n)}},
				record.Sample{At: sec(at + 10), Host: "server", Group: "doublet",
					Values: map[string]float64{"cpu": float64(n) / 1000, "pss": 1e8}},
				record.Sample{At: sec(at + 10), Host: "server", Group: "disk:vda",
					Values: map[string]float64{"writes": float64(n), "write_bytes": float64(n) * 4096,
						"busy_pct": float64(n) / 50}},
				record.Sample{At: sec(at + 10), Host: "probe", Values: map[string]float64{"p50": 0.002}})
		}
		run.Steps = append(run.Steps, record.Step{Index: i, Users: n, Registered: 5000, Begin: sec(base),
			Steady: sec(base + 30), From: sec(base + 30), To: sec(base + 60), Outcome: outcome})
	}
	run.End = &record.End{At: sec(float64(len(users)) * 100), Reason: "done"}
	return run
}

func linear(users int) float64 { return float64(users) / 10 }

func page5(t *testing.T, run *record.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Of(run).HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	t.Parallel()
	run := made("first", []int{1000, 2000, 3000, 20000}, linear)
	run.Header.Marks = []string{"window of 30s"}
	run.Header.Messages = []record.MessageSize{{Profile: "mail", Percent: 75, Body: 1000, Whole: 1000, Compressed: 0.4},
		{Profile: "mail", Percent: 25, Body: 1000, Attachment: 8000, Whole: 13000, Compressed: 0.8}}
	text := page5(t, run)
	for _, want := range []string{"<td>mean</td><td>1.00 KB</td><td>2.00 KB</td><td>4.00 KB</td><td>72.5 %</td>",
		"n8mail over imap against doublet", "window of 30s", "3000", "class=\"discarded\"",
		"452 &lt;full&gt; &amp; slow", "Response time", "Disk operations",
		"Response time against disk utilisation", "Probe over time", "seed 1", "4 processors"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, never := range []string{"http://", "https://", "src=", "<script", "NaN", "Inf", "%!", "url("} {
		if strings.Contains(text, never) {
			t.Errorf("%q is in a page that opens from disk", never)
		}
	}
	// 3,000 users did 2 actions each per 10 s: 2 × 6 × 3,000 a minute.
	if best := Of(run).Best(); best.Users != 3000 || math.Abs(best.TPM-36000) > 1 || math.Abs(best.CPU-75) > 0.01 ||
		math.Abs(best.ITR-600.0/75*100) > 0.01 {
		t.Errorf("%+v", best)
	}
}

func TestFiguresAreWhole(t *testing.T) {
	t.Parallel()
	for _, run := range []*record.Run{made("a", []int{100}, linear), made("b", []int{10, 20, 30}, linear),
		{Header: record.Header{Format: 1}}} {
		for _, c := range Of(run).Figures {
			if err := xml.Unmarshal([]byte(c.SVG()), new(struct{})); err != nil {
				t.Errorf("%s: %v", c.Title, err)
			}
			var b bytes.Buffer
			if err := c.PNG(&b); err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(&b)
			if err != nil || img.Bounds().Dx() < 1000 {
				t.Errorf("%s: %v", c.Title, err)
			}
		}
	}
}

// TestNothingIsDrawnOutside checks figures of one step and of many, with many groups of long names.
func TestNothingIsDrawnOutside(t *testing.T) {
	t.Parallel()
	many := make([]int, 8)
	for i := range many {
		many[i] = 1250 * (i + 1)
	}
	for _, users := range [][]int{{1}, {100, 200, 300, 400}, many} {
		run := made("x", users, func(n int) float64 { return float64(n) * 0.123 })
		run.Header.Workload.Limit = record.Duration(time.Second)
		for i := range 4 {
			run.Events = append(run.Events, record.Event{At: record.Duration(time.Duration(20+12*i) * time.Second),
				Mark: "two killed"})
		}
		for i := range 12 {
			for k := range run.Steps {
				run.Samples = append(run.Samples, record.Sample{At: run.Steps[k].To, Host: "server",
					Group:  fmt.Sprintf("a group of processes with a long name %d", i),
					Values: map[string]float64{"cpu": 1, "pss": 3e9}})
			}
		}
		figures := Of(run).Figures
		if len(users) == 1 && len(figures) != 6 || len(users) > 1 && len(figures) < 14 {
			t.Errorf("%d steps have %d figures", len(users), len(figures))
		}
		for _, c := range figures {
			if outside, err := c.Outside(); err != nil || len(outside) > 0 {
				t.Errorf("%s: %v %v", c.Title, outside, err)
			}
		}
	}
}

// TestFiguresTell checks what the figures of a run mark: the limit of the workload, the ends and starts of servers, and
// queues as steps; and that p99 does not flatten the other lines.
func TestFiguresTell(t *testing.T) {
	t.Parallel()
	run := made("x", []int{1000, 5000, 9000}, linear)
	run.Header.Workload.Limit = record.Duration(time.Second)
	at := record.Duration(40 * time.Second)
	run.Events = []record.Event{{At: at, Text: "two was killed (SIGKILL)", Mark: "two killed"},
		{At: at, Text: "agent 1 is late"}}
	for i, depth := range []float64{0, 7, 2} {
		run.Samples = append(run.Samples, record.Sample{At: record.Duration(i+1) * at, Host: record.Statistics,
			Group:  "two",
			Values: map[string]float64{queueDepth: depth}})
	}
	figures := map[string]*Chart{}
	for _, c := range Of(run).Figures {
		figures[c.Title] = c
		want := 0
		if c.Time {
			want = 1
		}
		if len(c.Moments) != want {
			t.Errorf("%s marks %d moments, want %d", c.Title, len(c.Moments), want)
		}
		if svg := string(c.SVG()); c.Time != strings.Contains(svg, "two killed") || strings.Contains(svg, "agent 1") {
			t.Errorf("%s: the kill is drawn where it should not be, or not", c.Title)
		}
	}
	for _, name := range []string{"Response time", "Response time, p99", "Disk utilisation", "Network",
		"External throughput rate (ETR)", "Internal throughput rate (ITR)", "Probe response", "Work queue over time",
		"Response time over time, p99"} {
		if figures[name] == nil {
			t.Fatalf("no figure %q", name)
		}
	}
	limited := figures["Response time"]
	if svg := string(limited.SVG()); limited.Limit != 1000 || !strings.Contains(svg, "limit of the average: 1.00 s") {
		t.Errorf("the limit %v is not drawn", limited.Limit)
	}
	for _, l := range limited.Lines {
		if l.Name == "p99" {
			t.Error("p99 is in the figure of the average")
		}
	}
	if l := figures["Work queue over time"].Lines[0]; !l.Steps {
		t.Error("a queue is drawn as a slope")
	}
	// Far above what was measured the limit is told.
	run = made("x", []int{10, 20}, linear)
	run.Header.Workload.Limit = record.Duration(time.Second)
	if c := Of(run).Figures[0]; !strings.Contains(c.Note, "is above the figure") {
		t.Errorf("a limit that is not in the figure: %q", c.Note)
	}
}

// TestStatistics checks the server's own statistics, of which the samples hold only changes.
func TestStatistics(t *testing.T) {
	t.Parallel()
	run := made("a", []int{100}, linear)
	at := func(s float64, values map[string]float64) {
		run.Samples = append(run.Samples, record.Sample{At: record.Duration(s * 1e9), Host: "statistics",
			Values: values})
	}
	at(10, map[string]float64{"Mail.Delivered": 5, "Old": 1, "Later": 1})
	at(30, map[string]float64{"Mail.Delivered": 10})
	at(50, map[string]float64{"Mail.Delivered": 70})
	at(90, map[string]float64{"Mail.Delivered": 99, "Later": 2})
	r := Of(run)
	want := Statistic{Name: "Mail.Delivered", Before: 10, After: 70, Change: 60, PerThousand: 100}
	if len(r.Statistics) != 1 || r.Statistics[0] != want || r.StatisticsOf != 100 {
		t.Errorf("%+v of %d users", r.Statistics, r.StatisticsOf)
	}
	if text := page5(t, run); !strings.Contains(text, "Mail.Delivered") {
		t.Error("they are not on the page")
	}
}

// BenchmarkAnHourOf4000 reads and renders a run of four steps of an hour and a half, up to 4,000 users.
func BenchmarkAnHourOf4000(b *testing.B) {
	run := made("hour", []int{1}, linear)
	run.Steps = nil
	one := run.Intervals[0]
	run.Intervals, run.Samples = nil, run.Samples[:4]
	actions := []string{"open", "read", "delete", "add", "send", "invite", "rsvp", "close", "update", "move", "poll",
		"scroll", "reply", "login", "idle"}
	for s := range 4 {
		from := time.Duration(s) * 2 * time.Hour
		for i := range 540 {
			for a, action := range actions {
				x := one
				x.Step, x.Phase, x.Action, x.Latency, x.Service = s, record.Measure, action, record.Histogram{},
					record.Histogram{}
				x.From, x.To = record.Duration(from+time.Duration(i)*10*time.Second), record.Duration(from+
					time.Duration(i+1)*10*time.Second)
				for k := range 40 {
					d := time.Duration(1+(i*31+k*97+a*53)%4000) * 20 * time.Microsecond
					x.Latency.Add(d)
					x.Service.Add(d)
				}
				run.Intervals = append(run.Intervals, x)
			}
		}
		run.Steps = append(run.Steps, record.Step{Index: s, Users: 1000 * (s + 1), From: record.Duration(from),
			To: record.Duration(from + 5400*time.Second), Outcome: record.Measured})
	}
	var file bytes.Buffer
	if err := run.Write(&file); err != nil {
		b.Fatal(err)
	}
	size := 0
	for b.Loop() {
		r, err := record.Read(bytes.NewReader(file.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		var page bytes.Buffer
		if err := Of(r).HTML(&page); err != nil {
			b.Fatal(err)
		}
		size = page.Len()
	}
	b.ReportMetric(float64(size), "B/page")
	b.ReportMetric(float64(file.Len()), "B/file")
}

func TestLongRunsStaySmall(t *testing.T) {
	t.Parallel()
	run := made("long", []int{50}, linear)
	interval, sample := run.Intervals[0], run.Samples[0]
	for i := range 20_000 {
		x := interval
		x.From, x.To = record.Duration(time.Duration(i)*time.Second), record.Duration(time.Duration(i+1)*time.Second)
		sample.At = x.To
		run.Intervals, run.Samples = append(run.Intervals, x), append(run.Samples, sample)
	}
	if text := page5(t, run); len(text) > 500_000 {
		t.Errorf("a page of %d bytes", len(text))
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Of(made("a", []int{100, 200}, linear)).CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 1+2*3 || rows[1][2] != "all" || rows[2][3] != "300" {
		t.Errorf("%v %v", err, rows)
	}
}

func row(t *testing.T, c *Comparison, name string) ComparedRow {
	t.Helper()
	for _, r := range c.Rows {
		if r.Resource == name {
			return r
		}
	}
	t.Fatalf("no row %q", name)
	return ComparedRow{}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	users := []int{100, 200}
	slower := func(n int) float64 { return linear(n) * 1.5 }
	tables, err := Compare([]*record.Run{made("A", users, linear)}, []*record.Run{made("B", users, slower)}, false)
	if err != nil || len(tables) != 2 || tables[1].Users != 200 {
		t.Fatalf("%v, %d tables", err, len(tables))
	}
	if r := row(t, &tables[0], "Average response"); math.Abs(r.Change-50) > 0.5 || !math.IsNaN(r.Low) ||
		r.Differs() {
		t.Errorf("%+v", r)
	}
	if r := row(t, &tables[0], "Throughput (TPM)"); r.Change != 0 {
		t.Errorf("%+v", r)
	}
	if text := tables[0].Text(); !strings.Contains(text,
		"Resource usage at 100 users comparing doublet (A) to doublet (B)") || !strings.Contains(text, "+50.0") {
		t.Error(text)
	}
}

// TestCompareLeftOut compares runs that share one number of users: the tables and the page name the others, the runs
// that lack them, and why.
func TestCompareLeftOut(t *testing.T) {
	t.Parallel()
	a, b := made("A", []int{100, 200, 300}, linear), made("B", []int{100, 200}, linear)
	a.Header.ID, b.Header.ID = "1", "2"
	b.Steps[1].Outcome, b.Steps[1].Reason = record.Discarded, "average of 9s"
	tables, err := Compare([]*record.Run{a}, []*record.Run{b}, false)
	if err != nil || len(tables) != 1 {
		t.Fatalf("%v, %d tables", err, len(tables))
	}
	var page bytes.Buffer
	if err := NewSeries(tables).HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"left out: 200 users: run 2 lacks it: discarded: average of 9s",
		"left out: 300 users: run 2 lacks it: not measured"} {
		if !strings.Contains(tables[0].Text(), want) || !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing in\n%s", want, tables[0].Text())
		}
	}
	b.Steps = b.Steps[1:]
	if _, err := Compare([]*record.Run{a}, []*record.Run{b}, false); err == nil ||
		!strings.Contains(err.Error(), "200 users: run 2 lacks it: discarded") {
		t.Errorf("nothing in common: %v", err)
	}
}

// TestSeries checks the page of a comparison: a figure with both sides for each resource, the tables, and the marks.
func TestSeries(t *testing.T) {
	t.Parallel()
	users := []int{100, 200, 300}
	a, b := made("old <1>", users, linear), made("new", users, func(n int) float64 { return linear(n) * 2 })
	a.Header.Marks, b.Header.Marks = []string{"window of 30s"}, []string{"window of 30s"}
	b.Header.Seed = 7
	tables, err := Compare([]*record.Run{a}, []*record.Run{b}, false)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSeries(tables)
	var page bytes.Buffer
	if err := s.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"old &lt;1&gt;", "they differ in seed: 1 and 7", "window of 30s",
		"<h2>300 users</h2>",
		"unknown: no side was repeated", "&#43;100.0"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(page.String(), "http://") || strings.Contains(page.String(), "NaN") {
		t.Error("the page needs a network, or has a value that is none")
	}
	i := slices.IndexFunc(s.Figures, func(c *Chart) bool { return c.Title == "Average response" })
	if i < 0 || len(s.Figures[i].Lines) != 2 || len(s.Figures[i].Lines[1].Points) != 3 ||
		math.Abs(s.Figures[i].Lines[1].Points[2].Y-60) > 1 {
		t.Errorf("figures %d, average response at %d", len(s.Figures), i)
	}
	if one := NewSeries(tables[:1]); len(one.Figures) != 0 {
		t.Errorf("one number of users has %d figures", len(one.Figures))
	}
}

// TestIntervals checks the intervals of repeated runs, and of steps that one run repeats.
func TestIntervals(t *testing.T) {
	t.Parallel()
	one := func(f float64) *record.Run {
		return made(fmt.Sprint(f), []int{100}, func(n int) float64 { return linear(n) * f })
	}
	tables, err := Compare([]*record.Run{one(1), one(1.1), one(1.2)}, []*record.Run{one(1.15), one(1.25)}, false)
	if err != nil {
		t.Fatal(err)
	}
	if r := row(t, &tables[0], "Average response"); r.Differs() || math.Abs(r.Change-9.1) > 0.5 || r.Low > 0 ||
		r.High < 9.1 || tables[0].Measured != [2]int{3, 2} {
		t.Errorf("a change within the interval: %+v", r)
	}
	tables, err = Compare([]*record.Run{one(1), one(1.02)}, []*record.Run{one(2), one(2.02)}, false)
	if err != nil {
		t.Fatal(err)
	}
	if r := row(t, &tables[0], "Average response"); !r.Differs() || r.Low > 98 || r.High < 98 {
		t.Errorf("a doubling: %+v", r)
	}
}

// TestMeanIntervals checks that a point of repeated steps has the interval of its mean, in the comparison of runs and
// in the report of one, and that a point measured once has none.
func TestMeanIntervals(t *testing.T) {
	t.Parallel()
	run := func(f float64) *record.Run {
		return made("x", []int{100, 200}, func(n int) float64 { return linear(n) * f })
	}
	tables, err := Compare([]*record.Run{run(1), run(1.02)}, []*record.Run{run(1)}, false)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSeries(tables)
	lines := s.Figures[slices.IndexFunc(s.Figures, func(c *Chart) bool { return c.Title == "Average response" })].Lines
	// Two values a fiftieth of the smaller apart: half their distance times 12.706, t with one degree of freedom.
	a, b := lines[0].Points[1], lines[1].Points[1]
	if half := 12.706 * a.Y / 101; math.Abs(a.High-a.Y-half) > half/50 || math.Abs(a.Y-a.Low-half) > half/50 {
		t.Errorf("%+v", a)
	}
	if !math.IsNaN(b.Low) || !math.IsNaN(b.High) || strings.Count(string(s.Figures[0].SVG()), "NaN") > 0 {
		t.Errorf("%+v", b)
	}
	if js, err := json.Marshal(row(t, &tables[0], "Average response")); err != nil ||
		!strings.Contains(string(js), `"b_low":null`) || strings.Contains(string(js), `"a_low":null`) {
		t.Errorf("%v %s", err, js)
	}
	p := merged(Line{Points: []Point{{X: 1, Y: 9}, {X: 1, Y: 10}, {X: 1, Y: 11}, {X: 1, Y: 5, Hollow: true},
		{X: 2, Y: 7}}}).Points
	if len(p) != 3 || p[0].Y != 10 || math.Abs(p[0].High-12.484) > 0.01 || p[1].High != 0 || p[2].Y != 7 {
		t.Errorf("%+v", p)
	}
}

func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*record.Header){
		"workload":          func(h *record.Header) { h.Workload.Hash = "other" },
		"protocol":          func(h *record.Header) { h.Workload.Protocol = "jmap" },
		"speed":             func(h *record.Header) { h.Speed = 20 },
		"machine":           func(h *record.Header) { h.Server = &record.Host{Name: "elsewhere"} },
		"window":            func(h *record.Header) { h.Marks = []string{"window of 1m0s"} },
		"STARTTLS":          func(h *record.Header) { h.Target.StartTLS = true },
		"sends = 5":         func(h *record.Header) { h.Marks = []string{"sends = 5"} },
		"filled over":       func(h *record.Header) { h.Settings = map[string]string{"filled over": "lmtp"} },
		"number of drivers": func(h *record.Header) { h.Agents = 3 },
	} {
		a, b := made("A", []int{100}, linear), made("B", []int{100}, linear)
		a.Header.Settings = map[string]string{"filled over": "imap"}
		b.Header.Settings = a.Header.Settings
		change(&b.Header)
		if _, err := Compare([]*record.Run{a}, []*record.Run{b}, false); !errors.Is(err, ErrCompare) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("another %s: %v", name, err)
		}
		tables, err := Compare([]*record.Run{a}, []*record.Run{b}, true)
		if err != nil || len(tables[0].Marks) == 0 {
			t.Errorf("another %s, anyway: %v", name, err)
		}
	}
	a, b := made("A", []int{100}, linear), made("B", []int{100}, linear)
	b.Steps[0].Registered++
	if _, err := Compare([]*record.Run{a}, []*record.Run{b}, false); !errors.Is(err, ErrCompare) {
		t.Errorf("other registered people: %v", err)
	}
	b.Steps[0].Registered--
	b.Header.Seed, a.Header.Marks, b.Header.Marks = 2, []string{"both"}, []string{"both"}
	tables, err := Compare([]*record.Run{a}, []*record.Run{b}, false)
	if err != nil || strings.Join(tables[0].Marks, "; ") != "they differ in seed: 1 and 2" {
		t.Errorf("%v %v", err, tables)
	}
	if text := tables[0].Text(); !strings.Contains(text, "A, run r-A: both\n") ||
		!strings.Contains(text, "B, run r-B: both\n") {
		t.Errorf("the runs' own marks are missing:\n%s", text)
	}
	b.Header.Workload.Name, b.Header.Workload.Unknown = "n7mail", "the calls of the older client"
	if _, err := Compare([]*record.Run{a}, []*record.Run{b}, true); !errors.Is(err, ErrCompare) {
		t.Errorf("a workload whose differences nobody knows: %v", err)
	}
	if _, err := Compare([]*record.Run{b}, []*record.Run{b}, false); err != nil {
		t.Errorf("two runs of that workload: %v", err)
	}
	// A discarded step is shown in reports and never compared.
	if _, err := Compare([]*record.Run{made("A", []int{20000}, linear)}, []*record.Run{made("B", []int{20000}, linear)},
		true); !errors.Is(err, ErrCompare) {
		t.Errorf("discarded steps: %v", err)
	}
}

// TestCompareModes compares two workloads at one server. The sides are named by workload and protocol, and bytes are
// divided by user actions, of which Sync is none.
func TestCompareModes(t *testing.T) {
	t.Parallel()
	side := func(workload, protocol string, left ...string) *record.Run {
		r := &record.Run{Header: record.Header{Workload: record.Workload{Name: workload, Protocol: protocol,
			Left: left}, Target: record.Target{Name: "doublet"}}}
		for action, n := range map[string]int{"read": 4, record.Sync: 6} {
			x := record.Interval{Phase: record.Measure, Action: action, To: record.Duration(time.Minute), Sent: 4000,
				Received: 8000}
			for range n {
				x.Latency.Add(10 * time.Millisecond)
			}
			r.Intervals = append(r.Intervals, x)
		}
		r.Steps = []record.Step{{Users: 7, To: record.Duration(time.Minute), Outcome: record.Measured}}
		return r
	}
	tables, err := Compare([]*record.Run{side("dwa85", "web-full", "lookup")},
		[]*record.Run{side("dwa85lite", "web-lite")}, true)
	if err != nil || len(tables) != 1 {
		t.Fatal(err)
	}
	c := &tables[0]
	if c.A != "doublet, dwa85 over web-full" || c.B != "doublet, dwa85lite over web-lite" ||
		!strings.Contains(strings.Join(c.Marks, "\n"), "what is left out: lookup and nothing") {
		t.Errorf("%q against %q, %q", c.A, c.B, c.Marks)
	}
	for _, r := range c.Rows {
		want := map[string]float64{"Throughput (TPM)": 4, "Bytes a program sends for an action": 2,
			"Bytes a program gets for an action": 4}
		if v, ok := want[r.Resource]; ok && r.A != v {
			t.Errorf("%s: %v, want %v", r.Resource, r.A, v)
		}
	}
	raw, err := json.Marshal(tables)
	if err != nil || !strings.Contains(string(raw), `"change_pct":0,"differs":false,"high_pct":null`) ||
		!strings.Contains(string(raw), `"users":7`) {
		t.Errorf("%v %s", err, raw)
	}
}

// TestNotMetered checks that a server whose processes were not sampled has no processor use, which is not a use of 0,
// and that the sum over servers is unknown then.
func TestNotMetered(t *testing.T) {
	t.Parallel()
	r := made("A", []int{100}, linear)
	s := &r.Steps[0]
	r.Samples = nil
	for _, name := range []string{"one", "two"} {
		r.Samples = append(r.Samples, record.Sample{At: s.From, Host: record.Statistics, Group: name,
			Values: map[string]float64{queueDepth: 3}})
	}
	add := func(at record.Duration, name string) {
		r.Samples = append(r.Samples, record.Sample{At: at, Host: "server", Group: name,
			Values: map[string]float64{"cpu": 0.5, "pss": 1e6, "write_bytes": 1e6}})
	}
	add(s.From, "one")
	add(s.To+1, "two") // in no step
	servers := Servers(r, s)
	if len(servers) != 2 || !servers[0].Metered || servers[0].Cores != 0.5 || servers[1].Metered {
		t.Errorf("%+v", servers)
	}
	if v, ok := Processes(r, s, "cpu"); ok {
		t.Errorf("%g cores of one server of two", v)
	}
	var page bytes.Buffer
	if err := Of(r).HTML(&page); err != nil || !strings.Contains(page.String(), `<td colspan="3">not metered</td>`) {
		t.Errorf("%v: the page does not say so", err)
	}
	add(s.From, "two")
	if v, ok := Processes(r, s, "cpu"); !ok || v != 1 || !Servers(r, s)[1].Metered {
		t.Errorf("%g cores, %v", v, ok)
	}
}

// TestComparable checks that runs whose steps have other numbers of mailboxes are refused, also if only some of the
// runs have the step.
func TestComparable(t *testing.T) {
	t.Parallel()
	a, b, c := made("A", []int{100}, linear), made("B", []int{100, 200}, linear), made("C", []int{200}, linear)
	if marks, err := Comparable([]*record.Run{a, b, c}, false); err != nil || len(marks) != 0 {
		t.Errorf("%q, %v", marks, err)
	}
	c.Steps[0].Registered += 7
	if _, err := Comparable([]*record.Run{a, b, c}, false); !errors.Is(err, ErrCompare) {
		t.Errorf("other mailboxes: %v", err)
	}
	if marks, err := Comparable([]*record.Run{a, b, c}, true); err != nil || len(marks) != 1 {
		t.Errorf("%q, %v", marks, err)
	}
	b.Header.Speed = 20
	if _, err := Comparable([]*record.Run{a, b}, false); !errors.Is(err, ErrCompare) {
		t.Errorf("other speed: %v", err)
	}
}

// TestAllowedProcessors checks that ITR and CPU % count from the processors that the server may use, and that runs with
// other numbers of them are refused.
func TestAllowedProcessors(t *testing.T) {
	t.Parallel()
	all, one := made("A", []int{100}, linear), made("B", []int{100}, linear)
	all.Header.Server = &record.Host{Name: "m", CPUs: 2}
	one.Header.Server = &record.Host{Name: "m", CPUs: 2, Allowed: 1}
	a, b := Of(all).Steps[0], Of(one).Steps[0]
	if !(a.CPU > 0) || math.Abs(b.CPU-2*a.CPU) > 1e-9 || math.Abs(a.ITR-2*b.ITR) > 1e-9 {
		t.Errorf("of two processors %g %% and ITR %g, of one %g %% and ITR %g", a.CPU, a.ITR, b.CPU, b.ITR)
	}
	want := "they differ in the server's processors: 2 and 1"
	if _, err := Comparable([]*record.Run{all, one}, false); !errors.Is(err, ErrCompare) ||
		!strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if marks, err := Comparable([]*record.Run{all, one}, true); err != nil || !slices.Contains(marks, want) {
		t.Errorf("%q, %v", marks, err)
	}
}
