package mbox

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Writer writes an mbox file in the mboxrd form: LF lines, a From_ line before and an empty line behind each
// message, one ">" more before each line that matches ">*From ". A Reader with Unquote and FinalBlankStrip
// gives the messages back, but for this: a message that does not end with a line break gets one.
type Writer struct{ w *bufio.Writer }

// NewWriter writes to w. Flush must be called at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 64<<10)} }

// Write appends one message of CRLF lines. An empty sender becomes MAILER-DAEMON, as RFC 4155 readers expect of
// the null sender; blanks in it become dashes. date is written in UTC.
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
			// A line that ends with a stray CR keeps its CRLF, else that CR would be read as part of it.
			if !bytes.HasSuffix(line, []byte("\r\r")) {
				line = bytes.TrimSuffix(line, []byte{'\r'})
			}
		} else {
			raw = nil
		}
		if bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte("From ")) {
			w.w.WriteByte('>') // bufio keeps the error for the next call
		}
		w.w.Write(line)
		w.w.WriteByte('\n')
	}
	if err := w.w.WriteByte('\n'); err != nil {
		return fmt.Errorf("write mbox: %w", err)
	}
	return nil
}

// Flush writes out what is buffered.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write mbox: %w", err)
	}
	return nil
}
