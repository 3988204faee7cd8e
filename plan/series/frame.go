// Package series reads time series of servers: CSV, sar (sadf -d) and Prometheus. It brings them to intervals of 15
// minutes and finds what would make their figures wrong: gaps, doubles, clock changes, counters that reset, negative
// rates, mixed units, swapped columns. Each finding names file, line and column.
//
// Input is read as a stream. Only the values of the intervals are kept, in columns of 4 bytes a value.
package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Interval is the length of an interval in seconds: 15 minutes, as server.users.active15min counts.
const Interval = 900

// Frame holds the series of one server. Value i of a column is that of interval Start+i.
type Frame struct {
	Server string
	// Start numbers the first interval: its beginning in Unix time is Start*Interval.
	Start   int64
	columns map[string]*Column
	length  int
}

// Column is one series. A missing value is NaN.
type Column struct {
	Name   string
	Values []float32
	// File and Place locate the column: the file, and its number there, from 1.
	File  string
	Place int
	lines *lines
}

// lines holds the line of a file in which each interval begins. The columns of a server in a file share it.
type lines struct {
	start int64
	at    []int32
}

// mark notes the line of an interval. Intervals come in ascending order.
func (s *Set) mark(l *lines, interval int64, line int) error {
	if len(l.at) == 0 {
		l.start = interval
	}
	i := interval - l.start
	if i < 0 || i > maxIntervals {
		return nil
	}
	if err := s.grow(int(i) + 1 - len(l.at)); err != nil {
		return err
	}
	for int64(len(l.at)) <= i {
		l.at = append(l.at, 0)
	}
	if l.at[i] == 0 {
		l.at[i] = int32(min(line, math.MaxInt32))
	}
	return nil
}

// line returns the line of an interval, 0 if it is unknown.
func (l *lines) line(interval int64) int {
	if l == nil || interval < l.start || interval >= l.start+int64(len(l.at)) {
		return 0
	}
	return int(l.at[interval-l.start])
}

// Len returns the number of intervals.
func (f *Frame) Len() int { return f.length }

// Time returns the beginning of interval i.
func (f *Frame) Time(i int) time.Time { return time.Unix((f.Start+int64(i))*Interval, 0).UTC() }

// Column returns the series of that name, nil if there is none.
func (f *Frame) Column(name string) *Column { return f.columns[name] }

