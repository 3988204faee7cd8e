package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestAxes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hi, want, step float64 }{{1, 1, 0.2}, {9.7, 10, 2}, {1000, 1000, 200},
		{1001, 1500, 500}, {0, 1, 0.2}, {0.003, 0.003, 0.001}} {
		if a := round(0, c.hi, 5, 0, 100); math.Abs(a.hi-c.want) > 1e-9 || math.Abs(a.step-c.step) > 1e-9 {
			t.Errorf("up to %v: axis to %v in steps of %v", c.hi, a.hi, a.step)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.5: "0.50", 0.0149: "0.015", 0.0051: "0.0051",
		12.34: "12.3", 999: "999", 1234: "1,234", 1234567: "1.23 M", -1234: "-1,234"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %q", v, got)
		}
	}
}

// TestStairs keeps the height of each point until the next one.
func TestStairs(t *testing.T) {
	t.Parallel()
	got := stairs([][2]float64{{0, 5}, {10, 7}, {20, 2}})
	if want := [][2]float64{{0, 5}, {10, 5}, {10, 7}, {20, 7}, {20, 2}}; !slices.Equal(got, want) {
		t.Errorf("stairs %v", got)
	}
}

// TestBars draws bars with intervals, some of them negative, and checks the table.
func TestBars(t *testing.T) {
	t.Parallel()
	b := &Bars{
		Title:  "Savings <by task>",
		Y:      "percent",
		Note:   "95 %",
		Groups: []string{"Server, all", "Router", "a task of a long name"},
		Series: []Bar{
			{Name: "one", Values: []float64{25, -5, 3}, Low: []float64{20, -9, 0}, High: []float64{30, -1, 0}},
			{Name: "two", Values: []float64{10, math.NaN()}},
		},
	}
	text := string(b.SVG())
	if err := xml.Unmarshal([]byte(text), new(struct{})); err != nil {
		t.Error(err)
	}
	if n := strings.Count(text, "<rect"); n != 4 {
		t.Errorf("%d bars", n)
	}
	if outside, err := b.Outside(); err != nil || len(outside) > 0 {
		t.Error(outside, err)
	}
	b.First = 1
	shifted := string(b.SVG())
	for class, want := range map[string]int{"s0": 0, "s1": 4, "s2": 2} { // bars, and a line of the legend
		n := strings.Count(shifted, `class="d `+class+`"`) + strings.Count(shifted, `class="l `+class+`"`)
		if n != want {
			t.Errorf("%s: %d times, want %d", class, n, want)
		}
	}
	want := "group,series,value,low,high\n\"Server, all\",one,25,20,30\nRouter,one,-5,-9,-1\na task of a long " +
		"name,one,3,,\n\"Server, all\",two,10,,\n"
	if got := b.CSV(); got != want {
		t.Errorf("%s", got)
	}
}

// TestAcross draws as many bars as a study has configurations from left to right: each name is written in full beside
// its bar, and intervals lie across.
func TestAcross(t *testing.T) {
	t.Parallel()
	b := &Bars{Title: "t", Y: "percent", Note: "n", Across: true}
	s := Bar{Name: "s"}
	for i := range 16 {
		b.Groups = append(b.Groups, fmt.Sprintf("early acknowledge %02d", i))
		v := float64(i - 3)
		s.Values, s.Low, s.High = append(s.Values, v), append(s.Low, v-1), append(s.High, v+1)
	}
	b.Series = []Bar{s}
	if outside, err := b.Outside(); err != nil || len(outside) > 0 {
		t.Error(outside, err)
	}
	text := string(b.SVG())
	for _, name := range b.Groups {
		if !strings.Contains(text, ">"+name+"</text>") {
			t.Errorf("%q is not written", name)
		}
	}
	last := 0.0
	for line := range strings.SplitSeq(text, "<") {
		var x, y, wide, high float64
		if n, _ := fmt.Sscanf(line, `rect class="d s0" stroke="none" x="%f" y="%f" width="%f" height="%f"`, &x, &y,
			&wide, &high); n == 4 {
			if y < last || wide > width-names-right {
				t.Errorf("a bar at %g, %g of %g by %g covers another, or its name", x, y, wide, high)
			}
			last = y + high
		}
	}
	if n := strings.Count(text, "<rect"); n != 16 || last == 0 {
		t.Errorf("%d bars", n)
	}
	if n := strings.Count(text, `class="l text"`); n != 3*16 {
		t.Errorf("%d lines of whiskers", n)
	}
}

