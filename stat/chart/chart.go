// Package chart draws the figures of reports: lines and bars with the intervals that their values are known to, as SVG
// for pages that are light or dark, and as PNG.
package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is a chart of lines over a common axis.
type Chart struct {
	Title, X, Y string
	// Note is a smaller text below the title.
	Note  string
	Lines []Line
	// Time means that x is in seconds of the run, shown as minutes.
	Time bool
	// Top, if above 0, is the end of the y axis.
	Top float64
	// Limit, if above 0, is the y value of a marked line, LimitName its name.
	Limit     float64
	LimitName string
	// Moments are marked on the x axis.
	Moments []Moment
	first   int // the number of the first colour in the legend
}

// Moment is an x value at which something happened, such as the end of a server.
type Moment struct {
	X    float64
	Name string
}

// Line is one line of a chart.
type Line struct {
	Name   string
	Points []Point
	// Steps means that the value stays until the next point, as that of a queue does.
	Steps bool
}

// Point is one point. Hollow points are those of discarded steps, which do not count.
type Point struct {
	X, Y   float64
	Hollow bool
	// Low and High bound the interval of Y; equal bounds are not drawn.
	Low, High float64
}

// bounded reports whether the point has an interval that can be drawn.
func (p *Point) bounded() bool { return p.High > p.Low && drawable(p.Low) && drawable(p.High) }

// drawable returns the points that have a place on the axes.
func (l *Line) drawable() (out []Point) {
	for _, p := range l.Points {
		if drawable(p.X) && drawable(p.Y) {
			out = append(out, p)
		}
	}
	return out
}

// The size of a chart and its margins, in pixels at scale 1.
const (
	width, height                  = 560.0, 336.0
	left, right, top, bottom       = 64.0, 20.0, 60.0, 76.0
	titleSize, textSize, pointSize = 15.0, 11.0, 3.2
)

// canvas draws a chart. Colours are names of roles, so that a picture can be light or dark.
type canvas interface {
	line(x1, y1, x2, y2 float64, role string, dashed bool)
	path(points [][2]float64, role string)
	dot(x, y, r float64, role string, hollow bool, title string)
	text(x, y, size float64, anchor, role, s string, bold bool)
	bar(x, y, wide, high float64, role, title string)
}

// The roles of colours. Series use the series colours in order, and start again when there are more.
const (
	roleText  = "text"
	roleFaint = "faint"
	roleGrid  = "grid"
	roleLimit = "limit"
)

const colours = 6

func series(i int) string { return "s" + strconv.Itoa(i%colours) }

// largest is the greatest magnitude that is drawn: sums and products of the values of an axis stay finite.
// smallest is the least distance of ticks.
const (
	largest  = 1e290
	smallest = 1e-12
)

// drawable reports whether a value has a place on an axis. NaN, infinite and absurdly large values have none: a point
// with one is left out, and the line is drawn without it.
func drawable(v float64) bool { return math.Abs(v) <= largest }

// axis is a scale with round ticks.
type axis struct {
	lo, hi, step float64
	from, to     float64 // pixels
}

func (a axis) at(v float64) float64 {
	if a.hi == a.lo {
		return a.from
	}
	return a.from + (v-a.lo)/(a.hi-a.lo)*(a.to-a.from)
}

// round returns an axis from 0 (or lo) to at least hi, with about n steps of 1, 2 or 5 times a power of ten.
func round(lo, hi float64, n int, from, to float64) axis {
	if hi <= lo {
		hi = lo + max(1, math.Abs(lo)*1e-9)
	}
	raw := max((hi-lo)/float64(n), smallest)
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	step := mag * 10
	for _, k := range []float64{1, 2, 5} {
		if raw <= mag*k*1.0000001 {
			step = mag * k
			break
		}
	}
	return axis{lo: math.Floor(lo/step) * step, hi: math.Ceil(hi/step-1e-9) * step, step: step, from: from, to: to}
}

// ticks yields the values of the ticks, in ascending order. Their number is bounded for every axis.
func (a axis) ticks(yield func(float64) bool) {
	const most = 50
	for i := range min(most, int((a.hi-a.lo)/a.step+1e-6)+1) {
		if !yield(a.lo + float64(i)*a.step) {
			return
		}
	}
}

