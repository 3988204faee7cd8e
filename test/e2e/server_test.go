// Package e2e runs the built program and tests it with foreign programs.
package e2e

import (
	"testing"

	"doublet/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }

// server is the program, with the methods of the clients in these tests.
type server struct{ *program.Server }

func demo(t *testing.T) *server {
	t.Helper()
	return &server{program.Demo(t)}
}
