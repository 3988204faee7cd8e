// Package attack holds attacks on the running program, one file for each target. A test passes if its attack fails.
// doc/security.md names the defence that each of them tests.
package attack

import (
	"testing"

	"doublet/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }
