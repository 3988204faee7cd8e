package pdf

import (
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// font maps the codes in strings to text, and holds the widths of its glyphs.
type font struct {
	composite bool
	unicode   *cmap
	codes     *cmap             // holds the length of codes in bytes
	charset   encoding.Encoding // for a composite font whose codes are text in this encoding
	utf16     bool
	table     [256]string // for a simple font

	widths map[uint32]float64 // in thousandths of the font size
	wide   float64            // width of all other glyphs
}

// font returns the font for a font dictionary.
func (f *file) font(o object) *font {
	num := numberOf(o)
	if x := f.fonts[num]; x != nil && num >= 0 {
		return x
	}
	d := f.dict(o)
	if d == nil {
		return nil
	}
	x := &font{wide: 500, widths: map[uint32]float64{}}
	if num >= 0 {
		f.fonts[num] = x
	}
	x.unicode = f.readCMap(d["ToUnicode"])
	if f.resolve(d["Subtype"]) == name("Type0") {
		f.compositeFont(x, d)
	} else {
		f.simpleFont(x, d)
	}
	return x
}

func (f *file) simpleFont(x *font, d dict) {
	x.table = baseTable(f.baseEncoding(d))
	if e, ok := f.resolve(d["Encoding"]).(dict); ok {
		f.differences(x, f.array(e["Differences"]))
	}
	first, _ := f.number(d["FirstChar"])
	scale := 1.0
	if f.resolve(d["Subtype"]) == name("Type3") { // widths are in the font's own coordinates
		if m := f.array(d["FontMatrix"]); len(m) > 0 {
			if a, ok := f.number(m[0]); ok {
				scale = a * 1000
			}
		}
	}
	for i, o := range f.array(d["Widths"]) {
		if w, ok := f.number(o); ok && first >= 0 && int(first)+i < 256 {
			x.widths[uint32(int(first)+i)] = w * scale
		}
	}
	if w, ok := f.number(f.dict(d["FontDescriptor"])["MissingWidth"]); ok && w > 0 {
		x.wide = w
	}
}

// baseEncoding returns the name of the encoding that a simple font's own one is based on.
func (f *file) baseEncoding(d dict) string {
	switch e := f.resolve(d["Encoding"]).(type) {
	case name:
		return string(e)
	case dict:
		if n, ok := f.resolve(e["BaseEncoding"]).(name); ok {
			return string(n)
		}
		if f.resolve(d["Subtype"]) == name("Type1") {
			return "StandardEncoding"
		}
	}
	return "WinAnsiEncoding"
}

// differences applies a list of codes, each with the names of the glyphs from it on.
func (f *file) differences(x *font, list array) {
	code := 0
	for _, o := range list {
		f.pay(1)
		switch v := f.resolve(o).(type) {
		case float64:
			code = int(v)
		case name:
			if code >= 0 && code < 256 {
				x.table[code] = glyphText(string(v))
			}
			code++
		}
	}
}

func (f *file) compositeFont(x *font, d dict) {
	x.composite, x.wide = true, 1000
	switch e := f.resolve(d["Encoding"]).(type) {
	case name:
		x.predefined(string(e))
	case *stream:
		x.codes = f.readCMap(d["Encoding"])
	}
	list := f.array(d["DescendantFonts"])
	if len(list) == 0 {
		return
	}
	desc := f.dict(list[0])
	if w, ok := f.number(desc["DW"]); ok {
		x.wide = w
	}
	f.compositeWidths(x, f.array(desc["W"]))
}

// compositeWidths reads the entries of W: c [w1 w2 …] or first last w.
func (f *file) compositeWidths(x *font, a array) {
	for len(a) > 1 {
		f.pay(1)
		first, ok := f.number(a[0])
		if !ok || first < 0 || first > 0xffff {
			return
		}
		if list, ok := f.resolve(a[1]).(array); ok {
			for i, o := range list {
				if w, ok := f.number(o); ok && i <= 0xffff {
					f.hold(1)
					x.widths[uint32(first)+uint32(i)] = w
				}
			}
			a = a[2:]
			continue
		}
		last, _ := f.number(a[1])
		if len(a) < 3 {
			return
		}
		w, _ := f.number(a[2])
		for c := first; c <= min(last, 0xffff); c++ {
			f.hold(1)
			x.widths[uint32(c)] = w
		}
		a = a[3:]
	}
}

// predefined sets the encoding if n is a predefined CMap whose codes are text (section 9.7.5.2).
func (x *font) predefined(n string) {
	n = strings.TrimSuffix(strings.TrimSuffix(n, "-V"), "-H")
	switch {
	case strings.HasSuffix(n, "UCS2"), strings.HasSuffix(n, "UTF16"):
		x.utf16 = true
	case strings.HasPrefix(n, "GBK"), strings.HasPrefix(n, "GB-EUC"), strings.HasPrefix(n, "GBpc"):
		x.charset = simplifiedchinese.GB18030
	case strings.HasPrefix(n, "B5"), strings.HasPrefix(n, "ETen"), strings.HasPrefix(n, "HKscs"):
		x.charset = traditionalchinese.Big5
	case strings.Contains(n, "RKSJ"):
		x.charset = japanese.ShiftJIS
	case n == "EUC":
		x.charset = japanese.EUCJP
	case strings.HasPrefix(n, "KSC"):
		x.charset = korean.EUCKR
	}
}

// show calls fn for each glyph of a string: its text, its width in thousandths of the font size, and whether its code
// is a space.
func (x *font) show(f *file, s str, fn func(text string, width float64, blank bool)) {
	if x.composite && x.unicode == nil && (x.charset != nil || x.utf16) {
		x.showText(f, s, fn)
		return
	}
	for i := 0; i < len(s); {
		n := 1
		if x.composite {
			n = x.length(s[i:])
		}
		code := uint32(0)
		for _, c := range []byte(s[i : i+n]) {
			code = code<<8 | uint32(c)
		}
		i += n
		f.pay(1)
		t, ok := "", false
		if x.unicode != nil {
			t, ok = x.unicode.text(code, n)
		}
		if !ok && !x.composite {
			t = x.table[code]
		}
		w, ok := x.widths[code]
		if !ok {
			w = x.wide
		}
		fn(t, w, n == 1 && code == ' ')
	}
}

// showText is like show, for codes that are text.
func (x *font) showText(f *file, s str, fn func(string, float64, bool)) {
	f.pay(len(s))
	t := ""
	if x.utf16 {
		t = utf16Text(string(s))
	} else if b, err := x.charset.NewDecoder().String(string(s)); err == nil {
		t = b
	}
	for _, r := range t {
		if r != utf8.RuneError {
			fn(string(r), x.wide, r == ' ')
		}
	}
}

// length returns the number of bytes of the first code in s.
func (x *font) length(s str) int {
	for _, m := range []*cmap{x.codes, x.unicode} {
		if m == nil || len(m.spaces) == 0 {
			continue
		}
		code := uint32(0)
		for n := 1; n <= 4 && n <= len(s); n++ {
			code = code<<8 | uint32(s[n-1])
			for _, r := range m.spaces {
				if r.bytes == n && code >= r.lo && code <= r.hi {
					return n
				}
			}
		}
	}
	return min(2, len(s))
}

// cmap maps codes to text.
type cmap struct {
	chars  map[uint32]string
	ranges []codeRange
	spaces []codeRange
}

type codeRange struct {
	lo, hi uint32
	bytes  int
	text   string // text of lo; its last character increases with the code
}

// Limits on one CMap.
const (
	maxCodes  = 70_000
	maxRanges = 20_000
	maxSpaces = 100
)

// readCMap parses a stream with a CMap (Adobe Technical Note 5014, section 9.10.3). It returns nil if o is not a
// stream.
func (f *file) readCMap(o object) *cmap {
	s, ok := f.resolve(o).(*stream)
	if !ok {
		return nil
	}
	m := &cmap{chars: map[uint32]string{}}
	l := lexer{b: f.decode(s, numberOf(o)), f: f}
	for {
		o, ok := l.next(false, 0)
		if !ok {
			break
		}
		switch o {
		case keyword("begincodespacerange"):
			m.readSpaces(&l)
		case keyword("beginbfchar"):
			m.readChars(&l)
		case keyword("beginbfrange"):
			m.readRanges(&l)
		}
	}
	sort.Slice(m.ranges, func(i, j int) bool { return m.ranges[i].lo < m.ranges[j].lo })
	return m
}

func codeOf(o object) (code uint32, n int, ok bool) {
	s, ok := o.(str)
	if !ok || len(s) == 0 || len(s) > 4 {
		return 0, 0, false
	}
	for _, c := range []byte(s) {
		code = code<<8 | uint32(c)
	}
	return code, len(s), true
}

func (m *cmap) readSpaces(l *lexer) {
	for len(m.spaces) < maxSpaces {
		lo, _ := l.next(false, 0)
		a, n, ok := codeOf(lo)
		if !ok {
			return
		}
		hi, _ := l.next(false, 0)
		b, _, ok := codeOf(hi)
		if !ok {
			return
		}
		m.spaces = append(m.spaces, codeRange{lo: a, hi: b, bytes: n})
	}
}

func (m *cmap) readChars(l *lexer) {
	for len(m.chars) < maxCodes {
		from, _ := l.next(false, 0)
		code, _, ok := codeOf(from)
		if !ok {
			return
		}
		to, _ := l.next(false, 0)
		l.f.hold(2)
		switch t := to.(type) {
		case str:
			m.chars[code] = utf16Text(string(t))
		case name:
			m.chars[code] = glyphText(string(t))
		default:
			return
		}
	}
}

func (m *cmap) readRanges(l *lexer) {
	for len(m.ranges) < maxRanges {
		from, _ := l.next(false, 0)
		lo, n, ok := codeOf(from)
		if !ok {
			return
		}
		end, _ := l.next(false, 0)
		hi, _, ok := codeOf(end)
		if !ok {
			return
		}
		to, _ := l.next(false, 0)
		l.f.hold(4)
		switch t := to.(type) {
		case str:
			m.ranges = append(m.ranges, codeRange{lo, hi, n, utf16Text(string(t))})
		case array:
			for i, o := range t {
				if s, ok := o.(str); ok && len(m.chars) < maxCodes {
					m.chars[lo+uint32(i)] = utf16Text(string(s))
				}
			}
		default:
			return
		}
	}
}

func (m *cmap) text(code uint32, n int) (string, bool) {
	if s, ok := m.chars[code]; ok {
		return s, true
	}
	i := sort.Search(len(m.ranges), func(i int) bool { return m.ranges[i].lo > code })
	if i == 0 || i-1 <= len(m.ranges)-maxRanges || code > m.ranges[i-1].hi {
		return "", false
	}
	r := &m.ranges[i-1]
	last, w := utf8.DecodeLastRuneInString(r.text)
	if w == 0 {
		return "", true
	}
	return r.text[:len(r.text)-w] + string(last+rune(code-r.lo)), true
}

// utf16Text decodes big-endian UTF-16 and drops invalid characters and NULs.
func utf16Text(s string) string {
	u := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		u = append(u, uint16(s[i])<<8|uint16(s[i+1]))
	}
	if len(s) == 1 {
		u = append(u, uint16(s[0]))
	}
	var b strings.Builder
	for _, r := range utf16.Decode(u) {
		if r != utf8.RuneError && r != 0 {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// textString decodes a string outside of page content (section 7.9.2.2).
func textString(s str) string {
	switch {
	case strings.HasPrefix(string(s), "\xfe\xff"):
		return utf16Text(string(s[2:]))
	case strings.HasPrefix(string(s), "\xef\xbb\xbf"):
		return strings.ToValidUTF8(string(s[3:]), "")
	}
	t, _ := charmap.Windows1252.NewDecoder().String(string(s))
	return t
}
