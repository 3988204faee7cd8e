package bimi

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxPicture is the maximum size of a logo in bytes, as the draft recommends.
	MaxPicture = 32 << 10
	// maxDepth and maxElements bound the tree, maxUses the copies that use elements make: no copy has one in it.
	maxDepth    = 50
	maxElements = 3000
	maxUses     = 20
)

const (
	svgSpace   = "http://www.w3.org/2000/svg"
	xlinkSpace = "http://www.w3.org/1999/xlink"
)

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// elements are those of the profile that draw, group or describe. Scripts, style sheets, animations, links, pictures,
// foreign content and handlers of events are not among them.
var elements = set(`svg title desc defs g path rect circle ellipse line polyline polygon text tspan linearGradient
	radialGradient stop solidColor use`)

// attributes are those without a namespace that position and paint.
var attributes = set(`id version baseProfile viewBox width height preserveAspectRatio zoomAndPan d x y x1 y1 x2 y2 cx
	cy r rx ry fx fy points pathLength transform gradientTransform gradientUnits spreadMethod offset fill fill-opacity
	fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-miterlimit stroke-dasharray
	stroke-dashoffset stop-color stop-opacity solid-color solid-opacity color color-rendering opacity display
	visibility vector-effect font-family font-size font-style font-weight font-variant text-anchor text-align rotate
	shape-rendering text-rendering display-align line-increment direction unicode-bidi`)

// Check returns an error unless a picture has the profile SVG Tiny Portable/Secure: it draws itself, once, without
// scripts, animations, and anything from outside of it. What the profile does not name is refused.
func Check(svg []byte) error {
	if len(svg) > MaxPicture {
		return fmt.Errorf("svg: larger than %d bytes", MaxPicture)
	}
	c := checker{decoder: xml.NewDecoder(bytes.NewReader(svg))}
	c.decoder.Strict = true
	for {
		token, err := c.decoder.RawToken()
		if errors.Is(err, io.EOF) {
			return c.end()
		}
		if err != nil {
			return fmt.Errorf("svg: %w", err)
		}
		if err := c.token(token); err != nil {
			return fmt.Errorf("svg: %w", err)
		}
	}
}

// checker checks the tokens of a picture. It reads raw tokens, so that it sees the prefixes of names.
type checker struct {
	decoder  *xml.Decoder
	open     []string
	named    int // the depth of the outermost open element with an id below the root, 0 for none
	elements int
	uses     int
	title    bool
	ended    bool
}

func (c *checker) token(token xml.Token) error {
	switch x := token.(type) {
	case xml.Directive:
		return errors.New("has a document type or an entity")
	case xml.ProcInst:
		if x.Target != "xml" || c.elements > 0 {
			return fmt.Errorf("has a processing instruction %q", x.Target)
		}
	case xml.CharData:
		return c.text(x)
	case xml.StartElement:
		return c.start(x)
	case xml.EndElement:
		return c.close(x)
	}
	return nil
}

func (c *checker) text(x xml.CharData) error {
	if len(bytes.TrimSpace(x)) == 0 {
		return nil
	}
	if len(c.open) == 0 {
		return errors.New("has text outside of its element")
	}
	c.title = c.title || len(c.open) == 2 && c.open[1] == "title"
	return nil
}

func (c *checker) start(x xml.StartElement) error {
	c.elements++
	switch name := x.Name.Local; {
	case c.ended:
		return errors.New("has a second root")
	case x.Name.Space != "" || !elements[name]:
		return fmt.Errorf("has an element %q", name)
	case (name == "svg") != (len(c.open) == 0):
		return errors.New("root is not its only svg element")
	case len(c.open) >= maxDepth || c.elements > maxElements:
		return errors.New("has too many elements")
	case name == "use" && c.named > 0: // copies would multiply
		return errors.New("has a use element in one with an id")
	case name == "use":
		if c.uses++; c.uses > maxUses {
			return errors.New("has too many use elements")
		}
	}
	if err := c.attributes(x.Attr); err != nil {
		return err
	}
	if len(c.open) == 0 {
		if err := root(x.Attr); err != nil {
			return err
		}
	}
	c.open = append(c.open, x.Name.Local)
	return nil
}

// attributes checks the attributes of an element, which is not open yet.
func (c *checker) attributes(list []xml.Attr) error {
	for _, a := range list {
		if err := attribute(a); err != nil {
			return err
		}
		if a.Name.Local == "id" && c.named == 0 {
			c.named = len(c.open) // no program draws a copy of the root in the root
		}
	}
	return nil
}

func (c *checker) close(x xml.EndElement) error {
	if len(c.open) == 0 || c.open[len(c.open)-1] != x.Name.Local || x.Name.Space != "" {
		return fmt.Errorf("element %q is not open", x.Name.Local)
	}
	if c.open = c.open[:len(c.open)-1]; len(c.open) <= c.named {
		c.named = 0
	}
	c.ended = len(c.open) == 0
	return nil
}

// attribute checks an attribute by its prefix, name and value.
func attribute(a xml.Attr) error {
	name, value := a.Name.Local, strings.TrimSpace(a.Value)
	switch a.Name.Space {
	case "":
		switch {
		case name == "xmlns" && value == svgSpace:
			return nil
		case !attributes[name]:
			return fmt.Errorf("has an attribute %q", name)
		}
	case "xmlns":
		if name == "xlink" && value == xlinkSpace {
			return nil
		}
		return fmt.Errorf("has a namespace %q", value)
	case "xlink":
		if name != "href" || !strings.HasPrefix(value, "#") {
			return fmt.Errorf("leads to %q", value)
		}
	case "xml":
		if name != "lang" && name != "space" {
			return fmt.Errorf("has an attribute xml:%s", name)
		}
	default:
		return fmt.Errorf("has an attribute %s:%s", a.Name.Space, name)
	}
	return local(value)
}

// local reports a value that loads something: url() of anything but an id of the picture. An escape could hide one. CSS
// allows nothing before the parenthesis.
func local(value string) error {
	lower := strings.ToLower(value)
	if strings.Contains(value, `\`) || strings.Contains(lower, "javascript:") || strings.Contains(lower, "data:") {
		return fmt.Errorf("has the value %.40q", value)
	}
	for {
		_, rest, ok := strings.Cut(lower, "url(")
		if !ok {
			return nil
		}
		if lower = rest; !strings.HasPrefix(rest, "#") && !strings.HasPrefix(rest, "'#") {
			return fmt.Errorf("has the value %.40q", value)
		}
	}
}

// root checks the attributes of the root: the profile, and a place in no other document.
func root(list []xml.Attr) error {
	have := map[string]string{}
	for _, a := range list {
		if a.Name.Space == "" {
			have[a.Name.Local] = a.Value
		}
	}
	switch {
	case have["xmlns"] != svgSpace:
		return errors.New("root is not in the namespace of SVG")
	case have["version"] != "1.2" || have["baseProfile"] != "tiny-ps":
		return errors.New(`profile is not version="1.2" baseProfile="tiny-ps"`)
	case have["x"] != "" || have["y"] != "":
		return errors.New("root has a position")
	}
	return nil
}

// end checks that the picture is whole, and has the title that the profile requires.
func (c *checker) end() error {
	switch {
	case !c.ended:
		return errors.New("svg: has no end")
	case !c.title:
		return errors.New("svg: has no title")
	}
	return nil
}