// label formats a number as briefly as the axis permits.
func label(v, step float64) string {
	decimals := 0
	if step < 1 {
		decimals = int(math.Ceil(-math.Log10(step) - 1e-9))
	}
	switch {
	case step >= 1e12:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case step >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case step >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	case decimals == 0:
		return Group(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// draw draws the chart.
func (c *Chart) draw(on canvas) {
	x, y := c.axes()
	on.text(left-48, 22, titleSize, "start", roleText, c.Title, true)
	if c.Note != "" {
		on.text(left-48, 38, textSize, "start", roleFaint, c.Note, false)
	}
	for v := range y.ticks {
		on.line(left, y.at(v), width-right, y.at(v), roleGrid, false)
		on.text(left-8, y.at(v)+4, textSize, "end", roleFaint, label(v, y.step), false)
	}
	for v := range x.ticks {
		shown := label(v, x.step)
		if c.Time {
			shown = label(v/60, x.step/60)
		}
		on.line(x.at(v), y.from, x.at(v), y.from+4, roleGrid, false)
		on.text(x.at(v), y.from+17, textSize, "middle", roleFaint, shown, false)
	}
	on.line(left, y.from, width-right, y.from, roleFaint, false)
	on.text(width-right, y.from+33, textSize, "end", roleFaint, c.X, false)
	on.text(left-48, top-4, textSize, "start", roleFaint, c.Y, false)
	if c.Limit > 0 && c.Limit <= y.hi {
		on.line(left, y.at(c.Limit), width-right, y.at(c.Limit), roleLimit, true)
		on.text(left+4, y.at(c.Limit)-5, textSize, "start", roleLimit, c.LimitName, false)
	}
	c.drawMoments(on, x, y)
	for i := range c.Lines {
		c.drawLine(on, i, x, y)
	}
	c.legend(on)
}

// momentRows is the number of heights at which the names of moments stand, so that near ones do not cover each other.
const momentRows = 3

func (c *Chart) drawMoments(on canvas, x, y axis) {
	row := 0
	for _, m := range c.Moments {
		if !(m.X >= x.lo && m.X <= x.hi) {
			continue
		}
		at := x.at(m.X)
		on.line(at, y.from, at, y.to, roleLimit, true)
		anchor, beside := "start", 4.0
		if at > (left+width-right)/2 {
			anchor, beside = "end", -4.0
		}
		on.text(at+beside, y.to+10+float64(row%momentRows)*13, textSize, anchor, roleLimit, m.Name, false)
		row++
	}
}

func (c *Chart) drawLine(on canvas, i int, x, y axis) {
	l := &c.Lines[i]
	drawn := l.drawable()
	points := make([][2]float64, len(drawn))
	for k, p := range drawn {
		points[k] = [2]float64{x.at(p.X), y.at(min(p.Y, y.hi))}
	}
	if l.Steps {
		on.path(stairs(points), series(i))
		return
	}
	on.path(points, series(i))
	for k, p := range drawn {
		if p.bounded() {
			whisker(on, points[k][0], y.at(max(p.Low, y.lo)), y.at(min(p.High, y.hi)), false)
		}
	}
	if len(points) > 30 {
		return // a line over time: dots would hide it
	}
	for k, p := range drawn {
		on.dot(points[k][0], points[k][1], pointSize, series(i), p.Hollow,
			fmt.Sprintf("%s: %s at %s", l.Name, Number(p.Y), Number(p.X)))
	}
}

// stairs returns a path that keeps the height of each point until the next one.
func stairs(points [][2]float64) (out [][2]float64) {
	for k, p := range points {
		if k > 0 {
			out = append(out, [2]float64{p[0], points[k-1][1]})
		}
		out = append(out, p)
	}
	return out
}

// maxLegend is the length limit of a name in a legend, in letters; letter is a generous width of one, in pixels.
const (
	maxLegend = 40
	letter    = 6.8
)

// legend writes the names of the lines under the chart if there are several.
func (c *Chart) legend(on canvas) {
	if len(c.Lines) < 2 {
		return
	}
	names := make([]string, len(c.Lines))
	for i, l := range c.Lines {
		names[i] = l.Name
	}
	for i, p := range places(names) {
		on.line(p.x, p.y-4, p.x+16, p.y-4, series(c.first+i), false)
		on.text(p.x+21, p.y, textSize, "start", roleText, p.name, false)
	}
}

// place is a name in a legend and its point.
type place struct {
	x, y float64
	name string
}

// places returns the places of the names that a legend has room for; the tables name them all.
func places(names []string) (out []place) {
	x, y := left, height-30
	for _, name := range names {
		letters := []rune(name)
		if len(letters) > maxLegend {
			letters = append(letters[:maxLegend-1], '…')
		}
		wide := 34 + letter*float64(len(letters))
		if x > left && x+wide > width {
			x, y = left, y+15
		}
		if y > height-10 {
			return out
		}
		out = append(out, place{x, y, string(letters)})
		x += wide
	}
	return out
}

// Named reports whether a chart can tell series of these names apart: there are enough colours, and the legend has room
// for each name in full.
func Named(names []string) bool {
	list := places(names)
	return len(names) <= colours && len(list) == len(names) &&
		!slices.ContainsFunc(list, func(p place) bool { return strings.HasSuffix(p.name, "…") })
}

// ShowsLimit reports whether the y axis reaches the limit.
func (c *Chart) ShowsLimit() bool {
	_, y := c.axes()
	return c.Limit <= y.hi
}

func (c *Chart) axes() (x, y axis) {
	loX, hiX, hiY := math.Inf(1), math.Inf(-1), 0.0
	for _, l := range c.Lines {
		for _, p := range l.drawable() {
			loX, hiX, hiY = min(loX, p.X), max(hiX, p.X), max(hiY, p.Y)
			if p.bounded() {
				hiY = max(hiY, p.High)
			}
		}
	}
	if math.IsInf(loX, 1) {
		loX, hiX = 0, 1
	}
	if !c.Time || loX < (hiX-loX)/2 {
		loX = 0
	}
	if c.Limit > 0 && drawable(c.Limit) && hiY > c.Limit/4 {
		hiY = max(hiY, c.Limit*1.05)
	}
	if c.Top > 0 {
		hiY = c.Top
	}
	n := 8
	if c.Time {
		// The axis is in minutes, with steps of whole minutes.
		x = round(loX/60, hiX/60, n, left, width-right)
		x.lo, x.hi, x.step = x.lo*60, x.hi*60, x.step*60
	} else {
		x = round(loX, hiX, n, left, width-right)
	}
	return x, round(0, hiY, 5, height-bottom, top+8)
}

// Number formats a value with two or three significant digits, from 1,000 to a million as a whole number.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 1e9:
		return strconv.FormatFloat(v/1e9, 'f', 2, 64) + " G"
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 2, 64) + " M"
	case a >= 1000:
		return Group(int64(math.Round(v)))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a == 0:
		return "0"
	case a >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Group puts commas between thousands.
func Group(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
