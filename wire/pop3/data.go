package pop3

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A message travels as lines that end with CRLF: an LF without CR, which an IMAP client may have
// stored, gets its CR, the last line its end, and NUL travels as 0x80, as in IMAP. Extra and Stuffer
// agree on that, so that the sizes that LIST tells are those of what RETR sends, dot-stuffing aside.

// Extra is how many octets more than raw has travel.
func Extra(raw []byte) int {
	n := 0
	for i := 0; ; {
		j := bytes.IndexByte(raw[i:], '\n')
		if j < 0 {
			break
		}
		if i += j; i == 0 || raw[i-1] != '\r' {
			n++
		}
		i++
	}
	switch {
	case len(raw) == 0 || raw[len(raw)-1] == '\n':
		return n
	case raw[len(raw)-1] == '\r':
		return n + 1
	}
	return n + 2
}

// Stuffer prints a message, piece by piece, as it travels. The zero value begins one.
type Stuffer struct {
	inLine bool // the last byte was not the end of a line
	cr     bool // the last byte was CR
	dots   int
}

// Dots is how many dots the last Append has put before others.
func (s *Stuffer) Dots() int { return s.dots }

// Append appends a piece.
//
// Implements: RFC 1939 §3 Dot-stuffing
func (s *Stuffer) Append(dst, p []byte) []byte {
	start := len(dst)
	s.dots = 0
	for len(p) > 0 {
		if !s.inLine && p[0] == '.' {
			dst = append(dst, '.')
			s.dots++
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			dst = append(dst, p...)
			s.inLine, s.cr = true, p[len(p)-1] == '\r'
			break
		}
		dst = append(dst, p[:i]...)
		if i > 0 {
			s.cr = p[i-1] == '\r'
		}
		if !s.cr {
			dst = append(dst, '\r')
		}
		dst = append(dst, '\n')
		s.inLine, s.cr = false, false
		p = p[i+1:]
	}
	for b := dst[start:]; ; {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return dst
		}
		b[i] = 0x80
		b = b[i+1:]
	}
}

// AppendEnd ends the message.
func (s *Stuffer) AppendEnd(dst []byte) []byte {
	if s.inLine {
		if !s.cr {
			dst = append(dst, '\r')
		}
		dst = append(dst, '\n')
	}
	*s = Stuffer{}
	return append(dst, ".\r\n"...)
}

// Top finds how much of a message TOP shows: its header, the empty line, and the first lines of its body.
type Top struct {
	// Lines of the body that are still to be shown.
	Lines uint32

	body  bool
	blank bool // nothing but CR stands in the line so far
	begun bool
}

// Take is how many octets of the next piece belong to it; done says that the rest of the message does not.
//
// Implements: RFC 1939 §7 TOP
func (t *Top) Take(p []byte) (n int, done bool) {
	if !t.begun {
		t.begun, t.blank = true, true
	}
	for n < len(p) {
		if t.body && t.Lines == 0 {
			return n, true
		}
		i := bytes.IndexByte(p[n:], '\n')
		if i < 0 {
			t.blank = t.blank && len(bytes.TrimRight(p[n:], "\r")) == 0
			return len(p), false
		}
		line := p[n : n+i]
		n += i + 1
		if t.body {
			t.Lines--
			continue
		}
		if t.blank && len(bytes.TrimRight(line, "\r")) == 0 {
			t.body = true
		}
		t.blank = true
	}
	return n, t.body && t.Lines == 0
}

// ErrTooLong says that a multi-line answer has a line or a length over the reader's bounds.
var ErrTooLong = errors.New("pop3: answer too long")

// DataReader reads a multi-line answer up to its end, which it takes with it, and takes the dots away
// that were put before others.
type DataReader struct {
	r    *bufio.Reader
	left int64
	line []byte
	mid  bool // within a line longer than the buffer
	done bool
}

// NewDataReader reads from r at most limit octets.
func NewDataReader(r *bufio.Reader, limit int64) *DataReader {
	return &DataReader{r: r, left: limit}
}

// Read gives what travels without its stuffing, and io.EOF after the end.
func (d *DataReader) Read(p []byte) (int, error) {
	for len(d.line) == 0 {
		if d.done {
			return 0, io.EOF
		}
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.line)
	d.line = d.line[n:]
	return n, nil
}

func (d *DataReader) next() error {
	b, err := d.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("pop3: answer: %w", err)
	}
	if d.left -= int64(len(b)); d.left < 0 {
		return ErrTooLong
	}
	if !d.mid && b[0] == '.' {
		if rest := bytes.TrimRight(b, "\r\n"); len(rest) == 1 {
			d.done = true
			return nil
		}
		b = b[1:]
	}
	d.mid = err != nil
	d.line = b
	return nil
}
