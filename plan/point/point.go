// Package point holds the measured steps of benchmark runs as plan reads them: from run files, or from a table.
package point

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Point is one step of a run: a number of users, and what they got and cost.
type Point struct {
	// Run names the run: the file, or the column run of a table. Line is the line of a table.
	Run  string
	Line int
	// Target, Workload and Protocol say what was measured.
	Target, Workload, Protocol string
	// Outcome is measured, or why the step must not be used; Reason explains it.
	Outcome, Reason string
	Users           int
	// Speed is the factor by which think times were shortened: Users at Speed 20 ask as much as 20 times as many.
	Speed float64
	// Processors and Partitions are those of the server.
	Processors, Partitions int
	// Guests is the number of virtual machines, or of what stands in for them, that share the processors, 0 without.
	// Virtual is the number of virtual processors that they have together.
	Guests  int
	Virtual float64
	// Rate is the completed user actions a second (ETR).
	Rate float64
	// Average and P99 are response times in seconds, NaN if they are unknown.
	Average, P99 float64
	// Use is the use of resources by name: see Resources.
	Use map[string]float64
	// Servers is the processor use of each server of a cluster, in cores, by its name.
	Servers map[string]float64
	// Marks are the deviations of the run from one by the book.
	Marks []string
}

// Measured is the outcome of a step that counts.
const Measured = "measured"

// Outcomes lists the other outcomes. Steps with them are used only by name.
func Outcomes() []string { return []string{"unsteady", "driver-bound", "interrupted", "discarded"} }

// The resources of a point.
const (
	CPU       = "cpu_cores" // processors that the server's processes used
	Memory    = "memory_mb"
	DiskRead  = "disk_read_mb_s"
	DiskWrite = "disk_write_mb_s"
	DiskOps   = "disk_ops_s"
	DiskBusy  = "disk_busy_pct"
	Network   = "network_kb_s"
)

// Resources lists the resources.
func Resources() []string {
	return []string{CPU, Memory, DiskRead, DiskWrite, DiskOps, DiskBusy, Network}
}

// Ratio returns the virtual processors for each real one, 1 without guests.
func (p *Point) Ratio() float64 {
	if p.Guests == 0 {
		return 1
	}
	return p.Virtual / float64(p.Processors)
}

// Load returns the users at the workload's own speed that ask as much.
func (p *Point) Load() float64 { return float64(p.Users) * p.Speed }

// Share returns the share of the processors that was used, in percent; NaN if it is unknown.
func (p *Point) Share() float64 {
	cpu, ok := p.Use[CPU]
	if !ok || p.Processors <= 0 {
		return math.NaN()
	}
	return cpu / float64(p.Processors) * 100
}

// ITR returns the rate if the server used all its processors: ETR / CPU % × 100. NaN if it is unknown.
func (p *Point) ITR() float64 { return p.Rate / p.Share() * 100 }

// place names a point for a message.
func (p *Point) place() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d, %d users", p.Run, p.Line, p.Users)
	}
	return fmt.Sprintf("%s, %d users", p.Run, p.Users)
}

// ErrPoints means that points must not be used, or not together.
var ErrPoints = errors.New("steps cannot be used")