// TestNamed checks which names of series a legend can show: few enough, short enough, and in two lines.
func TestNamed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 30)
	for _, c := range []struct {
		names []string
		want  bool
	}{{nil, true}, {[]string{"a", "b", "c", "d", "e", "f"}, true}, {[]string{"a", "b", "c", "d", "e", "f", "g"}, false},
		{[]string{long, long}, true}, {[]string{long, long, long, long}, true},
		{[]string{long, long, long, long, long}, false}, {[]string{"a", long + long}, false}} {
		if Named(c.names) != c.want {
			t.Errorf("%q: %v", c.names, !c.want)
		}
		chart := &Chart{}
		for _, name := range c.names {
			chart.Lines = append(chart.Lines, Line{Name: name})
		}
		text := string(chart.SVG())
		all := strings.Count(text, `class="l s`) == len(c.names) &&
			!slices.ContainsFunc(c.names, func(n string) bool { return !strings.Contains(text, ">"+n+"</text>") })
		if len(c.names) <= colours && all != c.want {
			t.Errorf("%q are all written: %v", c.names, all)
		}
	}
}

// TestNote checks that a chart of bars says what its whiskers are, and why bars have none. Repeats without any spread
// have a whisker too.
func TestNote(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	both, one := []float64{5, 6}, []float64{4, none}
	for want, s := range map[string]Bar{
		"users; whiskers: of repeats":                      {Values: both, Low: []float64{4, 6}, High: both},
		"users; whiskers: of repeats; no whisker: one run": {Values: both, Low: one, High: []float64{6, none}},
		"users; no intervals: one run":                     {Values: both},
		"users":                                            {Values: []float64{none, none}},
	} {
		b := &Bars{Groups: []string{"a", "b"}, Series: []Bar{s}, Note: "users", Interval: "of repeats",
			Without: "one run"}
		if got := b.note(); got != want || !strings.Contains(string(b.SVG()), ">"+want+"</text>") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLineInterval draws the interval of a point.
func TestLineInterval(t *testing.T) {
	t.Parallel()
	c := &Chart{Title: "t", Lines: []Line{{Name: "l", Points: []Point{{X: 1, Y: 2, Low: 1, High: 4}, {X: 2, Y: 3}}}}}
	plain := &Chart{Title: "t", Lines: []Line{{Name: "l", Points: []Point{{X: 1, Y: 2}, {X: 2, Y: 3}}}}}
	if strings.Count(string(c.SVG()), "<line") < strings.Count(string(plain.SVG()), "<line")+3 {
		t.Error("the interval was not drawn")
	}
	if got := c.CSV(); got != "line,x,y,low,high\nl,1,2,1,4\nl,2,3,,\n" {
		t.Error(got)
	}
	var b bytes.Buffer
	if err := c.PNG(&b); err != nil {
		t.Fatal(err)
	}
	if img, err := png.Decode(&b); err != nil || img.Bounds().Dx() != width*pngScale {
		t.Error(err)
	}
}

// TestNoNumber draws values that have no place on an axis, next to one that has: the picture ends, and shows the one.
func TestNoNumber(t *testing.T) {
	t.Parallel()
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e306, -1e306, math.MaxFloat64}
	for _, v := range odd {
		l := Line{Name: "l", Points: []Point{{X: 1, Y: 2}, {X: 2, Y: v}, {X: v, Y: 3}, {X: 3, Y: 4, Low: v, High: v}}}
		for _, c := range []*Chart{{Lines: []Line{l}}, {Lines: []Line{l}, Time: true},
			{Lines: []Line{l}, Limit: v, Moments: []Moment{{X: v, Name: "m"}}}} {
			text := string(c.SVG())
			if n := strings.Count(text, "<circle"); n != 2 || strings.Contains(text, "NaN") || len(text) > 1<<16 {
				t.Errorf("%g: %d points in %d bytes", v, n, len(text))
			}
			if got := c.CSV(); got != "line,x,y,low,high\nl,1,2,,\nl,3,4,,\n" {
				t.Errorf("%g: %q", v, got)
			}
		}
		b := &Bars{Groups: []string{"a", "b"}, Series: []Bar{{Name: "s", Values: []float64{1, v}, Low: []float64{v, v},
			High: []float64{v, 5}}}}
		text := string(b.SVG())
		if n := strings.Count(text, "<rect"); n != 1 || strings.Contains(text, "NaN") || len(text) > 1<<16 {
			t.Errorf("%g: %d bars in %d bytes", v, n, len(text))
		}
		if got := b.CSV(); got != "group,series,value,low,high\na,s,1,,\n" {
			t.Errorf("%g: %q", v, got)
		}
	}
	for _, c := range [][2]float64{{0, 5e-324}, {1e18, 1e18 + 1}, {1e288, 1e289}, {-largest, largest}} {
		n := 0
		for v := range round(c[0], c[1], 5, 0, 100).ticks {
			if n++; math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%v: tick %g", c, v)
			}
		}
		if n == 0 || n > 50 {
			t.Errorf("%v: %d ticks", c, n)
		}
	}
}

// TestFormula checks that names from the input are no formulas in a program for tables.
func TestFormula(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"=1+1": "'=1+1", "@SUM(A1)": "'@SUM(A1)", "-2": "'-2", "+2": "'+2",
		"a=b": "a=b", "": "", "=a,b": `"'=a,b"`, "a\r": "\"a\r\""} {
		if got := quote(name); got != want {
			t.Errorf("%q is written as %q, want %q", name, got, want)
		}
	}
}
