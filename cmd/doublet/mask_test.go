//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPrivateMask: what is made while a socket is, by whomever, is for this account alone, and of use to it. It is not
// parallel: the mask is the process's.
func TestPrivateMask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "meanwhile")
	restore := privateMask()
	err := os.MkdirAll(dir, 0o755)
	restore()
	if err != nil {
		t.Fatal(err)
	}
	i, err := os.Stat(dir)
	if err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", i, err)
	}
}
