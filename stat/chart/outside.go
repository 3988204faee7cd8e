package chart

import (
	"fmt"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
)

// outside is a canvas that notes what reaches beyond the picture.
type outside struct {
	face  font.Face
	found []string
}

// Outside returns the parts of the chart that reach beyond its picture. Tests of reports call it.
func (c *Chart) Outside() ([]string, error) { return drawnOutside(c.draw) }

// Outside returns the parts of the chart that reach beyond its picture. Tests of reports call it.
func (b *Bars) Outside() ([]string, error) { return drawnOutside(b.draw) }

func drawnOutside(draw func(canvas)) ([]string, error) {
	f, err := fonts()
	if err != nil {
		return nil, err
	}
	face, err := opentype.NewFace(f.medium, &opentype.FaceOptions{Size: 100, DPI: 72})
	if err != nil {
		return nil, err
	}
	defer face.Close()
	on := &outside{face: face}
	draw(on)
	return on.found, nil
}

func (c *outside) at(part string, x1, y1, x2, y2 float64) {
	if !(min(x1, x2) >= 0 && max(x1, x2) <= width && min(y1, y2) >= 0 && max(y1, y2) <= height) {
		c.found = append(c.found, fmt.Sprintf("%s reaches from %.0f,%.0f to %.0f,%.0f", part, x1, y1, x2, y2))
	}
}

func (c *outside) line(x1, y1, x2, y2 float64, _ string, _ bool)   { c.at("a line", x1, y1, x2, y2) }
func (c *outside) dot(x, y, _ float64, _ string, _ bool, _ string) { c.at("a dot", x, y, x, y) }
func (c *outside) bar(x, y, w, h float64, _, _ string)             { c.at("a bar", x, y, x+w, y+h) }
func (c *outside) path(points [][2]float64, _ string) {
	for _, p := range points {
		c.at("a path", p[0], p[1], p[0], p[1])
	}
}

func (c *outside) text(x, y, size float64, anchor, _, s string, _ bool) {
	w := float64(font.MeasureString(c.face, s)) / 64 * size / 100
	x -= w * anchors[anchor]
	c.at(s, x, y-size*0.75, x+w, y+size*0.25)
}
