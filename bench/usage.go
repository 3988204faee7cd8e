// Package bench lets simulated people work at mail servers and measures what the servers do. It holds the error that
// its rooms share; doublet bench (cmd/doublet) puts the rooms together.
package bench

import "fmt"

// UsageError is an error in the options of a benchmark: nothing was started.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.err }

// Usage returns a UsageError with a text as fmt.Errorf formats it.
func Usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }
