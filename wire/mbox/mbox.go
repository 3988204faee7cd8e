// Package mbox reads and writes mbox files (RFC 4155; optionally the mboxrd variant), in which each message follows a
// line "From sender date". It streams: memory is limited by Options.MaxSize, whatever the size of the file. The reader
// returns messages with CRLF lines.
package mbox

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"doublet/wire/mime"
)

// Errors of Next. After ErrTooLarge the next message can be read.
var (
	// ErrTooLarge means that the message was larger than Options.MaxSize and was skipped.
	ErrTooLarge = errors.New("mbox: message too large")
	// ErrNoFromLine means that the file does not start with a From_ line, and Options.Bare is not set.
	ErrNoFromLine = errors.New("mbox: no From line")
)

// DefaultMaxSize is the default of Options.MaxSize.
const DefaultMaxSize = 50 << 20

// maxFromLine limits the bytes of a From_ line that are kept.
const maxFromLine = 1000

// FinalBlank defines the role of the empty line at the end of the file. Before a From_ line, an empty line is always a
// separator.
type FinalBlank uint8

const (
	// FinalBlankAuto: a separator as in RFC 4155, unless the file has only one message. Such files often don't come
	// from an mbox writer, so their last line is part of the message.
	FinalBlankAuto FinalBlank = iota
	// FinalBlankKeep: part of the last message.
	FinalBlankKeep
	// FinalBlankStrip: a separator.
	FinalBlankStrip
)

// Options configures a Reader. The zero value suits the import of files of unknown origin, except that Bare is not set.
type Options struct {
	// MaxSize is the maximum size of a message in bytes, with CRLF lines; 0 means DefaultMaxSize.
	MaxSize int
	// Unquote removes one ">" from lines that match ">+From " (mboxrd). If it is not set, lines stay unchanged.
	Unquote bool
	// Bare accepts a file without any From_ line as one message. If it is not set, Next returns ErrNoFromLine.
	Bare       bool
	FinalBlank FinalBlank
	// Reserve, if not nil, is called once for each message of more than Large bytes, before memory for more than that
	// is allocated. Next returns its error.
	Reserve func() error
	Large   int
}

// Message is one message of the file.
type Message struct {
	// Raw is the message with CRLF lines, without its From_ line. It is valid until the next call of Next. A CR without
	// LF is kept.
	Raw []byte
	// Sender and Date come from the From_ line; empty and zero if absent.
	Sender string
	Date   time.Time
	// Number counts from 1. Offset is the position of the message (its From_ line) in the file.
	Number int
	Offset int64
	// Size is the length of Raw, even if the message is too large.
	Size int64
}

// Reader splits one file into messages.
type Reader struct {
	r      *bufio.Reader
	opt    Options
	buf    []byte
	number int
	offset int64 // of the next unread byte

	from   []byte // From_ line of the next message
	fromAt int64
	opened bool
	ended  bool
}

// NewReader returns a Reader of r with its own buffer.
func NewReader(r io.Reader, opt Options) *Reader {
	if opt.MaxSize <= 0 {
		opt.MaxSize = DefaultMaxSize
	}
	return &Reader{r: bufio.NewReaderSize(r, 64<<10), opt: opt}
}

// Next returns the next message, or io.EOF after the last. With ErrTooLarge, the Message has all fields but Raw. Errors
// of the underlying reader are returned unchanged; the data of the current message is lost.
func (r *Reader) Next() (Message, error) {
	if !r.opened {
		if err := r.open(); err != nil {
			return Message{}, err
		}
		r.opened = true
	}
	if r.ended {
		return Message{}, io.EOF
	}
	r.number++
	m := Message{Number: r.number, Offset: r.fromAt}
	m.Sender, m.Date = parseFrom(r.from)
	if err := r.body(&m); err != nil {
		return m, err
	}
	m.Raw = r.buf
	return m, nil
}

// Take returns a copy of the last message's Raw that stays valid. A message of more than Options.Large bytes is not
// copied: the Reader gives its buffer away.
func (r *Reader) Take() []byte {
	if r.opt.Reserve == nil || len(r.buf) <= r.opt.Large {
		return bytes.Clone(r.buf)
	}
	raw := r.buf
	r.buf = nil
	return raw
}

// open skips empty lines and reads the first From_ line.
func (r *Reader) open() error {
	for {
		b, err := r.r.Peek(5)
		if len(b) == 0 {
			if err == io.EOF {
				r.ended = true
				return nil
			}
			return err
		}
		if err != nil && err != io.EOF {
			return err
		}
		switch {
		case b[0] == '\n' || b[0] == '\r' && len(b) > 1 && b[1] == '\n':
			n, err := r.r.Discard(1 + bytes.IndexByte(b, '\n'))
			r.offset += int64(n)
			if err != nil {
				return err
			}
			continue
		case string(b) == "From ":
			line, _, err := r.line()
			if err != nil {
				return err
			}
			r.keepFrom(line)
			return r.restOfLine(line)
		case r.opt.Bare:
			r.from, r.fromAt = r.from[:0], r.offset
			return nil
		}
		r.ended = true
		return ErrNoFromLine
	}
}

