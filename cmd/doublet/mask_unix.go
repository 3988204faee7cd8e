//go:build unix

package main

import "syscall"

// privateMask lets files be made for this account alone until restore is called.
func privateMask() (restore func()) {
	old := syscall.Umask(0o177)
	return func() { syscall.Umask(old) }
}
