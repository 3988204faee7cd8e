package smtp

import (
	"bytes"
	"errors"
	"io"
)

// DotDecoder removes dot-stuffing in place and finds the end of mail data, which is exactly CRLF.CRLF. No other line
// end can end a message (SMTP smuggling). It records violations; the caller decides to reject the message.
//
// Implements: RFC 5321 §4.5.2 Transparency
// Implements: RFC 5321 §2.3.8 Bare CR and LF end no line
type DotDecoder struct {
	// Bare is set after a CR or LF that is not part of CRLF, NUL after a NUL.
	Bare, NUL bool

	mid bool // the next byte is not the first of a line
}

// Decode decodes the start of p. If done is not set, p[:n] is mail data. rest, moved to p[n:], holds at most 2 bytes
// that need more input: the next call must start with them. If done is set, p[:n] is the last mail data, and rest is
// the input after the end.
func (d *DotDecoder) Decode(p []byte) (n int, rest []byte, done bool) {
	crlfs := 0
	start, pos := 0, 0 // p[start:pos] is the run to move down to n
	hold := len(p)     // start of rest
loop:
	for pos < len(p) {
		if !d.mid && p[pos] == '.' {
			left := p[pos:]
			switch {
			case len(left) >= 3 && left[1] == '\r' && left[2] == '\n':
				n += moveDown(p, n, start, pos)
				d.judge(p[:n], crlfs)
				return n, left[3:], true
			case len(left) == 1, len(left) == 2 && left[1] == '\r':
				hold = pos
				break loop
			}
			n += moveDown(p, n, start, pos)
			pos++
			start = pos
			d.mid = true
		}
		i := bytes.IndexByte(p[pos:], '\n')
		if i < 0 {
			d.mid = true
			pos = len(p)
			if p[pos-1] == '\r' { // so that both halves of a CRLF are always processed together
				pos--
				hold = pos
			}
			break
		}
		at := pos + i
		d.mid = at == start || p[at-1] != '\r'
		if d.mid {
			d.Bare = true
		} else {
			crlfs++
		}
		pos = at + 1
	}
	n += moveDown(p, n, start, pos)
	d.judge(p[:n], crlfs)
	return n, p[n : n+copy(p[n:], p[hold:])], false
}

func moveDown(p []byte, to, start, end int) int {
	if to == start {
		return end - start
	}
	return copy(p[to:], p[start:end])
}

// judge checks decoded data with the given number of CRLFs: if there are more CRs, some are bare.
func (d *DotDecoder) judge(data []byte, crlfs int) {
	if !d.Bare && bytes.Count(data, crByte) != crlfs {
		d.Bare = true
	}
	if !d.NUL && bytes.IndexByte(data, 0) >= 0 {
		d.NUL = true
	}
}

var (
	crByte = []byte{'\r'}
	lfByte = []byte{'\n'}
	crlf   = []byte("\r\n")
)

// CheckLines reports whether data that was sent without dot-stuffing (BDAT) contains a bare CR or LF, or a NUL.
func CheckLines(data []byte) (bare, nul bool) {
	crlfs := 0
	for rest := data; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		if i == 0 || rest[i-1] != '\r' {
			bare = true
			break
		}
		crlfs++
		rest = rest[i+1:]
	}
	if !bare {
		bare = bytes.Count(data, crByte) != crlfs
	}
	return bare, bytes.IndexByte(data, 0) >= 0
}

// BareCount returns the number of CRs and LFs in data that are not part of a CRLF. AppendNormal makes data longer by
// this number of bytes.
func BareCount(data []byte) int {
	pairs := bytes.Count(data, crlf)
	return bytes.Count(data, crByte) + bytes.Count(data, lfByte) - 2*pairs
}

// AppendNormal appends data with every bare CR and bare LF replaced by CRLF.
func AppendNormal(dst, data []byte) []byte {
	for len(data) > 0 {
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			return append(dst, data...)
		}
		dst = append(append(dst, data[:i]...), crlf...)
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
	return dst
}

// MessageEnd is the end of dot-stuffed data, after a CRLF.
const MessageEnd = ".\r\n"

// ErrDataEnded means that the source of a DotReader ended inside the data.
var ErrDataEnded = errors.New("smtp: mail data without end")