// Columns returns all series, sorted by name.
func (f *Frame) Columns() []*Column {
	out := make([]*Column, 0, len(f.columns))
	for _, c := range f.columns {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *Column) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// At returns a value, NaN if it is missing or there is no such column.
func (c *Column) At(i int) float64 {
	if c == nil || i < 0 || i >= len(c.Values) {
		return math.NaN()
	}
	return float64(c.Values[i])
}

var missing = float32(math.NaN())

// maxIntervals bounds a frame: 20 years. A wrong time stamp beyond it is an error, instead of memory for a century.
const maxIntervals = 20 * 366 * 96

// The memory of a set grows with the values that it holds, not with the times between them: freeCells cells of 4 bytes,
// and cellsOfValue more for each value. maxSeries bounds the columns of all servers together.
const (
	freeCells    = 1 << 25
	cellsOfValue = 8
	maxSeries    = 1 << 18
)

// grow accounts for cells that are about to be made. It returns an error instead of room for a few values that lie
// years apart.
func (s *Set) grow(cells int) error {
	if cells <= 0 {
		return nil
	}
	if s.cells += cells; s.cells > freeCells+cellsOfValue*s.stored {
		return errSparse
	}
	return nil
}

// slot returns the index of an interval and extends the frame to it.
func (s *Set) slot(f *Frame, interval int64) (int, error) {
	if f.length == 0 {
		f.Start = interval
	}
	if ahead := f.Start - interval; ahead > 0 {
		if ahead+int64(f.length) > maxIntervals {
			return 0, errSpan
		}
		if err := s.grow(int(ahead) * len(f.columns)); err != nil {
			return 0, err
		}
		for _, c := range f.columns {
			gap := make([]float32, ahead, int(ahead)+len(c.Values))
			for i := range gap {
				gap[i] = missing
			}
			c.Values = append(gap, c.Values...)
		}
		f.Start, f.length = interval, f.length+int(ahead)
	}
	i := interval - f.Start
	if i >= maxIntervals {
		return 0, errSpan
	}
	f.length = max(f.length, int(i)+1)
	return int(i), nil
}

// store stores a value. Values beyond the range of 4 bytes are an error: they would be infinite.
func (s *Set) store(c *Column, i int, v float64) error {
	if math.Abs(v) > math.MaxFloat32 {
		return fmt.Errorf("%s is %g: want less than %.2g", c.Name, v, math.MaxFloat32)
	}
	if err := s.grow(i + 1 - len(c.Values)); err != nil {
		return err
	}
	for len(c.Values) <= i {
		c.Values = append(c.Values, missing)
	}
	c.Values[i] = float32(v)
	s.stored++
	return nil
}

// column returns a column, which it adds if it is new.
func (f *Frame) column(name string) *Column {
	c := f.columns[name]
	if c == nil {
		c = &Column{Name: name}
		f.columns[name] = c
	}
	return c
}

// Severity grades a finding.
type Severity string

// The severities.
const (
	// Note: it was handled, and changes no figure.
	Note Severity = "note"
	// Warning: it was handled by leaving values out.
	Warning Severity = "warning"
	// Refused: figures made from this would be wrong. There is no result until it is mended.
	Refused Severity = "refused"
)

// Finding is something in the input that a reader has to know.
type Finding struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Text     string   `json:"text"`
	// Remedy is an instruction for the reader.
	Remedy string `json:"remedy,omitempty"`
	// More counts further findings of the kind.
	More int `json:"more,omitempty"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	out := f.File
	if f.Line > 0 {
		out += fmt.Sprintf(":%d", f.Line)
	}
	if f.Column > 0 {
		out += fmt.Sprintf(":%d", f.Column)
	}
	out = fmt.Sprintf("%s: %s: %s", f.Severity, out, f.Text)
	if f.More > 0 {
		out += fmt.Sprintf(" (and %d more)", f.More)
	}
	if f.Remedy != "" {
		out += "; " + f.Remedy
	}
	return out
}

// maxServers and maxFindings (of each severity) bound what hostile input makes us keep.
const (
	maxServers  = 10000
	maxFindings = 200
)

// Set holds the series of all servers.
type Set struct {
	frames   map[string]*Frame
	kinds    map[string]int
	findings []Finding
	// graded counts the findings of each severity, series the columns of all servers; cells and stored account for
	// memory.
	graded                map[Severity]int
	series, cells, stored int
	// Zone is the time zone of times without one, nil for UTC.
	Zone *time.Location
	// Processors is the number of processors of the servers, to turn shares of the machine into processor seconds. 0
	// reads it from the data if it can.
	Processors int
	states     map[string]*state
}

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{frames: map[string]*Frame{}, kinds: map[string]int{}, states: map[string]*state{},
		graded: map[Severity]int{}}
}

// Servers returns the frames, sorted by server.
func (s *Set) Servers() []*Frame {
	out := make([]*Frame, 0, len(s.frames))
	for _, f := range s.frames {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *Frame) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

// Frame returns the series of a server, nil if there are none.
func (s *Set) Frame(server string) *Frame { return s.frames[server] }

func (s *Set) frame(server string) (*Frame, error) {
	f := s.frames[server]
	if f == nil {
		if len(s.frames) >= maxServers {
			return nil, fmt.Errorf("more than %d servers: is the column server swapped with another?", maxServers)
		}
		f = &Frame{Server: server, columns: map[string]*Column{}}
		s.frames[server] = f
	}
	return f, nil
}

// find records a finding. Of each kind in a file the first one is kept, and the others are counted. Notes and warnings
// never displace a refusal: each severity has room of its own.
func (s *Set) find(kind string, f Finding) {
	key := f.File + "\x00" + kind
	if at, seen := s.kinds[key]; seen {
		s.findings[at].More++
		return
	}
	if s.graded[f.Severity] < maxFindings {
		s.graded[f.Severity]++
		s.kinds[key] = len(s.findings)
		s.findings = append(s.findings, f)
	}
}

// Findings returns what was found, the refused first.
func (s *Set) Findings() []Finding {
	out := slices.Clone(s.findings)
	rank := map[Severity]int{Refused: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return out
}

// Refusal returns the first finding that forbids a result, as an error, or nil.
func (s *Set) Refusal() error {
	for _, f := range s.Findings() {
		if f.Severity == Refused {
			return &InputError{f}
		}
	}
	return nil
}

// InputError is a finding that forbids a result.
type InputError struct{ Finding Finding }

func (e *InputError) Error() string { return e.Finding.String() }
