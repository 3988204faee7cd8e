package imap

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrClose means that the connection must be closed, because resynchronisation would cost too much.
var ErrClose = errors.New("imap: too much to discard")

// firstSize is the number of bytes that a Reader without a buffer reads at once. Most commands fit.
const firstSize = 128

const bufferSize = 4096

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// source reads lines and literals from a stream. While it waits for a first byte it holds no buffer except its own 128
// bytes, so idle sessions need little memory.
type source struct {
	src   io.Reader
	buf   []byte // first[:] or a pooled buffer; nil while nothing is buffered
	r, w  int    // buf[r:w] is unread
	pool  *[bufferSize]byte
	first [firstSize]byte
}

// Buffered returns the number of bytes that have arrived but are not read. While it is not 0, a server may delay its
// responses to send several at once.
func (r *source) Buffered() int { return r.w - r.r }

// Wait blocks until at least one byte has arrived. After an error, such as a timeout, the reader is still usable.
func (r *source) Wait() error {
	if r.r < r.w {
		return nil
	}
	r.release()
	return r.fill()
}

func (r *source) release() {
	if r.r < r.w {
		return
	}
	if r.pool != nil {
		buffers.Put(r.pool)
		r.pool = nil
	}
	r.buf, r.r, r.w = nil, 0, 0
}

// fill reads into an empty buffer. The first read of a command uses the small array; only a longer command takes a
// pooled buffer.
func (r *source) fill() error {
	switch {
	case r.buf == nil:
		r.buf = r.first[:]
	case r.pool == nil:
		r.pool = buffers.Get().(*[bufferSize]byte)
		r.buf = r.pool[:]
	}
	r.r, r.w = 0, 0
	for range 100 {
		n, err := r.src.Read(r.buf)
		if n > 0 {
			r.w = n
			return nil
		}
		if err != nil {
			r.release()
			return err
		}
	}
	return io.ErrNoProgress
}

// line is a command line while it is read.
type line struct {
	text []byte
	// tail holds the end of a line whose rest was dropped, because it may announce a literal.
	tail    [32]byte
	tailLen int
	dropped int64
	over    bool
}

// keepTail appends p to the tail.
func (l *line) keepTail(p []byte) {
	if len(p) >= len(l.tail) {
		l.tailLen = copy(l.tail[:], p[len(p)-len(l.tail):])
		return
	}
	if over := l.tailLen + len(p) - len(l.tail); over > 0 {
		l.tailLen = copy(l.tail[:], l.tail[over:l.tailLen])
	}
	l.tailLen += copy(l.tail[l.tailLen:], p)
}

// add adds a piece of the line that begins at start in the text. From the piece on that makes the line longer than max,
// it keeps only the tail.
func (l *line) add(piece []byte, start, max int) {
	// The line may have one more byte than max: the CR.
	if !l.over && len(l.text)-start+len(piece) > max+1 {
		l.over = true
		l.keepTail(l.text[start:])
	}
	if l.over {
		l.keepTail(piece)
		l.dropped += int64(len(piece))
	} else {
		l.text = append(l.text, piece...)
	}
}

// dropCR removes the CR at the end of the line that begins at start in the text.
func (l *line) dropCR(start int) {
	if l.over {
		if l.tailLen > 0 && l.tail[l.tailLen-1] == '\r' {
			l.tailLen--
		}
	} else if n := len(l.text); n > start && l.text[n-1] == '\r' {
		l.text = l.text[:n-1]
	}
}

// readLine appends one line without its end to l.text, at most max bytes. It sets l.over for a longer line and drops
// it, up to drop bytes.
func (r *source) readLine(l *line, max int, drop int64) error {
	start := len(l.text)
	for {
		if r.r == r.w {
			if err := r.fill(); err != nil {
				if err == io.EOF && (len(l.text) > 0 || l.over) {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
		}
		chunk := r.buf[r.r:r.w]
		end := bytes.IndexByte(chunk, '\n')
		if end >= 0 {
			chunk = chunk[:end]
		}
		r.r += len(chunk)
		if l.add(chunk, start, max); l.dropped > drop {
			return ErrClose
		}
		if end >= 0 {
			r.r++
			l.dropCR(start)
			return nil
		}
	}
}

// readLiteral appends n bytes to dst. Memory grows with the data that arrives, not with the announced size.
func (r *source) readLiteral(dst []byte, n int) ([]byte, error) {
	for n > 0 {
		if r.r == r.w {
			if err := r.fill(); err != nil {
				return dst, unexpected(err)
			}
		}
		k := min(n, r.w-r.r)
		dst = append(dst, r.buf[r.r:r.r+k]...)
		r.r += k
		n -= k
	}
	return dst, nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *source) discard(n int64) error {
	for n > 0 {
		if r.r == r.w {
			if err := r.fill(); err != nil {
				return unexpected(err)
			}
		}
		k := min(n, int64(r.w-r.r))
		r.r += int(k)
		n -= k
	}
	return nil
}

// literal is the announcement of a literal at the end of a line.
type literal struct {
	at              int // position of the "~" or "{"
	size            int64
	nonSync, binary bool
}

// literalAtEnd looks for {n} or {n+} at the end, with an optional ~ before it.
func literalAtEnd(b []byte) (lit literal, ok bool) {
	i := len(b) - 1
	if i < 2 || b[i] != '}' {
		return lit, false
	}
	i--
	if b[i] == '+' {
		lit.nonSync = true
		i--
	}
	var scale int64 = 1
	digits := 0
	for ; i >= 0 && b[i] >= '0' && b[i] <= '9'; i-- {
		if digits++; digits > 18 {
			lit.size = 1 << 62 // larger than every limit
			continue
		}
		lit.size += int64(b[i]-'0') * scale
		scale *= 10
	}
	if digits == 0 || i < 0 || b[i] != '{' {
		return lit, false
	}
	lit.at = i
	if i > 0 && b[i-1] == '~' {
		lit.binary = true
		lit.at--
	}
	return lit, true
}
