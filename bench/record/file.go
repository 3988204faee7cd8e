package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// line is one line of the file: exactly one field is set.
type line struct {
	Header   *Header   `json:"header,omitempty"`
	Step     *Step     `json:"step,omitempty"`
	Interval *Interval `json:"interval,omitempty"`
	Sample   *Sample   `json:"sample,omitempty"`
	Event    *Event    `json:"event,omitempty"`
	Verdict  *Verdict  `json:"verdict,omitempty"`
	End      *End      `json:"end,omitempty"`
}

// Writer writes a run file. Its methods may be called from any goroutine. After the first error they do nothing, and
// Err returns the error.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewWriter starts a run file with its header.
func NewWriter(w io.Writer, h Header) *Writer {
	h.Format = Format
	out := &Writer{w: w}
	out.put(line{Header: &h})
	return out
}

func (w *Writer) put(l line) {
	b, err := json.Marshal(l)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && err == nil {
		_, err = w.w.Write(append(b, '\n'))
	}
	w.err = errors.Join(w.err, err)
}

// Step writes a completed step.
func (w *Writer) Step(s Step) { w.put(line{Step: &s}) }

// Interval writes an interval.
func (w *Writer) Interval(i Interval) { w.put(line{Interval: &i}) }

// Sample writes a sample.
func (w *Writer) Sample(s Sample) { w.put(line{Sample: &s}) }

// Event writes an event.
func (w *Writer) Event(e Event) { w.put(line{Event: &e}) }

// Verdict writes the ledger's verdict on a server.
func (w *Writer) Verdict(v Verdict) { w.put(line{Verdict: &v}) }

// End writes the last line.
func (w *Writer) End(e End) { w.put(line{End: &e}) }

// Err returns the first write error.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Run is a run file in memory.
type Run struct {
	Header    Header
	Steps     []Step
	Intervals []Interval
	Samples   []Sample
	Events    []Event
	Verdicts  []Verdict
	// End is nil if the driver died before it wrote the last line.
	End *End
	// Torn means that the last line was incomplete and was ignored.
	Torn bool

	mu       sync.Mutex
	totals   map[totalKey]Total // computed when there were totalled intervals
	totalled int
}

// maxLine is the length limit of a line in bytes.
const maxLine = 8 << 20

// ErrFormat means that a file is no run file, or has a later version.
var ErrFormat = errors.New("record: not a run file that this version reads")

// Read reads a run file. It ignores a last line that is cut off; the error for any other malformed line names the line.
// It ignores unknown fields.
func Read(r io.Reader) (*Run, error) {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	s.Split(wholeLines)
	run := &Run{}
	n := 0
	for s.Scan() {
		n++
		b := s.Bytes()
		if b[len(b)-1] != '\n' {
			run.Torn = true
			break
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, n, err)
		}
		if n == 1 {
			if l.Header == nil || l.Header.Format < 1 || l.Header.Format > Format {
				return nil, fmt.Errorf("%w: line 1 is no header of format 1 to %d", ErrFormat, Format)
			}
			run.Header = *l.Header
			continue
		}
		run.add(&l)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, n+1, err)
	}
	if run.Header.Format == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	return run, nil
}

// wholeLines is bufio.ScanLines that keeps the line end, so that Read can detect a torn last line.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

func (r *Run) add(l *line) {
	switch {
	case l.Step != nil:
		r.Steps = append(r.Steps, *l.Step)
	case l.Interval != nil:
		r.Intervals = append(r.Intervals, *l.Interval)
	case l.Sample != nil:
		r.Samples = append(r.Samples, *l.Sample)
	case l.Event != nil:
		r.Events = append(r.Events, *l.Event)
	case l.Verdict != nil:
		r.Verdicts = append(r.Verdicts, *l.Verdict)
	case l.End != nil:
		r.End = l.End
	}
}

// Write writes a run as a file; merged runs are stored this way.
func (r *Run) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	out := NewWriter(b, r.Header)
	for _, s := range r.Samples {
		out.Sample(s)
	}
	for _, i := range r.Intervals {
		out.Interval(i)
	}
	for _, e := range r.Events {
		out.Event(e)
	}
	for _, s := range r.Steps {
		out.Step(s)
	}
	for _, v := range r.Verdicts {
		out.Verdict(v)
	}
	if r.End != nil {
		out.End(*r.End)
	}
	return errors.Join(out.Err(), b.Flush())
}
