package pdf

import (
	"bytes"
	"compress/flate"
	"encoding/ascii85"
	"io"
)

// maxFilters is the maximum number of filters of a stream.
const maxFilters = 5

// decode applies the filters of a stream (section 7.4). num is the number of the stream's object. For a damaged stream
// it returns the data decoded so far; for a picture it returns nil.
func (f *file) decode(s *stream, num int) []byte {
	b := f.decrypt(s, num)
	filters := f.list(s.dict["Filter"], s.dict["F"])
	params := f.list(s.dict["DecodeParms"], s.dict["DP"])
	if len(filters) > maxFilters {
		return nil
	}
	for i, x := range filters {
		var p dict
		if i < len(params) {
			p = f.dict(params[i])
		}
		n, _ := f.resolve(x).(name)
		switch n {
		case "FlateDecode", "Fl":
			b = f.predict(f.inflate(b), p)
		case "LZWDecode", "LZW":
			early := 1
			if e, ok := f.number(p["EarlyChange"]); ok {
				early = int(e)
			}
			b = f.predict(f.lzw(b, early), p)
		case "ASCII85Decode", "A85":
			b = f.ascii85(b)
		case "ASCIIHexDecode", "AHx":
			l := lexer{b: append([]byte{'<'}, b...), f: f}
			b = []byte(l.hex())
		case "RunLengthDecode", "RL":
			b = f.runLength(b)
		case "Crypt":
		default:
			return nil // a filter for pictures
		}
		f.gave(len(b))
	}
	return b
}

func (f *file) list(o ...object) array {
	for _, x := range o {
		switch v := f.resolve(x).(type) {
		case array:
			return v
		case nil:
		default:
			return array{v}
		}
	}
	return nil
}

// gave adds n to the number of bytes that filters have produced.
func (f *file) gave(n int) {
	if f.decoded += n; f.decoded > maxDecoded {
		f.stop(ErrBeyond)
	}
}

// left returns the number of bytes that filters may still produce, plus one to detect the excess.
func (f *file) left() int { return maxDecoded - f.decoded + 1 }

func (f *file) inflate(b []byte) []byte {
	if len(b) < 2 {
		return nil
	}
	// Skip the two header bytes of zlib, and ignore its checksum.
	r := flate.NewReader(bytes.NewReader(b[2:]))
	out, _ := io.ReadAll(io.LimitReader(r, int64(f.left())))
	return out
}

func (f *file) ascii85(b []byte) []byte {
	b = bytes.TrimPrefix(bytes.TrimSpace(b), []byte("<~"))
	if i := bytes.Index(b, []byte("~")); i >= 0 {
		b = b[:i]
	}
	out, _ := io.ReadAll(io.LimitReader(ascii85.NewDecoder(bytes.NewReader(b)), int64(f.left())))
	return out
}

func (f *file) runLength(b []byte) []byte {
	var out []byte
	for len(b) > 1 && len(out) < f.left() {
		n := int(b[0])
		switch {
		case n < 128:
			n = min(n+1, len(b)-1)
			out = append(out, b[1:1+n]...)
			b = b[1+n:]
		case n == 128:
			return out
		default:
			out = append(out, bytes.Repeat(b[1:2], 257-n)...)
			b = b[2:]
		}
	}
	return out
}

// lzwEntry is a sequence of bytes: that of prefix (-1: none) and one more.
type lzwEntry struct {
	prefix int32
	last   byte
	length int32
}

type lzwTable [4096]lzwEntry

// begin fills the table with the codes of single bytes.
func (t *lzwTable) begin() {
	for i := range 256 {
		t[i] = lzwEntry{-1, byte(i), 1}
	}
}

// first returns the first byte of a code's sequence.
func (t *lzwTable) first(code int) byte {
	for t[code].prefix >= 0 {
		code = int(t[code].prefix)
	}
	return t[code].last
}

// expand appends a code's sequence.
func (t *lzwTable) expand(out []byte, code int) []byte {
	n, at := int(t[code].length), len(out)
	out = append(out, make([]byte, n)...)
	for c := code; c >= 0 && n > 0; c = int(t[c].prefix) {
		n--
		out[at+n] = t[c].last
	}
	return out
}

// lzw decodes LZW as in TIFF and PDF: codes of 9 to 12 bits, most significant bit first.
func (f *file) lzw(b []byte, early int) []byte {
	const clear, eod = 256, 257
	var table lzwTable
	table.begin()
	next, width, prev := 258, 9, -1
	var acc uint32
	var bits int
	var out []byte
	for len(out) < f.left() {
		for bits < width {
			if len(b) == 0 {
				return out
			}
			acc, b, bits = acc<<8|uint32(b[0]), b[1:], bits+8
		}
		code := int(acc >> (bits - width) & (1<<width - 1))
		bits -= width
		switch {
		case code == eod:
			return out
		case code == clear:
			next, width, prev = 258, 9, -1
			continue
		case prev < 0 && code > 255, code > next, code == next && next >= len(table):
			return out
		}
		if prev >= 0 && next < len(table) {
			c := prev
			if code != next {
				c = code
			}
			table[next] = lzwEntry{int32(prev), table.first(c), table[prev].length + 1}
			next++
		}
		out = table.expand(out, code)
		f.pay(1)
		prev = code
		for width < 12 && next+early >= 1<<width {
			width++
		}
	}
	return out
}

// predict reverses the PNG prediction, which is common in cross-reference and object streams.
func (f *file) predict(b []byte, p dict) []byte {
	if n, _ := f.number(p["Predictor"]); n < 10 {
		return b
	}
	value := func(k name, or int) int {
		if n, ok := f.number(p[k]); ok && n >= 1 && n <= 1<<16 {
			return int(n)
		}
		return or
	}
	pixel := (value("Colors", 1)*value("BitsPerComponent", 8) + 7) / 8
	row := (value("Columns", 1)*value("Colors", 1)*value("BitsPerComponent", 8) + 7) / 8
	row = min(row, len(b)) // the parameters may claim a huge row
	out := make([]byte, 0, len(b))
	above, line := make([]byte, row), make([]byte, 0, row)
	for len(b) > 1 {
		how := b[0]
		line = append(line[:0], b[1:min(len(b), row+1)]...)
		b = b[min(len(b), row+1):]
		for i := range line {
			var left, corner byte
			if i >= pixel {
				left, corner = line[i-pixel], above[i-pixel]
			}
			switch how {
			case 1:
				line[i] += left
			case 2:
				line[i] += above[i]
			case 3:
				line[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				line[i] += paeth(left, above[i], corner)
			}
		}
		out = append(out, line...)
		copy(above, line)
	}
	return out
}

func paeth(a, b, c byte) byte {
	p := int(a) + int(b) - int(c)
	pa, pb, pc := abs(p-int(a)), abs(p-int(b)), abs(p-int(c))
	switch {
	case pa <= pb && pa <= pc:
		return a
	case pb <= pc:
		return b
	}
	return c
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
