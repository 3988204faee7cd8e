// Package long marks long tests, which make test skips and make test-long runs.
package long

import (
	"os"
	"testing"
)

// On reports whether long tests run: make test-long sets LONG=1.
func On() bool { return os.Getenv("LONG") != "" }

// Test skips the test unless long tests run.
func Test(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("long: make test-long runs it")
	}
}

// Pick returns the amount of work for a test: many if long tests run, else few.
func Pick[T any](few, many T) T {
	if On() {
		return many
	}
	return few
}
