// Package pdf reads the text of untrusted PDF files (ISO 32000-1) for searching: the text of each page, approximately
// in reading order. It ignores cross-reference tables and finds objects by scanning the file, so a file with a broken
// table is read like any other.
//
// All work is bounded. The bounds count steps instead of time, so a file gives the same text on every machine. Drawn
// letters, pictures, scripts and embedded files are not text.
package pdf

import (
	"bytes"
	"errors"
	"sort"
	"strings"
)

var (
	// ErrBroken reports a file that is not a PDF, or is too damaged to read.
	ErrBroken = errors.New("pdf: broken")
	// ErrBeyond reports that a limit was reached. Text still returns the text read so far.
	ErrBeyond = errors.New("pdf: beyond the limits")
	// ErrEncrypted reports a file that needs a password.
	ErrEncrypted = errors.New("pdf: encrypted")
)

// Limits for one file.
const (
	maxObjects = 1 << 20  // highest object number + 1
	maxHeld    = 2 << 20  // values in memory
	maxDecoded = 64 << 20 // bytes that all filters together may produce
	maxWork    = 20 << 20 // tokens read and glyphs shown
	maxPages   = 5_000
	maxForms   = 8 // depth of nested forms
)

// file is a PDF being read.
type file struct {
	b       []byte
	objects map[int]placed
	streams []placed // object streams
	trailer dict
	secret  *secret

	held, decoded, work int
	fonts               map[int]*font
	out                 strings.Builder
	room                int
}

// placed is an object and its position in the file. If several have the same number, the last one is valid.
type placed struct {
	num    int
	pos    int
	o      object
	packed bool // found in an object stream
}

// stopped is the panic value when a limit is reached. Text recovers from it.
type stopped struct{ err error }

func (f *file) stop(err error) { panic(stopped{err}) }

func (f *file) pay(n int) {
	if f.work += n; f.work > maxWork {
		f.stop(ErrBeyond)
	}
}

func (f *file) hold(n int) {
	if f.held += n; f.held > maxHeld {
		f.stop(ErrBeyond)
	}
}

// Text returns the text of a PDF, at most room bytes. If an error occurs, it also returns the text read before.
func Text(b []byte, room int) (text string, err error) {
	if !bytes.Contains(b[:min(len(b), 1024)], []byte("%PDF-")) {
		return "", ErrBroken
	}
	f := &file{b: b, objects: make(map[int]placed), fonts: make(map[int]*font), trailer: dict{}, room: room}
	defer func() {
		if p := recover(); p != nil {
			s, ok := p.(stopped)
			if !ok {
				s.err = ErrBroken
			}
			text, err = f.out.String(), s.err
		}
	}()
	f.find()
	if err := f.unlock(); err != nil {
		return "", err
	}
	f.unpack()
	pages := f.pages()
	if len(pages) == 0 {
		return "", ErrBroken
	}
	f.info()
	for _, p := range pages {
		f.page(p)
	}
	return f.out.String(), nil
}

var (
	wordObj       = []byte("obj")
	wordStream    = []byte("stream")
	wordEndStream = []byte("endstream")
	wordTrailer   = []byte("trailer")
)

// find finds the objects and trailers of the file.
func (f *file) find() {
	for pos := 0; ; {
		i := bytes.Index(f.b[pos:], wordObj)
		end := len(f.b)
		if i >= 0 {
			end = pos + i
		}
		if j := bytes.LastIndex(f.b[pos:end], wordTrailer); j >= 0 {
			l := lexer{b: f.b, pos: pos + j + len(wordTrailer), f: f}
			if o, _ := l.next(true, 0); o != nil {
				f.addTrailer(o)
			}
		}
		if i < 0 {
			return
		}
		pos = end + len(wordObj)
		num, ok := f.numberBefore(end)
		if !ok {
			continue
		}
		l := lexer{b: f.b, pos: pos, f: f}
		o, ok := l.next(true, 0)
		if !ok {
			continue
		}
		if d, is := o.(dict); is {
			if s := f.streamAt(&l, d); s != nil {
				o = s
				if t, _ := d["Type"].(name); t == "ObjStm" {
					f.streams = append(f.streams, placed{num, end, s, false})
				} else if t == "XRef" {
					f.addTrailer(d)
				}
			}
		}
		f.hold(4)
		f.objects[num] = placed{num, end, o, false}
		pos = max(pos, l.pos)
	}
}

func (f *file) addTrailer(o object) {
	d, _ := o.(dict)
	for k, v := range d {
		f.trailer[k] = v // a later trailer overrides
	}
}

// numberBefore parses an object header such as "12 0 " backwards from the keyword obj, and returns the number.
func (f *file) numberBefore(at int) (int, bool) {
	back := func(ok func(byte) bool) (lo, hi int) {
		hi = at
		for at > 0 && hi-at < 12 && ok(f.b[at-1]) {
			at--
		}
		return at, hi
	}
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	back(space)
	if lo, hi := back(digit); lo == hi {
		return 0, false
	}
	if lo, hi := back(space); lo == hi {
		return 0, false
	}
	lo, hi := back(digit)
	n := 0
	for _, c := range f.b[lo:hi] {
		n = n*10 + int(c-'0')
		if n >= maxObjects {
			return 0, false
		}
	}
	return n, lo < hi
}

