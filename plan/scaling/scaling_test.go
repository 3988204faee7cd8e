package scaling

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/plan/point"
	"doublet/plan/study"
	"doublet/test/long"
)

// table reads steps.
func table(t *testing.T, text string) []point.Point {
	t.Helper()
	points, err := point.ReadTable(strings.NewReader(text), "t.csv")
	if err != nil {
		t.Fatal(err)
	}
	return points
}

// TestDocument001 analyses figures as document 001 has them: a factor of 1.7 is below both reference curves, and 2 to 3
// partitions cost 3.7 % more CPU, which is 3.6 % less ITR.
func TestDocument001(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("users,processors,partitions,etr,cpu_pct\n")
	for _, noise := range []float64{0.995, 1, 1.005} {
		fmt.Fprintf(&b, "6000,2,4,%g,90\n12000,4,4,%g,93\n", 1000*noise, 1.7*1000/90*93*noise)
		fmt.Fprintf(&b, "12000,3,2,2000,%g\n12000,3,3,2000,%g\n", 50*noise, 50*1.037*noise)
	}
	r, err := Analyse(table(t, b.String()), []Curve{{"OLTP-T", 2, 4, 1.89}, {"CB-L", 2, 4, 1.95}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != 1 || math.Abs(r.Steps[0].Factor.Value-1.7) > 0.01 || len(r.Steps[0].Rules) != 0 ||
		!strings.Contains(strings.Join(r.Steps[0].Beside, ";"), "OLTP-T: 1.89, scales worse") {
		t.Errorf("%+v", r.Steps)
	}
	if len(r.Partitions) != 1 || math.Abs(r.Partitions[0].CPU.Value-3.7) > 0.01 ||
		math.Abs(r.Partitions[0].ITR.Value+3.57) > 0.02 || r.Partitions[0].CPU.Contains(0) {
		t.Errorf("%+v", r.Partitions)
	}
	if r.Law != nil || !strings.Contains(r.Text(), "no USL: data carry no fit") {
		t.Errorf("a law from two sizes:\n%s", r.Text())
	}
	var page strings.Builder
	if err := r.Page().HTML(&page); err != nil || strings.Contains(page.String(), "NaN") {
		t.Error(err)
	}
	// The three rates of 6,000 users are 995, 1,000 and 1,005: 1,000 ± 4.3027 × 5 / √3.
	etr := r.curve("ETR", "", func(x *Row) []float64 { return x.rates })
	if p := etr.Lines[0].Points[0]; math.Abs(p.High-1012.42) > 0.01 || math.Abs(p.Low-987.58) > 0.01 {
		t.Errorf("%+v", p)
	}
	if one, err := Analyse(table(t, "users,etr,cpu_pct\n10,5,50\n"), nil, 0); err != nil ||
		!strings.Contains(string(one.Sections()[0].Figures[3].SVG()), "no intervals: one run<") {
		t.Errorf("one measurement: %v", err)
	}
}

// TestGuests computes the cost of guests, and of virtual processors given out more than once, from the ITR that
// document 001 prints: each is the percentage that it prints, rounded, but for 7.4, which it cut off.
func TestGuests(t *testing.T) {
	t.Parallel()
	steps := map[string]string{}
	for _, r := range study.Rows("guests.csv") {
		for _, noise := range []float64{0.999, 1, 1.001} {
			steps[r["section"]] += fmt.Sprintf("1000,%s,4,%s,%s,%g,90\n", r["processors"], r["guests"], r["virtual"],
				r.Number("itr")*noise*0.9)
		}
	}
	for section, want := range map[string][]string{
		"5.3.2": {"guests 1 at 1:1 to 2 at 1:1, 1000 users: ITR +6.6 %",
			"guests 1 at 1:1 to 4 at 1:1, 1000 users: ITR +4.0 %"},
		"5.3.3": {"guests none to 1 at 1:1, 1000 users: ITR -7.5 %"},
		"5.4": {"guests 4 at 1:1 to 4 at 2:1, 1000 users: ITR -3.0 %",
			"guests 4 at 1:1 to 4 at 4:1, 1000 users: ITR -7.1 %"},
	} {
		points := table(t, "users,processors,partitions,guests,virtual,etr,cpu_pct\n"+steps[section])
		r, err := Analyse(points, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(r.Text(), "CPU +0.0 % (+0.0 to +0.0), ", "")
		for _, x := range want {
			if !strings.Contains(text, x) {
				t.Errorf("%s: %q is missing in\n%s", section, x, text)
			}
		}
		if len(r.Partitions)+len(r.Steps) > 0 || !strings.Contains(r.NoLaw, "differ in guests") {
			t.Errorf("%s: guests are taken for something else:\n%s", section, text)
		}
		n := 0
		for i, f := range r.Sections()[0].Figures {
			last := &r.Rows[len(r.Rows)-1]
			name := fmt.Sprintf(">%d/4, %s</text>", last.Processors, last.guests())
			if i < 3 && !strings.Contains(string(f.SVG()), name) {
				t.Errorf("%s: no %s in the legend of figure %d", section, name, i)
			}
			if outside, err := f.(interface{ Outside() ([]string, error) }).Outside(); err != nil || len(outside) > 0 {
				t.Error(outside, err)
			}
			if strings.Contains(string(f.SVG()), ">Change of ITR by guests and virtual processors<") {
				n++
				if lines := strings.Count(f.CSV(), "change of ITR"); lines != len(r.Guests) || lines == 0 {
					t.Errorf("%s: %d bars of %d pairs", section, lines, len(r.Guests))
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d figures of guests", section, n)
		}
	}
	// The queueing model of a machine without guests does not predict one with guests.
	model := "users,processors,guests,virtual,etr,cpu_pct,average_ms\n10,2,0,0,5,20,10\n20,2,0,0,9,40,12\n" +
		"30,2,4,2,12,60,15\n"
	if r, err := Analyse(table(t, model), nil, 0); err != nil || len(r.Check) != 2 || r.Check[1].Users != 20 {
		t.Errorf("%v %+v", err, r)
	}
	// More processors with guests are no scaling of fewer without.
	step := "users,processors,guests,virtual,etr,cpu_pct\n10,2,0,0,5,50\n20,4,4,4,9,50\n"
	if r, err := Analyse(table(t, step), nil, 0); err != nil || len(r.Steps) > 0 {
		t.Errorf("%v %+v", err, r)
	}
	// More guests with more virtual processors for each real one: neither difference is told from the other.
	two := "users,processors,guests,virtual,etr,cpu_pct\n10,2,1,2,5,50\n10,2,2,8,5,50\n"
	if r, err := Analyse(table(t, two), nil, 0); err != nil || len(r.Guests) > 0 {
		t.Errorf("%v %+v", err, r)
	}
}

// TestLaw simulates known coefficients and checks that the intervals cover them, and what is refused.
func TestLaw(t *testing.T) {
	t.Parallel()
	runs := long.Pick(200, 1000)
	truth := &Law{}
	truth.Lambda.Value, truth.Sigma.Value, truth.Kappa.Value = 100, 0.05, 0.002
	lambda, sigma, kappa, peaks := 0, 0, 0, 0
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		var n, x []float64
		for _, size := range []float64{1, 2, 4, 8, 16, 24, 32} {
			for range 3 {
				n, x = append(n, size), append(x, truth.At(size)*(1+0.02*r.NormFloat64()))
			}
		}
		l, err := FitLaw(n, x)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			hits *int
			ok   bool
		}{{&lambda, l.Lambda.Contains(100)}, {&sigma, l.Sigma.Contains(0.05)}, {&kappa, l.Kappa.Contains(0.002)},
			{&peaks, math.Abs(l.Peak-21.8) < 3}} {
			if c.ok {
				*c.hits++
			}
		}
	}
	t.Logf("of %d: λ %d, σ %d, κ %d, peak %d", runs, lambda, sigma, kappa, peaks)
	least := int(float64(runs) * (0.95 - 3*math.Sqrt(0.95*0.05/float64(runs))))
	if lambda < least || sigma < least || kappa < least || peaks < least {
		t.Errorf("of %d: λ %d, σ %d, κ %d, peak %d", runs, lambda, sigma, kappa, peaks)
	}
	for name, c := range map[string][2][]float64{
		"three sizes":  {{1, 2, 4, 1, 2, 4}, {1, 2, 4, 1, 2, 4}},
		"small range":  {{4, 5, 6, 7, 8}, {4, 5, 6, 7, 8}},
		"super-linear": {{1, 2, 4, 8, 16, 32}, {1, 2.4, 6, 14, 36, 90}},
		"noise":        {{1, 2, 4, 8, 16, 1, 2, 4, 8, 16}, {1, 5, 2, 9, 3, 3, 1, 8, 2, 30}},
	} {
		if l, err := FitLaw(c[0], c[1]); !errors.Is(err, ErrLaw) {
			t.Errorf("%s: %+v %v", name, l, err)
		}
	}
}

// lastOf returns the throughput and the response time of n users.
func lastOf(stations []Station, think float64, n int) (throughput, response float64) {
	mva(stations, think, n, func(_ int, x, r float64) { throughput, response = x, r })
	return throughput, response
}

// TestMVA compares the analysis with closed forms: one user, saturation, and a repairman model of two servers.
func TestMVA(t *testing.T) {
	t.Parallel()
	if x, r := lastOf([]Station{{0.1, 1}, {0.2, 1}}, 1, 1); math.Abs(r-0.3) > 1e-12 || math.Abs(x-1/1.3) > 1e-12 {
		t.Errorf("one user: %g, %g", x, r)
	}
	if x, _ := lastOf([]Station{{0.1, 1}, {0.2, 1}}, 1, 500); math.Abs(x-5) > 1e-6 {
		t.Errorf("saturated disk: %g actions a second, want 5", x)
	}
	if x, _ := lastOf([]Station{{0.1, 4}}, 1, 2000); math.Abs(x-40) > 1e-6 {
		t.Errorf("four saturated processors: %g, want 40", x)
	}
	// M/M/c//N: states of a birth and death process, solved directly.
	for _, servers := range []int{1, 2, 3, 8} {
		const n, think, demand = 30, 2.0, 0.25
		p, sum, busy := 1.0, 0.0, 0.0
		for j := 0; j <= n; j++ {
			sum += p
			busy += p * float64(min(j, servers))
			p *= float64(n-j) / think / (float64(min(j+1, servers)) / demand)
		}
		want := busy / sum / demand
		if x, _ := lastOf([]Station{{demand, servers}}, think, n); math.Abs(x-want) > 1e-6*want {
			t.Errorf("%d servers: %g, want %g", servers, x, want)
		}
	}
}

// TestCheck predicts steps of more users from the one with the fewest.
func TestCheck(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("users,processors,etr,cpu_pct,disk_busy_pct,average_ms\n")
	for _, users := range []int{50, 100, 200} {
		x, r := lastOf([]Station{{0.01, 2}, {0.02, 1}}, 5, users)
		fmt.Fprintf(&b, "%d,2,%g,%g,%g,%g\n", users, x, x*0.01/2*100, x*0.02*100, r*1000)
	}
	r, err := Analyse(table(t, b.String()), nil, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Check {
		if math.Abs(c.Rate-c.Measured) > 0.01*c.Measured || math.Abs(c.Response-c.Found) > 0.05*c.Found ||
			c.Bottleneck != "disk" {
			t.Errorf("%+v", c)
		}
	}
	if r, err := Analyse(table(t, "users,etr,cpu_pct\n5,1,1\n"), nil, 0); err != nil || r.NoCheck == "" {
		t.Errorf("a model without response times: %+v, %v", r, err)
	}
	if _, err := Analyse(table(t, "users,etr\n5,1\n"), nil, 0); !errors.Is(err, point.ErrPoints) {
		t.Errorf("without processor use: %v", err)
	}
}

// TestMixed refuses points whose rates have nothing to do with each other, and marks those of other servers.
func TestMixed(t *testing.T) {
	t.Parallel()
	const head = "users,target,workload,speed,etr,cpu_pct\n"
	for name, text := range map[string]string{"speed": "100,a,w,1,5,10\n100,a,w,20,100,80\n",
		"workload": "100,a,w,1,5,10\n200,a,other,1,10,20\n"} {
		if _, err := Analyse(table(t, head+text), nil, 0); !errors.Is(err, point.ErrPoints) ||
			!strings.Contains(err.Error(), "differ in "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	points := table(t, head+"100,a,w,1,5,10\n200,b,w,1,10,20\n")
	points[0].Marks = []string{"window of 30s"}
	r, err := Analyse(points, nil, 0)
	if err != nil || len(r.Marks) != 2 || !strings.Contains(r.Text(), "marked: window of 30s") ||
		!strings.Contains(r.Text(), "they differ in target") {
		t.Errorf("%v\n%s", err, r.Text())
	}
}

// TestNoNumbers checks the points of which no figure can be computed: none of them is one.
func TestNoNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"users,etr,cpu_pct\n5,1,0\n", "users,etr,cpu_pct\n5,0,1\n",
		"users,etr,cpu_pct\n5,1e12,1e-300\n"} {
		if _, err := Analyse(table(t, text), nil, 0); !errors.Is(err, point.ErrPoints) {
			t.Errorf("%q: %v", text, err)
		}
	}
	stopped := table(t, "users,etr,cpu_pct\n5,1,1\n")
	stopped[0].Speed = 0 // of a run file
	if _, err := Analyse(stopped, nil, 0); !errors.Is(err, point.ErrPoints) {
		t.Errorf("speed 0: %v", err)
	}
	points := table(t, "users,etr,cpu_pct,average_ms\n5,1,1,3\n10,2,2,\n20,4,4,5\n")
	r, err := Analyse(points, nil, 0)
	if err != nil || len(r.Check) != 2 {
		t.Fatalf("%v, %+v", err, r)
	}
	if raw, err := json.Marshal(r); err != nil || strings.Contains(string(raw), "NaN") {
		t.Error(err)
	}
	if err := r.Page().HTML(io.Discard); err != nil { // an average that is missing ended it never
		t.Error(err)
	}
	// 5 users with 10 actions a second and answers after 2 s would think for -1.5 s.
	if r, err := Analyse(table(t, "users,etr,cpu_pct,average_ms\n5,10,50,2000\n"), nil, 0); err != nil ||
		!strings.Contains(r.NoCheck, "no time to think") {
		t.Errorf("%v, %+v", err, r)
	}
	tiny := table(t, "users,etr,cpu_pct,average_ms\n5,1e-306,50,3\n500,1e-306,50,3\n")
	if r, err := Analyse(tiny, nil, 0); err != nil || !strings.Contains(r.NoCheck, "no finite answer") {
		t.Errorf("%v, %+v", err, r)
	}
	for _, think := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := Analyse(points, nil, think); !errors.Is(err, point.ErrPoints) {
			t.Errorf("think %g: %v", think, err)
		}
	}
	for name, c := range map[string][2][]float64{
		"size 0":       {{0, 1, 2, 4, 8, 16}, {1, 1, 2, 4, 8, 16}},
		"throughput 0": {{1, 2, 4, 8, 16, 32}, {1, 2, 0, 8, 16, 32}},
		"no number":    {{1, 2, 4, 8, 16, 32}, {1, 2, math.NaN(), 8, 16, 32}},
		"endless":      {{1, 2, 4, 8, 16, 32}, {1, 2, math.Inf(1), 8, 16, 32}},
	} {
		if l, err := FitLaw(c[0], c[1]); !errors.Is(err, ErrLaw) {
			t.Errorf("%s: %+v %v", name, l, err)
		}
	}
}

// TestMostPairs checks that the pairs that are compared are bounded, and that the report says so.
func TestMostPairs(t *testing.T) {
	t.Parallel()
	var steps, partitions strings.Builder
	for i := 1; i <= 60; i++ { // 1,770 pairs
		fmt.Fprintf(&steps, "%d,%d,1,5,50\n", 10*i, i)
		fmt.Fprintf(&partitions, "10,1,%d,5,50\n", i)
	}
	for _, text := range []string{steps.String(), partitions.String()} {
		r, err := Analyse(table(t, "users,processors,partitions,etr,cpu_pct\n"+text), nil, 0)
		if err != nil || len(r.Steps)+len(r.Partitions) != maxPairs || len(r.Marks) != 1 {
			t.Errorf("%v: %d and %d pairs, marks %q", err, len(r.Steps), len(r.Partitions), r.Marks)
		}
	}
}

// FuzzAnalyse checks that no table ends the analysis, its JSON or its page.
func FuzzAnalyse(f *testing.F) {
	f.Add("users,processors,partitions,etr,cpu_pct,average_ms\n10,1,1,5,50,3\n20,2,1,9,50,\n", 0.0)
	f.Add("users,etr,cpu_pct,average_ms,disk_busy_pct\n1,5,50,3,9\n2,9,50,3,9\n4,9,60,3,9\n8,9,70,3,9\n9,9,90,3,9\n",
		5.0)
	f.Fuzz(func(t *testing.T, text string, think float64) {
		points, err := point.ReadTable(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		for i := range points {
			if points[i].Users > 1000 || points[i].Processors > 64 {
				return // the model's time, not its answers
			}
		}
		if points, err = point.Usable(points); err != nil {
			return
		}
		r, err := Analyse(points, []Curve{{"c", 1, 2, 1.9}}, think)
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%v: %+v", err, r)
		}
		if err := r.Page().HTML(io.Discard); err != nil {
			t.Error(err)
		}
	})
}