// line reads a line, or a piece of a longer one. whole reports whether the piece ends with LF or at the end of the
// file.
func (r *Reader) line() (piece []byte, whole bool, err error) {
	piece, err = r.r.ReadSlice('\n')
	r.offset += int64(len(piece))
	switch {
	case err == bufio.ErrBufferFull:
		return piece, false, nil
	case err == io.EOF && len(piece) > 0:
		return piece, true, nil
	}
	return piece, true, err
}

// restOfLine skips the rest of a line that starts with piece.
func (r *Reader) restOfLine(piece []byte) error {
	for len(piece) > 0 && piece[len(piece)-1] != '\n' {
		next, whole, err := r.line()
		if err == io.EOF || err == nil && whole {
			return nil
		}
		if err != nil {
			return err
		}
		piece = next
	}
	return nil
}

func (r *Reader) keepFrom(line []byte) {
	r.fromAt = r.offset - int64(len(line))
	r.from = append(r.from[:0], line[:min(len(line), maxFromLine)]...)
}

// body reads lines up to the next From_ line into buf.
func (r *Reader) body(m *Message) error {
	r.buf = r.buf[:0]
	w := bodyWriter{r: r, m: m}
	// blank: the previous line is empty; start: at the start of a line.
	blank, start := false, true
	for {
		if w.refused != nil {
			return w.refused
		}
		piece, whole, err := r.line()
		if err == io.EOF {
			r.ended = true
			return r.finish(m, r.finalBlank(m.Number), blank)
		}
		if err != nil {
			return err
		}
		if start && blank && isFrom(piece) {
			r.keepFrom(piece)
			if err := r.restOfLine(piece); err != nil {
				return err
			}
			return r.finish(m, true, blank)
		}
		if start {
			blank = whole && (string(piece) == "\n" || string(piece) == "\r\n")
			if r.opt.Unquote && quotedFrom(piece) {
				piece = piece[1:]
			}
		}
		start = w.line(piece)
	}
}

// bodyWriter adds a message's lines to the reader's buffer, with CRLF at their ends.
type bodyWriter struct {
	r       *Reader
	m       *Message
	last    byte // last byte added, even if it was not kept
	refused error
}

// line adds a piece of a line, and reports whether the line ends with it.
func (w *bodyWriter) line(piece []byte) (ends bool) {
	text, ends := bytes.CutSuffix(piece, []byte{'\n'})
	w.add(text)
	if !ends {
		return false
	}
	if w.last != '\r' {
		w.add([]byte{'\r'})
	}
	w.add([]byte{'\n'})
	return true
}

// add counts b and keeps it as long as the message is not too large.
func (w *bodyWriter) add(b []byte) {
	if len(b) > 0 {
		w.last = b[len(b)-1]
	}
	r, before := w.r, w.m.Size
	if w.m.Size += int64(len(b)); w.m.Size > int64(r.opt.MaxSize) || w.refused != nil {
		return
	}
	if large := int64(r.opt.Large); r.opt.Reserve != nil && before <= large && w.m.Size > large {
		if w.refused = r.opt.Reserve(); w.refused != nil {
			return
		}
	}
	r.grow(len(b))
	r.buf = append(r.buf, b...)
}

// grow makes room for n bytes. It doubles the buffer, but not beyond the largest message.
func (r *Reader) grow(n int) {
	if need := len(r.buf) + n; need > cap(r.buf) {
		r.buf = append(make([]byte, 0, max(need, min(2*cap(r.buf), r.opt.MaxSize))), r.buf...)
	}
}

// finalBlank reports whether the empty line at the end of the file is a separator.
func (r *Reader) finalBlank(number int) bool {
	return r.opt.FinalBlank == FinalBlankStrip || r.opt.FinalBlank == FinalBlankAuto && number > 1
}

// finish removes the separating empty line.
func (r *Reader) finish(m *Message, separated, blank bool) error {
	if separated && blank && m.Size >= 2 {
		m.Size -= 2
		r.buf = r.buf[:min(int64(len(r.buf)), m.Size)]
	}
	if m.Size > int64(r.opt.MaxSize) || int64(len(r.buf)) != m.Size {
		r.buf = nil // do not keep a large buffer for one message
		return ErrTooLarge
	}
	return nil
}

// isFrom reports whether a line after an empty line starts a message: "From " with a date in asctime format. A sentence
// that starts with "From" has no date.
func isFrom(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("From ")) {
		return false
	}
	_, date := parseFrom(line[:min(len(line), maxFromLine)])
	return !date.IsZero()
}

// quotedFrom reports whether a line matches ">+From ".
func quotedFrom(line []byte) bool {
	rest := bytes.TrimLeft(line, ">")
	return len(rest) < len(line) && bytes.HasPrefix(rest, []byte("From "))
}

// parseFrom parses "From sender date". The sender may be quoted or missing. An invalid date is zero.
func parseFrom(line []byte) (sender string, date time.Time) {
	rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("From "))
	if !ok {
		return "", time.Time{}
	}
	rest = bytes.TrimLeft(rest, " ")
	end := bytes.IndexByte(rest, ' ')
	if len(rest) > 0 && rest[0] == '"' {
		if n := bytes.LastIndexByte(rest, '"'); n > 0 {
			if end = bytes.IndexByte(rest[n:], ' '); end >= 0 {
				end += n
			}
		}
	}
	if end < 0 {
		return string(rest), time.Time{}
	}
	if t, ok := mime.ParseDate(string(rest[end:])); ok {
		return string(rest[:end]), t
	}
	return string(rest[:end]), time.Time{}
}
