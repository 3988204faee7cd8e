package chart

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"strings"
)

//go:embed style.css
var styleCSS string

// Style returns the style sheet of pages with charts: light and dark, and for print.
func Style() template.CSS { return template.CSS(styleCSS) } //nolint:gosec // our own

// Bars is a chart of bars in groups: one group for each name, one bar of each series within it.
type Bars struct {
	Title, Y string
	// Note is a smaller text below the title. It goes on with Interval, which tells what a whisker is, if a bar has
	// one, and with Without, the reason why a bar has none, if one has none.
	Note, Interval, Without string

	Groups []string
	Series []Bar
	// First is the number of the first series' colour: one above 0 lets a series keep the colour that it has in a chart
	// with more of them.
	First int
	// Across means that the bars go from left to right, below each other, with the names of their groups before them:
	// there is room for many groups with long names.
	Across bool
}

// Bar is one series of bars, with a value for each group. NaN, which stands for a missing value, is not drawn.
type Bar struct {
	Name   string
	Values []float64
	// Low and High bound the intervals of the values; they are empty if the values have none, and NaN for one that has
	// none.
	Low, High []float64
}

// bounds returns the interval of a value; ok is false if it has none. Repeats that are all the same bound their mean by
// itself.
func (b *Bar) bounds(i int) (low, high float64, ok bool) {
	if i >= len(b.Low) || i >= len(b.High) || !(b.Low[i] <= b.Values[i] && b.Values[i] <= b.High[i]) ||
		!drawable(b.Low[i]) || !drawable(b.High[i]) {
		return 0, 0, false
	}
	return b.Low[i], b.High[i], true
}

// note returns the text below the title.
func (b *Bars) note() string {
	with, without := false, false
	for k := range b.Series {
		s := &b.Series[k]
		for i, v := range s.Values {
			if drawable(v) {
				_, _, ok := s.bounds(i)
				with, without = with || ok, without || !ok
			}
		}
	}
	var parts []string
	if b.Note != "" {
		parts = append(parts, b.Note)
	}
	if with && b.Interval != "" {
		parts = append(parts, "whiskers: "+b.Interval)
	}
	switch {
	case !without || b.Without == "":
	case with:
		parts = append(parts, "no whisker: "+b.Without)
	default:
		parts = append(parts, "no intervals: "+b.Without)
	}
	return strings.Join(parts, "; ")
}

