package cluster

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/plan/point"
	"doublet/plan/study"
	"doublet/stat"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func diagnosed(t *testing.T, disks int, servers ...*Statistics) *Diagnosis {
	t.Helper()
	d, err := Diagnose(servers, disks)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBlind checks that statistics which no rule knows are an error, and that rules without theirs say so.
func TestBlind(t *testing.T) {
	t.Parallel()
	for _, values := range []map[string]float64{{}, {"node_load1": 0.5, "go_goroutines": 12}} {
		if _, err := Diagnose([]*Statistics{{"mail1", values}}, 1); !errors.Is(err, ErrStatistics) ||
			!strings.Contains(err.Error(), "of mail1") {
			t.Errorf("%v: %v", values, err)
		}
	}
	d := diagnosed(t, 1, &Statistics{"mail1", map[string]float64{"Replica.Failed": 1, "Replica.Successful": 100}})
	if len(d.NotChecked) != len(rules)-1 || !strings.Contains(d.Text(), "not checked at mail1: disk saturated: wants") {
		t.Error(d.Text())
	}
	d = diagnosed(t, 1, &Statistics{"a", map[string]float64{"Replica.Failed": 1, "Replica.Successful": 100}},
		&Statistics{"b", map[string]float64{"Server.Users": 100}})
	if !strings.Contains(d.Text(), "not checked at all servers: unbalanced mate") {
		t.Error(d.Text())
	}
}

// TestMetrics diagnoses the statistics of this server as /metrics has them: the collector's own output, so that the
// names are the ones that the rules find.
func TestMetrics(t *testing.T) {
	t.Parallel()
	tree := stat.New(simclock{})
	tree.Counter("Database.DbCache.OvercrowdingRejections", "h").Add(3)
	for name, v := range map[string]float64{"Database.BufferPool.Maximum": 100, "Database.BufferPool.Used": 99,
		"Database.BufferPool.PercentReadsInBuffer": 40, "Replica.Cluster.SecondsOnQueue.Avg": 700,
		"Server.AvailabilityIndex": 5, "Server.AvailabilityThreshold": 50} {
		tree.GaugeFunc(name, "h", func() float64 { return v })
	}
	tree.Counter("Replica.Failed", "h").Add(50)
	tree.Counter("Replica.Successful", "h").Add(50)
	registry := prometheus.NewRegistry()
	registry.MustRegister(tree.Collector())
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	s, err := ReadStatistics(rec.Body, "mail1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range diagnosed(t, 1, s).Findings {
		got = append(got, f.Kind)
	}
	if want := []string{CacheFull, PoolFull, QueueGrows, Failing, BusyIndex}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A cache of blocks is always full: it is too small only if reads do not find their block.
	s.Values["doublet_database_buffer_pool_percent_reads_in_buffer"] = 99
	for _, f := range diagnosed(t, 1, s).Findings {
		if f.Kind == PoolFull {
			t.Errorf("%+v", f)
		}
	}
}

// simclock is a clock that stands still.
type simclock struct{}

func (simclock) Now() time.Time { return time.Unix(1793609100, 0) }

// TestFieldCase diagnoses document 004's field case from its statistics: what its authors found, and nothing else.
func TestFieldCase(t *testing.T) {
	t.Parallel()
	one := &Statistics{"Server 1", study.Field("1")}
	three := &Statistics{"Server 3", study.Field("3")}
	// The document gives these in its text: 108 ms a transfer, a queue longer than its six disks, 100 % busy.
	one.Values["Platform.LogicalDisk.1.PctUtil"] = 100
	one.Values["Platform.LogicalDisk.1.AvgQueueLen"] = 6.5
	one.Values["Platform.LogicalDisk.1.AvgMsPerTransfer"] = 108
	two := &Statistics{"Server 2", map[string]float64{"Server.Trans.PerMinute": 615}} // half of the activity
	got := map[string][]string{}
	for _, f := range diagnosed(t, 6, one, two, three).Findings {
		got[f.Server] = append(got[f.Server], f.Kind)
		if len(f.Evidence) == 0 || f.Remedy == "" {
			t.Errorf("%+v", f)
		}
	}
	for server, want := range map[string][]string{
		"Server 1": {DiskSaturated, CacheFull, PoolFull, QueueGrows, Failing, Storm, Unbalanced},
		"Server 2": nil, "Server 3": {CacheFull, PoolFull}} {
		if !slices.Equal(got[server], want) {
			t.Errorf("%s: %q, want %q", server, got[server], want)
		}
	}
}

// TestRules gives each rule a fault and a sound server.
func TestRules(t *testing.T) {
	t.Parallel()
	sound := map[string]float64{"Platform.LogicalDisk.1.PctUtil": 60, "Platform.LogicalDisk.1.AvgQueueLen": 1,
		"Platform.LogicalDisk.1.AvgMsPerTransfer": 12, "Database.DbCache.OvercrowdingRejections": 0,
		"Database.DbCache.HighWaterMark": 700, "Database.DbCache.MaxEntries": 723, "Database.BufferPool.Peak": 80,
		"Database.BufferPool.Maximum": 100, "Replica.Cluster.SecondsOnQueue.Avg": 2,
		"Replica.Cluster.WorkQueueDepth.Avg": 0.2,
		"Replica.Cluster.Failed":             3, "Replica.Cluster.Successful": 1000, "Server.Trans.PerMinute": 1000,
		"Server.Trans.PerMinute.Peak": 4000, "Server.AvailabilityIndex": 90, "Server.AvailabilityThreshold": 50,
		"Server.Users": 600}
	mate := &Statistics{"mate", map[string]float64{"Server.Trans.PerMinute": 900, "Server.Users": 650}}
	d := diagnosed(t, 4, &Statistics{"s", sound}, mate)
	if text := d.Text(); len(d.Findings) != 0 ||
		!strings.HasPrefix(text, "nothing found\nnot checked at mate: disk saturated") ||
		strings.Contains(text, "not checked at s:") || strings.Contains(text, Unbalanced) {
		t.Errorf("a sound server: %s", text)
	}
	for name, c := range map[string]struct {
		value float64
		kind  string
	}{
		"Platform.LogicalDisk.1.PctUtil": {99, DiskSaturated}, "Platform.LogicalDisk.1.AvgQueueLen": {5, DiskSaturated},
		"Platform.LogicalDisk.1.AvgMsPerTransfer": {31, DiskSaturated}, "Database.DbCache.OvercrowdingRejections": {1,
			CacheFull},
		"Database.DbCache.HighWaterMark": {1084, CacheFull}, "Database.BufferPool.Peak": {96, PoolFull},
		"Replica.Cluster.SecondsOnQueue.Avg": {1565, QueueGrows}, "Replica.Cluster.WorkQueueDepth.Avg": {280,
			QueueGrows},
		"Replica.Cluster.Failed": {200, Failing}, "Server.Trans.PerMinute.Peak": {14308, Storm},
		"Server.AvailabilityIndex": {10, BusyIndex}, "Server.Trans.PerMinute": {2000, Unbalanced},
	} {
		values := map[string]float64{}
		for k, v := range sound {
			values[k] = v
		}
		values[name] = c.value
		d := diagnosed(t, 4, &Statistics{"s", values}, mate)
		if f := d.Findings; len(f) != 1 || f[0].Kind != c.kind || !strings.Contains(d.Text(), fmt.Sprint(c.value)) {
			t.Errorf("%s = %g: %v, want %s", name, c.value, f, c.kind)
		}
	}
}

func TestReadStatistics(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"  Server.Users = 1,617\nServer.Name = mail1\n", "# HELP x\nServer.Users 1617\n",
		`{"Server.Users": 1617, "Server.Name": "mail1"}`, "Server.Users: 1617\n"} {
		s, err := ReadStatistics(strings.NewReader(text), "x")
		if err != nil || s.Values["Server.Users"] != 1617 || len(s.Values) != 1 {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "nothing here", "{", "a = NaN\n", "{}", `{"a":"b"}`} {
		if _, err := ReadStatistics(strings.NewReader(text), "x"); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// FuzzReadStatistics checks that no text ends the program.
func FuzzReadStatistics(f *testing.F) {
	f.Add("Server.Users = 1,617\n")
	f.Add(`{"a":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ReadStatistics(strings.NewReader(text), "x"); err == nil {
			if d, err := Diagnose([]*Statistics{s, s}, 1); err == nil && d.Text() == "" {
				t.Error("neither a finding nor none")
			}
		}
	})
}

// made makes the points of a configuration: repeated uses of each server.
func made(users int, servers ...[]float64) (out []point.Point) {
	for i := range servers[0] {
		p := point.Point{Users: users, Servers: map[string]float64{}}
		for k := range servers {
			p.Servers[fmt.Sprint(k)] = servers[k][i]
		}
		out = append(out, p)
	}
	return out
}

// TestRoles computes document 004's roles: medium users are additive, heavy ones are held back by the disk.
func TestRoles(t *testing.T) {
	t.Parallel()
	for _, row := range study.Rows("roles.csv") {
		n := func(column string, noise float64) float64 { return row.Number(column) * noise }
		var all [4][]point.Point
		for _, noise := range []float64{0.98, 1, 1.02} {
			single, routing := []float64{n("single", noise)}, []float64{n("routing", noise)}
			both := []float64{n("both", noise)}
			all[0] = append(all[0], made(100, single)...)
			all[1] = append(all[1], made(100, routing, routing)...)
			all[2] = append(all[2], made(100, []float64{n("single", noise) + n("initiating", noise)},
				[]float64{n("receiving", noise)})...)
			all[3] = append(all[3], made(100, both, both)...)
		}
		r, err := ByRole(Configurations{all[0], all[1], all[2], all[3]})
		if err != nil {
			t.Fatal(err)
		}
		want := "no difference from the sum"
		if row["users"] == "heavy" {
			want = "less than the sum"
		}
		if !strings.Contains(r.Text(), want) || r.Initiating.Value < row.Number("initiating")-0.01 ||
			r.Initiating.Value > row.Number("initiating")+0.01 {
			t.Errorf("%s:\n%s", row["users"], r.Text())
		}
	}
	one := made(100, []float64{1})
	if _, err := ByRole(Configurations{one, one, one, one}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("one server in configuration 2: %v", err)
	}
	two := made(100, []float64{1}, []float64{2})
	if r, err := ByRole(Configurations{one, two, two, two}); err != nil ||
		!strings.Contains(r.Additive, "without repeats") {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := ByRole(Configurations{one, made(50, []float64{1}, []float64{1}), two, two}); !errors.Is(
		err,
		point.ErrPoints,
	) {
		t.Errorf("other numbers of users: %v", err)
	}
	for what, change := range map[string]func(*point.Point){
		"speed":      func(p *point.Point) { p.Speed = 20 },
		"processors": func(p *point.Point) { p.Processors = 8 },
		"workload":   func(p *point.Point) { p.Workload = "x" },
		"guests":     func(p *point.Point) { p.Guests = 2 },
	} {
		other := made(100, []float64{1}, []float64{2})
		change(&other[0])
		if _, err := ByRole(Configurations{one, two, other, two}); !errors.Is(err, point.ErrPoints) ||
			!strings.Contains(err.Error(), "differ in "+what) {
			t.Errorf("other %s: %v", what, err)
		}
	}
	if _, err := ByRole(Configurations{one, two, two, made(100, []float64{})[:0]}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("a configuration without steps: %v", err)
	}
	two[0].Marks = []string{"window of 30s"}
	if r, err := ByRole(Configurations{one, two, two, two}); err != nil ||
		!strings.Contains(r.Text(), "marked: window of 30s") {
		t.Errorf("%v, %v", r, err)
	}
}
