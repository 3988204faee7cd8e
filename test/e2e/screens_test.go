package e2e

import (
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
)

var update = flag.Bool("update", false, "keep what the screens look like now as what they have to look like")

// cell is the side in pixels of a square of a screen. The stored picture has one pixel per square, its average colour.
const cell = 8

// limits are the permitted differences of a screen. A screen has changed if a few of its cells differ by much
// (something moved, appeared or disappeared), or many by little (another background colour). The difference of colours
// is the largest difference of a channel, of 255. Edges of letters, which another Chromium draws differently, stay
// below both limits.
var limits = []struct {
	by    int     // cells that differ by more than this are counted
	share float64 // and may be this share of all, where 1 is all
}{{28, 0.0005}, {4, 0.10}}

// changed maps screens with a change of style to whether the comparison must detect it.
var changed = map[string]bool{
	"inbox-1440-light~moved": true, "inbox-1440-light~color": true, "inbox-1440-light~paper": true,
	"inbox-1440-light~toolbar": true,
	"inbox-1440-light~raised":  true, "inbox-1440-light~typeface": true, "inbox-1440-light~raster": false,
}

// TestScreens compares the main screens with the approved pictures (testdata/screens).
func TestScreens(t *testing.T) {
	t.Parallel()
	external.Need(t, "node", "chromium")
	now, err := os.MkdirTemp("", "doublet-screens")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(now)
		}
	})
	browse(t, 3*time.Minute, []string{"WEB=http://127.0.0.1:" + demo(t).Port["http"], "OUT=" + now}, "screens.mjs")
	shots, err := filepath.Glob(filepath.Join(now, "*.png"))
	if err != nil || t.Failed() {
		t.Fatal("the pictures are not there: ", err)
	}
	const kept = "testdata/screens"
	if *update {
		if err := os.RemoveAll(kept); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(kept, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, shot := range shots {
			if name := filepath.Base(shot); !strings.Contains(name, "~") {
				keepPicture(t, filepath.Join(kept, name), cells(picture(t, shot)))
			}
		}
	}
	seen := map[string]bool{}
	for _, shot := range shots {
		name := strings.TrimSuffix(filepath.Base(shot), ".png")
		screen, change, isChanged := strings.Cut(name, "~")
		seen[name] = true
		want, got := picture(t, filepath.Join(kept, screen+".png")), picture(t, shot)
		what, marks := compare(want, cells(got))
		t.Logf("%s: %s", name, what)
		switch differs := marks != nil; {
		case !isChanged && differs:
			path := strings.TrimSuffix(shot, ".png") + "-difference.png"
			keepPicture(t, path, marked(got, marks))
			t.Errorf("%s does not look as it did: %s\nnow: %s\nwhere, in red: %s\n"+
				"If it should look so: make screens, look at what it kept in test/e2e/%s, and commit it.", screen, what,
				shot, path, kept)
		case isChanged && differs != changed[name]:
			t.Errorf("%s with the change %q: seen is %v, want %v: %s\n%s", screen, change, differs, changed[name],
				what, shot)
		}
	}
	for name := range changed {
		if !seen[name] {
			t.Errorf("there is no picture of %s", name)
		}
	}
	wants, err := filepath.Glob(filepath.Join(kept, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range wants {
		if name := strings.TrimSuffix(filepath.Base(path), ".png"); !seen[name] {
			t.Errorf("there is no picture of %s any more", name)
		}
	}
}

// compare returns a description of the difference of two pictures of cells. marks holds the cells that exceed a broken
// limit; it is nil if no limit is broken.
func compare(want, got *image.RGBA) (what string, marks map[image.Point]bool) {
	if want.Bounds() != got.Bounds() {
		return fmt.Sprintf("its size is %v, want %v (of %d px)", got.Bounds().Size(), want.Bounds().Size(), cell),
			map[image.Point]bool{}
	}
	b := want.Bounds()
	var parts []string
	for _, limit := range limits {
		differ := map[image.Point]bool{}
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				if distance(want.RGBAAt(x, y), got.RGBAAt(x, y)) > limit.by {
					differ[image.Pt(x, y)] = true
				}
			}
		}
		share := float64(len(differ)) / float64(b.Dx()*b.Dy())
		parts = append(parts, fmt.Sprintf("%.3f %% of it by more than %d (at most %.2f %%)", 100*share, limit.by,
			100*limit.share))
		if share > limit.share && marks == nil {
			marks = differ
		}
	}
	return strings.Join(parts, ", "), marks
}

func distance(a, b color.RGBA) int {
	far := func(x, y uint8) int { return max(int(x)-int(y), int(y)-int(x)) }
	return max(far(a.R, b.R), far(a.G, b.G), far(a.B, b.B))
}

// cells reduces a picture to the average colours of its cells. The last ones at the right and below can be smaller.
func cells(p *image.RGBA) *image.RGBA {
	b := p.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, (b.Dx()+cell-1)/cell, (b.Dy()+cell-1)/cell))
	for y := range out.Bounds().Dy() {
		for x := range out.Bounds().Dx() {
			square := image.Rect(x*cell, y*cell, (x+1)*cell, (y+1)*cell).Intersect(b)
			var red, green, blue int
			for py := square.Min.Y; py < square.Max.Y; py++ {
				for px := square.Min.X; px < square.Max.X; px++ {
					c := p.RGBAAt(px, py)
					red, green, blue = red+int(c.R), green+int(c.G), blue+int(c.B)
				}
			}
			n := square.Dx() * square.Dy()
			out.SetRGBA(x, y, color.RGBA{uint8(red / n), uint8(green / n), uint8(blue / n), 255})
		}
	}
	return out
}

// marked returns a picture with the marked cells in red and the others faded.
func marked(p *image.RGBA, marks map[image.Point]bool) *image.RGBA {
	b := p.Bounds()
	out := image.NewRGBA(b)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			was := p.RGBAAt(x, y)
			gray := uint8(160 + (int(was.R)+int(was.G)+int(was.B))/3*95/255)
			c := color.RGBA{gray, gray, gray, 255}
			if marks[image.Pt(x/cell, y/cell)] {
				c = color.RGBA{255, gray / 3, gray / 3, 255}
			}
			out.SetRGBA(x, y, c)
		}
	}
	return out
}

// picture reads a PNG; its corner is at 0,0.
func picture(t *testing.T, path string) *image.RGBA {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("%v\nA new screen: make screens, look at it, and commit it.", err)
	}
	defer func() { _ = f.Close() }()
	p, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out := image.NewRGBA(p.Bounds())
	draw.Draw(out, out.Bounds(), p, p.Bounds().Min, draw.Src)
	return out
}

func keepPicture(t *testing.T, path string, p image.Image) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(f, p)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
