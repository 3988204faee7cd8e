package study

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"doublet/bench/record"
	"doublet/bench/report"
)

// maxAttempts is the number of times that a job is tried until one of its runs counts.
const maxAttempts = 3

// The folders of run files in a study's folder: those that count, and the others.
const (
	runs       = "runs"
	quarantine = "quarantine"
)

// Measure measures a configuration: it writes one run file into the folder out and returns its path.
type Measure func(ctx context.Context, job *Job, out string) (path string, err error)

// Runner measures studies.
type Runner struct {
	Measure Measure
	// Tell is called with a message before and after each run.
	Tell func(format string, args ...any)
	// Enough reports whether no further run should begin, nil for never. What is missing is measured the next time.
	Enough func() bool
}

// Run measures what the folder does not have yet, and returns all runs of the study. An error of one, or the end of the
// context, ends Run; begun again, it goes on there.
func (s *Study) Run(ctx context.Context, dir string, x Runner) (entries []Entry, err error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	for _, d := range []string{runs, quarantine} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	j, err := openJournal(dir, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.file.Close()) }()
	if err := j.aside(dir); err != nil {
		return nil, err
	}
	for i, job := range s.tries() {
		n, counts := j.attempts(job)
		if counts || n >= maxAttempts {
			continue
		}
		all := len(s.cells) * s.Repeat
		if x.Enough != nil && x.Enough() {
			x.Tell("the time is over before run %d of %d; the same command goes on there", i+1, all)
			return j.Entries, nil
		}
		x.Tell("run %d of %d: %s (attempt %d)", i+1, all, job.Name, n+1)
		e, err := s.one(ctx, dir, job, x.Measure)
		if err != nil {
			return j.Entries, fmt.Errorf("%s: %w", job.Name, err)
		}
		if e.Quarantined != "" {
			x.Tell("it does not count: %s", e.Quarantined)
		}
		if err := j.add(e); err != nil {
			return j.Entries, err
		}
	}
	return j.Entries, nil
}

// tries yields each job and its place in the order, as often as it may be tried. Jobs without a run that counts are
// tried again when each configuration had its turn: a retry takes no time from a configuration that has no run yet.
func (s *Study) tries() iter.Seq2[int, *Job] {
	return func(yield func(int, *Job) bool) {
		jobs := s.order()
		for first := 0; first < len(jobs); first += len(s.cells) {
			for range maxAttempts {
				for i := first; i < first+len(s.cells); i++ {
					if !yield(i, &jobs[i]) {
						return
					}
				}
			}
		}
	}
}

// makeFolder makes the folder of a study and those above it, if they are not there. The servers of others in it run
// under accounts of their own, which may enter these folders and not list them.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := makeFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711) //nolint:gosec // see above; the process has a mask of 077
}

// one measures a job, and sets its run aside if it does not count.
func (s *Study) one(ctx context.Context, dir string, job *Job, measure Measure) (e Entry, err error) {
	path, err := measure(ctx, job, filepath.Join(dir, runs))
	if err == nil {
		err = ctx.Err() // a run that was interrupted is measured anew
	}
	if err != nil {
		return e, err
	}
	r, err := record.ReadFile(path)
	if err != nil {
		return e, err
	}
	e = Entry{Index: job.Index, Repeat: job.Repeat, Name: job.Name, Quarantined: s.fault(r)}
	e.File = filepath.Join(runs, filepath.Base(path))
	if e.Quarantined != "" {
		e.File = filepath.Join(quarantine, filepath.Base(path))
		err = os.Rename(path, filepath.Join(dir, e.File))
	}
	return e, err
}

// fault returns the reason why a run says nothing about its configuration, "" if it does. That a server is too slow for
// its people is a result, and no fault.
func (s *Study) fault(r *record.Run) string {
	if r.End == nil || len(r.Steps) == 0 {
		return "the run was cut off"
	}
	for i := range r.Steps {
		x := &r.Steps[i]
		switch x.Outcome {
		case record.Unsteady, record.DriverBound, record.Interrupted:
			return fmt.Sprintf("%d users: %s: %s", x.Users, x.Outcome, x.Reason)
		}
		if share, ok := report.Strangers(r, x); ok && share > s.Strangers {
			return fmt.Sprintf("%d users: other programs used %.0f %% of the processors, at most %.0f %% may be",
				x.Users, share*100, s.Strangers*100)
		}
	}
	return ""
}
