//go:build unix

package main

import "syscall"

// ownFilesOnly restricts all files and folders that this process creates to its own account. Nearly all of them hold
// mail, and libraries create many with modes of their own. The umask is never changed back: it belongs to the whole
// process, so another goroutine could create a file in the meantime.
func ownFilesOnly() { syscall.Umask(0o077) }
