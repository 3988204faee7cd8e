// Package slow records what the program did around an operation that took long. The runtime keeps an execution trace of
// the last seconds; when an operation takes longer than allowed, the trace is saved. `go tool trace` shows it: which
// goroutine waited for which, collections, system calls.
package slow

import (
	"errors"
	"fmt"
	"io"
	"runtime/trace"
	"slices"
	"strings"
	"time"

	"doublet/env"
)

// Options are the settings of a Recorder.
type Options struct {
	// Dir is the folder of the traces.
	Dir string
	// Over is the time from which an operation is slow.
	Over time.Duration
}

const (
	// keep is the number of traces that stay; the oldest are removed.
	keep = 10
	// every is the least time between two traces, so that a slow hour costs little.
	every = time.Minute
	// age and size bound the trace that is kept in memory.
	age  = 5 * time.Second
	size = 16 << 20
)

// The names of traces: a prefix, the time in UTC, the operation, a suffix.
const (
	prefix = "slow-"
	suffix = ".trace"
)

// operation is one that took long.
type operation struct {
	name  string
	took  time.Duration
	ended time.Time
}

// Recorder saves traces of slow operations. Its methods may be called from any goroutine. A nil Recorder does nothing.
type Recorder struct {
	env    *env.Env
	o      Options
	flight flight
	found  chan operation
	stop   chan struct{}
	done   chan struct{}
	// next is the time from which an operation is saved again. It is used by run alone.
	next time.Time
}

// flight is a recording of the last seconds: the runtime's, or one of a test.
type flight interface {
	WriteTo(w io.Writer) (int64, error)
	Stop()
}

// New starts a recorder. The runtime allows one in a process.
func New(e *env.Env, o Options) (*Recorder, error) {
	f := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: age, MaxBytes: size})
	if err := f.Start(); err != nil {
		return nil, fmt.Errorf("trace of slow operations: %w", err)
	}
	r, err := start(e, o, f)
	if err != nil {
		f.Stop()
	}
	return r, err
}

func start(e *env.Env, o Options, f flight) (*Recorder, error) {
	if err := e.FS.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("trace of slow operations: %w", err)
	}
	r := &Recorder{env: e, o: o, flight: f, found: make(chan operation, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
	e.Go("slow operations", r.run)
	return r, nil
}

// Observe records the duration of an operation that has just ended. It does not wait.
func (r *Recorder) Observe(name string, took time.Duration) {
	if r == nil || took < r.o.Over {
		return
	}
	select {
	case r.found <- operation{name, took, r.env.Clock.Now()}:
	default: // one is being saved
	}
}

// Close saves what was observed, and ends the recording.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	close(r.stop)
	<-r.done
	r.flight.Stop()
	return nil
}

func (r *Recorder) run() {
	defer close(r.done)
	for {
		select {
		case op := <-r.found:
			r.take(op)
		case <-r.stop:
			select {
			case op := <-r.found:
				r.take(op)
			default:
			}
			return
		}
	}
}

// take saves the trace of an operation, unless one was saved just before.
func (r *Recorder) take(op operation) {
	if op.ended.Before(r.next) {
		return
	}
	file, err := r.save(op)
	r.next = r.env.Clock.Now().Add(every)
	if err != nil {
		r.env.Log.Warn("slow operation, whose trace cannot be saved", "operation", op.name, "took", op.took, "err", err)
		return
	}
	r.env.Log.Warn("slow operation", "operation", op.name, "took", op.took, "trace", file)
}

// save writes the recording, and removes the oldest ones.
func (r *Recorder) save(op operation) (file string, err error) {
	name := prefix + op.ended.UTC().Format("20060102T150405.000Z") + "-" + strings.Map(plain, op.name) + suffix
	file = r.env.FS.PathJoin(r.o.Dir, name)
	f, err := r.env.FS.Create(file, "")
	if err != nil {
		return "", err
	}
	_, err = r.flight.WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, r.env.FS.Remove(file))
	}
	return file, r.tidy()
}

// plain keeps letters and digits of the name of an operation, such as Email/query.
func plain(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
		return c
	}
	return '-'
}

func (r *Recorder) tidy() error {
	names, err := r.env.FS.List(r.o.Dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasPrefix(n, prefix) || !strings.HasSuffix(n, suffix)
	})
	slices.Sort(names)
	for len(names) > keep {
		if err := r.env.FS.Remove(r.env.FS.PathJoin(r.o.Dir, names[0])); err != nil {
			return err
		}
		names = names[1:]
	}
	return nil
}