// DotReader reads the decoded data of one message from a dot-stuffed source. It may read beyond the end of the data:
// Rest returns the surplus.
type DotReader struct {
	DotDecoder
	src  io.Reader
	buf  []byte
	out  []byte // decoded but not yet returned, inside buf
	held []byte
	done bool
}

// NewDotReader returns a DotReader with a buffer of size bytes, at least 16.
func NewDotReader(src io.Reader, size int) *DotReader {
	return &DotReader{src: src, buf: make([]byte, max(size, 16))}
}

// Read returns decoded data, and io.EOF after its end.
func (r *DotReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.done {
			return 0, io.EOF
		}
		h := copy(r.buf, r.held)
		n, err := r.src.Read(r.buf[h:])
		if n == 0 {
			switch err {
			case nil:
				continue
			case io.EOF:
				err = ErrDataEnded
			}
			r.held = r.buf[:h]
			return 0, err
		}
		dn, rest, done := r.Decode(r.buf[:h+n])
		r.out, r.held, r.done = r.buf[:dn], rest, done
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

// Rest returns the bytes read beyond the end of the data.
func (r *DotReader) Rest() []byte {
	if !r.done {
		return nil
	}
	return r.held
}

// DotWriter applies dot-stuffing to the data written to it. The data should have CRLF lines. Close adds a missing final
// CRLF and the end of the data.
type DotWriter struct {
	dst io.Writer
	// last holds the last two bytes written. A message starts as if after a CRLF.
	last [2]byte
}

// NewDotWriter returns a DotWriter for one message.
func NewDotWriter(dst io.Writer) *DotWriter {
	return &DotWriter{dst: dst, last: [2]byte{'\r', '\n'}}
}

var (
	lineDot = []byte("\r\n.")
	oneDot  = []byte{'.'}
)

func (w *DotWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	written := 0
	emit := func(b []byte) error {
		n, err := w.dst.Write(b)
		written += n
		return err
	}
	for i := w.firstDot(p); i >= 0; i = nextDot(p[written:]) {
		if i > 0 {
			if err := emit(p[written : written+i]); err != nil {
				return written, err
			}
		}
		if _, err := w.dst.Write(oneDot); err != nil {
			return written, err
		}
	}
	if err := emit(p[written:]); err != nil {
		return written, err
	}
	if len(p) == 1 {
		w.last = [2]byte{w.last[1], p[0]}
	} else {
		w.last = [2]byte(p[len(p)-2:])
	}
	return written, nil
}

// firstDot returns the index of the first dot at the start of a line, or -1. The line may have started before p.
func (w *DotWriter) firstDot(p []byte) int {
	switch {
	case w.last == [2]byte{'\r', '\n'} && p[0] == '.':
		return 0
	case w.last[1] == '\r' && len(p) > 1 && p[0] == '\n' && p[1] == '.':
		return 1
	}
	return nextDot(p)
}

// nextDot returns the index of the first dot after a line end, or -1.
func nextDot(p []byte) int {
	i := bytes.Index(p, lineDot)
	if i < 0 {
		return -1
	}
	return i + len(lineDot) - 1
}

// Close writes the end of the data.
func (w *DotWriter) Close() error {
	end := "\r\n" + MessageEnd
	if w.last == [2]byte{'\r', '\n'} {
		end = MessageEnd
	}
	_, err := io.WriteString(w.dst, end)
	return err
}

// CountReceived returns the number of Received fields in a message's header, at most limit.
//
// Implements: RFC 5321 §6.3 Loop detection
func CountReceived(message []byte, limit int) int {
	n := 0
	for n < limit && len(message) > 1 && message[0] != '\r' && message[0] != '\n' {
		if message[0]|0x20 == 'r' && len(message) > 9 && foldEq(message[:8], "RECEIVED") {
			// Old programs send blanks before the colon (RFC 5322 section 4.5).
			k := 8
			for k < len(message) && (message[k] == ' ' || message[k] == '\t') {
				k++
			}
			if k < len(message) && message[k] == ':' {
				n++
			}
		}
		i := bytes.IndexByte(message, '\n')
		if i < 0 {
			break
		}
		message = message[i+1:]
	}
	return n
}
