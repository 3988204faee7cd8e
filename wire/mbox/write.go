package mbox

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Writer writes an mbox file in mboxrd format: LF lines, a From_ line before and an empty line after each message, and
// an additional ">" before each line that matches ">*From ". A Reader with Unquote and FinalBlankStrip returns the same
// messages, except that a missing final line break is added.
type Writer struct{ w *bufio.Writer }

// NewWriter returns a Writer to w. Call Flush at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 64<<10)} }

// Write appends one message with CRLF lines. An empty sender becomes MAILER-DAEMON, which RFC 4155 readers expect for
// the null sender. Blanks in the sender become dashes. date is written in UTC.
func (w *Writer) Write(sender string, date time.Time, raw []byte) error {
	if sender == "" {
		sender = "MAILER-DAEMON"
	}
	sender = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return '-'
		}
		return r
	}, sender)
	if _, err := w.w.WriteString("From " + sender + " " + date.UTC().Format(time.ANSIC) + "\n"); err != nil {
		return fmt.Errorf("write mbox: %w", err)
	}
	for len(raw) > 0 {
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line, raw = raw[:i], raw[i+1:]
			// A line that ends with a stray CR keeps its CRLF; otherwise a reader would take that CR for part of the
			// line end.
			if !bytes.HasSuffix(line, []byte("\r\r")) {
				line = bytes.TrimSuffix(line, []byte{'\r'})
			}
		} else {
			raw = nil
		}
		if bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte("From ")) {
			w.w.WriteByte('>') // bufio returns the error in the next call
		}
		w.w.Write(line)
		w.w.WriteByte('\n')
	}
	if err := w.w.WriteByte('\n'); err != nil {
		return fmt.Errorf("write mbox: %w", err)
	}
	return nil
}

// Flush writes buffered data.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write mbox: %w", err)
	}
	return nil
}
