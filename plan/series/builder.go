package series

import (
	"fmt"
	"math"
	"time"
)

// state is the reading of one server's rows of one source.
type state struct {
	frame   *Frame
	columns []*Column
	specs   []spec

	prev    int64 // Unix time of the last row, 0 before the first
	newest  int64
	period  int64 // the shortest distance of rows
	raw     []float64
	last    []float64 // the last value of each counter, NaN before the first
	open    int64     // the interval that is being summed
	sum     []float64
	count   []int
	rows    int  // of the source
	inside  int  // of the open interval
	gap     bool // rows of the open interval are missing
	expects int
	line    int
	lines   *lines
}

// none marks that no interval is open.
const none = math.MinInt64

// begin returns the state of a server in a source.
func (s *Set) begin(file, server string, specs []spec, places []int) (*state, error) {
	key := file + "\x00" + server + "\x00" + specs[0].name
	if st := s.states[key]; st != nil {
		return st, nil
	}
	f, err := s.frame(server)
	if err != nil {
		return nil, err
	}
	n := len(specs)
	if s.series += n; s.series > maxSeries {
		return nil, fmt.Errorf("more than %d series: leave servers or columns out", maxSeries)
	}
	st := &state{frame: f, specs: specs, raw: make([]float64, n), last: make([]float64, n), sum: make([]float64, n),
		count: make([]int, n), open: none, lines: &lines{}}
	for i, sp := range specs {
		c := f.column(sp.name)
		if c.File != "" && c.File != file {
			return nil, fmt.Errorf("%s of %s is in two files, %s and this one: leave one out", sp.name, server, c.File)
		}
		c.File, c.Place, c.lines = file, places[i], st.lines
		st.columns = append(st.columns, c)
		st.last[i] = math.NaN()
	}
	s.states[key] = st
	return st, nil
}

// row adds a row: values are NaN where they are missing. t is the end of what the row measures.
func (s *Set) row(st *state, file string, line int, t int64, values []float64) error {
	if st.prev != 0 && t <= st.newest {
		s.backward(st, file, line, t, values)
		return nil
	}
	length := t - st.newest
	if st.prev == 0 {
		length = 0
	} else if st.period == 0 || length < st.period {
		st.period = length
	}
	if st.period > Interval+60 {
		s.find("long", Finding{Refused, file, line, 1, fmt.Sprintf("rows are %d s apart, at most %d s fit", st.period,
			Interval), "export the series with intervals of 15 minutes or less", 0})
	}
	if length > st.period*3/2 && length > Interval*3/2 {
		s.find(
			"gap of "+st.frame.Server,
			Finding{Warning, file, line, 1, fmt.Sprintf("no rows of %s for %s before this "+
				"one", st.frame.Server, time.Duration(length)*time.Second), "the intervals are left out", 0},
		)
	}
	interval := floorDiv(t-slack-1, Interval)
	gap := st.afterGap(length)
	st.gap = st.gap || gap
	if interval != st.open {
		if err := s.flush(st, file, line); err != nil {
			return err
		}
		st.open, st.gap = interval, gap
		if err := s.mark(st.lines, interval, line); err != nil {
			return fmt.Errorf("%s:%d:1: %w", file, line, err)
		}
	}
	copy(st.raw, values)
	for i := range st.specs {
		if v := s.amountOf(st, i, file, line, values[i], length); !math.IsNaN(v) {
			st.sum[i] += v
			st.count[i]++
		}
	}
	st.rows++
	st.inside++
	st.prev, st.newest, st.line = t, t, line
	return nil
}

// afterGap reports whether rows are missing before one that is length seconds after the row before.
func (st *state) afterGap(length int64) bool { return length > st.period*3/2 }

// slack is the number of seconds by which a row may be late and still belong to the interval before: sar writes at
// 08:15:01.
const slack = 5

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// backward handles a row whose time is not after the one before.
func (s *Set) backward(st *state, file string, line int, t int64, values []float64) {
	at := time.Unix(t, 0).UTC().Format(time.RFC3339)
	if t != st.prev {
		s.find("clock of "+st.frame.Server, Finding{Warning, file, line, 1, fmt.Sprintf("time goes back to %s, before "+
			"the row above: the clock was set, or rows are not in order", at),
			"the rows until the time of before are left out; sort the file by time if it is out of order", 0})
		st.prev = t
		return
	}
	for i, v := range values {
		same := v == st.raw[i] || math.IsNaN(v) && math.IsNaN(st.raw[i])
		if !same {
			s.find("double", Finding{Refused, file, line, i + 1, fmt.Sprintf("second row for %s of %s, with other "+
				"values", at, st.frame.Server), "leave one of the two out, or give --zone if times are local and the " +
				"clocks were put back", 0})
			return
		}
	}
	s.find("same", Finding{Note, file, line, 1, fmt.Sprintf("second row for %s of %s, the same", at, st.frame.Server),
		"it counts once", 0})
}