// Usable returns the measured points. It refuses all if any run has none, or if a point was unsteady, driver-bound or
// interrupted, unless outcomes names its outcome; the point is marked then. Discarded steps, whose answers came too
// late, are left out. An outcome that does not exist is refused.
func Usable(points []Point, outcomes ...string) ([]Point, error) {
	for _, o := range outcomes {
		if !slices.Contains(Outcomes(), o) {
			return nil, fmt.Errorf("%w: --use %q: want %s", ErrPoints, o, strings.Join(Outcomes(), ", "))
		}
	}
	var out []Point
	for _, p := range points {
		switch {
		case p.Outcome == Measured:
			out = append(out, p)
		case slices.Contains(outcomes, p.Outcome):
			mark := fmt.Sprintf("%s is used although it was %s", p.place(), p.Outcome)
			if p.Reason != "" {
				mark += ": " + p.Reason
			}
			p.Marks = append(slices.Clone(p.Marks), mark)
			out = append(out, p)
		case p.Outcome == "discarded":
		default:
			return nil, fmt.Errorf("%w: %s was %s (%s): measure it again, or name it with --use %s", ErrPoints,
				p.place(), p.Outcome, p.Reason, p.Outcome)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: none of %d was measured", ErrPoints, len(points))
	}
	return out, nil
}

// Marks returns the marks of points, each once.
func Marks(points []Point) (out []string) {
	for i := range points {
		for _, m := range points[i].Marks {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

// Same refuses points that differ in something, such as the number of processors, which what names.
func Same[T comparable](points []Point, what string, of func(*Point) T) error {
	for i := range points {
		if a, b := &points[0], &points[i]; of(a) != of(b) {
			return fmt.Errorf("%w together: they differ in %s: %v in %s, %v in %s", ErrPoints, what, of(a), a.place(),
				of(b), b.place())
		}
	}
	return nil
}

// SameWork refuses points of other workloads, protocols or speeds: what a user of one does is not what one of another
// does.
func SameWork(points []Point) error {
	return errors.Join(
		Same(points, "workload", func(p *Point) string { return p.Workload }),
		Same(points, "protocol", func(p *Point) string { return p.Protocol }),
		Same(points, "speed", func(p *Point) float64 { return p.Speed }))
}

// SameGuests refuses points of other guests, or of guests with other virtual processors.
func SameGuests(points []Point) error {
	return errors.Join(
		Same(points, "guests", func(p *Point) int { return p.Guests }),
		Same(points, "virtual processors", func(p *Point) float64 { return p.Virtual }))
}

// whole are the largest values of the columns that count something; largest is that of any other column.
var whole = map[string]float64{"users": 1e8, "processors": 4096, "partitions": 1e5, "guests": 1e5}

const largest = 1e12

// numeric are the columns of a table and where they go. Resources have their own names.
var numeric = map[string]func(p *Point, v float64){
	"users":      func(p *Point, v float64) { p.Users = int(v) },
	"speed":      func(p *Point, v float64) { p.Speed = v },
	"processors": func(p *Point, v float64) { p.Processors = int(v) },
	"partitions": func(p *Point, v float64) { p.Partitions = int(v) },
	"guests":     func(p *Point, v float64) { p.Guests = int(v) },
	"virtual":    func(p *Point, v float64) { p.Virtual = v },
	"tpm":        func(p *Point, v float64) { p.Rate = v / 60 },
	"etr":        func(p *Point, v float64) { p.Rate = v },
	"average_ms": func(p *Point, v float64) { p.Average = v / 1000 },
	"p99_ms":     func(p *Point, v float64) { p.P99 = v / 1000 },
}

var words = map[string]func(p *Point, s string){
	"run": func(p *Point, s string) { p.Run = s }, "target": func(p *Point, s string) { p.Target = s },
	"workload": func(p *Point, s string) { p.Workload = s }, "protocol": func(p *Point, s string) { p.Protocol = s },
	"outcome": func(p *Point, s string) { p.Outcome = s },
}

// maxRows bounds a table.
const maxRows = 5000

// ReadTable reads a table of steps: a line of names, such as
// run,users,processors,partitions,tpm,cpu_pct,average_ms,p99_ms, and a row for each step.
func ReadTable(r io.Reader, file string) ([]Point, error) {
	in := csv.NewReader(r)
	in.Comment, in.TrimLeadingSpace = '#', true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: no table of steps: %w", file, err)
	}
	for i, name := range head {
		if numeric[name] == nil && words[name] == nil && name != "cpu_pct" && !slices.Contains(Resources(), name) {
			line, column := in.FieldPos(i)
			return nil, fmt.Errorf("%s:%d:%d: unknown column %q: see doublet plan scaling --help", file, line, column,
				name)
		}
	}
	if !slices.Contains(head, "users") {
		return nil, fmt.Errorf("%s:1: no column users", file)
	}
	var out []Point
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(out) >= maxRows {
			return nil, fmt.Errorf("%s: more than %d rows: this is no table of steps", file, maxRows)
		}
		p, err := row(in, file, head, fields)
		if err != nil {
			return nil, err
		}
		out = append(out, *p)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no steps", file)
	}
	return out, nil
}

// number parses a value of a column.
func number(column, text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	most, counts := whole[column]
	switch {
	case err != nil || math.IsNaN(v) || v < 0:
		return 0, fmt.Errorf("%q is no number of %s", text, column)
	case counts && v != math.Trunc(v):
		return 0, fmt.Errorf("%q is no whole number of %s", text, column)
	case counts && v > most || v > largest:
		return 0, fmt.Errorf("%s is %s: want at most %g", column, text, cmp.Or(most, largest))
	case column == "speed" && v == 0:
		return 0, fmt.Errorf("speed is %s: want more than 0", text)
	}
	return v, nil
}

func row(in *csv.Reader, file string, head, fields []string) (*Point, error) {
	p := &Point{Run: file, Outcome: Measured, Speed: 1, Partitions: 1, Average: math.NaN(), P99: math.NaN(),
		Use: map[string]float64{}}
	p.Line, _ = in.FieldPos(0)
	share := math.NaN()
	for i, text := range fields {
		if text == "" {
			continue
		}
		if set := words[head[i]]; set != nil {
			set(p, text)
			continue
		}
		v, err := number(head[i], text)
		if err != nil {
			line, column := in.FieldPos(i)
			return nil, fmt.Errorf("%s:%d:%d: %w", file, line, column, err)
		}
		switch set := numeric[head[i]]; {
		case set != nil:
			set(p, v)
		case head[i] == "cpu_pct":
			if v > 100 {
				line, column := in.FieldPos(i)
				return nil, fmt.Errorf(
					"%s:%d:%d: cpu_pct is %s: want the share of all processors, at most 100",
					file,
					line,
					column,
					text,
				)
			}
			share = v
		default:
			p.Use[head[i]] = v
		}
	}
	if p.Outcome != Measured && !slices.Contains(Outcomes(), p.Outcome) {
		return nil, fmt.Errorf("%s:%d: outcome %q: want %s, %s", file, p.Line, p.Outcome, Measured,
			strings.Join(Outcomes(), ", "))
	}
	if (p.Guests > 0) != (p.Virtual > 0) {
		return nil, fmt.Errorf("%s:%d: %d guests with %g virtual processors: want both or neither", file, p.Line,
			p.Guests, p.Virtual)
	}
	if p.Users <= 0 {
		return nil, fmt.Errorf("%s:%d: users is %d: want a number above 0", file, p.Line, p.Users)
	}
	if !math.IsNaN(share) {
		p.Processors = max(p.Processors, 1)
		p.Use[CPU] = share / 100 * float64(p.Processors)
	}
	return p, nil
}
