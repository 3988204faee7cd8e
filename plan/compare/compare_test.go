package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"doublet/plan/point"
	"doublet/stat/chart"
)

func leg(t *testing.T, name string, noise float64, cpu, writes float64) Leg {
	t.Helper()
	var b strings.Builder
	b.WriteString("users,processors,etr,cpu_pct,disk_ops_s\n")
	for _, users := range []int{1000, 4000} {
		for _, x := range []float64{1 - noise, 1, 1 + noise} {
			fmt.Fprintf(
				&b,
				"%d,4,%g,%g,%g\n",
				users,
				float64(users)/100,
				cpu*float64(users)/4000*x,
				writes*float64(users)/4000,
			)
		}
	}
	points, err := point.ReadTable(strings.NewReader(b.String()), name)
	if err != nil {
		t.Fatal(err)
	}
	return Leg{Name: name, Points: points}
}

// TestThreeLegs compares as document 003 does: what exceeds the noise and what does not.
func TestThreeLegs(t *testing.T) {
	t.Parallel()
	r, err := Legs([]Leg{leg(t, "V7", 0.02, 61, 1630), leg(t, "V8 with V7 clients", 0.02, 60.5, 1200),
		leg(t, "V8", 0.02, 51, 994)})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, row := range r.Rows {
		if row.Users != 4000 {
			continue
		}
		switch row.Resource {
		case "cpu_pct":
			seen++
			if row.Cells[1].Beyond || !row.Cells[2].Beyond || math.Abs(row.Cells[2].Change.Value+16.4) > 0.1 {
				t.Errorf("%+v", row.Cells)
			}
		case "disk_ops_s":
			seen++
			if !row.Cells[1].Beyond || math.Abs(row.Cells[2].Change.Value+39.02) > 0.01 {
				t.Errorf("%+v", row.Cells)
			}
		}
	}
	text := r.Text()
	if seen != 2 || !strings.Contains(text, "Resource usage at 4,000 users") || !strings.Contains(text, "noise") {
		t.Errorf("%d\n%s", seen, text)
	}
	var b strings.Builder
	if err := r.Page().HTML(&b); err != nil || strings.Contains(b.String(), "NaN") {
		t.Error(err)
	}
	for _, s := range r.Page().Sections {
		for _, f := range s.Figures {
			if outside, err := f.(interface{ Outside() ([]string, error) }).Outside(); err != nil || len(outside) > 0 {
				t.Error(outside, err)
			}
		}
	}
}

// TestNoDecision checks that a leg without repeats shows nothing, and what is refused.
func TestNoDecision(t *testing.T) {
	t.Parallel()
	a, b := leg(t, "a", 0.02, 60, 1), leg(t, "b", 0.02, 30, 1)
	a.Points, b.Points = a.Points[:1], b.Points[:1]
	r, err := Legs([]Leg{a, b})
	if err != nil || strings.Contains(r.Text(), "noise") || !strings.Contains(r.Text(), "not repeated") ||
		r.Rows[1].Cells[1].Beyond {
		t.Errorf("%v\n%s", err, r.Text())
	}
	b.Points[0].Processors = 8
	if _, err := Legs([]Leg{a, b}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("other machines: %v", err)
	}
	b.Points[0].Processors, b.Points[0].Speed = 4, 20
	if _, err := Legs([]Leg{a, b}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("another speed: %v", err)
	}
	b.Points[0].Speed, b.Points[0].Users = 1, 77
	if _, err := Legs([]Leg{a, b}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("other users: %v", err)
	}
	b.Points[0].Users, b.Points[0].Workload = 1000, "other"
	if r, err := Legs([]Leg{a, b}); err != nil || len(r.Marks) != 1 {
		t.Errorf("other workload: %v %v", r, err)
	}
	c := leg(t, "c", 0.02, 30, 1)
	c.Points[1].Workload = "other"
	if _, err := Legs([]Leg{a, c}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("two workloads in a leg: %v", err)
	}
	c.Points[1].Workload, c.Points[1].Guests = "", 4
	if _, err := Legs([]Leg{a, c}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("guests and none in a leg: %v", err)
	}
	for i := range c.Points {
		c.Points[i].Workload, c.Points[i].Guests = "", 4
	}
	if r, err := Legs([]Leg{a, c}); err != nil || len(r.Marks) != 1 || !strings.Contains(r.Marks[0], "guests") {
		t.Errorf("other guests in each leg: %v %+v", err, r)
	}
	for i := range c.Points {
		c.Points[i].Guests = 0
	}
	c.Points[1].Workload, c.Points[1].Target, c.Points[2].Marks = "", "elsewhere", []string{"window of 30s"}
	if r, err := Legs([]Leg{a, c}); err != nil || len(r.Marks) != 2 || r.Marks[1] != "c: window of 30s" {
		t.Errorf("%v %+v", err, r)
	}
	a.Points[0].Marks, c.Points[0].Marks = []string{"both"}, []string{"both"}
	if r, err := Legs([]Leg{a, c}); err != nil || !slices.Contains(r.Marks, "both") || len(r.Marks) != 3 {
		t.Errorf("a mark of both legs: %v %+v", err, r)
	}
	if _, err := Legs([]Leg{a, {Name: "none"}}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("a leg without steps: %v", err)
	}
	if _, err := Legs([]Leg{a}); !errors.Is(err, point.ErrPoints) {
		t.Errorf("one leg: %v", err)
	}
}

// TestLeftOut compares legs of which one lacks a number of users, and one a resource: the text, the JSON and the page
// name each of them, and why.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	a, b, c := leg(t, "a", 0.02, 60, 100), leg(t, "b", 0.02, 60, 100), leg(t, "c", 0.02, 60, 100)
	b.All = slices.Clone(b.Points)
	for i := 3; i < 6; i++ {
		b.All[i].Run, b.All[i].Outcome, b.All[i].Reason = "b1.run", "discarded", "average of 9s"
	}
	b.All = append(b.All, point.Point{Run: "b2.run", Outcome: "set aside", Reason: "the run was cut off"})
	b.Points = b.Points[:3]
	for i := range c.Points {
		delete(c.Points[i].Use, point.DiskOps)
	}
	a.Points = append(a.Points, a.Points[0])
	a.Points[6].Users = 8000
	r, err := Legs([]Leg{a, b, c})
	if err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := r.Page().HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,000 users, disk_ops_s: c lacks it: not metered",
		"4,000 users: b lacks it: b1.run was discarded: average of 9s; b2.run was set aside: the run was cut off",
		"8,000 users: b lacks it: b2.run was set aside: the run was cut off", "8,000 users: c lacks it: not measured"} {
		if !strings.Contains(r.Text(), "left out: "+want+"\n") ||
			!strings.Contains(page.String(), "<li>"+want+"</li>") {
			t.Errorf("%q is missing in\n%s", want, r.Text())
		}
	}
	if want := `{"users":8000,"leg":"c","why":"not measured"}`; !strings.Contains(string(js), want) ||
		len(r.LeftOut) != 4 {
		t.Errorf("no %s in %s", want, js)
	}
	// A number of users that only a later leg has is left out as well.
	c.Points = slices.Clone(c.Points)
	c.Points[5].Users = 77
	a.Points, c.Points = a.Points[:3], c.Points[:6]
	if r, err := Legs([]Leg{a, c}); err != nil || !strings.Contains(r.Text(), "left out: 77 users: a lacks it") {
		t.Errorf("%v\n%s", err, r.Text())
	}
	c.Points = c.Points[5:]
	if _, err := Legs([]Leg{a, c}); err == nil || !strings.Contains(err.Error(), "77 users: a lacks it: not measured") {
		t.Errorf("nothing left: %v", err)
	}
}

// TestBarsKeepTheirPlace draws a resource that the first leg does not use at the smaller number of users: there is no
// change from 0, and the change at the larger number stands above that number.
func TestBarsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	a, b := leg(t, "a", 0.02, 60, 100), leg(t, "b", 0.02, 60, 150)
	for i := range a.Points[:3] {
		a.Points[i].Use[point.DiskOps] = 0
	}
	r, err := Legs([]Leg{a, b})
	if err != nil {
		t.Fatal(err)
	}
	_, change := r.bars(point.DiskOps)
	if v := change.Series[0].Values; len(v) != 2 || !math.IsNaN(v[0]) || math.Abs(v[1]-50) > 1e-9 {
		t.Errorf("%v of %v", v, change.Groups)
	}
	if change.First != 1 {
		t.Error("b has another colour than beside a")
	}
	if csv := change.CSV(); csv != "group,series,value,low,high\n\"4,000\",b,50,50,50\n" {
		t.Errorf("%q", csv)
	}
}