// wraps are the sizes of counters that start again at 0.
var wraps = []float64{1 << 32, 1 << 64}

// amountOf returns the contribution of a raw value to its interval, NaN if there is none. length is the time since the
// row before, 0 in the first.
func (s *Set) amountOf(st *state, i int, file string, line int, v float64, length int64) float64 {
	sp := &st.specs[i]
	if math.IsNaN(v) {
		if sp.counter {
			st.last[i] = v
		}
		return v
	}
	place := st.columns[i].Place
	if v < 0 {
		s.find(
			"negative "+sp.name,
			Finding{Warning, file, line, place, fmt.Sprintf("%s is %g: no rate or count is below 0",
				sp.name, v), "the value is left out", 0},
		)
		if sp.counter {
			st.last[i] = math.NaN()
		}
		return math.NaN()
	}
	switch {
	case sp.counter:
		before := st.last[i]
		st.last[i] = v
		if math.IsNaN(before) || st.afterGap(length) {
			return math.NaN() // an increase over a gap belongs to several intervals
		}
		if v < before {
			return s.reset(st, i, file, line, before, v)
		}
		return (v - before) * sp.scale
	case sp.perSec > 0:
		if length == 0 {
			return math.NaN() // how long the first row measured is not known
		}
		// After a gap the rate holds for its own interval only.
		if st.period > 0 {
			length = min(length, st.period)
		}
		return v * sp.perSec * sp.scale * float64(length)
	}
	return v * sp.scale
}

// reset handles a counter that fell: it wrapped, or its server was restarted.
func (s *Set) reset(st *state, i int, file string, line int, before, v float64) float64 {
	sp := &st.specs[i]
	for _, size := range wraps {
		if before < size && before > size*0.9 && v < size*0.1 {
			s.find(
				"wrap "+sp.name,
				Finding{Note, file, line, st.columns[i].Place, fmt.Sprintf("counter %s wrapped from "+
					"%.0f to %.0f", sp.name, before, v), "the increase was computed across the wrap", 0},
			)
			return (size - before + v) * sp.scale
		}
	}
	s.find(
		"reset "+sp.name,
		Finding{Warning, file, line, st.columns[i].Place, fmt.Sprintf("counter %s fell from %.0f to "+
			"%.0f: the server was restarted", sp.name, before, v), "the interval is left out", 0},
	)
	return math.NaN()
}

// flush stores the sums of the open interval.
func (s *Set) flush(st *state, file string, line int) error {
	if st.open == none {
		return nil
	}
	at, err := s.slot(st.frame, st.open)
	if err != nil {
		return fmt.Errorf("%s:%d:1: %w", file, st.line, err)
	}
	st.expects = max(1, st.expects)
	if st.period > 0 {
		st.expects = max(1, int(math.Round(float64(Interval)/float64(st.period))))
	}
	for i, c := range st.columns {
		n := st.count[i]
		value := st.sum[i]
		if st.specs[i].kind != amount {
			value /= float64(n)
		}
		switch {
		case n == 0:
		case st.specs[i].kind == amount && st.partial(n):
			s.find(
				"part "+st.frame.Server,
				Finding{Warning, file, line, c.Place, fmt.Sprintf("interval from %s has %d "+
					"of %d samples of %s", st.frame.Time(at).Format(time.RFC3339), n, st.expects, c.Name),
					"sums of such intervals are left out", 0},
			)
		default:
			if err := s.store(c, at, value); err != nil {
				return fmt.Errorf("%s:%d:%d: %w", file, st.line, c.Place, err)
			}
		}
		st.sum[i], st.count[i] = 0, 0
	}
	st.open, st.inside, st.gap = none, 0, false
	return nil
}

// partial reports whether n samples are less than the open interval has: a sum of them would be too small. Without a
// gap, a tenth of the samples may be missing, because those of a slow clock are.
func (st *state) partial(n int) bool {
	return n < st.inside || n < st.expects && (st.gap || n < st.expects-st.expects/10)
}

// finish stores what is open of a source.
func (s *Set) finish(file string) error {
	for key, st := range s.states {
		if len(key) > len(file) && key[:len(file)] == file && key[len(file)] == 0 {
			if err := s.flush(st, file, st.line); err != nil {
				return err
			}
		}
	}
	return nil
}
