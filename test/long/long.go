// Package long marks tests that take long: those that make test leaves to make test-long.
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

// Pick returns how much a test does: few, or many where long tests run.
func Pick[T any](few, many T) T {
	if On() {
		return many
	}
	return few
}