// TestValueIntervals checks that the value of each leg has the interval of its repeats, which is in the figure, and
// that the figure of legs which were measured once says why there is none.
func TestValueIntervals(t *testing.T) {
	t.Parallel()
	a, b := leg(t, "a", 0.02, 60, 100), leg(t, "b", 0.6, 60, 100)
	r, err := Legs([]Leg{a, b})
	if err != nil {
		t.Fatal(err)
	}
	values, _ := r.bars("cpu_pct")
	// t is 4.3027 with 2 degrees of freedom: 60 ± 4.3027 × 1.2 / √3 of a; b reaches below 0.
	if x := values.Series[0]; math.Abs(x.High[1]-62.98) > 0.01 || math.Abs(x.Low[1]-57.02) > 0.01 {
		t.Errorf("%+v", x)
	}
	if x := values.Series[1]; x.Low[1] != 0 || x.High[1] < 100 {
		t.Errorf("%+v", x)
	}
	if text := string(values.SVG()); !strings.Contains(text, ">by active users; whiskers: 95 % intervals of repeats<") {
		t.Error(text)
	}
	a.Points, b.Points = a.Points[:1], b.Points[:1]
	if r, err = Legs([]Leg{a, b}); err != nil || r.Rows[0].Cells[0].Interval != nil {
		t.Fatalf("%v %+v", err, r)
	}
	values, change := r.bars("cpu_pct")
	if text := string(values.SVG()); !strings.Contains(text, ">by active users; no intervals: one run<") {
		t.Error(text)
	}
	if text := string(change.SVG()); !strings.Contains(text, ">from a; no intervals: one run, or a mean of 0<") {
		t.Error(text)
	}
}

// TestManyLegs draws as many legs as a study may have configurations: no two bars are told apart by a colour that both
// have, but each leg is named beside its bar, at each number of users.
func TestManyLegs(t *testing.T) {
	t.Parallel()
	const colours = 6
	for _, n := range []int{3, colours, colours + 1, 14, 16} {
		var legs []Leg
		for i := range n {
			legs = append(legs, leg(t, fmt.Sprintf("configuration %02d", i), 0.02, 60, 100))
		}
		r, err := Legs(legs)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Page().Sections[0].Figures {
			b := f.(*chart.Bars)
			text := string(b.SVG())
			if len(b.Series) > colours {
				t.Errorf("%d legs: %s has %d series", n, b.Title, len(b.Series))
			}
			for i := range legs {
				if i > 0 || !strings.HasPrefix(b.Title, "Change") {
					if !strings.Contains(text, ">"+legs[i].Name+"</text>") {
						t.Errorf("%d legs: %s does not name %s", n, b.Title, legs[i].Name)
					}
				}
			}
			if outside, err := b.Outside(); err != nil || len(outside) > 0 {
				t.Error(outside, err)
			}
		}
		want := map[bool]int{false: 2, true: 4}[n > colours] // of values and changes; at each number of users
		if got := len(r.figures(point.DiskOps)); got != want {
			t.Errorf("%d legs: %d figures of a resource", n, got)
		}
		if last := string(r.figures(point.DiskOps)[want-1].SVG()); n > colours &&
			!strings.Contains(last, ">from configuration 00, at 4,000 users; whiskers: 95 % intervals<") {
			t.Error(last)
		}
	}
}

// TestLongNames compares legs whose names are longer than a figure has room for, and differ at their ends, as those of
// run files do: each is named beside its bars, and no text leaves the picture.
func TestLongNames(t *testing.T) {
	t.Parallel()
	const name = "geoplex-medium-20261127-101500.run,geoplex-medium-20261127-10300"
	r, err := Legs([]Leg{leg(t, name+"1", 0.02, 60, 100), leg(t, name+"2", 0.02, 60, 100)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Page().Sections[0].Figures {
		b := f.(*chart.Bars)
		text := string(b.SVG())
		for end := range 2 {
			if end > 0 || !strings.HasPrefix(b.Title, "Change") {
				if !strings.Contains(text, fmt.Sprintf("-10300%d</text>", end+1)) {
					t.Errorf("%s does not tell the legs apart: %s", b.Title, text)
				}
			}
		}
		if outside, err := b.Outside(); err != nil || len(outside) > 0 {
			t.Error(outside, err)
		}
	}
}

// TestNothingLeft compares repeated steps of which the second leg does not use a resource: the change to 0 has no
// interval, and is not called one that was not repeated.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	r, err := Legs([]Leg{leg(t, "a", 0.02, 60, 100), leg(t, "b", 0.02, 60, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Text(); !strings.Contains(text, "-100.0 % (no interval)") || strings.Contains(text, "not repeated") {
		t.Error(text)
	}
}

// FuzzLegs checks that no two tables end the comparison, its JSON or its page.
func FuzzLegs(f *testing.F) {
	f.Add("users,processors,etr,cpu_pct,p99_ms\n10,4,5,0,\n20,4,0,50,9\n",
		"users,processors,etr\n10,4,1e12\n10,4,1e-300\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		var legs []Leg
		for _, text := range []string{a, b} {
			points, err := point.ReadTable(strings.NewReader(text), "f")
			if err != nil {
				return
			}
			if points, err = point.Usable(points); err != nil {
				return
			}
			legs = append(legs, Leg{Name: "f", Points: points})
		}
		r, err := Legs(legs)
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
		if err := r.Page().HTML(io.Discard); err != nil || r.Text() == "" {
			t.Error(err)
		}
	})
}
