package series

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// The bounds of a line and of the columns of a file.
const (
	maxLine    = 1 << 20
	maxColumns = 10000
)

// ReadCSV reads a CSV file: a line of names, then a row for each interval and server. The column time holds the end of
// the interval; the column server may be left out, and then server names the server. Fields are separated by comma,
// semicolon or tab.
func (s *Set) ReadCSV(r io.Reader, file, server string) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 256<<10), maxLine)
	t := &table{set: s, file: file, server: server, clock: clock{zone: s.Zone}}
	for in.Scan() {
		t.line++
		line := bytes.TrimSuffix(in.Bytes(), []byte("\r"))
		if t.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		var err error
		if t.specs == nil {
			err = t.head(string(line))
		} else {
			err = t.row(line)
		}
		if err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("%s:%d: line is over %d bytes: this is no table of series", file, t.line+1, maxLine)
		}
		return fmt.Errorf("%s:%d: %w", file, t.line+1, err)
	}
	if t.specs == nil {
		return fmt.Errorf("%s: empty: the first line names the columns, such as time,server,users,cpu", file)
	}
	return s.finish(file)
}

// table reads the rows of a CSV file.
type table struct {
	set       *Set
	file      string
	server    string
	line      int
	separator byte
	clock     clock
	// timeAt and serverAt are the numbers of the columns, from 0; serverAt is -1 without one. specAt is the number of
	// the spec of each column, -1 for those two.
	timeAt, serverAt int
	specAt           []int
	specs            []spec
	places           []int
	values           []float64
	name             string
	state            *state
	fields           [][]byte
}

func (t *table) fail(column int, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %w", t.file, t.line, column+1, fmt.Errorf(format, args...))
}

func (t *table) head(line string) error {
	t.separator = ','
	for _, c := range []byte{';', '\t'} {
		if strings.Count(line, string(c)) > strings.Count(line, string(t.separator)) {
			t.separator = c
		}
	}
	names := strings.Split(line, string(t.separator))
	if len(names) > maxColumns {
		return t.fail(maxColumns, "%d columns, at most %d", len(names), maxColumns)
	}
	t.timeAt, t.serverAt = -1, -1
	seen := map[string]int{}
	for i, name := range names {
		name = strings.Trim(strings.TrimSpace(name), `"`)
		t.specAt = append(t.specAt, -1)
		switch strings.ToLower(name) {
		case "time", "timestamp", "date":
			t.timeAt = i
			continue
		case "server", "host", "hostname":
			t.serverAt = i
			continue
		}
		sp, err := parseSpec(name)
		if err != nil {
			return t.fail(i, "%w", err)
		}
		if at, double := seen[sp.name]; double {
			return t.fail(i, "column %s is there already, as number %d: rename or remove one", sp.name, at+1)
		}
		seen[sp.name] = i
		t.specAt[i] = len(t.specs)
		t.specs, t.places = append(t.specs, sp), append(t.places, i+1)
	}
	switch {
	case t.timeAt < 0:
		return t.fail(0, "no column is named time: the first line must name the columns")
	case len(t.specs) == 0:
		return t.fail(0, "no column has values")
	}
	t.values = make([]float64, len(t.specs))
	return nil
}

func (t *table) row(line []byte) error {
	t.split(line)
	if len(t.fields) != len(t.specAt) {
		return t.fail(min(len(t.fields), len(t.specAt))-1, "%d fields, the head has %d", len(t.fields), len(t.specAt))
	}
	at, err := t.clock.parse(string(t.fields[t.timeAt]))
	if err != nil {
		return t.fail(t.timeAt, "%w", err)
	}
	if t.clock.folded {
		t.clock.folded = false
		t.set.find(
			"fold",
			Finding{Note, t.file, t.line, t.timeAt + 1, "clocks were put back here: the hour is there twice",
				"the second one is taken as the later one", 0},
		)
	}
	if err := t.who(); err != nil {
		return err
	}
	for i, field := range t.fields {
		if k := t.specAt[i]; k >= 0 {
			if t.values[k], err = t.number(field, k); err != nil {
				return t.fail(i, "%w", err)
			}
		}
	}
	return t.set.row(t.state, t.file, t.line, at, t.values)
}

// who finds the state of the server of the row.
func (t *table) who() (err error) {
	name := t.server
	if t.serverAt >= 0 {
		field := t.fields[t.serverAt]
		if t.state != nil && string(field) == t.name {
			return nil
		}
		name = strings.TrimSpace(string(field))
		if _, err := strconv.ParseFloat(name, 64); err == nil {
			return t.fail(t.serverAt, "server is the number %s: swapped columns? Correct the head", name)
		}
		t.name = string(field)
	} else if t.state != nil {
		return nil
	}
	if name == "" {
		name = "server"
	}
	t.state, err = t.set.begin(t.file, name, t.specs, t.places)
	if err != nil {
		return t.fail(max(0, t.serverAt), "%w", err)
	}
	return nil
}

