package pdf

import "math"

// matrix is a transformation [a b c d e f] (section 8.3.3).
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

// times returns the transformation that applies m, then n.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// state is the graphics state that the operator q saves and Q restores.
type state struct {
	ctm                         matrix
	font                        *font
	size                        float64
	charSpace, wordSpace, scale float64
	leading, rise               float64
}

// painter interprets the text operators in the content of a page (sections 8 and 9).
type painter struct {
	f         *file
	resources dict
	g         state
	kept      []state
	tm, line  matrix
	forms     int

	// x and y are the end of the last glyph on the page, height is its size, and (dx, dy) the direction of its line.
	x, y, height float64
	dx, dy       float64
	shown        bool
}

// maxKept is the maximum depth of saved states.
const maxKept = 200

// page writes the text of a page, its annotations and its form fields.
func (f *file) page(l leaf) {
	p := &painter{f: f, resources: l.resources}
	p.reset()
	var b []byte
	contents := l.page["Contents"]
	list := f.array(contents)
	if list == nil {
		list = array{contents}
	}
	for _, o := range list {
		if s, ok := f.resolve(o).(*stream); ok {
			b = append(append(b, f.decode(s, numberOf(o))...), '\n')
		}
	}
	p.run(b)
	f.put("\n")
	for _, o := range f.array(l.page["Annots"]) {
		d := f.dict(o)
		for _, k := range []name{"Contents", "V"} {
			if s, ok := f.resolve(d[k]).(str); ok {
				f.put(textString(f.plainString(s, numberOf(o))))
				f.put("\n")
			}
		}
	}
}

func (p *painter) reset() {
	p.g = state{ctm: identity, scale: 1}
	p.tm, p.line = identity, identity
}

// run interprets a content stream.
func (p *painter) run(b []byte) {
	l := lexer{b: b, f: p.f}
	var args []object
	for {
		o, ok := l.next(false, 0)
		if !ok {
			return
		}
		op, is := o.(keyword)
		if !is {
			if len(args) < 64 {
				args = append(args, o)
			}
			continue
		}
		if op == "BI" {
			skipImage(&l)
		} else {
			p.do(string(op), args)
		}
		args = args[:0]
	}
}

// skipImage skips an inline image (section 8.9.7), up to EI between blanks.
func skipImage(l *lexer) {
	for i := l.pos; i+2 < len(l.b); i++ {
		if l.b[i] == 'E' && l.b[i+1] == 'I' && i > 0 && space(l.b[i-1]) && space(l.b[i+2]) {
			l.f.pay((i - l.pos) / 64)
			l.pos = i + 2
			return
		}
	}
	l.pos = len(l.b)
}

func numbers(args []object, n int) ([6]float64, bool) {
	var out [6]float64
	if len(args) < n {
		return out, false
	}
	for i, o := range args[len(args)-n:] {
		v, ok := o.(float64)
		if !ok {
			return out, false
		}
		out[i] = v
	}
	return out, true
}

// do executes an operator.
func (p *painter) do(op string, args []object) {
	switch op {
	case "q":
		if len(p.kept) < maxKept {
			p.kept = append(p.kept, p.g)
		}
	case "Q":
		if n := len(p.kept); n > 0 {
			p.g, p.kept = p.kept[n-1], p.kept[:n-1]
		}
	case "cm":
		if m, ok := numbers(args, 6); ok {
			p.g.ctm = matrix(m).times(p.g.ctm)
		}
	case "BT":
		p.tm, p.line = identity, identity
	case "Do":
		p.form(args)
	case "Tj", "'", "\"", "TJ":
		p.text(op, args)
	default:
		p.place(op, args)
	}
}

// operands maps the text operators that show nothing to the number of their operands.
var operands = map[string]int{"Tf": 1, "Td": 2, "TD": 2, "Tm": 6, "T*": 0, "TL": 1, "Tc": 1, "Tw": 1, "Tz": 1, "Ts": 1}

// place executes text operators that show nothing.
func (p *painter) place(op string, args []object) {
	n, known := operands[op]
	if !known {
		return
	}
	v, ok := numbers(args, n)
	if !ok {
		return
	}
	switch op {
	case "Tf":
		if len(args) > 1 {
			k, _ := args[len(args)-2].(name)
			p.g.font = p.f.font(p.f.dict(p.resources["Font"])[k])
		}
		p.g.size = v[0]
	case "TD":
		p.g.leading = -v[1]
		p.move(v[0], v[1])
	case "Td":
		p.move(v[0], v[1])
	case "T*":
		p.move(0, -p.g.leading)
	case "Tm":
		p.tm, p.line = matrix(v), matrix(v)
	case "TL":
		p.g.leading = v[0]
	case "Tc":
		p.g.charSpace = v[0]
	case "Tw":
		p.g.wordSpace = v[0]
	case "Tz":
		p.g.scale = v[0] / 100
	case "Ts":
		p.g.rise = v[0]
	}
}

func (p *painter) move(x, y float64) {
	p.line = matrix{1, 0, 0, 1, x, y}.times(p.line)
	p.tm = p.line
}

// form interprets a form XObject (section 8.10) within the page.
func (p *painter) form(args []object) {
	if len(args) == 0 || p.forms >= maxForms {
		return
	}
	k, _ := args[len(args)-1].(name)
	o := p.f.dict(p.resources["XObject"])[k]
	s, ok := p.f.resolve(o).(*stream)
	if !ok || p.f.resolve(s.dict["Subtype"]) != name("Form") {
		return
	}
	p.f.pay(50)
	kept, resources, tm, line, depth := p.g, p.resources, p.tm, p.line, p.kept
	if r := p.f.dict(s.dict["Resources"]); r != nil {
		p.resources = r
	}
	if m, ok := numbers(p.f.array(s.dict["Matrix"]), 6); ok {
		p.g.ctm = matrix(m).times(p.g.ctm)
	}
	p.forms++
	p.kept = nil
	p.run(p.f.decode(s, numberOf(o)))
	p.forms--
	p.g, p.resources, p.tm, p.line, p.kept = kept, resources, tm, line, depth
}

// text executes operators that show text (section 9.4.3).
func (p *painter) text(op string, args []object) {
	if len(args) == 0 {
		return
	}
	if op == "\"" {
		if v, ok := numbers(args[:len(args)-1], 2); ok {
			p.g.wordSpace, p.g.charSpace = v[0], v[1]
		}
	}
	if op == "'" || op == "\"" {
		p.move(0, -p.g.leading)
	}
	if p.g.font == nil {
		return
	}
	switch a := args[len(args)-1].(type) {
	case str:
		p.show(a)
	case array:
		for _, o := range a {
			switch x := o.(type) {
			case str:
				p.show(x)
			case float64:
				p.advance(-x / 1000 * p.g.size * p.g.scale)
			}
		}
	}
}

func (p *painter) advance(x float64) { p.tm = matrix{1, 0, 0, 1, x, 0}.times(p.tm) }

// show writes the glyphs of a string. It adds a space or a line break where glyphs are apart.
func (p *painter) show(s str) {
	g := &p.g
	g.font.show(p.f, s, func(text string, width float64, blank bool) {
		m := matrix{g.size * g.scale, 0, 0, g.size, 0, g.rise}.times(p.tm).times(g.ctm)
		if text != "" {
			p.gap(m)
			p.f.put(text)
		}
		w := (width/1000*g.size + g.charSpace) * g.scale
		if blank {
			w += g.wordSpace * g.scale
		}
		p.advance(w)
		if text != "" {
			// The end of the glyph itself, without character and word spacing.
			end := matrix{1, 0, 0, 1, width / 1000, 0}.times(m)
			p.x, p.y, p.shown = end[4], end[5], true
			p.height = math.Hypot(m[2], m[3])
			p.dx, p.dy = m[0], m[1]
		}
	})
}

// gap writes the space or line break, if any, between the last glyph and one shown at m.
func (p *painter) gap(m matrix) {
	if !p.shown {
		return
	}
	length := math.Hypot(p.dx, p.dy)
	size := max(p.height, math.Hypot(m[2], m[3]))
	if length == 0 || size == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		p.f.put(" ")
		return
	}
	x, y := m[4]-p.x, m[5]-p.y
	along := (x*p.dx + y*p.dy) / length
	across := math.Abs(x*p.dy-y*p.dx) / length
	switch {
	case across > size*0.5 || along < -size*2:
		p.f.put("\n")
	case along > size*0.15 || along < -size*0.5:
		p.f.put(" ")
	}
}
