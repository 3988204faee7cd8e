package pop3

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A message is sent as lines that end with CRLF. A bare LF, which an IMAP client may have stored, becomes CRLF, the
// last line gets a line end, and NUL is sent as 0x80, as in IMAP. Extra and Stuffer agree on these rules, so the sizes
// in LIST match the data of RETR, except for dot-stuffing.

// Extra returns the number of bytes by which the sent message is longer than raw.
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

// Stuffer converts a message to its wire format, piece by piece. The zero value is ready for a message.
type Stuffer struct {
	inLine bool // the last byte was not the end of a line
	cr     bool // the last byte was CR
	dots   int
}

// Dots returns the number of dots that the last Append inserted.
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

// AppendEnd appends the end of the message and resets the Stuffer.
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

// Top finds the part of a message that TOP sends: the header, the empty line, and the first lines of the body.
type Top struct {
	// Lines is the number of body lines that are still to be sent.
	Lines uint32

	body  bool
	blank bool // the current line has nothing but CR so far
	begun bool
}

// Take returns the number of bytes of the next piece that belong to the part. done reports that the rest of the message
// does not belong to it.
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

// ErrTooLong means that a multi-line response exceeds the reader's limits.
var ErrTooLong = errors.New("pop3: answer too long")

// DataReader reads a multi-line response up to and including its end, and removes dot-stuffing.
type DataReader struct {
	r    *bufio.Reader
	left int64
	line []byte
	mid  bool // inside a line longer than the buffer
	done bool
}

// NewDataReader returns a reader of at most limit bytes from r.
func NewDataReader(r *bufio.Reader, limit int64) *DataReader {
	return &DataReader{r: r, left: limit}
}

// Read returns data without dot-stuffing, and io.EOF after the end.
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