// span returns the range of the values and their intervals, with 0.
func (b *Bars) span() (lo, hi float64) {
	for k := range b.Series {
		s := &b.Series[k]
		for i, v := range s.Values {
			if drawable(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
			if low, high, ok := s.bounds(i); ok {
				lo, hi = min(lo, low), max(hi, high)
			}
		}
	}
	return lo, hi
}

func (b *Bars) draw(on canvas) {
	on.text(left-48, 22, titleSize, "start", roleText, b.Title, true)
	if note := b.note(); note != "" {
		on.text(left-48, 38, textSize, "start", roleFaint, note, false)
	}
	if b.Across {
		b.drawAcross(on)
	} else {
		b.drawUp(on)
	}
	names := Chart{first: b.First}
	for _, s := range b.Series {
		names.Lines = append(names.Lines, Line{Name: s.Name})
	}
	names.legend(on)
}

// Shorten cuts a name to so many letters, in its middle: long names, such as those of files, differ at their ends.
func Shorten(name string, room int) string {
	letters := []rune(name)
	if len(letters) <= room || room < 2 {
		return name
	}
	first := (room - 1) / 3
	return string(letters[:first]) + "…" + string(letters[len(letters)-(room-1-first):])
}

// shorten cuts a name to some pixels.
func shorten(name string, pixels float64) string { return Shorten(name, int(pixels/letter)) }

func (b *Bars) drawUp(on canvas) {
	lo, hi := b.span()
	y := round(lo, hi, 5, height-bottom, top+8)
	on.text(left-48, top-4, textSize, "start", roleFaint, b.Y, false)
	for v := range y.ticks {
		on.line(left, y.at(v), width-right, y.at(v), roleGrid, false)
		on.text(left-8, y.at(v)+4, textSize, "end", roleFaint, label(v, y.step), false)
	}
	slot := (width - right - left) / float64(max(1, len(b.Groups)))
	wide := min(46, slot*0.8/float64(max(1, len(b.Series))))
	for g, name := range b.Groups {
		middle := left + slot*(float64(g)+0.5)
		on.text(middle, height-bottom+17, textSize, "middle", roleFaint, shorten(name, slot), false)
		for k := range b.Series {
			b.drawBar(on, y, k, g, middle+(float64(k)-float64(len(b.Series))/2)*wide, wide)
		}
	}
	on.line(left, y.at(0), width-right, y.at(0), roleFaint, false)
}

// The margins of bars that go from left to right: names is the room for those of the groups, below the room for the
// axis and the legend.
const (
	names = 172.0
	below = 66.0
)

func (b *Bars) drawAcross(on canvas) {
	lo, hi := b.span()
	x := round(lo, hi, 5, names, width-right)
	const end = height - below
	for v := range x.ticks {
		on.line(x.at(v), top, x.at(v), end, roleGrid, false)
		on.text(x.at(v), end+14, textSize, "middle", roleFaint, label(v, x.step), false)
	}
	slot := (end - top) / float64(max(1, len(b.Groups)))
	wide := min(24, slot*0.8/float64(max(1, len(b.Series))))
	for g, name := range b.Groups {
		middle := top + slot*(float64(g)+0.5)
		on.text(names-8, middle+4, textSize, "end", roleText, shorten(name, names-24), false)
		for k := range b.Series {
			b.drawBar(on, x, k, g, middle+(float64(k)-float64(len(b.Series))/2)*wide, wide)
		}
	}
	on.line(x.at(0), top, x.at(0), end, roleFaint, false)
	on.text(width-right, end+30, textSize, "end", roleFaint, b.Y, false)
}

// drawBar draws a bar of some width that begins at a place beside the axis of the values.
func (b *Bars) drawBar(on canvas, values axis, k, g int, at, wide float64) {
	s := &b.Series[k]
	if g >= len(s.Values) || !drawable(s.Values[g]) {
		return
	}
	v := s.Values[g]
	most, least := values.at(max(v, 0)), values.at(min(v, 0))
	title := fmt.Sprintf("%s, %s: %s", b.Groups[g], s.Name, Number(v))
	low, high, ok := s.bounds(g)
	if ok {
		title += fmt.Sprintf(" (%s to %s)", Number(low), Number(high))
	}
	if b.Across {
		on.bar(least, at+1, max(0.5, most-least), max(1, wide-2), series(b.First+k), title)
	} else {
		on.bar(at+1, most, max(1, wide-2), max(0.5, least-most), series(b.First+k), title)
	}
	if ok {
		whisker(on, at+wide/2, values.at(low), values.at(high), b.Across)
	}
}

// whisker draws an interval at a place beside the axis of the values.
func whisker(on canvas, at, low, high float64, across bool) {
	line := func(x1, y1, x2, y2 float64) {
		if across {
			x1, y1, x2, y2 = y1, x1, y2, x2
		}
		on.line(x1, y1, x2, y2, roleText, false)
	}
	line(at, low, at, high)
	line(at-3, low, at+3, low)
	line(at-3, high, at+3, high)
}

// SVG returns the chart as a picture within a page.
func (b *Bars) SVG() template.HTML {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(b.Title))
	b.draw(s)
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String()) //nolint:gosec // every text in it was escaped
}

func (s *svg) bar(x, y, wide, high float64, role, title string) {
	fmt.Fprintf(
		&s.b,
		`<rect class="d %s" stroke="none" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		role,
		x,
		y,
		wide,
		high,
		html.EscapeString(title),
	)
}

func (r *raster) bar(x, y, wide, high float64, role, _ string) {
	r.DrawRectangle(x, y, wide, high)
	r.SetColor(palette[role])
	r.Fill()
}

// CSV returns the values of the chart as a table: group, series, value, low, high.
func (b *Bars) CSV() string {
	var out strings.Builder
	out.WriteString("group,series,value,low,high\n")
	for k := range b.Series {
		s := &b.Series[k]
		for g, name := range b.Groups {
			if g >= len(s.Values) || !drawable(s.Values[g]) {
				continue
			}
			fmt.Fprintf(&out, "%s,%s,%g", quote(name), quote(s.Name), s.Values[g])
			if low, high, ok := s.bounds(g); ok {
				fmt.Fprintf(&out, ",%g,%g\n", low, high)
			} else {
				out.WriteString(",,\n")
			}
		}
	}
	return out.String()
}

// CSV returns the points of the chart as a table: line, x, y, low, high.
func (c *Chart) CSV() string {
	var out strings.Builder
	out.WriteString("line,x,y,low,high\n")
	for _, l := range c.Lines {
		for _, p := range l.drawable() {
			fmt.Fprintf(&out, "%s,%g,%g", quote(l.Name), p.X, p.Y)
			if p.bounded() {
				fmt.Fprintf(&out, ",%g,%g\n", p.Low, p.High)
			} else {
				out.WriteString(",,\n")
			}
		}
	}
	return out.String()
}

// quote returns a name as a field of CSV (RFC 4180). Names come from input, and programs for tables run a field that
// begins with =, +, -, @, tab or CR as a formula: an apostrophe before it makes it a text.
func quote(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		s = "'" + s
	}
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}
