//go:build unix

package main

import "syscall"

// privateMask lets files be made for this account alone until restore is called. The mask is the whole process's: a
// folder that another goroutine makes meanwhile must stay one that can be entered, so it takes nothing from the owner.
func privateMask() (restore func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}
