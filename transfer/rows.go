package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/env"
)

// Rows selects a CSV file of people to add.
type Rows struct {
	File string
	// SCRAM stores SCRAM-SHA-256 credentials if the file has no column for it.
	SCRAM bool
}

// AddedRows counts the people that were added. Errors has a line for each row that was skipped.
type AddedRows struct {
	Added, Failed int
	Errors        []string
}

// Sizes of imports of rows: rows per call, rows with a reported error, and the bytes that are searched for the header
// row.
const (
	bulkRows   = 500
	bulkErrors = 1000
	bulkHeader = 64 << 10
)

// bulk imports rows of CSV into the directory.
type bulk struct {
	*Job
	scram bool // for every row, if the file has no column for it
	specs []directory.PersonSpec
	lines []int
	out   AddedRows
	bad   []directory.RowError
}

// Rows adds the people in a CSV file. It skips rows with errors.
func (j *Job) Rows(ctx context.Context, a *Rows) (AddedRows, error) {
	f, _, err := env.OpenRegular(j.env.FS, a.File)
	if err != nil {
		return AddedRows{}, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, bulkHeader)
	header, _ := in.Peek(bulkHeader) // the CSV reader reports errors of the file
	b := &bulk{Job: j, scram: !hasColumn(header, "scram") && a.SCRAM}
	err = directory.ReadPeople(in, func(line int, spec directory.PersonSpec, err error) error {
		if err != nil {
			b.fail(directory.RowError{Row: line, Name: cmp.Or(spec.Name(), spec.ShortName), Err: err})
			return nil
		}
		spec.Scram = spec.Scram || b.scram
		b.specs, b.lines = append(b.specs, spec), append(b.lines, line)
		if len(b.specs) < bulkRows {
			return nil
		}
		return b.flush(ctx)
	})
	// Import the rows that were read before an error. The result reports how far it came.
	err = errors.Join(b.flush(ctx), err)
	slices.SortStableFunc(b.bad, func(a, b directory.RowError) int { return a.Row - b.Row })
	for _, e := range b.bad {
		b.out.Errors = append(b.out.Errors, fmt.Sprintf("line %d (%s): %v", e.Row, e.Name, e.Err))
	}
	if err != nil && b.out.Added > 0 {
		err = fmt.Errorf("after %d people were added: %w", b.out.Added, err)
	}
	return b.out, err
}

// hasColumn reports whether the first row of CSV contains a column name.
func hasColumn(head []byte, name string) bool {
	row, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), []byte{'\n'})
	for column := range strings.SplitSeq(string(row), ",") {
		if strings.EqualFold(strings.Trim(column, " \t\r\""), name) {
			return true
		}
	}
	return false
}

func (b *bulk) fail(e directory.RowError) {
	b.out.Failed++
	if len(b.bad) < bulkErrors {
		b.bad = append(b.bad, e)
	}
}

// flush adds the collected rows.
func (b *bulk) flush(ctx context.Context) error {
	if len(b.specs) == 0 {
		return nil
	}
	res, err := b.directory.People.Import(ctx, b.who, b.specs, directory.ImportOptions{})
	b.out.Added += res.Added
	for _, e := range res.Errors { // complete: a chunk is smaller than the directory's limit of errors
		if e.Name == "" {
			e.Name = b.specs[e.Row].ShortName
		}
		e.Row = b.lines[e.Row]
		b.fail(e)
	}
	b.specs, b.lines = b.specs[:0], b.lines[:0]
	b.progress(Progress{Stage: "people", Done: uint64(b.out.Added + b.out.Failed)})
	return err
}
