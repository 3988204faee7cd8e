package directory

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"doublet/note"
)

// Limits of CSV input.
const (
	maxRow     = 256 << 10 // approximate bytes of one row
	maxColumns = 64
)

// columns holds the columns that ReadPeople accepts. Semicolons separate several values in one field.
var columns = map[string]func(*PersonSpec, string) error{
	"fullname":     func(p *PersonSpec, s string) error { p.FullName = several(s); return nil },
	"shortname":    func(p *PersonSpec, s string) error { p.ShortName = s; return nil },
	"address":      func(p *PersonSpec, s string) error { p.InternetAddress = s; return nil },
	"aliases":      func(p *PersonSpec, s string) error { p.MailAddress = several(s); return nil },
	"roles":        func(p *PersonSpec, s string) error { p.Roles = several(s); return nil },
	"password":     func(p *PersonSpec, s string) error { p.Password = s; return nil },
	"scram":        func(p *PersonSpec, s string) error { return truth(&p.Scram, s) },
	"disabled":     func(p *PersonSpec, s string) error { return truth(&p.Disabled, s) },
	"quota":        func(p *PersonSpec, s string) error { return size(&p.Quota, s) },
	"warning":      func(p *PersonSpec, s string) error { return size(&p.Warning, s) },
	"sizelimit":    func(p *PersonSpec, s string) error { return size(&p.SizeLimit, s) },
	"maildatabase": func(p *PersonSpec, s string) (err error) { p.MailDatabase, err = databaseID(s); return err },
}

const columnNames = "fullname, shortname, address, aliases, roles, password, scram, disabled, quota, warning, " +
	"sizelimit, maildatabase"

// ReadPeople reads CSV (RFC 4180, UTF-8). The first row names the columns: fullname, shortname, address, aliases,
// roles, password, scram, disabled, quota, warning, sizelimit and maildatabase, in any order and case. One of fullname
// and shortname is required. It calls fn for each row. For a malformed row it passes the error to fn. If fn returns an
// error, ReadPeople stops and returns it. A row longer than 256 KB ends the input with an error.
func ReadPeople(r io.Reader, fn func(line int, spec PersonSpec, err error) error) error {
	lim := &rowLimit{r: r, left: maxRow}
	br := bufio.NewReader(lim)
	if bom, err := br.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		_, _ = br.Discard(3)
	}
	c := csv.NewReader(br)
	c.FieldsPerRecord, c.ReuseRecord, c.TrimLeadingSpace = -1, true, true
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("%w CSV: header row: %w", ErrInvalid, err)
	}
	set, err := readHeader(header)
	if err != nil {
		return err
	}
	for {
		lim.left = maxRow
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var syntax *csv.ParseError
		if err != nil && !errors.As(err, &syntax) {
			return fmt.Errorf("directory: read CSV: %w", err)
		}
		var spec PersonSpec
		var line int
		if err != nil {
			line, err = syntax.StartLine, fmt.Errorf("%w CSV: %w", ErrInvalid, err)
		} else {
			line, _ = c.FieldPos(0)
			err = readRow(&spec, set, row)
		}
		if err := fn(line, spec, err); err != nil {
			return err
		}
	}
}

func readHeader(header []string) ([]func(*PersonSpec, string) error, error) {
	if len(header) > maxColumns {
		return nil, fmt.Errorf("%w CSV: more than %d columns", ErrInvalid, maxColumns)
	}
	set := make([]func(*PersonSpec, string) error, len(header))
	seen := make(map[string]bool, len(header))
	for i, h := range header {
		name := strings.ToLower(strings.TrimSpace(h))
		if set[i] = columns[name]; set[i] == nil || seen[name] {
			return nil, fmt.Errorf("%w CSV: first row must name each column once, and %.40q is not one of: %s",
				ErrInvalid, h, columnNames)
		}
		seen[name] = true
	}
	if !seen["fullname"] && !seen["shortname"] {
		return nil, fmt.Errorf("%w CSV: the first row names neither fullname nor shortname", ErrInvalid)
	}
	return set, nil
}

func readRow(spec *PersonSpec, set []func(*PersonSpec, string) error, row []string) error {
	if len(row) != len(set) {
		return fmt.Errorf("%w row: it has %d fields, the first row has %d", ErrInvalid, len(row), len(set))
	}
	var first error
	for i, s := range row {
		if err := set[i](spec, strings.Clone(s)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// rowLimit fails when one row takes more than left bytes. Without it, an unclosed quote would fill the memory.
type rowLimit struct {
	r    io.Reader
	left int
}

var errRowTooLong = fmt.Errorf("%w CSV: a row is longer than %d bytes; is a quote not closed?", ErrInvalid, maxRow)

func (l *rowLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errRowTooLong
	}
	n, err := l.r.Read(p)
	l.left -= n
	return n, err
}

// several splits a field at semicolons and drops empty parts.
func several(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ";") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func truth(to *bool, s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "no", "false", "0", "off":
		*to = false
	case "yes", "true", "1", "on":
		*to = true
	default:
		return fmt.Errorf("%w value %.40q: yes or no is needed", ErrInvalid, s)
	}
	return nil
}

// size parses a number of bytes, or of KB, MB, GB or TB, which are powers of 1,024.
func size(to *uint64, s string) error {
	digits := strings.ToUpper(strings.TrimSpace(s))
	if digits == "" {
		return nil
	}
	shift := 0
	digits, plain := strings.CutSuffix(digits, "B")
	for i, unit := range []string{"K", "M", "G", "T"} {
		if d, ok := strings.CutSuffix(digits, unit); ok && plain {
			digits, shift = d, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
	if err != nil || n > 1<<59>>shift {
		return fmt.Errorf("%w size %.40q: bytes, or a number and KB, MB, GB or TB", ErrInvalid, s)
	}
	*to = n << shift
	return nil
}

func databaseID(s string) (note.DatabaseID, error) {
	if s = strings.TrimSpace(s); s == "" {
		return 0, nil
	}
	id, err := note.ParseDatabaseID(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return id, nil
}
