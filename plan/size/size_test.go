package size

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doublet/plan/estimate"
	"doublet/plan/point"
	"doublet/test/external"
)

// measured makes steps of a server whose costs are known: 0.1 cores and 0.0004 a user; 200 MB and 0.5 a session.
func measured(seed uint64, noise float64, users ...int) (out []point.Point) {
	r := rand.New(rand.NewPCG(seed, 1))
	for _, n := range users {
		for range 2 {
			x := float64(n) * 10
			e := func() float64 { return 1 + noise*r.NormFloat64() }
			out = append(
				out,
				point.Point{Run: "a.run", Workload: "n8mail", Target: "doublet", Outcome: point.Measured, Users: n,
					Speed: 10, Processors: 2, Rate: x / 50, Average: 0.01, P99: 0.02 + x/1e5, Use: map[string]float64{
						point.CPU: (0.1 + 0.0004*x) * e(), point.Memory: (200 + 0.5*float64(n)) * e(),
						point.DiskWrite: 0.001 * x * e(),
						point.Network:   (1 + 0.4*x) * e()}},
			)
		}
	}
	return out
}

func calibrated(t testing.TB) *Calibration {
	t.Helper()
	c, err := Calibrate(measured(1, 0.01, 50, 100, 200, 300))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPlan checks answers that can be computed by hand.
func TestPlan(t *testing.T) {
	t.Parallel()
	c, err := Calibrate(measured(1, 1e-9, 50, 100, 200, 300))
	if err != nil {
		t.Fatal(err)
	}
	r := Default()
	r.People, r.Active, r.MailboxMB, r.MailboxGrowth, r.Years = 30000, 0.4, 100, 0, 0
	for name, x := range map[string]struct {
		change   func(*Request)
		servers  float64
		deciding string
	}{
		// 12,000 active need 4.8 cores; a server has 4 × 0.7 - 0.1 = 2.7.
		"plain":    {func(*Request) {}, 2, "processors"},
		"heavier":  {func(r *Request) { r.Heavier = 4 }, 8, "processors"},
		"features": {func(r *Request) { r.Features = 2 }, 4, "processors"},
		"failure":  {func(r *Request) { r.Replicas, r.Survive = 2, 1 }, 6, "processors"},     // 4.5 and one
		"space":    {func(r *Request) { r.MailboxMB = 1000 }, 19, "disk space"},              // 30 TB of 1.6
		"growth":   {func(r *Request) { r.PeopleGrowth, r.Years = 0.5, 2 }, 5, "disk space"}, // 6.75 TB of 1.6
		"memory":   {func(r *Request) { r.MemoryGB = 1 }, 8, "memory"},                       // 6 GB of 0.8
		"p99":      {func(r *Request) { r.P99 = 41 }, 3, "p99"},                              // 4,000 on 4 processors
		"replicas": {func(r *Request) { r.People, r.Replicas = 100, 3 }, 3, "the number of replicas"},
	} {
		q := r
		x.change(&q)
		a, err := Plan(c, q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Servers.Value != x.servers || a.Deciding != x.deciding {
			t.Errorf(
				"%s: %+v servers by %s, want %g by %s\n%s",
				name,
				a.Servers,
				a.Deciding,
				x.servers,
				x.deciding,
				a.Text(),
			)
		}
		if a.AfterFailure.Value > 70.01 || a.AfterFailure.Value < a.Use.Value {
			t.Errorf("%s: %+v, after a failure %+v", name, a.Use, a.AfterFailure)
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
	}
	a, err := Plan(
		c,
		Request{People: 30000, Active: 0.4, Heavier: 1, MailboxMB: 40, MailboxGrowth: 1, Replicas: 1, Target: 0.7,
			Features: 1, Processors: 4, MemoryGB: 16, DiskGB: 2000, DiskMBs: 200, NetworkMbit: 1000,
			PerPartition: 1000},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range a.Limits { // 1.2 TB of 3.2 doubles each year
		if l.Name == "disk space" && math.Abs(l.Full-math.Log2(3.2/1.2)) > 0.1 ||
			l.Name == "processors" && l.Full != -1 {
			t.Errorf("%s is full in %g years", l.Name, l.Full)
		}
	}
	if a.Partitions.Value != 6 || strings.Contains(a.Text(), "extrapolated") ||
		!strings.HasPrefix(a.Text(), "2 servers") {
		t.Error(a.Text())
	}
	r.People, r.Target, r.DiskGB = 40000, 0.95, 9000
	if a, err = Plan(c, r); err != nil ||
		!strings.Contains(a.Text(), "extrapolated: 8000 active users a server, measured up to 6000") {
		t.Error(err, a.Text())
	}
}

// TestPrediction calibrates from half of the steps; the other half must lie within its interval.
func TestPrediction(t *testing.T) {
	t.Parallel()
	const n = 200
	hits := 0
	for seed := range uint64(n) {
		c, err := Calibrate(measured(seed, 0.02, 50, 150, 250))
		if err != nil {
			t.Fatal(err)
		}
		cpu, ok := c.cost(point.CPU), true
		truth := 0.1 + 0.0004*2000
		low, high := cpu.Fixed.Low+cpu.Slope.Low*2000, cpu.Fixed.High+cpu.Slope.High*2000
		for _, p := range measured(seed+1e6, 0.02, 200) {
			ok = ok && p.Use[point.CPU] > low*0.95 && p.Use[point.CPU] < high*1.05
		}
		if ok && truth > low && truth < high {
			hits++
		}
	}
	if hits < n*93/100 {
		t.Errorf("%d of %d", hits, n)
	}
}

// TestRefusals checks the errors of measurements and demands that cannot be planned with.
func TestRefusals(t *testing.T) {
	t.Parallel()
	two := measured(1, 0.01, 50, 100)
	mixed := measured(1, 0.01, 50, 100, 200)
	mixed[0].Processors = 8
	flat := measured(1, 0.01, 50, 100, 200)
	for i := range flat {
		flat[i].Use[point.CPU] = 1 + float64(i%2)*0.1
	}
	bare := measured(1, 0.01, 50, 100, 200)
	for i := range bare {
		delete(bare[i].Use, point.CPU)
	}
	fast, other := measured(1, 0.01, 50, 100, 200), measured(1, 0.01, 50, 100, 200)
	fast[0].Speed, other[0].Target = 20, "elsewhere"
	guests := measured(1, 0.01, 50, 100, 200)
	guests[0].Guests, guests[0].Virtual = 2, 4
	for name, points := range map[string][]point.Point{"two loads": two, "two machines": mixed, "no growth": flat,
		"not metered": bare, "two speeds": fast, "two servers": other, "guests": guests} {
		if _, err := Calibrate(points); !errors.Is(err, ErrCalibration) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := calibrated(t)
	for want, change := range map[string]func(*Request){"--people": func(r *Request) { r.People = 0 },
		"--active": func(r *Request) { r.Active = math.NaN() }, "--target": func(r *Request) { r.Target = 7 },
		"--survive 1 needs --replicas 2": func(r *Request) { r.Survive = 1 },
		"no room":                        func(r *Request) { r.Processors, r.Target = 1, 0.1 }} {
		r := Default()
		change(&r)
		if _, err := Plan(c, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestBrowser runs the page's script under Node: it must give the same answers as Plan, within 16 ms each.
func TestBrowser(t *testing.T) {
	t.Parallel()
	node := external.Need(t, "node")[0]
	c := calibrated(t)
	r := rand.New(rand.NewPCG(4, 4))
	var requests []Request
	var answers []*Answer
	for len(requests) < 60 {
		q := Default()
		q.People, q.Active, q.Heavier = 10+r.IntN(100000), 0.05+0.9*r.Float64(), 0.5+4*r.Float64()
		q.MailboxMB, q.Years, q.PeopleGrowth = 1000*r.Float64(), float64(r.IntN(8)), 0.3*r.Float64()
		q.Replicas = 1 + r.IntN(4)
		q.Survive, q.Target, q.Processors = r.IntN(q.Replicas), 0.3+0.6*r.Float64(), float64(1+r.IntN(64))
		if r.IntN(2) == 0 {
			q.P99 = 25 + 30*r.Float64()
		}
		a, err := Plan(c, q)
		if err != nil {
			continue
		}
		requests, answers = append(requests, q), append(answers, a)
	}
	input, err := json.Marshal(map[string]any{"c": c, "r": requests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.js")
	text := script + fmt.Sprintf(`
const input = %s;
const t0 = performance.now();
const out = input.r.map((r) => plan(input.c, r));
console.log(JSON.stringify({ ms: (performance.now() - t0) / out.length, out }));`, input)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := exec.Command(node, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, raw)
	}
	var got struct {
		MS  float64 `json:"ms"`
		Out []struct {
			Servers    [3]float64 `json:"servers"`
			Deciding   string     `json:"deciding"`
			After      [3]float64 `json:"after"`
			Partitions float64    `json:"partitions"`
			Limits     []struct {
				Need []float64 `json:"need"`
				Full float64   `json:"full"`
			} `json:"limits"`
		} `json:"out"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	t.Logf("%.3f ms an answer", got.MS)
	if got.MS > 16 {
		t.Errorf("%.1f ms an answer", got.MS)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
	for i, a := range answers {
		g := &got.Out[i]
		if !near(g.Servers[0], a.Servers.Value) || !near(g.Servers[1], a.Servers.Low) ||
			!near(g.Servers[2], a.Servers.High) ||
			g.Deciding != a.Deciding ||
			!near(g.After[0], a.AfterFailure.Value) ||
			!near(g.Partitions, a.Partitions.Value) {
			t.Fatalf("%+v:\n%+v\n%s", requests[i], g, a.Text())
		}
		for k, l := range a.Limits {
			if !near(g.Limits[k].Need[0], l.Need.Value) || !near(g.Limits[k].Full, l.Full) {
				t.Fatalf("%s: %+v and %+v", l.Name, g.Limits[k], l)
			}
		}
	}
}

// TestPage checks that the page stands alone.
func TestPage(t *testing.T) {
	t.Parallel()
	a, err := Plan(calibrated(t), Default())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := a.HTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, never := range []string{"http://", "https://", "src=", "@import", "ZgotmplZ", "NaN", "%!"} {
		if strings.Contains(text, never) {
			t.Errorf("%q is in a page that opens from disk", never)
		}
	}
	if len(text) > 5<<20 || !strings.Contains(text, "const CALIBRATION = {") ||
		!strings.Contains(text, `"max_load":3000`) {
		t.Errorf("page of %d bytes", len(text))
	}
	if path := os.Getenv("PLAN_PAGE"); path != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCosts checks that no cost has bounds in the wrong order, and that one which is not shown to be above 0 still has
// an upper bound.
func TestCosts(t *testing.T) {
	t.Parallel()
	falling := measured(1, 0.01, 50, 100, 200, 300)
	for i := range falling { // writes that fall with the users, and reads that are all of the users
		x := falling[i].Load()
		falling[i].Use[point.DiskWrite] = 100 - 0.01*x
		falling[i].Use[point.DiskRead] = 0.001*x - 0.1 + 0.05*float64(i%2)
	}
	c, err := Calibrate(falling)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range c.Costs {
		for _, i := range []estimate.Interval{x.Fixed, x.Slope} {
			if !(0 <= i.Low && i.Low <= i.Value && i.Value <= i.High) {
				t.Errorf("%s: %+v", x.Name, x)
			}
		}
	}
	if w := c.cost(point.DiskWrite).Slope; w != (estimate.Interval{}) {
		t.Errorf("writes that fall: %+v", w)
	}
	if f := c.cost(point.DiskRead).Fixed; f.Value != 0 {
		t.Errorf("reads without users: %+v", f)
	}
	near := measured(7, 0.05, 50, 100, 200, 300)
	for i := range near {
		near[i].Use[point.DiskRead] = 0.001*near[i].Load() + 0.3*float64(i%2) - 0.16
	}
	if c, err = Calibrate(near); err != nil {
		t.Fatal(err)
	}
	if f := c.cost(point.DiskRead).Fixed; f.Value != 0 || f.High <= 0 {
		t.Errorf("a fixed part that may be there: %+v", f)
	}
	// A session takes its memory at every speed: 0.5 MB, not a twentieth of it.
	for _, speed := range []float64{1, 20} {
		points := measured(1, 1e-9, 50, 100, 200)
		for i := range points {
			points[i].Speed = speed
		}
		c, err := Calibrate(points)
		if err != nil {
			t.Fatal(err)
		}
		if s := c.cost(point.Memory).Slope.Value; math.Abs(s-0.5) > 1e-6 {
			t.Errorf("at speed %g a session takes %g MB", speed, s)
		}
	}
}

// FuzzPlan checks that no table ends the calibration, the answer, its JSON or its page.
func FuzzPlan(f *testing.F) {
	f.Add("users,cpu_pct,memory_mb,p99_ms\n10,1,5,1\n20,2,9,\n40,4,9,5\n80,8,20,5\n", 5000, 20.0)
	f.Add("users,processors,cpu_cores,disk_read_mb_s\n10,4,1,0\n20,4,2,1e9\n40,4,3.9,3\n", 1, 0.0)
	f.Fuzz(func(t *testing.T, text string, people int, p99 float64) {
		points, err := point.ReadTable(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		if points, err = point.Usable(points); err != nil {
			return
		}
		c, err := Calibrate(points)
		if err != nil {
			return
		}
		r := Default()
		r.People, r.P99 = people, p99
		a, err := Plan(c, r)
		if err != nil {
			return
		}
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%v: %s", err, a.Text())
		}
		if err := a.HTML(io.Discard); err != nil {
			t.Error(err)
		}
	})
}

// pair makes repeated steps of two servers that each use the given cores, with noise.
func pair(seed uint64, cores, noise float64, n int) (out []point.Point) {
	r := rand.New(rand.NewPCG(seed, 2))
	for range n {
		a, b := cores*(1+noise*r.NormFloat64()), cores*(1+noise*r.NormFloat64())
		out = append(out, point.Point{Run: "c.run", Workload: "n8mail", Outcome: point.Measured, Users: 50, Speed: 10,
			Processors: 2, Servers: map[string]float64{"one": a, "two": b}})
	}
	return out
}

// TestMeasureReplica checks the cost of a replica from own runs: its interval covers the true cost as often as it says,
// and the answer uses it and names its runs.
func TestMeasureReplica(t *testing.T) {
	t.Parallel()
	hits := 0
	for seed := range uint64(400) {
		c := calibrated(t)
		if err := c.MeasureReplica(pair(seed, 0.2, 0.05, 5), pair(seed+1e6, 0.36, 0.05, 5)); err != nil {
			t.Fatal(err)
		}
		if c.Replica.Low < 0.8 && c.Replica.High > 0.8 {
			hits++
		}
	}
	if hits < 400*92/100 || hits > 400*98/100 {
		t.Errorf("%d of 400 intervals of 95 %% cover the cost", hits)
	}
	c, r := calibrated(t), Default()
	r.People, r.Replicas, r.MailboxMB = 100000, 2, 1
	before, err := Plan(c, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.MeasureReplica(pair(1, 0.2, 0.01, 3), pair(2, 0.22, 0.01, 3)); err != nil {
		t.Fatal(err)
	}
	after, err := Plan(c, r)
	// 1.1 times as much in all with the replica, in place of 2.52 times.
	if err != nil || math.Abs(after.Limits[0].Need.Value/before.Limits[0].Need.Value-1.1/2.52) > 0.02 ||
		!strings.Contains(after.Text(), "own runs, configuration 4 (c.run and 2 more)") {
		t.Errorf("%v: %+v after %+v\n%s", err, after.Limits[0].Need, before.Limits[0].Need, after.Text())
	}
	other := pair(1, 0.2, 0.01, 3)
	other[0].Users = 7
	one := pair(1, 0.2, 0.01, 3)
	delete(one[1].Servers, "two")
	for want, points := range map[string][]point.Point{"differ in users": other, "has 1 metered servers": one,
		"repeat it": pair(1, 0.2, 0.01, 1)} {
		if err := calibrated(t).MeasureReplica(points, pair(2, 0.3, 0.01, 3)); !errors.Is(err, ErrCalibration) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := c.MeasureReplica(pair(1, 0.4, 0.01, 3), pair(2, 0.3, 0.01, 3)); err != nil || c.Replica.Low != 0 ||
		c.Replica.Value != 0 {
		t.Errorf("a replica that costs less than nothing: %+v, %v", c.Replica, err)
	}
}

// TestCrossCheck predicts one half of the runs from the other: steps of the same server lie within the prediction,
// those of a server that needs twice as much do not.
func TestCrossCheck(t *testing.T) {
	t.Parallel()
	within, n := 0, 0
	for seed := range uint64(100) {
		points := measured(seed, 0.02, 50, 100, 200, 300)
		for i := range points {
			points[i].Run = fmt.Sprint("run", i%2)
		}
		list, err := CrossCheck(points)
		if err != nil || len(list) != 4 {
			t.Fatal(list, err)
		}
		for _, x := range list {
			if n++; x.Within {
				within++
			}
		}
	}
	if within < n*85/100 {
		t.Errorf("%d of %d steps are within their prediction", within, n)
	}
	points := measured(1, 0.01, 50, 100, 200, 300)
	for i := range points {
		points[i].Run = fmt.Sprint("run", i%2)
		if i%2 == 1 {
			points[i].Use[point.CPU] *= 2
		}
	}
	list, err := CrossCheck(points)
	if err != nil || slices.ContainsFunc(list, func(x Predicted) bool { return x.Within }) {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := CrossCheck(measured(1, 0.01, 50, 100, 200)); !errors.Is(err, ErrCalibration) {
		t.Errorf("one run: %v", err)
	}
}
