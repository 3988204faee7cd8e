package report

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// pngScale makes pictures sharp on high-resolution screens.
const pngScale = 2

// palette holds the light colours of the page; style.css has the same.
var palette = map[string]color.RGBA{
	roleText: {0x1c, 0x24, 0x30, 0xff}, roleFaint: {0x6a, 0x74, 0x82, 0xff}, roleGrid: {0xe4, 0xe8, 0xed, 0xff}, roleLimit: {0xb4, 0x3c, 0x2e, 0xff},
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
	img   *image.RGBA
	fonts faces
	err   error
}

// PNG writes the chart as a picture.
func (c *Chart) PNG(w io.Writer) error {
	f, err := fonts()
	if err != nil {
		return fmt.Errorf("report: fonts: %w", err)
	}
	r := &raster{img: image.NewRGBA(image.Rect(0, 0, width*pngScale, height*pngScale)), fonts: f}
	draw.Draw(r.img, r.img.Bounds(), image.White, image.Point{}, draw.Src)
	c.draw(r)
	if r.err != nil {
		return r.err
	}
	return png.Encode(w, r.img)
}

// fill fills a shape that add draws, in pixels.
func (r *raster) fill(role string, add func(v *vector.Rasterizer)) {
	b := r.img.Bounds()
	v := vector.NewRasterizer(b.Dx(), b.Dy())
	add(v)
	v.Draw(r.img, b, image.NewUniform(palette[role]), image.Point{})
}

// stroke draws a line as a rectangle.
func stroke(v *vector.Rasterizer, x1, y1, x2, y2, w float64) {
	dx, dy := x2-x1, y2-y1
	n := math.Hypot(dx, dy)
	if n == 0 {
		return
	}
	ox, oy := -dy/n*w/2, dx/n*w/2
	p := func(x, y float64) (float32, float32) { return float32(x * pngScale), float32(y * pngScale) }
	v.MoveTo(p(x1+ox, y1+oy))
	v.LineTo(p(x2+ox, y2+oy))
	v.LineTo(p(x2-ox, y2-oy))
	v.LineTo(p(x1-ox, y1-oy))
	v.ClosePath()
}

func (r *raster) line(x1, y1, x2, y2 float64, role string, dashed bool) {
	w := 1.0
	if role[0] == 's' {
		w = 2
	}
	r.fill(role, func(v *vector.Rasterizer) {
		if !dashed {
			stroke(v, x1, y1, x2, y2, w)
			return
		}
		n := math.Hypot(x2-x1, y2-y1)
		for at := 0.0; at < n; at += 9 {
			to := min(at+5, n)
			stroke(v, x1+(x2-x1)*at/n, y1+(y2-y1)*at/n, x1+(x2-x1)*to/n, y1+(y2-y1)*to/n, w)
		}
	})
}

func (r *raster) path(points [][2]float64, role string) {
	r.fill(role, func(v *vector.Rasterizer) {
		for i := 1; i < len(points); i++ {
			stroke(v, points[i-1][0], points[i-1][1], points[i][0], points[i][1], 2)
		}
	})
}

// circle adds a circle as a polygon.
func circle(v *vector.Rasterizer, x, y, radius float64) {
	const sides = 40
	for i := range sides + 1 {
		a := 2 * math.Pi * float64(i) / sides
		px, py := float32((x+radius*math.Cos(a))*pngScale), float32((y+radius*math.Sin(a))*pngScale)
		if i == 0 {
			v.MoveTo(px, py)
		} else {
			v.LineTo(px, py)
		}
	}
	v.ClosePath()
}

func (r *raster) dot(x, y, radius float64, role string, hollow bool, _ string) {
	r.fill(role, func(v *vector.Rasterizer) { circle(v, x, y, radius+0.6) })
	if hollow {
		b := r.img.Bounds()
		v := vector.NewRasterizer(b.Dx(), b.Dy())
		circle(v, x, y, radius-0.8)
		v.Draw(r.img, b, image.White, image.Point{})
	}
}

func (r *raster) text(x, y, size float64, anchor, role, s string, bold bool) {
	f := r.fonts.regular
	if bold {
		f = r.fonts.medium
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72 * pngScale, Hinting: font.HintingNone})
	if err != nil {
		r.err = fmt.Errorf("report: font: %w", err)
		return
	}
	defer face.Close()
	d := font.Drawer{Dst: r.img, Src: image.NewUniform(palette[role]), Face: face}
	w := d.MeasureString(s)
	px := fixed.Int26_6(x * pngScale * 64)
	switch anchor {
	case "middle":
		px -= w / 2
	case "end":
		px -= w
	}
	d.Dot = fixed.Point26_6{X: px, Y: fixed.Int26_6(y * pngScale * 64)}
	d.DrawString(s)
}