// streamAt reads the stream that follows its dictionary. It returns nil if there is none.
func (f *file) streamAt(l *lexer, d dict) *stream {
	l.skip()
	if !bytes.HasPrefix(l.b[l.pos:], wordStream) {
		return nil
	}
	at := l.pos + len(wordStream)
	if at < len(l.b) && l.b[at] == '\r' {
		at++
	}
	if at < len(l.b) && l.b[at] == '\n' {
		at++
	}
	end := -1
	if n, ok := d["Length"].(float64); ok && n >= 0 && at+int(n) <= len(l.b) {
		e := at + int(n)
		if near := bytes.TrimLeft(l.b[e:min(e+32, len(l.b))], "\r\n\t \x00"); bytes.HasPrefix(near, wordEndStream) {
			end = e
		}
	}
	if end < 0 { // the length is an indirect object, or wrong
		i := bytes.Index(l.b[at:], wordEndStream)
		if i < 0 {
			i = len(l.b) - at
		}
		f.pay(i / 256)
		end = at + i
	}
	l.pos = end
	return &stream{d, l.b[at:end]}
}

// pair reads two numbers.
func (l *lexer) pair() (a, b float64, ok bool) {
	first, ok1 := l.next(false, 0)
	second, ok2 := l.next(false, 0)
	a, is1 := first.(float64)
	b, is2 := second.(float64)
	return a, b, ok1 && ok2 && is1 && is2
}

// unpack reads the objects in object streams (section 7.5.7).
func (f *file) unpack() {
	sort.SliceStable(f.streams, func(i, j int) bool { return f.streams[i].pos < f.streams[j].pos })
	for _, p := range f.streams {
		if now, ok := f.objects[p.num]; !ok || now.pos != p.pos {
			continue // replaced by a later version
		}
		s := p.o.(*stream)
		b := f.decode(s, p.num)
		first, _ := f.resolve(s.dict["First"]).(float64)
		n, _ := f.resolve(s.dict["N"]).(float64)
		head := lexer{b: b, f: f}
		for range int(min(max(n, 0), maxObjects)) {
			id, at, ok := head.pair()
			if !ok {
				break
			}
			if id < 0 || id >= maxObjects || at < 0 || first < 0 || first+at >= float64(len(b)) {
				continue
			}
			if had, ok := f.objects[int(id)]; ok && had.pos > p.pos {
				continue
			}
			l := lexer{b: b, pos: int(first + at), f: f}
			o, _ := l.next(true, 0)
			f.hold(4)
			f.objects[int(id)] = placed{int(id), p.pos, o, true}
		}
	}
}

// resolve returns the object that a reference refers to. Any other object is returned unchanged.
func (f *file) resolve(o object) object {
	for range 20 {
		r, ok := o.(ref)
		if !ok {
			return o
		}
		f.pay(1)
		o = f.objects[int(r)].o
	}
	return nil
}

func (f *file) dict(o object) dict {
	switch x := f.resolve(o).(type) {
	case dict:
		return x
	case *stream:
		return x.dict
	}
	return nil
}

func (f *file) array(o object) array {
	a, _ := f.resolve(o).(array)
	return a
}

func (f *file) number(o object) (float64, bool) {
	n, ok := f.resolve(o).(float64)
	return n, ok
}

// numberOf returns the object number of a reference, or -1 for any other object.
func numberOf(o object) int {
	if r, ok := o.(ref); ok {
		return int(r)
	}
	return -1
}

// leaf is a page with the resources that it inherits.
type leaf struct {
	page      dict
	resources dict
}

// pages returns the pages in order. If the page tree is broken, it returns them by object number.
func (f *file) pages() []leaf {
	var out []leaf
	seen := map[int]bool{}
	var walk func(o object, resources dict, depth int)
	walk = func(o object, resources dict, depth int) {
		n := numberOf(o)
		if depth > maxNested || len(out) >= maxPages || n >= 0 && seen[n] {
			return
		}
		seen[n] = n >= 0
		d := f.dict(o)
		if d == nil {
			return
		}
		if r := f.dict(d["Resources"]); r != nil {
			resources = r
		}
		kids := f.array(d["Kids"])
		if kids == nil {
			out = append(out, leaf{d, resources})
			return
		}
		for _, k := range kids {
			f.pay(1)
			walk(k, resources, depth+1)
		}
	}
	if root := f.dict(f.trailer["Root"]); root != nil {
		walk(root["Pages"], nil, 0)
	}
	if len(out) > 0 {
		return out
	}
	return f.pagesByNumber()
}

func (f *file) pagesByNumber() (out []leaf) {
	var nums []int
	for n, p := range f.objects {
		if d, _ := p.o.(dict); d != nil && f.resolve(d["Type"]) == name("Page") {
			nums = append(nums, n)
		}
	}
	sort.Ints(nums)
	for _, n := range nums[:min(len(nums), maxPages)] {
		d := f.objects[n].o.(dict)
		out = append(out, leaf{d, f.dict(d["Resources"])})
	}
	return out
}

// info writes the text of the document information.
func (f *file) info() {
	d := f.dict(f.trailer["Info"])
	for _, k := range []name{"Title", "Author", "Subject", "Keywords"} {
		if s, ok := f.resolve(d[k]).(str); ok {
			f.put(textString(f.plainString(s, numberOf(f.trailer["Info"]))))
			f.put("\n")
		}
	}
}

// put writes text, up to room bytes, and drops NUL bytes.
func (f *file) put(s string) {
	s = strings.ReplaceAll(s, "\x00", "")
	if f.out.Len()+len(s) > f.room {
		n := max(0, f.room-f.out.Len())
		for n > 0 && s[n]&0xc0 == 0x80 {
			n--
		}
		f.out.WriteString(s[:n])
		f.stop(ErrBeyond)
	}
	f.out.WriteString(s)
}
