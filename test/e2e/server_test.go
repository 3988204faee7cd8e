// Package e2e runs the built program and lets programs that nobody here wrote work against it.
package e2e

import (
	"testing"

	"doublet/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }

// server is the program with what the clients of these tests do to it.
type server struct{ *program.Server }

func demo(t *testing.T) *server {
	t.Helper()
	return &server{program.Demo(t)}
}