// split cuts a line into fields. Quotes are removed; a separator within quotes does not cut.
func (t *table) split(line []byte) {
	t.fields = t.fields[:0]
	if bytes.IndexByte(line, '"') < 0 {
		for {
			i := bytes.IndexByte(line, t.separator)
			if i < 0 {
				t.fields = append(t.fields, line)
				return
			}
			t.fields, line = append(t.fields, line[:i]), line[i+1:]
		}
	}
	quoted, start := false, 0
	for i := 0; i <= len(line); i++ {
		switch {
		case i == len(line) || line[i] == t.separator && !quoted:
			t.fields = append(t.fields, bytes.Trim(line[start:i], `"`))
			start = i + 1
		case line[i] == '"':
			quoted = !quoted
		}
	}
}

// number parses a value: empty, - and nan are missing. A unit behind the number must be that of the head, or convert
// to it.
func (t *table) number(field []byte, k int) (float64, error) {
	if len(field) == 0 {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(field), len(field)), 64)
	if err == nil && !math.IsInf(v, 0) {
		return v, nil
	}
	text := strings.TrimSpace(string(field))
	switch strings.ToLower(text) {
	case "", "-", "nan", "null", "na", "n/a":
		return math.NaN(), nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) {
		return v, nil
	}
	end := strings.LastIndexAny(text, "0123456789.") + 1
	v, err = strconv.ParseFloat(strings.TrimSpace(text[:end]), 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is no number of %s: leave a missing value empty", clip(text), t.specs[k].name)
	}
	unit := strings.TrimSpace(text[end:])
	sp := &t.specs[k]
	from, ok := units[unit]
	to := units[sp.unit]
	switch {
	case unit == sp.unit:
		return v, nil
	case ok && sp.unit != "" && from.of == to.of:
		t.set.find(
			"unit "+sp.name,
			Finding{Note, t.file, t.line, t.places[k], fmt.Sprintf("%s is in %s here, in %s in the "+
				"head", sp.name, unit, sp.unit), "the value was converted", 0},
		)
		return v * from.factor / to.factor, nil
	}
	return 0, fmt.Errorf("%s has the unit %q here and %q in the head: give one unit in the head, as %s[%s]", sp.name,
		clip(unit), sp.unit, sp.name, clip(unit))
}

// clip shortens a text of the input for a message.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// clock parses the times of a file.
type clock struct {
	zone   *time.Location
	text   string
	last   int64
	folded bool
}

// layouts are the forms of times besides RFC 3339 and Unix time.
var layouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04",
	"2006/01/02 15:04:05", "2006-01-02 15:04:05 MST"}

// parse returns the Unix time of a text. A local time of the hour that clocks repeat is taken as the second one if it
// is not after the time before.
func (c *clock) parse(text string) (int64, error) {
	if text == c.text {
		return c.last, nil
	}
	t, local, err := c.read(strings.TrimSpace(text))
	if err != nil {
		return 0, err
	}
	if local && c.repeats(t-3600, t) {
		t -= 3600 // the library may choose either of the two
	}
	if local && c.last != 0 && t <= c.last && t+3600 > c.last {
		if c.repeats(t, t+3600) {
			t += 3600
			c.folded = true
		}
	}
	c.text, c.last = strings.Clone(text), t
	return t, nil
}

// repeats reports whether two times have the same hour and minute in the zone.
func (c *clock) repeats(a, b int64) bool {
	x, y := time.Unix(a, 0).In(c.zone), time.Unix(b, 0).In(c.zone)
	return x.Hour() == y.Hour() && x.Minute() == y.Minute()
}

func (c *clock) read(text string) (t int64, local bool, err error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at.Unix(), false, nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		if !(v >= 1e8 && v <= 1e11) { // NaN as well
			return 0, false, fmt.Errorf("time %s is no Unix time in seconds", clip(text))
		}
		return int64(v), false, nil
	}
	if at, err := time.Parse("2006-01-02 15:04:05 UTC", text); err == nil {
		return at.Unix(), false, nil
	}
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at.Unix(), c.zone != nil, nil
		}
	}
	return 0, false, fmt.Errorf("time %q: want 2026-11-25T08:15:00Z, 2026-11-25 08:15 or Unix seconds", clip(text))
}
