package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"doublet/note"
)

// Sizes of bulk imports.
const (
	importBatch   = 500  // people in one commit
	importWorkers = 8    // concurrent password hashes and mail file creations
	importErrors  = 1000 // maximum number of errors in the result
)

// RowError reports a row that was not imported. Row is the index of the person, from 0; for CSV it is the line.
type RowError struct {
	Row  int
	Name string
	Err  error
}

func (e RowError) Error() string { return fmt.Sprintf("row %d (%s): %v", e.Row, e.Name, e.Err) }

// ImportOptions are the settings of an import.
type ImportOptions struct {
	// NoMailFiles assigns ids of mail files, but leaves their creation to EnsureMailFile.
	NoMailFiles bool
	// Progress is called after each commit.
	Progress func(ImportResult)
}

// ImportResult is the result of an import.
type ImportResult struct {
	Added, Failed int
	// Errors holds the errors of the first 1,000 rows that failed.
	Errors []RowError
}

func (r *ImportResult) fail(e RowError) {
	r.Failed++
	if len(r.Errors) < importErrors {
		r.Errors = append(r.Errors, e)
	}
}

// Import adds many people, 500 in each commit. It skips a row that is invalid or whose names are taken, and reports it
// in the result. An error means that the import stopped early; the people that Added counts were added. Mail files are
// created after the commit. EnsureMailFile creates those that a crash in between left out.
func (ps *People) Import(ctx context.Context, who note.Who, specs []PersonSpec, o ImportOptions) (ImportResult, error) {
	var res ImportResult
	if err := RequireAdmin(who); err != nil {
		return res, err
	}
	rows := make([]int, 0, importBatch)
	for i := 0; i < len(specs); i += importBatch {
		chunk := specs[i:min(i+importBatch, len(specs))]
		rows = rows[:0]
		for j := range chunk {
			rows = append(rows, i+j)
		}
		if err := ps.importChunk(ctx, who, chunk, rows, o, &res); err != nil {
			return res, err
		}
	}
	return res, nil
}

// ImportCSV adds people from CSV, see ReadPeople. It reads in batches, so the input may have any length.
func (ps *People) ImportCSV(ctx context.Context, who note.Who, r io.Reader, o ImportOptions) (ImportResult, error) {
	var res ImportResult
	if err := RequireAdmin(who); err != nil {
		return res, err
	}
	var specs []PersonSpec
	var rows []int
	flush := func() error {
		err := ps.importChunk(ctx, who, specs, rows, o, &res)
		specs, rows = specs[:0], rows[:0]
		return err
	}
	err := ReadPeople(r, func(line int, spec PersonSpec, err error) error {
		if err != nil {
			res.fail(RowError{line, spec.Name(), err})
			return nil
		}
		specs, rows = append(specs, spec), append(rows, line)
		if len(specs) < importBatch {
			return nil
		}
		return flush()
	})
	// Import the rows that were read before an error. The result reports how far it came.
	return res, errors.Join(flush(), err)
}

// add counts a row. refused is the reason why it was not added. It returns an error if the person was added, but not
// the mail file.
func (res *ImportResult) add(row int, name string, refused, file error) error {
	if refused != nil {
		res.fail(RowError{row, name, refused})
		return nil
	}
	res.Added++
	if file != nil {
		return fmt.Errorf("directory: import: row %d was added: %w", row, file)
	}
	return nil
}

func (ps *People) importChunk(ctx context.Context, who note.Who, specs []PersonSpec, rows []int, o ImportOptions,
	res *ImportResult) error {
	if len(specs) == 0 {
		return nil
	}
	people, errs := make([]*newPerson, len(specs)), make([]error, len(specs))
	ps.parallel(len(specs), func(i int) { people[i], errs[i] = ps.prepare(ctx, &specs[i]) })
	if err := ctx.Err(); err != nil {
		return err
	}
	err := ps.update(ctx, who, func(e *edit) error {
		for i, n := range people {
			if errs[i] != nil {
				continue
			}
			errs[i] = e.addPerson(n)
			if errs[i] != nil && !errors.Is(errs[i], ErrNameTaken) {
				return errs[i]
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("directory: import: %w", err)
	}
	files := make([]error, len(specs))
	if !o.NoMailFiles && ps.opt.MailFiles != nil {
		ps.parallel(len(specs), func(i int) {
			if errs[i] == nil {
				files[i] = ps.makeMailFile(ctx, people[i])
			}
		})
	}
	for i := range specs {
		if err := res.add(rows[i], specs[i].Name(), errs[i], files[i]); err != nil {
			return err
		}
	}
	if o.Progress != nil {
		o.Progress(*res)
	}
	return nil
}

// parallel calls fn for 0 to n-1 with at most importWorkers goroutines, and returns when all calls are done.
func (ps *People) parallel(n int, fn func(i int)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(n, importWorkers) {
		wg.Add(1)
		ps.env.Go("directory import", func() {
			defer wg.Done()
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				fn(i)
			}
		})
	}
	wg.Wait()
}
