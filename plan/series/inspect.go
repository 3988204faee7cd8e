package series

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Inspect looks for what a single row does not show: units that change, columns that swap places, tasks that use more
// than the whole. Call it once after all sources were read.
func (s *Set) Inspect() {
	for _, f := range s.Servers() {
		s.users(f)
		s.tasks(f)
		for _, c := range f.Columns() {
			base, _, _ := strings.Cut(c.Name, ":")
			if _, ok := known[base]; ok {
				s.jumps(f, c)
			}
		}
		s.swaps(f)
	}
}

// where returns a finding at a value, with the line in which its interval begins.
func where(severity Severity, f *Frame, c *Column, i int, text, remedy string) Finding {
	return Finding{
		severity,
		c.File,
		c.lines.line(f.Start + int64(i)),
		c.Place,
		fmt.Sprintf("%s, %s from %s: %s", f.Server,
			c.Name, f.Time(i).Format(time.RFC3339), text),
		remedy,
		0,
	}
}

// users checks that users are a count.
func (s *Set) users(f *Frame) {
	users, registered := f.Column("users"), f.Column("registered")
	if users == nil {
		return
	}
	for i := range users.Values {
		u, all := users.At(i), registered.At(i)
		if !math.IsNaN(u) && !math.IsNaN(all) && u > all*1.02+1 {
			s.find(
				"more users than registered",
				where(Refused, f, users, i, fmt.Sprintf("%g are active, %g registered", u,
					all), "are the two columns swapped? Correct the head"),
			)
		}
	}
}

// tasks checks that the tasks together do not use more than all do.
func (s *Set) tasks(f *Frame) {
	total := f.Column("cpu")
	if total == nil {
		return
	}
	var parts []*Column
	for _, c := range f.Columns() {
		if strings.HasPrefix(c.Name, "cpu:") {
			parts = append(parts, c)
		}
	}
	bad, first := 0, -1
	for i := range total.Values {
		sum := 0.0
		for _, c := range parts {
			if v := c.At(i); !math.IsNaN(v) {
				sum += v
			}
		}
		if v := total.At(i); sum > v*1.05+1 {
			if bad++; first < 0 {
				first = i
			}
		}
	}
	if bad > 0 {
		s.find(
			"tasks over total",
			where(Refused, f, total, first, fmt.Sprintf("tasks use more than cpu in %d intervals",
				bad), "is cpu swapped with a task, or are the units different? Correct the head"),
		)
	}
}

// day is the number of intervals of a day.
const day = 86400 / Interval

// unitSteps are factors by which a series jumps when its unit changes.
var unitSteps = []float64{1000, 1024, 1e6, 1 << 20, 60}

// jumps looks for a day after which a series stays at 1,000, 1,024, 60 … times the level of before.
func (s *Set) jumps(f *Frame, c *Column) {
	levels := make([]float64, 0, len(c.Values)/day+1)
	for start := 0; start < len(c.Values); start += day {
		levels = append(levels, median(c.Values[start:min(start+day, len(c.Values))]))
	}
	const span = 3
	for d := span; d+span <= len(levels); d++ {
		before, after := spread(levels[d-span:d]), spread(levels[d:d+span])
		if before.low <= 0 || after.low <= 0 || before.high > 4*before.low || after.high > 4*after.low {
			continue
		}
		ratio := math.Sqrt(after.low * after.high / before.low / before.high)
		for _, step := range unitSteps {
			for _, want := range []float64{step, 1 / step} {
				if math.Abs(math.Log(ratio/want)) < 0.25 {
					s.find(
						"unit "+c.Name+" of "+f.Server,
						where(Refused, f, c, d*day, fmt.Sprintf("values are about %.4g "+
							"times those of the days before", want), "has its unit changed? Give both parts the "+
							"same unit"),
					)
					return
				}
			}
		}
	}
}

type bounds struct{ low, high float64 }

func spread(values []float64) (b bounds) {
	b = bounds{math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		if math.IsNaN(v) {
			return bounds{}
		}
		b.low, b.high = min(b.low, v), max(b.high, v)
	}
	return b
}

// median returns the median of the values above 0, NaN if there are none.
func median(values []float32) float64 {
	var kept []float32
	for _, v := range values {
		if v > 0 {
			kept = append(kept, v)
		}
	}
	if len(kept) == 0 {
		return math.NaN()
	}
	slices.Sort(kept)
	return float64(kept[len(kept)/2])
}

// swaps looks for rows in which two measures have the other's level: their columns were swapped from there.
func (s *Set) swaps(f *Frame) {
	var columns []*Column
	for _, name := range []string{"users", "registered", "cpu", "transactions", "messages", "replications"} {
		if c := f.Column(name); c != nil {
			columns = append(columns, c)
		}
	}
	for x, a := range columns {
		for _, b := range columns[x+1:] {
			s.swapped(f, a, b)
		}
	}
}

// swapped looks for two successive rows in which a and b have swapped their levels. Levels less than 4 times apart
// cannot tell.
func (s *Set) swapped(f *Frame, a, b *Column) {
	ma, mb := median(a.Values), median(b.Values)
	apart := math.Abs(math.Log(ma / mb))
	if math.IsNaN(apart) || apart < math.Log(4) {
		return
	}
	run := 0
	for i := range min(len(a.Values), len(b.Values)) {
		x, y := a.At(i), b.At(i)
		if x > 0 && y > 0 && math.Abs(math.Log(x/mb)) < apart/3 && math.Abs(math.Log(y/ma)) < apart/3 {
			if run++; run == 2 {
				s.find(
					"swapped "+a.Name+" "+b.Name,
					where(Refused, f, a, i-1, fmt.Sprintf("%g, and %s is %g: each has the "+
						"level of the other", a.At(i-1), b.Name, b.At(i-1)), "are the two columns swapped from "+
						"here? Correct the "+
						"file"),
				)
				return
			}
			continue
		}
		run = 0
	}
}
