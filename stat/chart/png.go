package chart

import (
	"fmt"
	"image/color"
	"io"
	"sync"

	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

// pngScale makes pictures sharp on high-resolution screens.
const pngScale = 2

// palette holds the light colours of the page; style.css has the same.
var palette = map[string]color.RGBA{
	roleText: {0x1c, 0x24, 0x30, 0xff}, roleFaint: {0x6a, 0x74, 0x82, 0xff},
	roleGrid: {0xe4, 0xe8, 0xed, 0xff}, roleLimit: {0xb4, 0x3c, 0x2e, 0xff},
	"s0": {0x1f, 0x6f, 0xb2, 0xff}, "s1": {0xd0, 0x7a, 0x12, 0xff}, "s2": {0x2c, 0x8c, 0x5a, 0xff},
	"s3": {0x8a, 0x4f, 0xb5, 0xff}, "s4": {0xb8, 0x3b, 0x5e, 0xff}, "s5": {0x5b, 0x6b, 0x7d, 0xff},
}

type faces struct{ regular, medium *opentype.Font }

var fonts = sync.OnceValues(func() (f faces, err error) {
	if f.regular, err = opentype.Parse(goregular.TTF); err != nil {
		return f, err
	}
	f.medium, err = opentype.Parse(gomedium.TTF)
	return f, err
})

// raster is a canvas of pixels.
type raster struct {
	*gg.Context
	fonts faces
	err   error
}

// PNG writes the chart as a picture.
func (c *Chart) PNG(w io.Writer) error {
	f, err := fonts()
	if err != nil {
		return fmt.Errorf("chart: fonts: %w", err)
	}
	r := &raster{Context: gg.NewContext(width*pngScale, height*pngScale), fonts: f}
	r.SetColor(color.White)
	r.Clear()
	r.Scale(pngScale, pngScale)
	r.SetLineCapButt()
	c.draw(r)
	if r.err != nil {
		return r.err
	}
	return r.EncodePNG(w)
}

// stroke draws the path in the colour of a role. The library scales paths, but neither widths nor dashes.
func (r *raster) stroke(role string, w float64) {
	r.SetColor(palette[role])
	r.SetLineWidth(w * pngScale)
	r.Stroke()
}

func (r *raster) line(x1, y1, x2, y2 float64, role string, dashed bool) {
	if dashed {
		r.SetDash(5*pngScale, 4*pngScale)
		defer r.SetDash()
	}
	w := 1.0
	if role[0] == 's' {
		w = 2
	}
	r.DrawLine(x1, y1, x2, y2)
	r.stroke(role, w)
}

func (r *raster) path(points [][2]float64, role string) {
	for _, p := range points {
		r.LineTo(p[0], p[1])
	}
	r.stroke(role, 2)
}

func (r *raster) dot(x, y, radius float64, role string, hollow bool, _ string) {
	r.DrawCircle(x, y, radius)
	if hollow {
		r.SetColor(color.White)
	} else {
		r.SetColor(palette[role])
	}
	r.FillPreserve()
	r.stroke(role, 1.4)
}

// anchors holds the part of its width that a text lies left of its point.
var anchors = map[string]float64{"start": 0, "middle": 0.5, "end": 1}

func (r *raster) text(x, y, size float64, anchor, role, s string, bold bool) {
	f := r.fonts.regular
	if bold {
		f = r.fonts.medium
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72 * pngScale, Hinting: font.HintingNone})
	if err != nil {
		r.err = fmt.Errorf("chart: font: %w", err)
		return
	}
	defer face.Close()
	// The face is scaled already, so the text is drawn in pixels.
	r.Push()
	defer r.Pop()
	r.Identity()
	r.SetFontFace(face)
	r.SetColor(palette[role])
	r.DrawStringAnchored(s, x*pngScale, y*pngScale, anchors[anchor], 0)
}
