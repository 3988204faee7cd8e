package chart

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// svg is a canvas whose colours are CSS classes, so that the page can be light or dark.
type svg struct{ b strings.Builder }

// SVG returns the chart as a picture within a page.
func (c *Chart) SVG() template.HTML {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(c.Title))
	c.draw(s)
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String()) //nolint:gosec // every text in it was escaped
}

func (s *svg) line(x1, y1, x2, y2 float64, role string, dashed bool) {
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(&s.b, `<line class="l %s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"%s/>`, role, x1, y1, x2, y2, dash)
}

func (s *svg) path(points [][2]float64, role string) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(&s.b, `<polyline class="p %s" points="`, role)
	for _, p := range points {
		fmt.Fprintf(&s.b, "%.1f,%.1f ", p[0], p[1])
	}
	s.b.WriteString(`"/>`)
}

func (s *svg) dot(x, y, r float64, role string, hollow bool, title string) {
	class := "d"
	if hollow {
		class = "h"
	}
	fmt.Fprintf(&s.b, `<circle class="%s %s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, class, role, x,
		y, r, html.EscapeString(title))
}

func (s *svg) text(x, y, size float64, anchor, role, text string, bold bool) {
	weight := ""
	if bold {
		weight = ` font-weight="600"`
	}
	fmt.Fprintf(&s.b, `<text class="t %s" x="%.1f" y="%.1f" font-size="%g" text-anchor="%s"%s>%s</text>`, role, x, y,
		size, anchor, weight, html.EscapeString(text))
}
