// Package attack holds attacks on the running program, one file for each aim. An attack passes as a test when it fails as an
// attack. doc/security.md names the fence that each of them proves.
package attack

import (
	"testing"

	"doublet/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }
